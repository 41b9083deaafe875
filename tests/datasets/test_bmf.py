from __future__ import annotations

import numpy as np
import pytest

from noisyor.datasets import generate_bmf
from noisyor.errors import InvalidSettingError


def test_draws_in_the_order_of_the_recipe():
    data = generate_bmf(7, 3, seed=11)
    generator = np.random.default_rng(11)
    p = np.sqrt(1 - 0.75 ** (1 / 3))
    assert data.p_uv == pytest.approx(p)
    for drawn, shape in ((data.U_test, (7, 3)), (data.U_train, (7, 3)), (data.V, (3, 7))):
        assert drawn.dtype == np.uint8
        np.testing.assert_array_equal(drawn, generator.random(shape) < p)


def test_boolean_products():
    data = generate_bmf(30, 6, seed=2)
    for U, X in ((data.U_train, data.train), (data.U_test, data.test)):
        assert X.dtype == np.uint8
        for i in range(30):
            for j in range(30):
                assert X[i, j] == any(U[i, k] and data.V[k, j] for k in range(6))


@pytest.mark.parametrize("p_x", [0.25, 0.6])
def test_density(p_x):
    means = [generate_bmf(150, 30, seed, p_x).train.mean() for seed in range(8)]
    assert np.mean(means) == pytest.approx(p_x, abs=0.02)


def test_seeds():
    one, same, other = (generate_bmf(20, 5, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.train, same.train)
    assert (one.train != other.train).any()


@pytest.mark.parametrize(
    "settings",
    [{"n": 0}, {"r": 0}, {"r": 2.0}, {"p_x": 0}, {"p_x": 1.0}, {"p_x": "half"}, {"seed": -1}],
)
def test_settings(settings):
    with pytest.raises(InvalidSettingError, match=next(iter(settings))):
        generate_bmf(**{"n": 4, "r": 2, **settings})
