"""Readers of binary data, one for each form they may come in.

`reader_for` makes a `BlockReader`, which gives the entries of a block of rows that may differ from
0; `read` goes through the blocks and sorts the entries into ones and unobserved. Dense input is
read block by block, sparse input through its stored entries, so temporary memory does not grow
with the size of the matrix.
"""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from noisyor._util.arrays import AnyArray, LongArray, Rows, csr_of, pointers, row_blocks
from noisyor.errors import InvalidDataError, UnsupportedDataError


class BlockReader(NamedTuple):
    """Access to data in any form, not validated yet."""

    n_visible: int
    work: LongArray
    """(n_rows + 1,) number of entries to read before each row."""
    block: Callable[[int, int], tuple[LongArray, AnyArray]]
    """Ascending keys (`Rows.keys`) and values of the entries of a range of rows; others are 0."""
    masks: tuple[Rows, ...] = ()
    """Entries that are unobserved whatever their value."""
    names: tuple[str, ...] | None = None
    shape: tuple[int, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.work) - 1

    def with_missing(self, mask: Rows) -> BlockReader:
        """Return the same data with more entries unobserved."""
        return self._replace(masks=(*self.masks, mask))


def _hint_for_arrays(value: float, columns: Sequence[str]) -> str:
    """Return what to do with a value that is neither 0 nor 1."""
    if value < 0:
        return f"np.where(X == {value:g}, np.nan, X) says that {value:g} is missing"
    return "X > 0 turns counts into 0 and 1"


def read(
    reader: BlockReader,
    first_row: int = 0,
    hint: Callable[[float, Sequence[str]], str] = _hint_for_arrays,
) -> tuple[Rows, Rows]:
    """Return the ones and the unobserved entries; any other value but 0 is an error.

    Parameters
    ----------
    reader : of the data.
    first_row : index of the first row in errors, where the data are a part of more.
    hint : what to do, from the first value that is neither 0 nor 1 and the names of all columns
        with such values (none if columns have no names).
    """
    n_visible, ones, missing = reader.n_visible, [], []
    n_bad, message, first_bad = 0, "", 0.0
    bad_columns: dict[int, None] = {}
    work = reader.work + sum((mask.ptr for mask in reader.masks), np.zeros(1, np.int64))
    for start, stop in row_blocks(work):
        keys, values = reader.block(start, stop)
        hidden = keys[np.isnan(values)] if values.dtype.kind == "f" else keys[:0]
        for mask in reader.masks:
            more = mask.keys(start, stop, n_visible)
            more = more[np.isin(more, hidden, assume_unique=True, invert=True)]
            hidden = np.sort(np.concatenate([hidden, more]), kind="stable")
        if hidden.size:
            seen = np.isin(keys, hidden, assume_unique=True, invert=True)
            keys, values = keys[seen], values[seen]
        one = values == 1
        bad = ~one & (values != 0)
        if bad.any() and not n_bad:
            row, column = divmod(int(keys[bad.argmax()]), n_visible)
            where = str(column) if reader.names is None else f"{reader.names[column]!r} ({column})"
            message = (
                f"row {first_row + start + row}, column {where}: expected 0, 1 or missing (NaN), "
                f"got {values[bad.argmax()]:.12g}"
            )
            first_bad = float(values[bad.argmax()])
        if bad.any():
            n_bad += int(bad.sum())
            bad_columns.update(dict.fromkeys((keys[bad] % n_visible).tolist()))
        ones.append(Rows.from_keys(keys[one], stop - start, n_visible))
        missing.append(Rows.from_keys(hidden, stop - start, n_visible))
    if n_bad:
        many = f"{n_bad} bad value{'s' * (n_bad > 1)} in all"
        if len(bad_columns) > 1:
            many += f", in {len(bad_columns)} columns"
        names = [] if reader.names is None else [reader.names[k] for k in bad_columns]
        raise InvalidDataError(f"{message} ({many}); {hint(first_bad, names)}")
    return Rows.joined(ones), Rows.joined(missing)


# ---- readers


