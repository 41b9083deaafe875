"""Rows of files larger than memory, read chunk by chunk in any order.

`open_rows` opens a folder of memory-mapped sparse rows (which `write_rows` makes) or
Parquet files; it returns a `RowSource`.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from noisyor._util.arrays import AnyArray, LongArray, Rows, csr_of
from noisyor._util.files import located, reading
from noisyor._util.validation import check_count
from noisyor.data.observations import Observations, check_size, checked_names
from noisyor.errors import InvalidDataError, InvalidSettingError, MissingExtraError

PathLike = str | os.PathLike[str]

_NAMES = "columns.json"


class RowSource(ABC):
    """Chunks of rows that can be read in any order and whose sizes are known in advance.

    Attributes
    ----------
    n_visible : number of columns.
    sizes : number of rows of each chunk.
    column_names : names of the columns, or None.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> class Halves(nor.data.RowSource):
    ...     n_visible, sizes = 2, (3, 3)
    ...
    ...     def read(self, index):
    ...         return np.full((3, 2), index)
    >>> source = Halves()
    >>> source.n_rows, len(source), source.read(1).shape
    (6, 2, (3, 2))
    """

    n_visible: int
    sizes: tuple[int, ...]
    column_names: tuple[str, ...] | None = None

    @abstractmethod
    def read(self, index: int) -> Any:
        """Return one chunk, in any form that `Observations.of` takes."""

    @property
    def n_rows(self) -> int:
        """Number of rows of all chunks."""
        return sum(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[Any]:
        return (self.read(index) for index in range(len(self)))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_rows={self.n_rows}, n_visible={self.n_visible}, "
            f"chunks={len(self)})"
        )


def open_rows(path: PathLike, chunk_rows: int = 10_000) -> RowSource:
    """Open the rows of a file or folder that need not fit into memory.

    Parameters
    ----------
    path : one of

        * a folder with ``indptr.npy``, ``indices.npy`` and ``shape.npy``, the arrays of a CSR
          matrix of ones (`write_rows` makes it, or ``np.save`` of a SciPy matrix): mapped into
          memory. There may be ``missing_indptr.npy`` and ``missing_indices.npy`` with the
          unobserved entries, and ``columns.json`` with the names;
        * a ``.parquet`` file, or a folder of them, with a column for each visible: every row group
          is a chunk, nulls are unobserved. Needs pyarrow.
    chunk_rows : rows of a chunk of a mapped folder; other files have chunks of their own.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> nor.data.write_rows("rows", [np.eye(4), np.ones((2, 4))])
    6
    >>> source = nor.data.open_rows("rows", chunk_rows=5)
    >>> source.sizes, source.read(1).n_rows
    ((5, 1), 1)
    """
    check_count("chunk_rows", chunk_rows)
    target = Path(path)
    if not target.exists():
        raise InvalidDataError(f"there is no file or folder {target}")
    if (target / "indptr.npy").exists():
        return _MappedRows(target, chunk_rows)
    files = sorted(target.iterdir()) if target.is_dir() else [target]
    parquet = [file for file in files if file.suffix == ".parquet"]
    if parquet:
        return _ParquetRows(parquet)
    raise InvalidDataError(
        f"{target} is no folder of mapped rows (indptr.npy, indices.npy, shape.npy), and is or "
        "holds no .parquet file; write_rows makes a folder that can be opened"
    )


def write_rows(folder: PathLike, chunks: Iterable[Any]) -> int:
    """Write rows as a folder that `open_rows` maps into memory, and return their number.

    Parameters
    ----------
    folder : is created; it must not exist, or be empty.
    chunks : chunks of rows in any form that `Observations.of` takes, of equal width. One is in
        memory at a time.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> nor.data.write_rows("rows", (np.eye(3) for _ in range(2)))
    6
    >>> nor.data.open_rows("rows").n_visible
    3
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise InvalidSettingError(f"the folder {target} is not empty")
        return _write(target, chunks)
    except OSError as error:
        raise InvalidDataError(f"cannot write rows to {target}: {error.strerror}") from error


def _write(target: Path, chunks: Iterable[Any]) -> int:
    files = {
        name: _GrowingArray(target / f"{name}.npy", dtype)
        for name, dtype in (
            ("indptr", "<i8"),
            ("indices", "<i4"),
            ("missing_indptr", "<i8"),
            ("missing_indices", "<i4"),
        )
    }
    n_visible, n_rows, names = None, 0, None
    ends = {"": 0, "missing_": 0}
    try:
        for prefix in ends:
            files[f"{prefix}indptr"].append(np.zeros(1, dtype=np.int64))
        for chunk in chunks:
            rows = Observations.of(chunk, n_visible)
            n_visible, names = rows.n_visible, names or rows.column_names
            for prefix, csr in (("", rows.to_csr()), ("missing_", rows.missing_csr())):
                files[f"{prefix}indices"].append(csr.indices)
                files[f"{prefix}indptr"].append(csr.indptr[1:].astype(np.int64) + ends[prefix])
                ends[prefix] += csr.nnz
            n_rows += rows.n_rows
    finally:
        for file in files.values():
            file.close()
    if n_visible is None:
        raise InvalidDataError("no rows: the data have no chunk")
    if names is not None:
        (target / _NAMES).write_text(json.dumps(names))
    # Written last: a folder without it is incomplete and is refused.
    np.save(target / "shape.npy", np.array([n_rows, n_visible], dtype=np.int64))
    return n_rows


