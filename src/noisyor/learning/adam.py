"""Adam (Kingma and Ba, 2015), as gradient ascent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


class AdamState(NamedTuple):
    """Moments of the gradient, each (n_params,), and the number of updates so far."""

    updates: int
    first: FloatArray
    second: FloatArray


def init(n_params: int) -> AdamState:
    """State before the first update.

    >>> init(3).updates
    0
    """
    return AdamState(0, np.zeros(n_params), np.zeros(n_params))


def update(
    state: AdamState, gradient: FloatArray, learning_rate: float
) -> tuple[AdamState, FloatArray]:
    """New state and the step to add to the parameters, shape (n_params,).

    The first step is the rate in the direction of the gradient.

    >>> state, step = update(init(2), np.array([0.3, -5.0]), 0.1)
    >>> step.round(6)
    array([ 0.1, -0.1])
    """
    updates = state.updates + 1
    first = BETA_1 * state.first + (1 - BETA_1) * gradient
    second = BETA_2 * state.second + (1 - BETA_2) * gradient**2
    size = learning_rate / (1 - BETA_1**updates)
    step = size * first / (np.sqrt(second / (1 - BETA_2**updates)) + EPSILON)
    return AdamState(updates, first, second), step
