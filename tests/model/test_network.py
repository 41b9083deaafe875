"""Networks: what is checked, parameters, and the part that matters for a row."""

from __future__ import annotations

import dataclasses
import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_networks import random_network

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, InvalidNetworkError, NoisyOrError
from noisyor.inference.exact import enumerate_posterior
from noisyor.model.builders import bipartite
from noisyor.model.network import (
    THETA_MIN,
    Network,
    failure_from_theta,
    probability_from_theta,
    relevant_subnetwork,
    theta_from_failure,
    theta_from_probability,
)

# v0 <- h0, h1    v1 <- h1, h2    v2 <- h0    h0 <- h2    h1 <- h2, h3    h2 <- h3
CHILDREN = {0: [0, 1], 1: [1, 2], 2: [0], 3: [2], 4: [2, 3], 5: [3], 6: []}


def fields(children: dict[int, list[int]] = CHILDREN, n_visible: int = 3) -> dict:
    """Constructor arguments of the network with these parents, one parameter per edge and leak."""
    n_nodes = len(children)
    parent = [k for node in range(n_nodes) for k in children[node]]
    n_edges = len(parent)
    theta = np.linspace(0.1, 2.0, n_edges + n_nodes)
    return {
        "n_visible": n_visible,
        "n_hidden": n_nodes - n_visible,
        "child_ptr": np.cumsum([0] + [len(children[node]) for node in range(n_nodes)]),
        "parent": parent,
        "param": np.arange(n_edges),
        "leak_param": n_edges + np.arange(n_nodes),
        "theta": theta,
        "free": np.ones(len(theta), dtype=bool),
    }


@pytest.fixture
def network() -> Network:
    groups = {"failure": np.arange(9), "noise": np.arange(9, 12), "prior": np.arange(12, 16)}
    return Network(**fields(), groups=groups)


