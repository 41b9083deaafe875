"""Maximum likelihood by Gibbs sampling, held to enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from random_networks import random_network, random_rows
from scipy.special import logsumexp

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.engines.contract import Evidence, NoiseKey
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.exact import hidden_configurations, log_joint_table
from noisyor.learning.gibbs_em import learn_by_gibbs
from noisyor.network.graph import Network, probability_from_theta


def exact_counts(network: Network, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Expected credits and chances of every parameter, by enumeration, one row at a time."""
    states = hidden_configurations(network.n_hidden)
    table = log_joint_table(network, states, rows)
    weight = np.exp(table - logsumexp(table, axis=1, keepdims=True))
    credit, chance = np.zeros(network.n_params), np.zeros(network.n_params)
    success = probability_from_theta(network.theta)
    for row, of_row in zip(rows, weight, strict=True):
        for state, w in zip(states, of_row, strict=True):
            nodes = np.concatenate([row, state])
            for node in range(network.n_nodes):
                if np.isnan(nodes[node]):
                    continue
                edges = np.arange(network.child_ptr[node], network.child_ptr[node + 1])
                acting = [network.leak_param[node]]
                acting += [network.param[e] for e in edges if state[network.parent[e]]]
                total = network.theta[acting].sum()
                for parameter in acting:
                    chance[parameter] += w
                    if nodes[node]:
                        credit[parameter] += w * success[parameter] / -np.expm1(-total)
    return credit, chance


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_credits_and_chances_are_those_of_the_posterior(seed: int, missing: float) -> None:
    network = random_network(seed, max_hidden=5, max_visible=6, tied=seed % 2 == 1)
    rows = random_rows(network, seed, n_rows=3, missing=missing)
    dense = Observations.of(rows).to_dense().astype(np.float64)
    wanted = exact_counts(network, dense)
    many = 1500  # independent chains of the same rows
    copies = Observations.of(np.repeat(dense, many, axis=0))
    states = np.zeros((copies.n_rows, network.n_hidden), dtype=np.uint8)
    engine, evidence = get_engine(), Evidence.of(network, copies)
    prepared = engine.prepare(network)
    for number in range(20):
        states, *found = engine.gibbs_sweep(prepared, evidence, states, NoiseKey(1, number))
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got / many, want, atol=0.1)


def test_one_cause_needs_no_samples() -> None:
    """With one hidden node its probability is exact, and so is all but the credit of the noise."""
    network = nor.bipartite(3, 1, failure_probability=[[0.2, 0.6, 0.9]], prior_probability=0.3)
    rows = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [np.nan, 1, 0]], dtype=np.float64)
    states = np.zeros((4, 1), dtype=np.uint8)
    engine, evidence = get_engine(), Evidence.of(network, Observations.of(rows))
    _, *found = engine.gibbs_sweep(engine.prepare(network), evidence, states, NoiseKey(0))
    drawn = network.roles == "noise"
    for got, want in zip(found, exact_counts(network, rows), strict=True):
        np.testing.assert_allclose(got[~drawn], want[~drawn], rtol=1e-9)


def log_likelihood(network: Network, rows: np.ndarray) -> float:
    states = hidden_configurations(network.n_hidden)
    return float(logsumexp(log_joint_table(network, states, rows), axis=1).mean())


def test_the_likelihood_comes_close_to_that_of_the_truth() -> None:
    generator = np.random.default_rng(0)
    failure = np.where(generator.random((3, 12)) < 0.4, 0.1, 1.0)
    truth = nor.bipartite(12, 3, failure_probability=failure, prior_probability=[0.2, 0.3, 0.1])
    rows = nor.sample(truth, 2000, seed=1).visible.toarray().astype(np.float64)
    start = nor.bipartite(
        12,
        3,
        failure_probability=np.where(failure < 1, 0.5, 0.9),
        prior_probability=0.1,
        noise_probability=0.1,
    )
    learned = learn_by_gibbs(start, rows, sweeps=40)
    assert log_likelihood(learned, rows) > log_likelihood(truth, rows) - 0.01
    assert np.abs(learned.failure_probability - failure).max() < 0.1
    assert np.abs(learned.prior_probability - truth.prior_probability).max() < 0.03


def test_an_edge_that_rarely_fails_keeps_its_failures() -> None:
    """The estimate that perturbed max-product gets wrong: three edges, one of them nearly sure."""
    truth = nor.bipartite(
        3,
        1,
        noise="per_visible",
        failure_probability=[[0.47, 0.024, 0.29]],
        prior_probability=0.086,
        noise_probability=[0.05, 0.06, 0.005],
    )
    rows = nor.sample(truth, 8000, seed=0).visible
    start = nor.bipartite(
        3,
        1,
        noise="per_visible",
        failure_probability=[[0.45, 0.003, 0.3]],
        prior_probability=0.08,
        noise_probability=[0.05, 0.06, 0.005],
    )
    learned = learn_by_gibbs(start, rows, sweeps=30)
    assert 0.008 < learned.failure_probability[0, 1] < 0.06


def test_threads_do_not_matter_and_fixed_parameters_stay() -> None:
    network = nor.bipartite(6, 4, failure_probability=0.4, prior_probability=0.3, fixed="noise")
    rows = nor.sample(network, 1200, seed=0).visible
    one, two = (
        learn_by_gibbs(network, rows, sweeps=3, engine=get_engine(n_threads=n)) for n in (1, 2)
    )
    np.testing.assert_array_equal(one.theta, two.theta)
    noise = network.group("noise")
    np.testing.assert_array_equal(one.theta[noise], network.theta[noise])
    assert (one.theta != network.theta).any()
    other = learn_by_gibbs(network, rows, sweeps=3, seed=1)
    assert (one.theta != other.theta).any()


def test_wrong_settings_are_named() -> None:
    network = random_network(1)
    rows = np.zeros((2, network.n_visible))
    with pytest.raises(InvalidSettingError, match="sweeps must be 1, 2, …, got 0"):
        learn_by_gibbs(network, rows, sweeps=0)
    with pytest.raises(
        InvalidSettingError, match="smoothing must be a number of at least 0, got -1"
    ):
        learn_by_gibbs(network, rows, smoothing=-1)
    with pytest.raises(InvalidDataError, match="no rows"):
        learn_by_gibbs(network, Observations.of(rows).take(slice(0, 0)))
