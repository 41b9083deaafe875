"""Arrays in ``.npy`` and ``.npz`` files, read by NumPy after what they announce is checked.

A damaged header can announce any size. So the size is compared with the file before memory is
taken for it, and whatever NumPy raises for a damaged file becomes one line that names the file.
"""

from __future__ import annotations

import math
import tokenize
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from noisyor._util.arrays import AnyArray
from noisyor._util.compression import check_unpacked, reading
from noisyor._util.sparse import build_sparse, check_spread
from noisyor.errors import InvalidDataError

__all__ = [
    "LARGEST_RATIO",
    "MOST_OF_AN_ARRAY",
    "SPARSE_ARRAYS",
    "Npz",
    "open_npy",
    "open_npz",
    "read_arrays",
    "read_sparse",
    "sparse_shape",
]

LARGEST_RATIO = 1100
"""Deflate cannot pack more than 1,032 bytes into one; a header that says so is damaged."""

MOST_OF_AN_ARRAY = 256 * 2**20
"""Bytes that any compressed array may have; more only if it is not packed more than 100 times."""

SPARSE_ARRAYS = frozenset({"indices", "indptr", "format", "shape", "data"})
"""The arrays of a file that SciPy's ``save_npz`` wrote."""

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# What NumPy's parser of headers raises for damaged ones.
_FAULTS = (
    ValueError,
    TypeError,
    KeyError,
    SyntaxError,
    RuntimeError,
    OverflowError,
    tokenize.TokenError,
)


class _Header(NamedTuple):
    """What an array announces."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def open_npy(path: Path) -> AnyArray:
    """The array of a ``.npy`` file, mapped into memory: only the parts that are used are read."""
    with reading(path, *_FAULTS):
        with path.open("rb") as stream:
            header = _header(stream, path)
            there = path.stat().st_size - stream.tell()
        if header.dtype.hasobject:
            raise InvalidDataError(f"{path} holds Python objects, expected numbers")
        if header.n_bytes != there:
            raise InvalidDataError(
                f"{path}: damaged or incomplete (its header announces {header.n_bytes:,} bytes "
                f"of data, there are {there:,})"
            )
        array: AnyArray = np.load(path, mmap_mode="r" if there else None, allow_pickle=False)
        return array


@contextmanager
def open_npz(path: Path) -> Iterator[Npz]:
    """The arrays of a ``.npz`` file."""
    with reading(path, *_FAULTS), zipfile.ZipFile(path) as archive:
        yield Npz(path, archive)


class Npz:
    """An open ``.npz`` file.

    Attributes
    ----------
    shapes : the shape of each array by its name; Python objects are left out.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path, self._archive = path, archive
        self._members = {
            info.filename.removesuffix(".npy"): info
            for info in archive.infolist()
            if info.filename.endswith(".npy")
        }
        if not self._members:
            sheet = "[Content_Types].xml" in archive.namelist()
            hint = ": it is an office document, save the table as CSV" if sheet else ""
            raise InvalidDataError(f"{path} holds no arrays{hint}")
        headers = {name: self._announced(name) for name in self._members}
        self.shapes: Mapping[str, tuple[int, ...]] = {
            name: header.shape for name, header in headers.items() if not header.dtype.hasobject
        }

    def read(self, name: str) -> AnyArray:
        """One of the arrays."""
        if name not in self.shapes:
            there = ", ".join(sorted(self.shapes)) or "none"
            raise InvalidDataError(f"{self._path}: no array {name!r}; there are {there}")
        info = self._members[name]
        check_unpacked(info.file_size, info.compress_size, self._where(name), MOST_OF_AN_ARRAY)
        with self._archive.open(info) as stream:
            array: AnyArray = np.lib.format.read_array(stream, allow_pickle=False)
            return array

    def _where(self, name: str) -> str:
        return f"{self._path}, array {name!r}"

    def _announced(self, name: str) -> _Header:
        info, where = self._members[name], self._where(name)
        with self._archive.open(info) as stream:
            header, begin = _header(stream, where), stream.tell()
        room = min(info.file_size, LARGEST_RATIO * (info.compress_size + 1)) - begin
        if not header.dtype.hasobject and header.n_bytes != room:
            raise InvalidDataError(
                f"{where}: damaged or incomplete (its header announces {header.n_bytes:,} bytes, "
                f"the archive has room for {max(0, room):,})"
            )
        return header


def _header(stream: IO[bytes], where: object) -> _Header:
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise InvalidDataError(f"{where}: version {version} of the array format is not read")
    header = _Header(*_HEADERS[version](stream))
    if any(size < 0 for size in header.shape):
        raise InvalidDataError(f"{where}: damaged, its shape is {header.shape}")
    if not header.dtype.itemsize and math.prod(header.shape) > 10**6:
        raise InvalidDataError(f"{where}: damaged, {header.shape} values of no size")
    return header


def read_arrays(
    path: Path, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, AnyArray]:
    """Some arrays of a ``.npz`` file by their names; optional ones only if they are there."""
    with open_npz(path) as arrays:
        names = [*required, *(name for name in optional if name in arrays.shapes)]
        return {name: arrays.read(name) for name in names}


def read_sparse(path: Path) -> Any:
    """The matrix that SciPy's ``save_npz`` wrote, a ``csr_array`` or ``csc_array``."""
    arrays = read_arrays(path, sorted(SPARSE_ARRAYS))
    with reading(path, *_FAULTS):
        layout = np.asarray(arrays["format"]).item()
        kind = layout.decode("ascii", "replace") if isinstance(layout, bytes) else str(layout)
        shape = tuple(int(size) for size in arrays["shape"].ravel())
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        return build_sparse(kind, parts, shape, path)


def sparse_shape(path: Path) -> tuple[int, int]:
    """Rows and columns that a file of SciPy's ``save_npz`` announces, without its entries."""
    with open_npz(path) as arrays:
        if not set(arrays.shapes) >= SPARSE_ARRAYS:
            raise InvalidDataError(f"{path} is not a sparse matrix that SciPy's save_npz wrote")
        n_rows, n_columns = (int(size) for size in arrays.read("shape"))
        check_spread((n_rows, n_columns), math.prod(arrays.shapes["data"]), path)
    return n_rows, n_columns
