"""Lines of users' text files, decoded and counted, none of them longer than memory allows."""

from __future__ import annotations

import csv
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from noisyor._util.compression import open_binary
from noisyor.errors import InvalidDataError

__all__ = ["delimiter_of", "fields_of", "numbered_lines"]

LONGEST_LINE = 64 * 2**20
"""Bytes. Longer lines are refused: a file without line ends would be read into memory whole."""

_DELIMITERS = ",;\t|"


def numbered_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Number, from 1, and text of each line with its end; the file may be compressed."""
    with open_binary(path) as stream:
        for number in itertools.count(1):
            raw = stream.readline(LONGEST_LINE + 1)
            if not raw:
                return
            if len(raw) > LONGEST_LINE:
                raise InvalidDataError(
                    f"{path}, line {number}: longer than {LONGEST_LINE // 2**20} MB, "
                    "this is no file of lines"
                )
            if number == 1:
                if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise InvalidDataError(f"{path} is written in UTF-16; save it as UTF-8")
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if b"\0" in raw:
                raise InvalidDataError(
                    f"{path}, line {number}: a zero byte; this is not a text file"
                )
            try:
                yield number, raw.decode(encoding)
            except UnicodeDecodeError as error:
                raise InvalidDataError(
                    f"{path}, line {number}: byte 0x{raw[error.start]:02x} at position "
                    f"{error.start + 1} is not {encoding}; if the file is older or from Windows, "
                    "read it with encoding latin-1 or cp1252"
                ) from error


def delimiter_of(line: str) -> str:
    """The most frequent of the usual delimiters in a line, a comma if there is none."""
    return max(_DELIMITERS, key=line.count)


def fields_of(
    lines: Iterator[tuple[int, str]], where: object, delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """First line number and fields of each record; blank lines are left out.

    Fields between commas and the like may be quoted and then hold line ends; those between tabs
    are taken as they are.
    """
    csv.field_size_limit(max(csv.field_size_limit(), min(sys.maxsize, 2**31 - 1)))
    texts = (line for _, line in lines)
    if delimiter == "\t":
        reader = csv.reader(texts, delimiter="\t", quoting=csv.QUOTE_NONE, strict=True)
    else:
        reader = csv.reader(texts, delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise InvalidDataError(f"{where}, line {number}: {error}") from error
        if row is None:
            return
        if row:
            yield number, row
