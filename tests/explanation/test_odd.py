"""Odd rows: the order, the entries, and what is accepted as a model."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor.errors import InvalidNetworkError, InvalidSettingError
from noisyor.explanation import odd_rows


@pytest.fixture(scope="module")
def network():
    failure = [[0.1, 0.1, 0.1, 1, 1, 1], [1, 1, 1, 0.1, 0.1, 0.1]]
    return nor.bipartite(
        6, 2, failure_probability=failure, prior_probability=0.3, noise_probability=0.02
    )


X = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 1.0]])


def test_rows_are_ranked_by_log_p(network):
    found = odd_rows(network, X, n=3)
    log_p = nor.inference.log_probability(network, X).per_row
    assert [row.row for row in found] == np.argsort(log_p)[:3].tolist()
    assert [row.log_p for row in found] == pytest.approx(np.sort(log_p)[:3])


def test_entries_are_what_the_other_entries_make_unlikely(network):
    (found,) = odd_rows(network, X[[1]])
    assert (found.entries[0].column, found.entries[0].value) == (3, 1)
    assert all(entry.probability < 0.5 for entry in found.entries)
    expected = nor.inference.predict_visible(network, X[[1]]).probability[0, 3]
    assert found.entries[0].probability == pytest.approx(expected)


def test_missing_entries_do_not_surprise(network):
    row = X[[1]].copy()
    row[0, 3] = np.nan
    (found,) = odd_rows(network, row)
    assert 3 not in [entry.column for entry in found.entries]


def test_a_fitted_estimator_is_a_model():
    rows = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 10, axis=0)
    model = nor.BooleanMatrixFactorization(2)
    with pytest.raises(InvalidNetworkError, match="fit"):
        odd_rows(model, rows)
    model.fit(rows)
    assert odd_rows(model, rows, n=1)[0].row in range(20)
    assert (nor.explain(model, rows).states != nor.explain(model.network_, rows).states).nnz == 0


def test_what_is_no_model_and_no_number_is_refused(network):
    with pytest.raises(InvalidNetworkError, match="str"):
        odd_rows("model.safetensors", X)
    with pytest.raises(InvalidSettingError, match="n must"):
        odd_rows(network, X, n=0)
