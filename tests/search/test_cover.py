"""Boolean covers: the scores by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from random_covers import Repeated, make_matrix, random_cover

from noisyor.datasets.synthetic import generate_bmf
from noisyor.engines.contract import NoiseKey
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError
from noisyor.search import cover as memberships
from noisyor.search.cover import (
    OBJECTIVES,
    Cover,
    Matrix,
    bit_cost,
    combine,
    cover_rows,
    merge,
    prune,
    reduce_errors,
    refine,
)


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
        assert moved.objective == "hamming"
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
    cover = Cover.of(matrix, states, spoilt, "hamming")
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
