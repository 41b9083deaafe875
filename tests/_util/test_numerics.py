"""Stable functions: known values, both ends, all shapes."""

import numpy as np
import pytest

from noisyor._util.arrays import log_expm1, log_one_minus_exp, logistic_function


def test_values_at_both_ends():
    b = np.array([1e-300, 1e-10, 1e-3, 0.5, np.log(2), 1.0, 40.0, 700.0])
    # f is decreasing in exp(-b): its inverse recovers that to rounding wherever it is not tiny.
    np.testing.assert_allclose(-np.expm1(log_one_minus_exp(b)), np.exp(-b), rtol=1e-12)
    np.testing.assert_allclose(log_one_minus_exp(b[:2]), np.log(b[:2]), rtol=1e-9)
    np.testing.assert_allclose(log_expm1(b[-2:]), b[-2:], rtol=1e-15)
    assert log_expm1(np.log(2)) == pytest.approx(0.0, abs=1e-15)


def test_the_logistic_function_overflows_nowhere():
    odds = np.array([[-1e9, -3.0], [0.0, 1e9]])
    expected = [[0.0, 1 / (1 + np.exp(3))], [0.5, 1.0]]
    np.testing.assert_allclose(logistic_function(odds), expected, rtol=1e-14)
