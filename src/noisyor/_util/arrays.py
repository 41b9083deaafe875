"""Types of arrays, ragged rows, checked sparse matrices, and numerically stable functions.

Ragged rows hold the parents of nodes in a network, and the ones and unobserved entries of
observations: the columns of all rows in one array, with pointers to the start of each row. Unlike
in a SciPy matrix, a slice of rows shares the columns with the whole. The numerical functions are
plain NumPy, independent of the compiled ones that they test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor.errors import InvalidDataError

FloatArray = npt.NDArray[np.float64]
SingleArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
BinaryArray = npt.NDArray[np.uint8]
"""Zeros and ones; states of hidden nodes; evidence of 0, 1 and 2 (free)."""
AnyArray = npt.NDArray[Any]


BLOCK = 1 << 20
"""Number of entries that are processed together."""


class Rows(NamedTuple):
    """Some columns of each row: those of row ``r`` are ``columns[ptr[r]:ptr[r + 1]]``."""

    ptr: LongArray
    columns: AnyArray

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.ptr) - 1

    @staticmethod
    def from_keys(keys: LongArray, n_rows: int, n_visible: int) -> Rows:
        """Build rows from `keys`, which must be ascending and distinct."""
        ptr = np.searchsorted(keys, np.arange(n_rows + 1, dtype=np.int64) * n_visible)
        return Rows(ptr.astype(np.int64, copy=False), (keys % n_visible).astype(np.int32))

    @staticmethod
    def joined(parts: Sequence[Rows]) -> Rows:
        """Join parts one after another, in new read-only arrays."""
        ptr = pointers(np.concatenate([np.diff(part.ptr) for part in parts]))
        columns = np.concatenate([part.rebased().columns for part in parts])
        ptr.flags.writeable = columns.flags.writeable = False
        return Rows(ptr, columns)

    def keys(self, start: int, stop: int, n_visible: int) -> LongArray:
        """Return ``(row - start) * n_visible + column`` of the entries of rows start to stop."""
        ptr = self.ptr[start : stop + 1]
        first = np.arange(stop - start, dtype=np.int64) * n_visible
        return np.repeat(first, np.diff(ptr)) + self.columns[ptr[0] : ptr[-1]]

    def rebased(self) -> Rows:
        """Return the same rows with pointers that start at 0 and only their own columns."""
        return Rows(self.ptr - self.ptr[0], self.columns[self.ptr[0] : self.ptr[-1]])

    def take(self, index: LongArray) -> Rows:
        """Return the rows with these indices, in new arrays."""
        start = self.ptr[:-1][index]
        lengths = self.ptr[1:][index] - start
        ptr = pointers(lengths)
        return Rows(ptr, self.columns[np.repeat(start - ptr[:-1], lengths) + np.arange(ptr[-1])])

    def to_csr(self, n_visible: int) -> Any:
        """Return a SciPy ``csr_array``, uint8, (n_rows, n_visible), that is 1 at the entries."""
        from scipy import sparse

        ptr, columns = self.rebased()
        ones = np.ones(len(columns), dtype=np.uint8)
        index = np.int32 if len(columns) <= np.iinfo(np.int32).max else np.int64
        arrays = (ones, columns.astype(index), ptr.astype(index))
        return sparse.csr_array(arrays, shape=(self.n_rows, n_visible))

    def as_bytes(self) -> Iterator[bytes]:
        """Iterate over the columns of each row as bytes; equal rows have equal bytes."""
        ptr, columns = self.rebased()
        content = columns.astype(np.int32, copy=False).tobytes()
        return (content[start:stop] for start, stop in pairwise((ptr * 4).tolist()))

    def check(self, n_visible: int, what: str) -> None:
        """Check that columns lie in range and ascend in each row; ``what`` names row ``{}``."""
        if self.ptr[0] < 0 or self.ptr[-1] > len(self.columns) or (np.diff(self.ptr) < 0).any():
            raise InvalidDataError("pointers must not decrease, nor point outside the columns")
        ptr, columns = self.rebased()
        outside = (columns < 0) | (columns >= n_visible)
        falls = np.zeros(len(columns), dtype=np.bool_)
        falls[1:] = columns[1:] <= columns[:-1]
        falls[ptr[:-1][ptr[:-1] < len(columns)]] = False  # the first entry of each row
        for bad, fault in (
            (outside, f"does not exist, columns are 0..{n_visible - 1}"),
            (falls, "occurs twice or is out of order"),
        ):
            if bad.any():
                entry = int(bad.argmax())
                where = what.format(int(np.searchsorted(ptr, entry, side="right")) - 1)
                raise InvalidDataError(f"{where}: column {columns[entry]} {fault}")


def pointers(lengths: npt.ArrayLike) -> LongArray:
    """Return where each row begins, and the last one ends, for rows of these lengths."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def row_blocks(ptr: LongArray) -> Iterator[tuple[int, int]]:
    """Iterate over ranges of rows with at most ``BLOCK`` entries, or of one row."""
    start = 0
    while start < len(ptr) - 1:
        stop = int(np.searchsorted(ptr, ptr[start] + BLOCK, side="right")) - 1
        stop = max(stop, start + 1)
        yield start, stop
        start = stop