def reader_for(X: Any) -> BlockReader:
    """Return a reader of a NumPy array, SciPy matrix, pandas frame, or anything with an array."""
    if isinstance(X, np.ndarray):
        return _dense(X)
    from scipy import sparse

    if sparse.issparse(X):
        return _sparse(X)
    if all(hasattr(X, name) for name in ("columns", "dtypes", "iloc", "to_numpy")):
        return _frame(X)
    if isinstance(X, list | tuple):
        raise UnsupportedDataError(
            f"a {type(X).__name__} may hold values or column indices: give np.asarray(X) for a "
            "matrix of 0 and 1, or use Observations.from_indices for lists of active columns"
        )
    if hasattr(X, "__array__"):
        return _array_of(X)
    raise UnsupportedDataError(
        f"cannot read binary data from {type(X).__name__}: expected a NumPy array, a SciPy sparse "
        "matrix, a pandas frame or Observations"
    )


def reader_for_rows(rows: Rows, n_visible: int, values: AnyArray | None = None) -> BlockReader:
    """Return a reader of entries stored row by row, with these values; all 1 if None."""
    stored = np.broadcast_to(np.True_, rows.columns.shape) if values is None else values

    def block(start: int, stop: int) -> tuple[LongArray, AnyArray]:
        return rows.keys(start, stop, n_visible), stored[rows.ptr[start] : rows.ptr[stop]]

    return BlockReader(n_visible, rows.ptr, block)


def rows_from_lists(lists: Iterable[Iterable[int]], n_visible: int, what: str) -> Rows:
    """Return lists of columns as rows, sorted and checked; ``what`` names row ``{}`` in errors."""
    arrays = []
    for index, row in enumerate(lists):
        try:
            array = row if isinstance(row, np.ndarray) else np.asarray(list(row))
        except (TypeError, ValueError):
            array = np.asarray(row, dtype=np.object_)
        if array.size and (array.ndim != 1 or array.dtype.kind not in "iu"):
            raise UnsupportedDataError(
                f"{what.format(index)}: expected a list of column indices (integers), "
                f"got {reprlib.repr(row)}"
            )
        arrays.append(np.sort(array.reshape(-1).astype(np.int64)))
    check_size(len(arrays), n_visible)
    ptr, columns = pointers([len(array) for array in arrays]), np.concatenate(arrays)
    Rows(ptr, columns).check(n_visible, what)
    return Rows(ptr, columns.astype(np.int32))


def mask_of(missing: Any, reader: BlockReader) -> Rows:
    """Return the true entries of a mask, dense or sparse, that has the shape of the data."""
    n_rows, n_visible = reader.n_rows, reader.n_visible
    array = missing if hasattr(missing, "tocsr") else np.asarray(missing)
    if array.dtype != np.bool_:
        raise UnsupportedDataError(f"missing must be a boolean mask, got dtype {array.dtype}")
    shapes = {(n_rows, n_visible), (n_rows, *reader.shape), (n_rows, 1, *reader.shape)}
    if array.shape not in shapes:
        raise InvalidDataError(
            f"missing has shape {array.shape}, the data have {n_rows} rows of {n_visible} columns"
        )
    return read(reader_for(array))[0]


def _dense(X: AnyArray) -> BlockReader:
    shape = X.shape
    array = np.asarray(np.ma.getdata(X))
    _check_kind(array.dtype, "the array")
    image = len(shape) == 3 or (len(shape) == 4 and shape[1] == 1)
    if len(shape) == 1:
        raise InvalidDataError(
            f"expected a matrix, got shape {shape}: X.reshape(1, -1) makes a vector one row"
        )
    if len(shape) != 2 and not image:
        raise InvalidDataError(
            f"expected shape (n, columns), (n, height, width) or (n, 1, height, width), got {shape}"
        )
    n_visible = int(np.prod(shape[1:]))
    check_size(shape[0], n_visible)

    def block(start: int, stop: int) -> tuple[LongArray, AnyArray]:
        flat = array[start:stop].reshape(-1)
        keys = np.flatnonzero(flat != 0)
        return keys, flat[keys]

    work = np.arange(shape[0] + 1, dtype=np.int64) * n_visible
    reader = BlockReader(n_visible, work, block, shape=shape[-2:] if image else shape[1:])
    if np.ma.is_masked(X):
        reader = reader.with_missing(read(_dense(np.ma.getmaskarray(X)))[0])
    return reader


