"""Adam against its formula."""

import numpy as np

from noisyor.learning import adam


def test_adam_follows_its_formula():
    gradients = [np.array([0.5, -2.0]), np.array([-0.1, 1.0]), np.array([0.0, 3.0])]
    state = adam.init(2)
    first, second = np.zeros(2), np.zeros(2)
    for number, gradient in enumerate(gradients, start=1):
        state, step = adam.update(state, gradient, 0.1)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        corrected = (first / (1 - 0.9**number), second / (1 - 0.999**number))
        np.testing.assert_allclose(step, 0.1 * corrected[0] / (np.sqrt(corrected[1]) + 1e-8))
    assert state.updates == 3
