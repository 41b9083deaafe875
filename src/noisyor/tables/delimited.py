"""Text files of fields: 0/1 columns or texts in CSV and TSV, lists of items, and pairs."""

from __future__ import annotations

import csv
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from noisyor._util.files import FORMULA_STARTS
from noisyor._util.progress import progress_bar
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.tables.documents import TEXT_FIELD, TITLE_FIELD, Texts, rows_of_texts
from noisyor.tables.hints import cell_hint, columns_hint
from noisyor.tables.options import ReadOptions
from noisyor.tables.table import (
    Cells,
    Lines,
    Table,
    as_index,
    column_index,
    distinct_names,
    file_lines,
    find_roles,
    role_index,
    rows_of_codes,
    rows_of_items,
    weight_of,
    weighted_table,
)

_DELIMITERS = ",;\t|"
_QUOTED = re.compile(r'"[^"]*"?')

_HEAD_ROWS = 20
"""Rows that show whether a column ``text`` holds documents."""

_SAMPLE_ROWS, _SAMPLE_CELLS = 1000, 1_000_000
"""Size of the sample that is examined if some columns do not hold 0 and 1."""

Fields = Iterator[tuple[int, list[str]]]


# ---- records


def fields(lines: Lines, where: object, delimiter: str = ",") -> Fields:
    """Iterate over records: number of the first line, and fields; blank lines are left out.

    ``lines`` begin with the first line of the file. Fields between commas and the like may be
    quoted and then hold line ends. Fields between tabs are not unquoted.
    """
    # The library's limit is for the whole process; texts are longer than its 128 KiB.
    csv.field_size_limit(max(csv.field_size_limit(), min(sys.maxsize, 2**31 - 1)))
    options: dict[str, Any] = {"quoting": csv.QUOTE_NONE} if delimiter == "\t" else {}
    reader = csv.reader((line for _, line in lines), delimiter=delimiter, strict=True, **options)
    while True:
        begin = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            is_open = "unexpected end of data" in str(error)
            reason = "a quotation mark is not closed" if is_open else error
            raise InvalidDataError(f"{where}, line {begin}: {reason}") from error
        if row is None:
            return
        if row:
            yield begin, row


def equally_wide(
    rows: Iterable[tuple[int, list[str]]], where: object, width: int | None = None, hint: str = ""
) -> Fields:
    """Check that all rows are as wide as the first, or as ``width``; errors end in the hint."""
    for line_number, row in rows:
        width = len(row) if width is None else width
        if len(row) != width:
            raise InvalidDataError(
                f"{where}, line {line_number}: {len(row)} fields, expected {width}{hint}"
            )
        yield line_number, row


def _file_fields(path: Path, options: ReadOptions) -> Fields:
    """Iterate over the records of a file; the first line shows the delimiter."""
    lines = file_lines(path, options)
    first = next(lines, (1, ""))
    unquoted = _QUOTED.sub("", first[1])
    delimiter = "\t" if options.format == "tsv" else max(_DELIMITERS, key=unquoted.count)
    return fields(itertools.chain([first], lines), path, delimiter)


# ---- CSV and TSV


