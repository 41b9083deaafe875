"""Exactly one column of a group is on: held to an enumeration of causes and columns."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import noisyor as nor
from noisyor.errors import InvalidSettingError
from noisyor.inference.sampling import predict_visible

GROUPS = [range(3), range(4, 6)]


@pytest.fixture
def network():
    random = np.random.default_rng(3)
    return nor.bipartite(
        7,
        3,
        failure_probability=random.uniform(0.1, 0.9, (3, 7)),
        prior_probability=random.uniform(0.2, 0.6, 3),
        noise="per_visible",
        noise_probability=random.uniform(0.05, 0.2, 7),
    )


def expected_of(network, row):
    """Probabilities of all columns among the complete rows that agree and have one of each."""
    rows = [
        full
        for full in product([0, 1], repeat=7)
        if all(np.isnan(x) or x == y for x, y in zip(row, full, strict=True))
        and all(
            sum(full[i] for i in group) == 1
            for group in GROUPS
            if np.isnan([row[i] for i in group]).any()
        )
    ]
    log_p = nor.inference.enumerate_posterior(network, np.array(rows)).log_likelihood
    weight = np.exp(log_p - log_p.max())
    return weight @ np.array(rows) / weight.sum()


@pytest.mark.parametrize("method", ["exact", "samples"])
def test_probabilities_are_those_of_enumeration(network, method):
    hole = np.nan
    rows = np.array(
        [
            [hole, hole, hole, 1, 0, 1, hole],
            [0, hole, 0, hole, 1, 0, 0],
            [1, hole, 0, 1, hole, hole, hole],
            [hole, 0, hole, 0, hole, 0, 1],
            [1, 0, 0, 1, 0, 1, hole],
        ]
    )
    found = predict_visible(
        network, rows, method, observed="kept", one_hot=GROUPS, n_samples=800
    ).probability
    expected = np.array([expected_of(network, row) for row in rows])
    np.testing.assert_allclose(found, expected, atol=1e-9 if method == "exact" else 0.02)
    assert found[1, 1] == pytest.approx(1.0)
    assert found[2, 1] == 0.0


def test_causes_that_never_fail(network):
    """Parameters are 708 then, and their exponentials overflow."""
    sure = network.with_theta(np.where(network.theta > 1.0, 708.0, network.theta))
    assert (sure.theta == 708.0).any()
    rows = np.array([[np.nan, np.nan, np.nan, 1, 0, 1, np.nan]])
    found = predict_visible(sure, rows, "exact", observed="kept", one_hot=GROUPS).probability
    np.testing.assert_allclose(found[0], expected_of(sure, rows[0]), atol=1e-9)


def test_observed_entries_cannot_be_left_out(network):
    with pytest.raises(InvalidSettingError, match="one_hot needs observed"):
        predict_visible(network, np.zeros((1, 7)), one_hot=GROUPS)
