"""Columns of numbers in Parquet files, as sparse rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from noisyor._util.compression import reading
from noisyor.errors import InvalidDataError, MissingExtraError

__all__ = ["check_numbers", "open_parquet", "reading_parquet", "row_labels", "sparse_block"]


_MOST_CELLS = 50_000_000
_DENSEST = 300
_LONGEST_LABEL = 10_000


def open_parquet(path: Path, dictionary: str | None = None) -> Any:
    """The open ``pyarrow.parquet.ParquetFile``; its columns have names of their own.

    Repeated texts of the column ``dictionary`` are kept once.
    """
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError.of(f"{path}: Parquet files need pyarrow", "parquet") from None
    with reading_parquet(path):
        names = None if dictionary is None else [dictionary]
        file = pyarrow.parquet.ParquetFile(path, memory_map=True, read_dictionary=names)
        _check_distinct(file, path)
        # A row takes as much memory as twenty entries, whatever is in it.
        cells = file.metadata.num_rows * (file.metadata.num_columns + 20)
        if cells > max(_MOST_CELLS, _DENSEST * path.stat().st_size):
            raise InvalidDataError(
                f"{path}: announces {file.metadata.num_rows:,} rows of "
                f"{file.metadata.num_columns:,} columns, too many for {path.stat().st_size:,} bytes"
            )
        return file


def _check_distinct(file: Any, path: Path) -> None:
    """Refuse names that occur twice: which of them is meant cannot be said."""
    twice = [name for name, n in Counter(file.schema_arrow.names).items() if n > 1]
    if twice:
        raise InvalidDataError(f"{path}: the column name {twice[0]!r} occurs twice")


def reading_parquet(path: Path) -> AbstractContextManager[None]:
    """A context in which whatever a damaged file raises becomes one line that names it."""
    import pyarrow

    faults = (pyarrow.ArrowException, UnicodeDecodeError, KeyError)
    return reading(path, *faults, fault="not a Parquet file, or damaged")


def check_numbers(schema: Any, name: str, path: Path, hint: str = "") -> None:
    """The column holds numbers; the error ends with the hint."""
    from pyarrow import types

    kind = schema.field(name).type
    if not (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
        raise InvalidDataError(
            f"{path}: column {name!r} has type {kind}, expected bool, integer or float{hint}"
        )


def sparse_block(batch: Any, names: Sequence[str], above: float | None = None) -> Any:
    """Rows of an Arrow table or record batch as ``csr_array``, float64 (n_rows, len(names)).

    Null is NaN. With ``above`` numbers larger than it are 1, all others 0. Only one column is dense
    at a time.
    """
    import pyarrow
    from scipy import sparse

    rows, values = [], []
    for name in names:
        cells = batch.column(name).cast(pyarrow.float64(), safe=False)
        column = np.asarray(cells.to_numpy(zero_copy_only=False))
        if above is not None:
            column = np.where(np.isnan(column), column, column > above)
        rows.append(np.flatnonzero(column))  # NaN is not zero
        values.append(column[rows[-1]])
    columns = np.repeat(np.arange(len(names)), [len(part) for part in rows])
    entries = (np.concatenate(values), (np.concatenate(rows), columns))
    return sparse.csr_array(sparse.coo_array(entries, shape=(batch.num_rows, len(names))))


def row_labels(column: Any, path: Path) -> list[str]:
    """Texts or numbers of an Arrow column that names rows."""
    from pyarrow import compute, types

    values = column.dictionary if types.is_dictionary(column.type) else column
    if types.is_nested(values.type):
        raise InvalidDataError(f"{path}: rows are named by texts or numbers, not by {values.type}")
    if types.is_string(values.type) or types.is_large_string(values.type):
        longest = compute.max(compute.binary_length(values)).as_py() or 0
        if longest > _LONGEST_LABEL:
            raise InvalidDataError(
                f"{path}: the name of a row has {longest:,} bytes, expected {_LONGEST_LABEL:,} at "
                "most"
            )
    return [str(label) for label in column.to_pylist()]
