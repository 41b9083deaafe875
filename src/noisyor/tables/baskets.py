"""Lists of item names (baskets, tags) as rows of a binary matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError
from noisyor.tables.options import ReadOptions
from noisyor.tables.row_builder import check_columns

__all__ = ["rows_of_items"]


def rows_of_items(
    records: Iterable[tuple[int, str | None, list[str]]],
    where: object,
    options: ReadOptions,
    columns: Sequence[str] | None = None,
) -> tuple[Observations, tuple[str, ...] | None, int]:
    """A column for each item, the most frequent first, or the columns that are given.

    Returns the rows, their names if all have one, and how many items in all were not among the
    columns.
    """
    rows: list[list[str]] = []
    names: list[str | None] = []
    counts: Counter[str] = Counter()
    skip = set(options.drop)
    for _, name, items in records:
        distinct = list(dict.fromkeys(item for item in items if item not in skip))
        rows.append(distinct)
        names.append(name)
        counts.update(distinct)
    if not rows:
        raise InvalidDataError(f"{where} holds no rows")
    if columns is None:
        ranked = sorted(counts, key=lambda item: (-counts[item], item))[: options.vocabulary]
        if not ranked:
            raise InvalidDataError(f"{where}: no line has an item")
        columns = ranked
    check_columns(len(columns), where)
    number_of = {item: k for k, item in enumerate(columns)}
    unknown = sum(n for item, n in counts.items() if item not in number_of)
    data = Observations.from_indices(
        ([number_of[item] for item in row if item in number_of] for row in rows),
        len(columns),
        column_names=columns,
    )
    known = tuple(name for name in names if name is not None)
    return data, known if len(known) == len(rows) else None, unknown
