"""Text files of fields: 0/1 columns or texts in CSV and TSV, lists of items, and pairs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path

import numpy as np

from noisyor._util.files import FORMULA_STARTS
from noisyor._util.progress import progress_bar
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError
from noisyor.tables.cells import Cells, cell_hint, columns_hint
from noisyor.tables.documents import TEXT_FIELD, TITLE_FIELD, rows_of_texts
from noisyor.tables.lines import Fields, equally_wide, file_fields
from noisyor.tables.options import ReadOptions
from noisyor.tables.table import (
    Roles,
    RowBuilder,
    Table,
    as_index,
    check_columns,
    column_index,
    distinct_names,
    id_index,
    weight_of,
    weighted_table,
)

__all__ = ["read", "read_baskets", "read_pairs", "read_texts", "rows_of_items"]

_BLOCK_CELLS = 4_000_000

_HEAD_ROWS = 20
"""Rows that show whether a column ``text`` holds documents."""

_SAMPLE_ROWS, _SAMPLE_CELLS = 1000, 1_000_000
"""Size of the sample that shows what the columns hold if some do not hold 0 and 1."""


# ---- CSV and TSV


def read(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Read a matrix of 0 and 1, or the documents in ``options.text_field``.

    A column ``text`` that does not hold 0 and 1 makes the file one of documents. ``columns``
    restricts the matrix to these names where the file names its columns.
    """
    if options.text_field is not None:
        return _documents(path, options, columns)
    hint = "; if each line lists its items, give ReadOptions(format='baskets')"
    rows = equally_wide(file_fields(path, options), path, hint=hint)
    first = next(rows, None)
    if first is None:
        raise InvalidDataError(f"{path} is empty")
    top, width = first[1], len(first[1])
    cells = Cells(options.above, options.truth)
    has_header = _is_header(top, cells, options) if options.header is None else options.header
    names, notes = None, ()  # type: list[str] | None, tuple[str, ...]
    if has_header:
        names, notes = distinct_names(_names(top), path)
        head = list(itertools.islice(rows, _HEAD_ROWS))
        if _holds_texts(names, [row for _, row in head], cells, options, columns):
            return _documents(path, options, columns)
        rows = itertools.chain(head, rows)
    else:
        rows = itertools.chain([first], rows)
    # A frame that was written with its row labels has no name for their column.
    labels = 0 if names is not None and not top[0].strip() and width > 1 else None
    roles = Roles.of(options, names, width, path, columns, labels)
    builder = RowBuilder(path, roles.kept_names)
    row_names: list[str] = []
    weights: list[float] = []
    kept, block = roles.kept, bytearray()
    pick = itemgetter(*kept) if len(kept) > 1 else lambda row: (row[kept[0]],)
    everything = len(kept) == width
    with progress_bar(None, f"read {path.name}", "rows", None, delay=2.0) as bar:
        for number, row in rows:
            try:
                block += bytes(map(cells.__getitem__, row if everything else pick(row)))
            except ValueError:
                usual = builder.n_rows > 0 or len(block) > 0
                raise _bad_cells(path, number, row, rows, roles, cells, usual) from None
            if roles.id is not None:
                row_names.append(row[roles.id])
            if roles.weights is not None:
                weights.append(weight_of(row[roles.weights], f"{path}, line {number}"))
            if len(block) > _BLOCK_CELLS:
                _flush(builder, block, len(kept))
                block = bytearray()
            bar.update()
    _flush(builder, block, len(kept))
    if not builder.n_rows:
        raise InvalidDataError(f"{path} holds no rows, only the names of columns")
    return weighted_table(
        path,
        builder.finish(),
        None if roles.id is None else row_names,
        None if roles.weights is None else weights,
        notes,
    )


def read_texts(path: Path, options: ReadOptions) -> Iterator[tuple[str | None, str]]:
    """Iterate over documents: name of the row, if a column has one, and text."""
    rows = equally_wide(file_fields(path, options), path)
    first = next(rows, None)
    if first is None:
        return
    number, top = first
    wanted = TEXT_FIELD if options.text_field is None else options.text_field
    # A column is found by name only where there is a header.
    by_name = not wanted.lstrip("-").isdigit()
    has_header = by_name if options.header is None else options.header
    names = [cell.strip() for cell in top] if has_header else None
    text = column_index(wanted, names, len(top), f"{path}, line {number}: text field")
    name = id_index(options, names, len(top), path)
    if name is None and names is not None and TITLE_FIELD in names and wanted != TITLE_FIELD:
        name = names.index(TITLE_FIELD)
    for _, row in itertools.chain([] if has_header else [first], rows):
        yield (None if name is None else row[name]), row[text]


def _documents(path: Path, options: ReadOptions, columns: Sequence[str] | None) -> Table:
    return rows_of_texts(read_texts(path, options), path, options, columns)


def _holds_texts(
    names: list[str],
    head: list[list[str]],
    cells: Cells,
    options: ReadOptions,
    columns: Sequence[str] | None,
) -> bool:
    """Tell by the first rows whether a column ``text`` holds documents: some have several words."""
    used = {options.id_column, options.weights, *options.drop, *(columns or ())}
    if TEXT_FIELD not in names or TEXT_FIELD in used:
        return False
    texts = [row[names.index(TEXT_FIELD)] for row in head]
    return any(len(text.split()) > 1 and not cells.is_known(text) for text in texts)


