"""`read_table`, and functions that readers share.

The shared functions read lines of text and cells, find the roles of columns, and build tables block
by block.
"""

from __future__ import annotations

import math
import os
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from noisyor._util.arrays import AnyArray, BinaryArray
from noisyor._util.files import located, open_binary
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
    number_of,
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
        pairs = ((number_of(word), code) for word, code in self._codes.items())
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
        if self.truth is None:
            return "0, 1 or missing"
        words = [word for part in self.truth.split("/")[:2] for word in part.split(",")]
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
        if self.truth is None:
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
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        if b"\0" in raw:
            raise InvalidDataError(
                f"{where}, line {line_number}: a zero byte; this is not a text file or is written "
                "in UTF-16; save a table as CSV, and text as UTF-8"
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
) -> Roles:
    """Find the roles of columns.

    Parameters
    ----------
    options : ``id_column``, ``weights`` and ``drop`` are used.
    names : names of the columns of the file, distinct, or None.
    width : number of columns.
    where : names the file in errors.
    wanted : names of a model's columns. If given, only these are kept.
    """
    row_names = role_index(options.id_column, options.id_required, names, width, str(where), wanted)
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
    known = set(names or ())
    for entry in options.drop:
        parts = [entry] if entry in known else [part.strip() for part in entry.split(",")]
        left_out |= {column_index(part, names, width, f"{where}: drop") for part in parts}
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
    with located(where):
        kept = observations.take(counted).with_weights(np.asarray(weights)[counted])
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
        _check_documents(path, options)
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


_SHOWN_LINES, _DELIMITERS = 100, ",;\t"
"""Number of lines that show whether a file holds documents, and what separates other fields."""


def _check_documents(path: Path, options: ReadOptions) -> None:
    """Reject a file whose lines look like fields, although its name ends in .txt."""
    lines = [line.strip() for _, line in islice(file_lines(path, options), _SHOWN_LINES)]
    for delimiter in _DELIMITERS:
        divided = [line for line in lines if delimiter in line]
        # In sentences a space follows the comma.
        sentences = [line for line in divided if f"{delimiter} " in line]
        if len(divided) > 0.3 * len(lines) and len(sentences) < 0.1 * len(divided):
            raise InvalidDataError(
                f"{path}: expected a document in each line, got fields separated by "
                f"{delimiter!r}; give ReadOptions(format='csv') for a table, "
                "ReadOptions(format='baskets') for lists of items, or "
                "ReadOptions(format='text') for documents"
            )


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
