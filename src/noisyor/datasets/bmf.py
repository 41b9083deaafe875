"""Boolean matrix factorisation by the paper's recipe: products of random binary factors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisyor._util.arrays import BinaryArray
from noisyor._util.validation import check_seed, is_finite, is_whole
from noisyor.errors import InvalidSettingError

__all__ = ["BmfData", "generate_bmf"]


@dataclass(frozen=True, eq=False)
class BmfData:
    """Two matrices with one common factor, all of 0 and 1.

    Attributes
    ----------
    train, test : (n, n), ``1[U V >= 1]``.
    U_train, U_test : (n, r), which features a row has.
    V : (r, n), the features.
    p_uv : probability of a one in the factors.

    Examples
    --------
    >>> import noisyor as nor
    >>> data = nor.datasets.generate_bmf(n=6, r=2)
    >>> bool((nor.model.boolean_product(data.U_train, data.V) == data.train).all())
    True
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
    seed : of the generator.
    p_x : probability of a one in the product.

    Examples
    --------
    >>> import noisyor as nor
    >>> data = nor.datasets.generate_bmf(n=6, r=2)
    >>> data.train.shape, data.U_train.shape, data.V.shape
    ((6, 6), (6, 2), (2, 6))
    """
    for name, value in (("n", n), ("r", r)):
        if not is_whole(value) or value < 1:
            raise InvalidSettingError(f"{name} is a positive whole number, got {value!r}")
    if not is_finite(p_x) or not 0 < p_x < 1:
        raise InvalidSettingError(f"p_x lies strictly between 0 and 1, got {p_x!r}")
    p_uv = float(np.sqrt(1.0 - (1.0 - p_x) ** (1.0 / r)))
    generator = np.random.default_rng(check_seed(seed))
    U_test, U_train, V = (
        (generator.random(shape) < p_uv).astype(np.uint8) for shape in ((n, r), (n, r), (r, n))
    )
    return BmfData(_product(U_train, V), _product(U_test, V), U_train, U_test, V, p_uv)


def _product(U: BinaryArray, V: BinaryArray) -> BinaryArray:
    # Sums of ones: in floating point only whether they are zero matters, and that is exact.
    return (U.astype(np.float32) @ V.astype(np.float32) > 0).astype(np.uint8)
