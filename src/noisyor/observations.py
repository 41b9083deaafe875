"""Binary data in every accepted form, validated once and kept sparse.

Only the ones and the unobserved entries are stored, row by row. Dense input is read in blocks of
rows, sparse input through its stored entries: the temporary memory does not grow with the size of
the matrix.
"""

from __future__ import annotations

import copy
import hashlib
import operator
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor.errors import InvalidDataError, InvalidSettingError

IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]

_BLOCK = 1 << 20
"""Number of entries that are looked at together."""


class UnsupportedDataError(InvalidDataError, TypeError):
    """The data come in a container, or with a dtype, that cannot hold binary observations."""


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
    """

    n_visible: int
    ptr: LongArray
    columns: IntArray
    missing_ptr: LongArray
    missing_columns: IntArray
    row_ids: LongArray
    column_names: tuple[str, ...] | None = None
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "n_visible", operator.index(self.n_visible))
        for name in ("ptr", "missing_ptr", "row_ids"):
            put(self, name, _frozen(getattr(self, name), np.int64, name))
        for name in ("columns", "missing_columns"):
            put(self, name, _frozen(getattr(self, name), np.int32, name))
        put(self, "shape", tuple(int(size) for size in self.shape) or (self.n_visible,))
        put(self, "column_names", _names(self.column_names, self.n_visible))
        _check_layout(self)

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
            a SciPy sparse matrix or array of any format (repeated entries add up); a pandas frame,
            dense, sparse or nullable, whose column labels become the names; or `Observations`,
            returned as they are unless an argument after ``n_visible`` changes them.
        n_visible : expected number of columns; any number if None.
        missing : boolean mask of the shape of ``X``, dense or SciPy sparse: True where the entry
            is unobserved, whatever its value in ``X``.
        row_ids : (n_rows,) integers; 0 .. n_rows - 1 if None.
        column_names : (n_visible,) distinct names of the columns.
        """
        if isinstance(X, Observations) and missing is row_ids is column_names is None:
            _check_width(X.n_visible, n_visible)
            return X
        source = _source(X)
        _check_width(source.n_visible, n_visible)
        if column_names is not None:
            source = source._replace(names=_names(column_names, source.n_visible))
        if missing is not None:
            source = source._replace(masks=(*source.masks, _mask(missing, source)))
        return _read(source, row_ids)

    @classmethod
    def from_indices(
        cls,
        rows: Iterable[Iterable[int]],
        n_visible: int,
        missing: Iterable[Iterable[int]] | None = None,
        row_ids: npt.ArrayLike | None = None,
        column_names: Sequence[str] | None = None,
    ) -> Observations:
        """Read lists of active columns.

        Parameters
        ----------
        rows : for each row the columns that are 1, in any order, without repetition.
        n_visible : number of columns.
        missing : for each row the columns that are unobserved, whether or not ``rows`` has them.
        row_ids : (n_rows,) integers; 0 .. n_rows - 1 if None.
        column_names : (n_visible,) distinct names of the columns.
        """
        ones = _from_lists(rows, n_visible, "row {}")
        source = _stored(ones, np.ones(len(ones.columns), dtype=np.bool_), n_visible)
        source = source._replace(names=_names(column_names, n_visible))
        if missing is not None:
            mask = _from_lists(missing, n_visible, "missing, row {}")
            if mask.n_rows != ones.n_rows:
                raise InvalidDataError(f"missing has {mask.n_rows} rows, expected {ones.n_rows}")
            source = source._replace(masks=(mask,))
        return _read(source, row_ids)

    @classmethod
    def from_evidence(
        cls, n_visible: int, present: Iterable[int] = (), absent: Iterable[int] = ()
    ) -> Observations:
        """One row of which only some columns are known; all others are unobserved.

        Parameters
        ----------
        n_visible : number of columns.
        present, absent : columns known to be 1, and known to be 0.
        """
        ones = _from_lists([present], n_visible, "present")
        zeros = _from_lists([absent], n_visible, "absent")
        both = np.intersect1d(ones.columns, zeros.columns)
        if both.size:
            raise InvalidDataError(f"columns {both[:5].tolist()} are both present and absent")
        known = np.concatenate([ones.columns, zeros.columns])
        unknown = np.setdiff1d(np.arange(n_visible), known)
        missing = _Rows(_pointers([len(unknown)]), unknown.astype(np.int32))
        return cls(n_visible, *ones, *missing, row_ids=np.zeros(1, dtype=np.int64))

    @classmethod
    def concatenate(
        cls, parts: Sequence[Observations], row_ids: npt.ArrayLike | None = None
    ) -> Observations:
        """Rows of several `Observations` one after another.

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
        for number, part in enumerate(parts):
            if part.shape != first.shape:
                raise InvalidDataError(
                    f"part {number} has rows of shape {part.shape}, expected {first.shape}"
                )
            if part.column_names not in (None, names):
                raise InvalidDataError(f"part {number} has other column names than those before")
        ones = _Rows.joined([part._ones for part in parts])
        missing = _Rows.joined([part._missing for part in parts])
        kept = np.concatenate([part.row_ids for part in parts])
        ids = kept if row_ids is None else np.asarray(row_ids)
        return cls(first.n_visible, *ones, *missing, ids, names, first.shape)

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
        """Some of the rows, in the order given; they keep their ``row_ids``.

        Parameters
        ----------
        rows : slice, boolean mask (n_rows,) or row numbers (any length, repetitions allowed,
            negative ones count from the end). A slice with step 1 copies nothing.
        """
        if isinstance(rows, slice) and rows.step in (None, 1):
            start, stop, _ = rows.indices(self.n_rows)
            bounds = slice(start, stop + 1)
            ones = _Rows(self.ptr[bounds], self.columns)
            missing = _Rows(self.missing_ptr[bounds], self.missing_columns)
            ids = self.row_ids[start:stop]
        else:
            index = _row_numbers(rows, self.n_rows)
            ones, missing = self._ones.take(index), self._missing.take(index)
            ids = self.row_ids[index]
        if not ids.size:
            raise InvalidDataError("no rows: the selection is empty")
        other = copy.copy(self)  # what was checked once is not checked again
        fields = ("ptr", "columns", "missing_ptr", "missing_columns", "row_ids")
        layout: list[AnyArray] = [*ones, *missing, ids]
        for name, array in zip(fields, layout, strict=True):
            array.flags.writeable = False
            object.__setattr__(other, name, array)
        return other

    def shuffled(self, seed: int) -> Observations:
        """All rows in a random order that depends on the seed only."""
        return self.take(np.random.default_rng(seed).permutation(self.n_rows))

    def split(self, fraction: float, seed: int) -> tuple[Observations, Observations]:
        """Two random parts: ``floor(fraction * n_rows)`` rows, for training, and the others.

        Parameters
        ----------
        fraction : share of the rows in the first part, strictly between 0 and 1.
        seed : of the permutation whose first rows make up the first part.
        """
        exact = fraction * self.n_rows if 0 < fraction < 1 else 0
        n_first = int(exact + 1e-9)  # 0.29 of 100 rows is 29, not 28
        if not 0 < n_first < self.n_rows:
            raise InvalidSettingError(
                f"a fraction of {fraction!r} leaves no row in one part of {self.n_rows} rows"
            )
        order = np.random.default_rng(seed).permutation(self.n_rows)
        return self.take(order[:n_first]), self.take(order[n_first:])

    # ---- other forms

    def to_csr(self) -> Any:
        """The ones as SciPy ``csr_array``, uint8, (n_rows, n_visible); unobserved entries are 0."""
        return self._ones.to_csr(self.n_visible)

    def missing_csr(self) -> Any:
        """A SciPy ``csr_array``, uint8, (n_rows, n_visible), that is 1 where unobserved."""
        return self._missing.to_csr(self.n_visible)

    def to_dense(self) -> npt.NDArray[np.float32]:
        """The whole matrix (n_rows, n_visible), NaN where unobserved; meant for small data."""
        dense = np.zeros(self.n_rows * self.n_visible, dtype=np.float32)
        dense[self._ones.keys(0, self.n_rows, self.n_visible)] = 1
        dense[self._missing.keys(0, self.n_rows, self.n_visible)] = np.nan
        return dense.reshape(self.n_rows, self.n_visible)

    def column_counts(self) -> LongArray:
        """Number of rows in which each column is 1, shape (n_visible,)."""
        counts = np.bincount(self._ones.rebased().columns, minlength=self.n_visible)
        return counts.astype(np.int64, copy=False)

    def fingerprint(self) -> str:
        """SHA-256 of the data: number of columns, ones and unobserved entries of the rows in order.

        Names, image shape and ``row_ids`` do not enter, nor does the form the data came in.
        """
        digest = hashlib.sha256(f"{self.n_visible} columns, {self.n_rows} rows".encode())
        for part in (self._ones.rebased(), self._missing.rebased()):
            digest.update(part.ptr.astype("<i8", copy=False).data)
            digest.update(part.columns.astype("<i4", copy=False).data)
        return digest.hexdigest()

    @property
    def _ones(self) -> _Rows:
        return _Rows(self.ptr, self.columns)

    @property
    def _missing(self) -> _Rows:
        return _Rows(self.missing_ptr, self.missing_columns)


# ---- ragged rows


class _Rows(NamedTuple):
    """Some columns of each row: those of row ``r`` are ``columns[ptr[r]:ptr[r + 1]]``."""

    ptr: LongArray
    columns: AnyArray

    @property
    def n_rows(self) -> int:
        return len(self.ptr) - 1

    @staticmethod
    def from_keys(keys: LongArray, n_rows: int, n_visible: int) -> _Rows:
        """The inverse of `keys`; they must be ascending and distinct."""
        ptr = np.searchsorted(keys, np.arange(n_rows + 1, dtype=np.int64) * n_visible)
        return _Rows(ptr.astype(np.int64, copy=False), (keys % n_visible).astype(np.int32))

    @staticmethod
    def joined(parts: Sequence[_Rows]) -> _Rows:
        """One part after another, in new arrays that are read-only and so need no copy to keep."""
        ptr = _pointers(np.concatenate([np.diff(part.ptr) for part in parts]))
        columns = np.concatenate([part.rebased().columns for part in parts])
        ptr.flags.writeable = columns.flags.writeable = False
        return _Rows(ptr, columns)

    def keys(self, start: int, stop: int, n_visible: int) -> LongArray:
        """``(row - start) * n_visible + column`` of the entries of rows start to stop."""
        ptr = self.ptr[start : stop + 1]
        first = np.arange(stop - start, dtype=np.int64) * n_visible
        return np.repeat(first, np.diff(ptr)) + self.columns[ptr[0] : ptr[-1]]

    def rebased(self) -> _Rows:
        """The same rows with pointers from 0 and no columns but their own."""
        return _Rows(self.ptr - self.ptr[0], self.columns[self.ptr[0] : self.ptr[-1]])

    def take(self, index: LongArray) -> _Rows:
        lengths = np.diff(self.ptr)[index]
        ptr = _pointers(lengths)
        shift = self.ptr[:-1][index] - ptr[:-1]
        return _Rows(ptr, self.columns[np.repeat(shift, lengths) + np.arange(ptr[-1])])

    def to_csr(self, n_visible: int) -> Any:
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


def _pointers(lengths: npt.ArrayLike) -> LongArray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def _row_blocks(ptr: LongArray) -> Iterator[tuple[int, int]]:
    """Ranges of rows with at most ``_BLOCK`` entries, or of one row."""
    start = 0
    while start < len(ptr) - 1:
        stop = int(np.searchsorted(ptr, ptr[start] + _BLOCK, side="right")) - 1
        stop = max(stop, start + 1)
        yield start, stop
        start = stop


def _contains(ascending: LongArray, keys: LongArray) -> BoolArray:
    """Which of the keys occur in an ascending array."""
    if not ascending.size:
        return np.zeros(len(keys), dtype=np.bool_)
    place = np.searchsorted(ascending, keys)
    found: BoolArray = ascending[np.minimum(place, len(ascending) - 1)] == keys
    return found


def _row_numbers(rows: slice | npt.ArrayLike, n_rows: int) -> LongArray:
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


# ---- reading


class _Source(NamedTuple):
    """Data in whatever form they came, not validated yet."""

    n_visible: int
    work: LongArray
    """(n_rows + 1,) number of entries to look at before each row."""
    block: Callable[[int, int], tuple[LongArray, AnyArray]]
    """Ascending keys (`_Rows.keys`) and values of the entries of a range of rows; others are 0."""
    masks: tuple[_Rows, ...] = ()
    names: tuple[str, ...] | None = None
    shape: tuple[int, ...] = ()
    row_ids: LongArray | None = None

    @property
    def n_rows(self) -> int:
        return len(self.work) - 1


def _read(source: _Source, row_ids: npt.ArrayLike | None) -> Observations:
    """Sort the entries into ones and unobserved; anything else but 0 is an error."""
    n_visible, ones, missing = source.n_visible, [], []
    n_bad, message = 0, ""
    work = source.work + sum((mask.ptr for mask in source.masks), np.zeros(1, np.int64))
    for start, stop in _row_blocks(work):
        keys, values = source.block(start, stop)
        hidden = keys[np.isnan(values)] if values.dtype.kind == "f" else keys[:0]
        for mask in source.masks:
            more = mask.keys(start, stop, n_visible)
            more = more[~_contains(hidden, more)]
            hidden = np.sort(np.concatenate([hidden, more]), kind="stable")
        if hidden.size:
            seen = ~_contains(hidden, keys)
            keys, values = keys[seen], values[seen]
        one = values == 1
        bad = ~one & (values != 0)
        if bad.any() and not n_bad:
            row, column = divmod(int(keys[bad.argmax()]), n_visible)
            where = str(column) if source.names is None else f"{source.names[column]!r} ({column})"
            message = (
                f"row {start + row}, column {where}: expected 0, 1 or missing (NaN), "
                f"got {values[bad.argmax()]:.12g}"
            )
        n_bad += int(bad.sum())
        ones.append(_Rows.from_keys(keys[one], stop - start, n_visible))
        missing.append(_Rows.from_keys(hidden, stop - start, n_visible))
    if n_bad:
        raise InvalidDataError(f"{message} ({n_bad} bad value{'s' * (n_bad > 1)} in all)")
    ids = source.row_ids if row_ids is None else np.asarray(row_ids)
    ids = np.arange(source.n_rows) if ids is None else ids
    layout = (*_Rows.joined(ones), *_Rows.joined(missing))
    return Observations(n_visible, *layout, ids, source.names, source.shape)


def _source(X: Any) -> _Source:
    if isinstance(X, Observations):
        ones = _stored(X._ones, np.ones(len(X.columns), dtype=np.bool_), X.n_visible)
        return ones._replace(
            masks=(X._missing,), names=X.column_names, shape=X.shape, row_ids=X.row_ids
        )
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
        return _dense(np.asarray(X))
    raise UnsupportedDataError(
        f"cannot read binary data from {type(X).__name__}: expected a NumPy array, a SciPy sparse "
        "matrix, a pandas frame or Observations"
    )


def _dense(X: AnyArray) -> _Source:
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
    _check_size(shape[0], n_visible)

    def block(start: int, stop: int) -> tuple[LongArray, AnyArray]:
        flat = array[start:stop].reshape(-1)
        keys = np.flatnonzero(flat != 0)
        return keys, flat[keys]

    work = np.arange(shape[0] + 1, dtype=np.int64) * n_visible
    source = _Source(n_visible, work, block, shape=shape[-2:] if image else shape[1:])
    if np.ma.is_masked(X):
        source = source._replace(masks=(_true_entries(_dense(np.ma.getmaskarray(X))),))
    return source


def _sparse(X: Any) -> _Source:
    from scipy import sparse

    _check_kind(X.dtype, "the sparse matrix")
    if X.ndim != 2:
        raise InvalidDataError(
            f"expected a matrix, got shape {X.shape}: X.reshape(1, -1) makes a vector one row"
        )
    _check_size(*X.shape)
    try:
        given = X.tocsr()
        # An object of our own: its flags are computed afresh, and the caller's is left as it is.
        csr = sparse.csr_array((given.data, given.indices, given.indptr), shape=X.shape)
        csr.check_format(full_check=True)
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
    except ValueError as error:
        raise InvalidDataError(f"the sparse matrix is not well formed: {error}") from error
    rows = _Rows(csr.indptr.astype(np.int64), csr.indices)
    return _stored(rows, csr.data, X.shape[1])


def _stored(rows: _Rows, values: AnyArray, n_visible: int) -> _Source:
    def block(start: int, stop: int) -> tuple[LongArray, AnyArray]:
        return rows.keys(start, stop, n_visible), values[rows.ptr[start] : rows.ptr[stop]]

    return _Source(n_visible, rows.ptr, block)


def _frame(X: Any) -> _Source:
    labels, dtypes = list(X.columns), list(X.dtypes)
    names = None if labels == list(range(len(labels))) else tuple(str(label) for label in labels)
    for column, (label, dtype) in enumerate(zip(labels, dtypes, strict=True)):
        _check_kind(dtype, f"column {label!r} ({column})")
    _check_size(*X.shape)
    names = _names(names, len(labels))
    if len(set(dtypes)) == 1 and getattr(dtypes[0], "fill_value", None) == 0:
        return _sparse(X.sparse.to_coo())._replace(names=names)
    plain = len(set(dtypes)) == 1 and isinstance(dtypes[0], np.dtype)
    options: dict[str, Any] = {} if plain else {"dtype": np.float64, "na_value": np.nan}

    def block(start: int, stop: int) -> tuple[LongArray, AnyArray]:
        return _dense(X.iloc[start:stop].to_numpy(**options)).block(0, stop - start)

    work = np.arange(len(X) + 1, dtype=np.int64) * len(labels)
    return _Source(len(labels), work, block, names=names)


def _from_lists(lists: Iterable[Iterable[int]], n_visible: int, what: str) -> _Rows:
    """Lists of columns, each sorted and checked; ``what`` names row ``{}`` in errors."""
    arrays = []
    for number, row in enumerate(lists):
        try:
            array = row if isinstance(row, np.ndarray) else np.asarray(list(row))
        except (TypeError, ValueError):
            array = np.asarray(row, dtype=np.object_)
        if array.size and (array.ndim != 1 or array.dtype.kind not in "iu"):
            raise UnsupportedDataError(
                f"{what.format(number)}: expected a list of column indices (integers), "
                f"got {reprlib.repr(row)}"
            )
        arrays.append(np.sort(array.reshape(-1).astype(np.int64)))
    _check_size(len(arrays), n_visible)
    ptr, columns = _pointers([len(array) for array in arrays]), np.concatenate(arrays)
    _Rows(ptr, columns).check(n_visible, what)
    return _Rows(ptr, columns.astype(np.int32))


def _mask(missing: Any, source: _Source) -> _Rows:
    n_rows, n_visible = source.n_rows, source.n_visible
    array = missing if hasattr(missing, "tocsr") else np.asarray(missing)
    if array.dtype != np.bool_:
        raise UnsupportedDataError(f"missing must be a boolean mask, got dtype {array.dtype}")
    shapes = {(n_rows, n_visible), (n_rows, *source.shape), (n_rows, 1, *source.shape)}
    if array.shape not in shapes:
        raise InvalidDataError(
            f"missing has shape {array.shape}, the data have {n_rows} rows of {n_visible} columns"
        )
    return _true_entries(_source(array))


def _true_entries(source: _Source) -> _Rows:
    parts = []
    for start, stop in _row_blocks(source.work):
        keys, values = source.block(start, stop)
        parts.append(_Rows.from_keys(keys[values], stop - start, source.n_visible))
    return _Rows.joined(parts)


# ---- checks


def _frozen(value: npt.ArrayLike, dtype: type, name: str) -> AnyArray:
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


def _names(names: Sequence[str] | None, n_visible: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    result = tuple(str(name) for name in names)
    if len(result) != n_visible:
        raise InvalidDataError(f"column_names has {len(result)} entries, expected {n_visible}")
    twice = [name for name, count in Counter(result).items() if count > 1]
    if twice:
        raise InvalidDataError(f"column names must be distinct, {twice[0]!r} occurs twice")
    return result


def _check_layout(data: Observations) -> None:
    _check_size(data.n_rows, data.n_visible)
    for name, came, wanted in (
        ("missing_ptr", len(data.missing_ptr), len(data.ptr)),
        ("row_ids", len(data.row_ids), data.n_rows),
        ("shape", int(np.prod(data.shape)), data.n_visible),
    ):
        if came != wanted:
            raise InvalidDataError(f"{name} has {came} entries, expected {wanted}")
    ones, missing = data._ones, data._missing
    ones.check(data.n_visible, "row {}")
    missing.check(data.n_visible, "missing, row {}")
    for start, stop in _row_blocks(ones.ptr + missing.ptr) if data.n_missing else ():
        keys = ones.keys(start, stop, data.n_visible)
        both = keys[_contains(missing.keys(start, stop, data.n_visible), keys)]
        if both.size:
            row, column = divmod(int(both[0]), data.n_visible)
            raise InvalidDataError(f"row {start + row}: column {column} is both 1 and missing")


def _check_size(n_rows: int, n_visible: int) -> None:
    if n_rows < 1:
        raise InvalidDataError("no rows: at least one observation is needed")
    if not 1 <= n_visible <= np.iinfo(np.int32).max:
        raise InvalidDataError(f"the number of columns must lie in 1..2147483647, got {n_visible}")


def _check_width(came: int, wanted: int | None) -> None:
    if wanted is not None and came != wanted:
        raise InvalidDataError(f"the data have {came} columns, expected {wanted} (n_visible)")


def _check_kind(dtype: Any, what: str) -> None:
    if dtype.kind not in "biuf":
        raise UnsupportedDataError(
            f"{what} has dtype {dtype}, expected bool, integer or float; if it holds 0, 1 and "
            "missing values, convert it with .astype(float)"
        )
