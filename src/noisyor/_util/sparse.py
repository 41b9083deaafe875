"""SciPy's sparse matrices, checked before its compiled code sees them.

SciPy believes the indices and pointers of a matrix and ends the interpreter where they are wrong.
Those of a file, or of a matrix whose arrays were changed, may be anything.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from noisyor._util.arrays import AnyArray
from noisyor.errors import InvalidDataError

__all__ = ["build_sparse", "check_spread", "compressed_matrix", "csr_of", "dense_of"]

Parts = tuple[AnyArray, AnyArray, AnyArray]
"""Data (n_entries,), indices (n_entries,) and indptr (rows or columns + 1,)."""

# What SciPy raises for arrays that do not fit together.
_FAULTS = (ValueError, TypeError, IndexError, OverflowError, AttributeError, RuntimeError)


class _MalformedError(Exception):
    """The arrays of a matrix contradict each other; the text says how."""


def build_sparse(kind: str, parts: Parts, shape: tuple[int, ...], where: object) -> Any:
    """A SciPy matrix from arrays that a file holds, after what it announces is checked.

    Parameters
    ----------
    kind : "csr" or "csc".
    parts : data, indices and indptr.
    shape : rows and columns.
    where : the file, for errors.
    """
    if kind not in ("csr", "csc") or len(shape) != 2:
        raise InvalidDataError(
            f"{where}: a sparse matrix in the layout {kind!r}; save it with .tocsr()"
        )
    check_spread(shape, len(parts[0]), where)
    return compressed_matrix(kind, parts, shape, where)


def check_spread(shape: tuple[int, ...], n_entries: int, where: object) -> None:
    """Refuse sizes that few entries cannot mean: each row and column takes memory somewhere."""
    # Another layout of the matrix has a pointer for each row or column.
    if min(shape) < 0 or max(shape) > 10_000_000 + 100 * n_entries:
        raise InvalidDataError(
            f"{where}: damaged, {shape[0]} rows and {shape[1]} columns for {n_entries:,} entries"
        )


def compressed_matrix(kind: str, parts: Parts, shape: tuple[int, ...], where: object) -> Any:
    """A ``csr_array`` or ``csc_array`` of arrays that are checked first; ``where`` names them."""
    from scipy import sparse

    data, indices, indptr = parts
    lines, width = shape if kind == "csr" else shape[::-1]
    builder = sparse.csr_array if kind == "csr" else sparse.csc_array
    try:
        if np.ndim(data) != 1:
            raise _MalformedError(f"data have shape {np.shape(data)}, expected one axis")
        _check(indices, indptr, len(data), lines, width)
        return builder(parts, shape=shape)
    except (_MalformedError, *_FAULTS) as error:
        raise InvalidDataError(f"{where}: damaged or incomplete ({error})") from error


def csr_of(X: Any) -> Any:
    """A SciPy sparse matrix of any layout as ``csr_array`` without repeated entries.

    The caller's matrix is left as it is; arrays are shared where nothing had to be changed.
    """
    from scipy import sparse

    try:
        _check_layout(X)
        given = X.tocsr()
        _check(given.indices, given.indptr, len(given.data), *X.shape)
        # An object of our own: its flags are computed afresh.
        csr = sparse.csr_array((given.data, given.indices, given.indptr), shape=X.shape)
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        return csr
    except (_MalformedError, *_FAULTS) as error:
        raise InvalidDataError(f"the sparse matrix is not well formed: {error}") from error


def dense_of(X: Any) -> AnyArray:
    """A matrix as a NumPy array, whether it is sparse or not."""
    from scipy import sparse

    return np.asarray(csr_of(X).toarray() if sparse.issparse(X) else X)


def _check_layout(X: Any) -> None:
    """The arrays of a matrix fit together, in whatever layout it is."""
    n_rows, n_columns = X.shape
    if X.format in ("csr", "csc"):
        lines, width = X.shape if X.format == "csr" else X.shape[::-1]
        if X.data.ndim != 1:
            raise _MalformedError(f"data have shape {X.data.shape}, expected one axis")
        _check(X.indices, X.indptr, len(X.data), lines, width)
    elif X.format == "bsr":
        if X.data.ndim != 3 or 0 in X.data.shape[1:]:
            raise _MalformedError(f"data have shape {X.data.shape}, expected blocks")
        height, width = X.data.shape[1:]
        if n_rows % height or n_columns % width:
            raise _MalformedError(f"blocks of {height} x {width} do not fill shape {X.shape}")
        _check(X.indices, X.indptr, len(X.data), n_rows // height, n_columns // width)
    elif X.format == "coo":
        for name, numbers, size in (("rows", X.row, n_rows), ("columns", X.col, n_columns)):
            _check_integers(name, numbers)
            if numbers.shape != X.data.shape:
                raise _MalformedError(f"{len(numbers)} {name} for {X.data.shape} data")
            _check_range(name, numbers, size)
    elif X.format == "dia":
        _check_integers("offsets", X.offsets)
        if X.data.ndim != 2 or len(X.offsets) != len(X.data):
            raise _MalformedError(f"{len(X.offsets)} offsets for data of shape {X.data.shape}")
        _check_range("offsets", X.offsets, n_columns, least=1 - n_rows)
    elif X.format == "lil":
        lengths = [(len(columns), len(data)) for columns, data in zip(X.rows, X.data, strict=True)]
        if len(lengths) != n_rows or any(columns != data for columns, data in lengths):
            raise _MalformedError("its lists of columns and of data differ in length")


def _check(indices: Any, indptr: Any, n_values: int, lines: int, width: int) -> None:
    """Pointers rise from 0 to no more than there are entries, and entries lie in the matrix."""
    _check_integers("indices", indices)
    _check_integers("indptr", indptr)
    if len(indptr) != lines + 1:
        raise _MalformedError(f"indptr has {len(indptr)} entries, expected {lines + 1}")
    if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise _MalformedError("indptr must rise from 0")
    n_entries = int(indptr[-1])
    if n_entries > min(len(indices), n_values):
        raise _MalformedError(
            f"indptr ends at {n_entries:,}, there are {len(indices):,} indices and "
            f"{n_values:,} values"
        )
    _check_range("indices", indices[:n_entries], width)


def _check_integers(name: str, array: Any) -> None:
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
        came = f"{getattr(array, 'dtype', type(array).__name__)} of shape {np.shape(array)}"
        raise _MalformedError(f"{name} must be a list of integers, got {came}")


def _check_range(name: str, numbers: AnyArray, size: int, least: int = 0) -> None:
    if numbers.size and not least <= int(numbers.min()) <= int(numbers.max()) < size:
        raise _MalformedError(
            f"{name} must lie in {least}..{size - 1}, "
            f"they are {int(numbers.min())}..{int(numbers.max())}"
        )
