"""Stability: true causes recur, causes without support do not."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor.errors import InvalidNetworkError, InvalidSettingError
from noisyor.estimators.stability import matched_cosines


@pytest.fixture(scope="module")
def truth():
    failure = np.ones((4, 20))
    for cause in range(4):
        failure[cause, 4 * cause : 4 * cause + 6] = 0.25
    return nor.bipartite(
        20, 4, failure_probability=failure, prior_probability=0.25, noise_probability=0.03
    )


class TestMatchedCosines:
    def test_the_order_of_causes_does_not_matter(self, truth):
        turned = nor.bipartite(
            20,
            4,
            failure_probability=truth.failure_probability[::-1],
            prior_probability=0.25,
            noise_probability=0.03,
        )
        np.testing.assert_allclose(matched_cosines(truth, turned, np.full(20, 0.1)), 1.0)

    def test_causes_that_do_nothing_match_nothing(self, truth):
        failure = truth.failure_probability.copy()
        failure[2] = 1.0
        less = nor.bipartite(20, 4, failure_probability=failure, prior_probability=0.25)
        found = matched_cosines(truth, less, np.full(20, 0.1))
        assert found[2] < 0.5
        assert matched_cosines(less, less, np.full(20, 0.1))[2] == 0


class TestStability:
    def test_true_causes_recur(self, truth):
        X = nor.sample(truth, 2000, seed=0).visible
        model = nor.BooleanMatrixFactorization(4, objective="likelihood").fit(X)
        found = model.stability(X, n_resamples=3)
        assert found.recurrence.mean() >= 0.95
        assert found.recurs.all()
        record = model.provenance_["stability"]
        assert record["n_resamples"] == 3
        assert len(record["recurrence"]) == 4

    def test_causes_of_noise_do_not_recur(self):
        X = np.random.default_rng(0).random((150, 20)) < 0.3
        model = nor.BooleanMatrixFactorization(5, objective="likelihood").fit(X)
        found = model.stability(X, n_resamples=3)
        assert found.recurrence.mean() < 0.6
        assert not found.recurs.all()

    def test_the_result_is_saved(self, truth, tmp_path):
        X = nor.sample(truth, 300, seed=0).visible
        model = nor.BooleanMatrixFactorization(2, objective="likelihood").fit(X)
        one, again = (model.stability(X, n_resamples=1) for _ in range(2))
        np.testing.assert_array_equal(one.cosine, again.cosine)
        model.save(tmp_path / "model.safetensors")
        loaded = nor.BooleanMatrixFactorization.load(tmp_path / "model.safetensors")
        assert loaded.provenance_["stability"] == one.record()

    def test_what_has_no_causes_of_columns_is_refused(self):
        X = np.random.default_rng(0).random((60, 12)) < 0.4
        model = nor.TopicModel(n_layers=3, steps=1).fit(X)
        with pytest.raises(InvalidNetworkError, match="layers"):
            model.stability(X)
        model = nor.BooleanMatrixFactorization(2, objective="likelihood").fit(X)
        with pytest.raises(InvalidSettingError, match="n_resamples"):
            model.stability(X, n_resamples=0)


@pytest.mark.long
def test_causes_of_random_networks_recur():
    shares = []
    for seed in range(3):
        generator = np.random.default_rng(seed)
        failure = np.where(generator.random((12, 60)) < 0.15, 0.3, 1.0)
        prior = generator.uniform(0.05, 0.3, 12)
        truth = nor.bipartite(
            60, 12, failure_probability=failure, prior_probability=prior, noise_probability=0.02
        )
        X = nor.sample(truth, 5000, seed=seed).visible
        model = nor.BooleanMatrixFactorization(12).fit(X)
        shares.append(model.stability(X, n_resamples=5).recurrence.mean())
    assert np.mean(shares) >= 0.95