def _flush(builder: RowBuilder, block: bytearray, width: int) -> None:
    builder.add_codes(np.frombuffer(block, dtype=np.uint8).reshape(-1, width))


def _is_header(top: list[str], cells: Cells, options: ReadOptions) -> bool:
    """Guess: a first line is a header if none of its fields is a value, or if it counts from 0."""
    for role in (options.id_column, options.weights):
        if role in top and role not in cells:
            return True
    labels = top[1:] if top[0] == "" else top
    if len(labels) > 2 and labels == [str(k) for k in range(len(labels))]:
        return True
    if len(labels) > 3 and 2 * len(set(labels)) <= len(labels):
        return False  # words that repeat are values in a notation that is not known yet
    skipped = [as_index(role, len(top)) for role in (options.id_column, options.weights)]
    return not any(cells.is_value(cell) for k, cell in enumerate(top) if k not in skipped)


def _names(top: list[str]) -> list[str]:
    """Return the names in a header, without the apostrophes that `csv_content` adds."""
    names = [cell.strip() for cell in top]
    plain = [
        name[1:] if name[:1] == "'" and name[1:].startswith(FORMULA_STARTS) else name
        for name in names
    ]
    return [name or f"column {k}" for k, name in enumerate(plain)]


def _bad_cells(
    path: Path,
    number: int,
    row: list[str],
    following: Fields,
    roles: Roles,
    cells: Cells,
    usual: bool,
) -> InvalidDataError:
    """Build the error for a row with other values, with a hint for every column that has some."""
    size = min(_SAMPLE_ROWS, max(1, _SAMPLE_CELLS // len(row)))
    sample = [row, *(other for _, other in itertools.islice(following, size))]
    bad: dict[int, None] = {}
    for other in sample:
        for column in roles.kept:
            if column not in bad and not cells.is_known(other[column]):
                bad[column] = None
    first = next(iter(bad))
    labels = {k: str(k) if roles.names is None else roles.names[k] for k in sorted(bad)}
    hints = {
        label: cell_hint(label, [other[column] for other in sample], usual)
        for column, label in labels.items()
    }
    hint = columns_hint({labels[first]: hints.pop(labels[first]), **hints})
    if len(row) in (2, 3):
        hint += "; if each line is a row and one of its items, give ReadOptions(format='pairs')"
    came = row[first] if len(row[first]) <= 40 else row[first][:40] + "..."
    return InvalidDataError(
        f"{path}, line {number}, column {labels[first]!r}: expected 0, 1 or missing, "
        f"got {came!r}; {hint}"
    )


# ---- lists of items


def read_baskets(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Read a file whose lines list items."""
    return rows_of_items(_baskets(path, options), path, options, columns)


def rows_of_items(
    records: Iterable[tuple[str | None, list[str]]],
    where: object,
    options: ReadOptions,
    columns: Sequence[str] | None = None,
) -> Table:
    """Build a column for each item, the most frequent first, or the columns that are given.

    Parameters
    ----------
    records : name, or None, and items of each row.
    where : names the file in errors.
    options : ``drop`` and ``vocabulary`` are used.
    columns : names of the columns; occurrences of other items are counted as ``ignored``.
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
    index_of = {item: k for k, item in enumerate(columns)}
    data = Observations.from_indices(
        ([index_of[item] for item in row if item in index_of] for row in rows),
        len(columns),
        column_names=columns,
    )
    known = tuple(name for name in names if name is not None)
    unknown = sum(n for item, n in counts.items() if item not in index_of)
    return Table(data, known if len(known) == len(rows) else None, ignored=unknown)


def _baskets(path: Path, options: ReadOptions) -> Iterator[tuple[str | None, list[str]]]:
    """Iterate over lines: name (if an id column is given) and items."""
    records = file_fields(path, options)
    for number, row in itertools.islice(records, int(bool(options.header)), None):
        name = None
        if options.id_column is not None:
            where = f"{path}, line {number}: id column"
            name = row.pop(column_index(options.id_column, None, len(row), where))
        yield name, [item.strip() for item in row if item.strip()]


# ---- pairs


def read_pairs(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Read a row and one of its items per line, from the first two columns.

    ``id_column`` and ``text_field`` name other columns. With ``above`` the third column, or the
    only further one that is not dropped, is a number, and a pair counts if it is larger. Rows come
    in the order in which they are first named.
    """
    lines = list(equally_wide(file_fields(path, options), path))
    if not lines:
        raise InvalidDataError(f"{path} is empty")
    width = len(lines[0][1])
    if width < 2:
        raise InvalidDataError(f"{path}: a pair is a row and an item, got lines of one field")
    top = [cell.strip() for cell in lines[0][1]]
    header = options.header
    if header is None:
        named = options.id_column in top or options.text_field in top
        header = named or _is_header_of_pairs(lines)
    names = top if header else None
    row = column_index(options.id_column or "0", names, width, f"{path}: id column")
    item = column_index(options.text_field or "1", names, width, f"{path}: text field")
    value = None
    if options.above is not None:
        dropped = {column_index(name, names, width, f"{path}: drop") for name in options.drop}
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


def _is_header_of_pairs(lines: list[tuple[int, list[str]]]) -> bool:
    """Guess: a first line whose two fields never come again names the columns.

    A wrong guess loses the only item of a row, which no other row has.
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
