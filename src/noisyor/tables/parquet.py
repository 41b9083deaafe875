"""Columns of 0 and 1 in Parquet files, read batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noisyor.errors import InvalidDataError, MissingExtraError
from noisyor.tables.arrays import Found
from noisyor.tables.delimited import id_column, kept_columns
from noisyor.tables.options import ReadOptions
from noisyor.tables.row_builder import Gathering, check_columns

__all__ = ["read_parquet"]

_BATCH_CELLS = 4_000_000


def read_parquet(path: Path, options: ReadOptions, wanted: Sequence[str] | None = None) -> Found:
    """Boolean and numeric columns; null is missing. Other columns must be the id or dropped.

    ``wanted`` restricts the columns to these names.
    """
    arrow, parquet = _libraries(path)
    try:
        with parquet.ParquetFile(path) as file:
            return _read(file, arrow, path, options, wanted)
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if getattr(error, "errno", None) is not None:
            raise
        reason = str(error).partition("\n")[0][:200]
        raise InvalidDataError(f"{path}: not a Parquet file, or damaged ({reason})") from error


def _read(
    file: Any, arrow: Any, path: Path, options: ReadOptions, wanted: Sequence[str] | None
) -> Found:
    schema = file.schema_arrow
    names = list(schema.names)
    if not names:
        raise InvalidDataError(f"{path} has no columns")
    id_number = id_column(options, names, len(names), path)
    kept = kept_columns(options, names, len(names), id_number, path, wanted)
    check_columns(len(kept), path)
    for k in kept:
        kind = schema.field(k).type
        types = arrow.types
        if not (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
            raise InvalidDataError(
                f"{path}, column {names[k]!r}: expected 0 and 1, got values of type {kind}; if "
                f"this column names the rows, give --id-column {names[k]}; if it does not matter, "
                f"--drop {names[k]}"
            )
    gathering = Gathering(path, [names[k] for k in kept], options.above)
    row_names: list[str] = []
    read = kept if id_number is None else [*kept, id_number]
    for batch in file.iter_batches(
        batch_size=max(1, _BATCH_CELLS // len(read)), columns=[names[k] for k in read]
    ):
        block = [
            batch.column(names[k]).cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
            for k in kept
        ]
        gathering.add(np.stack(block, axis=1))
        if id_number is not None:
            row_names += map(str, batch.column(names[id_number]).to_pylist())
    return gathering.finish(), tuple(row_names) if id_number is not None else None


def _libraries(path: Path) -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(
            f"{path}: Parquet files need pyarrow, which is not installed; "
            'pip install "noisyor[parquet]" brings it'
        ) from None
    return pyarrow, pyarrow.parquet
