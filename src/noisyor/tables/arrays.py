"""Readers of arrays: NumPy, SciPy and MATLAB files, Parquet columns, images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from noisyor._util.arrays import AnyArray
from noisyor._util.files import located, reading
from noisyor.data.chunks import check_numeric, open_parquet, reading_parquet, sparse_block
from noisyor.data.observations import Observations, reader_for
from noisyor.errors import InvalidDataError, MissingExtraError
from noisyor.tables.hints import columns_hint, number_hint, role_hint
from noisyor.tables.options import ReadOptions
from noisyor.tables.table import (
    Cells,
    Table,
    distinct_names,
    find_roles,
    weight_of,
    weighted_table,
)

_SPARSE_ARRAYS = {"indices", "indptr", "format", "shape", "data"}  # of SciPy's save_npz
_COLUMN_NAMES = ("columns", "column_names", "feature_names", "vocabulary", "words", "wordlist")
_ROW_NAMES = ("names", "row_names", "index", "ids")

Labels = Mapping[str, AnyArray]


# ---- NumPy, SciPy and MATLAB


def read_npy(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Read a matrix or a stack of images; all columns are read."""
    with reading(path, Exception):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array_table(array, path, options)


def read_npz(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Read one of the arrays or a sparse matrix, with names if other arrays hold them."""
    # NumPy does not close a damaged file that it opened itself.
    with (
        reading(path, Exception),
        path.open("rb") as stream,
        np.load(stream, allow_pickle=False) as file,
    ):
        arrays: dict[str, AnyArray] = {}
        for name in file.files:
            try:
                value = file[name]
            except ValueError as error:
                if "allow_pickle" not in str(error):
                    raise
                continue  # Python objects are never unpickled
            if isinstance(value, np.ndarray):
                arrays[name] = value
        if not arrays:
            raise InvalidDataError(
                f"{path} holds no arrays of numbers; unpack an archive, save a table of an office "
                "program as CSV"
            )
        if set(arrays) >= _SPARSE_ARRAYS:
            return array_table(sparse.load_npz(path), path, options, arrays)
    chosen = _choose({name: array.shape for name, array in arrays.items()}, options, path)
    return array_table(arrays[chosen], f"{path}, array {chosen!r}", options, arrays)


def read_matlab(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Read a numeric or sparse matrix, with names if there are cells of strings."""
    from scipy import io

    fault = "not a MATLAB file of version 5 to 7, or damaged; save it with -v7"
    with reading(path, Exception, fault=fault):
        content = io.loadmat(path)
    matrices, labels = {}, {}
    for name, value in content.items():
        if sparse.issparse(value) or getattr(value, "dtype", np.dtype("U")).kind in "biufc":
            matrices[name] = value
        elif isinstance(value, np.ndarray):
            labels[name] = _strings(value)
    chosen = _choose({name: value.shape for name, value in matrices.items()}, options, path)
    return array_table(matrices[chosen], f"{path}, variable {chosen!r}", options, labels)


def _strings(cells: AnyArray) -> AnyArray:
    """Return the strings of a cell array, (n,); an empty array if it holds anything else."""
    texts = [np.asarray(cell) for cell in cells.ravel()]
    if any(text.dtype.kind != "U" or text.size > 1 for text in texts):
        return np.array([])
    return np.array(["".join(text.ravel()) for text in texts], dtype=np.str_)


def _choose(shapes: Mapping[str, tuple[int, ...]], options: ReadOptions, path: Path) -> str:
    """Return the name of the array to read: the requested one, "X", or the only matrix."""
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
    first = min(matrices or shapes, default="NAME")
    listed = ", ".join(f"{name} {shapes[name]}" for name in sorted(shapes)[:8]) or "none"
    raise InvalidDataError(
        f"{path}: one matrix is expected, got {listed}; ReadOptions(variable={first!r}) chooses one"
    )


def array_table(
    array: Any, where: object, options: ReadOptions, labels: Labels | None = None
) -> Table:
    """Build a table from a matrix (n, columns), dense or sparse, or images (n, height, width).

    Images may have a second axis of length 1. ``labels`` are arrays of the same file, some of
    which may name the columns and rows.
    """
    if array.dtype.kind not in "biuf":
        raise InvalidDataError(f"{where}: expected numbers, got values of type {array.dtype}")
    is_matrix = array.ndim == 2
    if is_matrix and options.transpose:
        array = array.T
    names = _labels_of(labels, _COLUMN_NAMES, array.shape[1]) if is_matrix else None
    rows = _read_numbers(array, where, options, None if names is None else distinct_names(names))
    return Table(rows, _labels_of(labels, _ROW_NAMES, rows.n_rows))


def _read_numbers(
    numbers: Any, where: object, options: ReadOptions, names: Sequence[str] | None
) -> Observations:
    """Return the rows of an array or sparse matrix with the user's words for 0 and 1."""
    if options.above is not None or options.truth is not None:
        cells = Cells(options.above, options.truth)
        if not sparse.issparse(numbers):
            numbers = cells.recode(numbers)
        elif options.above is not None and options.above < 0:
            raise InvalidDataError(f"{where}: with a threshold below 0 a sparse matrix is all 1")
        else:
            numbers = numbers.copy()
            numbers.data = cells.recode(numbers.data)
    with located(where):
        reader = reader_for(numbers)._replace(names=names if names is None else tuple(names))
        return Observations.from_reader(reader, hint=number_hint)


def _labels_of(
    labels: Labels | None, wanted: tuple[str, ...], length: int
) -> tuple[str, ...] | None:
    """Return the first list of strings with one of these names and this length."""
    for name in wanted:
        array = None if labels is None else labels.get(name)
        if array is not None and array.dtype.kind in "US" and array.shape == (length,):
            texts = np.char.decode(array, "latin-1") if array.dtype.kind == "S" else array
            return tuple(texts.tolist())
    return None


# ---- Parquet


def read_parquet(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Read Boolean and numeric columns; null is missing. ``columns`` restricts the table to these.

    Other columns must name the rows or be dropped.
    """
    with open_parquet(path) as file, reading_parquet(path):
        schema = file.schema_arrow
        names = distinct_names(schema.names)
        roles = find_roles(options, names, len(names), path, columns)
        check_numeric(
            schema,
            roles.kept,
            names,
            path,
            lambda bad: columns_hint({name: role_hint(name) for name in bad}),
        )
        content = file.read()
        matrix = sparse_block(content, roles.kept, options.above)
    rows = _read_numbers(matrix, path, replace(options, above=None), [names[k] for k in roles.kept])
    row_names: list[str] = []
    weights: list[float] = []
    if roles.id is not None:
        row_names = [str(value) for value in content.column(roles.id).to_pylist()]
    if roles.weights is not None:
        values = content.column(roles.weights).to_pylist()
        weights = [weight_of(value, f"{path}, row {row}") for row, value in enumerate(values)]
    return weighted_table(path, rows, row_names, weights)


# ---- images


def read_images(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Read a folder of PNG files of one size; gray levels above one half (``above``) are 1.

    Gray levels lie in 0 (black) to 1 (white).
    """
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError.of(f"{path}: images need Pillow", "report") from None
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() == ".png")
    if not files:
        raise InvalidDataError(f"{path} holds no .png file")
    threshold = 0.5 if options.above is None else options.above
    pictures: list[AnyArray] = []
    for file in files:
        fault = reading(file, Exception, fault="not a PNG image, or damaged")
        with fault, Image.open(file, formats=["PNG"]) as image:
            # Images of 16 bits are not brought to 8 by the conversion.
            deep = image.mode.startswith("I")
            gray = np.asarray(image if deep else image.convert("L"), dtype=np.float64)
            levels = gray / (65535.0 if deep else 255.0)
        pictures.append((levels <= threshold) if options.invert else (levels > threshold))
        if levels.shape != pictures[0].shape:
            size, before = (" x ".join(map(str, a.shape)) for a in (levels, pictures[0]))
            raise InvalidDataError(f"{file}: {size} pixels, those before have {before}")
    names = tuple(file.relative_to(path).as_posix() for file in files)
    return Table(Observations.of(np.stack(pictures)), names)
