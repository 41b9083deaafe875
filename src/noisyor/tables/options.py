"""The formats of users' files, and the options of reading.

A new reader is entered in ``FORMATS``; ``docs/developer/add_a_reader.md`` shows a complete one.
The command line imports this module at once, so it imports no array library.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from noisyor._util.files import open_binary, uncompressed_name
from noisyor._util.validation import (
    COUNT,
    FLAG,
    NUMBER,
    TEXT,
    Option,
    Rule,
    check_settings,
    choice,
    or_none,
)
from noisyor.errors import (
    DatasetNotFoundError,
    InvalidDataError,
    InvalidSettingError,
    ModelFileError,
)


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes
    ----------
    description : what a file holds, in a few words.
    reader : ``"module:function"``, imported on first use, with a module of this package or a full
        name; the function is ``read(path, options, columns=None) -> Table``.
    endings : endings of file names, in lower case; compressed files have one more.
    magic : first bytes of a file; a format without any is a text format.
    members : ending of the files in a folder of this format; "" if the format is that of a file.
    """

    description: str
    reader: str
    endings: tuple[str, ...] = ()
    magic: tuple[bytes, ...] = ()
    members: str = ""

    def load(self) -> Callable[..., Any]:
        """Import the function that reads a table."""
        module, _, function = self.reader.partition(":")
        module = module if "." in module else f"noisyor.tables.{module}"
        found: Callable[..., Any] = getattr(import_module(module), function)
        return found


FORMATS: dict[str, Format] = {
    "csv": Format(
        "0/1 columns separated by commas, semicolons or bars", "delimited:read", (".csv",)
    ),
    "tsv": Format("0/1 columns separated by tabs", "delimited:read", (".tsv", ".tab")),
    "baskets": Format(
        "a line per row that lists its items", "delimited:read_baskets", (".basket", ".baskets")
    ),
    "pairs": Format(
        "a line per row and item, such as user,item", "delimited:read_pairs", (".pairs",)
    ),
    "jsonl": Format(
        "a list of tags or a document per line, as JSON",
        "documents:read_json",
        (".jsonl", ".ndjson", ".json"),
    ),
    "parquet": Format(
        "0/1 columns in a Parquet file", "arrays:read_parquet", (".parquet", ".pq"), (b"PAR1",)
    ),
    "npy": Format(
        "a NumPy matrix or stack of images", "arrays:read_npy", (".npy",), (b"\x93NUMPY",)
    ),
    "npz": Format(
        "NumPy arrays, or a SciPy sparse matrix", "arrays:read_npz", (".npz",), (b"PK\x03\x04",)
    ),
    "mat": Format(
        "a MATLAB file, version 5 to 7", "arrays:read_matlab", (".mat",), (b"MATLAB ", b"\x89HDF")
    ),
    "text": Format("a document per line", "documents:read", (".txt", ".text")),
    "images": Format("a folder of .png files of one size", "arrays:read_images", members=".png"),
    "folder": Format("a folder of .txt files, a document each", "documents:read", members=".txt"),
}
"""Every format by its name."""


def format_of(path: Path, asked: str | None = None) -> str:
    """Return the requested format, or detect it by the first bytes, then by the file name."""
    if not path.exists():
        raise DatasetNotFoundError(f"{path} does not exist")
    is_folder = path.is_dir()
    if not is_folder and not path.is_file():
        raise InvalidDataError(f"{path} is not a regular file")
    if asked is not None and bool(FORMATS[asked].members) != is_folder:
        here, there = ("folder", "file") if is_folder else ("file", "folder")
        raise InvalidSettingError(f"{path} is a {here}, the format {asked} is that of a {there}")
    if is_folder:
        return asked or _folder_format(path)
    with open_binary(path) as stream:
        start = stream.read(16)
    if not start:
        raise InvalidDataError(f"{path} is empty")
    if start.startswith(b"\x89PNG"):
        raise InvalidDataError(f"{path} is a single image; give the folder that holds the images")
    found = next((name for name, it in FORMATS.items() if start.startswith(it.magic)), None)
    ending = ending_of(path)
    by_name = next((name for name, it in FORMATS.items() if ending in it.endings), None)
    name = asked or found or by_name
    if name is None:
        raise InvalidSettingError(
            f"the name of {path} does not show its format; give the format, such as "
            f"ReadOptions(format='csv') for columns between commas, or "
            f"{', '.join(list(FORMATS)[1:])}"
        )
    if (FORMATS[name].magic or found is not None) and name != found:
        actual = "a text or damaged file" if found is None else f"of the format {found}"
        raise InvalidDataError(f"{path} is not of the format {name}: it is {actual}")
    return name


