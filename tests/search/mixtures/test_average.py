"""Averages of mixtures: the mean of probabilities, better than one of them on unseen rows."""

from __future__ import annotations

import numpy as np
import pytest
from kinds_of_rows import many_kinds

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError
from noisyor.search import BernoulliMixture, average_mixtures, learn_mixture
from noisyor.search.mixtures import average
from noisyor.search.mixtures.average import clear_gain, learn_again, learn_members, pooled
from noisyor.search.mixtures.learn import mixtures_by_size


@pytest.fixture(scope="module")
def members():
    rows, judges = many_kinds(200, 0), many_kinds(200, 1)
    return learn_members(rows, judges, mixtures_by_size(rows, judges))


class TestPooled:
    def test_has_the_mean_of_the_probabilities(self):
        generator = np.random.default_rng(0)
        mixtures = [
            BernoulliMixture(generator.dirichlet(np.ones(size)), generator.random((size, 4)))
            for size in (1, 3, 2)
        ]
        rows = generator.integers(0, 2, (10, 4)).astype(float)
        rows[3, 1] = np.nan
        expected = np.mean([np.exp(one.log_probability(rows)) for one in mixtures], axis=0)
        found = pooled(mixtures)
        assert found.n_classes == 6
        np.testing.assert_allclose(np.exp(found.log_probability(rows)), expected)


class TestMembers:
    def test_their_average_is_better_on_rows_that_decided_nothing(self, members):
        assert len(members) >= 4
        test, best = many_kinds(2000, 2), members[0]
        gain = pooled(members).log_probability(test).mean() - best.log_probability(test).mean()
        assert gain > 0.05

    def test_all_starts_differ(self, members):
        shapes = {(one.n_classes, one.probability.tobytes()) for one in members}
        assert len(shapes) == len(members)

    def test_rows_of_one_kind_have_one_mixture(self):
        generator = np.random.default_rng(0)
        rows, judges = (Observations.of(generator.integers(0, 2, (200, 5))) for _ in range(2))
        found = mixtures_by_size(rows, judges)
        assert len(learn_members(rows, judges, found)) == 1

    @pytest.mark.parametrize(("classes", "cells"), [(63, 2**23), (4096, 63 * 16)])
    def test_they_are_not_too_many(self, monkeypatch, members, classes, cells):
        monkeypatch.setattr(average, "_MOST_CLASSES", classes)
        monkeypatch.setattr(average, "_MOST_CELLS", cells)
        rows, judges = many_kinds(200, 0), many_kinds(200, 1)
        kept = learn_members(rows, judges, mixtures_by_size(rows, judges))
        assert len(kept) == 1 < len(members)

    def test_learned_again_they_are_the_same(self):
        """Same rows, sizes, starts and rounds: the same mixtures."""
        rows = many_kinds(100, 0)
        options = {"smoothing": 0.5, "max_rounds": 4}
        once = [learn_mixture(rows, size, **options) for size in (2, 3, 2)]
        again = learn_again(once, rows, seed=5)
        assert [one.n_classes for one in again] == [2, 3, 2]
        assert not np.allclose(again[0].probability, again[2].probability)
        for start, (one, other) in enumerate(zip(once, again, strict=True)):
            options = {"smoothing": 0.5, "max_rounds": one.rounds, "seed": 5 + start}
            same = learn_mixture(rows, one.n_classes, **options)
            np.testing.assert_array_equal(other.probability, same.probability)


class TestClearGain:
    def test_beside_its_standard_error(self):
        rows = Observations.of(np.eye(4))
        before = np.zeros(4)
        assert clear_gain(rows, before, np.full(4, 0.1))
        assert clear_gain(rows, before, np.array([1.0, 0.0, 1.0, 0.0]))
        assert not clear_gain(rows, before, np.array([5.0, -4.0, 0.0, 0.0]))
        assert not clear_gain(rows, before, before)

    def test_weights_count(self):
        gain = np.array([1.0, -1.0])
        rows = Observations.of(np.eye(2))
        assert clear_gain(rows.with_weights([30.0, 1.0]), np.zeros(2), gain)
        assert not clear_gain(rows.with_weights([1.0, 30.0]), np.zeros(2), gain)


class TestAverageMixtures:
    def test_without_held_out_rows_all_rows_are_learned_from(self, monkeypatch):
        monkeypatch.setattr(average, "_WORTH", -np.inf)  # few rows decide
        rows, test = many_kinds(200, 0), many_kinds(2000, 2)
        found = average_mixtures(rows)
        one = learn_mixture(rows)
        assert found.n_classes > one.n_classes
        assert found.log_probability(test).mean() > one.log_probability(test).mean() + 0.05

    def test_the_seed_counts(self):
        rows, judges = many_kinds(200, 0), many_kinds(100, 1)
        one, same, other = (average_mixtures(rows, held_out=judges, seed=n) for n in (1, 1, 2))
        np.testing.assert_array_equal(one.probability, same.probability)
        assert one.probability.shape != other.probability.shape or not np.array_equal(
            one.probability, other.probability
        )

    def test_a_single_row(self):
        assert average_mixtures(np.array([[1, 0]])).n_classes == 1

    def test_columns_of_held_out_rows(self):
        with pytest.raises(InvalidDataError, match="columns"):
            nor.search.average_mixtures(np.eye(2), held_out=np.eye(3))
