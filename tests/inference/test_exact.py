"""Enumeration where logarithms are infinite; everywhere else it is itself the reference."""

from __future__ import annotations

import numpy as np
import pytest
from augmented import enumerate_augmented
from random_networks import random_rows, random_tree

import noisyor as nor
from noisyor.errors import InvalidDataError
from noisyor.inference import enumerate_posterior


@pytest.fixture
def network():
    """Two causes of two columns each; without leaks a column is off unless its cause is on."""
    network = nor.bipartite(4, 2, failure_probability=[[0.5, 0.5, 1, 1], [1, 1, 0.5, 0.5]])
    theta = network.theta.copy()
    theta[network.leak_param[:4]] = 0.0
    theta[network.leak_param[4:]] = np.log(2.0)
    silent = network.param[network.theta[network.param] < 0.1]
    theta[silent] = 0.0
    return network.with_theta(theta)


def test_parameters_of_zero_are_exact(network):
    rows = np.array([[1, 0, 0, 0], [0, 0, 0, 0]])
    found = enumerate_posterior(network, rows)
    # Cause 0 must be on; cause 1 is on with odds of a quarter, since both its columns are off.
    np.testing.assert_allclose(found.marginals[0], [1.0, 0.2], atol=1e-12)
    np.testing.assert_allclose(found.marginals[1], [0.2, 0.2], atol=1e-12)
    np.testing.assert_allclose(np.exp(found.log_likelihood), [0.5**3 * 0.625, 0.625**2], rtol=1e-12)
    assert found.map_states.tolist() == [[1, 0], [0, 0]]
    max_marginals = enumerate_augmented(network, rows).max_marginals
    assert max_marginals[0, 0] == np.inf
    assert not np.isnan(max_marginals).any()


def test_all_rows_add_up_to_one_with_parameters_of_zero(network):
    rows = np.array(np.meshgrid(*4 * [[0, 1]])).reshape(4, -1).T
    total = np.exp(enumerate_posterior(network, rows).log_likelihood).sum()
    np.testing.assert_allclose(total, 1.0, rtol=1e-12)


def test_a_row_that_is_impossible(network):
    theta = network.theta.copy()
    theta[network.leak_param[4:]] = 0.0
    never = network.with_theta(theta)
    with pytest.raises(InvalidDataError, match="row 1 has probability 0"):
        enumerate_posterior(never, np.array([[0, 0, 0, 0], [1, 0, 0, 0]]))
    row = nor.Observations.of(np.array([[1, 0, 0, 0]]))
    with pytest.raises(InvalidDataError, match="row 0 has probability 0"):
        nor.explanation.rank_causes(never, row, method="exact")


def test_the_augmented_maximizer_can_differ_from_the_true_one():
    differs = 0
    for seed in range(150):
        network = random_tree(seed)
        rows = random_rows(network, seed, n_rows=2)
        exact, augmented = enumerate_posterior(network, rows), enumerate_augmented(network, rows)
        assert (augmented.maximum <= exact.map_log_joint + 1e-12).all()
        assert (exact.map_log_joint <= exact.log_likelihood + 1e-12).all()
        differs += (augmented.states != exact.map_states).any()
    assert differs > 0


def test_the_order_of_rows_changes_no_bit():
    network = nor.initialize(nor.bipartite(11, 7), "paper-2", noise="gaussian", seed=1)
    rows = random_rows(network, 3, n_rows=37, missing=0.2)
    order = np.random.default_rng(0).permutation(37)
    whole, moved = enumerate_posterior(network, rows), enumerate_posterior(network, rows[order])
    np.testing.assert_array_equal(moved.marginals, whole.marginals[order])
    np.testing.assert_array_equal(moved.log_likelihood, whole.log_likelihood[order])
    causes, moved_causes = (nor.marginals(network, x, "exact") for x in (rows, rows[order]))
    np.testing.assert_array_equal(moved_causes.probability, causes.probability[order])
    seen, moved_seen = (
        nor.inference.predict_visible(network, x, "exact").probability for x in (rows, rows[order])
    )
    np.testing.assert_array_equal(moved_seen, seen[order])
