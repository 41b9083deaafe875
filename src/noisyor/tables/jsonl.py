"""JSON lines: objects of 0/1 fields, lists of tags, or documents."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError
from noisyor.tables.cells import MISSING, Cells, columns_hint, role_hint
from noisyor.tables.delimited import rows_of_items
from noisyor.tables.documents import TEXT_FIELD, TITLE_FIELD, rows_of_texts
from noisyor.tables.lines import Lines, file_lines
from noisyor.tables.options import ReadOptions
from noisyor.tables.table import Table, check_columns, weight_of, weighted_table

__all__ = ["field_of", "json_lines", "read", "read_texts", "text_of"]

_LONG_TEXT = 30
"""Words from which a field is a document, such as an abstract beside a title and tags."""

Records = Iterable[tuple[int, Any]]


def read(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Read objects, tags or documents; the first line shows which.

    ``columns`` are the fields, tags or words that are wanted; all if None.
    """
    records = json_lines(file_lines(path, options), path)
    first = next(records, None)
    if first is None:
        raise InvalidDataError(f"{path} is empty")
    everything = itertools.chain([first], records)
    number, record = first
    if isinstance(record, list) and record and all(isinstance(one, dict) for one in record):
        # All objects in one array, as some programs write them.
        everything = itertools.chain(enumerate(record, 1), records)
        record = record[0]
    field = options.text_field
    if isinstance(record, dict):
        if field is None:
            field = _main_field(record)
        if field is None:
            return _objects(everything, path, options, columns)
        record = field_of(record, field, path, number)
    elif isinstance(record, list | str):
        field = None  # the whole line
    else:
        raise InvalidDataError(
            f"{path}, line {number}: a JSON object or list is expected, got {type(record).__name__}"
        )
    if isinstance(record, list):
        return rows_of_items(_tags(everything, field, path, options), path, options, columns)
    return rows_of_texts(_texts(everything, field, path, options), path, options, columns)


def _main_field(record: dict[str, Any]) -> str | None:
    """Return the field that a file is about: ``text``, the only long text, or the only list."""
    if isinstance(record.get(TEXT_FIELD), str):
        return TEXT_FIELD
    texts = [key for key, value in record.items() if isinstance(value, str) and _is_long(value)]
    lists = [key for key, value in record.items() if isinstance(value, list)]
    for fields in (texts, lists):
        if len(fields) == 1:
            return fields[0]
    return None


def _is_long(text: str) -> bool:
    return len(text.split()) >= _LONG_TEXT


def read_texts(path: Path, options: ReadOptions) -> Iterator[tuple[str | None, str]]:
    """Iterate over documents: name and text; every line is an object with the field."""
    records = json_lines(file_lines(path, options), path)
    first = next(records, None)
    if first is None:
        return iter(())
    field = options.text_field
    if field is None and isinstance(first[1], dict):
        field = _main_field(first[1])
    field = TEXT_FIELD if field is None else field
    return _texts(itertools.chain([first], records), field, path, options)


def json_lines(lines: Lines, where: object) -> Iterator[tuple[int, Any]]:
    """Iterate over lines that are not blank: number and value."""
    for number, line in lines:
        if line.isspace():
            continue
        try:
            yield number, json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            reason = getattr(error, "msg", "too deep")
            raise InvalidDataError(
                f"{where}, line {number}: not JSON ({reason}); a JSON object or list is expected "
                "on every line"
            ) from error
        except ValueError as error:  # numbers of thousands of digits
            raise InvalidDataError(f"{where}, line {number}: {error}") from error


