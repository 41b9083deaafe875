"""Lines and records of text files, decoded and counted."""

from __future__ import annotations

import csv
import itertools
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from noisyor._util.compression import open_binary
from noisyor.errors import InvalidDataError
from noisyor.tables.options import ReadOptions

__all__ = ["equally_wide", "fields", "file_fields", "file_lines", "text_lines"]

LONGEST_LINE = 32 * 2**20
"""Bytes. A file without line ends would be read into memory as a whole."""

LONGEST_RECORD = 16 * 2**20
"""Bytes of a record of several lines. A quote that is never closed would swallow the file."""

Lines = Iterable[tuple[int, str]]
Fields = Iterator[tuple[int, list[str]]]

_DELIMITERS = ",;\t|"
_QUOTED = re.compile(r'"[^"]*"?')


def file_lines(path: Path, options: ReadOptions) -> Iterator[tuple[int, str]]:
    """Iterate over lines of a file, perhaps compressed: number from 1, and text with its end."""
    with open_binary(path) as stream:
        yield from text_lines(stream, path, options.encoding, options.encoding_errors)


def text_lines(
    stream: IO[bytes], where: object, encoding: str = "utf-8", errors: str = "strict"
) -> Iterator[tuple[int, str]]:
    """Iterate over the lines of a stream: number from 1, and text with its end.

    Parameters
    ----------
    stream : of bytes; a byte order mark of UTF-8 at the start is left out.
    where : names the stream in errors.
    encoding : of the text.
    errors : "strict" reports bytes that are not in the encoding, "replace" reads U+FFFD.
    """
    for number in itertools.count(1):
        raw = stream.readline(LONGEST_LINE + 1)
        if not raw:
            return
        if len(raw) > LONGEST_LINE:
            raise InvalidDataError(
                f"{where}, line {number}: longer than {LONGEST_LINE // 2**20} MB, "
                "this is no file of lines"
            )
        if number == 1:
            if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise InvalidDataError(f"{where} is written in UTF-16; save it as UTF-8")
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        if b"\0" in raw:
            raise InvalidDataError(f"{where}, line {number}: a zero byte; this is not a text file")
        try:
            yield number, raw.decode(encoding, errors)
        except UnicodeDecodeError as error:
            raise InvalidDataError(
                f"{where}, line {number}: byte 0x{raw[error.start]:02x} at position "
                f"{error.start + 1} is not {encoding}; if the file is older or from Windows, give "
                'ReadOptions(encoding="latin-1") or "cp1252"; '
                'ReadOptions(encoding_errors="replace") reads on'
            ) from error


def file_fields(path: Path, options: ReadOptions) -> Fields:
    """Iterate over the records of a CSV or TSV file: number of the first line, and fields."""
    lines = file_lines(path, options)
    first = next(lines, None)
    if first is None:
        raise InvalidDataError(f"{path} is empty")
    delimiter = "\t" if options.format == "tsv" else _most_frequent_delimiter(first[1])
    return fields(itertools.chain([first], lines), path, options.delimiter or delimiter)


def fields(lines: Lines, where: object, delimiter: str = ",") -> Fields:
    """Iterate over records: number of the first line, and fields; blank lines are left out.

    Fields between commas and the like may be quoted and then hold line ends. Fields between tabs
    are taken as they are.
    """
    # The library's limit is for the whole process; texts are longer than its 128 KiB.
    csv.field_size_limit(max(csv.field_size_limit(), min(sys.maxsize, 2**31 - 1)))
    begin = size = 0

    def texts() -> Iterator[str]:
        nonlocal begin, size
        for number, line in lines:
            if not begin:
                begin, size = number, 0
            size += len(line)
            if number > begin and size > LONGEST_RECORD:
                raise InvalidDataError(
                    f"{where}, line {begin}: a quoted field goes on for {number - begin:,} lines; "
                    "is its end missing?"
                )
            yield line

    if delimiter == "\t":
        reader = csv.reader(texts(), delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=True)
    else:
        reader = csv.reader(texts(), delimiter=delimiter, strict=True)
    while True:
        begin = 0
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise InvalidDataError(f"{where}, line {begin}: {error}") from error
        if row is None:
            return
        if row:
            yield begin, row


def equally_wide(
    rows: Iterable[tuple[int, list[str]]], where: object, width: int | None = None, hint: str = ""
) -> Fields:
    """Check that all rows are as wide as the first, or as ``width``; errors end in the hint."""
    for number, row in rows:
        if len(row) != width:
            if width is not None:
                raise InvalidDataError(
                    f"{where}, line {number}: {len(row)} fields, expected {width}{hint}"
                )
            width = len(row)
        yield number, row


def _most_frequent_delimiter(line: str) -> str:
    """Return the most frequent of the usual delimiters outside quotes, a comma if there is none."""
    return max(_DELIMITERS, key=_QUOTED.sub("", line).count)
