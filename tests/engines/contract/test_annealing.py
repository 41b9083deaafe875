"""Sets of configurations and chains outside them, of every engine, held to enumeration."""

import numpy as np
import pytest
from engine_calls import evidence_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_networks import random_network, random_rows

import noisyor as nor
from noisyor.engines.contract import AnnealingOptions, Evidence, NoiseKey
from noisyor.engines.registry import get_engine
from noisyor.inference.exact import (
    enumerate_posterior,
    hidden_configurations,
    log_joint_table,
)

NEEDS = ("anneal",)


def explore(engine, network, rows, starts, *, hidden=None, expansions=0, chains=0, steps=8, seed=0):
    """Sets, and chains if wanted, with the probability of every node."""
    options = AnnealingOptions(expansions, chains, steps, 4)
    return engine.anneal(
        engine.prepare(network),
        evidence_of(network, rows, hidden),
        starts,
        options,
        NoiseKey(seed),
        with_probability=True,
    )


def random_starts(network, seed, n_rows, n_starts=1):
    shape = (n_rows * n_starts, network.n_hidden)
    return np.random.default_rng(seed).integers(0, 2, shape).astype(np.uint8)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.1, 1.0, 5.0]),
    missing=st.sampled_from([0.0, 0.3]),
    n_starts=st.integers(1, 3),
    expansions=st.integers(0, 6),
)
def test_the_set_gives_a_lower_bound(engine, seed, scale, missing, n_starts, expansions):
    network = random_network(seed, scale=scale, tied=seed % 2 == 0)
    x = random_rows(network, seed, 3, missing=missing)
    starts = random_starts(network, seed, 3, n_starts)
    exact = enumerate_posterior(network, x)
    found = explore(engine, network, x, starts, expansions=expansions)
    slack = 1e-9 * (1 + np.abs(exact.log_likelihood))
    assert (found.log_sum <= exact.log_likelihood + slack).all()
    of_starts = log_joint_table(network, starts, x)[np.arange(3), n_starts * np.arange(3)]
    assert (found.log_sum >= of_starts - slack).all()
    np.testing.assert_array_equal(found.log_evidence, found.log_sum)
    assert not found.log_error.any()
    full = explore(engine, network, x, starts, expansions=2**network.n_hidden)
    assert (np.abs(full.log_sum - exact.log_likelihood) <= slack).all()
    np.testing.assert_allclose(full.probability, exact.marginals, atol=1e-9)


def test_the_set_counts_every_configuration_once(engine):
    network = random_network(3, max_hidden=7)
    x, starts = random_rows(network, 3, 5), random_starts(network, 3, 5)
    by_size = [explore(engine, network, x, starts, expansions=n) for n in (0, 1, 4, 500)]
    sizes = np.array([found.size for found in by_size])
    assert (sizes[0] == 1).all()
    assert (np.diff(sizes, axis=0) >= 0).all()
    assert (sizes[-1] <= 2**network.n_hidden).all()
    assert (np.diff([found.log_sum for found in by_size], axis=0) >= 0).all()
    twice = explore(engine, network, x, np.repeat(starts, 2, axis=0))
    np.testing.assert_array_equal(twice.size, sizes[0])


def test_independent_causes_are_summed_out(engine):
    # Twelve causes of which the row involves one: the others are independent of it.
    edges = [(k, k) for k in range(12)]
    network = nor.from_edges(12, 12, edges, failure_probability=0.3, prior_probability=0.2)
    x = np.eye(12)[:2]
    starts = np.zeros((2, 12), dtype=np.uint8)
    found = explore(engine, network, x, starts, expansions=1)
    exact = enumerate_posterior(network, x)
    np.testing.assert_allclose(found.log_sum, exact.log_likelihood, rtol=1e-12)
    np.testing.assert_allclose(found.probability, exact.marginals, rtol=1e-9)
    assert (found.size == 2).all()


