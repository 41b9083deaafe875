"""Messages of single edges: they add up to the beliefs, and follow rows and samples."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor


def problem():
    random = np.random.default_rng(1)
    network = nor.bipartite(
        6,
        3,
        failure_probability=random.uniform(0.1, 0.9, (3, 6)),
        prior_probability=[0.1, 0.3, 0.5],
    )
    X = random.integers(0, 2, (5, 6)).astype(float)
    X[2, 4] = np.nan
    return network, X


@pytest.mark.parametrize("schedule", ["collapsed", "two-stage"])
def test_beliefs_are_prior_and_messages(schedule):
    network, X = problem()
    method = nor.MaxProduct(keep_messages=True, schedule=schedule, tolerance=0, max_iterations=300)
    found = nor.explain(network, X, method)
    assert found.messages.shape == (5, network.n_edges)
    unknown = np.isnan(found.messages)
    assert (np.flatnonzero(unknown.any(axis=1)) == [2]).all()
    assert (network.edge_child[unknown[2]] == 4).all()
    prior = np.log(network.prior_probability / (1 - network.prior_probability))
    total = np.zeros((5, 3))
    for edge, parent in enumerate(network.parent):
        total[:, parent] += np.nan_to_num(found.messages[:, edge])
    np.testing.assert_allclose(found.beliefs, total + prior, rtol=1e-4, atol=1e-4)
    again = nor.explain(network, X, nor.MaxProduct(keep_beliefs=True, schedule=schedule))
    assert (again.states.toarray() == found.states.toarray()).all()
    assert again.messages is None


def test_every_sample_has_its_messages():
    network, X = problem()
    method = nor.MaxProduct(temperature=1.0, n_samples=3, keep_messages=True)
    found = nor.explain(network, X, method, seed=4)
    assert found.messages.shape == (15, network.n_edges)
    alone = nor.explain(network, nor.Observations.of(X).take([3]), method, seed=4)
    np.testing.assert_array_equal(alone.messages, found.messages[9:12])
    assert "keep_messages" not in method.settings()
