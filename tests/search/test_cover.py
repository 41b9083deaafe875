"""Boolean covers: the scores by hand."""

from __future__ import annotations

import numpy as np
import pytest
from random_covers import make_matrix, random_cover

from noisyor.search.cover import OBJECTIVES, Cover, Matrix


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
    cover = random_cover(matrix, 1, objective="errors")
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
