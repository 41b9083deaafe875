"""Columns of 0 and 1 in Parquet files, read batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from noisyor._util.parquet_file import (
    check_numbers,
    open_parquet,
    reading_parquet,
    row_labels,
    sparse_block,
)
from noisyor.errors import InvalidDataError
from noisyor.tables.columns import id_column, kept_columns, role_hint
from noisyor.tables.options import ReadOptions
from noisyor.tables.table import RowBuilder, Table, check_columns

__all__ = ["read"]

_BATCH_CELLS = 4_000_000


def read(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Boolean and numeric columns; null is missing. Other columns must be the id or dropped.

    ``columns`` restricts the table to these names.
    """
    with open_parquet(path, options.id_column) as file, reading_parquet(path):
        names = list(file.schema_arrow.names)
        if not names:
            raise InvalidDataError(f"{path} has no columns")
        id_number = id_column(options, names, len(names), path)
        kept = [
            names[k] for k in kept_columns(options, names, len(names), id_number, path, columns)
        ]
        check_columns(len(kept), path)
        builder = RowBuilder(path, kept)
        for name in kept:
            check_numbers(file.schema_arrow, name, path, f"; {role_hint(name)}")
        row_names: list[str] = []
        wanted = kept if id_number is None else [*kept, names[id_number]]
        size = max(1, _BATCH_CELLS // len(wanted))
        for batch in file.iter_batches(batch_size=size, columns=wanted):
            builder.add(sparse_block(batch, kept, options.above))
            if id_number is not None:
                row_names += row_labels(batch.column(names[id_number]), path)
        return Table(builder.finish(), tuple(row_names) if id_number is not None else None)
