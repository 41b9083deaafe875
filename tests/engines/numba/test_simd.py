"""The eight-lane type against NumPy."""

import numpy as np
import pytest
from numba import njit

from noisyor.engines.numba import float32x8 as v


@njit
def elementwise(left, right, out):
    a, b = v.load(left, 0), v.load(right, 0)
    v.store(out, 0, v.add(a, b))
    v.store(out, 8, v.subtract(a, b))
    v.store(out, 16, v.multiply(a, b))
    v.store(out, 24, v.largest(a, b))
    v.store(out, 32, v.smallest(a, b))
    v.store(out, 40, v.where_equal(a, b, v.splat(np.float32(1.0)), v.splat(np.float32(2.0))))
    v.store(out, 48, v.largest_magnitude(a, b))


@njit
def reductions(values):
    first, second = v.load(values, 0), v.load(values, 8)
    top = v.largest(first, second)
    best, runner_up = v.reduce_top_two(top, v.smallest(first, second))
    return v.reduce_max(first), v.reduce_sum(first), best, runner_up


@njit
def indexed(array, indices, out):
    v.store(out, 0, v.gather(array, indices, 1))
    v.scatter_add(array, indices, 1, v.splat(np.float32(10.0)))


def test_elementwise_operations():
    generator = np.random.default_rng(0)
    left, right = generator.normal(size=(2, 8)).astype(np.float32)
    right[3] = left[3]
    out = np.zeros(56, dtype=np.float32)
    elementwise(left, right, out)
    expected = [
        left + right,
        left - right,
        left * right,
        np.maximum(left, right),
        np.minimum(left, right),
        np.where(left == right, 1.0, 2.0),
        np.maximum(left, np.abs(right)),
    ]
    np.testing.assert_allclose(out.reshape(7, 8), expected, rtol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_reductions(seed):
    values = np.random.default_rng(seed).integers(-5, 5, 16).astype(np.float32)  # ties happen
    largest, total, best, runner_up = reductions(values)
    assert largest == values[:8].max()
    assert total == values[:8].sum()
    ordered = np.sort(values)
    assert (best, runner_up) == (ordered[-1], ordered[-2])


def test_gather_and_scatter():
    array = np.arange(20, dtype=np.float32)
    indices = np.array([99, 3, 1, 19, 0, 7, 8, 12, 5], dtype=np.int32)
    out = np.zeros(8, dtype=np.float32)
    indexed(array, indices, out)
    np.testing.assert_array_equal(out, indices[1:].astype(np.float32))
    expected = np.arange(20, dtype=np.float32)
    expected[indices[1:]] += 10
    np.testing.assert_array_equal(array, expected)
