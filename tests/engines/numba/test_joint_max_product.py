"""Kernels of joint max-product: single messages against enumeration."""

import itertools

import numpy as np
import pytest
from numba import njit

from noisyor.engines.numba import joint_max_product as kernels
from noisyor.engines.numba.simd import load, store
from noisyor.engines.numpy.joint_max_product import to_and_input, to_and_output


@njit
def _and_messages(u, v, output, down, to_u, to_v):
    left, right, y = load(u, 0), load(v, 0), load(output, 0)
    store(down, 0, kernels.and_down(left, right))
    store(to_u, 0, kernels.and_up(right, y))
    store(to_v, 0, kernels.and_up(left, y))


def max_marginal(score, n, which):
    """Log-odds of one of n binary variables under ``score``, maximised over the others."""
    states = list(itertools.product((0, 1), repeat=n))
    best = [max(score(s) for s in states if s[which] == value) for value in (0, 1)]
    return best[1] - best[0]


def test_and_messages_are_those_of_enumeration():
    generator = np.random.default_rng(0)
    u, v, y = generator.normal(0.0, 3.0, (3, 8)).astype(np.float32)
    down, to_u, to_v = np.empty((3, 8), dtype=np.float32)
    _and_messages(u, v, y, down, to_u, to_v)
    for lane in range(8):
        a, b, c = (float(value[lane]) for value in (u, v, y))
        assert down[lane] == pytest.approx(
            max(a + b, -np.inf) - max(0.0, a, b), abs=1e-5
        )  # both on, against any other state
        assert to_u[lane] == pytest.approx(
            max_marginal(lambda s, b=b, c=c: s[1] * b + (s[0] & s[1]) * c, 2, 0), abs=1e-5
        )
        assert to_v[lane] == pytest.approx(
            max_marginal(lambda s, a=a, c=c: s[1] * a + (s[0] & s[1]) * c, 2, 0), abs=1e-5
        )
    np.testing.assert_allclose(down, to_and_output(u, v), atol=1e-6)
    np.testing.assert_allclose(to_u, to_and_input(v, y), atol=1e-6)