# ---- SciPy

# What SciPy raises for arrays that do not fit together.
_FAULTS = (ValueError, TypeError, IndexError, OverflowError, AttributeError)


def csr_of(X: Any) -> Any:
    """Return a SciPy sparse matrix of any layout as ``csr_array`` without repeated entries.

    The caller's matrix is left unchanged; arrays are shared where nothing had to be changed.
    """
    from scipy import sparse

    try:
        # SciPy follows wrong indices into memory that does not belong to the matrix.
        if X.format == "bsr":
            X.check_format(full_check=True)
        for axis, size in zip(getattr(X, "coords", ()), X.shape, strict=False):
            if ((axis < 0) | (axis >= size)).any():
                raise ValueError("an index is outside the matrix")
        X = X if X.format in ("csr", "csc") else X.tocsr()
        # A new object: flags of the caller's matrix may be stale.
        builder = sparse.csr_array if X.format == "csr" else sparse.csc_array
        matrix = builder((X.data, X.indices, X.indptr), shape=X.shape)
        matrix.check_format(full_check=True)
        if (np.diff(matrix.indptr) < 0).any():  # SciPy skips this if the last is 0
            raise ValueError("index pointers must not decrease")
        csr = matrix.tocsr()
    except _FAULTS as error:
        raise InvalidDataError(f"the sparse matrix is damaged or incomplete ({error})") from error
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def dense_of(X: Any) -> AnyArray:
    """Return a matrix as a NumPy array, whether it is sparse or not."""
    from scipy import sparse

    return np.asarray(csr_of(X).toarray() if sparse.issparse(X) else X)


def log_one_minus_exp(b: npt.ArrayLike) -> FloatArray:
    """Return ``f(b) = log(1 - exp(-b))`` for ``b >= 0`` of any shape; minus infinity at zero."""
    value = np.asarray(b, dtype=np.float64)
    small = np.minimum(value, np.log(2))
    large = np.maximum(value, np.log(2))
    with np.errstate(divide="ignore"):
        below = np.log(-np.expm1(-small))
    return np.where(value <= np.log(2), below, np.log1p(-np.exp(-large)))


def log_expm1(b: npt.ArrayLike) -> FloatArray:
    """Return ``b + f(b) = log(exp(b) - 1)``: log-odds of a node with total parameter b."""
    return np.asarray(b, dtype=np.float64) + log_one_minus_exp(b)


def logistic_function(log_odds: npt.ArrayLike) -> FloatArray:
    """Return the probability ``1 / (1 + exp(-a))`` of log-odds of any shape, without overflow."""
    a = np.asarray(log_odds, dtype=np.float64)
    rest = np.exp(-np.abs(a))
    return np.where(a < 0, rest / (1.0 + rest), 1.0 / (1.0 + rest))


def standard_error_of_mean(values: FloatArray, weights: FloatArray | None = None) -> float:
    """Return the standard error of the mean of values (n,); NaN for a single row.

    ``weights`` (n,) of the rows, None if all are 1: a row of weight w counts as w rows with the
    same value.
    """
    weight = np.ones(len(values)) if weights is None else weights
    n_rows = weight.sum()
    if n_rows <= 1:
        return float("nan")
    mean = weight @ values / n_rows
    variance = weight @ (values - mean) ** 2 / (n_rows - 1)
    return float(np.sqrt(variance / n_rows))


def entropy_bits(probability: FloatArray) -> FloatArray:
    """Return the entropy of Bernoulli variables in bits."""
    inside = np.clip(probability, 1e-12, 1.0 - 1e-12)
    return np.asarray(-inside * np.log2(inside) - (1.0 - inside) * np.log2(1.0 - inside))
