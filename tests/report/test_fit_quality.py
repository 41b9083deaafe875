from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.report.fit_quality import explain_rows
from noisyor.report.residuals import (
    EXTRA,
    MISSED,
    OFF,
    RECONSTRUCTED,
    UNKNOWN,
    matrix_data,
    residuals,
)


class TestBounds:
    def test_rows_are_spread_over_the_data(self, topics):
        some = explain_rows(topics.network, topics.observations, 10)
        assert some.number[0] == 0
        assert some.number[-1] == 299
        assert len(some.number) == len(some.elbo) == 10
        assert some.n_rows == 300
        everything = explain_rows(topics.network, topics.observations, 1000)
        np.testing.assert_allclose(everything.elbo[some.number], some.elbo)
        assert everything.elbo.mean() > everything.independent


class TestMatrix:
    def test_codes_of_a_row(self):
        network = nor.bipartite(
            4,
            1,
            failure_probability=[[0.3, 0.3, 0.99999, 0.99999]],
            prior_probability=0.4,
            noise_probability=0.01,
        )
        X = np.array([[1, 1, 1, 0], [1, 0, np.nan, 0]])
        rows = explain_rows(network, Observations.of(X), 10)
        assert rows.states.toarray().ravel().tolist() == [1, 1]
        data = matrix_data(network, rows, ("first", "second"))
        codes = [RECONSTRUCTED, RECONSTRUCTED, MISSED, OFF, RECONSTRUCTED, EXTRA, UNKNOWN, OFF]
        assert data["cells"] == "".join(map(str, codes))
        assert data["rows"] == ["first", "second"]
        left = residuals(network, rows)
        assert left.total.tolist() == [2, 3, 1, 1, 1]
        assert left.recall == pytest.approx(3 / 4)
        assert left.wrong == pytest.approx(2 / 7)

    def test_orders_are_permutations_that_bring_causes_together(self, factors):
        rows = explain_rows(factors.network, factors.observations, 1000)
        data = matrix_data(factors.network, rows, None)
        assert sorted(data["row_order"]) == list(range(200))
        assert sorted(data["column_order"]) == list(range(9))
        owners = np.array(data["column_order"]) // 3
        assert (np.diff(owners) != 0).sum() == 2
        busiest = np.asarray(rows.states.sum(axis=0)).ravel().argmax()
        has = [busiest in data["on"][row] for row in data["row_order"]]
        assert has == sorted(has, reverse=True)
