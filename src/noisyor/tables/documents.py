"""Documents: texts of files and folders, and the words of a vocabulary that each contains."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from noisyor._util.compression import uncompressed_name
from noisyor.data.columns import select_columns
from noisyor.data.observations import Observations
from noisyor.data.vocabulary import PADDING, UNKNOWN, encode_documents, vectorize, words_of
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.tables.formats import FORMATS, format_of
from noisyor.tables.lines import file_lines
from noisyor.tables.options import ReadOptions
from noisyor.tables.table import Table

__all__ = [
    "TEXT_FIELD",
    "TITLE_FIELD",
    "iterate_documents",
    "iterate_texts",
    "load_documents",
    "read",
    "read_texts",
    "rows_of_texts",
]

TEXT_FIELD = "text"
"""Column or JSON field with the text of a document, unless another one is given."""

TITLE_FIELD = "title"
"""Column or JSON field that names a document, unless another one is given."""

DEFAULT_VOCABULARY = 1000

_RESERVED = (PADDING, UNKNOWN)
# Contractions without their apostrophes are in no list of stop words.
_CONTRACTIONS = (
    "dont im ive id youre youve youd youll hes shes hed theyre theyve weve wed isnt arent wasnt "
    "werent doesnt didnt havent hasnt hadnt wont wouldnt cant couldnt shouldnt aint thats theres "
    "whats whos lets itll"
)

Texts = Iterator[tuple[str | None, str]]


def load_documents(
    path: str | os.PathLike[str],
    text_field: str | int = "text",
    *,
    format: str | None = None,
    header: bool | None = None,
    encoding_errors: str = "strict",
) -> list[str]:
    """Read the texts of a file or folder, in their order there.

    Parameters
    ----------
    path : JSON lines, CSV or TSV with one document per record; plain text with one document per
        line; or a folder whose ``.txt`` files are one document each, in the order of their names.
        All but the folder itself may be compressed.
    text_field : name of the JSON field or of the column, or number of the column, from 0.
    format : of the file; recognized by its content and name if None.
    header : whether a CSV or TSV file begins with the names of its columns; if None it does when
        ``text_field`` is a name.
    encoding_errors : "strict" reports bytes that are not UTF-8, "replace" reads each as U+FFFD.

    Examples
    --------
    >>> import noisyor as nor
    >>> with open("mail.csv", "w") as file:
    ...     _ = file.write("sender,body\\nAda,see you soon\\n")
    >>> nor.tables.load_documents("mail.csv", "body")
    ['see you soon']
    """
    return list(
        iterate_documents(
            path, text_field, format=format, header=header, encoding_errors=encoding_errors
        )
    )


def iterate_documents(
    path: str | os.PathLike[str],
    text_field: str | int = "text",
    *,
    format: str | None = None,
    header: bool | None = None,
    encoding_errors: str = "strict",
) -> Iterator[str]:
    """Iterate over the texts of a file or folder without holding all of them in memory.

    The parameters are those of `load_documents`.

    Examples
    --------
    >>> import noisyor as nor
    >>> with open("texts.jsonl", "w") as file:
    ...     _ = file.write('{"text": "A cat."}\\n{"text": "A dog."}\\n')
    >>> for text in nor.tables.iterate_documents("texts.jsonl"):
    ...     print(text)
    A cat.
    A dog.
    """
    by_name = isinstance(text_field, str)
    if header is False and by_name:
        raise InvalidSettingError("without a header text_field is the number of a column, from 0")
    options = ReadOptions(
        format=format,
        header=by_name if header is None else header,
        encoding_errors=encoding_errors,
        text_field=str(text_field),
    )
    return iterate_texts(Path(path), options)


def iterate_texts(path: Path, options: ReadOptions) -> Iterator[str]:
    """Iterate over the documents of a file or folder of any format that can hold documents.

    Parameters
    ----------
    path : a file or folder of a format with ``texts`` in `noisyor.tables.formats`.
    options : ``format``, ``text_field``, ``header`` and the encoding are used.
    """
    asked = "folder" if path.is_dir() and options.format is None else options.format
    name = format_of(path, asked)
    if not FORMATS[name].texts:
        raise InvalidSettingError(f"{path} is of the format {name}, which holds no documents")
    texts: Texts = FORMATS[name].load("texts")(path, replace(options, format=name))
    return _at_least_one((text for _, text in texts), path)


def _at_least_one(texts: Iterator[str], path: Path) -> Iterator[str]:
    first = next(texts, None)
    if first is None:
        what = "has no .txt file" if path.is_dir() else "holds no document"
        raise InvalidDataError(f"{path} {what}")
    yield first
    yield from texts


def read(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Read a file with a document in each line, or a folder of text files."""
    return rows_of_texts(read_texts(path, options), path, options, columns)


def read_texts(path: Path, options: ReadOptions) -> Texts:
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
    options : ``vocabulary``, ``max_share``, ``stop_words``, ``drop`` and ``max_tokens`` are used.
    columns : the words; found in the texts if None.
    """
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
    return Table(data, known if len(known) == len(names) else None, documents=True)


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
