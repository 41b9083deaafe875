"""The model run forwards: samples, marginals, Boolean products."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import random_network

import noisyor as nor
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.exact import hidden_configurations, log_joint_table
from noisyor.model.forward import boolean_product, edge_matrix, prior_marginals


@pytest.mark.parametrize("seed", range(4))
def test_samples_follow_the_joint_distribution(seed):
    network = random_network(seed, max_hidden=4, max_visible=3, scale=0.6)
    n = 20_000
    drawn = nor.sample(network, n, seed=seed)
    states = hidden_configurations(network.n_hidden)
    visibles = hidden_configurations(network.n_visible)
    joint = np.exp(log_joint_table(network, states, visibles.astype(float)))  # (visibles, states)
    assert joint.sum() == pytest.approx(1.0)
    place = 1 << np.arange(network.n_hidden - 1, -1, -1)
    of_hidden = drawn.hidden.toarray() @ place
    of_visible = drawn.visible.toarray() @ (1 << np.arange(network.n_visible - 1, -1, -1))
    counts = np.zeros(joint.shape)
    np.add.at(counts, (of_visible, of_hidden), 1)
    error = np.abs(counts / n - joint)
    assert (error <= 5 * np.sqrt(joint * (1 - joint) / n) + 1e-4).all()


def test_more_rows_leave_the_first_as_they_were(monkeypatch):
    network = random_network(7)
    many = nor.sample(network, 50, seed=3)
    monkeypatch.setattr("noisyor.model.forward._BLOCK_CELLS", 4 * network.n_nodes)
    few = nor.sample(network, 20, seed=3)
    np.testing.assert_array_equal(many.hidden.toarray()[:20], few.hidden.toarray())
    np.testing.assert_array_equal(many.visible.toarray()[:20], few.visible.toarray())
    other = nor.sample(network, 50, seed=4)
    assert (other.visible != many.visible).nnz > 0


@pytest.mark.long
def test_many_hidden_nodes_take_no_dense_matrix():
    n = 3000  # a dense matrix of their edges would have 9 million numbers
    network = nor.from_edges(
        1,
        n,
        [(k, 0) for k in range(n)],
        [(k + 1, k) for k in range(n // 2)],
        failure_probability=0.5,
        prior_probability=0.01,
    )
    nor.sample(network, 2)
    tracemalloc.start()
    try:
        assert nor.sample(network, 2).hidden.shape == (2, n)
        assert tracemalloc.get_traced_memory()[1] < 8 * n * n / 4
    finally:
        tracemalloc.stop()


def test_visible_probability_is_the_noisy_or():
    network = nor.bipartite(
        2, 2, failure_probability=[[0.5, 1.0], [0.2, 0.4]], noise_probability=0.1
    )
    probability = nor.model.visible_probability(network, [[0, 0], [1, 0], [1, 1]])
    floor = 1 - 0.9 * np.exp(-1e-5)  # a failure of one is kept at the smallest parameter
    np.testing.assert_allclose(
        probability,
        [[0.1, 0.1], [1 - 0.9 * 0.5, floor], [1 - 0.9 * 0.1, 1 - 0.9 * np.exp(-1e-5) * 0.4]],
    )


def test_wrong_arguments():
    network = nor.bipartite(2, 2)
    with pytest.raises(InvalidSettingError, match="n_rows must be 1"):
        nor.sample(network, 0)
    with pytest.raises(InvalidDataError, match=r"\(n_rows, 2\)"):
        nor.model.visible_probability(network, [[1, 0, 1]])


def test_prior_marginals_are_how_often_hidden_nodes_are_on():
    network = nor.from_edges(
        2,
        5,
        [(0, 0), (1, 1)],
        [(2, 0), (3, 0), (3, 1), (4, 3)],
        failure_probability=[0.5, 0.5, 0.2, 0.6, 0.3, 0.4],
        prior_probability=[0.1, 0.2, 0.3, 0.1, 0.5],
    )
    found = prior_marginals(network)
    drawn = np.asarray(nor.sample(network, 20_000, seed=5).hidden.mean(axis=0)).ravel()
    np.testing.assert_allclose(found, drawn, atol=0.015)
    # Of a node whose probability is known, only what it leads to follows.
    known = prior_marginals(network, np.array([3]), np.array([1.0]))
    assert known[[2, 3, 4]].tolist() == pytest.approx([0.3, 1.0, 0.5])
    assert known[1] == pytest.approx(1 - 0.8 * 0.3)


def test_the_edge_matrix_holds_every_edge_once():
    network = random_network(3)
    theta = edge_matrix(network)
    assert theta.shape == (network.n_nodes, network.n_hidden)
    for edge in range(network.n_edges):
        child, parent = network.edge_child[edge], network.parent[edge]
        assert theta[child, parent] == network.theta[network.param[edge]]
    success = edge_matrix(network, probability=True)
    np.testing.assert_allclose(success.toarray(), 1 - np.exp(-theta.toarray()))


def test_prior_marginals_below_independent_causes_are_exact():
    edges = [(k, 4) for k in (1, 2, 3)] + [(0, 0), (1, 1), (2, 2), (3, 3)]
    network = nor.from_edges(
        5, 4, edges, [(1, 0), (2, 0), (3, 0)], failure_probability=0.3, prior_probability=0.2
    )
    states = hidden_configurations(4)
    joint = np.exp(log_joint_table(network, states, np.full((1, 5), np.nan))[0])
    np.testing.assert_allclose(prior_marginals(network), joint @ states, rtol=1e-10)


# ---- Boolean products


SEEDS = st.integers(0, 2**32 - 1)


class TestBooleanProduct:
    @given(SEEDS)
    @settings(max_examples=30, deadline=None)
    def test_by_definition(self, seed):
        generator = np.random.default_rng(seed)
        n, r, p = generator.integers(1, 7, 3)
        U, V = generator.integers(0, 2, (n, r)), generator.integers(0, 2, (r, p))
        expected = [
            [int(any(U[a, k] and V[k, j] for k in range(r))) for j in range(p)] for a in range(n)
        ]
        assert boolean_product(U, V).tolist() == expected

    def test_shapes_must_fit(self):
        with pytest.raises(InvalidDataError, match="3 columns"):
            boolean_product(np.ones((2, 3)), np.ones((2, 3)))
