"""The search for causes, and networks that start from what it found."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor import factor_search
from noisyor.datasets.bmf import generate_bmf
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.factor_search import search_factors
from noisyor.metrics import factorization_error
from noisyor.warm_start import start_from_factors


@pytest.fixture(scope="module")
def data():
    return generate_bmf(60, 8, 5)


@pytest.fixture(scope="module")
def found(data):
    return search_factors(data.train, 8, seed=1, n_threads=1)


def drawn(found):
    return found.states.astype(int) @ found.factors.astype(int) > 0


def test_clean_product_is_found_without_error(data, found):
    assert found.errors == 0
    np.testing.assert_array_equal(drawn(found), data.train > 0)
    assert {tuple(v) for v in data.V} == {tuple(v) for v in found.factors}
    assert list(found.scores) == sorted(found.scores)
    assert (np.diff(found.states.sum(0, dtype=int)) <= 0).all()


def test_same_seed_same_bits_whatever_the_threads(data, found):
    again = search_factors(data.train, 8, seed=1, n_threads=2)
    np.testing.assert_array_equal(again.states, found.states)
    np.testing.assert_array_equal(again.factors, found.factors)


def test_flipped_and_missing_entries(data):
    generator = np.random.default_rng(0)
    flipped = (data.train > 0) ^ (generator.random(data.train.shape) < 0.03)
    rows = np.where(generator.random(flipped.shape) < 0.2, np.nan, flipped.astype(float))
    found = search_factors(rows, 8, seed=0)
    assert np.mean(drawn(found) != (data.train > 0)) < 0.01


@pytest.mark.parametrize("asked", [12, "auto"])
def test_causes_that_do_not_pay_are_not_kept(data, asked):
    found = search_factors(data.train, asked, seed=0)
    assert 7 <= len(found.factors) <= 9
    assert found.errors == 0


def test_number_of_a_handful_of_causes_is_found_exactly():
    generator = np.random.default_rng(0)
    causes, factors = generator.random((200, 5)) < 0.3, generator.random((5, 40)) < 0.2
    found = search_factors(causes @ factors, "auto")
    assert {tuple(v) for v in found.factors > 0} == {tuple(v) for v in factors}


def test_many_rows_are_sampled(data, monkeypatch):
    monkeypatch.setattr(factor_search, "_MOST_ENTRIES", 40 * 60)
    found = search_factors(np.vstack([data.train] * 3), 8, seed=0, starts=2)
    assert len(found.rows) == len(found.states) == 40
    assert len(set(found.rows.tolist())) == 40


def test_wide_data_start_from_a_linear_factorisation(data, monkeypatch):
    monkeypatch.setattr(factor_search, "_MOST_PRODUCTS", 1000)
    found = search_factors(data.train, 8, seed=0, starts=4)
    assert np.mean(drawn(found) != (data.train > 0)) < 0.05


def test_nothing_to_find():
    found = search_factors(np.zeros((10, 6), dtype=np.uint8), 3)
    assert len(found.factors) == 0
    network = nor.learn_factors(np.zeros((10, 6), dtype=np.uint8), 3, progress=False).network
    assert np.isfinite(network.theta).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_hidden": 0}, "n_hidden must be at least 1"),
        ({"n_hidden": "many"}, "n_hidden must be at least 1 or 'auto'"),
        ({"n_hidden": 2, "starts": 0}, "starts must be at least 1"),
    ],
)
def test_wrong_settings(arguments, message):
    with pytest.raises(InvalidSettingError, match=message):
        search_factors(np.eye(4), **arguments)


def test_no_rows():
    with pytest.raises(InvalidDataError, match="no rows"):
        search_factors(np.empty((0, 4)), 2)


@pytest.mark.parametrize("prior", ["per_latent", "shared"])
@pytest.mark.parametrize("noise", ["per_visible", "shared"])
def test_start_has_the_factors_and_keeps_what_is_fixed(data, found, prior, noise):
    network = nor.bipartite(
        60, 10, prior=prior, noise=noise, noise_probability=0.02, fixed=("noise",)
    )
    start = start_from_factors(network, data.train, found)
    learned = start.theta_of("failure") >= np.log(2.0)
    np.testing.assert_array_equal(learned[:8], found.factors > 0)
    assert not learned[8:].any()
    np.testing.assert_allclose(start.theta_of("noise"), -np.log1p(-0.02))
    share = found.states.mean(0)
    expected = share if prior == "per_latent" else share.mean(keepdims=True)
    probability = -np.expm1(-start.theta_of("prior"))
    np.testing.assert_allclose(probability[: len(expected)], expected, atol=0.02)


def test_learned_factors_explain_unseen_rows(data):
    learned = nor.learn_factors(data.train, 8, seed=1, progress=False)
    posterior = nor.explain(learned.network, data.test)
    assert factorization_error(learned.network, posterior.states.toarray(), data.test) < 0.5
    independent = np.clip(data.train.mean(0), 0.01, 0.99)
    trivial = data.test @ np.log(independent) + (1 - data.test) @ np.log1p(-independent)
    assert posterior.log_joint.mean() > trivial.mean() / 2


def test_paper_start_is_reachable_by_name(data):
    learned = nor.learn_factors(data.train, 8, init="paper-4", steps=3, progress=False)
    assert learned.network.n_hidden == 8
    assert learned.settings["init"] == "paper-4"
    with pytest.raises(InvalidSettingError, match="found with init"):
        nor.learn_factors(data.train, "auto", init="paper-4", progress=False)
