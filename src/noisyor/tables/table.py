"""`read_table`, and functions that readers share.

The shared functions read lines of text and cells, find the roles of columns, and build tables block
by block.
"""

from __future__ import annotations

import math
import os
import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from noisyor._util.arrays import AnyArray, BinaryArray
from noisyor._util.files import open_binary
from noisyor._util.progress import warn
from noisyor.data.columns import align, require, suggest
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.model.network import Network
from noisyor.tables.options import (
    CODES,
    FORMATS,
    MISSING,
    ReadOptions,
    folded,
    format_of,
    options_like,
    parse_truth,
)


@dataclass(frozen=True, eq=False)
class Table:
    """Content of a file.

    Attributes
    ----------
    observations : the rows, with names of the columns if the file has any.
    row_names : (n_rows,) or None.
    format : a key of ``FORMATS``; `read_table` fills it in.
    excerpts : (n_rows,) beginning of each document; None unless the columns are words of texts.
    ignored : columns, or occurrences of items, that the model does not have.

    Examples
    --------
    >>> import noisyor as nor
    >>> with open("shopping.basket", "w") as file:
    ...     _ = file.write("bread,milk\\nmilk\\n")
    >>> table = nor.read_table("shopping.basket")
    >>> table.format, table.documents, table.observations.n_rows
    ('baskets', False, 2)
    """

    observations: Observations
    row_names: tuple[str, ...] | None = None
    format: str = ""
    excerpts: tuple[str, ...] | None = None
    ignored: int = 0

    @property
    def documents(self) -> bool:
        """Whether the columns are words of texts."""
        return self.excerpts is not None


# ---- cells: words for 0, 1 and missing

_MAX_CACHED = 100_000

# What hints recognize: pairs of words for 1 and 0, marks beside blanks, codes of missing entries.
_PAIRS = (
    *(("y", "n"), ("t", "f"), ("+", "-"), ("on", "off"), ("present", "absent"), ("j", "n")),
    *(("positive", "negative"), ("pos", "neg"), ("won", "nowin"), ("p", "a"), ("x", "o")),
)
_MARKS = ("x", "✓", "✔", "*", "•", "●", "+")
_CODES_OF_MISSING = (9.0, 88.0, 99.0, 888.0, 999.0, 9999.0)
_MAX_CODES = 12
_MAX_LISTED = 200
_TRUTH = re.compile(r"ReadOptions\(truth='([^']*)'\)")


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


class Cells(dict[str, int]):
    """Map the text of a cell to 0, 1 or `MISSING`; other texts raise a ValueError.

    Parameters
    ----------
    above : numbers larger than this are 1, all others 0; if None only 0 and 1 are accepted.
    truth : words of the file, see `parse_truth`; if None those for 0 and 1 are the usual ones.
    """

    def __init__(self, above: float | None = None, truth: str | None = None) -> None:
        super().__init__()
        self.above = above
        self.truth = truth
        self._codes = CODES if truth is None else parse_truth(truth)
        pairs = ((_number(word), code) for word, code in self._codes.items())
        self._numbers = {n: code for n, code in pairs if n is not None and not math.isnan(n)}

    def __missing__(self, cell: str) -> int:
        code = self._code(folded(cell))
        if len(self) < _MAX_CACHED:  # numbers with a threshold may all differ
            self[cell] = code
        return code

    @property
    def expected(self) -> str:
        """What a cell may hold, for messages."""
        if self.above is not None:
            return "a number or missing"
        if self._codes is CODES:
            return "0, 1 or missing"
        words = [word for code in (1, 0) for word, is_for in self._codes.items() if is_for == code]
        return f"{', '.join(map(repr, words))} or missing"

    def is_known(self, cell: str) -> bool:
        """Return whether a cell is 0, 1 or missing."""
        try:
            self[cell]
        except ValueError:
            return False
        return True

    def is_value(self, cell: str) -> bool:
        """Return whether a cell is 0, 1 or the file's own word for missing."""
        return CODES.get(folded(cell)) != MISSING and self.is_known(cell)

    def recode(self, numbers: AnyArray) -> AnyArray:
        """Return numbers of any shape as 0, 1 and NaN; numbers without a meaning stay unchanged."""
        if self.above is not None:
            ones = numbers > self.above
            return np.where(np.isnan(numbers), np.nan, ones) if numbers.dtype.kind == "f" else ones
        if self._codes is CODES:
            return numbers
        values = np.asarray(numbers, dtype=np.float64)
        result = values.copy()
        for number, code in self._numbers.items():
            result[values == number] = np.nan if code == MISSING else code
        if self._codes[""] == 0:
            result[np.isnan(values)] = 0.0
        return result

    def _code(self, text: str) -> int:
        if self.above is None:
            if text in self._codes:
                return self._codes[text]
            number = float(text)
            if number in self._numbers:
                return self._numbers[number]
            raise ValueError(text)
        if CODES.get(text) == MISSING:
            return MISSING
        number = float(CODES.get(text, text))
        return MISSING if math.isnan(number) else int(number > self.above)