@pytest.mark.parametrize("seed", range(6))
def test_evidence_on_hidden_nodes(engine, seed):
    network = random_network(seed, max_hidden=6)
    x = random_rows(network, seed, 3, missing=0.1)
    hidden = np.random.default_rng(seed).choice([0.0, 1.0, np.nan], (3, network.n_hidden))
    states = hidden_configurations(network.n_hidden)
    table = log_joint_table(network, states, x)
    agrees = (np.isnan(hidden)[:, None] | (states[None] == hidden[:, None])).all(axis=2)
    exact = np.logaddexp.reduce(np.where(agrees, table, -np.inf), axis=1)
    starts = random_starts(network, seed, 3)  # what is known overrides them
    found = explore(engine, network, x, starts, hidden=hidden, expansions=64)
    np.testing.assert_allclose(found.log_sum, exact, rtol=1e-10)
    known = ~np.isnan(hidden)
    np.testing.assert_allclose(found.probability[known], hidden[known], atol=1e-12)
    chains = explore(engine, network, x, starts, hidden=hidden, expansions=1, chains=8)
    assert (np.abs(chains.log_evidence - exact) <= 5 * chains.log_error + 1e-9).all()


def test_estimates_are_as_good_as_their_errors_say(engine):
    scores = []
    for seed in range(60):
        network = random_network(seed, max_hidden=8, max_visible=10)
        x = random_rows(network, seed, 4, missing=0.2)
        exact = enumerate_posterior(network, x).log_likelihood
        starts = random_starts(network, seed, 4)
        found = explore(engine, network, x, starts, expansions=1, chains=16, steps=12)
        complete = found.log_error == 0
        np.testing.assert_allclose(found.log_evidence[complete], exact[complete], rtol=1e-10)
        scores.append((found.log_evidence - exact) / np.where(complete, 1, found.log_error))
    z = np.concatenate(scores)
    assert (np.abs(z) > 4).mean() < 0.05
    z = z[z != 0]
    assert len(z) > 100
    assert abs(z.mean()) < 0.3
    assert (np.abs(z) > 2).mean() < 0.1


def test_threads_order_and_grouping_of_rows_do_not_matter(engine):
    network = random_network(5, max_hidden=7)
    observations = nor.Observations.of(random_rows(network, 5, 6, missing=0.1))
    starts, options = random_starts(network, 5, 6), AnnealingOptions(2, 4, 4, 2)

    def run(which, order):
        return which.anneal(
            which.prepare(network),
            Evidence.of(network, observations.take(order)),
            starts[order],
            options,
            NoiseKey(3),
            with_probability=True,
        )

    together, order = run(engine, np.arange(6)), np.random.default_rng(0).permutation(6)
    one_thread = run(get_engine(engine.name, n_threads=1), np.arange(6))
    shuffled = run(engine, order)
    alone = run(engine, [4])
    for whole, same, other, single in zip(together, one_thread, shuffled, alone, strict=True):
        np.testing.assert_array_equal(whole, same)
        np.testing.assert_array_equal(whole[order], other)
        np.testing.assert_array_equal(whole[4:5], single)
    without = engine.anneal(
        engine.prepare(network),
        Evidence.of(network, observations),
        starts,
        options,
        NoiseKey(3),
    )
    assert without.probability.shape == without.error.shape == (0, network.n_hidden)


def test_large_parameters_and_tiny_leaks_stay_finite(engine):
    network = nor.bipartite(
        6, 4, failure_probability=0.0, prior_probability=0.0, noise_probability=0.0
    )
    x = np.vstack([np.ones(6), np.zeros(6), [1, 0, 1, 0, 1, 0]])
    exact = enumerate_posterior(network, x).log_likelihood
    starts = np.zeros((3, 4), dtype=np.uint8)
    found = explore(engine, network, x, starts, expansions=16)
    np.testing.assert_allclose(found.log_sum, exact, rtol=1e-9)
    chains = explore(engine, network, x, starts, chains=4, steps=4)
    assert np.isfinite(chains.log_evidence).all()


def test_estimates_are_unbiased(engine):
    """The mean of p(x) over many rows that are alike, and of the probabilities."""
    network = random_network(11, max_hidden=9, max_visible=8)
    many = 400
    row, start = random_rows(network, 11, 1), np.zeros((many, network.n_hidden), dtype=np.uint8)
    exact = enumerate_posterior(network, row)
    x = np.repeat(row, many, axis=0)
    found = explore(engine, network, x, start, chains=3, steps=4)
    ratio = np.exp(found.log_evidence - exact.log_likelihood)
    error = ratio.std() / many**0.5
    assert 0 < error < 0.3
    assert abs(ratio.mean() - 1) < 4 * error
    on = (ratio[:, None] * found.probability).mean(axis=0)
    spread = (ratio[:, None] * found.probability).std(axis=0) / many**0.5
    assert (np.abs(on - exact.marginals[0]) < 4 * spread + 1e-9).all()
