"""Lines of text files, the documents in them, and JSON lines of objects, tags or documents."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noisyor._util.files import located, uncompressed_name
from noisyor.data.columns import select_columns
from noisyor.data.observations import Observations
from noisyor.data.vocabulary import encode_documents, vectorize, words_of
from noisyor.errors import InvalidDataError
from noisyor.tables.options import FORMATS, ReadOptions
from noisyor.tables.table import Lines, Table, file_lines, rows_of_items

TEXT_FIELD = "text"
"""Column or JSON field with the text of a document, unless another one is given."""

TITLE_FIELD = "title"
"""Column or JSON field that names a document, unless another one is given."""

_DEFAULT_VOCABULARY = 1000

_MAX_SHARE = 0.5
"""Words in more than this share of the documents are left out."""

_EXCERPT = 420
"""Letters of a document that a table keeps, for reports."""

_LONG_TEXT = 30
"""Words from which a JSON field is a document, such as an abstract beside a title and tags."""

# Contractions without their apostrophes are in no list of stop words.
_CONTRACTIONS = (
    "dont im ive id youre youve youd youll hes shes hed theyre theyve weve wed isnt arent wasnt "
    "werent doesnt didnt havent hasnt hadnt wont wouldnt cant couldnt shouldnt aint thats theres "
    "whats whos lets itll"
)

Texts = Iterator[tuple[str | None, str]]
Records = Iterable[tuple[str, Any]]
"""Position of each record, such as ``"rows.jsonl, line 3"``, and the record."""


# ---- documents


def read(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Read a file with a document in each line, or a folder of text files."""
    return rows_of_texts(_texts(path, options), path, options, columns)


def _texts(path: Path, options: ReadOptions) -> Texts:
    """Iterate over lines (None and text), or over files of a folder by name (name and text)."""
    if not path.is_dir():
        for _, line in file_lines(path, options):
            yield None, line.rstrip("\r\n")
        return
    for file in sorted(path.rglob("*")):
        if file.is_file() and uncompressed_name(file).endswith(FORMATS["folder"].members):
            text = "".join(line for _, line in file_lines(file, options))
            yield file.relative_to(path).as_posix(), text


def rows_of_texts(
    texts: Iterable[tuple[str | None, str]],
    where: object,
    options: ReadOptions,
    columns: Sequence[str] | None = None,
) -> Table:
    """Build binary bags of words over the most frequent words, or over the words given.

    Parameters
    ----------
    texts : name, or None, and text of each document.
    where : names the file in errors.
    options : ``vocabulary``, ``stop_words`` and ``drop`` are used.
    columns : the words; found in the texts if None.
    """
    names: list[str | None] = []
    excerpts: list[str] = []

    def contents() -> Iterator[str]:
        for name, text in texts:
            names.append(name)
            excerpts.append(_excerpt(text))
            yield text

    with located(where):
        if columns is not None:
            data = encode_documents(contents(), columns)
        else:
            data = _with_vocabulary(contents(), options)
    known = tuple(name for name in names if name is not None)
    named = known if len(known) == len(names) else None
    return Table(data, named, excerpts=tuple(excerpts))


def _excerpt(text: str) -> str:
    """Return the first letters of a text, in one line and up to the end of a word."""
    line = " ".join(text[: 4 * _EXCERPT].split())
    return line if len(line) <= _EXCERPT else line[:_EXCERPT].rsplit(" ", 1)[0] + " …"


def _with_vocabulary(texts: Iterator[str], options: ReadOptions) -> Observations:
    size = options.vocabulary or _DEFAULT_VOCABULARY
    is_english = options.stop_words == "english"
    unwanted = {word for text in options.drop for word in words_of(text)}
    if is_english:
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        unwanted |= {word.encode() for word in (*ENGLISH_STOP_WORDS, *_CONTRACTIONS.split())}
    found = vectorize(texts, max_words=4 * size + 1000)
    counts = found.train.column_counts()
    # In a handful of documents every word is in a large share of them.
    most = max(_MAX_SHARE * found.train.n_rows, 2)
    kept = [
        column
        for column, word in enumerate(found.vocabulary)
        if column >= 2
        and 0 < counts[column] <= most
        and word.encode() not in unwanted
        and not (is_english and (len(word) < 2 or not any(map(str.isalpha, word))))
    ][:size]
    if not kept:
        raise InvalidDataError(
            "no word is left for the vocabulary without numbers, stop words and words of "
            "more than half of the documents; a table needs commas or tabs between its columns"
        )
    return select_columns(found.train, np.array(kept))


