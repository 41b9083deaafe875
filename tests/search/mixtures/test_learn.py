"""Mixtures of Bernoulli products, held to enumeration and to what the rounds promise."""

from __future__ import annotations

from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import noisyor as nor
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.search import BernoulliMixture, learn_mixture
from noisyor.search.mixtures import learn as learn_module
from noisyor.search.mixtures import model
from noisyor.search.mixtures.learn import mixtures_by_size

few = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**20)
shapes = st.tuples(st.integers(2, 30), st.integers(1, 6))


def some_mixture(seed: int, n_classes: int, n_visible: int) -> BernoulliMixture:
    generator = np.random.default_rng(seed)
    return BernoulliMixture(
        generator.dirichlet(np.ones(n_classes)),
        generator.uniform(0.02, 0.98, (n_classes, n_visible)),
    )


def some_rows(seed: int, shape: tuple[int, int], unknown: float = 0.0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    rows = (generator.random(shape) < generator.uniform(0.1, 0.9, shape[1])).astype(np.float64)
    rows[generator.random(shape) < unknown] = np.nan
    return rows


def two_kinds(n_rows: int, seed: int = 0) -> np.ndarray:
    """Rows of two kinds, on mostly in the first or mostly in the last four of eight columns."""
    generator = np.random.default_rng(seed)
    first = generator.random(n_rows) < 0.4
    on = np.where(first[:, None] == (np.arange(8) < 4), 0.85, 0.1)
    return (generator.random((n_rows, 8)) < on).astype(np.float64)


class TestProbability:
    @few
    @given(seeds, st.integers(1, 4))
    def test_it_sums_to_one_over_all_rows(self, seed, n_classes):
        everything = np.array(list(product([0, 1], repeat=4)))
        log_p = some_mixture(seed, n_classes, 4).log_probability(everything)
        assert np.exp(log_p).sum() == pytest.approx(1.0)

    @few
    @given(seeds, st.integers(1, 4), shapes)
    def test_it_is_the_average_of_the_classes(self, seed, n_classes, shape):
        model, X = some_mixture(seed, n_classes, shape[1]), some_rows(seed, shape)
        on = model.probability[None]
        each = np.where(X[:, None] == 1, on, 1.0 - on).prod(axis=2)
        np.testing.assert_allclose(np.exp(model.log_probability(X)), each @ model.share)

    @few
    @given(seeds, st.integers(1, 4), shapes)
    def test_unobserved_entries_are_summed_out(self, seed, n_classes, shape):
        model, X = some_mixture(seed, n_classes, shape[1]), some_rows(seed, shape, unknown=0.3)
        for row, log_p in zip(X, model.log_probability(X), strict=True):
            unknown = np.flatnonzero(np.isnan(row))
            filled = np.repeat(row[None], 2 ** len(unknown), axis=0)
            filled[:, unknown] = list(product([0, 1], repeat=len(unknown)))
            assert log_p == pytest.approx(logsumexp(model.log_probability(filled)))

    def test_other_columns_are_refused(self):
        with pytest.raises(InvalidDataError, match="columns"):
            some_mixture(0, 2, 3).log_probability(np.zeros((1, 4)))


class TestRounds:
    @few
    @given(seeds, shapes, st.integers(1, 4), st.booleans())
    def test_a_round_never_lowers_the_likelihood(self, seed, shape, n_classes, partly):
        """With next to no smoothing; probabilities are clipped at a millionth."""
        X = some_rows(seed, shape, unknown=0.2 if partly else 0.0)
        values = []
        for rounds in range(1, 9):
            # With several starts, more rounds may go on from another one.
            with patch.object(learn_module, "_STARTS", 1):
                found = learn_mixture(
                    X, n_classes, smoothing=1e-9, max_rounds=rounds, seed=seed % 7
                )
            values.append(found.log_probability(X).sum())
        assert np.diff(values).min() > -1e-4

    def test_pseudo_rows_follow_how_full_the_rows_of_their_class_are(self):
        """Long and short documents over one vocabulary stay long and short, however smoothed."""
        generator = np.random.default_rng(0)
        base = generator.random(50) * 0.2
        scale = np.repeat([0.3, 3.0], 200)[:, None]
        X = (generator.random((400, 50)) < base * scale).astype(float)
        mean = X.mean(axis=0).sum()
        found = learn_mixture(X, 2, smoothing=1000.0)
        short, long = np.sort(found.probability.sum(axis=1))
        assert short < 0.6 * mean
        assert long > 1.2 * mean

    def test_larger_smoothings_join_as_long_as_the_largest_is_best(self):
        """Noise of many columns in few rows: hundreds of pseudo-rows are best."""
        generator = np.random.default_rng(0)
        rows, unseen = ((generator.random((60, 200)) < 0.1).astype(float) for _ in range(2))
        found = learn_mixture(rows, 8, held_out=unseen)
        assert found.smoothing > max(learn_module._SMOOTHINGS)
        assert learn_mixture(rows, 8, held_out=unseen, smoothing=0.2).smoothing == 0.2

    @few
    @given(seeds, shapes, st.sampled_from([1e-3, 1.0, 5.0]))
    def test_one_class_is_the_smoothed_average_of_what_was_seen(self, seed, shape, smoothing):
        X = some_rows(seed, shape, unknown=0.3)
        on, seen = np.nansum(X, axis=0), (~np.isnan(X)).sum(axis=0)
        base = (on + 0.5) / (seen + 1.0)
        found = learn_mixture(X, 1, smoothing=smoothing)
        np.testing.assert_allclose(found.share, [1.0])
        fuller = (on.sum() + base.sum()) / (seen @ base + base.sum())
        odds = fuller**0.5 * base / (1.0 - base)
        average = odds / (1.0 + odds)
        expected = np.clip((on + smoothing * average) / (seen + smoothing), 1e-6, 1 - 1e-6)
        np.testing.assert_allclose(found.probability[0], expected)

    @few
    @given(seeds, shapes, st.integers(1, 4))
    def test_a_row_of_weight_w_counts_as_w_rows(self, seed, shape, n_classes):
        X = some_rows(seed, shape, unknown=0.1)
        times = np.random.default_rng(seed).integers(1, 5, len(X))
        repeated = learn_mixture(np.repeat(X, times, axis=0), n_classes)
        weighted = learn_mixture(nor.Observations.of(X).with_weights(times), n_classes)
        np.testing.assert_allclose(weighted.share, repeated.share)
        np.testing.assert_allclose(weighted.probability, repeated.probability)

    @pytest.mark.parametrize("unknown", [0.0, 0.2])
    def test_sparse_dense_and_blocks_agree(self, monkeypatch, unknown):
        X, found = some_rows(3, (60, 7), unknown), []
        for dense, block in ((0.0, 2**22), (2.0, 2**22), (0.0, 15), (2.0, 15)):
            monkeypatch.setattr(model, "_DENSE", dense)
            monkeypatch.setattr(model, "_BLOCK", block)
            learned = learn_mixture(X, 3)
            found.append((learned.share, learned.probability, learned.log_probability(X)))
        for other in found[1:]:
            for one, two in zip(found[0], other, strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-9)

    def test_bits_do_not_depend_on_the_number_of_threads(self, monkeypatch):
        X, found = two_kinds(300), []
        monkeypatch.setattr(model, "_BLOCK", 64)
        for threads in ("1", "2", "5"):
            monkeypatch.setenv("NOISYOR_NUM_THREADS", threads)
            learned = learn_mixture(X, 4, max_rounds=20)
            found.append((learned.share, learned.probability, learned.log_probability(X)))
        for other in found[1:]:
            for one, two in zip(found[0], other, strict=True):
                np.testing.assert_array_equal(one, two)

    def test_blocks_are_no_narrower_than_their_sums(self, monkeypatch):
        rows = nor.Observations.of(some_rows(0, (100, 80)))
        monkeypatch.setattr(model, "_BLOCK", 1)
        assert [len(block.weight) for block in model.blocks_of(rows, 10)] == [20] * 5

    def test_large_tables_are_learned_with_seven_digits(self, monkeypatch):
        X = two_kinds(500)
        exact = learn_mixture(X, 4, max_rounds=12)
        monkeypatch.setattr(model, "_SINGLE", 0)
        rough = learn_mixture(X, 4, max_rounds=12)
        assert not np.array_equal(rough.probability, exact.probability)
        np.testing.assert_allclose(rough.probability, exact.probability, atol=1e-4)
        np.testing.assert_allclose(rough.share, exact.share, atol=1e-4)
        assert rough.probability.dtype == np.float64

    def test_the_order_of_rows_does_not_matter(self):
        X = two_kinds(400)
        shuffled = np.random.default_rng(1).permutation(X)
        one = learn_mixture(X, 1), learn_mixture(shuffled, 1)
        np.testing.assert_allclose(one[0].probability, one[1].probability)
        two = [learn_mixture(rows, 2).log_probability(X).mean() for rows in (X, shuffled)]
        assert two[0] == pytest.approx(two[1], abs=1e-3)

    def test_more_classes_than_rows(self):
        X = two_kinds(3)
        found = learn_mixture(X, 10)
        assert found.n_classes == 10
        assert np.isfinite(found.log_probability(X)).all()

    def test_the_same_seed_gives_the_same_mixture(self):
        X = some_rows(0, (50, 6))
        one, same, other = (learn_mixture(X, 3, seed=seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(one.probability, same.probability)
        assert not np.array_equal(one.probability, other.probability)


class TestNumberOfClasses:
    def test_it_is_found(self):
        X, unseen = two_kinds(600), two_kinds(2000, seed=1)
        found = learn_mixture(X)
        kind = np.where(np.arange(8) < 4, 0.85, 0.1)
        truth = BernoulliMixture(np.array([0.4, 0.6]), np.array([kind, kind[::-1]]))
        assert 2 <= found.n_classes <= 4
        lost = truth.log_probability(unseen) - found.log_probability(unseen)
        assert abs(lost.mean()) < 0.05

    def test_classes_that_noise_suggests_do_no_harm(self):
        X = some_rows(0, (2000, 6))
        found = learn_mixture(X[:1000], held_out=X[1000:1500])
        lost = learn_mixture(X[:1000], 1).log_probability(X) - found.log_probability(X)
        assert abs(lost[1500:].mean()) < 0.02

    def test_given_rows_decide(self):
        """Rows without structure see no use in the two kinds, rows of two kinds do."""
        X = two_kinds(300)
        shuffled = np.random.default_rng(0).permuted(X, axis=0)
        assert learn_mixture(X, held_out=shuffled).n_classes == 1
        assert learn_mixture(X, held_out=two_kinds(300, seed=1)).n_classes > 1

    def test_held_out_rows_end_the_rounds_early(self):
        X, unseen = some_rows(1, (40, 12)), some_rows(2, (200, 12))
        judged = learn_mixture(X, 20, smoothing=1e-3, held_out=unseen)
        by_heart = learn_mixture(X, 20, smoothing=1e-3)
        assert judged.log_probability(unseen).mean() > by_heart.log_probability(unseen).mean()

    def test_held_out_rows_choose_the_smoothing(self):
        X, unseen = two_kinds(30), two_kinds(500, seed=1)
        values = {
            smoothing: learn_mixture(X, 4, smoothing=smoothing, held_out=unseen)
            .log_probability(unseen)
            .mean()
            for smoothing in learn_module._SMOOTHINGS
        }
        chosen = learn_mixture(X, 4, held_out=unseen)
        assert chosen.smoothing == max(values, key=values.get)
        assert chosen.log_probability(unseen).mean() == pytest.approx(max(values.values()))

    def test_all_sizes_on_the_way(self):
        rows, unseen = (nor.Observations.of(two_kinds(300, seed=seed)) for seed in (0, 1))
        found = mixtures_by_size(rows, unseen)
        assert list(found) == [2**step for step in range(len(found))]
        for size, (one, value) in found.items():
            assert one.n_classes == size
            assert value == pytest.approx(one.log_probability(unseen).mean())
        best = max(found, key=lambda size: found[size][1])
        assert learn_mixture(rows, held_out=unseen).n_classes == best

    @pytest.mark.parametrize("max_rounds", [1, 5])
    def test_the_smoothing_is_known_to_the_mixture(self, max_rounds):
        X = two_kinds(30)
        assert learn_mixture(X, 2, smoothing=0.3, max_rounds=max_rounds).smoothing == 0.3
        assert learn_mixture(X, 2, max_rounds=max_rounds).smoothing == 1.0

    def test_a_single_row(self):
        assert learn_mixture(np.array([[1, 0]])).n_classes == 1


class TestWrongInput:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"n_components": 0},
            {"n_components": 2.5},
            {"n_components": "many"},
            {"smoothing": 0.0},
            {"smoothing": -1.0},
            {"smoothing": "little"},
            {"max_rounds": 0},
            {"seed": -1},
        ],
    )
    def test_settings(self, wrong):
        (name,) = wrong
        with pytest.raises(InvalidSettingError, match=name):
            learn_mixture(np.eye(2), **wrong)

    def test_rows(self):
        with pytest.raises(InvalidDataError, match="no rows"):
            learn_mixture(np.empty((0, 3)))
        with pytest.raises(InvalidDataError, match="2"):
            learn_mixture(np.array([[2, 0]]))
        with pytest.raises(InvalidDataError, match="columns"):
            learn_mixture(np.eye(2), held_out=np.eye(3))
