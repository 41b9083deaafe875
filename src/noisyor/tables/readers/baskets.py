"""Lists of item names (baskets, tags) as rows of a binary matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError
from noisyor.tables.columns import column_number
from noisyor.tables.lines import file_fields
from noisyor.tables.options import ReadOptions
from noisyor.tables.table import Table, check_columns

__all__ = ["read", "rows_of_items"]


def read(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """A file whose lines list items."""
    return rows_of_items(_baskets(path, options), path, options, columns)


def rows_of_items(
    records: Iterable[tuple[str | None, list[str]]],
    where: object,
    options: ReadOptions,
    columns: Sequence[str] | None = None,
) -> Table:
    """A column for each item, the most frequent first, or the columns that are given.

    Parameters
    ----------
    records : name, or None, and items of each row.
    where : names the file in errors.
    options : ``drop`` and ``vocabulary`` are used.
    columns : names of the columns; how often other items occur is ``ignored`` of the table.
    """
    rows: list[list[str]] = []
    names: list[str | None] = []
    counts: Counter[str] = Counter()
    skip = set(options.drop)
    for name, items in records:
        distinct = list(dict.fromkeys(item for item in items if item not in skip))
        rows.append(distinct)
        names.append(name)
        counts.update(distinct)
    if not rows:
        raise InvalidDataError(f"{where} holds no rows")
    if columns is None:
        columns = sorted(counts, key=lambda item: (-counts[item], item))[: options.vocabulary]
        if not columns:
            raise InvalidDataError(f"{where}: no line has an item")
    check_columns(len(columns), where)
    number_of = {item: k for k, item in enumerate(columns)}
    data = Observations.from_indices(
        ([number_of[item] for item in row if item in number_of] for row in rows),
        len(columns),
        column_names=columns,
    )
    known = tuple(name for name in names if name is not None)
    unknown = sum(n for item, n in counts.items() if item not in number_of)
    return Table(data, known if len(known) == len(rows) else None, ignored=unknown)


def _baskets(path: Path, options: ReadOptions) -> Iterator[tuple[str | None, list[str]]]:
    """Name (if an id column is given) and items of each line."""
    for position, (number, row) in enumerate(file_fields(path, options)):
        if position == 0 and options.header:
            continue
        name = None
        if options.id_column is not None:
            where = f"{path}, line {number}: id column"
            name = row.pop(column_number(options.id_column, None, len(row), where))
        yield name, [item.strip() for item in row if item.strip()]
