"""Ragged rows: the columns of all rows in one array, with pointers to where each row begins.

Networks keep the parents of their nodes in this layout, observations their ones and their
unobserved entries. Unlike a SciPy matrix, a slice of rows shares the columns with the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import AnyArray, BoolArray, LongArray
from noisyor.errors import InvalidDataError

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
        """Return the same rows with pointers from 0 and no columns but their own."""
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

    def check(self, n_visible: int, what: str) -> None:
        """Columns of each row lie in range and ascend strictly; ``what`` names row ``{}``."""
        if self.ptr[0] < 0 or self.ptr[-1] > len(self.columns) or (np.diff(self.ptr) < 0).any():
            raise InvalidDataError("pointers must not fall, nor point outside the columns")
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


def first_occurrences(*parts: Rows) -> tuple[LongArray, LongArray]:
    """Which rows are new, and for every row the number of the new row that it repeats.

    Rows are the same if they are in every part. Time and memory are linear in the entries.

    Parameters
    ----------
    parts : of the same rows, with ascending columns of 32 bits.

    Returns
    -------
    (n_distinct,) the first row of each kind, ascending; (n_rows,) number of each row's kind.

    >>> rows = Rows(pointers([1, 2, 1]), np.array([4, 4, 5, 4], dtype=np.int32))
    >>> first_occurrences(rows)
    (array([0, 1]), array([0, 1, 0]))
    """
    kinds: dict[tuple[bytes, ...], int] = {}
    rows = zip(*map(_as_bytes, parts), strict=True)
    inverse = np.array([kinds.setdefault(row, len(kinds)) for row in rows], dtype=np.int64)
    first = np.empty(len(kinds), dtype=np.int64)
    first[inverse[::-1]] = np.arange(len(inverse))[::-1]
    return first, inverse


def _as_bytes(rows: Rows) -> Iterator[bytes]:
    ptr, columns = rows.rebased()
    text = columns.astype(np.int32, copy=False).tobytes()
    return (text[start:stop] for start, stop in pairwise((ptr * 4).tolist()))


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


def contains(ascending: LongArray, keys: LongArray) -> BoolArray:
    """Tell which of the keys occur in an ascending array."""
    if not ascending.size:
        return np.zeros(len(keys), dtype=np.bool_)
    index = np.searchsorted(ascending, keys)
    found: BoolArray = ascending[np.minimum(index, len(ascending) - 1)] == keys
    return found