class TestNetwork:
    def test_sizes(self, network):
        assert (network.n_nodes, network.n_edges, network.n_params) == (7, 9, 16)
        assert network.visible_shape == (3,)
        assert repr(network) == (
            "Network(n_visible=3, n_hidden=4, layers=3, edges=9, parameters=16, free=16)"
        )

    def test_arrays_are_copies_that_nobody_can_change(self):
        arguments = fields()
        network = Network(**arguments)
        arguments["theta"][0] = 77.0
        assert network.theta[0] != 77.0
        for name in ("child_ptr", "parent", "param", "leak_param", "theta", "free"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(network, name)[0] = 0
        with pytest.raises(dataclasses.FrozenInstanceError):
            network.n_visible = 5

    def test_edge_child_undoes_child_ptr(self, network):
        assert network.edge_child.tolist() == [0, 0, 1, 1, 2, 3, 4, 4, 5]

    def test_outgoing_lists_the_edges_of_every_parent(self, network):
        ptr, edge = network.outgoing
        assert ptr.tolist() == [0, 2, 4, 7, 9]
        assert sorted(edge.tolist()) == list(range(9))
        for k in range(4):
            mine = edge[ptr[k] : ptr[k + 1]]
            assert (network.parent[mine] == k).all()
            assert (np.diff(mine) > 0).all()

    def test_hidden_levels_are_longest_paths(self, network):
        assert network.hidden_levels.tolist() == [2, 2, 1, 0]
        assert network.n_layers == 3

    def test_levels_of_a_shortcut(self):
        # h0 <- h1 <- h2 and h0 <- h2: the long way counts
        network = Network(**fields({0: [0], 1: [1, 2], 2: [2], 3: []}, n_visible=1))
        assert network.hidden_levels.tolist() == [2, 1, 0]

    def test_roles(self):
        arguments = fields()
        arguments["theta"] = np.append(arguments["theta"], 1.0)
        arguments["free"] = np.append(arguments["free"], True)
        arguments["leak_param"][6] = 8  # the prior of hidden 3 is tied to an edge
        roles = Network(**arguments).roles
        assert roles[:9].tolist() == ["failure"] * 9
        assert roles[9:12].tolist() == ["noise"] * 3
        assert roles[12:15].tolist() == ["prior"] * 3
        assert roles[15:].tolist() == ["unused"] * 2

    def test_with_theta_shares_the_structure(self, network):
        levels = network.hidden_levels
        other = network.with_theta(np.full(16, 0.5))
        assert (other.theta == 0.5).all()
        assert network.theta[0] == pytest.approx(0.1)
        assert other.parent is network.parent
        assert other.child_ptr is network.child_ptr
        assert other.hidden_levels is levels
        with pytest.raises(ValueError, match="read-only"):
            other.theta[0] = 1

    def test_with_theta_copies_its_argument(self, network):
        values = np.full(16, 0.5)
        other = network.with_theta(values)
        values[:] = 9
        assert (other.theta == 0.5).all()

    @pytest.mark.parametrize("theta", [np.ones(15), np.ones((16, 1)), 1.0])
    def test_with_theta_of_another_shape(self, network, theta):
        with pytest.raises(InvalidNetworkError, match=re.escape("shape (16,), got")):
            network.with_theta(theta)

    @pytest.mark.parametrize("bad", [-0.1, np.nan, np.inf])
    def test_with_theta_that_is_no_parameter(self, network, bad):
        theta = np.ones(16)
        theta[3] = bad
        with pytest.raises(InvalidNetworkError, match=r"theta\[3\] is"):
            network.with_theta(theta)

    def test_groups(self, network):
        assert network.theta_of("prior").tolist() == network.theta[12:].tolist()
        with pytest.raises(InvalidNetworkError, match=r"'leak'.*\['failure', 'noise', 'prior'\]"):
            network.group("leak")

    def test_probabilities(self, network):
        np.testing.assert_allclose(network.failure_probability, np.exp(-network.theta[:9]))
        np.testing.assert_allclose(network.noise_probability, 1 - np.exp(-network.theta[9:12]))
        np.testing.assert_allclose(network.prior_probability, 1 - np.exp(-network.theta[12:]))

    def test_failure_probability_takes_the_shape_of_its_group(self):
        grouped = Network(**fields(), groups={"failure": np.arange(9).reshape(3, 3)})
        assert grouped.failure_probability.shape == (3, 3)
        assert Network(**fields()).failure_probability.shape == (9,)

    def test_lookup_by_name_and_number(self):
        network = Network(**fields(), visible_names=("a", "b", "c"), hidden_names=list("wxyz"))
        assert network.visible_index("b") == network.visible_index(1) == 1
        assert network.hidden_index("z") == network.hidden_index(np.int64(3)) == 3
        with pytest.raises(InvalidNetworkError, match="'w'"):
            network.visible_index("w")
        with pytest.raises(InvalidNetworkError, match="hidden node 4"):
            network.hidden_index(4)


class TestRejected:
    """Every error is an InvalidNetworkError that names the offending piece."""

    def reject(self, message: str, **changes):
        with pytest.raises(InvalidNetworkError, match=message) as caught:
            Network(**{**fields(), **changes})
        assert isinstance(caught.value, NoisyOrError)

    def test_cycle(self):
        children = {0: [0], 1: [1], 2: [2], 3: [0], 4: []}  # h0 <- h1 <- h2 <- h0
        with pytest.raises(InvalidNetworkError, match=r"cycle.*\[0, 1, 2\]"):
            Network(**fields(children, n_visible=1))

    def test_cycle_of_one(self):
        with pytest.raises(InvalidNetworkError, match=r"cycle.*\[0\]"):
            Network(**fields({0: [0], 1: [0]}, n_visible=1))

    def test_duplicate_edge_to_a_visible(self):
        with pytest.raises(InvalidNetworkError, match=r"hidden 1.*visible 0"):
            Network(**fields({**CHILDREN, 0: [1, 0, 1]}))

    def test_duplicate_edge_to_a_hidden(self):
        with pytest.raises(InvalidNetworkError, match=r"hidden 3.*hidden 1"):
            Network(**fields({**CHILDREN, 4: [3, 3]}))

    def test_visible_parent(self):
        with pytest.raises(InvalidNetworkError, match=r"edge 2.*5"):
            Network(**fields({**CHILDREN, 1: [5, 1]}))
        with pytest.raises(InvalidNetworkError, match=r"edge 4.*-1"):
            Network(**fields({**CHILDREN, 2: [-1]}))

    def test_hidden_without_visible_descendant(self):
        # h2 <- h3 hang together but reach nothing
        with pytest.raises(InvalidNetworkError, match=r"2 hidden nodes.*\[2, 3\]"):
            Network(**fields({0: [0], 1: [1], 2: [], 3: [], 4: [3], 5: []}, n_visible=2))

    @pytest.mark.parametrize("bad", [-1e-9, np.nan, np.inf, 1e20])
    def test_theta(self, bad):
        theta = fields()["theta"]
        theta[5] = bad
        self.reject(r"parameters must lie in 0\.\.1e\+06, theta\[5\] is", theta=theta)

    def test_theta_in_two_dimensions(self):
        self.reject(re.escape("shape (16,), got (16, 1)"), theta=np.ones((16, 1)))

    def test_sizes(self):
        self.reject(
            "at least one visible and one hidden node, got 7 and 0", n_visible=7, n_hidden=0
        )
        self.reject("got 0 and 7", n_visible=0, n_hidden=7)

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("child_ptr", np.zeros(7), "child_ptr has 7 entries, expected 8"),
            ("param", np.zeros(8), "param has 8 entries, expected 9"),
            ("leak_param", np.zeros(6), "leak_param has 6 entries, expected 7"),
            ("free", np.ones(3), "free has 3 entries, expected 16"),
            ("visible_shape", (2, 2), "visible_shape has 4 entries, expected 3"),
            ("visible_names", ("a", "b"), "visible_names has 2 entries, expected 3"),
            ("hidden_names", ("a", "b"), "hidden_names has 2 entries, expected 4"),
        ],
    )
    def test_length(self, name, value, message):
        self.reject(message, **{name: value})

    @pytest.mark.parametrize(
        "ptr",
        [[1, 2, 4, 5, 6, 8, 9, 9], [0, 2, 4, 5, 6, 8, 8, 8], [0, 2, 1, 5, 6, 8, 9, 9]],
        ids=["start", "end", "falling"],
    )
    def test_child_ptr(self, ptr):
        self.reject("child_ptr must rise from 0 to the number of edges", child_ptr=ptr)

    def test_names_occur_once(self):
        self.reject(
            "visible_names must be distinct, 'a' occurs twice", visible_names=("a", "b", "a")
        )
        self.reject("hidden_names must be distinct, 'b'", hidden_names=("a", "b", "c", "b"))

    @pytest.mark.parametrize("entry", [-1, 16])
    def test_index_outside_theta(self, entry):
        param, leak = fields()["param"], fields()["leak_param"]
        param[1] = leak[1] = entry
        self.reject("^param points outside theta.*0..15", param=param)
        self.reject("leak_param points outside theta", leak_param=leak)
        self.reject("group 'noise' points outside theta", groups={"noise": [0, entry]})


