"""The text data of the paper's experiments, and substitutes for two of them.

Every loader reads its archive front to back without unpacking it, finds the vocabulary of the
training texts, and returns `TextData`. ``source`` is the user's own archive or unpacked folder in
the original layout, whatever its checksum; without it `fetch` finds the file or downloads it.

A small archive can hold far more text than a data set has. So the bytes of every text and of every
table are counted as they are read, and a loader stops with an error at a limit far above the true
size.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from noisyor._util.files import decompressed, open_binary, reading
from noisyor.data.vocabulary import TextData, vectorize
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.tables.delimited import equally_wide, fields
from noisyor.tables.documents import (
    field_of,
    json_lines,
    text_of,
)
from noisyor.tables.table import text_lines
from reproduction.datasets.archives import members, tar_members
from reproduction.datasets.download import fetch, find

__all__ = [
    "clean_description",
    "load_ag_news",
    "load_ag_news_union",
    "load_arxiv_years",
    "load_big_patent",
    "load_imdb",
    "load_scientific_papers",
    "load_yelp",
]

MAX_REVIEW = 2**20
"""Bytes of one review of IMDB; the longest has 14 kB."""

MAX_REVIEWS = 2**28
"""Bytes of all reviews of IMDB, which are sorted in memory; they have 65 MB."""

_BYTES_OF_LINE = 64  # added for every line of a review: empty lines take time and memory too

MAX_TABLE = 2**32
"""Bytes of a CSV file (AG News, Yelp)."""

MAX_ARTICLES = 2**36
"""Bytes of a file with JSON lines: whole articles of arXiv, or patents."""

Source = str | os.PathLike[str] | None

_REVIEW = re.compile(r"(?:^|/)(train|test)/(neg|pos)/(\d+)_\d+\.txt$")


def load_imdb(source: Source = None, *, max_words: int = 9_998, max_tokens: int = 500) -> TextData:
    """Load the IMDB movie reviews: 25,000 for training and 25,000 for testing.

    Each part has the negative reviews first, then the positive ones, by their number.

    Parameters
    ----------
    source : ``aclImdb_v1.tar.gz`` or the unpacked folder ``aclImdb``.
    max_words, max_tokens : see `vectorize`.
    """

    def review(record: Any, line: str) -> str:
        return text_of(field_of(record, "text", line), line)

    if source is None:
        copies = [find(f"imdb_reviews_{part}.jsonl.xz") for part in ("train", "test")]
        if all(copies):
            train, test = (_records(copy, review) for copy in copies if copy is not None)
            return vectorize(train, test, max_words, max_tokens, name="imdb_reviews")
        source = fetch("aclImdb_v1.tar.gz")
    found: dict[str, list[tuple[str, int, str]]] = {"train": [], "test": []}
    total = 0
    with reading(source):
        for name, stream in members(source, lambda name: _REVIEW.search(name) is not None):
            match = _REVIEW.search(name)
            assert match is not None
            part, label, number = match.groups()
            content = stream.read(MAX_REVIEW + 1)
            size = len(content) + _BYTES_OF_LINE * content.count(b"\n")
            where, total = f"{source}, {name}", total + size
            _check_size(size, MAX_REVIEW, where)
            _check_size(total, MAX_REVIEWS, where)
            text = "".join(line for _, line in text_lines(BytesIO(content), where))
            found[part].append((label, int(number), text))
    for part, reviews in found.items():
        if not reviews:
            raise InvalidDataError(f"{source} has no review in {part}/neg or {part}/pos")
        reviews.sort()
    train, test = ((text for _, _, text in found[part]) for part in ("train", "test"))
    return vectorize(train, test, max_words, max_tokens, name="imdb_reviews")


def load_ag_news(
    source: Source = None, *, max_words: int = 9_998, max_tokens: int = 500
) -> TextData:
    """Load AG News: the descriptions of 120,000 news items for training and 7,600 for testing.

    Parameters
    ----------
    source : a folder with ``train.csv`` and ``test.csv``, or an archive of it.
    max_words, max_tokens : see `vectorize`.
    """

    def description(row: list[str]) -> str:
        return row[2]

    if source is None:
        files = [fetch(f"ag_news_{part}.csv") for part in ("train", "test")]
        train, test = (_csv_texts(file, 3, description) for file in files)
    else:
        train, test = (_csv_member(source, part, 3, description) for part in ("train", "test"))
    return vectorize(train, test, max_words, max_tokens, name="ag_news_subset")


def load_yelp(source: Source = None, *, max_words: int = 9_998, max_tokens: int = 500) -> TextData:
    """Load Yelp polarity: 560,000 reviews for training and 38,000 for testing.

    Line ends are written as a backslash and the letter n in the files. They are left so, as in the
    paper's experiments: the backslash is deleted, the letter joins the words around it.

    Parameters
    ----------
    source : ``yelp_review_polarity_csv.tgz`` or the unpacked folder.
    max_words, max_tokens : see `vectorize`.
    """
    archive = fetch("yelp_review_polarity_csv.tgz") if source is None else source

    def review(row: list[str]) -> str:
        return row[1]

    train, test = (_csv_member(archive, part, 2, review) for part in ("train", "test"))
    return vectorize(train, test, max_words, max_tokens, name="yelp_polarity_reviews")


def load_scientific_papers(
    source: Source = None, *, max_words: int = 9_998, max_tokens: int = 500
) -> TextData:
    """Load abstracts of arXiv papers: 203,037 for training and 6,440 for testing.

    Parameters
    ----------
    source : ``arxiv-dataset.zip`` (3.6 GB) or the unpacked folder.
    max_words, max_tokens : see `vectorize`.
    """
    archive = fetch("arxiv-dataset.zip") if source is None else source
    train, test = (_abstracts(archive, part) for part in ("train", "test"))
    return vectorize(train, test, max_words, max_tokens, name="scientific_papers")


def load_big_patent(
    source: Source = None, *, code: str = "f", max_words: int = 9_998, max_tokens: int = 500
) -> TextData:
    """Load descriptions of US patents; class f has 85,568 for training and 4,754 for testing.

    The descriptions are cleaned as by the data's authors, see `clean_description`.

    Parameters
    ----------
    source : ``bigPatentDataNonTokenized.tar.gz``, a folder with ``train`` and ``test`` as archives
        (tar or zip), or the unpacked folder.
    code : class of the patents, one of a to h and y: f is mechanical engineering.
    max_words, max_tokens : see `vectorize`.
    """
    if code not in tuple("abcdefghy"):
        raise InvalidSettingError(f"code is one of a to h and y, got {code!r}")
    train, test = (
        _patent_descriptions(
            fetch(f"big_patent_{part}.zip") if source is None else Path(source), part, code
        )
        for part in ("train", "test")
    )
    return vectorize(train, test, max_words, max_tokens, name=f"big_patent/{code}")


# ---- substitutes


def load_ag_news_union(*, max_words: int = 9_998, max_tokens: int = 500) -> TextData:
    """Load 77,006 of the 120,000 training items of AG News, and all 7,600 for testing.

    Descriptions as in the paper; 20,213 training items are known with title and description joined
    only and keep their titles.
    """

    def text(record: Any, line: str) -> str:
        field = "text" if field_of(record, "split", line) == "none" else "description"
        return text_of(field_of(record, field, line), line)

    train = _records(fetch("ag_news_train_union.jsonl.xz"), text)
    test = _csv_texts(fetch("ag_news_test.csv"), 3, lambda row: row[2])
    name = "ag_news_union (77,006 of 120,000 training documents)"
    return vectorize(train, test, max_words, max_tokens, name=name)


def load_arxiv_years(*, max_words: int = 9_998, max_tokens: int = 500) -> TextData:
    """Load arXiv abstracts of 1991 to 2017: 203,037 for training and 6,440 for testing.

    They have the source, years and sizes of scientific_papers but are other abstracts.
    """

    def part(wanted: str) -> Iterator[str]:
        def text(record: Any, line: str) -> str | None:
            right = field_of(record, "split", line) == wanted
            return text_of(field_of(record, "abstract", line), line) if right else None

        return _records(fetch("arxiv_abstracts_1991_2017.jsonl.xz"), text)

    name = "arxiv_years (arXiv abstracts of 1991 to 2017, in place of scientific_papers)"
    return vectorize(part("train"), part("test"), max_words, max_tokens, name=name)


def _records(path: Path, text: Callable[[Any, str], str | None]) -> Iterator[str]:
    """Iterate over the texts of the records of a file of JSON lines; None leaves a record out."""
    with open_binary(path) as stream:
        for line, record in json_lines(_lines(stream, path, MAX_TABLE), path):
            found = text(record, line)
            if found is not None:
                yield found


# ---- reading


def _check_size(size: int, limit: int, where: object) -> None:
    """Raise an error if a text is larger than the data set can be."""
    if size > limit:
        raise InvalidDataError(
            f"{where}: more than {limit // 2**20:,} MB of text; this is not the data set"
        )


def _lines(stream: IO[bytes], where: object, limit: int) -> Iterator[tuple[int, str]]:
    """Iterate over the numbered lines of a stream, up to a limit on their size in total."""
    size = 0
    for number, line in text_lines(stream, where):
        size += len(line)  # characters: at most as many as bytes
        _check_size(size, limit, where)
        yield number, line


def _csv_texts(path: Path, width: int, text: Callable[[list[str]], str]) -> Iterator[str]:
    with open_binary(path) as stream:
        yield from _texts_of_rows(stream, path, width, text)


def _csv_member(
    source: str | os.PathLike[str], part: str, width: int, text: Callable[[list[str]], str]
) -> Iterator[str]:
    def texts(stream: IO[bytes], where: object) -> Iterator[str]:
        return _texts_of_rows(stream, where, width, text)

    yield from _member_texts(source, f"{part}.csv", texts)


def _texts_of_rows(
    stream: IO[bytes], where: object, width: int, text: Callable[[list[str]], str]
) -> Iterator[str]:
    rows = fields(_lines(stream, where, MAX_TABLE), where)
    for _, row in equally_wide(rows, where, width):
        yield text(row)


def _abstracts(source: str | os.PathLike[str], part: str) -> Iterator[str]:
    def texts(stream: IO[bytes], where: object) -> Iterator[str]:
        for line, record in json_lines(_lines(stream, where, MAX_ARTICLES), where):
            sentences = field_of(record, "abstract_text", line)
            if not isinstance(sentences, list) or not all(isinstance(s, str) for s in sentences):
                raise InvalidDataError(f"{line}: field 'abstract_text' is not a list of sentences")
            yield "\n".join(sentences).replace("<S>", "").replace("</S>", "")

    yield from _member_texts(source, f"{part}.txt", texts)


def _member_texts(
    source: str | os.PathLike[str],
    file: str,
    texts: Callable[[IO[bytes], object], Iterator[str]],
) -> Iterator[str]:
    """Iterate over the texts of the one file of this name in an archive or folder."""
    empty = True
    with reading(source):
        for name, raw in members(source, lambda name: name.rpartition("/")[2] == file):
            with decompressed(raw, f"{source}, {name}") as stream:
                for text in texts(stream, f"{source}, {name}"):
                    empty = False
                    yield text
    if empty:
        raise InvalidDataError(f"{source} has no document in a file {file}")


# ---- patents

_LINE_NUMBER = re.compile(r"^\s*\[\d+\]")
_TABLE = re.compile(r"TABLE\s+\d+(\s|$)")
_FIGURE = re.compile(r"(?:FIG.|FIGS.|FIGURE)\s+(\d),*\s*\d*")
_MANY_WORDS = 20
_FEW_WORDS = 10


def clean_description(text: str) -> str:
    """Clean the description of a patent by the rules of the data's authors.

    Line numbers and tables are removed, and lines with ten distinct words or fewer; references to
    figures lose their blanks. The authors end a table at the first line with more than twenty words
    of an English dictionary. Here it ends at the first line with more than twenty words of letters,
    which needs no dictionary and keeps slightly more.
    """
    kept: list[str] = []
    in_table = False
    for line in text.splitlines():
        line = _LINE_NUMBER.sub("", line).strip()
        words = line.split(" ")
        if in_table:
            in_table = sum(word.isalpha() for word in words) <= _MANY_WORDS
        else:
            in_table = _TABLE.match(line) is not None
        if not in_table and len(set(words)) > _FEW_WORDS:
            kept.append(line)
    joined = _FIGURE.sub(r"FIG\1 ", "\n".join(kept))
    return " ".join(filter(None, joined.split(" ")))


def _patent_descriptions(source: Path, part: str, code: str) -> Iterator[str]:
    """Iterate over the cleaned descriptions of the patents of one class.

    Parameters
    ----------
    source : archive of all parts or of one, or a folder of such archives or of their files; the
        files are JSON lines, compressed: ``part/code/...``.
    part : "train", "val" or "test".
    code : letter of the class.
    """
    files = re.compile(rf"(?:^|/){part}/{code}/[^/]+$")
    inner = re.compile(rf"(?:^|/)(?:big_patent_)?{part}\.(?:tar\.gz|tgz|tar|zip)$")

    def wanted(name: str) -> bool:
        return files.search(name) is not None or inner.search(name) is not None

    empty = True
    for name, stream in members(source, wanted):
        where = f"{source}, {name}"
        if files.search(name):
            texts = _descriptions(stream, where)
        elif name.endswith(".zip"):
            texts = _patent_descriptions(_beside(source, name), part, code)
        else:
            texts = _inner_descriptions(stream, where, files)
        for text in texts:
            empty = False
            yield text
    if empty:
        raise InvalidDataError(f"{source} has no patent in {part}/{code}")


def _beside(source: Path, name: str) -> Path:
    if not source.is_dir():
        raise InvalidDataError(f"{source}, {name}: a zip archive in an archive cannot be streamed")
    return source.resolve().parent / name


def _inner_descriptions(stream: IO[bytes], where: str, files: re.Pattern[str]) -> Iterator[str]:
    for name, member in tar_members(stream, where, lambda name: files.search(name) is not None):
        yield from _descriptions(member, f"{where}, {name}")


def _descriptions(raw: IO[bytes], where: str) -> Iterator[str]:
    with reading(where), decompressed(raw, where) as stream:
        for line, record in json_lines(_lines(stream, where, MAX_ARTICLES), where):
            yield clean_description(text_of(field_of(record, "description", line), line))