def _array_of(X: Any) -> BlockReader:
    """Return a reader of anything with an array, such as a Polars frame, with column names."""
    array = np.asarray(X)
    if array.dtype == np.object_:  # Booleans or numbers with nulls between them
        array = _numbers(array)
    reader = _dense(array)
    names = getattr(X, "columns", None)
    if isinstance(names, list) and len(names) == reader.n_visible:
        reader = reader._replace(names=checked_names([str(name) for name in names], len(names)))
    return reader


def _numbers(array: AnyArray) -> AnyArray:
    """Return Booleans and numbers as floats, None as NaN."""
    present = np.array([value is not None for value in array.flat]).reshape(array.shape)
    kinds = {type(value) for value in array[present]}
    other = [kind for kind in kinds if not issubclass(kind, bool | int | float | np.number)]
    if other:
        raise UnsupportedDataError(
            f"the data hold values of type {other[0].__name__}, expected bool, integer or float, "
            "and None for missing"
        )
    result = np.full(array.shape, np.nan)
    result[present] = array[present].astype(np.float64)
    return result


def _sparse(X: Any) -> BlockReader:
    _check_kind(X.dtype, "the sparse matrix")
    if X.ndim != 2:
        raise InvalidDataError(
            f"expected a matrix, got shape {X.shape}: X.reshape(1, -1) makes a vector one row"
        )
    check_size(*X.shape)
    csr = csr_of(X)
    rows = Rows(csr.indptr.astype(np.int64), csr.indices)
    return reader_for_rows(rows, X.shape[1], csr.data)


def _frame(X: Any) -> BlockReader:
    labels, dtypes = list(X.columns), list(X.dtypes)
    names = None if labels == list(range(len(labels))) else tuple(str(label) for label in labels)
    for column, (label, dtype) in enumerate(zip(labels, dtypes, strict=True)):
        _check_kind(dtype, f"column {label!r} ({column})")
    check_size(*X.shape)
    names = checked_names(names, len(labels))
    if len(set(dtypes)) == 1 and getattr(dtypes[0], "fill_value", None) == 0:
        return _sparse(X.sparse.to_coo())._replace(names=names)
    plain = len(set(dtypes)) == 1 and isinstance(dtypes[0], np.dtype)
    options: dict[str, Any] = {} if plain else {"dtype": np.float64, "na_value": np.nan}

    def block(start: int, stop: int) -> tuple[LongArray, AnyArray]:
        return _dense(X.iloc[start:stop].to_numpy(**options)).block(0, stop - start)

    work = np.arange(len(X) + 1, dtype=np.int64) * len(labels)
    return BlockReader(len(labels), work, block, names=names)


# ---- checks


def checked_names(names: Sequence[str] | None, n_visible: int) -> tuple[str, ...] | None:
    """Return the names of columns as a tuple: one for each column, all distinct."""
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
    """Check that there is a row, and that 32-bit integers can index the columns."""
    if n_rows < 1:
        raise InvalidDataError("no rows: at least one observation is needed")
    if not 1 <= n_visible <= np.iinfo(np.int32).max:
        raise InvalidDataError(f"the number of columns must lie in 1..2147483647, got {n_visible}")


def check_width(n_columns: int, expected: int | None) -> None:
    """Check that the data are as wide as expected; None expects nothing."""
    if expected is not None and n_columns != expected:
        raise InvalidDataError(
            f"the data have {n_columns} columns, expected {expected} (n_visible)"
        )


def _check_kind(dtype: Any, what: str) -> None:
    if dtype.kind not in "biuf":
        raise UnsupportedDataError(
            f"{what} has dtype {dtype}, expected bool, integer or float; if it holds 0, 1 and "
            "missing values, convert it with .astype(float)"
        )
