"""Causes for the likelihood: same causes for every seed, stages, choice of smoothing."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor.baselines import learn_mixture
from noisyor.engines.context import Context
from noisyor.estimators.stability import matched_cosines
from noisyor.inference.sampling import log_probability
from noisyor.learning import causes
from noisyor.learning.causes import choose_smoothing, learn_causes, sample_by_ones


def context(seed=0):
    return Context.of("auto", seed)


@pytest.fixture(scope="module")
def truth():
    generator = np.random.default_rng(0)
    failure = np.where(generator.random((4, 16)) < 0.3, 0.2, 1.0)
    return nor.bipartite(
        16, 4, failure_probability=failure, prior_probability=0.3, noise_probability=0.02
    )


class TestLearnCauses:
    def test_true_causes_are_found_and_beat_a_mixture_of_as_many_classes(self, truth):
        rows, test = (nor.sample(truth, 1500, seed=seed).visible for seed in (1, 2))
        network = learn_causes(nor.Observations.of(rows), 4, context())
        mixture = learn_mixture(rows, 4).log_probability(test).mean()
        found = log_probability(network, test).mean
        assert found > mixture + 0.1
        assert found > log_probability(truth, test).mean - 0.05

    def test_parts_are_found_where_classes_are_combinations_of_them(self):
        generator = np.random.default_rng(2)
        failure = np.where(generator.random((12, 60)) < 0.15, 0.3, 1.0)
        truth = nor.bipartite(
            60,
            12,
            failure_probability=failure,
            prior_probability=generator.uniform(0.05, 0.3, 12),
            noise_probability=0.02,
        )
        rows, test = (nor.sample(truth, n, seed=n).visible for n in (3000, 300))
        network = learn_causes(nor.Observations.of(rows), 12, context())
        assert log_probability(network, test).mean > log_probability(truth, test).mean - 0.2

    def test_seeds_find_the_same_causes(self, truth):
        rows = nor.Observations.of(nor.sample(truth, 1500, seed=1).visible)
        one, other = (learn_causes(rows, 4, context(seed)) for seed in (0, 1))
        frequency = np.asarray(rows.to_csr().mean(axis=0)).ravel()
        assert matched_cosines(one, other, frequency).min() > 0.9

    def test_stages_end_when_nothing_is_gained(self, truth, monkeypatch):
        rows = nor.Observations.of(nor.sample(truth, 300, seed=1).visible)
        lengths = []
        advance = causes.GibbsRounds.advance

        def counted(self, n_rounds, *args, **options):
            lengths.append(n_rounds)
            return advance(self, n_rounds, *args, **options)

        monkeypatch.setattr(causes.GibbsRounds, "advance", counted)
        monkeypatch.setattr(causes, "_better_start", lambda network, *args: network)
        monkeypatch.setattr(causes, "_MIN_RELATIVE_GAIN", 1.0)
        learn_causes(rows, 2, context(), smoothing=0.5)
        assert lengths == [100, 100]
        lengths.clear()
        monkeypatch.setattr(causes, "_MIN_RELATIVE_GAIN", -1.0)
        learn_causes(rows, 2, context(), smoothing=0.5)
        assert lengths == [100, 100, 200]
        lengths.clear()
        monkeypatch.setattr(causes, "_ONES_TIMES_ROUNDS", 90 * rows.unique_rows()[0].n_active)
        learn_causes(rows, 2, context(), smoothing=0.5)
        assert lengths == [90]


class TestSmoothing:
    def test_many_ones_need_no_choice(self, truth):
        rows = nor.Observations.of(nor.sample(truth, 1500, seed=1).visible)
        assert choose_smoothing(rows, 2, context()) == 0.5

    def test_noise_is_smoothed_more(self):
        X = np.random.default_rng(0).random((60, 80)) < 0.1
        assert choose_smoothing(nor.Observations.of(X), 8, context()) > 0.5


def test_a_sample_keeps_weights():
    rows = nor.Observations.of(np.eye(10)).with_weights(np.arange(1, 11))
    some = sample_by_ones(rows, 5, seed=0)
    assert some.n_rows == 5
    assert set(some.row_weights) <= set(range(1, 11))
    assert sample_by_ones(rows, 10, seed=0) is rows