def _folder_format(path: Path) -> str:
    of_ending = {it.members: name for name, it in FORMATS.items() if it.members}
    endings = {ending_of(file) for file in path.rglob("*")}
    for ending, name in of_ending.items():
        if ending in endings:
            return name
    raise InvalidDataError(f"{path} is a folder without {' or '.join(of_ending)} files")


def ending_of(path: Path) -> str:
    """Return the ending of a file name, without the ending of a compression."""
    return Path(uncompressed_name(path)).suffix


# ---- words for 0, 1 and missing

MISSING = 2
"""Code of a missing entry in blocks of codes."""

CODES = {
    **dict.fromkeys(("0", "0.0", "false", "no"), 0),
    **dict.fromkeys(("1", "1.0", "true", "yes"), 1),
    **dict.fromkeys(("", "na", "n/a", "nan", "null", "none", "?"), MISSING),
}
"""Code of the usual words for 0, 1 and missing, in lower case."""


def parse_truth(text: str) -> dict[str, int]:
    """Parse ``ONES/ZEROS`` or ``ONES/ZEROS/MISSING``, lists of words, to the code of each word.

    The usual words for missing are added, and those for 0 and 1 unless the words are other numbers.
    """
    groups = [{folded(word) for word in part.split(",")} for part in text.split("/")]
    if len(groups) == 3 and groups[2] == {""}:
        groups.pop()
    n_words = sum(map(len, groups))
    if len(groups) not in (2, 3) or "" in groups[0] or len(set().union(*groups)) < n_words:
        raise InvalidSettingError(
            "truth is the words for 1 and those for 0, such as y/n, T/F, 2/1 or 1/0/-999 (the "
            f"third is missing); x/ says that a blank is 0; got {text!r}"
        )
    given = {
        word: code for words, code in zip(groups, (1, 0, MISSING), strict=False) for word in words
    }
    # A usual word with another meaning, or a number such as -1, leaves open what 0 and 1 mean.
    is_clear = all(
        CODES.get(word, code) == code
        and (code == MISSING or word in CODES or number_of(word) is None)
        for word, code in given.items()
        if word
    )
    usual = {word: code for word, code in CODES.items() if is_clear or code == MISSING}
    return usual | given


def number_of(word: str) -> float | None:
    """Return the number that a word is, or None."""
    try:
        return float(word)
    except ValueError:
        return None


def folded(text: str) -> str:
    """Return the word of a cell as `CODES` has it."""
    return text.strip().lower()


# ---- options of reading

_FORMAT = Rule(  # readers may be added at run time
    lambda value: value is None or (isinstance(value, str) and value in FORMATS),
    ", ".join(FORMATS),
)
_NAMES = Rule(
    lambda value: isinstance(value, tuple) and all(isinstance(name, str) for name in value),
    "a tuple of names",
)

READING: dict[str, Option] = {
    "format": Option(
        _FORMAT,
        "Format of DATA, if its name and content do not show it.",
        metavar=f"[{'|'.join(FORMATS)}]",
    ),
    "header": Option(
        or_none(FLAG), "Whether the first line holds column names.  [default: guessed]", read=bool
    ),
    "id_column": Option(
        or_none(TEXT), "Column (name, or number from 0) or JSON field that names the rows."
    ),
    "id_required": Option(FLAG),
    "weights": Option(or_none(TEXT), "Column with the number of rows that each row stands for."),
    "weights_required": Option(FLAG),
    "drop": Option(_NAMES, "Column to leave out, or several separated by commas. Repeatable."),
    "encoding": Option(TEXT, "Encoding of text files.  [default: utf-8]"),
    "above": Option(
        or_none(NUMBER),
        "Numbers (gray levels from 0 to 1) larger than X are 1, all others 0.",
        read=float,
        metavar="X",
    ),
    "truth": Option(
        or_none(TEXT),
        "Words for 1 and 0, such as y/n or T/F; x/ if a blank is 0; 1/0/-999 if -999 is missing.",
        metavar="ONE/ZERO",
    ),
    "invert": Option(FLAG, "Of images: dark pixels are 1.", read=bool),
    "variable": Option(or_none(TEXT), "Array to take from a .npz or .mat file."),
    "transpose": Option(FLAG, "The array has a column for each row.", read=bool),
    "text_field": Option(
        or_none(TEXT),
        "Column or JSON field that holds the text (or the list of tags).  [default: text]",
    ),
    "vocabulary": Option(
        or_none(COUNT),
        "Words of documents to keep, the most frequent.  [default: 1000]",
        read=int,
        metavar="N",
    ),
    "stop_words": Option(
        choice("english", "none"),
        "Common words to leave out.  [default: english]",
        metavar="[english|none]",
    ),
}
"""Options of reading, by name: one table for `ReadOptions` and the command line."""


