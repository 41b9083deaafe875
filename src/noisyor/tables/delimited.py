"""Matrices of 0 and 1 in CSV and TSV files, and baskets: lines that list items."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path

import numpy as np

from noisyor.data.columns import require
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError
from noisyor.tables.lines import delimiter_of, fields_of, numbered_lines
from noisyor.tables.options import ReadOptions
from noisyor.tables.row_builder import Gathering

__all__ = [
    "Cells",
    "basket_rows",
    "column_number",
    "id_column",
    "kept_columns",
    "read_delimited",
]

_BLOCK_CELLS = 4_000_000
_MISSING = 2
_CODES = {
    **dict.fromkeys(("0", "0.0", "false", "no"), 0),
    **dict.fromkeys(("1", "1.0", "true", "yes"), 1),
    **dict.fromkeys(("", "na", "n/a", "nan", "null", "none", "?"), _MISSING),
}


class Cells(dict[str, int]):
    """Code of a cell, 0, 1 or 2 for missing; what is no such value is a ValueError."""

    def __init__(self, above: float | None = None) -> None:
        super().__init__({} if above is not None else {"0": 0, "1": 1, "": _MISSING})
        self._above = above

    def __missing__(self, cell: str) -> int:
        code = self._code(cell.strip().lower())
        if len(self) < 100_000:  # numbers with a threshold may all differ
            self[cell] = code
        return code

    def _code(self, text: str) -> int:
        if self._above is None:
            if text in _CODES:
                return _CODES[text]
            number = float(text)
            if number in (0.0, 1.0):
                return int(number)
            raise ValueError(text)
        if _CODES.get(text) == _MISSING:
            return _MISSING
        number = float(_CODES.get(text, text))
        return _MISSING if math.isnan(number) else int(number > self._above)


def read_delimited(
    path: Path,
    options: ReadOptions,
    tabs: bool = False,
    wanted: Sequence[str] | None = None,
) -> tuple[Observations, tuple[str, ...] | None]:
    """The matrix in a CSV file, or a TSV file if ``tabs``, and the names of its rows, if any.

    ``wanted`` restricts the columns to these names where the file names its columns.
    """
    lines = numbered_lines(path, options.encoding)
    first = next(lines, None)
    if first is None:
        raise InvalidDataError(f"{path} is empty")
    delimiter = options.delimiter or ("\t" if tabs else delimiter_of(first[1]))
    rows = fields_of(itertools.chain([first], lines), path, delimiter)
    first_row = next(rows, None)
    if first_row is None:
        raise InvalidDataError(f"{path} is empty")
    top = first_row[1]
    cells = Cells(options.above)
    has_header = options.header
    if has_header is None:
        has_header = _is_header(top, cells, options)
    names = _names(top) if has_header else None
    width = len(top)
    id_number = id_column(options, names, width, path)
    if id_number is None and names is not None and not top[0].strip() and width > 1:
        id_number = 0  # written with its row labels, which have no name
    kept = kept_columns(options, names, width, id_number, path, wanted)
    gathering = Gathering(path, None if names is None else [names[k] for k in kept])
    row_names: list[str] = []
    block = bytearray()
    everything = len(kept) == width
    pick = itemgetter(*kept) if len(kept) > 1 else lambda row: (row[kept[0]],)
    for number, row in itertools.chain([] if has_header else [first_row], rows):
        if len(row) != width:
            raise InvalidDataError(
                f"{path}, line {number}: {len(row)} fields, expected {width}; "
                "if each line lists its items, the format is baskets"
            )
        chosen = row if everything else pick(row)
        try:
            block += bytes(map(cells.__getitem__, chosen))
        except ValueError:
            raise _bad_cell(path, number, row, kept, names, cells) from None
        if id_number is not None:
            row_names.append(row[id_number])
        if len(block) > _BLOCK_CELLS:
            _flush(gathering, block, len(kept))
            block = bytearray()
    _flush(gathering, block, len(kept))
    if not gathering.n_rows:
        raise InvalidDataError(f"{path} holds no rows, only the names of columns")
    return gathering.finish(), tuple(row_names) if id_number is not None else None


def _flush(gathering: Gathering, block: bytearray, width: int) -> None:
    codes = np.frombuffer(bytes(block), dtype=np.uint8).reshape(-1, width)
    gathering.add_masks(codes == 1, codes == _MISSING)


def _is_header(top: list[str], cells: Cells, options: ReadOptions) -> bool:
    """A first line is a header if none of its fields is a value, or if it counts from 0."""
    if options.id_column in top and options.id_column not in cells:
        return True
    labels = top[1:] if top[0] == "" else top
    if len(labels) > 2 and labels == [str(k) for k in range(len(labels))]:
        return True
    skipped = _as_number(options.id_column, len(top))
    return not any(_is_value(cell, cells) for k, cell in enumerate(top) if k != skipped)


def _is_value(cell: str, cells: Cells) -> bool:
    try:
        return cells[cell] != _MISSING
    except ValueError:
        return False


def _names(top: list[str]) -> list[str]:
    names = [cell.strip() for cell in top]
    return [name or f"column {k}" for k, name in enumerate(names)]


def id_column(options: ReadOptions, names: list[str] | None, width: int, path: Path) -> int | None:
    """Number of the column that names the rows, if there is one."""
    if options.id_column is None:
        return None
    if not options.id_required and options.id_column not in (names or ()):
        return None
    return column_number(options.id_column, names, width, f"{path}: id column")


def kept_columns(
    options: ReadOptions,
    names: list[str] | None,
    width: int,
    id_number: int | None,
    path: Path,
    wanted: Sequence[str] | None,
) -> list[int]:
    """Numbers of the columns that hold data: wanted ones, or all that are not dropped."""
    if wanted is not None and names is not None:
        require(names, wanted, path)
        chosen = set(wanted)
        return [k for k, name in enumerate(names) if name in chosen and k != id_number]
    dropped = {column_number(drop, names, width, f"{path}: drop") for drop in options.drop}
    kept = [k for k in range(width) if k not in dropped and k != id_number]
    if not kept:
        raise InvalidDataError(f"{path}: no column is left")
    return kept


def column_number(wanted: str, names: list[str] | None, width: int, where: str) -> int:
    """A column from its name, or from its number if no column has that name."""
    if names is not None and wanted in names:
        return names.index(wanted)
    number = _as_number(wanted, width)
    if number is None:
        there = f"there are {', '.join(map(repr, names[:12]))}" if names else f"{width} columns"
        more = " ..." if names is not None and len(names) > 12 else ""
        raise InvalidDataError(f"{where}: no column {wanted!r}; {there}{more}")
    return number


def _as_number(wanted: str | None, width: int) -> int | None:
    try:
        number = int(wanted or "")
    except ValueError:
        return None
    return number % width if -width <= number < width else None


def _bad_cell(
    path: Path,
    number: int,
    row: list[str],
    kept: list[int],
    names: list[str] | None,
    cells: Cells,
) -> InvalidDataError:
    for column in kept:
        try:
            cells[row[column]]
        except ValueError:
            break
    label = str(column) if names is None else names[column]
    numeric = row[column].strip().lstrip("-").replace(".", "", 1).isdigit()
    if numeric:
        hint = "a threshold (--above 0, say) turns numbers into 0 and 1"
    else:
        hint = (
            f"if this column names the rows, give --id-column {label}; "
            f"if it does not matter, --drop {label}"
        )
    came = row[column] if len(row[column]) <= 40 else row[column][:40] + "..."
    return InvalidDataError(
        f"{path}, line {number}, column {label!r}: expected 0, 1 or missing, got {came!r}; {hint}"
    )


def basket_rows(path: Path, options: ReadOptions) -> Iterator[tuple[int, str | None, list[str]]]:
    """Line number, name (if an id column is given) and items of each line."""
    lines = numbered_lines(path, options.encoding)
    first = next(lines, None)
    if first is None:
        raise InvalidDataError(f"{path} is empty")
    rows = fields_of(
        itertools.chain([first], lines), path, options.delimiter or delimiter_of(first[1])
    )
    for position, (number, row) in enumerate(rows):
        if position == 0 and options.header:
            continue
        name = None
        if options.id_column is not None:
            where = f"{path}, line {number}: id column"
            name = row.pop(column_number(options.id_column, None, len(row), where))
        yield number, name, [item.strip() for item in row if item.strip()]
