"""Binary data in every accepted form, validated once and kept sparse.

Only the ones and the unobserved entries are stored, row by row (`noisyor._util.arrays`).
`reader_for` makes a `BlockReader`, which gives the entries of a block of rows that may differ from
0; `read` goes through the blocks and sorts the entries into ones and unobserved. Dense input is
read block by block, sparse input through its stored entries, so temporary memory does not grow
with the size of the matrix.
"""

from __future__ import annotations

import hashlib
import operator
import os
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import (
    AnyArray,
    FloatArray,
    IntArray,
    LongArray,
    Rows,
    csr_of,
    pointers,
    row_blocks,
)
from noisyor.errors import InvalidDataError, InvalidSettingError, UnsupportedDataError

MAX_TOTAL_WEIGHT = 1e15
MIN_WEIGHT = 1e-15
"""Largest total weight: sums and squares of weights stay finite, and single rows still count."""


@dataclass(frozen=True, eq=False)
class Observations:
    """Rows of binary data, some entries perhaps unobserved. Build one with `Observations.of`.

    Attributes
    ----------
    n_visible : number of columns.
    ptr : (n_rows + 1,) the columns of row ``r`` that are 1 are ``columns[ptr[r]:ptr[r + 1]]``,
        ascending. ``ptr`` need not start at 0: a slice of rows shares ``columns`` with the whole.
    columns : columns that are 1.
    missing_ptr, missing_columns : the unobserved columns of each row in the same layout.
    row_ids : (n_rows,) identity of each row in the data set it came from. Rows keep it when they
        are selected; randomness is keyed by it.
    column_names : optional names of the columns, (n_visible,).
    shape : shape of one observation, ``(n_visible,)`` or that of an image.
    weights : (n_rows,) positive number of rows that each row stands for; None if all are 1. Every
        sum and mean over rows is weighted.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> rows = nor.Observations.of(np.array([[1, 0, np.nan], [0, 1, 1]]))
    >>> rows.n_rows, rows.n_visible, rows.n_missing
    (2, 3, 1)
    """

    n_visible: int
    ptr: LongArray
    columns: IntArray
    missing_ptr: LongArray
    missing_columns: IntArray
    row_ids: LongArray
    column_names: tuple[str, ...] | None = None
    shape: tuple[int, ...] = ()
    weights: FloatArray | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "n_visible", operator.index(self.n_visible))
        for name in ("ptr", "missing_ptr", "row_ids"):
            put(self, name, _read_only(getattr(self, name), np.int64, name))
        for name in ("columns", "missing_columns"):
            put(self, name, _read_only(getattr(self, name), np.int32, name))
        put(self, "shape", tuple(int(size) for size in self.shape) or (self.n_visible,))
        put(self, "column_names", checked_names(self.column_names, self.n_visible))
        put(self, "weights", _checked_weights(self.weights, len(self.row_ids)))
        _check_layout(self._ones, self._missing, self.row_ids, self.n_visible, self.shape)

    # ---- constructors

    @classmethod
    def of(
        cls,
        X: Any,
        n_visible: int | None = None,
        missing: Any = None,
        row_ids: npt.ArrayLike | None = None,
        column_names: Sequence[str] | None = None,
    ) -> Observations:
        """Read binary data from any accepted form.

        Parameters
        ----------
        X : (n_rows, n_visible) bool, integer or float array of 0 and 1, where NaN and masked
            entries are unobserved; a stack of images (n, height, width) or (n, 1, height, width);
            a SciPy sparse matrix or array of any format (repeated entries add up); a frame of
            pandas (dense, sparse or nullable), Polars or PyArrow, whose column labels become the
            names; what `read_table` returns; or `Observations`, returned as they are unless an
            argument after ``n_visible`` changes them.
        n_visible : expected number of columns; any number if None.
        missing : boolean mask of the shape of ``X``, dense or SciPy sparse: True where the entry
            is unobserved, whatever its value in ``X``.
        row_ids : (n_rows,) integers; 0 .. n_rows - 1 if None.
        column_names : (n_visible,) distinct names of the columns.
        """
        weights = None
        X = getattr(X, "observations", X)  # of a `Table`
        if isinstance(X, Observations):
            check_width(X.n_visible, n_visible)
            if missing is row_ids is column_names is None:
                return X
            reader, weights = X._reader(), X.weights
            row_ids = X.row_ids if row_ids is None else row_ids
        else:
            reader = reader_for(X)
            check_width(reader.n_visible, n_visible)
        if column_names is not None:
            reader = reader._replace(names=checked_names(column_names, reader.n_visible))
        if missing is not None:
            reader = reader.with_missing(mask_of(missing, reader))
        rows = cls.from_reader(reader, row_ids)
        return rows if weights is None else rows.with_weights(weights)

    @classmethod
    def from_indices(
        cls,
        rows: Iterable[Iterable[int]],
        n_visible: int,
        missing: Iterable[Iterable[int]] | None = None,
        row_ids: npt.ArrayLike | None = None,
        column_names: Sequence[str] | None = None,
    ) -> Observations:
        """Build rows from lists of active columns.

        Parameters
        ----------
        rows : for each row the columns that are 1, in any order, without repetition.
        n_visible : number of columns.
        missing : for each row the columns that are unobserved, whether or not ``rows`` has them.
        row_ids : (n_rows,) integers; 0 .. n_rows - 1 if None.
        column_names : (n_visible,) distinct names of the columns.
        """
        ones = rows_from_lists(rows, n_visible, "row {}")
        reader = reader_for_rows(ones, n_visible)
        reader = reader._replace(names=checked_names(column_names, n_visible))
        if missing is not None:
            mask = rows_from_lists(missing, n_visible, "missing, row {}")
            if mask.n_rows != ones.n_rows:
                raise InvalidDataError(f"missing has {mask.n_rows} rows, expected {ones.n_rows}")
            reader = reader.with_missing(mask)
        return cls.from_reader(reader, row_ids)

    @classmethod
    def from_evidence(
        cls, n_visible: int, present: Iterable[int] = (), absent: Iterable[int] = ()
    ) -> Observations:
        """Build one row with some known columns; all others are unobserved.

        Parameters
        ----------
        n_visible : number of columns.
        present, absent : columns known to be 1, and known to be 0.
        """
        ones = rows_from_lists([present], n_visible, "present")
        zeros = rows_from_lists([absent], n_visible, "absent")
        both = np.intersect1d(ones.columns, zeros.columns)
        if both.size:
            raise InvalidDataError(f"columns {both[:5].tolist()} are both present and absent")
        known = np.concatenate([ones.columns, zeros.columns])
        unknown = np.setdiff1d(np.arange(n_visible), known)
        missing = np.array([0, len(unknown)]), unknown
        return cls(n_visible, *ones, *missing, row_ids=np.zeros(1, dtype=np.int64))

    @classmethod
    def from_reader(
        cls, reader: BlockReader, row_ids: npt.ArrayLike | None = None, hint: Hint | None = None
    ) -> Observations:
        """Read data in any form; ``hint`` says what to do about bad values, see `read`."""
        ones, missing = read(reader, hint or _hint_for_arrays)
        ids = np.arange(reader.n_rows) if row_ids is None else np.asarray(row_ids)
        return cls(reader.n_visible, *ones, *missing, ids, reader.names, reader.shape)

    @classmethod
    def concatenate(
        cls, parts: Sequence[Observations], row_ids: npt.ArrayLike | None = None
    ) -> Observations:
        """Join the rows of several `Observations`, one after another.

        Parameters
        ----------
        parts : at least one; they agree in width, shape and, where they have any, column names.
        row_ids : (total rows,) integers. If None the rows keep their own, so give new ones when
            the parts come from different data sets that were each numbered from 0.
        """
        if not parts:
            raise InvalidDataError("no rows: there is nothing to concatenate")
        first = parts[0]
        names = next((part.column_names for part in parts if part.column_names is not None), None)
        for index, part in enumerate(parts):
            if part.shape != first.shape:
                raise InvalidDataError(
                    f"part {index} has rows of shape {part.shape}, expected {first.shape}"
                )
            if part.column_names not in (None, names):
                raise InvalidDataError(f"part {index} has other column names than those before")
        ones = Rows.joined([part._ones for part in parts])
        missing = Rows.joined([part._missing for part in parts])
        kept = np.concatenate([part.row_ids for part in parts])
        ids = kept if row_ids is None else np.asarray(row_ids)
        weights = None
        if any(part.weights is not None for part in parts):
            weights = np.concatenate([part.row_weights for part in parts])
        return cls(first.n_visible, *ones, *missing, ids, names, first.shape, weights)

    # ---- sizes

    @property
    def n_rows(self) -> int:
        """Number of rows, at least one."""
        return len(self.ptr) - 1

    @property
    def n_active(self) -> int:
        """Number of entries that are 1."""
        return int(self.ptr[-1] - self.ptr[0])

    @property
    def n_missing(self) -> int:
        """Number of unobserved entries."""
        return int(self.missing_ptr[-1] - self.missing_ptr[0])

    @property
    def row_weights(self) -> FloatArray:
        """Weight of each row, (n_rows,); ones if the rows have no weights."""
        return np.ones(self.n_rows) if self.weights is None else self.weights

    @property
    def total_weight(self) -> float:
        """Sum of the weights of the rows."""
        return float(self.n_rows) if self.weights is None else float(self.weights.sum())

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        image = f", shape={self.shape}" if len(self.shape) > 1 else ""
        return (
            f"Observations(n_rows={self.n_rows}, n_visible={self.n_visible}, "
            f"active={self.n_active}, missing={self.n_missing}{image})"
        )

    # ---- selections of rows

    def take(self, rows: slice | npt.ArrayLike) -> Observations:
        """Return some of the rows, in the order given; they keep their ``row_ids``.

        Parameters
        ----------
        rows : slice, boolean mask (n_rows,) or row indices (any length, repetitions allowed,
            negative ones count from the end). A slice with step 1 copies nothing.
        """
        if isinstance(rows, slice) and rows.step in (None, 1):
            start, stop, _ = rows.indices(self.n_rows)
            stop = max(start, stop)
            ones = Rows(self.ptr[start : stop + 1], self.columns)
            missing = Rows(self.missing_ptr[start : stop + 1], self.missing_columns)
            ids = self.row_ids[start:stop]
        else:
            index = _row_indices(rows, self.n_rows)
            ones, missing = self._ones.take(index), self._missing.take(index)
            ids = self.row_ids[index]
        if not len(ids):
            raise InvalidDataError("no rows: the selection is empty")
        for array in (*ones, *missing, ids):
            array.flags.writeable = False
        # Training takes a slice in every step: what was checked once is not checked again.
        weights = self.weights
        if weights is not None:
            weights = weights[rows if isinstance(rows, slice) else index]
            weights.flags.writeable = False
        other = object.__new__(type(self))
        vars(other).update(
            vars(self),
            ptr=ones.ptr,
            columns=ones.columns,
            missing_ptr=missing.ptr,
            missing_columns=missing.columns,
            row_ids=ids,
            weights=weights,
        )
        return other

    def with_weights(self, weights: npt.ArrayLike | None) -> Observations:
        """Return the same rows, each with a weight: the number of rows that it stands for.

        ``weights`` are (n_rows,) numbers of at least 1e-15 with a sum of at most 1e15, or None.

        >>> import noisyor as nor
        >>> rows = nor.Observations.from_indices([[1], [0, 1]], 2).with_weights([3.0, 1.0])
        >>> rows.total_weight
        4.0
        """
        return replace(self, weights=_checked_weights(weights, self.n_rows))

    def unique_rows(self) -> tuple[Observations, LongArray]:
        """Return every distinct row once, with the weights of its repetitions summed.

        Rows are equal if their ones and their unobserved entries are equal. The distinct rows are
        in the order of their first occurrence and keep its id. If no row is repeated, nothing is
        copied.

        Returns
        -------
        The distinct rows, and (n_rows,) the index of each row among them: if ``values`` belong to
        the distinct rows, ``values[inverse]`` belong to all rows.

        >>> import noisyor as nor
        >>> rows = nor.Observations.from_indices([[1], [0, 1], [1]], 2)
        >>> distinct, inverse = rows.unique_rows()
        >>> distinct.n_rows, distinct.weights, inverse
        (2, array([2., 1.]), array([0, 1, 0]))
        """
        index_of: dict[tuple[bytes, bytes], int] = {}
        rows = zip(self._ones.as_bytes(), self._missing.as_bytes(), strict=True)
        inverse = np.array([index_of.setdefault(row, len(index_of)) for row in rows], np.int64)
        if len(index_of) == self.n_rows:
            return self, inverse
        first = np.unique(inverse, return_index=True)[1]
        weights = np.bincount(inverse, self.weights, len(first)).astype(np.float64)
        return self.take(first).with_weights(weights), inverse

    def mean(self, values: npt.ArrayLike) -> float:
        """Return the mean of ``values`` (n_rows,), weighted by the weights of the rows."""
        array = np.asarray(values, dtype=np.float64)
        if self.weights is None:
            return float(array.mean())
        return float(self.weights @ array / self.weights.sum())

    def shuffled(self, seed: int) -> Observations:
        """Return all rows in a random order that depends on the seed only."""
        return self.take(np.random.default_rng(seed).permutation(self.n_rows))

    def split(self, fraction: float, seed: int) -> tuple[Observations, Observations]:
        """Split into two random parts, the first of ``floor(fraction * n_rows)`` rows.

        Parameters
        ----------
        fraction : share of the rows in the first part, strictly between 0 and 1.
        seed : seed of the permutation whose first rows make up the first part.
        """
        exact = fraction * self.n_rows if 0 < fraction < 1 else 0
        n_first = int(exact + 1e-9)  # 0.29 of 100 rows is 29, not 28
        if not 0 < n_first < self.n_rows:
            raise InvalidSettingError(
                f"a share of {fraction:.6g} leaves no row in one part of {self.n_rows} rows"
            )
        order = np.random.default_rng(seed).permutation(self.n_rows)
        return self.take(order[:n_first]), self.take(order[n_first:])

    # ---- other forms

    def to_csr(self) -> Any:
        """Return the ones as ``csr_array``, uint8, (n_rows, n_visible); unobserved is 0."""
        return self._ones.to_csr(self.n_visible)

    def missing_csr(self) -> Any:
        """Return a ``csr_array``, uint8, (n_rows, n_visible), that is 1 where unobserved."""
        return self._missing.to_csr(self.n_visible)

    def to_dense(self) -> npt.NDArray[np.float32]:
        """Return the dense matrix (n_rows, n_visible), NaN where unobserved, for small data."""
        dense = np.zeros(self.n_rows * self.n_visible, dtype=np.float32)
        dense[self._ones.keys(0, self.n_rows, self.n_visible)] = 1
        dense[self._missing.keys(0, self.n_rows, self.n_visible)] = np.nan
        return dense.reshape(self.n_rows, self.n_visible)

    def column_counts(self) -> LongArray:
        """Return the number of rows in which each column is 1, (n_visible,)."""
        counts = np.bincount(self._ones.rebased().columns, minlength=self.n_visible)
        return counts.astype(np.int64, copy=False)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the data: size, ones, unobserved entries and weights in order.

        Names, image shape, ``row_ids`` and the form of the input have no effect.
        """
        digest = hashlib.sha256(f"{self.n_visible} columns, {self.n_rows} rows".encode())
        for part in (self._ones.rebased(), self._missing.rebased()):
            digest.update(part.ptr.astype("<i8", copy=False).data)
            digest.update(part.columns.astype("<i4", copy=False).data)
        if self.weights is not None:
            digest.update(np.ascontiguousarray(self.weights, dtype="<f8").data)
        return digest.hexdigest()

    # ---- private

    def _reader(self) -> BlockReader:
        reader = reader_for_rows(self._ones, self.n_visible).with_missing(self._missing)
        return reader._replace(names=self.column_names, shape=self.shape)

    @property
    def _ones(self) -> Rows:
        return Rows(self.ptr, self.columns)

    @property
    def _missing(self) -> Rows:
        return Rows(self.missing_ptr, self.missing_columns)


# ---- checks


def _row_indices(rows: slice | npt.ArrayLike, n_rows: int) -> LongArray:
    """Return the indices of the rows that a slice, a mask or a list of indices selects."""
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


def _checked_weights(weights: npt.ArrayLike | None, n_rows: int) -> FloatArray | None:
    """Return weights (n_rows,) as a read-only array of positive numbers; None stays None."""
    if weights is None:
        return None
    try:
        array = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UnsupportedDataError(
            f"weights must be {n_rows} positive numbers, got {reprlib.repr(weights)}"
        ) from error
    if array.shape != (n_rows,):
        raise InvalidDataError(f"weights must have shape ({n_rows},), got {array.shape}")
    bad = np.flatnonzero(~((array >= MIN_WEIGHT) & (array <= MAX_TOTAL_WEIGHT)))
    if bad.size:
        raise InvalidDataError(
            f"weights, row {bad[0]}: expected a number from {MIN_WEIGHT:g} to "
            f"{MAX_TOTAL_WEIGHT:g}, got {array[bad[0]]}"
        )
    if array.sum() > MAX_TOTAL_WEIGHT:
        raise InvalidDataError(
            f"the weights add up to {array.sum():g} rows, more than {MAX_TOTAL_WEIGHT:g}: "
            "divide them by a constant"
        )
    array.flags.writeable = False
    return array


def _read_only(value: npt.ArrayLike, dtype: type, name: str) -> AnyArray:
    """Return a list of integers as a read-only array of a type."""
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


def _check_layout(
    ones: Rows, missing: Rows, row_ids: LongArray, n_visible: int, shape: tuple[int, ...]
) -> None:
    """Check that the arrays of rows fit together, and that no entry is both 1 and missing."""
    check_size(ones.n_rows, n_visible)
    for name, size, expected in (
        ("missing_ptr", len(missing.ptr), len(ones.ptr)),
        ("row_ids", len(row_ids), ones.n_rows),
        ("shape", int(np.prod(shape)), n_visible),
    ):
        if size != expected:
            raise InvalidDataError(f"{name} has {size} entries, expected {expected}")
    ones.check(n_visible, "row {}")
    missing.check(n_visible, "missing, row {}")
    n_missing = missing.ptr[-1] - missing.ptr[0]
    for start, stop in row_blocks(ones.ptr + missing.ptr) if n_missing else ():
        keys = ones.keys(start, stop, n_visible)
        both = np.intersect1d(keys, missing.keys(start, stop, n_visible), assume_unique=True)
        if both.size:
            row, column = divmod(int(both[0]), n_visible)
            raise InvalidDataError(f"row {start + row}: column {column} is both 1 and missing")


# ---- reading data in any form


class BlockReader(NamedTuple):
    """Access to data in any form, not validated yet."""

    n_visible: int
    work: LongArray
    """(n_rows + 1,) number of entries to read before each row."""
    block: Callable[[int, int], tuple[LongArray, AnyArray]]
    """Ascending keys (`Rows.keys`) and values of the entries of a range of rows; others are 0."""
    names: tuple[str, ...] | None = None
    shape: tuple[int, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.work) - 1

    def with_missing(self, mask: Rows) -> BlockReader:
        """Return the same data with more entries unobserved, whatever their value."""

        def block(start: int, stop: int) -> tuple[LongArray, AnyArray]:
            keys, values = self.block(start, stop)
            hidden = mask.keys(start, stop, self.n_visible)
            seen = np.isin(keys, hidden, assume_unique=True, invert=True)
            keys = np.concatenate([keys[seen], hidden])
            values = np.r_[values[seen].astype(np.float64), np.full(len(hidden), np.nan)]
            order = np.argsort(keys, kind="stable")
            return keys[order], values[order]

        return self._replace(work=self.work + mask.ptr, block=block)


Hint = Callable[[float, Sequence[str]], str]


def _hint_for_arrays(value: float, columns: Sequence[str]) -> str:
    """Return a hint about a value that is neither 0 nor 1."""
    if value < 0 and float(value).is_integer():
        return f"np.where(X == {value:g}, np.nan, X) says that {value:g} is missing"
    return "X > 0 turns counts into 0 and 1, another threshold other numbers"


def read(reader: BlockReader, hint: Hint = _hint_for_arrays) -> tuple[Rows, Rows]:
    """Return the ones and the unobserved entries; any other value but 0 is an error.

    ``hint`` says what to do, from the first value that is neither 0 nor 1 and the names of all
    columns with such values (none if columns have no names).
    """
    n_visible, ones, missing = reader.n_visible, [], []
    n_bad, message, first_bad = 0, "", 0.0
    bad_columns: dict[int, None] = {}
    for start, stop in row_blocks(reader.work):
        keys, values = reader.block(start, stop)
        one, hidden = values == 1, values != values
        bad = ~one & (values != 0) & ~hidden
        if bad.any() and not n_bad:
            row, column = divmod(int(keys[bad.argmax()]), n_visible)
            where = str(column) if reader.names is None else f"{reader.names[column]!r} ({column})"
            message = (
                f"row {start + row}, column {where}: expected 0, 1 or missing (NaN), "
                f"got {values[bad.argmax()]:.12g}"
            )
            first_bad = float(values[bad.argmax()])
        if bad.any():
            n_bad += int(bad.sum())
            bad_columns.update(dict.fromkeys((keys[bad] % n_visible).tolist()))
        ones.append(Rows.from_keys(keys[one], stop - start, n_visible))
        missing.append(Rows.from_keys(keys[hidden], stop - start, n_visible))
    if n_bad:
        many = f"{n_bad} bad value{'s' * (n_bad > 1)} in all"
        if len(bad_columns) > 1:
            many += f", in {len(bad_columns)} columns"
        names = [] if reader.names is None else [reader.names[k] for k in bad_columns]
        raise InvalidDataError(f"{message} ({many}); {hint(first_bad, names)}")
    return Rows.joined(ones), Rows.joined(missing)


# ---- readers


def reader_for(X: Any) -> BlockReader:
    """Return a reader of a NumPy array, SciPy matrix, frame, or anything with an array."""
    if isinstance(X, np.ndarray):
        return _dense(X)
    import narwhals.dependencies
    from scipy import sparse

    if sparse.issparse(X):
        return _sparse(X)
    if all(hasattr(X, name) for name in ("columns", "dtypes", "iloc", "to_numpy")):
        return _frame(X)
    if isinstance(X, list | tuple):
        if X and all(isinstance(text, str) for text in X):
            raise UnsupportedDataError(
                "X holds texts; nor.data.vectorize(X) makes 0/1 columns of documents, "
                "nor.explanation.named_evidence(model, X) a row of findings"
            )
        raise UnsupportedDataError(
            f"a {type(X).__name__} may hold values or column indices: give np.asarray(X) for a "
            "matrix of 0 and 1, or use Observations.from_indices for lists of active columns"
        )
    if isinstance(X, str | os.PathLike):
        raise UnsupportedDataError(f"X is a path; nor.read_table({os.fspath(X)!r}) reads a file")
    if narwhals.dependencies.is_into_dataframe(X):
        return _other_frame(X)
    if hasattr(X, "__array__"):
        return _dense(np.asarray(X))
    raise UnsupportedDataError(
        f"cannot read binary data from {type(X).__name__}: expected a NumPy array, a SciPy sparse "
        "matrix, a frame or Observations"
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


def _other_frame(X: Any) -> BlockReader:
    """Return a reader of a frame of another library than pandas, such as Polars or PyArrow."""
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True)
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise UnsupportedDataError(
                f"column {name!r} has type {dtype}, expected bool, integer or float"
            )
    numbers = frame.with_columns(nw.all().cast(nw.Float64)).to_numpy()  # null becomes NaN
    return _dense(numbers)._replace(names=checked_names(frame.columns, len(frame.columns)))


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
    """Check that the data have the expected number of columns; None accepts any number."""
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
