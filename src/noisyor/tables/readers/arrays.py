"""Arrays in ``.npy`` and ``.npz`` files: a matrix, a stack of images, or a sparse matrix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noisyor._util.array_file import SPARSE_ARRAYS, open_npy, open_npz, read_sparse
from noisyor._util.arrays import AnyArray
from noisyor.errors import InvalidDataError
from noisyor.tables.options import ReadOptions
from noisyor.tables.table import RowBuilder, Table, check_columns

__all__ = ["choose", "dense_table", "read", "sparse_table"]

_BLOCK_BYTES = 32 * 2**20
_COLUMN_NAMES = ("columns", "column_names", "feature_names", "vocabulary", "words", "wordlist")
_ROW_NAMES = ("names", "row_names", "index", "ids")


def read(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """The array of a file, with names if other arrays hold them; all columns are read."""
    if options.format == "npy":
        return dense_table(open_npy(path), path, options)
    with open_npz(path) as arrays:
        labels = {
            name: arrays.read(name)
            for name in (*_COLUMN_NAMES, *_ROW_NAMES)
            if len(arrays.shapes.get(name, ())) == 1
        }
        if not set(arrays.shapes) >= SPARSE_ARRAYS:
            chosen = choose(arrays.shapes, options, path)
            where = f"{path}, array {chosen!r}"
            return dense_table(arrays.read(chosen), where, options, labels)
    return sparse_table(read_sparse(path), path, options, labels)


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
    first, *_ = sorted(matrices)
    listed = ", ".join(f"{name} {shapes[name]}" for name in sorted(matrices)[:8])
    raise InvalidDataError(
        f"{path} holds several matrices: {listed}; ReadOptions(variable={first!r}) chooses one"
    )


def dense_table(
    array: AnyArray,
    where: object,
    options: ReadOptions,
    labels: Mapping[str, AnyArray] | None = None,
) -> Table:
    """A matrix (n, columns) or images (n, height, width) or (n, 1, height, width), in blocks.

    ``labels`` are arrays of the same file, some of which may name the columns and rows.
    """
    if array.dtype.kind not in "biuf":
        raise InvalidDataError(f"{where}: expected numbers, got values of type {array.dtype}")
    shape = array.shape
    if len(shape) not in (2, 3) and not (len(shape) == 4 and shape[1] == 1):
        raise InvalidDataError(
            f"{where}: expected a matrix (rows, columns) or images (n, height, width), "
            f"got shape {shape}"
        )
    if 0 in shape:
        raise InvalidDataError(f"{where} holds no rows (its shape is {shape})")
    images = len(shape) > 2
    if options.transpose and not images:
        array = array.T
    width = math.prod(array.shape[1:])
    check_columns(width, where)
    names = None if images else _labels_of(labels, _COLUMN_NAMES, width)
    builder = RowBuilder(where, names, options.above, options.truth)
    step = max(1, _BLOCK_BYTES // (width * array.dtype.itemsize))
    for begin in range(0, len(array), step):
        builder.add(array[begin : begin + step])
    rows = builder.finish(shape[-2:] if images else ())
    return Table(rows, _labels_of(labels, _ROW_NAMES, rows.n_rows))


def sparse_table(
    matrix: Any,
    where: object,
    options: ReadOptions,
    labels: Mapping[str, AnyArray] | None = None,
) -> Table:
    """A SciPy sparse matrix (n, columns) and its labels, as in `dense_table`."""
    matrix = matrix.T if options.transpose else matrix
    n_rows, width = matrix.shape
    if n_rows < 1:
        raise InvalidDataError(f"{where} holds no rows")
    check_columns(width, where)
    names = _labels_of(labels, _COLUMN_NAMES, width)
    builder = RowBuilder(where, names, options.above, options.truth)
    builder.add(matrix.tocsr())
    return Table(builder.finish(), _labels_of(labels, _ROW_NAMES, n_rows))


def _labels_of(
    labels: Mapping[str, AnyArray] | None, wanted: tuple[str, ...], length: int
) -> tuple[str, ...] | None:
    """The first list of strings with one of these names and this length."""
    for name in wanted:
        array = None if labels is None else labels.get(name)
        if array is not None and array.dtype.kind in "US" and array.shape == (length,):
            return tuple(
                item.decode("latin-1") if isinstance(item, bytes) else str(item)
                for item in array.tolist()
            )
    return None