class _GrowingArray:
    """A ``.npy`` file of one axis whose length is known when it is closed."""

    def __init__(self, path: Path, dtype: str) -> None:
        self.dtype, self.length = np.dtype(dtype), 0
        self.stream: BinaryIO = open(path, "wb")  # noqa: SIM115  closed by close()
        self._header()
        self.begin = self.stream.tell()

    def append(self, values: AnyArray) -> None:
        self.stream.write(np.ascontiguousarray(values, dtype=self.dtype).tobytes())
        self.length += len(values)

    def close(self) -> None:
        self.stream.seek(0)
        self._header()  # NumPy leaves room for the digits of a length that grows
        assert self.stream.tell() == self.begin
        self.stream.close()

    def _header(self) -> None:
        np.lib.format.write_array_header_1_0(
            self.stream,
            {"descr": self.dtype.str, "fortran_order": False, "shape": (self.length,)},
        )


class _MappedRows(RowSource):
    """CSR arrays in a folder, mapped again for each chunk.

    Pages that were read count as memory of the process as long as a file is mapped, and a cluster
    stops a worker whose memory reaches its limit.
    """

    def __init__(self, folder: Path, chunk_rows: int) -> None:
        self.folder = folder.absolute()  # other processes may run in another folder
        shape = self._array("shape")
        if shape.shape != (2,):
            raise InvalidDataError(
                f"{folder}: shape.npy does not hold the number of rows and of columns"
            )
        n_rows, self.n_visible = (int(size) for size in shape)
        check_size(n_rows, self.n_visible)
        if (folder / "data.npy").exists():
            raise InvalidDataError(
                f"{folder}: values in data.npy are not read; remove the file if all of them are 1"
            )
        self.begins = range(0, n_rows, chunk_rows)
        self.sizes = tuple(min(chunk_rows, n_rows - begin) for begin in self.begins)
        self.column_names = _stored_names(folder / _NAMES, self.n_visible)
        self.has_missing = any(folder.glob("missing_ind*.npy"))
        for prefix in ("", "missing_") if self.has_missing else ("",):
            self._rows(prefix)

    def read(self, index: int) -> Observations:
        begin, size = self.begins[index], self.sizes[index]
        where = f"{self.folder}, rows {begin} to {begin + size}"
        ones = self._csr("", begin, size, where)
        missing = None
        if self.has_missing:
            missing = self._csr("missing_", begin, size, where).astype(np.bool_)
        return _observations(ones, where, self.column_names, missing)

    def _csr(self, prefix: str, begin: int, size: int, where: str) -> Any:
        from scipy import sparse

        rows = self._rows(prefix)
        ptr = np.array(rows.ptr[begin : begin + size + 1])
        if not 0 <= int(ptr[0]) <= int(ptr[-1]) <= len(rows.columns):
            raise InvalidDataError(
                f"{where}: damaged or incomplete (entries {ptr[0]} to {ptr[-1]} of "
                f"{len(rows.columns):,})"
            )
        columns = np.array(rows.columns[ptr[0] : ptr[-1]])
        parts = (np.ones(len(columns), np.uint8), columns, ptr - ptr[0])
        try:
            return csr_of(sparse.csr_array(parts, shape=(size, self.n_visible)))
        except ValueError as error:
            raise InvalidDataError(f"{where}: damaged or incomplete ({error})") from error

    def _rows(self, prefix: str) -> Rows:
        """Map the arrays of the ones or of the unobserved entries; no entry is checked yet."""
        ptr, columns = self._array(f"{prefix}indptr"), self._array(f"{prefix}indices")
        if len(ptr) != self.n_rows + 1:
            raise InvalidDataError(
                f"{prefix}indptr.npy in {self.folder} has {len(ptr)} entries, expected "
                f"{self.n_rows + 1}"
            )
        return Rows(ptr, columns)

    def _array(self, name: str) -> AnyArray:
        path = self.folder / f"{name}.npy"
        if not path.exists():
            raise InvalidDataError(f"{self.folder} was not written completely: no {path.name}")
        with reading(path, Exception):
            array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise InvalidDataError(
                f"{path}: expected one axis of integers, got {array.dtype} of shape {array.shape}"
            )
        return array


def _stored_names(path: Path, n_visible: int) -> tuple[str, ...] | None:
    if not path.exists():
        return None
    with reading(path, ValueError, RecursionError, fault="not a list of names"):
        names = json.loads(path.read_bytes())
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InvalidDataError(f"{path}: not a list of names")
        return checked_names(names, n_visible)


