"""Lists of pairs, a row and one of its items on each line, as rows of a binary matrix."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from noisyor.errors import InvalidDataError
from noisyor.tables.columns import column_number
from noisyor.tables.lines import equally_wide, file_fields
from noisyor.tables.options import ReadOptions
from noisyor.tables.readers.baskets import rows_of_items
from noisyor.tables.table import Table

__all__ = ["read"]


def read(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """The first two columns, or ``id_column`` and ``text_field``: a row, and an item that it has.

    With ``above`` the third column, or the only further one that is not dropped, is a number; a
    pair counts if it is larger. Rows come in the order in which they are first named.
    """
    lines = list(equally_wide(file_fields(path, options), path))
    if not lines:
        raise InvalidDataError(f"{path} is empty")
    width = len(lines[0][1])
    if width < 2:
        raise InvalidDataError(f"{path}: a pair is a row and an item, got lines of one field")
    top = [cell.strip() for cell in lines[0][1]]
    named = [name for name in (options.id_column, options.text_field) if name in top]
    header = options.header
    if header is None:
        header = bool(named) or _is_header(lines)
    names = top if header else None
    row = column_number(options.id_column or "0", names, width, f"{path}: id column")
    item = column_number(options.text_field or "1", names, width, f"{path}: text field")
    value = None
    if options.above is not None:
        dropped = {column_number(name, names, width, f"{path}: drop") for name in options.drop}
        left = [k for k in range(width) if k not in {row, item, *dropped}]
        if len(left) != 1:
            raise InvalidDataError(
                f"{path}: with a threshold there is one more column, of numbers, got {len(left)}; "
                "drop the others"
            )
        value = left[0]
    baskets: dict[str, list[str]] = {}
    for number, cells in itertools.islice(lines, int(header), None):
        items = baskets.setdefault(cells[row].strip(), [])
        text = cells[item].strip()
        if text and (value is None or _is_above(cells[value], options.above, path, number)):
            items.append(text)
    return rows_of_items(baskets.items(), path, options, columns)


def _is_header(lines: list[tuple[int, list[str]]]) -> bool:
    """A first line whose two fields never come again names the columns.

    If it does not, what is lost is the only item of a row, which no other row has.
    """
    row, item = (cell.strip() for cell in lines[0][1][:2])
    return all(cells[0].strip() != row and cells[1].strip() != item for _, cells in lines[1:])


def _is_above(cell: str, above: float | None, path: Path, number: int) -> bool:
    try:
        return above is None or float(cell) > above
    except ValueError:
        raise InvalidDataError(
            f"{path}, line {number}: expected a number, got {cell.strip()[:40]!r}"
        ) from None
