"""Covers with fewer errors: counted by hand, never more than before, those of the reference."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noisyor.engines.contract import ImproveOptions, NoiseKey
from noisyor.engines.registry import get_engine

NEEDS = ("improve_cover",)
OPTIONS = ImproveOptions(steps=8, patience=8)
NONE = np.empty(0)

hypothetical = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def problem(seed, n_rows=11, n_columns=9, n_factors=3, missing=0.2):
    generator = np.random.default_rng(seed)
    ones = generator.random((n_rows, n_columns)) < 0.45
    observed = generator.random(ones.shape) >= missing
    states = (generator.random((n_rows, n_factors)) < 0.4).astype(np.uint8)
    factors = (generator.random((n_factors, n_columns)) < 0.4).astype(np.uint8)
    return ones, observed, states, factors


def count(ones, observed, states, factors, weights=None):
    """Wrong entries, one by one."""
    total = 0
    for i, row in enumerate(ones):
        for j, one in enumerate(row):
            covered = any(states[i, k] and factors[k, j] for k in range(len(factors)))
            total += (observed[i, j] and covered != one) * (1 if weights is None else weights[i])
    return total


@hypothetical
@given(seed=st.integers(0, 10**6), missing=st.floats(0, 0.9), weighted=st.booleans())
def test_errors_are_counted_and_never_increase(engine, seed, missing, weighted):
    ones, observed, states, factors = problem(seed, missing=missing)
    weights = np.random.default_rng(seed).integers(1, 9, len(ones)) / 2 if weighted else None
    found = engine.improve_cover(
        ones,
        observed,
        NONE if weights is None else weights,
        states,
        factors,
        OPTIONS,
        NoiseKey(seed),
    )
    assert found.errors == count(ones, observed, found.states, found.factors, weights)
    assert found.errors <= count(ones, observed, states, factors, weights)
    assert found.states.dtype == found.factors.dtype == np.uint8
    assert found.steps <= OPTIONS.steps


@hypothetical
@given(seed=st.integers(0, 10**6), weighted=st.booleans())
def test_same_cover_as_the_reference(engine, seed, weighted):
    shape = [(11, 9), (70, 6), (5, 130), (66, 67)][seed % 4]  # also more than one word
    ones, observed, states, factors = problem(seed, *shape)
    weights = np.random.default_rng(seed).integers(1, 9, len(ones)) / 2 if weighted else NONE
    arguments = ones, observed, weights, states, factors, OPTIONS, NoiseKey(seed, 3)
    mine, theirs = engine.improve_cover(*arguments), get_engine("numpy").improve_cover(*arguments)
    np.testing.assert_array_equal(mine.states, theirs.states)
    np.testing.assert_array_equal(mine.factors, theirs.factors)
    assert mine[2:] == theirs[2:]


@pytest.mark.parametrize("seed", range(4))
def test_a_row_of_weight_three_counts_as_three_rows(engine, seed):
    ones, observed, states, factors = problem(seed)
    weights = np.random.default_rng(seed).integers(1, 4, len(ones))
    still = OPTIONS._replace(steps=0)  # noise and seeds are those of other rows in a longer matrix
    once = engine.improve_cover(
        ones, observed, weights.astype(float), states, factors, still, NoiseKey(seed)
    )
    copies = [np.repeat(lines, weights, axis=0) for lines in (ones, observed, states)]
    repeated = engine.improve_cover(*copies[:2], NONE, copies[2], factors, still, NoiseKey(seed))
    np.testing.assert_array_equal(once.factors, repeated.factors)
    np.testing.assert_array_equal(np.repeat(once.states, weights, axis=0), repeated.states)
    assert once.errors == repeated.errors


def test_an_exact_cover_is_found_and_ends_the_search(engine):
    generator = np.random.default_rng(2)
    states, factors = generator.random((30, 3)) < 0.4, generator.random((3, 12)) < 0.4
    ones = states @ factors
    nothing = np.zeros((30, 3), dtype=np.uint8), np.zeros((3, 12), dtype=np.uint8)
    options = ImproveOptions(steps=300, patience=300)
    found = engine.improve_cover(ones, np.ones_like(ones), NONE, *nothing, options, NoiseKey(0))
    assert found.errors == 0
    assert 0 < found.steps < 300
    np.testing.assert_array_equal(found.states.astype(bool) @ found.factors.astype(bool), ones)


def test_patience(engine):
    ones, observed, states, factors = problem(5, n_factors=1)
    options = ImproveOptions(steps=500, patience=7)
    found = engine.improve_cover(ones, observed, NONE, states, factors, options, NoiseKey(0))
    assert 7 <= found.steps < 500