def test_pickling_leaves_out_what_engines_derived():
    network = bipartite(3, 2)
    network.engine_cache["some engine"] = object()
    copied = pickle.loads(pickle.dumps(network))
    assert copied.engine_cache == {}
    np.testing.assert_array_equal(copied.theta, network.theta)
    assert network.with_theta(network.theta).engine_cache is network.engine_cache


# ---- parameters


@given(st.floats(1e-300, 0.9999))
def test_failure_probability_survives_the_round_trip(failure):
    assert failure_from_theta(theta_from_failure(failure)) == pytest.approx(failure, rel=1e-12)


@given(st.floats(1.1e-5, 0.999999))
def test_probability_survives_the_round_trip(probability):
    theta = theta_from_probability(probability)
    assert probability_from_theta(theta) == pytest.approx(probability, rel=1e-9)


@given(st.floats(THETA_MIN, 30))
def test_theta_survives_the_round_trip(theta):
    assert theta_from_failure(failure_from_theta(theta)) == pytest.approx(theta, rel=1e-10)
    assert theta_from_probability(probability_from_theta(theta)) == pytest.approx(
        theta, rel=1e-3 if theta > 20 else 1e-6
    )


@given(st.floats(0, 1))
def test_theta_is_finite_and_at_least_the_minimum_for_every_probability(probability):
    for theta in (theta_from_failure(probability), theta_from_probability(probability)):
        assert THETA_MIN <= theta < 1000


def test_probabilities_of_the_paper():
    assert theta_from_failure(0.1) == pytest.approx(2.302585)
    assert theta_from_probability(0.01) == pytest.approx(-np.log(0.99))
    assert theta_from_failure(1.0) == theta_from_probability(0.0) == THETA_MIN


def test_shape_is_kept():
    assert theta_from_failure(np.full((2, 3), 0.5)).shape == (2, 3)


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan, np.inf])
def test_no_probability(value):
    with pytest.raises(InvalidNetworkError, match="failure probability must lie between 0 and 1"):
        theta_from_failure([0.5, value])
    with pytest.raises(InvalidNetworkError, match=r"between 0 and 1.*\(1 such values\)"):
        theta_from_probability([0.5, value])


# ---- subnetworks


@pytest.mark.parametrize("seed", range(8))
def test_leaving_out_barren_nodes_changes_no_posterior(seed):
    network = random_network(seed, max_hidden=6)
    observed = int(np.diff(network.child_ptr)[: network.n_visible].argmax())
    row = Observations.from_evidence(network.n_visible, [observed])
    part = relevant_subnetwork(network, row)
    assert part.visible.tolist() == [observed]
    whole = enumerate_posterior(network, row).marginals[0]
    np.testing.assert_allclose(
        enumerate_posterior(part.network, part.row).marginals[0], whole[part.hidden], atol=1e-12
    )


def test_a_network_that_is_relevant_as_a_whole_stays_as_it_is():
    network = nor.bipartite(3, 2)
    part = relevant_subnetwork(network, Observations.of(np.zeros((1, 3))))
    assert part.network is network


def test_nothing_observed():
    with pytest.raises(InvalidDataError, match="nothing was observed"):
        relevant_subnetwork(nor.bipartite(3, 2), Observations.from_evidence(3, []))
