"""Blind deconvolution: four shapes stamped at random into small images.

The paper's own images, and new ones by the same recipe.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisyor._util.array_file import read_arrays
from noisyor._util.arrays import BinaryArray
from noisyor._util.compression import existing
from noisyor._util.validation import check_seed, is_whole
from noisyor.datasets.download import fetch
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.model.boolean import boolean_convolution

__all__ = [
    "DeconvolutionData",
    "DeconvolutionProblem",
    "generate_deconvolution",
    "load_deconvolution",
    "true_features",
]


ACTIVATION_PROBABILITY = 0.01
"""Probability of a feature at a position."""

_POSITIONS = (10, 10)
_MORE_THAN = 2  # images with this many stamps or fewer are left out
_BLOCK = 128  # images drawn at once; part of the recipe, since it fixes the order of the draws

_SHAPES = (
    ("#####", "#...#", "#...#", "#...#", "#####"),  # square
    ("..#..", "..#..", "#####", "..#..", "..#.."),  # plus
    ("..#..", ".#.#.", ".#.#.", "#...#", "#####"),  # triangle
    ("..#..", ".#.#.", "#...#", ".#.#.", "..#.."),  # diamond
)


@dataclass(frozen=True, eq=False)
class DeconvolutionProblem:
    """Images and what they were made of, as far as it is known.

    Attributes
    ----------
    images : (n_images, 14, 14) uint8.
    features : (4, 5, 5) uint8, the shapes: a square, a plus, a triangle and a diamond.
    states : (n_images, 4, 10, 10) uint8, 1 where a shape's top left corner lies; or None.

    Examples
    --------
    >>> import noisyor as nor
    >>> data = nor.datasets.generate_deconvolution(n_images=3)
    >>> problem = nor.datasets.DeconvolutionProblem(data.images, data.features, None)
    >>> problem.images.shape, problem.states
    ((3, 14, 14), None)
    """

    images: BinaryArray
    features: BinaryArray
    states: BinaryArray | None


@dataclass(frozen=True, eq=False)
class DeconvolutionData(DeconvolutionProblem):
    """Images that were generated, so that everything about them is known.

    Attributes
    ----------
    images : (n_images, 14, 14) uint8.
    features : (4, 5, 5) uint8, the shapes: square, plus, triangle, diamond.
    states : (n_images, 4, 10, 10) uint8, 1 where a shape's top left corner lies.

    Examples
    --------
    >>> import noisyor as nor
    >>> data = nor.datasets.generate_deconvolution(n_images=3)
    >>> images = nor.model.boolean_convolution(data.states, data.features)
    >>> bool((images == data.images).all())
    True
    """

    states: BinaryArray


def true_features() -> BinaryArray:
    """The four shapes, uint8 (4, 5, 5): square, plus, triangle, diamond.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.datasets.true_features().sum(axis=(1, 2)).tolist()  # pixels of each shape
    [16, 9, 12, 8]
    """
    return np.array(
        [[[pixel == "#" for pixel in row] for row in shape] for shape in _SHAPES]
    ).astype(np.uint8)


def load_deconvolution(source: str | os.PathLike[str] | None = None) -> DeconvolutionProblem:
    """The 100 images of the paper's experiment; where the shapes lie is not known.

    Parameters
    ----------
    source : a copy of ``conv_problem.npz``; without it the file is looked for, or downloaded.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.datasets.load_deconvolution().images.shape
    (100, 14, 14)
    """
    path = fetch("conv_problem.npz") if source is None else existing(source)
    arrays = read_arrays(path, ("X", "W"))
    images, features = (_binary_images(path, name, arrays[name]) for name in ("X", "W"))
    return DeconvolutionProblem(images[:, 0], features[0], None)


def _binary_images(path: object, name: str, values: npt.NDArray[np.generic]) -> BinaryArray:
    """Arrays of 0 and 1 with four axes, one of which, of length 1, is that of the channels."""
    if values.ndim != 4 or values.shape[0 if name == "W" else 1] != 1:
        raise InvalidDataError(
            f"{path}: {name} has shape {values.shape}, expected images of one channel"
        )
    if not np.isin(values, (0, 1)).all():
        raise InvalidDataError(f"{path}: {name} holds other values than 0 and 1")
    return values.astype(np.uint8)


def generate_deconvolution(n_images: int = 100, seed: int = 0) -> DeconvolutionData:
    """Images of 14 x 14 pixels, about 23 % of them on, each with more than two stamps.

    Every shape lies at each of 10 x 10 positions with probability 0.01, independently; images
    with two stamps or fewer are drawn again. Fewer images of one seed are the first of more.

    Parameters
    ----------
    n_images : number of images.
    seed : of the draws; independent of other uses of the same seed in this library.

    Examples
    --------
    >>> import noisyor as nor
    >>> data = nor.datasets.generate_deconvolution(n_images=3)
    >>> data.images.shape, data.states.shape
    ((3, 14, 14), (3, 4, 10, 10))
    """
    if not is_whole(n_images) or n_images < 1:
        raise InvalidSettingError(f"n_images is a positive whole number, got {n_images!r}")
    own_stream = np.random.SeedSequence(check_seed(seed)).spawn(1)[0]
    generator = np.random.default_rng(own_stream)
    features = true_features()
    kept: list[npt.NDArray[np.bool_]] = []
    while sum(map(len, kept)) < n_images:
        block = generator.random((_BLOCK, len(features), *_POSITIONS)) < ACTIVATION_PROBABILITY
        kept.append(block[block.sum(axis=(1, 2, 3)) > _MORE_THAN])
    states = np.concatenate(kept)[:n_images].astype(np.uint8)
    return DeconvolutionData(boolean_convolution(states, features), features, states)
