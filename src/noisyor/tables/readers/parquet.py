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
from noisyor.tables.cells import role_hint
from noisyor.tables.columns import (
    id_column,
    kept_columns,
    weight_of,
    weights_column,
)
from noisyor.tables.options import ReadOptions
from noisyor.tables.table import RowBuilder, Table, check_columns, weighted_table

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
        id_number = id_column(options, names, len(names), path, columns)
        weight_number = weights_column(options, names, len(names), path, columns)
        roles = (id_number, weight_number)
        kept = [names[k] for k in kept_columns(options, names, len(names), roles, path, columns)]
        check_columns(len(kept), path)
        builder = RowBuilder(path, kept, truth=options.truth)
        for name in kept:
            check_numbers(file.schema_arrow, name, path, f"; {role_hint(name)}")
        row_names: list[str] = []
        weights: list[float] = []
        wanted = [*kept, *(names[k] for k in dict.fromkeys(roles) if k is not None)]
        size = max(1, _BATCH_CELLS // len(wanted))
        for batch in file.iter_batches(batch_size=size, columns=wanted):
            builder.add(sparse_block(batch, kept, options.above))
            if id_number is not None:
                row_names += row_labels(batch.column(names[id_number]), path)
            if weight_number is not None:
                for value in batch.column(names[weight_number]).to_pylist():
                    weights.append(weight_of(value, f"{path}, row {len(weights)}"))
        return weighted_table(
            path,
            builder.finish(),
            None if id_number is None else row_names,
            None if weight_number is None else weights,
        )