def text_of(
    record: Any, field: str | None, where: object, number: int, errors: str = "strict"
) -> str:
    """Return the text in a field of a record, or the record itself if the field is None.

    ``errors`` is "strict" or "replace", see `noisyor.tables.ReadOptions.encoding_errors`.
    """
    text = record if field is None else field_of(record, field, where, number)
    if not isinstance(text, str):
        what = "the line" if field is None else f"field {field!r}"
        raise InvalidDataError(
            f"{where}, line {number}: {what} is {type(text).__name__}, expected text"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        # JSON can write half a surrogate pair, which no file in UTF-8 can hold.
        if errors == "strict":
            raise InvalidDataError(
                f"{where}, line {number}: half a surrogate pair at position {error.start + 1} of "
                'the text; ReadOptions(encoding_errors="replace") reads on'
            ) from error
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def field_of(record: Any, field: str, where: object, number: int) -> Any:
    """Return the value of a field of the object in a line."""
    if not isinstance(record, dict):
        raise InvalidDataError(
            f"{where}, line {number}: a JSON object with the field {field!r} is expected, "
            f"got {type(record).__name__}"
        )
    if field not in record:
        there = ", ".join(map(repr, list(record)[:12])) or "none"
        raise InvalidDataError(f"{where}, line {number}: no field {field!r} among {there}")
    return record[field]


def _name(record: Any, options: ReadOptions, path: Path, number: int) -> str | None:
    if options.id_column is None:
        return None
    if not options.id_required and options.id_column not in record:
        return None
    return str(field_of(record, options.id_column, path, number))


def _texts(
    records: Records, field: str | None, path: Path, options: ReadOptions
) -> Iterator[tuple[str | None, str]]:
    """Iterate over documents: name and text."""
    for number, record in records:
        text = text_of(record, field, path, number, options.encoding_errors)
        name = _name(record, options, path, number)
        if name is None and isinstance(record, dict) and field != TITLE_FIELD:
            title = record.get(TITLE_FIELD)
            name = title if isinstance(title, str) and title.strip() else None
        yield name, text


def _tags(
    records: Records, field: str | None, path: Path, options: ReadOptions
) -> Iterator[tuple[str | None, list[str]]]:
    """Iterate over lines: name and tags."""
    for number, record in records:
        tags = record if field is None else field_of(record, field, path, number)
        if not isinstance(tags, list) or not all(
            isinstance(tag, str | int) and not isinstance(tag, bool) for tag in tags
        ):
            raise InvalidDataError(f"{path}, line {number}: expected a list of tags (texts)")
        yield _name(record, options, path, number), [str(tag) for tag in tags]


def _objects(
    records: Records, path: Path, options: ReadOptions, columns: Sequence[str] | None
) -> Table:
    """Read objects whose fields are 0 or 1; null is missing.

    A field that a line does not have is missing too, unless the file has no 0 at all: then only
    ones were written down, and the rest is 0. A null is missing in either case.
    """
    column_of: dict[str, int] = {}
    ones: list[list[int]] = []
    zeros: list[list[int]] = []
    nulls: list[list[int]] = []
    names: list[str] = []
    cells = Cells(options.above, options.truth)
    wanted = None if columns is None else frozenset(columns)
    listed = (part.strip() for entry in options.drop for part in entry.split(","))
    skip = {*options.drop, *listed, options.id_column, options.weights}
    weights: list[float] = []
    for number, record in records:
        if not isinstance(record, dict):
            raise InvalidDataError(
                f"{path}, line {number}: a JSON object is expected, got {type(record).__name__}"
            )
        name = _name(record, options, path, number)
        if name is not None:
            names.append(name)
        if options.weights is not None and (options.weights_required or options.weights in record):
            weight = field_of(record, options.weights, path, number)
            weights.append(weight_of(weight, f"{path}, line {number}"))
        known: tuple[list[int], list[int], list[int]] = ([], [], [])
        used = [key for key in record if key not in skip and (wanted is None or key in wanted)]
        try:
            for key in used:
                known[_code(record[key], cells)].append(column_of.setdefault(key, len(column_of)))
        except ValueError:
            raise _bad_fields(record, used, cells, f"{path}, line {number}") from None
        zeros.append(known[0])
        ones.append(known[1])
        nulls.append(known[MISSING])
    check_columns(len(column_of), path)
    missing: Iterable[Any] = nulls
    if any(zeros):
        missing = (_others(len(column_of), on, off) for on, off in zip(ones, zeros, strict=True))
    data = Observations.from_indices(ones, len(column_of), missing, column_names=list(column_of))
    return weighted_table(
        path,
        data,
        names if len(names) == data.n_rows else None,
        weights if len(weights) == data.n_rows else None,
    )


def _others(n_columns: int, *known: list[int]) -> Any:
    """Return the indices of the columns that are in none of the lists."""
    unknown = np.ones(n_columns, dtype=np.bool_)
    for columns in known:
        unknown[columns] = False
    return np.flatnonzero(unknown)


def _code(value: Any, cells: Cells) -> int:
    """Return the code of a value; a ValueError if it is not 0, 1 or missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return cells[""]
    if isinstance(value, list | dict):
        raise ValueError
    return cells[str(value)]


def _bad_fields(
    record: dict[str, Any], used: list[str], cells: Cells, where: str
) -> InvalidDataError:
    """Build the error for an object with other values, which names all their fields."""
    bad = []
    for key in used:
        try:
            _code(record[key], cells)
        except ValueError:
            bad.append(key)
    hint = columns_hint({key: role_hint(key, "field") for key in bad}, "field")
    return InvalidDataError(
        f"{where}, field {bad[0]!r}: expected 0, 1 or null, "
        f"got {json.dumps(record[bad[0]])[:40]}; {hint}"
    )
