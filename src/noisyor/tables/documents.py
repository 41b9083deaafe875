"""Documents as rows: which words of a vocabulary each contains."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from noisyor.data.columns import select_columns
from noisyor.data.observations import Observations
from noisyor.data.vocabulary import PADDING, UNKNOWN, encode_documents, vectorize, words_of
from noisyor.errors import InvalidDataError
from noisyor.tables.delimited import column_number, id_column
from noisyor.tables.lines import delimiter_of, fields_of, numbered_lines
from noisyor.tables.options import ReadOptions

__all__ = ["column_texts", "folder_texts", "line_texts", "rows_of_texts"]

DEFAULT_VOCABULARY = 1000

_LONGEST_DOCUMENT = 256 * 2**20
_RESERVED = (PADDING, UNKNOWN)
# What remains of contractions when apostrophes are deleted, and is in no list of words.
_CONTRACTIONS = (
    "dont im ive id youre youve youd youll hes shes hed theyre theyve weve wed isnt arent wasnt "
    "werent doesnt didnt havent hasnt hadnt wont wouldnt cant couldnt shouldnt aint thats theres "
    "whats whos lets itll"
)

Texts = Iterator[tuple[str | None, str]]


def folder_texts(path: Path, options: ReadOptions) -> Texts:
    """Name and content of the ``.txt`` files below a folder, in the order of their names."""
    for file in sorted(path.rglob("*")):
        if file.is_file() and ".txt" in file.suffixes[-2:]:
            lines, length = [], 0
            for _, line in numbered_lines(file, options.encoding):
                lines.append(line)
                length += len(line)
                if length > _LONGEST_DOCUMENT:  # perhaps far more than the size of a packed file
                    raise InvalidDataError(f"{file} is too large for one document")
            yield file.relative_to(path).as_posix(), "".join(lines)


def line_texts(path: Path, options: ReadOptions) -> Texts:
    """A document for each line; blank lines are documents without words."""
    for _, line in numbered_lines(path, options.encoding):
        yield None, line


def column_texts(path: Path, options: ReadOptions, tabs: bool) -> Texts:
    """The column of a CSV or TSV file that the options name, and the names of the rows."""
    lines = numbered_lines(path, options.encoding)
    first = next(lines, None)
    if first is None:
        raise InvalidDataError(f"{path} is empty")
    delimiter = options.delimiter or ("\t" if tabs else delimiter_of(first[1]))
    rows = fields_of(itertools.chain([first], lines), path, delimiter)
    wanted, names = options.text_field or "", None
    text = name = -1
    for position, (number, row) in enumerate(rows):
        if position == 0:
            # A column is found by name only where there is a header.
            named = not wanted.isdigit() if options.header is None else options.header
            names = [cell.strip() for cell in row] if named else None
            text = column_number(wanted, names, len(row), f"{path}: text field")
            found = id_column(options, names, len(row), path)
            name = -1 if found is None else found
            width = len(row)
            if named:
                continue
        if len(row) != width:
            raise InvalidDataError(f"{path}, line {number}: {len(row)} fields, expected {width}")
        yield (row[name] if name >= 0 else None), row[text]


def rows_of_texts(
    texts: Iterable[tuple[str | None, str]],
    where: object,
    options: ReadOptions,
    columns: Sequence[str] | None = None,
) -> tuple[Observations, tuple[str, ...] | None]:
    """Binary bags of words over the most frequent words, or over the words that are given."""
    names: list[str | None] = []

    def contents() -> Iterator[str]:
        for name, text in texts:
            names.append(name)
            yield text

    try:
        if columns is not None:
            encoded = encode_documents(contents(), (*_RESERVED, *columns), options.max_tokens)
            data = select_columns(encoded, range(2, encoded.n_visible))
        else:
            data = _with_vocabulary(contents(), where, options)
    except InvalidDataError as error:
        raise InvalidDataError(_about(error, where)) from error
    known = tuple(name for name in names if name is not None)
    return data, known if len(known) == len(names) else None


def _about(error: InvalidDataError, where: object) -> str:
    text = str(error)
    return text if text.startswith(str(where)) else f"{where}: {text}"


def _with_vocabulary(texts: Iterator[str], where: object, options: ReadOptions) -> Observations:
    size = options.vocabulary or DEFAULT_VOCABULARY
    unwanted = _stop_words() if options.stop_words == "english" else set()
    unwanted |= {word for text in options.drop for word in words_of(text)}
    found = vectorize(texts, max_words=4 * size + 1000, max_tokens=options.max_tokens)
    counts = found.train.column_counts()
    # In a handful of documents every word is in a large share of them.
    most = max(options.max_share * found.train.n_rows, 2)
    kept = [
        column
        for column in range(2, found.train.n_visible)
        if 0 < counts[column] <= most
        and not _unwanted(found.vocabulary[column], unwanted, options.stop_words == "english")
    ][:size]
    if not kept:
        raise InvalidDataError(f"{where}: no word is left for the vocabulary")
    return select_columns(found.train, np.array(kept))


def _unwanted(word: str, stop_words: set[bytes], strict: bool) -> bool:
    if strict and (len(word) < 2 or not any(character.isalpha() for character in word)):
        return True
    return word.encode() in stop_words


def _stop_words() -> set[bytes]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return {word.encode() for word in (*ENGLISH_STOP_WORDS, *_CONTRACTIONS.split())}
