"""Chains from independent nodes to the posterior, of every engine, held to enumeration."""

import numpy as np
import pytest
from scipy.special import logsumexp

import noisyor as nor
from noisyor.engines.contract import FREE, Evidence, NoiseKey
from noisyor.engines.registry import get_engine
from noisyor.inference.exact import enumerate_posterior
from noisyor.inference.sampling import log_probability

NEEDS = ("temper",)


def problem(n_visible=7, n_hidden=5, n_rows=6, seed=0):
    """A network of one layer, rows with a gap, and probabilities at the start."""
    generator = np.random.default_rng(seed)
    network = nor.bipartite(
        n_visible,
        n_hidden,
        noise="per_visible",
        failure_probability=generator.uniform(0.1, 1.0, (n_hidden, n_visible)),
        prior_probability=generator.uniform(0.1, 0.5, n_hidden),
        noise_probability=generator.uniform(0.01, 0.2, n_visible),
    )
    rows = (generator.random((n_rows, n_visible)) < 0.4).astype(float)
    rows[0], rows[1, 2] = 0.0, np.nan
    return network, rows, generator.uniform(0.05, 0.9, (n_rows, n_hidden))


def chains(engine, network, rows, first, n_chains, n_steps, *, clamp=None, seed=3):
    evidence = Evidence.of(network, nor.Observations.of(rows), clamp)
    prepared = engine.prepare(network)
    return engine.temper(prepared, evidence, first, n_chains, n_steps, NoiseKey(seed))


@pytest.mark.parametrize("clamped", [False, True])
def test_weights_are_those_of_the_reference(engine, clamped):
    network, rows, first = problem()
    clamp = None
    if clamped:
        clamp = np.full((6, 5), FREE, dtype=np.uint8)
        clamp[:, 1], clamp[2:, 3] = 1, 0
    found = chains(engine, network, rows, first, 3, 5, clamp=clamp)
    expected = chains(get_engine("numpy"), network, rows, first, 3, 5, clamp=clamp)
    np.testing.assert_allclose(found.log_weight, expected.log_weight, rtol=1e-9)
    np.testing.assert_allclose(found.probability, expected.probability, atol=1e-9)


def test_the_mean_weight_is_the_probability_of_the_row(engine):
    network, rows, first = problem(5, 3, 4)
    n_chains = 400 if engine.name == "numpy" else 20_000
    found = chains(engine, network, rows, first, n_chains, 4)
    exact = enumerate_posterior(network, rows).log_likelihood
    log_mean = logsumexp(found.log_weight, axis=1) - np.log(n_chains)
    weight = np.exp(found.log_weight - log_mean[:, None])
    error = weight.std(axis=1, ddof=1) / np.sqrt(n_chains)
    assert (np.abs(log_mean - exact) < 4.5 * error + 1e-3).all()


def test_the_estimate_of_log_p_is_close_to_enumeration(monkeypatch):
    network, _, _ = problem(20, 10, 4, seed=1)
    rows = nor.sample(network, 200, seed=0).visible
    exact = log_probability(network, rows)
    monkeypatch.setattr("noisyor.inference.sampling._MAX_CONFIGURATIONS", 1)
    found = log_probability(network, rows)
    assert exact.exact
    assert not found.exact
    assert abs(found.mean - exact.mean) < 4 * found.mean_error + 0.005
    assert (found.bound <= exact.per_row + 1e-9).all()
