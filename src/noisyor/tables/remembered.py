"""How a model's own data were read, for further files: what carries over, and what does not.

The metadata of a model may come from anyone. Nothing in them names a file, and what makes no sense
is one error; an option that is given counts instead of the one in the metadata.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisyor._util.compression import uncompressed_name
from noisyor.errors import InvalidSettingError, ModelFileError
from noisyor.tables.formats import FORMATS
from noisyor.tables.options import ReadOptions

__all__ = ["options_like"]

_LAYOUT = ("format", "header", "delimiter", "variable", "transpose")
"""How a file is laid out. A file of another kind is laid out in another way."""

_ROLES = ("id_column", "weights", "text_field", "drop")
"""Columns by name or number. Numbers are those of the same layout only."""


def options_like(
    metadata: Mapping[str, Any],
    path: str | os.PathLike[str],
    given: Mapping[str, Any] | None = None,
) -> ReadOptions:
    """Options to read a file with as the data of a model were read.

    Parameters
    ----------
    metadata : of the model; ``reading`` is what `ReadOptions.to_json` wrote, ``data.source`` the
        name of the file that was read.
    path : the file to read. All options count if it is of the kind of that file, by the ending of
        its name or because its name does not tell. For a file of another kind those of layout do
        not, nor do numbers of columns.
    given : options by name that count instead. A column of ids or weights that only the model asks
        for may be absent.

    Raises
    ------
    ModelFileError : the metadata make no sense.
    """
    given = dict(given or {})
    stored = metadata.get("reading")
    stored = dict(stored) if isinstance(stored, Mapping) else {}
    if not _same_kind(metadata, stored, Path(path), given):
        stored = {name: value for name, value in stored.items() if name not in _LAYOUT}
        stored = {
            name: value
            for name, value in stored.items()
            if name not in _ROLES or not _has_number(value)
        }
    required = {"id_required": "id_column" in given, "weights_required": "weights" in given}
    ReadOptions.from_json(given)  # what the caller got wrong is not the model's fault
    try:
        return ReadOptions.from_json({**stored, **given, **required})
    except InvalidSettingError as error:
        raise ModelFileError(
            f"how the data of the model were read makes no sense ({error})"
        ) from error


def _same_kind(
    metadata: Mapping[str, Any], stored: Mapping[str, Any], path: Path, given: Mapping[str, Any]
) -> bool:
    """Whether a file is of the kind of the one that the model was learned from."""
    ending = _ending(path)
    usual = next((name for name, it in FORMATS.items() if ending in it.endings), None)
    if "format" in given:
        return bool(given["format"] == (stored.get("format") or usual))
    data = metadata.get("data")
    source = data.get("source") if isinstance(data, Mapping) else None
    if not isinstance(source, str) or (usual is None and not path.is_dir()):
        return True
    return ending == _ending(Path(source))


def _ending(path: Path) -> str:
    return Path(uncompressed_name(path)).suffix


def _has_number(value: Any) -> bool:
    """Whether a role is that of a column with a number."""
    names = value if isinstance(value, list | tuple) else [value]
    return any(isinstance(name, str) and name.lstrip("-").isdecimal() for name in names)
