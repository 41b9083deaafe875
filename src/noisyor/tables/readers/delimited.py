"""Matrices of 0 and 1, or a column of texts, in CSV and TSV files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path

import numpy as np

from noisyor.errors import InvalidDataError
from noisyor.tables.cells import Cells, cell_hint
from noisyor.tables.columns import (
    as_number,
    column_number,
    id_column,
    kept_columns,
    weight_of,
    weights_column,
)
from noisyor.tables.lines import equally_wide, file_fields
from noisyor.tables.options import ReadOptions
from noisyor.tables.readers.documents import DEFAULT_FIELD, rows_of_texts
from noisyor.tables.table import RowBuilder, Table, weighted_table

__all__ = ["read", "read_texts"]

_BLOCK_CELLS = 4_000_000

_SAMPLE = 1000
"""Further rows that are looked at for what a column holds, if it does not hold 0 and 1."""


def read(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """The matrix, or the documents in ``options.text_field``.

    ``columns`` restricts the matrix to these names where the file names its columns.
    """
    if options.text_field is not None:
        return rows_of_texts(read_texts(path, options), path, options, columns)
    hint = "; if each line lists its items, give ReadOptions(format='baskets')"
    rows = equally_wide(file_fields(path, options), path, hint=hint)
    first = next(rows, None)
    if first is None:
        raise InvalidDataError(f"{path} is empty")
    top = first[1]
    cells = Cells(options.above, options.truth)
    has_header = _is_header(top, cells, options) if options.header is None else options.header
    names = _names(top) if has_header else None
    width = len(top)
    id_number = id_column(options, names, width, path, columns)
    if id_number is None and names is not None and not top[0].strip() and width > 1:
        id_number = 0  # written with its row labels, which have no name
    weight_number = weights_column(options, names, width, path, columns)
    kept = kept_columns(options, names, width, (id_number, weight_number), path, columns)
    builder = RowBuilder(path, None if names is None else [names[k] for k in kept])
    row_names: list[str] = []
    weights: list[float] = []
    block = bytearray()
    everything = len(kept) == width
    pick = itemgetter(*kept) if len(kept) > 1 else lambda row: (row[kept[0]],)
    for number, row in itertools.chain([] if has_header else [first], rows):
        try:
            block += bytes(map(cells.__getitem__, row if everything else pick(row)))
        except ValueError:
            usual = builder.n_rows > 0 or len(block) > 0
            sample = [row, *(other for _, other in itertools.islice(rows, _SAMPLE))]
            raise _bad_cell(path, number, sample, kept, names, cells, usual) from None
        if id_number is not None:
            row_names.append(row[id_number])
        if weight_number is not None:
            weights.append(weight_of(row[weight_number], f"{path}, line {number}"))
        if len(block) > _BLOCK_CELLS:
            _flush(builder, block, len(kept))
            block = bytearray()
    _flush(builder, block, len(kept))
    if not builder.n_rows:
        raise InvalidDataError(f"{path} holds no rows, only the names of columns")
    return weighted_table(
        path,
        builder.finish(),
        None if id_number is None else row_names,
        None if weight_number is None else weights,
    )


def read_texts(path: Path, options: ReadOptions) -> Iterator[tuple[str | None, str]]:
    """Name of the row, if an id column is given, and text of each document."""
    rows = equally_wide(file_fields(path, options), path)
    first = next(rows, None)
    if first is None:
        return
    number, top = first
    wanted = DEFAULT_FIELD if options.text_field is None else options.text_field
    # A column is found by name only where there is a header.
    by_name = not wanted.lstrip("-").isdigit()
    has_header = by_name if options.header is None else options.header
    names = [cell.strip() for cell in top] if has_header else None
    text = column_number(wanted, names, len(top), f"{path}, line {number}: text field")
    name = id_column(options, names, len(top), path)
    for _, row in itertools.chain([] if has_header else [first], rows):
        yield (None if name is None else row[name]), row[text]


def _flush(builder: RowBuilder, block: bytearray, width: int) -> None:
    builder.add_codes(np.frombuffer(block, dtype=np.uint8).reshape(-1, width))


def _is_header(top: list[str], cells: Cells, options: ReadOptions) -> bool:
    """A first line is a header if none of its fields is a value, or if it counts from 0."""
    for role in (options.id_column, options.weights):
        if role in top and role not in cells:
            return True
    labels = top[1:] if top[0] == "" else top
    if len(labels) > 2 and labels == [str(k) for k in range(len(labels))]:
        return True
    if len(labels) > 3 and 2 * len(set(labels)) <= len(labels):
        return False  # words that repeat are values in a notation that is not known yet
    skipped = [as_number(role, len(top)) for role in (options.id_column, options.weights)]
    return not any(cells.is_value(cell) for k, cell in enumerate(top) if k not in skipped)


def _names(top: list[str]) -> list[str]:
    names = [cell.strip() for cell in top]
    return [name or f"column {k}" for k, name in enumerate(names)]


def _bad_cell(
    path: Path,
    number: int,
    sample: list[list[str]],
    kept: list[int],
    names: list[str] | None,
    cells: Cells,
    usual: bool,
) -> InvalidDataError:
    """The error of the first row of a sample, with what its column tells about itself."""
    row = sample[0]
    for column in kept:
        try:
            cells[row[column]]
        except ValueError:
            break
    label = str(column) if names is None else names[column]
    hint = cell_hint(label, [other[column] for other in sample], usual)
    if len(row) in (2, 3):
        hint += "; if each line is a row and one of its items, give ReadOptions(format='pairs')"
    came = row[column] if len(row[column]) <= 40 else row[column][:40] + "..."
    return InvalidDataError(
        f"{path}, line {number}, column {label!r}: expected 0, 1 or missing, got {came!r}; {hint}"
    )
