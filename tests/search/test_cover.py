"""Boolean covers: the scores by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_covers import Repeated, make_matrix, random_cover

from noisyor.search.cover import OBJECTIVES, Cover, Matrix, bit_cost


def score_by_hand(matrix: Matrix, cover: Cover) -> float:
    """The description length, entry by entry."""
    value = 0.0
    for i, row in enumerate(matrix.ones):
        for j, one in enumerate(row):
            if not matrix.observed[i, j]:
                continue
            covered = any(
                cover.states[i, k] and cover.factors[k, j] for k in range(cover.n_components)
            )
            share = 1.0 - cover.rates.false_negative if covered else cover.rates.false_positive
            value += np.log(share if one else 1.0 - share)
    for line in [*cover.states.T, *cover.factors]:
        share = (line.sum() + 1) / (len(line) + 2)
        value += sum(np.log(share if bit else 1.0 - share) for bit in line)
    return value


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_score_is_the_description_length(missing):
    matrix = make_matrix(0, flips=0.05, missing=missing)
    cover = random_cover(matrix, 1)
    assert cover.score(matrix) == pytest.approx(score_by_hand(matrix, cover))


def test_errors_count_both_kinds_and_bits_only_break_ties():
    matrix = make_matrix(0, flips=0.05, missing=0.3)
    cover = random_cover(matrix, 1, objective="hamming")
    drawn = cover.states.astype(int) @ cover.factors.astype(int) > 0
    wrong = int(((drawn != matrix.ones) & matrix.observed).sum())
    bits = int(cover.states.sum(dtype=int) + cover.factors.sum(dtype=int))
    assert cover.score(matrix) == pytest.approx(-wrong - 1e-8 * bits, abs=1e-9)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gain_is_what_the_score_loses_at_the_same_rates(objective):
    matrix = make_matrix(2, flips=0.05)
    cover = random_cover(matrix, 3, objective=objective)
    for k, gain in enumerate(cover.leave_one_out_gain(matrix)):
        without = cover.without(matrix, [k])
        without.rates = cover.rates
        assert cover.score(matrix) - without.score(matrix) == pytest.approx(gain, rel=1e-4)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    weights=st.lists(st.integers(1, 9), min_size=40, max_size=40),
    objective=st.sampled_from(sorted(OBJECTIVES)),
)
def test_a_row_of_weight_w_counts_as_w_rows(seed, weights, objective):
    matrix = make_matrix(seed, flips=0.05, missing=0.2)
    cover = random_cover(matrix, seed + 1, objective=objective)
    weighted, long = matrix._replace(weight=np.array(weights, dtype=float)), Repeated(weights)
    one = cover.with_bits(weighted, cover.states, cover.factors)
    many = Cover.of(long.matrix(matrix), long(cover.states), cover.factors, cover.objective)
    assert one.rates == pytest.approx(many.rates)
    assert one.errors(weighted) == many.errors(long.matrix(matrix))
    assert one.score(weighted) == pytest.approx(many.score(long.matrix(matrix)))
    gains = [a.leave_one_out_gain(b) for a, b in ((one, weighted), (many, long.matrix(matrix)))]
    np.testing.assert_allclose(*gains, rtol=1e-4, atol=1e-2)
    costs = bit_cost(one.states, weighted.weight), bit_cost(many.states)
    np.testing.assert_allclose(*costs)
