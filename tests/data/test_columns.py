"""Columns of which exactly one is on are found, and others are not."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyor.data.columns import find_one_hot
from noisyor.data.observations import Observations


def columns_of(X) -> list[range]:
    return [group.columns for group in find_one_hot(Observations.of(X))]


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 6), min_size=1, max_size=4),
    missing=st.sampled_from([0.0, 0.1]),
    seed=st.integers(0, 1000),
)
def test_questions_are_found_between_other_columns(sizes, missing, seed):
    random = np.random.default_rng(seed)
    parts, expected, first = [], [], 0
    for size in sizes:
        free = random.random((400, 2)) < 0.5
        parts += [free, np.eye(size)[random.integers(0, size, 400)]]
        expected.append(range(first + 2, first + 2 + size))
        first += 2 + size
    X = np.hstack(parts).astype(float)
    X[random.random(X.shape) < missing] = np.nan
    assert columns_of(X) == expected


def test_what_may_be_chance_is_no_question():
    X = np.zeros((60, 2))
    X[:59, 0] = X[59, 1] = 1.0
    assert columns_of(X) == []
    assert columns_of(np.tile(X, (20, 1))) == [range(2)]


def test_one_row_against_it_is_enough():
    X = np.eye(3)[np.arange(90) % 3]
    assert columns_of(X) == [range(3)]
    for row in ([1, 1, 0], [0, 0, 0]):
        assert columns_of(np.vstack([X, [row]])) == []


def test_a_row_that_is_partly_observed_says_that_two_are_on():
    X = np.eye(3)[np.arange(90) % 3]
    assert columns_of(np.vstack([X, [[np.nan, 0, 0]]])) == [range(3)]
    assert columns_of(np.vstack([X, [[np.nan, 1, 1]]])) == []
