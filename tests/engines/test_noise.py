"""The noise: known values, statistics, integers of all kinds, and the copy of the kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy import stats

from noisyor.engines.noise import combine, logistic, mix, uniform
from noisyor.engines.numba import scalar

GOLDEN, MASK = 0x9E3779B97F4A7C15, 2**64 - 1


def plain_mix(key):
    """The finaliser of splitmix64 in Python's own integers."""
    key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & MASK
    return key ^ (key >> 31)


def plain_combine(key, value):
    return plain_mix((key + GOLDEN * (value + 1)) & MASK)


def test_known_values():
    # The generator splitmix64 with seed 1234567 begins like this.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    steps = [(1234567 + GOLDEN * (number + 1)) & MASK for number in range(3)]
    assert [int(mix(np.uint64(step))) for step in steps] == published
    assert [int(combine(1234567, number)) for number in range(3)] == published
    assert float(uniform(0)) == 0.5 / 2**53
    assert float(logistic(0)) == pytest.approx(-np.log(2.0**54), rel=1e-12)


keys = st.integers(0, MASK)


@given(key=keys, value=keys)
def test_it_is_the_documented_function(key, value):
    assert int(mix(np.uint64(key))) == plain_mix(key)
    assert int(combine(np.uint64(key), np.uint64(value))) == plain_combine(key, value)
    u = ((plain_mix(key) >> 11) + 0.5) / 2**53
    assert float(uniform(np.uint64(key))) == u
    assert 0.0 < u < 1.0
    assert float(logistic(np.uint64(key))) == pytest.approx(np.log(u / (1 - u)), rel=1e-12)


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_integers_count_modulo_two_to_the_64(value):
    assert int(combine(5, np.int64(value))) == plain_combine(5, value & MASK)


def test_shapes_broadcast():
    table = combine(combine(3, np.arange(4))[:, None], np.arange(6, dtype=np.int32))
    assert table.shape == uniform(table).shape == logistic(table).shape == (4, 6)
    assert int(table[2, 5]) == plain_combine(plain_combine(3, 2), 5)


def test_the_variates_are_uniform_logistic_and_unrelated():
    n = 20_000
    by_node, by_row = combine(combine(1, 0), np.arange(n)), combine(combine(1, np.arange(n)), 0)
    for key in (by_node, by_row):
        assert stats.kstest(uniform(key), "uniform").pvalue > 1e-3
        assert stats.kstest(logistic(key), "logistic").pvalue > 1e-3
        pairs = np.corrcoef(uniform(key)[:-1], uniform(key)[1:])[0, 1]
        assert abs(pairs) < 4 / np.sqrt(n)
    assert abs(np.corrcoef(uniform(by_node), uniform(by_row))[0, 1]) < 4 / np.sqrt(n)
    assert len(np.unique(by_node)) == len(np.unique(by_row)) == n


@njit
def of_kernels(key):
    return (
        scalar.mix(key),
        scalar.combine(key, np.uint64(7)),
        scalar.uniform_of(key),
        scalar.logistic_noise(key),
    )


def test_kernels_have_the_same_noise():
    for key in np.random.default_rng(0).integers(0, 2**64, 50, dtype=np.uint64):
        mixed, combined, drawn, noise = of_kernels(key)
        assert (mixed, combined, drawn) == (mix(key), combine(key, 7), uniform(key))
        assert noise == pytest.approx(float(logistic(key)), rel=1e-14)
