"""Weights of rows in estimators: whole ones are repetitions, zero is absence."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import noisyor as nor
from noisyor.data.chunks import open_rows, write_rows
from noisyor.errors import InvalidDataError

WEIGHTS = np.random.default_rng(5).integers(0, 4, 80)


def smooth(estimator):
    """The same without noise and with all rows in every update."""
    return estimator.set_params(method=nor.MeanField(local=True), batch_size="all", steps=5)


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_a_row_of_weight_w_counts_as_w_rows(estimator, X, learn):
    estimator = smooth(estimator).set_params(random_state=3)
    weighted = getattr(estimator, learn)(X, sample_weight=WEIGHTS)
    theta, score = weighted.network_.theta, weighted.score(X, sample_weight=WEIGHTS)
    many = np.repeat(X, WEIGHTS, axis=0)
    repeated = getattr(clone(estimator), learn)(many)
    np.testing.assert_allclose(theta, repeated.network_.theta, rtol=1e-6)
    assert score == pytest.approx(weighted.score(many), rel=1e-9)
    assert score != pytest.approx(weighted.score(X), rel=1e-4)


def test_a_row_of_weight_zero_is_absent(estimator, X):
    there = WEIGHTS > 0
    theta = estimator.fit(X, sample_weight=there.astype(float)).network_.theta
    some = nor.Observations.of(X).take(there)
    np.testing.assert_array_equal(theta, estimator.fit(some).network_.theta)


def test_score_is_a_weighted_mean(estimator, X):
    model = estimator.fit(X)
    expected = np.average(model.score_samples(X), weights=WEIGHTS)
    assert model.score(X, sample_weight=list(WEIGHTS)) == pytest.approx(expected)
    states = estimator.fit_transform(X, sample_weight=WEIGHTS)
    assert len(states) == len(X)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(79), r"sample_weight must have shape \(80,\), got \(79,\)"),
        (np.ones((80, 1)), r"must have shape \(80,\)"),
        (np.where(np.arange(80) == 7, -1, 1), "row 7: expected 0 or a positive number, got -1"),
        (np.where(np.arange(80) == 8, np.nan, 1), "row 8: .* got nan"),
        (np.zeros(80), "zero for all rows"),
        (["a"] * 80, "80 numbers"),
        ([10**400] * 80, "80 numbers"),
        ([1j] * 80, "80 numbers"),
        (np.full(80, 1e-300), "row 0: .* got 1e-300"),
    ],
)
@pytest.mark.parametrize("use", ["fit", "partial_fit", "score"])
def test_wrong_weights(X, use, weights, message):
    model = nor.NoisyOrNetwork(nor.bipartite(12, 2), steps=1)
    if use == "score":
        model.fit(X)
    with pytest.raises(InvalidDataError, match=message):
        getattr(model, use)(X, sample_weight=weights)


def test_rows_have_one_kind_of_weights(X, tmp_path):
    model = nor.NoisyOrNetwork(nor.bipartite(12, 2), steps=1)
    rows = nor.Observations.of(X).with_weights(np.arange(80) + 1.0)
    with pytest.raises(InvalidDataError, match="weights of their own"):
        model.fit(rows, sample_weight=np.ones(80))
    write_rows(tmp_path / "rows", [X])
    with pytest.raises(InvalidDataError, match="not for chunks"):
        model.fit(open_rows(tmp_path / "rows"), sample_weight=np.ones(80))
