"""Arrays in ``.npy`` and ``.npz`` files, read in blocks after their announced size is checked."""

from __future__ import annotations

import errno
import math
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from noisyor._util.arrays import AnyArray
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError
from noisyor.tables.options import ReadOptions
from noisyor.tables.row_builder import Gathering, check_columns, named

__all__ = ["Header", "choose", "gather", "largest_ratio", "read_npy", "read_npz", "sparse_rows"]

Found = tuple[Observations, tuple[str, ...] | None]

_BLOCK_BYTES = 32 * 2**20
_LARGEST_WHOLE = 2**31
_SPARSE = {"indices", "indptr", "format", "shape", "data"}
_COLUMN_NAMES = ("columns", "column_names", "feature_names", "vocabulary", "words", "wordlist")
_ROW_NAMES = ("names", "row_names", "index", "ids")

largest_ratio = 1100
"""Deflate cannot pack more than 1,032 bytes into one; a header that says so is damaged."""


class Header(NamedTuple):
    """What an array announces."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def n_bytes(self) -> int:
        """Size of its data."""
        return math.prod(self.shape) * self.dtype.itemsize


@contextmanager
def _damage(where: object) -> Any:
    """Whatever the parsers raise for a damaged file is one line that names it."""
    try:
        yield
    except InvalidDataError:
        raise
    except (
        ValueError,
        TypeError,
        KeyError,
        EOFError,
        SyntaxError,
        RuntimeError,
        OverflowError,
        tokenize.TokenError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise _damaged(where, error) from error
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # a place before the start of the file
            raise
        raise _damaged(where, error) from error


def _damaged(where: object, error: Exception) -> InvalidDataError:
    reason = str(error).partition("\n")[0] or type(error).__name__
    return InvalidDataError(f"{where}: damaged or incomplete ({reason[:200]})")


def _read_header(stream: IO[bytes], where: object) -> Header:
    version = np.lib.format.read_magic(stream)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise InvalidDataError(f"{where}: version {version} of the array format is not read")
    header = Header(*readers[version](stream))
    if header.dtype.hasobject:
        raise InvalidDataError(f"{where} holds Python objects, expected an array of 0 and 1")
    if any(size < 0 for size in header.shape):
        raise InvalidDataError(f"{where}: damaged, its shape is {header.shape}")
    return header


def _check_numbers(header: Header, where: object) -> None:
    if header.dtype.kind not in "biuf":
        raise InvalidDataError(f"{where}: expected numbers, got values of type {header.dtype}")
    shape = header.shape
    if len(shape) not in (2, 3) and not (len(shape) == 4 and shape[1] == 1):
        raise InvalidDataError(
            f"{where}: expected a matrix (rows, columns) or images (n, height, width), "
            f"got shape {shape}"
        )
    if 0 in shape:
        raise InvalidDataError(f"{where} holds no rows (its shape is {shape})")


def gather(
    stream: IO[bytes],
    header: Header,
    where: object,
    options: ReadOptions,
    names: tuple[str, ...] | None = None,
) -> Observations:
    """A dense array from the stream behind its header, a block of rows at a time."""
    _check_numbers(header, where)
    shape = header.shape
    images = len(shape) > 2
    check_columns(math.prod(shape[1:]), where)
    gathering = Gathering(where, names, options.above)
    if header.fortran or (options.transpose and not images):
        if header.n_bytes > _LARGEST_WHOLE:
            raise InvalidDataError(
                f"{where} is stored column by column and has {header.n_bytes / 2**30:.1f} GB; "
                "save it row by row, or sparse"
            )
        raw = _exactly(stream, header.n_bytes, where)
        array = np.frombuffer(raw, header.dtype).reshape(
            shape, order="F" if header.fortran else "C"
        )
        array = array.T if options.transpose and not images else array
        for block in np.array_split(array, -(-header.n_bytes // _BLOCK_BYTES)):
            gathering.add(np.ascontiguousarray(block))
    else:
        row_bytes = math.prod(shape[1:]) * header.dtype.itemsize
        step = max(1, _BLOCK_BYTES // row_bytes)
        for begin in range(0, shape[0], step):
            rows = min(step, shape[0] - begin)
            raw = _exactly(stream, rows * row_bytes, where)
            gathering.add(np.frombuffer(raw, header.dtype).reshape(rows, -1))
    return gathering.finish(shape[-2:] if images else ())


def _exactly(stream: IO[bytes], n_bytes: int, where: object) -> bytes:
    raw = stream.read(n_bytes)
    if len(raw) != n_bytes:
        raise InvalidDataError(f"{where}: damaged or incomplete (it ends early)")
    return raw


def read_npy(path: Path, options: ReadOptions) -> Found:
    """The array of a ``.npy`` file."""
    with path.open("rb") as stream, _damage(path):
        header = _read_header(stream, path)
        there = path.stat().st_size - stream.tell()
        if header.n_bytes != there:
            raise InvalidDataError(
                f"{path}: damaged or incomplete (its header announces {header.n_bytes:,} bytes "
                f"of data, there are {there:,})"
            )
        return gather(stream, header, path, options), None


def read_npz(path: Path, options: ReadOptions) -> Found:
    """The array of a ``.npz`` file, with names if other arrays hold them, or a sparse matrix."""
    with _damage(path), zipfile.ZipFile(path) as archive:
        entries = {
            info.filename.removesuffix(".npy"): info
            for info in archive.infolist()
            if info.filename.endswith(".npy")
        }
        if not entries:
            sheet = "[Content_Types].xml" in archive.namelist()
            hint = ": it is an office document, save the table as CSV" if sheet else ""
            raise InvalidDataError(f"{path} holds no arrays{hint}")
        if set(entries) >= _SPARSE:
            arrays = {name: _whole(archive, entries[name], path) for name in _SPARSE}
            data = _from_sparse(arrays, path, options)
        else:
            headers = {name: _announced(archive, info, path) for name, info in entries.items()}
            chosen = choose({name: header.shape for name, header in headers.items()}, options, path)
            where = f"{path}, array {chosen!r}"
            with archive.open(entries[chosen]) as stream:
                header = _read_header(stream, where)
                data = gather(stream, header, where, options)
        labels = {
            name: _whole(archive, entries[name], path)
            for name in (*_COLUMN_NAMES, *_ROW_NAMES)
            if name in entries and entries[name].file_size < _LARGEST_WHOLE
        }
    return with_labels(data, labels, path)


def with_labels(data: Observations, labels: Mapping[str, AnyArray], where: object) -> Found:
    """Names of columns and rows, if there are lists of strings with fitting lengths."""

    def find(wanted: tuple[str, ...], length: int) -> tuple[str, ...] | None:
        for name in wanted:
            array = labels.get(name)
            if array is not None and array.dtype.kind in "US" and array.shape == (length,):
                return tuple(
                    item.decode("latin-1") if isinstance(item, bytes) else str(item)
                    for item in array.tolist()
                )
        return None

    columns = find(_COLUMN_NAMES, data.n_visible) if len(data.shape) == 1 else None
    return named(data, columns, where, data.shape), find(_ROW_NAMES, data.n_rows)


def _announced(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> Header:
    where = f"{path}, array {info.filename.removesuffix('.npy')!r}"
    with archive.open(info) as stream:
        try:
            header = _read_header(stream, where)
        except InvalidDataError:
            return Header((), False, np.dtype(np.uint8))  # objects: not what is looked for
        begin = stream.tell()
    room = min(info.file_size, largest_ratio * (info.compress_size + 1))
    if header.n_bytes != info.file_size - begin or info.file_size > room:
        raise InvalidDataError(
            f"{where}: damaged or incomplete (its header announces {header.n_bytes:,} bytes, "
            f"the archive has room for {max(0, min(room, info.file_size) - begin):,})"
        )
    return header


def _whole(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> AnyArray:
    where = f"{path}, array {info.filename.removesuffix('.npy')!r}"
    _announced(archive, info, path)
    with archive.open(info) as stream:
        header = _read_header(stream, where)
        if header.n_bytes > _LARGEST_WHOLE:
            raise InvalidDataError(f"{where} has {header.n_bytes / 2**30:.1f} GB, too many")
        if not header.dtype.itemsize:
            return np.zeros(header.shape if math.prod(header.shape) < 10**6 else 0, header.dtype)
        raw = _exactly(stream, header.n_bytes, where)
    return np.frombuffer(raw, header.dtype).reshape(
        header.shape, order="F" if header.fortran else "C"
    )


def choose(shapes: Mapping[str, tuple[int, ...]], options: ReadOptions, path: Path) -> str:
    """The array to read: the one that is asked for, or "X", or the only one that is a matrix."""
    if options.variable is not None:
        if options.variable not in shapes:
            raise InvalidDataError(
                f"{path}: no array {options.variable!r}; there are {', '.join(sorted(shapes))}"
            )
        return options.variable
    if "X" in shapes:
        return "X"
    matrices = [
        name for name, shape in shapes.items() if len(shape) >= 2 and sorted(shape)[-2] > 1
    ] or [name for name, shape in shapes.items() if len(shape) >= 2]
    if len(matrices) == 1:
        return matrices[0]
    if not matrices:
        raise InvalidDataError(f"{path}: no matrix among its arrays ({', '.join(sorted(shapes))})")
    listed = ", ".join(f"{name} {shapes[name]}" for name in sorted(matrices)[:8])
    raise InvalidDataError(f"{path} holds several matrices: {listed}; choose one with --variable")


def _from_sparse(arrays: dict[str, AnyArray], path: Path, options: ReadOptions) -> Observations:
    from scipy import sparse

    layout = str(np.asarray(arrays["format"]).item())
    kind = layout[2:5] if layout.startswith("b'") else layout[:3]
    shape = tuple(int(size) for size in arrays["shape"].ravel())
    builders = {"csr": sparse.csr_array, "csc": sparse.csc_array}
    if kind not in builders or len(shape) != 2:
        raise InvalidDataError(
            f"{path}: a sparse matrix in the layout {kind!r}; save it with .tocsr()"
        )
    compressed = shape[0 if kind == "csr" else 1]
    if len(arrays["indptr"]) != compressed + 1:
        raise InvalidDataError(
            f"{path}: damaged, it announces a matrix of shape {shape} "
            f"and {len(arrays['indptr']) - 1} lines"
        )
    return sparse_rows(
        lambda: builders[kind]((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape),
        shape,
        len(arrays["data"]),
        path,
        options,
    )


def sparse_rows(
    build: Any, shape: tuple[int, int], n_entries: int, where: object, options: ReadOptions
) -> Observations:
    """A sparse matrix whose shape is checked before ``build`` makes it."""
    rows, columns = reversed(shape) if options.transpose else shape
    if rows < 1:
        raise InvalidDataError(f"{where} holds no rows")
    check_columns(columns, where)
    if rows > 10_000_000 + 100 * n_entries:
        raise InvalidDataError(f"{where}: damaged, {rows:,} rows for {n_entries:,} entries")
    matrix = build()
    matrix.check_format(full_check=True)
    matrix = matrix.T.tocsr() if options.transpose else matrix.tocsr()
    if options.above is not None:
        if options.above < 0:
            raise InvalidDataError(f"{where}: with a threshold below 0 a sparse matrix is all 1")
        matrix.data = np.where(np.isnan(matrix.data), matrix.data, matrix.data > options.above)
    try:
        return Observations.of(matrix)
    except InvalidDataError as error:
        raise InvalidDataError(f"{where}: {error}") from error
