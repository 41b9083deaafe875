from __future__ import annotations

import numpy as np
import pytest

from noisyor.datasets.deconvolution import (
    generate_deconvolution,
    load_deconvolution,
    true_features,
)
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.model.boolean import boolean_convolution


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


def test_real_images(real_data):
    data = load_deconvolution()
    assert data.images.shape == (100, 14, 14)
    assert data.features.shape == (4, 5, 5)
    assert {data.images.dtype, data.features.dtype} == {np.dtype(np.uint8)}
    assert data.images.mean() == pytest.approx(0.231, abs=0.001)
    assert data.states is None


@pytest.mark.parametrize(
    ("X", "W", "message"),
    [
        (np.zeros((3, 14, 14)), np.zeros((1, 4, 5, 5)), "X has shape"),
        (np.zeros((3, 1, 14, 14)), np.zeros((4, 1, 5, 5)), "W has shape"),
        (np.full((3, 1, 14, 14), 0.5), np.zeros((1, 4, 5, 5)), "X holds other values"),
        (np.zeros((3, 1, 14, 14)), np.full((1, 4, 5, 5), np.nan), "W holds other values"),
    ],
)
def test_files_that_hold_something_else(tmp_path, X, W, message):
    np.savez(tmp_path / "c.npz", X=X, W=W)
    with pytest.raises(InvalidDataError, match=message):
        load_deconvolution(tmp_path / "c.npz")


@pytest.mark.parametrize("n_images", [0, -1, 1.5, True])
def test_number_of_images(n_images):
    with pytest.raises(InvalidSettingError, match="n_images"):
        generate_deconvolution(n_images)


@pytest.mark.parametrize("seed", [-1, 2**63, 0.5])
def test_seed(seed):
    with pytest.raises(InvalidSettingError, match="seed"):
        generate_deconvolution(3, seed)


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
