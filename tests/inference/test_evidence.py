"""Bounds from sets of configurations, and estimates, against enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import random_network, random_rows

import noisyor as nor
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.exact import hidden_configurations, log_joint_table


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.1, 1.0, 5.0]),
    missing=st.sampled_from([0.0, 0.3]),
    tied=st.booleans(),
    n_samples=st.integers(0, 4),
    n_expansions=st.integers(0, 6),
)
def test_the_bound_lies_between_the_mode_and_the_truth(
    seed, scale, missing, tied, n_samples, n_expansions
):
    network = random_network(seed, scale=scale, tied=tied)
    x = random_rows(network, seed, 3, missing=missing)
    exact = nor.inference.enumerate_posterior(network, x).log_likelihood
    bound = nor.evidence_bound(network, x, n_samples=n_samples, n_expansions=n_expansions)
    slack = 1e-9 * (1 + np.abs(exact))
    assert (bound.per_row <= exact + slack).all()
    assert (bound.per_row >= nor.evaluate(network, x).elbo_mp.per_row - slack).all()
    full = nor.evidence_bound(network, x, n_expansions=2**network.n_hidden)
    assert (np.abs(full.per_row - exact) <= slack).all()


def test_the_set_counts_every_configuration_once():
    network = random_network(3, max_hidden=7)
    x = random_rows(network, 3, 5)
    sizes = [
        nor.evidence_bound(network, x, n_expansions=n).n_configurations for n in (0, 1, 4, 500)
    ]
    assert (sizes[-1] <= 2**network.n_hidden).all()
    assert (np.diff(sizes, axis=0) >= 0).all()
    mode_only = nor.evidence_bound(network, x, n_samples=0, n_expansions=0)
    assert (mode_only.n_configurations == 1).all()


def test_the_bound_rises_with_every_expansion():
    network = random_network(11, max_hidden=7, max_visible=8)
    x = random_rows(network, 2, 8, missing=0.2)
    bounds = [nor.evidence_bound(network, x, n_expansions=n).per_row for n in range(8)]
    assert (np.diff(bounds, axis=0) >= 0).all()
    assert (bounds[-1] > bounds[0]).any()


def test_independent_causes_are_summed_out():
    # Twelve causes of which the row involves one: the others are independent of it.
    edges = [(k, k) for k in range(12)]
    network = nor.from_edges(12, 12, edges, failure_probability=0.3, prior_probability=0.2)
    x = np.eye(12)[:2]
    exact = nor.inference.enumerate_posterior(network, x)
    bound = nor.evidence_bound(network, x, n_samples=0, n_expansions=1)
    np.testing.assert_allclose(bound.per_row, exact.log_likelihood, rtol=1e-12)
    assert (bound.n_configurations == 2).all()


def test_evidence_on_hidden_nodes():
    for seed in range(6):
        network = random_network(seed, max_hidden=6)
        x = random_rows(network, seed, 3, missing=0.1)
        generator = np.random.default_rng(seed)
        hidden = generator.choice([0.0, 1.0, np.nan], (3, network.n_hidden))
        states = hidden_configurations(network.n_hidden)
        table = log_joint_table(network, states, x)
        agrees = (np.isnan(hidden)[:, None] | (states[None] == hidden[:, None])).all(axis=2)
        exact = np.logaddexp.reduce(np.where(agrees, table, -np.inf), axis=1)
        given_hidden = {"hidden": hidden}
        bound = nor.evidence_bound(network, x, n_expansions=64, **given_hidden)
        np.testing.assert_allclose(bound.per_row, exact, rtol=1e-10)
        estimate = nor.estimate_evidence(network, x, n_expansions=1, **given_hidden)
        assert (np.abs(estimate.per_row - exact) <= 5 * estimate.error + 1e-9).all()


def test_estimates_are_as_good_as_their_errors_say():
    scores = []
    for seed in range(80):
        network = random_network(seed, max_hidden=8, max_visible=10)
        x = random_rows(network, seed, 4, missing=0.2)
        exact = nor.inference.enumerate_posterior(network, x).log_likelihood
        estimate = nor.estimate_evidence(network, x, n_expansions=1, n_steps=16)
        complete = estimate.error == 0
        np.testing.assert_allclose(estimate.per_row[complete], exact[complete], rtol=1e-10)
        scores.append(
            ((estimate.per_row - exact) / np.where(complete, 1, estimate.error))[~complete]
        )
    z = np.concatenate(scores)
    assert len(z) > 150
    assert abs(z.mean()) < 0.3
    assert 0.5 < z.std() < 1.4
    assert (np.abs(z) > 2).mean() < 0.1


def test_more_chains_give_smaller_errors():
    network = random_network(1, max_hidden=7, max_visible=8)
    x = random_rows(network, 1, 20)
    few, many = (
        nor.estimate_evidence(network, x, n_chains=n, n_expansions=0).mean_error for n in (8, 128)
    )
    assert many < few / 2


@pytest.mark.parametrize("function", [nor.evidence_bound, nor.estimate_evidence])
def test_threads_order_and_grouping_of_rows_do_not_matter(function):
    network = random_network(5, max_hidden=7)
    rows = nor.Observations.of(random_rows(network, 5, 9, missing=0.1))
    together = function(
        network, rows, n_expansions=2, seed=3, engine=get_engine(n_threads=1)
    ).per_row
    assert (
        function(network, rows, n_expansions=2, seed=3, engine=get_engine(n_threads=3)).per_row
        == together
    ).all()
    order = np.random.default_rng(0).permutation(9)
    shuffled = function(network, rows.take(order), n_expansions=2, seed=3).per_row
    assert (shuffled == together[order]).all()
    alone = [function(network, rows.take([r]), n_expansions=2, seed=3).per_row[0] for r in range(9)]
    assert (alone == together).all()


def test_large_parameters_and_tiny_leaks_stay_finite():
    network = nor.bipartite(
        6, 4, failure_probability=0.0, prior_probability=0.0, noise_probability=0.0
    )
    x = np.vstack([np.ones(6), np.zeros(6), [1, 0, 1, 0, 1, 0]])
    exact = nor.inference.enumerate_posterior(network, x).log_likelihood
    bound = nor.evidence_bound(network, x, n_expansions=16)
    np.testing.assert_allclose(bound.per_row, exact, rtol=1e-9)
    assert np.isfinite(nor.estimate_evidence(network, x, n_expansions=0).per_row).all()


@pytest.mark.parametrize(
    "settings_",
    [{"n_samples": -1}, {"n_expansions": 1.5}, {"seed": -1}],
)
def test_settings_that_make_no_sense_are_refused(settings_):
    network = random_network(0)
    with pytest.raises(InvalidSettingError, match=next(iter(settings_))):
        nor.evidence_bound(network, random_rows(network, 0), **settings_)


def test_other_input_that_makes_no_sense_is_refused():
    network = random_network(0)
    x = random_rows(network, 0)
    with pytest.raises(InvalidSettingError, match="n_chains must be 2"):
        nor.estimate_evidence(network, x, n_chains=1)
    with pytest.raises(InvalidDataError):
        nor.evidence_bound(network, np.zeros((2, network.n_visible + 1)))