class _ParquetRows(RowSource):
    """Row groups of Parquet files; a column for each visible."""

    def __init__(self, files: list[Path]) -> None:
        self.groups: list[tuple[Path, Any, int]] = []
        sizes = []
        for file in files:
            opened = open_parquet(file)
            names = tuple(opened.schema_arrow.names)
            if self.column_names not in (None, names):
                raise InvalidDataError(f"{file} has other columns than {files[0]}")
            self.column_names, self.n_visible = checked_names(names, len(names)), len(names)
            check_numeric(opened.schema_arrow, range(len(names)), names, file)
            for group in range(opened.num_row_groups):
                self.groups.append((file, opened, group))
                sizes.append(opened.metadata.row_group(group).num_rows)
        self.files, self.sizes = files, tuple(sizes)

    def __reduce__(self) -> Any:  # another process opens the files itself
        return type(self), ([file.absolute() for file in self.files],)

    def read(self, index: int) -> Observations:
        path, file, group = self.groups[index]
        with reading_parquet(path):
            block = sparse_block(file.read_row_group(group), range(self.n_visible))
        return _observations(block, f"{path}, row group {group}", self.column_names)


class BlockOrder:
    """An order of rows 0 .. n_rows - 1: whole blocks shuffled, a shorter block stays at the end.

    Parameters
    ----------
    n_rows : number of rows.
    block_rows : rows of a block; they stay together, in their order.
    seed : seed of the permutation; None leaves the rows as they are.
    """

    def __init__(self, n_rows: int, block_rows: int, seed: int | None) -> None:
        self.n_rows, self.block_rows, self.seed = n_rows, block_rows, seed

    @cached_property
    def _blocks(self) -> LongArray:
        whole = self.n_rows // self.block_rows
        return np.append(np.random.default_rng(self.seed).permutation(whole), whole)

    def pieces(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return runs of rows, first and one past the last, at positions ``begin`` to ``end``."""
        if self.seed is None:
            return [(begin, end)]
        found: list[tuple[int, int]] = []
        while begin < end:
            block, within = divmod(begin, self.block_rows)
            size = min(self.block_rows - within, end - begin)
            first = int(self._blocks[block]) * self.block_rows + within
            if found and found[-1][1] == first:
                found[-1] = (found[-1][0], first + size)
            else:
                found.append((first, first + size))
            begin += size
        return found

    def indices(self) -> LongArray:
        """Return the row at every position, (n_rows,)."""
        return np.concatenate([np.arange(*piece) for piece in self.pieces(0, self.n_rows)])


def open_parquet(path: Path) -> Any:
    """Return the open ``pyarrow.parquet.ParquetFile``."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError.of(f"{path}: Parquet files need pyarrow", "parquet") from None
    with reading_parquet(path):
        return pyarrow.parquet.ParquetFile(path, memory_map=True)


def reading_parquet(path: Path) -> AbstractContextManager[None]:
    """Return a context that converts exceptions from a damaged file to one error that names it."""
    import pyarrow

    faults = (pyarrow.ArrowException, UnicodeDecodeError, KeyError)
    return reading(path, *faults, fault="not a Parquet file, or damaged")


def check_numeric(
    schema: Any,
    columns: Iterable[int],
    names: Sequence[str],
    path: Path,
    hint: Callable[[Sequence[str]], str] = lambda bad: f"such columns: {', '.join(bad[:20])}",
) -> None:
    """Check that columns of an Arrow schema hold numbers; ``hint`` says what to do about others."""
    from pyarrow import types

    tests = (types.is_boolean, types.is_integer, types.is_floating)
    bad = [k for k in columns if not any(test(schema.types[k]) for test in tests)]
    if bad:
        raise InvalidDataError(
            f"{path}: column {names[bad[0]]!r} has type {schema.types[bad[0]]}, expected bool, "
            f"integer or float; {hint([names[k] for k in bad])}"
        )


def sparse_block(batch: Any, columns: Sequence[int], above: float | None = None) -> Any:
    """Return columns of an Arrow table or record batch as ``csr_array``, float64.

    The shape is (n_rows, len(columns)). Null is NaN. With ``above`` numbers larger than it are 1,
    all others 0. Only one column is dense at a time.
    """
    import pyarrow
    from scipy import sparse

    rows, values = [], []
    for index in columns:  # by index: a search by name would make wide files quadratic
        cells = batch.column(index).cast(pyarrow.float64(), safe=False)
        column = np.asarray(cells.to_numpy(zero_copy_only=False))
        if above is not None:
            column = np.where(np.isnan(column), column, column > above)
        rows.append(np.flatnonzero(column))  # NaN is not zero
        values.append(column[rows[-1]])
    offsets = np.repeat(np.arange(len(columns)), [len(part) for part in rows])
    entries = (np.concatenate(values), (np.concatenate(rows), offsets))
    return sparse.csr_array(sparse.coo_array(entries, shape=(batch.num_rows, len(columns))))


def _observations(
    block: Any, where: object, names: Sequence[str] | None = None, missing: Any = None
) -> Observations:
    """Return the rows of one chunk; errors name where it was read from."""
    with located(where):
        return Observations.of(block, missing=missing, column_names=names)