# ---- hints for other values


def _drop_option(*names: str) -> str:
    return f"ReadOptions(drop={names!r})"


def role_hint(name: str) -> str:
    """Return a hint about a column that does not hold 0 and 1."""
    return (
        f"if this column names the rows, give ReadOptions(id_column={name!r}); "
        f"if it does not matter, {_drop_option(name)}"
    )


def number_hint(value: float, columns: Sequence[str] = ()) -> str:
    """Return a hint about a number that is neither 0 nor 1.

    ``columns`` are the names of all columns that hold such numbers, if they have names.
    """
    hint = "ReadOptions(above=0) turns counts into 0 and 1, another threshold other numbers"
    if (value < 0 and value.is_integer()) or value in _CODES_OF_MISSING[3:]:
        hint = f"if {value:g} says that it is missing, give ReadOptions(truth='1/0/{value:g}')"
    return columns_hint(dict.fromkeys(columns, hint)) if columns else hint


def columns_hint(hints: Mapping[str, str], n_columns: int | None = None) -> str:
    """Combine the hints of all columns that do not hold 0 and 1, given by name, into one text.

    Columns with the same remedy share it. All columns that cannot be read as 0 and 1 are listed in
    one option to paste, unless they are all of the ``n_columns`` columns.
    """
    if len(hints) == 1:
        return next(iter(hints.values()))
    shared: dict[str, list[str]] = {}
    for name, hint in hints.items():
        if repr(name) not in hint:
            shared.setdefault(hint, []).append(name)
    parts = []
    for hint, names in list(shared.items())[:3]:
        few = ", ".join(map(repr, names[:3])) + " ..." * (len(names) > 3)
        parts.append(f"for {len(names)} column{'s' * (len(names) > 1)} ({few}): {hint}")
    words = [found[1] for hint in hints.values() if (found := _TRUTH.search(hint))]
    is_said = len(set(words)) == 1 and any(map(_TRUTH.search, shared))
    if words and not is_said and all(text.count("/") == 1 for text in words):
        # In another column the same words may come in the other order.
        pairs: dict[frozenset[str], list[str]] = {}
        for pair in (text.split("/") for text in words):
            pairs.setdefault(frozenset(pair), pair)
        both = zip(*pairs.values(), strict=True)
        ones, zeros = (list(dict.fromkeys(part)) for part in both)
        if not set(ones) & set(zeros):
            one, zero = ",".join(ones), ",".join(zeros)
            parts.append(
                f"if {one} stands for 1 and {zero} for 0, give ReadOptions(truth='{one}/{zero}'), "
                f"in the other case ReadOptions(truth='{zero}/{one}')"
            )
    rest = [name for name, hint in hints.items() if not _TRUTH.search(hint)]
    if rest and len(rest) != n_columns:
        first = f"the first {_MAX_LISTED} of " if len(rest) > _MAX_LISTED else ""
        count = "1 column does" if len(rest) == 1 else f"{len(rest)} columns do"
        them = "it" if len(rest) == 1 else "them"
        option = _drop_option(*rest[:_MAX_LISTED])
        parts.append(f"{first}{count} not hold 0 and 1, {option} leaves {them} out")
    named = next((name for name in rest if "id_column=" in hints[name]), None)
    if named is not None:
        parts.append(f"if {named!r} names the rows, give ReadOptions(id_column={named!r})")
    return "; ".join(parts) or (
        "no column holds 0 and 1: make a 0/1 column of each value, or turn numbers above a "
        "threshold into 1 with ReadOptions(above=...)"
    )


