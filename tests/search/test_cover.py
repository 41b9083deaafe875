"""Boolean covers: the score by hand, moves that never lower it, causes found in halves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyor.engines.registry import get_engine
from noisyor.search.cover import Cover, combine, merge, prune, refine, replace
from noisyor.search.objectives import OBJECTIVES, Matrix

ERRORS = OBJECTIVES["errors"]


def problem(seed: int, flips: float = 0.0, missing: float = 0.0) -> Matrix:
    generator = np.random.default_rng(seed)
    states = (generator.random((40, 4)) < 0.3).astype(np.uint8)
    factors = (generator.random((4, 30)) < 0.3).astype(np.uint8)
    ones = (states @ factors > 0) ^ (generator.random((40, 30)) < flips)
    observed = generator.random((40, 30)) >= missing
    return Matrix(ones & observed, observed)


def random_cover(
    matrix: Matrix, seed: int, n_causes: int = 5, objective: str = "description"
) -> Cover:
    generator = np.random.default_rng(seed)
    shape = matrix.ones.shape
    return Cover.of(
        matrix,
        generator.random((shape[0], n_causes)) < 0.3,
        generator.random((n_causes, shape[1])) < 0.3,
        OBJECTIVES[objective],
    )


def score_by_hand(matrix: Matrix, cover: Cover) -> float:
    """The description length, entry by entry."""
    value = 0.0
    for i, row in enumerate(matrix.ones):
        for j, one in enumerate(row):
            if not matrix.observed[i, j]:
                continue
            covered = any(cover.states[i, k] and cover.factors[k, j] for k in range(cover.n_causes))
            share = 1.0 - cover.rates.missed if covered else cover.rates.spurious
            value += np.log(share if one else 1.0 - share)
    for line in [*cover.states.T, *cover.factors]:
        share = (line.sum() + 1) / (len(line) + 2)
        value += sum(np.log(share if bit else 1.0 - share) for bit in line)
    return value


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_score_is_the_description_length(missing):
    matrix = problem(0, flips=0.05, missing=missing)
    cover = random_cover(matrix, 1)
    assert cover.score(matrix) == pytest.approx(score_by_hand(matrix, cover))


def test_errors_count_both_kinds_and_bits_only_break_ties():
    matrix = problem(0, flips=0.05, missing=0.3)
    cover = random_cover(matrix, 1, objective="errors")
    drawn = cover.states.astype(int) @ cover.factors.astype(int) > 0
    wrong = int(((drawn != matrix.ones) & matrix.observed).sum())
    bits = int(cover.states.sum(dtype=int) + cover.factors.sum(dtype=int))
    assert cover.score(matrix) == pytest.approx(-wrong - 1e-8 * bits, abs=1e-9)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_worth_is_what_the_score_loses_at_the_same_rates(objective):
    matrix = problem(2, flips=0.05)
    cover = random_cover(matrix, 3, objective=objective)
    for k, worth in enumerate(cover.worth(matrix)):
        without = cover.without(matrix, [k])
        without.rates = cover.rates
        assert cover.score(matrix) - without.score(matrix) == pytest.approx(worth, rel=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 0.2), st.floats(0, 0.5))
def test_moves_keep_counts_and_never_lower_the_score(seed, flips, missing):
    matrix = problem(seed, flips, missing)
    cover = random_cover(matrix, seed + 1)
    scores = [cover.score(matrix)]
    for move in (refine, merge):
        cover = move(matrix, cover)
        np.testing.assert_array_equal(
            cover.counts, cover.states.astype(int) @ cover.factors.astype(int)
        )
        scores.append(cover.score(matrix))
    # a flip is priced by the bias before it, which the new bias can only improve on
    assert scores[1] >= scores[0] - 1e-6
    assert scores[2] >= scores[1] - 1e-6
    pruned = prune(matrix, cover, 3)
    assert pruned.n_causes <= 3
    assert (pruned.worth(matrix) > 0).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 0.2), st.floats(0, 0.5))
def test_moves_never_add_errors_when_errors_are_the_objective(seed, flips, missing):
    matrix = problem(seed, flips, missing)
    cover = random_cover(matrix, seed + 1, objective="errors")
    for move in (refine, merge, lambda m, c: prune(m, c, c.n_causes)):
        moved = move(matrix, cover)
        assert moved.objective is ERRORS
        assert moved.errors(matrix) <= cover.errors(matrix)
        cover = moved
    # what is left is there for a reason: without any one of the causes there are more errors
    for k in range(cover.n_causes):
        assert cover.without(matrix, [k]).errors(matrix) > cover.errors(matrix)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_replaced_causes_explain_what_the_others_do_not(objective):
    generator = np.random.default_rng(11)
    states = (generator.random((40, 4)) < 0.3).astype(np.uint8)
    factors = (generator.random((4, 30)) < 0.3).astype(np.uint8)
    matrix = Matrix(states @ factors > 0, np.ones((40, 30), dtype=bool))
    spoilt = factors.copy()
    spoilt[2] = generator.random(30) < 0.3
    cover = Cover.of(matrix, states, spoilt, OBJECTIVES[objective])
    whole = replace(matrix, cover, [2], 4, np.random.default_rng(0))
    assert whole.errors(matrix) == 0
    assert {tuple(v) for v in whole.factors} == {tuple(v) for v in factors}
    assert replace(matrix, whole, [], 6, np.random.default_rng(0)).n_causes == 4


def test_result_does_not_depend_on_threads():
    matrix = problem(4, flips=0.1)
    alone, together = (
        refine(matrix, random_cover(matrix, 5), engine=get_engine(n_threads=n)) for n in (1, 3)
    )
    np.testing.assert_array_equal(alone.states, together.states)
    np.testing.assert_array_equal(alone.factors, together.factors)


def test_two_halves_of_a_cause_are_merged():
    states = np.zeros((40, 2), dtype=np.uint8)
    states[:15] = 1
    factors = np.zeros((2, 30), dtype=np.uint8)
    factors[0, :6] = factors[1, 6:12] = 1
    matrix = Matrix(states @ factors > 0, np.ones((40, 30), dtype=bool))
    assert merge(matrix, Cover.of(matrix, states, factors)).n_causes == 1


def test_combining_takes_the_best_of_both():
    generator = np.random.default_rng(7)
    states = (generator.random((40, 4)) < 0.3).astype(np.uint8)
    factors = (generator.random((4, 30)) < 0.3).astype(np.uint8)
    matrix = Matrix(states @ factors > 0, np.ones((40, 30), dtype=bool))
    halves = [
        Cover.of(matrix, states[:, part], factors[part]) for part in (slice(0, 2), slice(1, 4))
    ]
    both = combine(matrix, *halves, most=4)
    assert both.errors(matrix) == 0
    assert {tuple(v) for v in both.factors} == {tuple(v) for v in factors}