@dataclass(frozen=True)
class ReadOptions:
    """Options of `read_table`; None detects the setting from the file.

    Attributes
    ----------
    format : a key of ``FORMATS``.
    header : whether the first line of a CSV or TSV file names the columns.
    encoding : encoding of text files.
    id_column : name or number (from 0) of the column or JSON field that names the rows.
    id_required : whether a file without that column is an error.
    weights : name or number of the column with the number of rows that each row stands for, as in
        an aggregated table. Rows of weight 0 are left out.
    weights_required : whether a file without that column is an error.
    drop : columns or items to leave out; a text may list several columns between commas.
    above : numbers larger than this are 1, all others 0; without it only 0 and 1 are accepted.
    truth : words for 1 and for 0, and perhaps further ones for missing, between slashes:
        ``"y/n"``, ``"2/1"``, ``"1/0/-999"``. ``"x/"`` says that a blank is 0. Unless the words are
        other numbers, 0, 1, true, false, yes and no keep their meaning.
    invert : for images: dark pixels are 1.
    variable : name of the array in an ``.npz`` or ``.mat`` file.
    transpose : the array has a column for each row.
    text_field : column or JSON field with the text of a document, or with a list of items.
    vocabulary : number of words or items to keep, the most frequent ones. Documents: 1,000 if None;
        items: all.
    stop_words : ``"english"`` leaves out common English words, numbers and single letters;
        ``"none"`` keeps everything.

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
    encoding: str = "utf-8"
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
    stop_words: str = "english"

    def __post_init__(self) -> None:
        drop: Any = self.drop
        if isinstance(drop, str | list):
            object.__setattr__(self, "drop", (drop,) if isinstance(drop, str) else tuple(drop))
        check_settings(self, {name: option.rule for name, option in READING.items()})
        if self.truth is not None:
            parse_truth(self.truth)
            if self.above is not None:
                raise InvalidSettingError("above and truth exclude each other")
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
        return {k: v for k, v in asdict(self).items() if v != getattr(plain, k)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> ReadOptions:
        """Build options from the result of `to_json`; unknown names are an error."""
        known = {field.name for field in fields(cls)}
        if not isinstance(record, Mapping) or not set(record) <= known:
            raise InvalidSettingError(
                "the record has reading options that this version does not know"
            )
        return cls(**record)


# ---- options that a model remembers

_LAYOUT = ("format", "header", "variable", "transpose")
"""Options of the layout of a file, which do not apply to files of another format."""

_REMOVED = ("delimiter", "encoding_errors", "max_share", "max_tokens")
"""Options of version 0.1.0 that model files may still have."""


def options_like(
    metadata: Mapping[str, Any],
    path: str | os.PathLike[str],
    given: Mapping[str, Any] | None = None,
) -> ReadOptions:
    """Return options that read a file as the data of a model were read.

    The metadata of a model file may come from anyone. Nothing in them names a file to open, and
    invalid values raise `ModelFileError`.

    Parameters
    ----------
    metadata : of the model; ``reading`` is what `ReadOptions.to_json` wrote, ``data.source`` the
        name of the file that was read.
    path : the file to read. If its ending differs from that of the model's data, or another format
        is given, the options of layout are not reused.
    given : options by name that replace those of the model. A column of ids or weights that only
    the model names may be absent.
    """
    given = dict(given or {})
    stored = metadata.get("reading")
    stored = dict(stored) if isinstance(stored, Mapping) else {}
    for name in _REMOVED:
        stored.pop(name, None)
    data = metadata.get("data")
    source = data.get("source") if isinstance(data, Mapping) else None
    other_kind = isinstance(source, str) and ending_of(Path(source)) != ending_of(Path(path))
    if other_kind or given.get("format", stored.get("format")) != stored.get("format"):
        stored = {name: value for name, value in stored.items() if name not in _LAYOUT}
    required = {"id_required": "id_column" in given, "weights_required": "weights" in given}
    ReadOptions.from_json(given)  # a mistake of the caller is not reported as one of the model
    try:
        return ReadOptions.from_json({**stored, **given, **required})
    except InvalidSettingError as error:
        raise ModelFileError(f"the reading options of the model are invalid ({error})") from error
