"""Causes for the likelihood: true causes, the same for every seed; choice of smoothing."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor.baselines import learn_mixture
from noisyor.engines.context import CheckpointStore, Context
from noisyor.estimators.stability import matched_cosines
from noisyor.inference.sampling import log_probability
from noisyor.learning import causes
from noisyor.learning.causes import learn_causes, sample_by_ones


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
        assert log_probability(network, test).mean > log_probability(truth, test).mean - 0.1

    def test_seeds_find_the_same_causes(self, truth):
        rows = nor.Observations.of(nor.sample(truth, 1500, seed=1).visible)
        one, other = (learn_causes(rows, 4, context(seed)) for seed in (0, 1))
        frequency = np.asarray(rows.to_csr().mean(axis=0)).ravel()
        assert matched_cosines(one, other, frequency).min() > 0.9

    def test_classes_and_parts_start_together(self, truth):
        rows = nor.Observations.of(nor.sample(truth, 600, seed=1).visible)
        learner = causes._Learner(rows, 4, context())
        for share in (1.0, 0.5, 0.0):
            assert learner._draft(share).n_hidden == 4

    def test_there_may_be_more_causes_than_columns(self, truth):
        rows = nor.Observations.of(nor.sample(truth, 600, seed=1).visible)
        assert learn_causes(rows, 20, context()).n_hidden == 20

    def test_empty_rows_have_causes_that_do_nothing(self):
        rows = nor.Observations.of(np.zeros((50, 6)))
        network = learn_causes(rows, 3, context())
        assert log_probability(network, np.zeros((1, 6))).mean > -0.5

    def test_the_start_depends_on_the_seed(self, truth):
        rows = nor.Observations.of(nor.sample(truth, 600, seed=1).visible)
        parts = [causes._Learner(rows, 4, context(seed)).training for seed in (0, 1)]
        assert parts[0].n_rows < rows.n_rows
        assert parts[0].row_ids.tolist() != parts[1].row_ids.tolist()


class TestStop:
    def test_a_run_continues_from_the_start_that_was_kept(self, truth, monkeypatch):
        rows = nor.Observations.of(nor.sample(truth, 600, seed=1).visible)
        found: dict[str, np.ndarray] = {}
        store = CheckpointStore(found, found.update)
        once = learn_causes(rows, 4, context().with_(store=store))
        assert found
        monkeypatch.setattr(causes._Learner, "start", None)
        again = learn_causes(rows, 4, context().with_(store=CheckpointStore(found, None)))
        np.testing.assert_array_equal(again.theta, once.theta)

    def test_the_log_says_that_the_causes_are_found(self, truth, caplog):
        rows = nor.Observations.of(nor.sample(truth, 300, seed=1).visible)
        with caplog.at_level("INFO", "noisyor"):
            learn_causes(rows, 2, context())
        assert "causes found" in caplog.text


class TestSmoothing:
    @staticmethod
    def chosen(X, n_components):
        learner = causes._Learner(nor.Observations.of(X), n_components, context())
        return learner.start().smoothing

    def test_many_ones_need_no_choice(self, truth):
        assert self.chosen(nor.sample(truth, 1500, seed=1).visible, 2) == 0.5

    def test_noise_is_smoothed_more(self):
        assert self.chosen(np.random.default_rng(0).random((60, 80)) < 0.1, 8) > 0.5

    def test_few_rows_with_many_ones_are_smoothed_more(self):
        """Without, the last rounds lose what the first ones gained."""
        generator = np.random.default_rng(0)
        failure = 1.0 - generator.beta(0.5, 1.5, (20, 40))
        truth = nor.bipartite(
            40, 20, noise="per_visible", failure_probability=failure, prior_probability=0.15
        )
        rows = nor.sample(truth, 150, seed=1).visible
        learner = causes._Learner(nor.Observations.of(rows), 20, context())
        start = learner.start()
        assert start.smoothing > 0.5
        unseen = nor.sample(truth, 1000, seed=2).visible
        by_smoothing = [
            log_probability(causes.finish_causes(found, learner.rows, context()), unseen).mean
            for found in (start, start._replace(smoothing=0.5))
        ]
        assert by_smoothing[0] > by_smoothing[1] + 0.3


def test_a_sample_keeps_weights():
    rows = nor.Observations.of(np.eye(10)).with_weights(np.arange(1, 11))
    some = sample_by_ones(rows, 5, seed=0)
    assert some.n_rows == 5
    assert set(some.row_weights) <= set(range(1, 11))
    assert sample_by_ones(rows, 10, seed=0) is rows