# ---- JSON lines


def read_json(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Read lists of tags or documents; the first line shows which.

    ``columns`` are the tags or words that are wanted; all if None.
    """
    records = json_lines(file_lines(path, options), path)
    first = next(records, None)
    if first is None:
        raise InvalidDataError(f"{path} is empty")
    where, record = first
    field = options.text_field
    if isinstance(record, dict):
        field = _main_field(record) if field is None else field
        if field is None:
            raise InvalidDataError(
                f"{where}: none of the fields {', '.join(map(repr, list(record)[:12]))} is a text "
                "or a list of tags; ReadOptions(text_field=...) names one; for a table of 0/1 "
                "fields save the file as CSV"
            )
        record = field_of(record, field, where)
    elif isinstance(record, list | str):
        field = None  # the whole line
    else:
        raise InvalidDataError(
            f"{where}: a JSON object or list is expected, got {type(record).__name__}"
        )
    everything = itertools.chain([first], records)
    if isinstance(record, list):
        return rows_of_items(_tags(everything, field, options), path, options, columns)
    return rows_of_texts(_json_texts(everything, field, options), path, options, columns)


def _main_field(record: dict[str, Any]) -> str | None:
    """Return the main field of a file: ``text``, the only long text, or the only list."""
    texts = {key: value for key, value in record.items() if isinstance(value, str)}
    if TEXT_FIELD in texts:
        return TEXT_FIELD
    long = [key for key, value in texts.items() if len(value.split()) >= _LONG_TEXT]
    lists = [key for key, value in record.items() if isinstance(value, list)]
    return next((fields[0] for fields in (long, lists) if len(fields) == 1), None)


def json_lines(lines: Lines, path: object) -> Iterator[tuple[str, Any]]:
    """Iterate over lines that are not blank: position for error messages, and value."""
    for line_number, line in lines:
        if line.isspace():
            continue
        where = f"{path}, line {line_number}"
        try:
            yield where, json.loads(line)
        except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
            reason = getattr(error, "msg", None) or " ".join(str(error).split())
            raise InvalidDataError(
                f"{where}: not JSON ({reason}); a JSON object or list is expected on every line"
            ) from error


def text_of(value: Any, where: str) -> str:
    """Return a value that must be a text."""
    if not isinstance(value, str):
        raise InvalidDataError(f"{where}: expected text, got {type(value).__name__}")
    return value


def field_of(record: Any, field: str, where: str) -> Any:
    """Return the value of a field of an object; ``where`` names its line in errors."""
    if not isinstance(record, dict):
        raise InvalidDataError(
            f"{where}: a JSON object with the field {field!r} is expected, "
            f"got {type(record).__name__}"
        )
    if field not in record:
        there = ", ".join(map(repr, list(record)[:12])) or "none"
        raise InvalidDataError(f"{where}: no field {field!r} among {there}")
    return record[field]


def _fields(
    records: Records, field: str | None, options: ReadOptions
) -> Iterator[tuple[str, str | None, Any]]:
    """Iterate over records: position, name, and the value of a field, or of the whole line."""
    for where, record in records:
        value = record if field is None else field_of(record, field, where)
        name = None
        if options.id_column is not None and (options.id_required or options.id_column in record):
            name = str(field_of(record, options.id_column, where))
        elif isinstance(record, dict) and field != TITLE_FIELD:
            title = record.get(TITLE_FIELD)
            name = title if isinstance(title, str) and title.strip() else None
        yield where, name, value


def _json_texts(records: Records, field: str | None, options: ReadOptions) -> Texts:
    """Iterate over documents: name and text."""
    for where, name, text in _fields(records, field, options):
        yield name, text_of(text, where)


def _tags(
    records: Records, field: str | None, options: ReadOptions
) -> Iterator[tuple[str | None, list[str]]]:
    """Iterate over lines: name and tags."""
    for where, name, tags in _fields(records, field, options):
        if not isinstance(tags, list) or not all(
            isinstance(tag, str | int) and not isinstance(tag, bool) for tag in tags
        ):
            raise InvalidDataError(
                f"{where}: expected a list of tags (texts); give one object or list in a line, and "
                "a table of 0/1 fields as CSV"
            )
        yield name, [str(tag) for tag in tags]