def with_usual_words(hint: str, words: Iterable[str]) -> str:
    """Add the words of the columns that hold 0 and 1 to the option of a hint, which replaces them.

    The hint is unchanged if a word would have two meanings.
    """
    usual = {word: CODES[word] for word in map(folded, words) if CODES.get(word, MISSING) < MISSING}

    def extended(match: re.Match[str]) -> str:
        parts = match[1].split("/")
        there = parse_truth(match[1])
        if any(there.get(word, code) != code for word, code in usual.items()):
            return match[0]
        for word, code in usual.items():
            if word not in there:
                parts[1 - code] += f",{word}"
        return f"ReadOptions(truth='{'/'.join(parts)}')"

    return _TRUTH.sub(extended, hint)


def cell_hint(name: str, values: Sequence[str], usual: bool) -> str:
    """Return a hint how to read a column whose cells are not 0 and 1.

    Parameters
    ----------
    name : name of the column.
    values : some of its cells.
    usual : whether the cells before these were 0, 1 or missing.
    """
    known = [cell.strip() for cell in values if CODES.get(folded(cell)) != MISSING]
    distinct = list(dict.fromkeys(known))
    numbers = [number for number in map(_number, distinct) if number is not None]
    drop = f"{_drop_option(name)} leaves the column out"
    if numbers and len(numbers) == len(distinct):
        return _hint_of_numbers(name, len(known), numbers, usual, drop)
    as_written = {word.lower(): word for word in distinct}
    lower = set(as_written)
    if len(lower) == 1 and lower <= set(_MARKS) and len(known) < len(values):
        mark = distinct[0]
        return f"ReadOptions(truth='{mark}/') says that {mark!r} is 1 and a blank is 0"
    for pair in _PAIRS:
        if lower == set(pair) or (len(known) < 3 and lower <= set(pair)):
            upper = distinct[0].isupper()
            yes, no = (as_written.get(word, word.upper() if upper else word) for word in pair)
            return f"ReadOptions(truth='{yes}/{no}') says that {yes!r} is 1 and {no!r} is 0"
    strange = [word for word in distinct if folded(word) not in CODES]
    is_plain = not any(set(word) & set("/,'") for word in lower)
    if len(strange) == 1 and len(distinct) > 2:
        if is_plain and len(distinct) == 3:
            # The same for every column, so that columns share it.
            one, zero = sorted((word for word in distinct if word != strange[0]), key=_as_one)
            truth = f"ReadOptions(truth='{one}/{zero}/{strange[0]}')"
            return f"correct {strange[0]!r}, or if it says that the entry is missing, give {truth}"
        return f"correct {strange[0]!r}, or leave the entry empty if it is unknown; {drop}"
    if len(distinct) == 2 and len(known) > 4 and is_plain:
        one, zero = sorted(distinct, key=_as_one)
        return (
            f"if {one!r} stands for 1 and {zero!r} for 0, give "
            f"ReadOptions(truth='{one}/{zero}'), in the other case "
            f"ReadOptions(truth='{zero}/{one}'); if it does not matter, {drop}"
        )
    if len(known) > 2 * len(distinct) and len(distinct) > 2:
        few = ", ".join(map(repr, distinct[:3]))
        return (
            f"it has {len(distinct)} different words ({few} ...): make a 0/1 column of each; {drop}"
        )
    return role_hint(name)


def _as_one(word: str) -> int:
    """Return a key that sorts words from those that may mean 1 to those that may mean 0."""
    return {1: 0, 0: 2}.get(CODES.get(folded(word), MISSING), 1)


def _hint_of_numbers(name: str, n_cells: int, numbers: list[float], usual: bool, drop: str) -> str:
    """Return the hint for a column of these distinct numbers."""
    odd = sorted(number for number in numbers if number not in (0.0, 1.0))
    whole = all(number.is_integer() for number in numbers)
    in_turn = all(after == before + 1 for before, after in pairwise(numbers))
    if whole and len(numbers) == n_cells > 2 and (in_turn or n_cells > 19):
        return role_hint(name)
    if len(odd) == 1 and (odd[0] < 0 or odd[0] in _CODES_OF_MISSING):
        hint = f"if {odd[0]:g} says that it is missing, give ReadOptions(truth='1/0/{odd[0]:g}')"
        may_be_zero = odd[0] == -1.0 and 0.0 not in numbers
        return "if -1 stands for 0, give ReadOptions(truth='1/-1'); " * may_be_zero + hint
    if set(numbers) == {1.0, 2.0} and not (usual and 0.0 in numbers):
        return (
            "if 2 stands for 1 and 1 for 0, give ReadOptions(truth='2/1'), in the other case "
            "ReadOptions(truth='1/2')"
        )
    if len(odd) > _MAX_CODES and 0.0 not in numbers:
        return f"it has numbers from {odd[0]:g} to {odd[-1]:g}, none of them 0: {drop}"
    if min(numbers) > 0 and not usual:
        middle = f"{(min(numbers) + max(numbers)) / 2:g}"
        return f"ReadOptions(above={middle}) makes numbers above {middle} 1 and the others 0"
    return "ReadOptions(above=0) turns numbers into 0 and 1"


