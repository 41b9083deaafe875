"""Probabilities of causes against enumeration."""

import numpy as np
import pytest
from random_networks import random_network, random_rows

import noisyor as nor
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidSettingError
from noisyor.inference.sampling import METHODS


def problems(n=12, **options):
    for seed in range(n):
        network = random_network(seed, max_hidden=8, max_visible=10, **options)
        x = random_rows(network, seed, 4, missing=0.2)
        yield network, x, nor.inference.enumerate_posterior(network, x).marginals


def test_few_causes_are_enumerated():
    for network, x, exact in problems():
        found = nor.marginals(network, x)
        assert found.method == "exact"
        np.testing.assert_allclose(found.probability, exact, atol=1e-9)
        assert not found.error.any()
    assert nor.marginals(nor.bipartite(3, 30), np.eye(3)).method == "chains"


def test_chains_are_the_best_estimator_and_close():
    errors = {
        method: np.concatenate(
            [
                (nor.marginals(network, x, method, n_samples=16).probability - exact).ravel()
                for network, x, exact in problems()
            ]
        )
        for method in METHODS
        if method not in ("auto", "exact")
    }
    rms = {method: np.sqrt((error**2).mean()) for method, error in errors.items()}
    assert min(rms, key=rms.get) == "chains"
    assert rms["chains"] < 0.01


def test_errors_of_chains_are_calibrated():
    scores = []
    for network, x, exact in problems(40):
        result = nor.marginals(network, x, "chains", n_samples=6)
        certain = result.error < 1e-9
        np.testing.assert_allclose(result.probability[certain], exact[certain], atol=1e-6)
        scores.append(((result.probability - exact) / np.where(certain, 1, result.error))[~certain])
    z = np.concatenate(scores)
    assert len(z) > 200
    assert (np.abs(z) < 2).mean() > 0.9
    assert z.std() < 1.5


def test_a_method_without_error_bars_says_so():
    network, x, _ = next(problems())
    assert np.isnan(nor.marginals(network, x, "set").error).all()


@pytest.mark.parametrize("method", METHODS)
def test_evidence_on_causes_is_respected(method):
    network = nor.bipartite(4, 3, failure_probability=0.2)
    result = nor.marginals(network, np.array([[1, 1, 0, 1]]), method, hidden={0: 1, 1: 0})
    np.testing.assert_allclose(result.probability[0, :2], [1, 0], atol=1e-9)


def test_explaining_away():
    network = nor.from_edges(
        2,
        2,
        [("flu", "fever"), ("measles", "fever"), ("measles", "rash")],
        failure_probability=[0.1, 0.1, 0.1],
        prior_probability=[0.05, 0.01],
        visible_names=["fever", "rash"],
        hidden_names=["flu", "measles"],
    )
    alone = nor.marginals(network, np.array([[1, np.nan]])).probability[0]
    with_rash = nor.marginals(network, np.array([[1, 1]])).probability[0]
    assert with_rash[0] < alone[0]  # measles explain the fever
    assert with_rash[1] > alone[1]
    exact = nor.inference.enumerate_posterior(network, np.array([[1, 1]])).marginals[0]
    np.testing.assert_allclose(with_rash, exact, atol=1e-12)


def test_threads_and_order_of_rows_do_not_matter():
    network, x, _ = next(problems())
    rows = nor.Observations.of(x)
    one = nor.marginals(network, rows, "chains", n_samples=4, engine=get_engine(n_threads=1))
    other = nor.marginals(
        network, rows.take([3, 1, 0, 2]), "chains", n_samples=4, engine=get_engine(n_threads=2)
    )
    assert (one.probability[[3, 1, 0, 2]] == other.probability).all()
    assert (one.error[[3, 1, 0, 2]] == other.error).all()


def test_settings_that_make_no_sense_are_refused():
    network, x, _ = next(problems())
    with pytest.raises(InvalidSettingError, match=r"method must be .* or .*, got"):
        nor.marginals(network, x, "gibbs")
    with pytest.raises(InvalidSettingError, match="n_samples must be 2"):
        nor.marginals(network, x, n_samples=1)
