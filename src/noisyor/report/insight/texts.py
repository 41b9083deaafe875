"""What a row is for people: the beginning of its text, and the class in one of its columns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from noisyor.errors import InvalidSettingError, NoisyOrError
from noisyor.report.inputs import Model
from noisyor.tables.documents import iterate_texts
from noisyor.tables.formats import FORMATS, format_of
from noisyor.tables.options import options_like
from noisyor.tables.read import read_table

__all__ = ["excerpts", "labels_of"]

_SHOWN = 420


def excerpts(
    model: Model, data: Any, reading: Mapping[str, Any] | None, rows: set[int]
) -> dict[int, str]:
    """The beginning of the texts of some rows, by their numbers; nothing if there are no texts."""
    if not isinstance(data, (str, os.PathLike)) or not rows:
        return {}
    options = options_like(model.metadata, data, reading)
    path = Path(data)
    try:
        name = "folder" if path.is_dir() and options.format is None else options.format
        if not FORMATS[format_of(path, name)].texts:
            return {}
        last, found = max(rows), {}
        for number, text in enumerate(iterate_texts(path, options)):
            if number in rows:
                found[number] = _beginning(text)
            if number >= last:
                break
    except NoisyOrError:  # a file of a kind that may hold texts, and does not
        return {}
    return found


def labels_of(
    model: Model, data: Any, reading: Mapping[str, Any] | None, column: str
) -> tuple[str, ...]:
    """The values of a column of the data that is no column of the model, one for every row.

    They are read as the names of the rows are: from a column, a field, or an array of the file.
    """
    if not isinstance(data, (str, os.PathLike)):
        raise InvalidSettingError("labels are a column of a data file, and there is none")
    options = options_like(model.metadata, data, reading)
    drop = tuple(name for name in options.drop if name != column)
    options = replace(options, id_column=column, id_required=True, drop=drop)
    names = read_table(data, options, model.network).row_names
    if names is None:
        raise InvalidSettingError(f"{data} has no column {column!r} to take labels from")
    return names


def _beginning(text: str) -> str:
    """The first words of a text in one line."""
    line = " ".join(text[: 4 * _SHOWN].split())
    return line if len(line) <= _SHOWN else line[:_SHOWN].rsplit(" ", 1)[0] + " …"