# ---- lines of text files

Lines = Iterable[tuple[int, str]]


def file_lines(path: Path, options: ReadOptions) -> Iterator[tuple[int, str]]:
    """Iterate over lines of a file, perhaps compressed: number from 1, and text with its end.

    Examples
    --------
    >>> from pathlib import Path
    >>> import noisyor as nor
    >>> _ = Path("lines.txt").write_text("#..\\n.#.\\n")
    >>> list(nor.tables.file_lines(Path("lines.txt"), nor.tables.ReadOptions()))
    [(1, '#..\\n'), (2, '.#.\\n')]
    """
    with open_binary(path) as stream:
        yield from text_lines(stream, path, options.encoding)


def text_lines(
    stream: IO[bytes], where: object, encoding: str = "utf-8"
) -> Iterator[tuple[int, str]]:
    """Iterate over the lines of a stream of bytes: number from 1, and text with its end.

    A byte order mark of UTF-8 is left out. Errors name the line in ``where``.
    """
    for line_number, raw in enumerate(stream, 1):
        if line_number == 1:
            if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise InvalidDataError(f"{where} is written in UTF-16; save it as UTF-8")
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        if b"\0" in raw:
            raise InvalidDataError(
                f"{where}, line {line_number}: a zero byte; this is not a text file, "
                "save a table as CSV"
            )
        try:
            yield line_number, raw.decode(encoding)
        except UnicodeDecodeError as error:
            raise InvalidDataError(
                f"{where}, line {line_number}: byte 0x{raw[error.start]:02x} at position "
                f"{error.start + 1} is not {encoding}; if the file is older or from Windows, give "
                'ReadOptions(encoding="latin-1") or cp1252'
            ) from error


# ---- roles of columns


class Roles(NamedTuple):
    """Indices of columns: which names the rows, which has weights, which hold data."""

    id: int | None
    weights: int | None
    kept: list[int]


def find_roles(
    options: ReadOptions,
    names: list[str] | None,
    width: int,
    where: object,
    wanted: Sequence[str] | None = None,
    labels: int | None = None,
) -> Roles:
    """Find the roles of columns.

    Parameters
    ----------
    options : ``id_column``, ``weights`` and ``drop`` are used.
    names : names of the columns of the file, distinct, or None.
    width : number of columns.
    where : names the file in errors.
    wanted : names of a model's columns. If given, only these are kept.
    labels : index of a column that names the rows if the options do not give one.
    """
    row_names = role_index(options.id_column, options.id_required, names, width, str(where), wanted)
    row_names = labels if row_names is None else row_names
    place = f"{where}: column of weights"
    weights = role_index(options.weights, options.weights_required, names, width, place, wanted)
    left_out = {row_names, weights}
    if wanted is not None and names is not None:
        require(names, wanted, where)
        chosen = set(wanted)
        needed = [part for entry in options.drop for part in entry.split(",") if part in chosen]
        if needed:
            raise InvalidDataError(f"{where}: drop: {needed[0]!r} is a column of the model")
        kept = [k for k, name in enumerate(names) if name in chosen and k not in left_out]
        return Roles(row_names, weights, kept)
    known = {} if names is None else {name: k for k, name in enumerate(names)}
    for entry in options.drop:
        for part in [entry] if entry in known else entry.split(","):
            index = known.get(part)
            if index is None:
                index = column_index(part.strip(), names, width, f"{where}: drop")
            left_out.add(index)
    kept = [k for k in range(width) if k not in left_out]
    if not kept:
        raise InvalidDataError(f"{where}: no column is left")
    return Roles(row_names, weights, kept)


