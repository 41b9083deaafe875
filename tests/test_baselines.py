"""Baselines, compared with enumeration: independent columns, mixtures of Bernoullis, trees."""

from __future__ import annotations

from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import noisyor as nor
from noisyor import baselines
from noisyor.baselines import BernoulliMixture, chow_liu, independent_columns, learn_mixture
from noisyor.errors import InvalidDataError, InvalidSettingError

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


def every_row(n_visible: int) -> np.ndarray:
    return np.array(list(product([0, 1], repeat=n_visible)))


def some_tree(seed: int, n_visible: int) -> baselines.ChowLiuTree:
    return chow_liu(some_rows(seed, (20, n_visible)))


MODELS = {
    "independent": lambda seed, n_visible: independent_columns(some_rows(seed, (9, n_visible))),
    "mixture": lambda seed, n_visible: some_mixture(seed, 1 + seed % 4, n_visible),
    "tree": some_tree,
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
class TestProbability:
    @few
    @given(seed=seeds)
    def test_it_sums_to_one_over_all_rows(self, model, seed):
        log_p = model(seed, 4).log_probability(every_row(4))
        assert np.exp(log_p).sum() == pytest.approx(1.0)

    @few
    @given(seed=seeds, shape=shapes)
    def test_missing_values_are_summed_out(self, model, seed, shape):
        learned, X = model(seed, shape[1]), some_rows(seed, shape, unknown=0.3)
        for row, log_p in zip(X, learned.log_probability(X), strict=True):
            unknown = np.flatnonzero(np.isnan(row))
            filled = np.repeat(row[None], 2 ** len(unknown), axis=0)
            filled[:, unknown] = list(product([0, 1], repeat=len(unknown)))
            assert log_p == pytest.approx(logsumexp(learned.log_probability(filled)))

    def test_other_columns_are_refused(self, model):
        with pytest.raises(InvalidDataError, match="columns"):
            model(0, 3).log_probability(np.zeros((1, 4)))


class TestIndependentColumns:
    def test_one_row_that_is_half_on_is_added(self):
        found = independent_columns(np.array([[1, 0], [1, 0], [0, 0]]))
        np.testing.assert_allclose(found.probability, [2.5 / 4, 0.5 / 4])

    def test_missing_values_do_not_count(self):
        found = independent_columns(np.array([[1, 0], [1, np.nan]]))
        np.testing.assert_allclose(found.probability, [2.5 / 3, 0.5 / 2])
        expected = np.log([found.probability[0] * found.probability[1], 1 - 0.25])
        np.testing.assert_allclose(found.log_probability(np.array([[1, 1], [np.nan, 0]])), expected)

    def test_a_row_of_weight_w_counts_as_w_rows(self):
        rows, copies = some_rows(2, (3, 4), unknown=0.2), np.array([3, 1, 2])
        weighted = independent_columns(nor.Observations.of(rows).with_weights(copies))
        repeated = independent_columns(np.repeat(rows, copies, axis=0))
        np.testing.assert_allclose(weighted.probability, repeated.probability)


class TestTree:
    @few
    @given(seeds)
    def test_no_tree_gives_the_rows_a_larger_likelihood(self, seed):
        """All 16 spanning trees of four columns, each with its own counts."""
        X = some_rows(seed, (30, 4)).astype(int)
        X[:, 1] = np.where(np.random.default_rng(seed).random(30) < 0.7, X[:, 0], X[:, 1])
        found = chow_liu(X, smoothing=1e-9)
        best = -np.inf
        for parents in product(range(4), repeat=3):  # parents of columns 1 to 3; 0 is the root
            steps, column = [], 1
            for column in (1, 2, 3):
                above = column
                for _ in range(4):
                    above = 0 if above == 0 else parents[above - 1]
                steps.append(above)
            if any(steps):  # a cycle
                continue
            value = _likelihood(X[:, :1], X[:, 0] * 0)
            for column in (1, 2, 3):
                value += _likelihood(X[:, column : column + 1], X[:, parents[column - 1]])
            best = max(best, value)
        assert found.log_probability(X).sum() == pytest.approx(best, abs=1e-3)

    def test_a_chain_is_found(self):
        generator = np.random.default_rng(0)
        X = np.zeros((3000, 5), int)
        X[:, 0] = generator.random(3000) < 0.5
        for column in range(1, 5):
            flip = generator.random(3000) < 0.15
            X[:, column] = X[:, column - 1] ^ flip
        tree = chow_liu(X)
        assert tree.parent.tolist() == [-1, 0, 1, 2, 3]
        np.testing.assert_allclose(tree.probability[1:], [[0.15, 0.85]] * 4, atol=0.04)
        better = tree.log_probability(X) - independent_columns(X).log_probability(X)
        assert better.mean() > 0.5

    def test_smoothing_adds_to_each_cell_of_a_pair(self):
        tree = chow_liu(np.array([[1, 1], [1, 1], [0, 0]]), smoothing=0.5)
        np.testing.assert_allclose(tree.probability, [[3 / 5, 3 / 5], [0.5 / 2, 2.5 / 3]])

    def test_rows_with_missing_values_count_where_both_columns_are_known(self):
        X = np.array([[1, 1], [1, 0], [0, 0], [np.nan, 1], [1, np.nan]])
        tree = chow_liu(X, smoothing=0.5)
        np.testing.assert_allclose(tree.probability, [[4 / 6, 4 / 6], [0.5 / 2, 1.5 / 3]])

    @few
    @given(seeds, shapes)
    def test_a_row_of_weight_w_counts_as_w_rows(self, seed, shape):
        X = some_rows(seed, shape, unknown=0.2)
        times = np.random.default_rng(seed).integers(1, 5, len(X))
        repeated = chow_liu(np.repeat(X, times, axis=0))
        weighted = chow_liu(nor.Observations.of(X).with_weights(times))
        np.testing.assert_allclose(weighted.log_probability(X), repeated.log_probability(X))

    def test_blocks_of_rows(self, monkeypatch):
        tree, X = some_tree(0, 5), some_rows(1, (50, 5), unknown=0.2)
        whole = tree.log_probability(X)
        monkeypatch.setattr(baselines, "_TREE_BLOCK", 7)
        np.testing.assert_array_equal(tree.log_probability(X), whole)

    def test_smoothing_is_positive(self):
        with pytest.raises(InvalidSettingError, match="smoothing"):
            chow_liu(np.eye(2), smoothing=0.0)


def _likelihood(column: np.ndarray, parent: np.ndarray) -> float:
    """Largest log-likelihood of a column (n, 1) given another one (n,)."""
    total = 0.0
    for value in (0, 1):
        part = column[parent == value, 0]
        for count in (part.sum(), len(part) - part.sum()):
            if count:
                total += count * np.log(count / len(part))
    return total


class TestMixture:
    @few
    @given(seeds, st.integers(1, 4), shapes)
    def test_a_row_is_as_probable_as_the_average_over_classes(self, seed, n_classes, shape):
        model, X = some_mixture(seed, n_classes, shape[1]), some_rows(seed, shape)
        on = model.probability[None]
        each = np.where(X[:, None] == 1, on, 1.0 - on).prod(axis=2) * model.share
        total = each.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(np.exp(model.log_probability(X)), total[:, 0])
        np.testing.assert_allclose(model.responsibilities(X), each / total)


class TestRoundsOfMixture:
    @few
    @given(seeds, shapes, st.integers(1, 4), st.booleans())
    def test_a_round_never_lowers_the_likelihood(self, seed, shape, n_classes, partly):
        """With next to no smoothing; probabilities are clipped at a millionth."""
        X = some_rows(seed, shape, unknown=0.2 if partly else 0.0)
        values = []
        for rounds in range(1, 9):
            # With several starts, more rounds may go on from another one.
            with patch.object(baselines, "_MAX_STARTS", 1):
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
            monkeypatch.setattr(baselines, "_DENSE", dense)
            monkeypatch.setattr(baselines, "_BLOCK", block)
            learned = learn_mixture(X, 3)
            found.append((learned.share, learned.probability, learned.log_probability(X)))
        for other in found[1:]:
            for one, two in zip(found[0], other, strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-9)

    def test_bits_do_not_depend_on_the_number_of_threads(self, monkeypatch):
        X, found = two_kinds(300), []
        monkeypatch.setattr(baselines, "_BLOCK", 64)
        for threads in ("1", "2", "5"):
            monkeypatch.setenv("NOISYOR_NUM_THREADS", threads)
            learned = learn_mixture(X, 4, max_rounds=20)
            found.append((learned.share, learned.probability, learned.log_probability(X)))
        for other in found[1:]:
            for one, two in zip(found[0], other, strict=True):
                np.testing.assert_array_equal(one, two)

    def test_blocks_are_no_narrower_than_their_sums(self, monkeypatch):
        rows = nor.Observations.of(some_rows(0, (100, 80)))
        monkeypatch.setattr(baselines, "_BLOCK", 1)
        assert [len(block.weight) for block in baselines._split_rows(rows, 10)] == [20] * 5

    def test_large_tables_are_learned_with_seven_digits(self, monkeypatch):
        X = two_kinds(500)
        exact = learn_mixture(X, 4, max_rounds=12)
        monkeypatch.setattr(baselines, "_SINGLE_PRECISION", 0)
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

    def test_splitting_needs_no_random_numbers(self):
        kinds = np.arange(300)[:, None] % 3 == np.arange(6) // 2
        X = np.maximum(some_rows(0, (300, 6)), kinds)
        one, other = (learn_mixture(X, 5, start="split", seed=seed) for seed in (1, 2))
        np.testing.assert_array_equal(one.probability, other.probability)
        assert one.n_classes == 5
        random = learn_mixture(X, 5).log_probability(X).mean()
        assert one.log_probability(X).mean() > random - 0.1

    def test_splitting_takes_missing_values_and_weights(self):
        X = two_kinds(200).astype(np.float64)
        X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
        found = learn_mixture(X, 2, start="split")
        assert np.ptp(found.probability, axis=0).min() > 0.4
        rows = nor.Observations.of(X)
        doubled = learn_mixture(rows.with_weights(np.full(200, 2.0)), 2, start="split", smoothing=2)
        np.testing.assert_allclose(doubled.probability, found.probability, atol=1e-3)


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
        found = learn_mixture(X[:1000])
        lost = learn_mixture(X[:1000], 1).log_probability(X) - found.log_probability(X)
        assert abs(lost[1000:].mean()) < 0.02

    def test_held_out_rows_choose_the_smoothing(self):
        """Noise of many columns in few rows: many pseudo-rows are best."""
        generator = np.random.default_rng(0)
        noise = (generator.random((60, 200)) < 0.1).astype(float)
        kinds = np.repeat(noise[:4], 15, axis=0)
        assert learn_mixture(noise).smoothing == 10.0
        assert learn_mixture(kinds).smoothing == 1.0
        assert learn_mixture(noise, smoothing=0.2).smoothing == 0.2

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
