"""Options of reading: what the name and content of a file do not show."""

from __future__ import annotations

import codecs
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from noisyor._util.validation import (
    COUNT,
    FLAG,
    TEXT,
    Rule,
    check_settings,
    choice,
    is_finite,
    or_none,
)
from noisyor.errors import InvalidSettingError, ModelFileError
from noisyor.tables.cells import parse_truth
from noisyor.tables.formats import FORMATS, ending_of

__all__ = ["ReadOptions", "options_like"]

_RULES = {
    "header": or_none(FLAG),
    "delimiter": or_none(TEXT),
    "encoding": TEXT,
    "encoding_errors": choice("strict", "replace"),
    "id_column": or_none(TEXT),
    "id_required": FLAG,
    "weights": or_none(TEXT),
    "weights_required": FLAG,
    "drop": Rule(
        lambda value: isinstance(value, tuple) and all(isinstance(name, str) for name in value),
        "a tuple of names",
    ),
    "above": or_none(
        Rule(lambda value: isinstance(value, int | float) and value == value, "a number")
    ),
    "truth": or_none(TEXT),
    "invert": FLAG,
    "variable": or_none(TEXT),
    "transpose": FLAG,
    "text_field": or_none(TEXT),
    "vocabulary": or_none(COUNT),
    "max_share": Rule(lambda value: is_finite(value) and 0 < value <= 1, "a share in (0, 1]"),
    "stop_words": choice("english", "none"),
    "max_tokens": COUNT,
}


