"""Descriptions of US patents (BIGPATENT), cleaned by the rules of the data's authors.

Line numbers and tables are removed, lines with ten distinct words or fewer too; references to
figures lose their blanks. The authors end a table at the first line with more than twenty words of
an English dictionary; here it ends at the first line with more than twenty words of letters, which
needs no dictionary and keeps slightly more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from noisyor._util.compression import decompressed, members, reading, tar_members
from noisyor.errors import InvalidDataError
from noisyor.tables.jsonl import json_lines, text_of
from noisyor.tables.lines import text_lines

__all__ = ["clean_description", "patent_descriptions"]

_LINE_NUMBER = re.compile(r"^\s*\[\d+\]")
_TABLE = re.compile(r"TABLE\s+\d+(\s|$)")
_FIGURE = re.compile(r"(?:FIG.|FIGS.|FIGURE)\s+(\d),*\s*\d*")
_MANY_WORDS = 20
_FEW_WORDS = 10


def clean_description(text: str) -> str:
    """The description of a patent without line numbers, tables and short lines."""
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


def patent_descriptions(source: Path, part: str, code: str) -> Iterator[str]:
    """Cleaned descriptions of the patents of one class.

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
            texts = patent_descriptions(_beside(source, name), part, code)
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
        for number, record in json_lines(text_lines(stream, where), where):
            yield clean_description(text_of(record, "description", where, number))