def role_index(
    asked: str | None,
    required: bool,
    names: list[str] | None,
    width: int,
    where: str,
    wanted: Sequence[str] | None = None,
) -> int | None:
    """Return the index of the column of row names or weights, or None; see `find_roles`."""
    if asked is None:
        return None
    if not required and asked not in (names or ()):
        index = as_index(asked, width)
        if index is None or (names is not None and names[index] in (wanted or ())):
            return None
    return column_index(asked, names, width, where)


def column_index(wanted: str, names: list[str] | None, width: int, where: str) -> int:
    """Return the index of a column from its name, or from its number if no name is the same."""
    if names is not None and wanted in names:
        return names.index(wanted)
    index = as_index(wanted, width)
    if index is None:
        there = f"there are {', '.join(map(repr, names[:12]))}" if names else f"{width} columns"
        more = " ..." if names is not None and len(names) > 12 else ""
        shown = wanted if wanted.lstrip("-").isdigit() else reprlib.repr(wanted)
        raise InvalidDataError(f"{where}: no column {shown}; {there}{more}")
    return index


def as_index(text: str | None, width: int) -> int | None:
    """Return the index of a column number, counted from 0 or backwards from -1, or None."""
    try:
        index = int(text or "")
    except ValueError:
        return None
    return index % width if -width <= index < width else None


def distinct_names(names: Sequence[str]) -> list[str]:
    """Return the names with a number after those that occurred before: ``a, b, a (2)``.

    Warns if there are any.
    """
    copies: Counter[str] = Counter()
    result = []
    for name in names:
        copies[name] += 1
        result.append(name if copies[name] == 1 else f"{name} ({copies[name]})")
    repeated = [name for name, times in copies.items() if times > 1]
    if repeated:
        first = reprlib.repr(repeated[0]), reprlib.repr(f"{repeated[0]} (2)")
        more = f"; so do {len(repeated) - 1:,} other names" if len(repeated) > 1 else ""
        warn(f"repeated column names get a number: the second {first[0]} is now {first[1]}{more}")
    return result


def weight_of(value: object, where: str) -> float:
    """Return the weight in a cell: 0 or a positive number."""
    try:
        weight = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        weight = math.nan
    if not (math.isfinite(weight) and weight >= 0) or isinstance(value, bool):
        shown = reprlib.repr(value)
        raise InvalidDataError(f"{where}: a weight is 0 or a positive number of rows, got {shown}")
    return weight


# ---- building a table


def weighted_table(
    where: object,
    observations: Observations,
    row_names: Sequence[str] = (),
    weights: Sequence[float] = (),
) -> Table:
    """Return the rows with names and weights, if there are any; rows of weight 0 are left out."""
    names = tuple(row_names) or None
    if not len(weights):
        return Table(observations, names)
    counted = np.flatnonzero(np.asarray(weights) > 0)
    if not len(counted):
        raise InvalidDataError(f"{where}: all rows have weight 0, none is left")
    names = None if names is None else tuple(names[row] for row in counted.tolist())
    try:
        kept = observations.take(counted).with_weights(np.asarray(weights)[counted])
    except InvalidDataError as error:
        raise InvalidDataError(f"{where}: {error}") from error
    return Table(kept, names)


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
    names: list[str] = []
    counts: Counter[str] = Counter()
    skip = set(options.drop)
    for name, items in records:
        rows.append(list(dict.fromkeys(item for item in items if item not in skip)))
        counts.update(rows[-1])
        if name is not None:
            names.append(name)
    if not rows:
        raise InvalidDataError(f"{where} holds no rows")
    if any(rows[1:]) and all({"0", "1"}.issuperset(row) for row in rows[1:]):
        raise InvalidDataError(
            f"{where}: expected items, got 0 and 1 in all lines but the first; it is a table: "
            "give ReadOptions(format='csv')"
        )
    if columns is None:
        columns = sorted(counts, key=lambda item: (-counts[item], item))[: options.vocabulary]
        if not columns:
            raise InvalidDataError(f"{where}: no line has an item")
    index_of = {item: k for k, item in enumerate(columns)}
    data = Observations.from_indices(
        ([index_of[item] for item in row if item in index_of] for row in rows),
        len(columns),
        column_names=columns,
    )
    unknown = sum(n for item, n in counts.items() if item not in index_of)
    return Table(data, tuple(names) if len(names) == len(rows) else None, ignored=unknown)


