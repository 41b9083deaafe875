"""Memberships in Boolean covers: flips in order, one at a time, held to a plain loop."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noisyor._util.arrays import pointers
from noisyor.engines.contract import Factors

NEEDS = ("cover_memberships",)


def problem(seed, n_rows=15, n_factors=5, n_columns=12):
    generator = np.random.default_rng(seed)
    weights = generator.normal(0.0, 1.0, (n_rows, n_columns)).astype(np.float32)
    patterns = generator.random((n_factors, n_columns)) < 0.3
    states = (generator.random((n_rows, n_factors)) < 0.4).astype(np.uint8)
    factors = Factors(pointers(patterns.sum(1)), np.nonzero(patterns)[1].astype(np.int32))
    counts = (states.astype(np.int32) @ patterns.astype(np.int32)).astype(np.int32)
    return weights, factors, patterns, states, counts, generator.exponential(0.5, n_factors)


def gain_of_row(weights, patterns, state, price):
    covered = (state[:, None] * patterns).any(axis=0)
    return weights[covered].sum(dtype=np.float64) - price[state == 1].sum()


def climbed(weights, patterns, state, price):
    """At most twenty sweeps, factor by factor, a flip wherever the gain of the row rises."""
    state, flips = state.copy(), 0
    for _ in range(20):
        before = flips
        for k in range(len(price)):
            other = state.copy()
            other[k] ^= 1
            gain = gain_of_row(weights, patterns, other, price)
            if gain - gain_of_row(weights, patterns, state, price) > 1e-9:
                state, flips = other, flips + 1
        if flips == before:
            break
    return state, flips


@pytest.mark.parametrize("seed", range(10))
def test_flips_are_those_of_a_plain_loop(engine, seed):
    weights, factors, patterns, states, counts, price = problem(seed)
    found = engine.cover_memberships(weights, factors, states, counts, price)
    expected = [
        climbed(*row, price) for row in zip(weights, [patterns] * len(weights), states, strict=True)
    ]
    np.testing.assert_array_equal(found.states, [state for state, _ in expected])
    assert found.flips == sum(flips for _, flips in expected)
    drawn = found.states.astype(np.int32) @ patterns.astype(np.int32)
    np.testing.assert_array_equal(found.counts, drawn)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 10**6))
def test_no_row_loses(engine, seed):
    weights, factors, patterns, states, counts, price = problem(seed)
    found = engine.cover_memberships(weights, factors, states, counts, price)
    for row in range(len(states)):
        before = gain_of_row(weights[row], patterns, states[row], price)
        assert gain_of_row(weights[row], patterns, found.states[row], price) >= before - 1e-6


def test_what_gains_nothing_is_left_as_it_is(engine):
    weights = np.zeros((2, 3), dtype=np.float32)
    factors = Factors(np.array([0, 2]), np.array([0, 2], dtype=np.int32))
    states = np.array([[1], [0]], dtype=np.uint8)
    counts = np.array([[1, 0, 1], [0, 0, 0]], dtype=np.int32)
    found = engine.cover_memberships(weights, factors, states, counts, np.zeros(1))
    np.testing.assert_array_equal(found.states, states)
    assert found.flips == 0