def read(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Read a matrix of 0 and 1, or the documents in ``options.text_field``.

    If a column ``text`` does not hold 0 and 1, the file holds documents. ``columns`` restricts the
    matrix to these names if the file has column names.
    """
    hint = (
        "; a field that contains the delimiter is quoted; if each line lists its items, give "
        "ReadOptions(format='baskets')"
    )
    rows = equally_wide(_file_fields(path, options), path, hint=hint)
    first = next(rows, None)
    if first is None:
        raise InvalidDataError(f"{path} is empty")
    top, width = first[1], len(first[1])
    cells = Cells(options.above, options.truth)
    has_header = options.header
    if has_header is None and options.text_field is not None:
        # A column is found by name only where there is a header.
        has_header = not options.text_field.lstrip("-").isdigit()
    elif has_header is None:
        has_header = _is_header(top, cells, options)
    names = None
    if has_header:
        names = distinct_names(_header_names(top))
        head = list(itertools.islice(rows, _HEAD_ROWS))
        rows = itertools.chain(head, rows)
        if _holds_texts(names, [row for _, row in head], cells, options, columns):
            options = replace(options, text_field=TEXT_FIELD)
    else:
        rows = itertools.chain([first], rows)
    if options.text_field is not None:
        return rows_of_texts(_texts(rows, names, width, path, options), path, options, columns)
    # A frame that was written with its row labels has no name for their column.
    if names is not None and options.id_column is None and not top[0].strip() and width > 1:
        options = replace(options, id_column=names[0])
    roles = find_roles(options, names, width, path, columns)
    kept = roles.kept
    row_names: list[str] = []
    weights: list[float] = []
    codes = bytearray()  # of all cells: an eighth of the memory of a matrix of floats
    pick = itemgetter(*kept) if len(kept) > 1 else lambda row: (row[kept[0]],)
    everything = len(kept) == width
    with progress_bar(None, f"read {path.name}", "rows", None, delay=2.0) as bar:
        for line_number, row in rows:
            try:
                codes += bytes(map(cells.__getitem__, row if everything else pick(row)))
            except ValueError:
                hints = _hints_for_columns(row, rows, kept, names, cells, is_first=not codes)
                raise InvalidDataError(f"{path}, line {line_number}, {hints}") from None
            if roles.id is not None:
                row_names.append(row[roles.id])
            if roles.weights is not None:
                weights.append(weight_of(row[roles.weights], f"{path}, line {line_number}"))
            bar.update()
    if not codes:
        raise InvalidDataError(f"{path} holds no rows, only the names of columns")
    matrix = np.frombuffer(codes, dtype=np.uint8).reshape(-1, len(kept))
    kept_names = None if names is None else [names[k] for k in kept]
    return weighted_table(path, rows_of_codes(matrix, kept_names), row_names, weights)


def _texts(
    rows: Fields, names: list[str] | None, width: int, path: Path, options: ReadOptions
) -> Texts:
    """Iterate over documents: name of the row, if a column has one, and text."""
    wanted = str(options.text_field)
    text = column_index(wanted, names, width, f"{path}: text field")
    name = role_index(options.id_column, options.id_required, names, width, str(path))
    if name is None and names is not None and TITLE_FIELD in names and wanted != TITLE_FIELD:
        name = names.index(TITLE_FIELD)
    for _, row in rows:
        yield (None if name is None else row[name]), row[text]


def _holds_texts(
    names: list[str],
    head: list[list[str]],
    cells: Cells,
    options: ReadOptions,
    columns: Sequence[str] | None,
) -> bool:
    """Return whether a column ``text`` holds documents: some first rows have several words."""
    used = {options.id_column, options.weights, *options.drop, *(columns or ())}
    if options.text_field is not None or TEXT_FIELD not in names or TEXT_FIELD in used:
        return False
    texts = [row[names.index(TEXT_FIELD)] for row in head]
    return any(len(text.split()) > 1 and not cells.is_known(text) for text in texts)


def _is_header(top: list[str], cells: Cells, options: ReadOptions) -> bool:
    """Guess whether the first line is a header: no field is a value, or the fields count from 0."""
    roles = (options.id_column, options.weights)
    if any(role in top and not cells.is_known(role) for role in roles if role is not None):
        return True
    labels = top[1:] if top[0] == "" else top
    if len(labels) > 2 and labels == [str(k) for k in range(len(labels))]:
        return True
    if len(labels) > 3 and 2 * len(set(labels)) <= len(labels):
        return False  # words that repeat are values in a notation that is not known yet
    skipped = [as_index(role, len(top)) for role in roles]
    return not any(cells.is_value(cell) for k, cell in enumerate(top) if k not in skipped)


def _header_names(top: list[str]) -> list[str]:
    """Return the names in a header, without the apostrophes that `csv_content` adds."""
    names = []
    for index, cell in enumerate(top):
        name = cell.strip()
        if name[:1] == "'" and name[1:].startswith(FORMULA_STARTS):
            name = name[1:]
        names.append(name or f"column {index}")
    return names


def _hints_for_columns(
    row: list[str],
    following: Fields,
    kept: list[int],
    names: list[str] | None,
    cells: Cells,
    is_first: bool,
) -> str:
    """Describe the invalid values of a row, with a hint for each column."""
    size = min(_SAMPLE_ROWS, max(1, _SAMPLE_CELLS // len(row)))
    sample = [row, *(other for _, other in itertools.islice(following, size))]
    bad = [k for k in kept if not all(cells.is_known(other[k]) for other in sample)]
    label = [str(k) for k in range(len(row))] if names is None else names
    hints = {label[k]: cell_hint(label[k], [other[k] for other in sample]) for k in bad}
    hint = columns_hint(hints, len(kept))
    first = next(k for k in bad if not cells.is_known(row[k]))
    found = row[first] if len(row[first]) <= 40 else row[first][:40] + "..."
    if cells.truth is not None and "truth=" not in hint:
        hint = (
            f"ReadOptions(truth={cells.truth!r}) does not name it; several words for 1 or for 0 "
            "have commas between them: y,1/n,0"
        )
    elif len(row) == 1 and all(cells.is_known(part) for part in re.split(r"[\s,;|]", row[0])):
        return (
            f"one field {found!r}: expected one of , ; | or a tab between columns, and tabs in the "
            "format tsv"
        )
    if names is None and is_first:
        hint += "; if the first line names the columns, give ReadOptions(header=True)"
    if len(row) in (2, 3) and bad[:2] == [0, 1]:
        hint += "; if each line is a row and one of its items, give ReadOptions(format='pairs')"
    return f"column {label[first]!r}: expected {cells.expected}, got {found!r}; {hint}"


# ---- lists of items, and pairs


def read_baskets(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Read a file whose lines list items, with a name if an id column is given."""

    def baskets() -> Iterator[tuple[str | None, list[str]]]:
        records = _file_fields(path, options)
        for line_number, row in itertools.islice(records, int(bool(options.header)), None):
            name = None
            if options.id_column is not None:
                where = f"{path}, line {line_number}: id column"
                name = row.pop(column_index(options.id_column, None, len(row), where))
            yield name, [item.strip() for item in row if item.strip()]

    return rows_of_items(baskets(), path, options, columns)


def read_pairs(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Read a row and one of its items per line, from the first two columns.

    ``id_column`` and ``text_field`` name other columns. Rows come in the order in which they are
    first named.
    """
    if options.above is not None:
        raise InvalidSettingError(f"{path}: pairs have no threshold; remove such lines beforehand")
    lines = list(equally_wide(_file_fields(path, options), path))
    if not lines:
        raise InvalidDataError(f"{path} is empty")
    width = len(lines[0][1])
    if width < 2:
        raise InvalidDataError(f"{path}: a pair is a row and an item, got lines of one field")
    top = [cell.strip() for cell in lines[0][1]]
    header = options.header
    if header is None:
        # A first line whose two fields never come again names the columns. A wrong guess loses
        # the only item of a row, which no other row has.
        header = bool({options.id_column, options.text_field} & set(top)) or all(
            row[0].strip() != top[0] and row[1].strip() != top[1] for _, row in lines[1:]
        )
    names = top if header else None
    row = column_index(options.id_column or "0", names, width, f"{path}: id column")
    item = column_index(options.text_field or "1", names, width, f"{path}: text field")
    baskets: dict[str, list[str]] = {}
    for _, cells in itertools.islice(lines, int(header), None):
        items = baskets.setdefault(cells[row].strip(), [])
        text = cells[item].strip()
        if text:
            items.append(text)
    return rows_of_items(baskets.items(), path, options, columns)
