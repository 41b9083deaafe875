"""Rows of a data file for a command that has a model: which to read, and how."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisyor.cli.options import number_ranges
from noisyor.errors import InvalidSettingError

if TYPE_CHECKING:
    from noisyor.io.model_file import SavedModel
    from noisyor.tables import Table

__all__ = ["read_for", "row_numbers"]


def read_for(saved: SavedModel, data: Path, reading: dict[str, Any]) -> Table:
    """DATA in the columns of a model, read as the model's own data were unless told otherwise."""
    from noisyor.tables.options import options_like
    from noisyor.tables.read import read_table

    table = read_table(data, options_like(saved.metadata, data, reading), saved.network)
    for note in table.notes:
        click.echo(f"note: {note}", err=True)
    if table.ignored:
        click.echo(
            f"note: {table.ignored:,} columns or items of {data} are not in the model", err=True
        )
    return table


def row_numbers(text: str, n_rows: int) -> list[int]:
    """Rows from a list such as ``0-9`` or ``0,3,5-7``, given as ``--rows``; all must exist."""
    ranges = number_ranges("--rows", text)
    last = max(found.stop for found in ranges) - 1
    if last >= n_rows:
        raise InvalidSettingError(
            f"--rows: row {last} does not exist, there are rows 0 to {n_rows - 1}"
        )
    return list(dict.fromkeys(chain.from_iterable(ranges)))
