"""Maximum likelihood by Gibbs sampling, held to enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from random_networks import random_network
from scipy.special import logsumexp

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.exact import hidden_configurations, log_joint_table
from noisyor.learning import gibbs_em
from noisyor.learning.gibbs_em import learn_by_gibbs
from noisyor.model.network import Network


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


@pytest.mark.parametrize("n_hidden", [1, 3, 12])
def test_strong_smoothing_leaves_columns_as_frequent_as_they_are(n_hidden: int) -> None:
    generator = np.random.default_rng(n_hidden)
    rows = Observations.of(generator.random((600, 5)) < [0.05, 0.2, 0.4, 0.6, 0.8])
    start = nor.bipartite(
        5, n_hidden, noise="per_visible", failure_probability=0.7, prior_probability=0.4
    )
    chains = gibbs_em.Chains(start, gibbs_em.chain_rows(rows))
    rounds = gibbs_em.GibbsRounds(start, chains, smoothing=1e7, smooth_to="frequency")
    rounds.advance(5)
    n_on = max(1.0, chains.share_on().sum())
    assert (n_on > 2) == (n_hidden == 12)
    frequency = rows.to_csr().mean(axis=0)
    together = 1.0 - rounds.network.failure_probability**n_on  # by the causes of an average row
    np.testing.assert_allclose(together, np.tile(frequency, (n_hidden, 1)), atol=0.01)


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
    with pytest.raises(InvalidSettingError, match="smoothing must be at least 0, got -1"):
        learn_by_gibbs(network, rows, smoothing=-1)
    with pytest.raises(InvalidDataError, match="no rows"):
        learn_by_gibbs(network, Observations.of(rows).take(slice(0, 0)))


def test_a_row_of_weight_w_is_learned_from_as_w_rows() -> None:
    network, rng = random_network(seed=3), np.random.default_rng(4)
    rows = np.unique(rng.random((12, network.n_visible)) < 0.4, axis=0)
    weights = rng.integers(1, 40, len(rows))
    ids, first = np.arange(len(rows)) + 5, np.cumsum(weights) - weights
    one = Observations.of(rows, row_ids=ids).with_weights(weights)
    of_many = np.arange(weights.sum()) + 1000
    of_many[first] = ids
    many = Observations.of(np.repeat(rows, weights, axis=0), row_ids=of_many)
    learned = [learn_by_gibbs(network, part, sweeps=6) for part in (one, many)]
    np.testing.assert_array_equal(learned[0].theta, learned[1].theta)


def test_rows_that_repeat_are_shared_out_among_chains() -> None:
    distinct = Observations.of(np.eye(3), row_ids=[7, 8, 9]).with_weights([1, 0.5, 20])
    chains = gibbs_em.chain_rows(distinct)
    np.testing.assert_array_equal(chains.columns, [0, 1, 2, 2, 2])
    np.testing.assert_allclose(chains.row_weights, [1, 0.5, 20 / 3, 20 / 3, 20 / 3])
    assert chains.row_ids[:3].tolist() == [7, 8, 9]
    assert len(set(chains.row_ids.tolist())) == 5
    plain = Observations.of(np.eye(3))
    assert gibbs_em.chain_rows(plain) is plain
