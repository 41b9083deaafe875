"""Checks of rows and columns: sizes, names, weights, and which rows are meant."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import AnyArray, FloatArray, LongArray
from noisyor._util.csr import Rows, contains, row_blocks
from noisyor.errors import InvalidDataError, UnsupportedDataError

__all__ = [
    "check_layout",
    "check_size",
    "check_width",
    "checked_names",
    "checked_weights",
    "frozen",
    "row_numbers",
]

MAX_TOTAL_WEIGHT = 1e15
"""Largest total weight: sums and squares of weights stay finite, and single rows still count."""


def checked_names(names: Sequence[str] | None, n_visible: int) -> tuple[str, ...] | None:
    """Names of the columns as a tuple: one for each, all distinct."""
    if names is None:
        return None
    result = tuple(str(name) for name in names)
    if len(result) != n_visible:
        raise InvalidDataError(f"column_names has {len(result)} entries, expected {n_visible}")
    twice = [name for name, count in Counter(result).items() if count > 1]
    if twice:
        raise InvalidDataError(f"column names must be distinct, {twice[0]!r} occurs twice")
    return result


def check_size(n_rows: int, n_visible: int) -> None:
    """There is a row, and columns that 32-bit integers can number."""
    if n_rows < 1:
        raise InvalidDataError("no rows: at least one observation is needed")
    if not 1 <= n_visible <= np.iinfo(np.int32).max:
        raise InvalidDataError(f"the number of columns must lie in 1..2147483647, got {n_visible}")


def check_width(came: int, wanted: int | None) -> None:
    """The data are as wide as expected; None expects nothing."""
    if wanted is not None and came != wanted:
        raise InvalidDataError(f"the data have {came} columns, expected {wanted} (n_visible)")


def row_numbers(rows: slice | npt.ArrayLike, n_rows: int) -> LongArray:
    """Numbers of the rows that a slice, a mask or a list of numbers selects."""
    index = np.arange(n_rows)[rows] if isinstance(rows, slice) else np.asarray(rows)
    if index.dtype == np.bool_ and index.shape == (n_rows,):
        return np.flatnonzero(index)
    if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
        raise UnsupportedDataError(
            f"rows are a slice, {n_rows} booleans or a list of integers, "
            f"got {index.dtype} of shape {index.shape}"
        )
    outside = (index < -n_rows) | (index >= n_rows)
    if outside.any():
        raise InvalidDataError(f"row {index[outside][0]} does not exist, there are {n_rows} rows")
    return index.astype(np.int64)


def checked_weights(weights: npt.ArrayLike | None, n_rows: int) -> FloatArray | None:
    """Return weights (n_rows,) as a read-only array of positive numbers; None stays None."""
    if weights is None:
        return None
    try:
        array = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UnsupportedDataError(
            f"weights must be {n_rows} positive numbers, got {reprlib.repr(weights)}"
        ) from error
    if array.shape != (n_rows,):
        raise InvalidDataError(f"weights must have shape ({n_rows},), got {array.shape}")
    bad = np.flatnonzero(~((array > 0) & (array <= MAX_TOTAL_WEIGHT)))
    if bad.size:
        raise InvalidDataError(
            f"weights, row {bad[0]}: expected a positive number of at most "
            f"{MAX_TOTAL_WEIGHT:g}, got {array[bad[0]]}"
        )
    if array.sum() > MAX_TOTAL_WEIGHT:
        raise InvalidDataError(
            f"the weights add up to {array.sum():g} rows, more than {MAX_TOTAL_WEIGHT:g}: "
            "divide them by a constant"
        )
    array.flags.writeable = False
    return array


def frozen(value: npt.ArrayLike, dtype: type, name: str) -> AnyArray:
    """A list of integers of a type, which cannot be changed any more."""
    array = np.asarray(value)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise UnsupportedDataError(
            f"{name} must be a list of integers, got {array.dtype} of shape {array.shape}"
        )
    if array.dtype == dtype and not array.flags.writeable:
        return array
    result: AnyArray = array.astype(dtype)
    if not np.array_equal(result, array):
        raise InvalidDataError(f"{name} has entries too large for {np.dtype(dtype)}")
    result.flags.writeable = False
    return result


def check_layout(
    ones: Rows, missing: Rows, row_ids: LongArray, n_visible: int, shape: tuple[int, ...]
) -> None:
    """The arrays of rows fit together, and no entry is both 1 and missing."""
    check_size(ones.n_rows, n_visible)
    for name, came, wanted in (
        ("missing_ptr", len(missing.ptr), len(ones.ptr)),
        ("row_ids", len(row_ids), ones.n_rows),
        ("shape", int(np.prod(shape)), n_visible),
    ):
        if came != wanted:
            raise InvalidDataError(f"{name} has {came} entries, expected {wanted}")
    ones.check(n_visible, "row {}")
    missing.check(n_visible, "missing, row {}")
    n_missing = missing.ptr[-1] - missing.ptr[0]
    for start, stop in row_blocks(ones.ptr + missing.ptr) if n_missing else ():
        keys = ones.keys(start, stop, n_visible)
        both = keys[contains(missing.keys(start, stop, n_visible), keys)]
        if both.size:
            row, column = divmod(int(both[0]), n_visible)
            raise InvalidDataError(f"row {start + row}: column {column} is both 1 and missing")
