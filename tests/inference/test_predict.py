"""Probabilities of findings against enumeration of the causes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from random_networks import random_network
from scipy.special import logsumexp

import noisyor as nor
from noisyor.errors import InvalidSettingError
from noisyor.inference import predict_visible
from noisyor.inference.exact import hidden_configurations, log_joint_table


def log_p(network, rows):
    return logsumexp(
        log_joint_table(network, hidden_configurations(network.n_hidden), rows), axis=1
    )


def by_hiding(network, x):
    """Hide every entry in turn, and set it: what ``predict_visible`` means, word for word."""
    result = np.empty(x.shape)
    for i in range(x.shape[1]):
        without, on = x.copy(), x.copy()
        without[:, i], on[:, i] = np.nan, 1.0
        result[:, i] = np.exp(log_p(network, on) - log_p(network, without))
    return result


def problems(n=16):
    for seed in range(n):
        network = random_network(seed, max_hidden=8, max_visible=10)
        x = nor.sample(network, 5, seed).visible.toarray().astype(float)
        x[np.random.default_rng(seed).random(x.shape) < 0.3] = np.nan
        yield network, x, by_hiding(network, x)


def test_enumeration_is_exact_for_observed_and_unobserved_entries():
    for network, x, expected in problems():
        found = predict_visible(network, x)
        assert found.exact
        np.testing.assert_allclose(found.probability, expected, atol=2e-7)
        exact = nor.inference.enumerate_posterior(network, x).marginals
        np.testing.assert_allclose(found.hidden, exact, atol=2e-7)


@pytest.mark.parametrize("scale", [1.0, 18.0, 40.0, 500.0, 1e5])
def test_enumeration_is_exact_for_large_parameters(scale):
    """Rows contradict the network, and the probability of an entry may be below 1e-300."""
    generator = np.random.default_rng(0)
    for _ in range(10):
        network = random_network(int(generator.integers(1000)), max_hidden=6, max_visible=8)
        theta = np.array(network.theta)
        chosen = generator.random(len(theta)) < 0.5
        chosen[network.leak_param] = False
        theta[chosen] = scale * (1 + generator.random(int(chosen.sum())))
        network = network.with_theta(theta)
        x = generator.integers(0, 2, (6, network.n_visible)).astype(float)
        found = predict_visible(network, x, "exact")
        np.testing.assert_allclose(found.probability, by_hiding(network, x), atol=1e-8)


def test_samples_are_close():
    unobserved, observed = [], []
    for network, x, expected in problems():
        found = predict_visible(network, x, "samples")
        assert not found.exact
        error, missing = found.probability - expected, np.isnan(x)
        unobserved.append(error[missing])
        observed.append(error[~missing])
    of_missing, of_seen = np.concatenate(unobserved), np.concatenate(observed)
    assert np.sqrt((of_missing**2).mean()) < 0.005
    assert np.sqrt((of_seen**2).mean()) < 0.02
    assert abs(of_missing.mean()) < 0.001


def test_what_is_observed_can_be_kept():
    network, x, expected = next(problems())
    found = predict_visible(network, x, observed="kept").probability
    missing = np.isnan(x)
    np.testing.assert_array_equal(found[~missing], x[~missing])
    np.testing.assert_allclose(found[missing], expected[missing], atol=2e-7)


@pytest.mark.parametrize("method", ["exact", "samples"])
def test_rows_that_the_network_cannot_produce_have_an_answer(method):
    network = nor.bipartite(2, 1, failure_probability=[[0.0, 1.0]], noise_probability=0.0)
    found = predict_visible(network, np.array([[0, 1], [1, 1]]), method).probability
    assert np.isfinite(found).all()
    assert ((found >= 0) & (found <= 1)).all()


def test_a_large_network_is_sampled_and_a_row_does_not_depend_on_the_others():
    network = random_network(3, max_hidden=40, max_visible=30, density=0.2)
    x = nor.sample(network, 40, 1).visible.toarray().astype(float)
    x[:, ::3] = np.nan
    rows = nor.Observations.of(x)
    found = predict_visible(network, rows, "samples", seed=5).probability
    part = predict_visible(network, rows.take(slice(20, 30)), "samples", seed=5).probability
    np.testing.assert_allclose(part, found[20:30], rtol=1e-12)
    other = predict_visible(network, rows, "samples", seed=6).probability
    assert np.abs(other - found).max() > 0


def test_wrong_settings_are_refused():
    network = nor.bipartite(2, 1)
    with pytest.raises(InvalidSettingError, match="method"):
        predict_visible(network, np.zeros((1, 2)), "guess")
    with pytest.raises(InvalidSettingError, match="observed"):
        predict_visible(network, np.zeros((1, 2)), observed="maybe")
    with pytest.raises(InvalidSettingError, match="n_samples"):
        predict_visible(network, np.zeros((1, 2)), n_samples=3)


# ---- exactly one column of a group is on


GROUPS = [range(3), range(4, 6)]


@pytest.fixture
def network():
    random = np.random.default_rng(3)
    return nor.bipartite(
        7,
        3,
        failure_probability=random.uniform(0.1, 0.9, (3, 7)),
        prior_probability=random.uniform(0.2, 0.6, 3),
        noise="per_visible",
        noise_probability=random.uniform(0.05, 0.2, 7),
    )


def expected_of(network, row):
    """Probabilities of all columns among the complete rows that agree and have one of each."""
    rows = [
        full
        for full in product([0, 1], repeat=7)
        if all(np.isnan(x) or x == y for x, y in zip(row, full, strict=True))
        and all(
            sum(full[i] for i in group) == 1
            for group in GROUPS
            if np.isnan([row[i] for i in group]).any()
        )
    ]
    log_p = nor.inference.enumerate_posterior(network, np.array(rows)).log_likelihood
    weight = np.exp(log_p - log_p.max())
    return weight @ np.array(rows) / weight.sum()


@pytest.mark.parametrize("method", ["exact", "samples"])
def test_probabilities_are_those_of_enumeration(network, method):
    hole = np.nan
    rows = np.array(
        [
            [hole, hole, hole, 1, 0, 1, hole],
            [0, hole, 0, hole, 1, 0, 0],
            [1, hole, 0, 1, hole, hole, hole],
            [hole, 0, hole, 0, hole, 0, 1],
            [1, 0, 0, 1, 0, 1, hole],
        ]
    )
    found = predict_visible(
        network, rows, method, observed="kept", one_hot=GROUPS, n_samples=800
    ).probability
    expected = np.array([expected_of(network, row) for row in rows])
    np.testing.assert_allclose(found, expected, atol=1e-9 if method == "exact" else 0.02)
    assert found[1, 1] == pytest.approx(1.0)
    assert found[2, 1] == 0.0


def test_causes_that_never_fail(network):
    """Parameters are 708 then, and their exponentials overflow."""
    sure = network.with_theta(np.where(network.theta > 1.0, 708.0, network.theta))
    assert (sure.theta == 708.0).any()
    rows = np.array([[np.nan, np.nan, np.nan, 1, 0, 1, np.nan]])
    found = predict_visible(sure, rows, "exact", observed="kept", one_hot=GROUPS).probability
    np.testing.assert_allclose(found[0], expected_of(sure, rows[0]), atol=1e-9)


def test_observed_entries_cannot_be_left_out(network):
    with pytest.raises(InvalidSettingError, match="one_hot needs observed"):
        predict_visible(network, np.zeros((1, 7)), one_hot=GROUPS)
