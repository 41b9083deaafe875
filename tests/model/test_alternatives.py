import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import random_network
from sets import allowed, conditioned_table, with_sets

import noisyor as nor
from noisyor.errors import InvalidDataError, NoisyOrError
from noisyor.inference.exact import hidden_configurations

NETWORK = nor.bipartite(2, 4, prior_probability=[0.1, 0.2, 0.3, 0.4], alternatives=[0, -1, 0, 1])


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000))
def test_priors_are_those_of_the_definition(seed):
    network = with_sets(random_network(seed), seed)
    states = hidden_configurations(network.n_hidden)
    p = np.exp(conditioned_table(network, states, np.full((1, network.n_visible), np.nan))[0])
    assert p.sum() == pytest.approx(1.0)
    roots = np.diff(network.child_ptr)[network.n_visible :] == 0
    np.testing.assert_allclose(network.prior_probability[roots], (p @ states)[roots], rtol=1e-9)
    leak = network.theta[network.leak_param[network.n_visible :]]
    assert network.sets.log_all_off(leak) == pytest.approx(np.log(p[0]))
    np.testing.assert_allclose(
        network.sets.theta_from_prior(network.prior_probability), np.maximum(leak, 1e-5), rtol=1e-6
    )


def test_states_with_two_alternatives_on_are_found():
    network = with_sets(random_network(4, max_hidden=7), 4)
    states = hidden_configurations(network.n_hidden)
    np.testing.assert_array_equal(network.sets.broken(states), ~allowed(network, states))
    assert not nor.bipartite(2, 3).sets.broken(states[:, :3]).any()


def test_evidence_on_one_switches_the_others_off():
    evidence = np.array([[1, 2, 2, 2], [0, 1, 2, 1], [2, 2, 2, 0]], dtype=np.uint8)
    found = NETWORK.sets.complete(evidence)
    np.testing.assert_array_equal(found, [[1, 2, 0, 2], [0, 1, 2, 1], [2, 2, 2, 0]])
    assert evidence[0, 2] == 2
    with pytest.raises(InvalidDataError, match=r"at most one node is on.*row 0.*\[0, 2, 3\]"):
        NETWORK.sets.complete(np.ones((1, 4), dtype=np.uint8))


def test_explaining_with_evidence():
    found = nor.explain(NETWORK, np.array([[1, 1]]), hidden={2: 1})
    assert found.states.toarray()[0, [0, 2]].tolist() == [0, 1]
    with pytest.raises(NoisyOrError, match="at most one node"):
        nor.explain(NETWORK, np.array([[1, 1]]), hidden={0: 1, 2: 1})


def test_the_set_of_a_node():
    assert NETWORK.sets.rivals(2) == [0]
    assert NETWORK.sets.rivals(1) == NETWORK.sets.rivals(3) == []
    assert NETWORK.sets.of_some(np.array([1, 3])).tolist() == [-1, 0]
    assert repr(NETWORK).endswith("sets=2)")
    assert "sets" not in repr(nor.bipartite(2, 2))
