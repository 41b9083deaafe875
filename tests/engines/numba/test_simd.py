"""Vectors of eight floats against NumPy."""

import numpy as np
import pytest
from numba import njit

from noisyor.engines.numba import simd


@njit
def elementwise(left, right, constants, out):
    a, b = simd.load(left, 0), simd.load(right, 0)
    one, two = simd.splat(constants[0]), simd.splat(constants[1])
    simd.store(out, 0, a + b)
    simd.store(out, 8, a - b)
    simd.store(out, 16, a * b)
    simd.store(out, 24, a / b)
    simd.store(out, 32, simd.largest(a, b))
    simd.store(out, 40, simd.smallest(a, b))
    simd.store(out, 48, simd.where_equal(a, b, one, two))
    simd.store(out, 56, simd.where_less(a, b, one, two))
    simd.store(out, 64, simd.absolute(a))
    simd.store(out, 72, simd.fma(a, b, one))


@njit
def reductions(values):
    first, second = simd.load(values, 0), simd.load(values, 8)
    top = simd.largest(first, second)
    best, runner_up = simd.reduce_top_two(top, simd.smallest(first, second))
    return (
        simd.reduce_max(first),
        simd.reduce_min(first),
        simd.reduce_sum(first),
        best,
        runner_up,
    )


@njit
def indexed(array, indices, constants, out):
    simd.store(out, 0, simd.gather(array, indices, 1))
    simd.scatter_add(array, indices, 1, simd.splat(constants[0]))


@njit
def functions(s, slope, exp, rest, phi, derivative, log, inverse, logistic, entropy):
    """Every vector function on arrays of equal length, a multiple of eight."""
    for i in range(0, len(s), 8):
        x = simd.load(s, i)
        first, second = simd.exp_minus(x)
        simd.store(exp, i, first)
        simd.store(rest, i, second)
        simd.store(entropy, i, simd.entropy(second))
        simd.store(logistic, i, simd.logistic(simd.splat(3.0) - x))
        first, second = simd.edge_terms(x, simd.load(slope, i))
        simd.store(phi, i, first)
        simd.store(derivative, i, second)
        first, second = simd.log_one_plus(x)
        simd.store(log, i, first)
        simd.store(inverse, i, second)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_elementwise_operations(kind):
    generator = np.random.default_rng(0)
    left, right = generator.normal(size=(2, 8)).astype(kind)
    right[3] = left[3]
    out = np.zeros(80, dtype=kind)
    elementwise(left, right, np.array([1, 2], dtype=kind), out)
    expected = [
        left + right,
        left - right,
        left * right,
        left / right,
        np.maximum(left, right),
        np.minimum(left, right),
        np.where(left == right, 1.0, 2.0),
        np.where(left < right, 1.0, 2.0),
        np.abs(left),
        left * right + 1,
    ]
    np.testing.assert_allclose(out.reshape(10, 8), expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(10))
def test_reductions(seed, kind):
    values = np.random.default_rng(seed).integers(-5, 5, 16).astype(kind)  # ties happen
    largest, smallest, total, best, runner_up = reductions(values)
    assert (largest, smallest) == (values[:8].max(), values[:8].min())
    assert total == values[:8].sum()
    ordered = np.sort(values)
    assert (best, runner_up) == (ordered[-1], ordered[-2])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_gather_and_scatter(kind):
    array = np.arange(20, dtype=kind)
    indices = np.array([99, 3, 1, 19, 0, 7, 8, 12, 5], dtype=np.int32)
    out = np.zeros(8, dtype=kind)
    indexed(array, indices, np.array([10], dtype=kind), out)
    np.testing.assert_array_equal(out, indices[1:].astype(kind))
    expected = np.arange(20, dtype=kind)
    expected[indices[1:]] += 10
    np.testing.assert_array_equal(array, expected)


def test_vector_functions_are_accurate_to_rounding():
    generator = np.random.default_rng(0)
    s = 10 ** generator.uniform(-9, 2.3, 4096)
    leak = 10 ** generator.uniform(-5, 1.5, 4096)
    results = [np.empty(4096) for _ in range(8)]
    slope = np.exp(-leak) / -np.expm1(-leak)
    functions(s, slope, *results)
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
