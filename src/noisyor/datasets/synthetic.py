"""Generators of binary data whose true causes are known: Boolean products and stamped images.

Both follow the recipes of the paper's experiments (Boolean matrix factorization and blind
deconvolution).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray
from noisyor._util.validation import check_count, check_seed, is_finite
from noisyor.errors import InvalidSettingError
from noisyor.model.forward import boolean_convolution, boolean_product


@dataclass(frozen=True, eq=False)
class BmfData:
    """Two matrices with one common factor, all of 0 and 1.

    Attributes
    ----------
    train, test : (n, n), ``1[U V >= 1]``.
    U_train, U_test : (n, r), which features a row has.
    V : (r, n), the features.
    p_uv : probability of a one in the factors.
    """

    train: BinaryArray
    test: BinaryArray
    U_train: BinaryArray
    U_test: BinaryArray
    V: BinaryArray
    p_uv: float


def generate_bmf(n: int, r: int, seed: int = 0, p_x: float = 0.25) -> BmfData:
    """Draw the factors and multiply them.

    One generator draws U_test, U_train and V, in this order.

    Parameters
    ----------
    n : number of rows and of columns.
    r : number of features.
    seed : seed of the generator.
    p_x : probability of a one in the product.

    Examples
    --------
    >>> import noisyor as nor
    >>> data = nor.datasets.generate_bmf(n=6, r=2)
    >>> data.train.shape, data.U_train.shape, data.V.shape
    ((6, 6), (6, 2), (2, 6))
    """
    check_count("n", n)
    check_count("r", r)
    if not is_finite(p_x) or not 0 < p_x < 1:
        raise InvalidSettingError(f"p_x must lie strictly between 0 and 1, got {p_x!r}")
    p_uv = float(np.sqrt(1.0 - (1.0 - p_x) ** (1.0 / r)))
    generator = np.random.default_rng(check_seed(seed))
    U_test, U_train, V = (
        (generator.random(shape) < p_uv).astype(np.uint8) for shape in ((n, r), (n, r), (r, n))
    )
    train, test = boolean_product(U_train, V), boolean_product(U_test, V)
    return BmfData(train, test, U_train, U_test, V, p_uv)


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
class DeconvolutionData:
    """Images with the shapes and positions that generated them.

    Attributes
    ----------
    images : (n_images, 14, 14) uint8.
    features : (4, 5, 5) uint8, the shapes: square, plus, triangle, diamond.
    states : (n_images, 4, 10, 10) uint8, 1 where a shape's top left corner lies.
    """

    images: BinaryArray
    features: BinaryArray
    states: BinaryArray


def true_features() -> BinaryArray:
    """Return the four shapes, uint8 (4, 5, 5): square, plus, triangle, diamond."""
    return np.array(
        [[[pixel == "#" for pixel in row] for row in shape] for shape in _SHAPES]
    ).astype(np.uint8)


def generate_deconvolution(n_images: int = 100, seed: int = 0) -> DeconvolutionData:
    """Draw images of 14 x 14 pixels, about 23 % of them on, each with more than two stamps.

    Every shape lies at each of 10 x 10 positions with probability 0.01, independently; images with
    two stamps or fewer are drawn again. With the same seed, fewer images are the first of more
    images.

    Parameters
    ----------
    n_images : number of images.
    seed : seed of the draws; independent of other uses of the same seed in this library.

    Examples
    --------
    >>> import noisyor as nor
    >>> data = nor.datasets.generate_deconvolution(n_images=3)
    >>> data.images.shape, data.states.shape
    ((3, 14, 14), (3, 4, 10, 10))
    """
    check_count("n_images", n_images)
    own_stream = np.random.SeedSequence(check_seed(seed)).spawn(1)[0]
    generator = np.random.default_rng(own_stream)
    features = true_features()
    kept: list[npt.NDArray[np.bool_]] = []
    while sum(map(len, kept)) < n_images:
        block = generator.random((_BLOCK, len(features), *_POSITIONS)) < ACTIVATION_PROBABILITY
        kept.append(block[block.sum(axis=(1, 2, 3)) > _MORE_THAN])
    states = np.concatenate(kept)[:n_images].astype(np.uint8)
    return DeconvolutionData(boolean_convolution(states, features), features, states)
