"""Learned networks are scored on held-out rows, beside independent columns."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor.baselines import independent_columns
from noisyor.data.observations import Observations
from noisyor.errors import InvalidSettingError
from noisyor.learning.validation import hold_out, validate


def rows(n_rows: int, seed: int = 0) -> Observations:
    generator = np.random.default_rng(seed)
    on = generator.random((n_rows, 2)) < 0.4
    return Observations.of(np.repeat(on, 3, axis=1).astype(np.uint8))


@pytest.mark.parametrize(
    ("n_rows", "share", "expected"),
    [(20, None, 2), (19, None, None), (40, 0.25, 10), (40, 0.0, None)],
)
def test_a_tenth_is_held_out_if_there_are_twenty_rows(n_rows, share, expected):
    data = rows(n_rows)
    train, held = hold_out(data, share, seed=0)
    assert (None if held is None else held.n_rows) == expected
    ids = np.concatenate([part.row_ids for part in (train, held) if part is not None])
    assert sorted(ids) == list(range(n_rows))


def test_the_seed_chooses_the_rows():
    first, again, other = (hold_out(rows(60), 0.2, seed)[1].row_ids for seed in (0, 0, 1))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


def test_held_out_rows_are_scored_against_independent_columns():
    train, held = hold_out(rows(60), 0.2, seed=0)
    failure = np.where(np.repeat(np.eye(2), 3, axis=1), 0.01, 1.0)
    network = nor.bipartite(6, 2, failure_probability=failure, prior_probability=0.4)
    found = validate(network, train, held)
    expected = nor.evaluate(network, held, nor.MaxProduct(icm=20)).elbo_mp
    assert found.score.mean == pytest.approx(expected.mean)
    assert found.reference.mean == pytest.approx(
        independent_columns(train).log_probability(held).mean()
    )
    assert found.score.mean > found.reference.mean
    assert found.n_active == held.n_active // 3
    assert found.n_held_out == held.n_rows


def test_without_held_out_rows_those_of_training_count():
    data = rows(15).with_weights(np.arange(1, 16))
    network = nor.bipartite(6, 1)
    found = validate(network, data, None)
    assert found.n_held_out == 0
    assert len(found.score.per_row) == 15
    assert found.score.mean == pytest.approx(data.mean(found.score.per_row))


def test_a_row_of_whole_weight_is_held_out_in_part():
    weights = np.array([1000, 10, *[1] * 13])
    data = rows(15).with_weights(weights)
    train, held = hold_out(data, None, seed=0)
    assert held.total_weight == 103  # of 1,023
    assert train.total_weight == 920
    together = np.zeros(15)
    for part in (train, held):
        together[part.row_ids] += part.weights
    np.testing.assert_array_equal(together, weights)
    assert train.weights.max() > 850
    uneven, rest = hold_out(data.with_weights(weights + 0.5), 0.2, seed=0)
    assert uneven.n_rows + rest.n_rows == 15
    with pytest.raises(InvalidSettingError, match="leaves no row"):
        hold_out(rows(15).with_weights(np.full(15, 2.0)), 0.99, seed=0)
