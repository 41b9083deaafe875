"""The number to judge by: exact where it can be, otherwise an estimate above its bound."""

import numpy as np
import pytest
from random_networks import random_network

import noisyor as nor
from noisyor.inference import log_probability, sampling


@pytest.fixture
def sampled(monkeypatch):
    """No network is small enough to be enumerated."""
    monkeypatch.setattr(sampling, "_MAX_CONFIGURATIONS", 1)


def problem(seed):
    network = random_network(seed, max_hidden=8, max_visible=10)
    x = nor.sample(network, 6, seed).visible.toarray().astype(float)
    x[:, 0] = np.nan
    return network, x, nor.inference.enumerate_posterior(network, x).log_likelihood


def test_small_networks_are_enumerated():
    for seed in range(10):
        network, x, exact = problem(seed)
        found = log_probability(network, x)
        assert found.exact
        assert found.mean_error == 0
        np.testing.assert_allclose(found.per_row, exact)
        np.testing.assert_allclose(found.bound_mean, exact.mean())


def test_estimates_are_close_and_above_their_bound(sampled):
    differences = []
    for seed in range(20):
        network, x, exact = problem(seed)
        found = log_probability(network, x)
        assert not found.exact
        assert (found.bound <= exact + 1e-9).all()
        assert (found.bound <= found.per_row + 1e-9).all()
        differences.append((found.per_row - exact).mean())
    assert np.abs(differences).max() < 0.1
    assert abs(np.mean(differences)) < 0.01


def test_a_row_has_its_value_wherever_it_stands(sampled):
    network, x, _ = problem(4)
    x = np.concatenate([x, x])
    every = log_probability(network, x, seed=3).per_row
    np.testing.assert_array_equal(every[:6], every[6:])
    np.testing.assert_array_equal(
        log_probability(network, x[[4, 2]], seed=3).per_row, every[[4, 2]]
    )
    weighted_rows = nor.Observations.of(x[:6]).with_weights([1, 2, 3, 4, 5, 6])
    found = log_probability(network, weighted_rows, seed=3)
    assert found.mean == pytest.approx(np.average(every[:6], weights=range(1, 7)))


def test_two_chains_suffice_for_a_mean_over_rows(sampled):
    failure = np.random.default_rng(0).uniform(0.1, 0.9, (6, 12))
    network = nor.bipartite(12, 6, failure_probability=failure, prior_probability=0.2)
    rows = nor.sample(network, 300, seed=1).visible
    exact = nor.inference.enumerate_posterior(network, rows).log_likelihood
    few, many = (log_probability(network, rows, n_chains=n) for n in (2, 8))
    assert few.mean == pytest.approx(exact.mean(), abs=0.05)
    assert few.mean_error > many.mean_error
    with pytest.raises(nor.errors.InvalidSettingError, match="n_chains"):
        log_probability(network, rows, n_chains=1)
