"""Exponentials, logarithms and what noisy-OR edges need, eight lanes at a time."""

from typing import NamedTuple

import numpy as np
from numba import njit

from noisyor.engines.numba import float64x8 as vector


class _Arrays(NamedTuple):
    s: np.ndarray
    slope: np.ndarray
    exp: np.ndarray
    rest: np.ndarray
    phi: np.ndarray
    derivative: np.ndarray
    log: np.ndarray
    inverse: np.ndarray


class _More(NamedTuple):
    logistic: np.ndarray
    entropy: np.ndarray


@njit
def _functions(s, slope, exp, rest, phi, derivative, log, inverse, logistic, entropy):
    """Every vector function on arrays of equal length, a multiple of eight."""
    arrays = vector.pointers(_Arrays(s, slope, exp, rest, phi, derivative, log, inverse))
    more = vector.pointers(_More(logistic, entropy))
    for i in range(0, len(s), 8):
        x = vector.load(arrays.s, i)
        first, second = vector.exp_minus(x)
        vector.store(arrays.exp, i, first)
        vector.store(arrays.rest, i, second)
        vector.store(more.entropy, i, vector.entropy(second))
        vector.store(more.logistic, i, vector.logistic(vector.splat(3.0) - x))
        first, second = vector.edge_terms(x, vector.load(arrays.slope, i))
        vector.store(arrays.phi, i, first)
        vector.store(arrays.derivative, i, second)
        first, second = vector.log_one_plus(x)
        vector.store(arrays.log, i, first)
        vector.store(arrays.inverse, i, second)


def test_vector_functions_are_accurate_to_rounding():
    generator = np.random.default_rng(0)
    s = 10 ** generator.uniform(-9, 2.3, 4096)
    leak = 10 ** generator.uniform(-5, 1.5, 4096)
    results = [np.empty(4096) for _ in range(8)]
    slope = np.exp(-leak) / -np.expm1(-leak)
    _functions(s, slope, *results)
    y = -np.expm1(-s)
    x = slope * y
    phi, derivative = np.log1p(x), slope * np.exp(-s) / (1 + x)
    with np.errstate(divide="ignore", invalid="ignore"):
        other = np.exp(-s)
        entropy = -y * np.log(y) + s * other
    expected = [other, y, phi, derivative, np.log1p(s), 1 / (1 + s), 1 / (1 + np.exp(s - 3))]
    for came, wanted in zip(results[:7], expected, strict=True):
        np.testing.assert_allclose(came, wanted, rtol=3e-15)
    np.testing.assert_allclose(results[7], entropy, rtol=1e-6, atol=1e-14)
