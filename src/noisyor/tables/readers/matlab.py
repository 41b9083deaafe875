"""Matrices in MATLAB files of versions 5 to 7, read without trusting anything they say.

Written by hand because general readers crash on damaged files. A file is a list of elements, each
a tag (type and number of bytes) and data, perhaps compressed; a matrix is an element that holds
elements: flags, dimensions, name, values.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.array_file import LARGEST_RATIO, MOST_OF_AN_ARRAY
from noisyor._util.compression import check_unpacked
from noisyor._util.sparse import build_sparse
from noisyor.errors import InvalidDataError
from noisyor.tables.options import ReadOptions
from noisyor.tables.readers.arrays import choose, dense_table, sparse_table
from noisyor.tables.table import Table

__all__ = ["read"]

_MATRIX, _COMPRESSED = 14, 15
_CELL, _CHAR, _SPARSE = 1, 4, 5
_NUMERIC = range(6, 16)
_TYPES = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
}
_TEXT = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16"}
_LARGEST = 2**31
_MOST_CELLS = 10_000_000

View = memoryview


class _DamagedError(Exception):
    """The content contradicts itself; the text says how."""


class _Matrix(NamedTuple):
    """A variable whose values have not been read: they begin at ``place`` of ``content``."""

    kind: int
    shape: tuple[int, ...]
    complex: bool
    name: str
    content: View
    place: int


def read(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """A numeric or sparse matrix, all columns, with names if there are cells of strings."""
    content = path.read_bytes()
    if b"MATLAB 7.3 MAT-file" in content[:128] or content.startswith(b"\x89HDF"):
        raise InvalidDataError(
            f"{path} is a MATLAB file of version 7.3, which is not read; save it with -v7"
        )
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None:
        raise InvalidDataError(
            f"{path}: not a MATLAB file of version 5 to 7, or damaged; save it with -v7"
        )
    try:
        return _read(View(content), order, path, options)
    except _DamagedError as error:
        raise InvalidDataError(f"{path}: damaged or incomplete ({error})") from error


def _read(content: View, order: str, path: Path, options: ReadOptions) -> Table:
    found: dict[str, _Matrix] = {}
    place, total = 128, 0
    while place < len(content):
        kind, data, place = _element(content, place, order)
        if kind == _COMPRESSED:
            kind, data = _unpacked(data, order, path, total)
            total += len(data)
        if kind == _MATRIX:
            matrix = _header(data, order)
            found[matrix.name] = matrix
    numbers = {
        name: matrix.shape
        for name, matrix in found.items()
        if matrix.kind == _SPARSE or matrix.kind in _NUMERIC
    }
    matrix = found[choose(numbers, options, path)]
    where = f"{path}, variable {matrix.name!r}"
    if matrix.complex:
        raise InvalidDataError(f"{where}: complex numbers, expected 0 and 1")
    labels = {
        name: np.array(_strings(cells, order), dtype=np.str_)
        for name, cells in found.items()
        if cells.kind == _CELL
    }
    if matrix.kind == _SPARSE:
        return sparse_table(_sparse(matrix, order, where), where, options, labels)
    return dense_table(_dense(matrix, order, where), where, options, labels)


# ---- elements


def _element(content: View, place: int, order: str) -> tuple[int, View, int]:
    """Type and data of the element at a place, and the place of the next one."""
    if place + 8 > len(content):
        raise _DamagedError("it ends early")
    first, size = np.frombuffer(content[place : place + 8], f"{order}u4").tolist()
    if first >> 16:  # up to four bytes of data inside the tag
        kind, size, begin, following = first & 0xFFFF, first >> 16, place + 4, place + 8
        if size > 4:
            raise _DamagedError("an element is longer than its room")
    else:
        kind, begin = first, place + 8
        padding = 0 if kind == _COMPRESSED else -size % 8
        following = begin + size + padding
    if begin + size > len(content):
        raise _DamagedError(
            f"an element announces {size:,} bytes, there are {len(content) - begin:,}"
        )
    return kind, content[begin : begin + size], following


def _unpacked(data: View, order: str, path: Path, before: int) -> tuple[int, View]:
    """Type and data of the one element in compressed data, after so many bytes of others."""
    try:
        stream = zlib.decompressobj()
        tag = stream.decompress(data, 8)
        if len(tag) < 8:
            raise _DamagedError("compressed data end early")
        kind, size = np.frombuffer(tag, f"{order}u4").tolist()
        if size > min(_LARGEST, LARGEST_RATIO * len(data)):
            raise _DamagedError(f"compressed data announce {size:,} bytes, too many for this file")
        check_unpacked(before + size, len(data), path, MOST_OF_AN_ARRAY)
        content = stream.decompress(stream.unconsumed_tail, size) if size else b""
    except zlib.error as error:
        raise _DamagedError(str(error)) from error
    if len(content) != size:
        raise _DamagedError("compressed data end early")
    return kind, View(content)


def _numbers(kind: int, data: View, order: str) -> npt.NDArray[Any]:
    if kind not in _TYPES:
        raise _DamagedError(f"numbers of an unknown type {kind}")
    dtype = np.dtype(f"{order}{_TYPES[kind]}")
    if len(data) % dtype.itemsize:
        raise _DamagedError("half a number")
    return np.frombuffer(data, dtype)


# ---- matrices


def _header(content: View, order: str) -> _Matrix:
    kind, data, place = _element(content, 0, order)
    flags = _numbers(kind, data, order)
    if len(flags) < 1:
        raise _DamagedError("a matrix without flags")
    kind, data, place = _element(content, place, order)
    shape = tuple(int(size) for size in _numbers(kind, data, order))
    if not shape or min(shape) < 0 or len(shape) > 8:
        raise _DamagedError(f"a matrix of shape {shape}")
    _, data, place = _element(content, place, order)
    name = bytes(data).decode("latin-1")
    word = int(flags[0])
    return _Matrix(word & 0xFF, shape, bool(word & 0x800), name, content, place)


def _values(matrix: _Matrix, order: str, count: int) -> list[npt.NDArray[Any]]:
    """The first elements of a matrix, each an array of numbers."""
    arrays, place = [], matrix.place
    for _ in range(count):
        kind, data, place = _element(matrix.content, place, order)
        arrays.append(_numbers(kind, data, order))
    return arrays


def _dense(matrix: _Matrix, order: str, where: str) -> npt.NDArray[Any]:
    (values,) = _values(matrix, order, 1)
    size = math.prod(matrix.shape)
    if size != len(values):
        raise InvalidDataError(
            f"{where}: damaged, it announces {size:,} numbers, there are {len(values):,}"
        )
    return values.reshape(matrix.shape, order="F")


def _sparse(matrix: _Matrix, order: str, where: str) -> Any:
    rows, starts, values = _values(matrix, order, 3)
    shape = matrix.shape
    if len(shape) != 2 or len(starts) != shape[1] + 1 or int(starts[-1]) > len(values):
        raise _DamagedError(f"a sparse matrix of shape {shape} with {len(starts)} starts")
    n_entries = int(starts[-1])
    if n_entries < 0 or n_entries > len(rows):
        raise _DamagedError("a sparse matrix with too few entries")
    entries = values[:n_entries].astype(np.float64)
    return build_sparse("csc", (entries, rows[:n_entries], starts), shape, where)


def _strings(matrix: _Matrix, order: str) -> list[str]:
    """A cell array of strings; an empty list if it holds anything else."""
    if math.prod(matrix.shape) > min(_MOST_CELLS, len(matrix.content)):
        return []
    texts = list(_cells(matrix, order))
    return [] if None in texts else [str(text) for text in texts]


def _cells(matrix: _Matrix, order: str) -> Iterator[str | None]:
    """Text of each cell, None for one that is no text."""
    place = matrix.place
    for _ in range(math.prod(matrix.shape)):
        kind, data, place = _element(matrix.content, place, order)
        if kind != _MATRIX or not len(data):
            yield None
            continue
        cell = _header(data, order)
        kind, data, _ = _element(cell.content, cell.place, order)
        if cell.kind != _CHAR or kind not in _TEXT:
            yield None
            continue
        encoding = _TEXT[kind] + ("-le" if order == "<" else "-be") * (_TEXT[kind] == "utf-16")
        yield bytes(data).decode(encoding, "replace")
