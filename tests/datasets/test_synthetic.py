from __future__ import annotations

import numpy as np
import pytest

from noisyor.datasets import generate_bmf, generate_deconvolution
from noisyor.datasets.synthetic import true_features
from noisyor.errors import InvalidSettingError
from noisyor.model.forward import boolean_convolution


def test_images_are_their_stamps():
    data = generate_deconvolution(30, seed=4)
    assert data.images.shape == (30, 14, 14)
    assert data.features.shape == (4, 5, 5)
    assert data.states.shape == (30, 4, 10, 10)
    assert {data.images.dtype, data.features.dtype, data.states.dtype} == {np.dtype(np.uint8)}
    np.testing.assert_array_equal(data.images, boolean_convolution(data.states, data.features))


def test_the_recipe_gives_the_papers_density():
    data = generate_deconvolution(5000, seed=0)
    assert data.images.mean() == pytest.approx(0.231, abs=0.005)
    stamps = data.states.sum(axis=(1, 2, 3))
    assert stamps.min() == 3
    # Binomial(400, 0.01) above 2: mean 4.76.
    assert stamps.mean() == pytest.approx(4.76, abs=0.06)


def test_same_seed_same_images_and_fewer_are_the_first_of_more():
    many = generate_deconvolution(300, seed=7)
    np.testing.assert_array_equal(many.images, generate_deconvolution(300, seed=7).images)
    np.testing.assert_array_equal(many.images[:20], generate_deconvolution(20, seed=7).images)
    assert (many.images != generate_deconvolution(300, seed=8).images).any()


def test_the_first_bits_of_seed_0_never_change():
    data = generate_deconvolution(1, seed=0)
    rows = ["".join("#" if pixel else "." for pixel in row) for row in data.images[0]]
    assert rows == FIRST_IMAGE


def test_features_are_those_of_the_real_data(data_dir):
    real = np.load(data_dir / "conv_problem.npz")["W"][0]
    unmatched = {feature.tobytes() for feature in true_features()}
    assert {feature.astype(np.uint8).tobytes() for feature in real} == unmatched


@pytest.mark.parametrize("n_images", [0, -1, 1.5, True])
def test_number_of_images(n_images):
    with pytest.raises(InvalidSettingError, match="n_images"):
        generate_deconvolution(n_images)


@pytest.mark.parametrize("seed", [-1, 2**63, 0.5])
def test_seed(seed):
    with pytest.raises(InvalidSettingError, match="seed"):
        generate_deconvolution(3, seed)


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


FIRST_IMAGE = [
    "..............",
    ".......#####..",
    ".......#.#.#..",
    ".......##.##..",
    ".......#...#..",
    "......######..",
    ".....###.#....",
    "....##.##..#..",
    ".....#.#..#.#.",
    "....#.#.##...#",
    "....#####.#.#.",
    "...........#..",
    "..............",
    "..............",
]
