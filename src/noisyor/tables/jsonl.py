"""JSON lines: objects of 0/1 columns, lists of tags, or documents."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError
from noisyor.tables.delimited import Cells
from noisyor.tables.lines import numbered_lines
from noisyor.tables.options import ReadOptions
from noisyor.tables.row_builder import check_columns, named

__all__ = ["json_kind", "json_lines", "read_objects", "tag_rows", "text_records"]

Records = Iterator[tuple[int, Any]]
Kind = Literal["documents", "tags", "columns"]

_TEXT = "text"


def json_lines(path: Path, options: ReadOptions) -> Records:
    """Line number and value of each line that is not blank."""
    for number, line in numbered_lines(path, options.encoding):
        if line.isspace():
            continue
        try:
            yield number, json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            reason = getattr(error, "msg", "too deep")
            raise InvalidDataError(
                f"{path}, line {number}: not JSON ({reason}); a JSON object or list is expected "
                "on every line"
            ) from error
        except ValueError as error:  # numbers of thousands of digits
            raise InvalidDataError(f"{path}, line {number}: {error}") from error


def json_kind(path: Path, options: ReadOptions) -> tuple[Kind, str | None, Records]:
    """What the lines are, told by the first; the field with the text or the tags; all lines."""
    records = json_lines(path, options)
    first = next(records, None)
    if first is None:
        raise InvalidDataError(f"{path} is empty")
    number, record = first
    everything = itertools.chain([first], records)
    field = options.text_field
    if isinstance(record, list):
        return "tags", None, everything
    if isinstance(record, str):
        return "documents", None, everything
    if not isinstance(record, dict):
        raise InvalidDataError(
            f"{path}, line {number}: a JSON object or list is expected, got {type(record).__name__}"
        )
    if field is not None:
        value = _field(record, field, path, number)
        return ("tags" if isinstance(value, list) else "documents"), field, everything
    lists = [key for key, value in record.items() if isinstance(value, list)]
    if isinstance(record.get(_TEXT), str):
        return "documents", _TEXT, everything
    if len(lists) == 1:
        return "tags", lists[0], everything
    return "columns", None, everything


def _field(record: Any, field: str, path: Path, number: int) -> Any:
    if not isinstance(record, dict) or field not in record:
        there = ", ".join(map(repr, list(record)[:12])) if isinstance(record, dict) else "none"
        raise InvalidDataError(f"{path}, line {number}: no field {field!r} among {there}")
    return record[field]


def _name(record: Any, options: ReadOptions, path: Path, number: int) -> str | None:
    if options.id_column is None:
        return None
    if not options.id_required and options.id_column not in record:
        return None
    return str(_field(record, options.id_column, path, number))


def text_records(
    records: Records, field: str | None, path: Path, options: ReadOptions
) -> Iterator[tuple[str | None, str]]:
    """Name and text of each document."""
    for number, record in records:
        text = record if field is None else _field(record, field, path, number)
        if not isinstance(text, str):
            what = "the line" if field is None else f"field {field!r}"
            raise InvalidDataError(
                f"{path}, line {number}: {what} is {type(text).__name__}, expected text"
            )
        yield _name(record, options, path, number), text


def tag_rows(
    records: Records, field: str | None, path: Path, options: ReadOptions
) -> Iterator[tuple[int, str | None, list[str]]]:
    """Line number, name and tags of each line."""
    for number, record in records:
        tags = record if field is None else _field(record, field, path, number)
        if not isinstance(tags, list) or not all(
            isinstance(tag, str | int) and not isinstance(tag, bool) for tag in tags
        ):
            raise InvalidDataError(f"{path}, line {number}: expected a list of tags (texts)")
        yield number, _name(record, options, path, number), [str(tag) for tag in tags]


def read_objects(
    records: Records,
    path: Path,
    options: ReadOptions,
    wanted: Collection[str] | None = None,
) -> tuple[Observations, tuple[str, ...] | None]:
    """Objects whose fields are 0 or 1; null is missing. ``wanted`` restricts the fields.

    A field that a line does not have is missing too, unless the file never says 0: then only what
    is there was written down, and the rest is 0.
    """
    column_of: dict[str, int] = {}
    ones: list[list[int]] = []
    zeros: list[list[int]] = []
    names: list[str] = []
    cells = Cells(options.above)
    wanted = None if wanted is None else frozenset(wanted)
    skip = {*options.drop, *(() if options.id_column is None else (options.id_column,))}
    for number, record in records:
        if not isinstance(record, dict):
            raise InvalidDataError(
                f"{path}, line {number}: a JSON object is expected, got {type(record).__name__}"
            )
        name = _name(record, options, path, number)
        if name is not None:
            names.append(name)
        known: tuple[list[int], list[int], list[int]] = ([], [], [])
        for key, value in record.items():
            if key not in skip and (wanted is None or key in wanted):
                code = _code(value, cells, f"{path}, line {number}, field {key!r}", key)
                known[code].append(column_of.setdefault(key, len(column_of)))
        zeros.append(known[0])
        ones.append(known[1])
    check_columns(len(column_of), path)
    missing = None
    if any(zeros):
        everything = np.arange(len(column_of))
        missing = (
            np.setdiff1d(everything, [*on, *off]) for on, off in zip(ones, zeros, strict=True)
        )
    data = Observations.from_indices(ones, len(column_of), missing=missing)
    whole = len(names) == data.n_rows
    return named(data, list(column_of), path), tuple(names) if whole else None


def _code(value: Any, cells: Cells, where: str, key: str) -> int:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return 2
    try:
        if isinstance(value, list | dict):
            raise ValueError
        return cells[str(value)]
    except ValueError:
        raise InvalidDataError(
            f"{where}: expected 0, 1 or null, got {json.dumps(value)[:40]}; if this field names "
            f"the rows, give --id-column {key}; if it does not matter, --drop {key}"
        ) from None
