"""Boolean products: what a network without noise draws from its states."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, BoolArray
from noisyor.errors import InvalidDataError

__all__ = ["binary_array", "boolean_convolution", "boolean_product"]


def boolean_product(U: npt.ArrayLike, V: npt.ArrayLike) -> BinaryArray:
    """``1[U V >= 1]`` of binary U (n, r) and V (r, p), uint8 (n, p).

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.model.boolean_product([[1, 1], [0, 1]], [[1, 0, 0], [1, 1, 0]]).tolist()
    [[1, 1, 0], [1, 1, 0]]
    """
    left, right = binary_array("U", U, 2), binary_array("V", V, 2)
    if left.shape[1] != len(right):
        raise InvalidDataError(f"U has {left.shape[1]} columns, but V has {len(right)} rows")
    counts = left.astype(np.float32) @ right.astype(np.float32)  # exact up to 2**24 causes
    return (counts >= 0.5).astype(np.uint8)


def boolean_convolution(
    states: npt.ArrayLike, features: npt.ArrayLike, border: bool = False
) -> BinaryArray:
    """Images with the features drawn at the active positions, overlaps counted once.

    Parameters
    ----------
    states : binary (n_images, n_components, rows, columns).
    features : binary (n_components, height, width).
    border : positions include those where the feature hangs over the border of the image, as in
        `noisyor.model.state_shape`.

    Returns
    -------
    uint8 (n_images, rows + height - 1, columns + width - 1), or with `border`
    (n_images, rows - height + 1, columns - width + 1).

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.model.boolean_convolution([[[[1, 0], [0, 0]]]], [[[1, 1], [0, 1]]]).tolist()
    [[[1, 1, 0], [0, 1, 0], [0, 0, 0]]]
    """
    active = binary_array("states", states, 4)
    patterns = binary_array("features", features, 3)
    n_images, n_components, rows, columns = active.shape
    if len(patterns) != n_components:
        raise InvalidDataError(
            f"states are of {n_components} components, but there are {len(patterns)} features"
        )
    height, width = patterns.shape[1:]
    images = np.zeros((n_images, rows + height - 1, columns + width - 1), dtype=np.bool_)
    for f, a, b in zip(*np.nonzero(patterns), strict=True):
        images[:, a : a + rows, b : b + columns] |= active[:, f]
    if border:
        if rows < 2 * height - 1 or columns < 2 * width - 1:
            raise InvalidDataError(
                f"{rows} x {columns} positions are too few for features of {height} x {width} "
                "that hang over the border of an image"
            )
        images = images[:, height - 1 : rows, width - 1 : columns]
    return images.astype(np.uint8)


def binary_array(name: str, values: npt.ArrayLike, ndim: int | None = None) -> BoolArray:
    """``values`` as a Boolean array; ``name`` is what errors call it.

    >>> import noisyor as nor
    >>> nor.model.binary_array("X", [[0, 1]], ndim=2).tolist()
    [[False, True]]
    """
    array = np.asarray(values)
    if ndim is not None and array.ndim != ndim:
        raise InvalidDataError(f"{name} has {ndim} axes, got an array of shape {array.shape}")
    if array.dtype != np.bool_:
        if array.dtype.kind not in "iuf" or not ((array == 0) | (array == 1)).all():
            raise InvalidDataError(f"{name} is binary, got other values than 0 and 1")
        array = array.astype(np.bool_)
    return array
