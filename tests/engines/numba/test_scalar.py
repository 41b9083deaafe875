"""Stable functions of the kernels, one number at a time, against those of arrays."""

import numpy as np
from numba import njit

from noisyor._util import arrays as numerics
from noisyor.engines.numba.graph import log_expm1
from noisyor.engines.numba.scalar import log_expm1 as scalar_log_expm1


@njit
def _of_each(theta, result):
    for index in range(len(theta)):
        result[index] = scalar_log_expm1(theta[index])


def test_the_array_and_scalar_functions_agree():
    theta = np.concatenate([np.geomspace(1e-5, 50, 200), [700.0]])
    scalar = np.empty_like(theta)
    _of_each(theta, scalar)
    np.testing.assert_allclose(log_expm1(theta), scalar, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(numerics.log_expm1(theta), scalar, rtol=1e-13, atol=1e-13)
    exact = numerics.log_one_minus_exp(theta)
    np.testing.assert_allclose(np.expm1(exact), -np.exp(-theta), rtol=1e-10, atol=1e-300)
