from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.report.fit_quality import calibrate, explain_rows
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


class TestCalibration:
    def test_the_true_model_is_calibrated_and_a_wrong_one_is_not(self, factors):
        rows = explain_rows(factors.network, factors.observations, 1000)
        right = calibrate(factors.network, rows)
        assert right.n_rows == 200
        assert sum(bin.entries for bin in right.bins) == right.n_entries
        assert right.n_entries == pytest.approx(0.2 * 9 * 200, rel=0.15)
        assert right.gap < 0.05
        noisy = factors.network.theta.copy()
        noisy[factors.network.group("noise")] = 1.0
        wrong = calibrate(factors.network.with_theta(noisy), rows)
        assert wrong.gap > 0.3
        for bin in right.bins:
            assert bin.low <= bin.predicted <= bin.high
            assert 0 <= bin.least <= bin.observed <= bin.most <= 1

    def test_nothing_left_to_hide(self, factors):
        X = np.full((3, 9), np.nan)
        rows = explain_rows(factors.network, Observations.of(X), 10)
        assert calibrate(factors.network, rows) is None


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