@dataclass(frozen=True)
class ReadOptions:
    """Options of `read_table`; None lets the file decide.

    Attributes
    ----------
    format : a key of ``FORMATS``.
    header : whether the first line of a CSV or TSV file names the columns.
    delimiter : between the fields of a CSV file or of baskets.
    encoding : of text files.
    encoding_errors : "strict" reports bytes that are not in the encoding, "replace" reads each as
        U+FFFD.
    id_column : name or number (from 0) of the column or JSON field that names the rows.
    id_required : whether a file without that column is an error.
    weights : name or number of the column, or name of the JSON field, that says how many rows each
        one stands for, as in an aggregated table. Rows of weight 0 are left out.
    weights_required : whether a file without that column is an error.
    drop : columns, JSON fields or items to leave out; a text may list several columns between
        commas.
    above : numbers larger than this are 1, all others 0; without it only 0 and 1 are accepted.
    truth : words for 1 and for 0, and perhaps further ones for missing, between slashes:
        ``"y/n"``, ``"2/1"``, ``"1/0/-999"``. ``"x/"`` says that a blank is 0.
    invert : of images: dark pixels are 1.
    variable : name of the array in an ``.npz`` or ``.mat`` file.
    transpose : the array has a column for each row.
    text_field : column or JSON field with the text of a document, or with a list of items.
    vocabulary : number of words or items to keep, the most frequent ones. Documents: 1,000 if None;
        items: all.
    max_share : words in more than this share of the documents are left out.
    stop_words : ``"english"`` leaves out common English words, numbers and single letters;
        ``"none"`` keeps everything.
    max_tokens : only the first words of a document count.

    Examples
    --------
    >>> import noisyor as nor
    >>> with open("counts.csv", "w") as file:
    ...     _ = file.write("patient,fever,cough\\nA,3,0\\nB,0,1\\n")
    >>> options = nor.tables.ReadOptions(id_column="patient", above=0)
    >>> table = nor.read_table("counts.csv", options)
    >>> table.row_names, table.observations.n_active
    (('A', 'B'), 2)
    """

    format: str | None = None
    header: bool | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    encoding_errors: str = "strict"
    id_column: str | None = None
    id_required: bool = True
    weights: str | None = None
    weights_required: bool = True
    drop: tuple[str, ...] = ()
    above: float | None = None
    truth: str | None = None
    invert: bool = False
    variable: str | None = None
    transpose: bool = False
    text_field: str | None = None
    vocabulary: int | None = None
    max_share: float = 0.5
    stop_words: str = "english"
    max_tokens: int = 500

    def __post_init__(self) -> None:
        or_none(choice(*FORMATS)).check("format", self.format)  # readers may be added at run time
        check_settings(self, _RULES)
        if self.truth is not None:
            parse_truth(self.truth)
            if self.above is not None:
                raise InvalidSettingError("above and truth exclude each other")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise InvalidSettingError(
                f"the delimiter is one character between fields, got {self.delimiter!r}"
            )
        try:
            # Lines are found before they are decoded, so their ends must be those of ASCII.
            suitable = codecs.encode("a\n,1", self.encoding) == b"a\n,1"
        except (LookupError, TypeError, ValueError):
            suitable = False
        if not suitable:
            raise InvalidSettingError(
                f"encoding is that of a text such as utf-8 or latin-1, got {self.encoding!r}"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the options that differ from the default, as plain JSON."""
        plain = ReadOptions()
        changed = {k: v for k, v in asdict(self).items() if v != getattr(plain, k)}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in changed.items()}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> ReadOptions:
        """Build options from what `to_json` wrote; unknown names are an error."""
        known = {field.name for field in fields(cls)}
        if not isinstance(record, Mapping) or not set(record) <= known:
            raise InvalidSettingError(
                "the record has reading options that this version does not know"
            )
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in record.items()
        }
        return cls(**values)


# ---- options that a model remembers

_LAYOUT = ("format", "header", "delimiter", "variable", "transpose")
"""Options of the layout of a file. A file of another kind has a layout of its own."""

_ROLES = ("id_column", "weights", "text_field", "drop")
"""Columns by name or index. Indices hold for the same layout only."""


def options_like(
    metadata: Mapping[str, Any],
    path: str | os.PathLike[str],
    given: Mapping[str, Any] | None = None,
) -> ReadOptions:
    """Return options that read a file as the data of a model were read.

    The metadata of a model file may come from anyone. Nothing in them names a file to open, and
    values that make no sense are one `ModelFileError`.

    Parameters
    ----------
    metadata : of the model; ``reading`` is what `ReadOptions.to_json` wrote, ``data.source`` the
        name of the file that was read.
    path : the file to read. If the ending of its name is that of another kind of file, the options
        of layout and column indices do not carry over.
    given : options by name that replace those of the model. A column of ids or weights that only
        the model asks for may be absent.
    """
    given = dict(given or {})
    stored = metadata.get("reading")
    stored = dict(stored) if isinstance(stored, Mapping) else {}
    if not _same_kind(metadata, stored, Path(path), given):
        stored = {
            name: value
            for name, value in stored.items()
            if name not in _LAYOUT and not (name in _ROLES and _has_index(value))
        }
    required = {"id_required": "id_column" in given, "weights_required": "weights" in given}
    ReadOptions.from_json(given)  # a mistake of the caller is not reported as one of the model
    try:
        return ReadOptions.from_json({**stored, **given, **required})
    except InvalidSettingError as error:
        raise ModelFileError(
            f"how the data of the model were read makes no sense ({error})"
        ) from error


def _same_kind(
    metadata: Mapping[str, Any], stored: Mapping[str, Any], path: Path, given: Mapping[str, Any]
) -> bool:
    """Tell whether a file is of the kind of the one that the model was learned from."""
    ending = ending_of(path)
    usual = next((name for name, it in FORMATS.items() if ending in it.endings), None)
    if "format" in given:
        return bool(given["format"] == (stored.get("format") or usual))
    data = metadata.get("data")
    source = data.get("source") if isinstance(data, Mapping) else None
    if not isinstance(source, str) or (usual is None and not path.is_dir()):
        return True
    return ending == ending_of(Path(source))


def _has_index(value: Any) -> bool:
    """Tell whether a role is given by the index of a column."""
    names = value if isinstance(value, list | tuple) else [value]
    return any(isinstance(name, str) and name.lstrip("-").isdecimal() for name in names)
