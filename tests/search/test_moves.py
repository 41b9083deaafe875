"""Moves of Boolean covers never lower the score; factors found in halves are put together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_covers import Repeated, make_matrix, random_cover

from noisyor.engines.contract import NoiseKey
from noisyor.engines.registry import get_engine
from noisyor.search.cover import (
    OBJECTIVES,
    Cover,
    Matrix,
    combine,
    merge,
    prune,
    reduce_errors,
    refine,
)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 0.2), st.floats(0, 0.5))
def test_moves_keep_counts_and_never_lower_the_score(seed, flips, missing):
    matrix = make_matrix(seed, flips, missing)
    cover = random_cover(matrix, seed + 1)
    scores = [cover.score(matrix)]
    for move in (refine, merge):
        cover = move(matrix, cover)
        np.testing.assert_array_equal(
            cover.counts, cover.states.astype(int) @ cover.factors.astype(int)
        )
        scores.append(cover.score(matrix))
    # a flip costs by the bias before it, which the new bias can only improve on
    assert scores[1] >= scores[0] - 1e-6
    assert scores[2] >= scores[1] - 1e-6
    pruned = prune(matrix, cover, 3)
    assert pruned.n_components <= 3
    assert (pruned.leave_one_out_gain(matrix) > 0).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 0.2), st.floats(0, 0.5))
def test_moves_never_add_errors_when_errors_are_the_objective(seed, flips, missing):
    matrix = make_matrix(seed, flips, missing)
    cover = random_cover(matrix, seed + 1, objective="hamming")
    for move in (refine, merge, lambda m, c: prune(m, c, c.n_components)):
        moved = move(matrix, cover)
        assert moved.objective is OBJECTIVES["hamming"]
        assert moved.errors(matrix) <= cover.errors(matrix)
        cover = moved
    # what is left is there for a reason: without any one of the causes there are more errors
    for k in range(cover.n_components):
        assert cover.without(matrix, [k]).errors(matrix) > cover.errors(matrix)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 0.2), st.floats(0, 0.5))
def test_reduced_errors_are_counted_and_never_more(seed, flips, missing):
    matrix = make_matrix(seed, flips, missing)
    cover = random_cover(matrix, seed + 1, objective="hamming")
    asked = cover.n_components + seed % 3
    reduced = reduce_errors(matrix, cover, asked, NoiseKey(seed))
    assert reduced.n_components <= asked
    assert reduced.errors(matrix) <= cover.errors(matrix)
    drawn = reduced.states.astype(int) @ reduced.factors.astype(int) > 0
    assert reduced.errors(matrix) == ((drawn != matrix.ones) & matrix.observed).sum()


def test_replaced_causes_explain_what_the_others_do_not():
    generator = np.random.default_rng(11)
    states = (generator.random((40, 4)) < 0.3).astype(np.uint8)
    factors = (generator.random((4, 30)) < 0.3).astype(np.uint8)
    matrix = Matrix(states @ factors > 0, np.ones((40, 30), dtype=bool))
    spoilt = factors.copy()
    spoilt[2] = generator.random(30) < 0.3
    cover = Cover.of(matrix, states, spoilt, OBJECTIVES["hamming"])
    whole = reduce_errors(matrix, cover, 4, NoiseKey(0))
    assert whole.errors(matrix) == 0
    assert {tuple(v) for v in whole.factors} == {tuple(v) for v in factors}
    assert reduce_errors(matrix, whole, 6, NoiseKey(0)).n_components == 4


def test_result_does_not_depend_on_threads():
    matrix = make_matrix(4, flips=0.1)
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
    assert merge(matrix, Cover.of(matrix, states, factors)).n_components == 1


def test_combining_takes_the_best_of_both():
    generator = np.random.default_rng(7)
    states = (generator.random((40, 4)) < 0.3).astype(np.uint8)
    factors = (generator.random((4, 30)) < 0.3).astype(np.uint8)
    matrix = Matrix(states @ factors > 0, np.ones((40, 30), dtype=bool))
    halves = [
        Cover.of(matrix, states[:, part], factors[part]) for part in (slice(0, 2), slice(1, 4))
    ]
    both = combine(matrix, *halves, max_components=4)
    assert both.errors(matrix) == 0
    assert {tuple(v) for v in both.factors} == {tuple(v) for v in factors}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_moves_treat_a_row_of_weight_w_as_w_rows(objective):
    matrix, weights = make_matrix(5, 0.05, 0.1), np.random.default_rng(6).integers(1, 6, 40)
    weighted, long = matrix._replace(weight=weights.astype(float)), Repeated(weights)
    many_rows = long.matrix(matrix)
    cover = random_cover(matrix, 7, objective=objective)
    one = cover.with_bits(weighted, cover.states, cover.factors)
    many = Cover.of(many_rows, long(cover.states), cover.factors, cover.objective)
    for move in (refine, merge, lambda m, c: prune(m, c, 3)):
        one, many = move(weighted, one), move(many_rows, many)
        np.testing.assert_array_equal(one.factors, many.factors)
        np.testing.assert_array_equal(long(one.states), many.states)
    assert one.n_components == 3
