"""The search for causes, and networks that start from what it found."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from sklearn.decomposition import NMF

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.datasets.synthetic import generate_bmf
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.metrics import factorization_error
from noisyor.search import factors
from noisyor.search.cover import OBJECTIVES, Cover, Matrix, refine
from noisyor.search.factors import search_factors
from noisyor.search.starts import start_from_factors


@pytest.fixture(scope="module")
def data():
    return generate_bmf(60, 8, 5)


@pytest.fixture(scope="module")
def found(data):
    return search_factors(data.train, 8, seed=1, engine=get_engine(n_threads=1))


def drawn(found):
    return found.states.astype(int) @ found.factors.astype(int) > 0


def test_clean_product_is_found_without_error(data, found):
    assert found.errors == 0
    np.testing.assert_array_equal(drawn(found), data.train > 0)
    assert {tuple(v) for v in data.V} == {tuple(v) for v in found.factors}
    assert list(found.scores) == sorted(found.scores)
    assert (np.diff(found.states.sum(0, dtype=int)) <= 0).all()


def test_same_seed_same_bits_whatever_the_threads(data, found):
    again = search_factors(data.train, 8, seed=1, engine=get_engine(n_threads=2))
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
    monkeypatch.setattr(factors, "_MAX_ENTRIES", 40 * 60)
    found = search_factors(np.vstack([data.train] * 3), 8, seed=0, n_restarts=2)
    assert len(found.rows) == len(found.states) == 40
    assert len(set(found.rows.tolist())) == 40


def test_rows_that_repeat_are_sampled_by_their_number(data, monkeypatch):
    monkeypatch.setattr(factors, "_MAX_ENTRIES", 20 * 60)
    for module in (factors, factors):
        monkeypatch.setattr(module, "ENOUGH_ROWS", 100)
    rows = np.vstack([data.train] * 3)
    found = search_factors(rows, 8, seed=0, n_restarts=2)
    assert found.matrix.weight.sum() == pytest.approx(20)
    kinds = {tuple(row) for row in rows[found.rows].tolist()}
    assert len(kinds) <= 20
    assert len(found.rows) == sum(tuple(row) in kinds for row in rows.tolist())


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_row_of_weight_w_is_searched_as_w_rows(data, objective, monkeypatch):
    for module in (factors, factors):
        monkeypatch.setattr(module, "ENOUGH_ROWS", 50)
    generator = np.random.default_rng(3)
    rows = np.unique((data.train > 0) ^ (generator.random(data.train.shape) < 0.03), axis=0)
    weights = generator.integers(1, 4, len(rows))
    many = np.repeat(rows, weights, axis=0)
    one = search_factors(
        Observations.of(rows).with_weights(weights), 6, n_restarts=2, objective=objective
    )
    long = search_factors(many, 6, n_restarts=2, objective=objective)
    np.testing.assert_array_equal(one.factors, long.factors)
    np.testing.assert_array_equal(np.repeat(one.states, weights, axis=0), long.states)
    assert one.errors == long.errors == (drawn(long) != many).sum()
    networks = [start_from_factors(found) for found in (one, long)]
    np.testing.assert_allclose(networks[0].theta, networks[1].theta, rtol=1e-5)


def test_wide_data_start_from_a_linear_factorisation(data, monkeypatch):
    monkeypatch.setattr(factors, "_MAX_PRODUCTS", 1000)
    found = search_factors(data.train, 8, seed=0, n_restarts=4)
    assert np.mean(drawn(found) != (data.train > 0)) < 0.05


def test_nothing_to_find():
    found = search_factors(np.zeros((10, 6), dtype=np.uint8), 3)
    assert len(found.factors) == 0
    network = nor.learn_factors(np.zeros((10, 6), dtype=np.uint8), 3, progress=False).network
    assert np.isfinite(network.theta).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_components": 0}, "n_components must be 1, 2, …"),
        ({"n_components": "many"}, "n_components must be 1, 2, … or 'auto'"),
        ({"n_components": 2, "n_restarts": 0}, "n_restarts must be 1, 2, …"),
        ({"n_components": 2, "patience": 0}, "patience must be 1, 2, …"),
        ({"n_components": 2, "objective": "loss"}, "objective"),
        ({"n_components": "auto", "objective": "hamming"}, "objective='mdl'"),
    ],
)
def test_wrong_settings(arguments, message):
    with pytest.raises(InvalidSettingError, match=message):
        search_factors(np.eye(4), **arguments)


def test_no_rows():
    with pytest.raises(InvalidDataError, match="no rows"):
        search_factors(np.empty((0, 4)), 2)


@pytest.fixture(scope="module")
def noisy(data):
    return (data.train > 0) ^ (np.random.default_rng(3).random(data.train.shape) < 0.08)


@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_fewest_errors_of_a_tiny_matrix_are_found(missing):
    bits = np.array(list(product((0, 1), repeat=5)), dtype=bool)
    for seed in range(6):
        generator = np.random.default_rng(seed)
        rows = generator.random((6, 5)) < 0.5
        seen = generator.random(rows.shape) >= missing
        fewest = min(
            sum(
                min(((row != drawn) & kept).sum() for drawn in (0 * a, a, b, a | b))
                for row, kept in zip(rows, seen, strict=True)
            )
            for i, a in enumerate(bits)
            for b in bits[:i]
        )
        found = search_factors(np.where(seen, rows, np.nan), 2, objective="hamming", seed=seed)
        assert found.errors == fewest
        assert len(found.factors) <= 2


@pytest.mark.parametrize("asked", [4, 8])
def test_objective_of_errors_has_fewer_of_them(noisy, asked):
    by_errors = search_factors(noisy, asked, objective="hamming")
    by_length = search_factors(noisy, asked)
    assert by_errors.errors <= by_length.errors
    assert by_errors.errors == (drawn(by_errors) != noisy).sum()
    assert len(by_errors.factors) <= asked


def test_search_for_errors_ends_below_a_refined_linear_factorisation(noisy):
    matrix = Matrix(noisy, np.ones_like(noisy))
    for seed in range(3):
        model = NMF(8, init="nndsvda", max_iter=500, random_state=seed)
        states = model.fit_transform(noisy.astype(float))
        start = Cover.of(matrix, states > 0.3, model.components_ > 0.3, "hamming")
        refined = refine(matrix, start).errors(matrix)
        assert search_factors(noisy, 8, objective="hamming", seed=seed).errors <= refined


def test_search_for_errors_is_the_same_for_a_seed_whatever_the_threads(noisy):
    one, two = (
        search_factors(noisy, 6, objective="hamming", engine=get_engine(n_threads=n))
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one.states, two.states)
    np.testing.assert_array_equal(one.factors, two.factors)
    assert one.scores == two.scores
    assert list(one.scores) == sorted(one.scores)


def test_search_for_errors_ignores_missing_entries(data):
    hidden = np.random.default_rng(4).random(data.train.shape) < 0.2
    rows = np.where(hidden, np.nan, data.train.astype(float))
    found = search_factors(rows, 8, objective="hamming")
    assert found.errors == 0
    assert np.mean(drawn(found)[hidden] != (data.train[hidden] > 0)) < 0.1


@pytest.mark.parametrize("shape", [(60, 14), (14, 60)])
def test_as_many_factors_as_distinct_columns_or_rows_leave_no_error(shape):
    rows = np.random.default_rng(3).random(shape) < 0.5  # nothing but lines of the short side fits
    found = search_factors(rows, 14, objective="hamming")
    assert found.errors == 0
    np.testing.assert_array_equal(drawn(found), rows)


def test_with_one_factor_less_than_columns_only_the_rarest_column_is_lost():
    rows = np.random.default_rng(3).random((60, 14)) < 0.5
    found = search_factors(rows, 13, objective="hamming")
    assert 0 < found.errors <= rows.sum(0).min()


def test_no_ones_need_no_causes():
    assert len(search_factors(np.zeros((5, 4)), 2, objective="hamming").factors) == 0


def test_start_has_the_factors_and_their_frequencies(found):
    start = start_from_factors(found)
    np.testing.assert_array_equal(start.theta_of("failure") >= np.log(2.0), found.factors > 0)
    np.testing.assert_allclose(start.prior_probability, found.states.mean(0), atol=0.02)
    np.testing.assert_allclose(start.noise_probability, found.rates.false_positive, atol=0.02)


def test_learned_factors_explain_unseen_rows(data):
    learned = nor.learn_factors(data.train, 8, seed=1, progress=False)
    posterior = nor.explain(learned.network, data.test)
    assert factorization_error(learned.network, posterior.states.toarray(), data.test) < 0.5
    independent = np.clip(data.train.mean(0), 0.01, 0.99)
    trivial = data.test @ np.log(independent) + (1 - data.test) @ np.log1p(-independent)
    assert posterior.log_joint.mean() > trivial.mean() / 2


def test_rows_are_made_dense_once_and_once_for_each_joint_run(data, monkeypatch):
    calls = {"dense": 0, "joint": 0}

    def counted(name, function):
        def call(*arguments, **options):
            calls[name] += 1
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(Observations, "to_dense", counted("dense", Observations.to_dense))
    monkeypatch.setattr(factors, "pmp_factorize", counted("joint", factors.pmp_factorize))
    nor.learn_factors(data.train, 8, objective="mdl", n_restarts=2, progress=False)
    assert calls["joint"] > 1
    assert calls["dense"] == 1 + calls["joint"]
