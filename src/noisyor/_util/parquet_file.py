"""Columns of numbers in Parquet files, as sparse rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from noisyor._util.compression import reading
from noisyor.errors import InvalidDataError, MissingExtraError

__all__ = ["check_numbers", "open_parquet", "reading_parquet", "sparse_block"]


def open_parquet(path: Path) -> Any:
    """The open ``pyarrow.parquet.ParquetFile``."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(
            f"{path}: Parquet files need pyarrow, which is not installed; "
            'pip install "noisyor[parquet]" brings it'
        ) from None
    with reading_parquet(path):
        return pyarrow.parquet.ParquetFile(path, memory_map=True)


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
