"""Memberships of rows in given factors."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from noisyor.datasets.synthetic import generate_bmf
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError
from noisyor.search import cover as memberships
from noisyor.search.cover import cover_rows


@pytest.fixture(scope="module")
def data():
    return generate_bmf(60, 8, 0)


def wrong(rows, states, factors):
    """Wrong observed entries of each row."""
    covered = states.astype(int) @ factors.astype(int) > 0
    return ((covered != (rows == 1)) & ~np.isnan(rows)).sum(1)


def test_memberships_of_rows_are_locally_best_and_nearly_always_best():
    generator = np.random.default_rng(8)
    factors = (generator.random((6, 20)) < 0.3).astype(np.uint8)
    rows = np.where(generator.random((80, 20)) < 0.1, np.nan, generator.random((80, 20)) < 0.4)
    states = cover_rows(rows, factors)
    errors = wrong(rows, states, factors)
    assert states.dtype == np.uint8
    assert (errors <= (rows == 1).sum(1)).all()
    for k in range(6):
        flipped = states.copy()
        flipped[:, k] ^= 1
        after = wrong(rows, flipped, factors)
        assert (after >= errors).all()
        assert (states[after == errors, k] == 0).all()  # nothing is switched on for nothing
    every = np.array(list(product((0, 1), repeat=6)))
    best = np.min([wrong(rows, np.tile(s, (80, 1)), factors) for s in every], axis=0)
    assert (errors >= best).all()
    assert np.mean(errors == best) > 0.9


def test_memberships_of_rows_do_not_depend_on_form_threads_or_blocks(data, monkeypatch):
    expected = cover_rows(data.test, data.V, engine=get_engine(n_threads=1))
    assert not wrong(data.test.astype(float), expected, data.V).any()
    np.testing.assert_array_equal(
        cover_rows(sp.csr_array(data.test), data.V, engine=get_engine(n_threads=2)), expected
    )
    monkeypatch.setattr(memberships, "_MAX_ENTRIES", 7 * 60)
    np.testing.assert_array_equal(cover_rows(data.test, data.V > 0), expected)


def test_rows_without_factors():
    assert cover_rows(np.eye(3), np.zeros((0, 3))).shape == (3, 0)


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        (np.ones(3), r"got shape \(3,\)"),
        (np.full((2, 3), 0.5), "with other values"),
        (np.ones((2, 4)), "3 columns"),
    ],
)
def test_wrong_factors(factors, message):
    with pytest.raises(InvalidDataError, match=message):
        cover_rows(np.eye(3), factors)