def rows_of_codes(codes: BinaryArray, names: Sequence[str] | None = None) -> Observations:
    """Return rows (n, n_columns) of the codes 0, 1 and `MISSING`; ``names`` are of the columns.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> codes = np.array([[0, 1], [1, nor.tables.MISSING]], dtype=np.uint8)
    >>> nor.tables.rows_of_codes(codes, ["a", "b"]).n_missing
    1
    """
    return Observations.of(codes == 1, missing=codes == MISSING, column_names=names)


_OF_FORMATS = {"variable": ("npz", "mat"), "transpose": ("npy", "npz", "mat")}
"""Options that only some formats have."""


def read_table(
    path: str | os.PathLike[str],
    options: ReadOptions | None = None,
    network: Network | None = None,
    **settings: Any,
) -> Table:
    """Read binary data from a user's file or folder.

    Parameters
    ----------
    path : a file or folder of one of ``FORMATS``; text files may be compressed (gzip, xz, bzip2).
    options : how to read the file, if this cannot be detected from its name and content.
    network : a model; its columns are read, by name if they have names. Words and items that the
        model does not have are ignored.
    settings : single options by name, such as ``above=0``; they replace those in ``options``.

    Examples
    --------
    >>> import noisyor as nor
    >>> with open("rows.csv", "w") as file:
    ...     _ = file.write("fever,cough\\n3,1\\n0,1\\n")
    >>> table = nor.read_table("rows.csv", above=0)
    >>> table.observations.column_names, table.observations.n_rows
    (('fever', 'cough'), 2)
    """
    known = [field.name for field in fields(ReadOptions)]
    for setting in settings:
        if setting not in known:
            hint = suggest(setting, known) or f"; there are {', '.join(known)}"
            raise InvalidSettingError(f"read_table has no option {setting!r}{hint}")
    if isinstance(drop := settings.get("drop"), str | list):
        settings["drop"] = (drop,) if isinstance(drop, str) else tuple(drop)
    options = replace(options or ReadOptions(), **settings)
    if not isinstance(path, str | os.PathLike):
        raise InvalidDataError(
            f"read_table takes the path of a file or folder, got {type(path).__name__}; arrays and "
            "frames can be passed to all functions as they are"
        )
    path = Path(path)
    name = format_of(path, options.format)
    for setting, formats in _OF_FORMATS.items():
        if getattr(options, setting) not in (None, False) and name not in formats:
            raise InvalidSettingError(
                f"{path}: {setting} is an option of {', '.join(formats)} files, not of {name}"
            )
    if name == "text" and options.format is None and network is None:
        from noisyor.tables.documents import check_documents

        check_documents(path, options)
    columns = None if network is None else network.visible_names
    found: Table = FORMATS[name].load()(path, replace(options, format=name), columns)
    table = replace(found, format=name)
    data = table.observations
    n_observed = data.n_rows * data.n_visible - data.n_missing
    if options.weights is not None and options.weights_required and data.weights is None:
        raise InvalidSettingError(
            f"{path}: there are no weights in a file of this kind ({name}); CSV, TSV and "
            "Parquet files can have a column of weights"
        )
    if not n_observed:
        raise InvalidDataError(f"{path}: every entry is missing")
    if not data.n_active and network is None:
        raise InvalidDataError(
            f"{path}: no entry is 1, so there is nothing to explain; ReadOptions(above=...) or "
            "ReadOptions(truth=...) says which entries are 1"
        )
    if network is not None:
        if table.documents and columns is None:
            raise InvalidDataError(f"{path} holds documents, but the model does not know any words")
        aligned, extra = align(data, columns, network.n_visible, network.visible_shape, path)
        return replace(table, observations=aligned, ignored=table.ignored + extra)
    # A model of a table without any 0 could only learn that all entries are 1.
    is_unclear = options.truth is None and options.above is None
    if data.n_missing and data.n_active == n_observed and is_unclear:
        raise InvalidDataError(
            f"{path}: every entry is 1 or missing, none is 0; ReadOptions(truth='1/') says that a "
            "blank is 0, ReadOptions(truth='1/0') that it is missing"
        )
    return table


def read_like(
    metadata: Mapping[str, Any],
    path: str | os.PathLike[str],
    given: Mapping[str, Any] | None,
    network: Network,
) -> Table:
    """Read a file as the data of a model were read, with the options that are given."""
    table = read_table(path, options_like(metadata, path, given), network)
    if table.documents and metadata.get("documents") is False:
        raise InvalidDataError(
            f"{path} holds documents, but the model was learned from a table of other columns"
        )
    return table
