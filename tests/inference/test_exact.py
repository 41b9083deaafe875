"""Enumeration of networks with sets of alternatives; of others, the contract tests rely on it."""

from dataclasses import replace

import numpy as np
import pytest
from random_networks import random_network, random_rows
from scipy.special import logsumexp
from sets import allowed, conditioned_augmented_table, conditioned_table, with_sets

import noisyor as nor
from noisyor.errors import InvalidSettingError
from noisyor.inference.exact import configurations_of, enumerate_posterior, hidden_configurations


@pytest.mark.parametrize("seed", range(8))
def test_alternatives_are_independent_causes_given_that_no_two_are_on(seed):
    network = with_sets(random_network(seed), seed)
    rows = random_rows(network, seed, missing=0.2)
    states = hidden_configurations(network.n_hidden)
    table = conditioned_table(network, states, rows)
    augmented = conditioned_augmented_table(network, states, rows, maximize_missing=True)
    exact = enumerate_posterior(network, rows, maximize_missing=True)
    evidence = logsumexp(table, axis=1)
    np.testing.assert_allclose(exact.log_likelihood, evidence, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        exact.marginals, np.exp(table - evidence[:, None]) @ states, atol=1e-10
    )
    np.testing.assert_allclose(exact.map_log_joint, table.max(axis=1), rtol=1e-10, atol=1e-10)
    best = augmented.max(axis=1)
    np.testing.assert_allclose(exact.augmented_maximum, best, rtol=1e-10, atol=1e-10)
    assert np.isfinite(exact.max_marginals).all()


def test_configurations_come_in_order_and_keep_the_sets():
    network = with_sets(random_network(5, max_hidden=7), 5)
    every = hidden_configurations(network.n_hidden)
    wanted = {state.tobytes() for state in every[allowed(network, every)]}
    found = [state.tobytes() for state in configurations_of(network)]
    assert found[0] == every[0].tobytes()
    assert len(found) == len(wanted)
    assert set(found) == wanted


def test_a_large_set_is_a_small_sum():
    """A mixture of 301 products of Bernoullis, in closed form."""
    generator = np.random.default_rng(0)
    failure, noise = generator.random((300, 4)), 0.1
    network = nor.bipartite(
        4, 300, failure_probability=failure, prior_probability=0.01, noise_probability=noise
    )
    network = replace(network, alternatives=np.zeros(300, dtype=int))
    rows = random_rows(network, 1)
    on = np.vstack([np.full(4, noise), 1 - (1 - noise) * failure])
    odds = np.append(1.0, np.full(300, 0.01 / 0.99))
    likelihood = (np.where(rows[:, None] == 1, on, 1 - on).prod(axis=2) * odds).sum(axis=1)
    exact = enumerate_posterior(network, rows).log_likelihood
    np.testing.assert_allclose(exact, np.log(likelihood / odds.sum()), rtol=1e-10)
    two = replace(network, alternatives=np.where(np.arange(300) < 280, 0, -1))
    with pytest.raises(InvalidSettingError, match="hidden states"):
        enumerate_posterior(two, rows)
