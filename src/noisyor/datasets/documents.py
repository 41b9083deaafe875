"""Texts from files: JSON lines, CSV, TSV, one document per line, or a folder of text files.

Files are read line by line, compressed (gzip, xz, bzip2) or not. What is wrong is reported with
the file and the number of the line.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Literal, get_args

from noisyor._util.compression import existing, open_binary
from noisyor.errors import InvalidDataError, InvalidSettingError

__all__ = [
    "DocumentFormat",
    "EncodingErrors",
    "delimited_rows",
    "iterate_documents",
    "json_records",
    "load_documents",
    "text_field_of",
    "text_lines",
]

DocumentFormat = Literal["jsonl", "csv", "tsv", "text", "folder"]
EncodingErrors = Literal["strict", "replace"]

_ENDINGS: dict[str, DocumentFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "text",
    ".text": "text",
}
_PACKED = (".gz", ".xz", ".bz2")


def load_documents(
    path: str | os.PathLike[str],
    text_field: str | int = "text",
    *,
    format: DocumentFormat | None = None,
    header: bool | None = None,
    encoding_errors: EncodingErrors = "strict",
) -> list[str]:
    """The texts of a file or folder, in its order.

    Parameters
    ----------
    path : JSON lines, CSV or TSV with one document per record; plain text with one document per
        line; or a folder whose ``.txt`` files are one document each, in the order of their names.
        All but the folder itself may be compressed.
    text_field : name of the JSON field or of the column, or number of the column, from 0.
    format : of the file; told by the ending of its name if None.
    header : whether a CSV or TSV file begins with the names of its columns; if None it does when
        ``text_field`` is a name.
    encoding_errors : "strict" reports bytes that are not UTF-8, "replace" reads each as U+FFFD.
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
    format: DocumentFormat | None = None,
    header: bool | None = None,
    encoding_errors: EncodingErrors = "strict",
) -> Iterator[str]:
    """The same one by one, for files larger than memory; see `load_documents`."""
    path = existing(path)
    kind = _format_of(path) if format is None else format
    if kind not in get_args(DocumentFormat):
        raise InvalidSettingError(
            f"format is one of {', '.join(get_args(DocumentFormat))}, got {kind!r}"
        )
    if encoding_errors not in get_args(EncodingErrors):
        raise InvalidSettingError(
            f"encoding_errors is 'strict' or 'replace', got {encoding_errors!r}"
        )
    if path.is_dir() != (kind == "folder"):
        raise InvalidSettingError(
            f"{path} is {'a folder' if path.is_dir() else 'a file'}, but format is {kind!r}"
        )
    if header is False and isinstance(text_field, str):
        raise InvalidSettingError("without a header text_field is the number of a column, from 0")
    return _documents(path, kind, text_field, header, encoding_errors)


def _documents(
    path: Path,
    kind: DocumentFormat,
    text_field: str | int,
    header: bool | None,
    errors: EncodingErrors,
) -> Iterator[str]:
    empty = True
    if kind == "folder":
        texts = _texts_of_folder(path, errors)
    else:
        texts = _texts_of_file(path, kind, text_field, header, errors)
    for text in texts:
        empty = False
        yield text
    if empty:
        what = "has no .txt file" if kind == "folder" else "holds no document"
        raise InvalidDataError(f"{path} {what}")


def _format_of(path: Path) -> DocumentFormat:
    if path.is_dir():
        return "folder"
    name = path.name.lower()
    for ending in _PACKED:
        name = name.removesuffix(ending)
    kind = _ENDINGS.get(Path(name).suffix)
    if kind is None:
        raise InvalidSettingError(
            f"cannot tell from its name how {path} is written; give format="
            + ", ".join(f'"{one}"' for one in get_args(DocumentFormat)[:-1])
        )
    return kind


def _texts_of_folder(path: Path, errors: EncodingErrors) -> Iterator[str]:
    def wanted(name: str) -> bool:
        return name.lower().endswith((".txt", *(f".txt{ending}" for ending in _PACKED)))

    for file in sorted(path.rglob("*")):
        if file.is_file() and wanted(file.name):
            with open_binary(file) as stream:
                yield "".join(text_lines(stream, file, errors))


def _texts_of_file(
    path: Path,
    kind: DocumentFormat,
    text_field: str | int,
    header: bool | None,
    errors: EncodingErrors,
) -> Iterator[str]:
    with open_binary(path) as stream:
        lines = text_lines(stream, path, errors)
        if kind == "text":
            for line in lines:
                yield line.rstrip("\r\n")
        elif kind == "jsonl":
            for number, record in json_records(lines, path):
                text = text_field_of(record, str(text_field), path, number)
                yield _characters(text, f"{path}, line {number}", errors)
        else:
            rows = delimited_rows(lines, path, "\t" if kind == "tsv" else ",")
            named = isinstance(text_field, str) if header is None else header
            column = text_field
            for number, row in rows:
                if named:
                    column = _column(text_field, row, f"{path}, line {number}")
                    named = False
                    continue
                if not isinstance(column, int) or not -len(row) <= column < len(row):
                    raise InvalidDataError(
                        f"{path}, line {number}: no column {column!r}, there are {len(row)}"
                    )
                yield row[column]


def _characters(text: str, where: str, errors: EncodingErrors) -> str:
    """JSON can write half a surrogate pair, which no file in UTF-8 can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        if errors == "strict":
            raise InvalidDataError(
                f"{where}: half a surrogate pair at position {error.start + 1} of the text; "
                'encoding_errors="replace" reads on'
            ) from error
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _column(text_field: str | int, names: list[str], where: str) -> int:
    if isinstance(text_field, int):
        return text_field
    if text_field not in names:
        raise InvalidDataError(
            f"{where}: no column {text_field!r} among {', '.join(map(repr, names[:20]))}; "
            "give its name or its number as text_field"
        )
    return names.index(text_field)


# ---- lines and records


def text_lines(
    stream: IO[bytes] | Iterable[bytes], where: object, errors: EncodingErrors = "strict"
) -> Iterator[str]:
    """UTF-8 lines with their ends; a byte order mark at the start is left out."""
    for number, raw in enumerate(stream, 1):
        try:
            line = raw.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            raise InvalidDataError(
                f"{where}, line {number}: byte 0x{raw[error.start]:02x} at position "
                f'{error.start + 1} is not UTF-8; encoding_errors="replace" reads on'
            ) from error
        yield line.removeprefix("\ufeff") if number == 1 else line


def json_records(lines: Iterable[str], where: object) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of each line that is not blank."""
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            reason = getattr(error, "msg", "too deep")
            raise InvalidDataError(f"{where}, line {number}: not JSON ({reason})") from error
        if not isinstance(record, dict):
            raise InvalidDataError(
                f"{where}, line {number}: a JSON object per line is expected, "
                f"got {type(record).__name__}"
            )
        yield number, record


def text_field_of(record: dict[str, Any], field: str, where: object, number: int) -> str:
    """The text in one field of a record."""
    if field not in record:
        raise InvalidDataError(
            f"{where}, line {number}: no field {field!r} among "
            f"{', '.join(map(repr, list(record)[:20])) or 'none'}"
        )
    text = record[field]
    if not isinstance(text, str):
        raise InvalidDataError(
            f"{where}, line {number}: field {field!r} is {type(text).__name__}, expected text"
        )
    return text


def delimited_rows(
    lines: Iterable[str],
    where: object,
    delimiter: str = ",",
    *,
    width: int | None = None,
    skipped: int = 0,
) -> Iterator[tuple[int, list[str]]]:
    """First line number and fields of each row; blank lines are left out.

    Commas separate fields that may be quoted, and then hold line ends; tabs separate fields that
    are never quoted. Every row is as wide as the first, or as ``width``. ``skipped`` lines of the
    file come before those given.
    """
    # The library's limit is for the whole process; texts are longer than its 128 KiB.
    csv.field_size_limit(max(csv.field_size_limit(), min(sys.maxsize, 2**31 - 1)))
    if delimiter == "\t":
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE, strict=True)
    else:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        number = skipped + reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise InvalidDataError(f"{where}, line {number}: {error}") from error
        if row is None:
            return
        if not row:
            continue
        if width is None:
            width = len(row)
        if len(row) != width:
            raise InvalidDataError(f"{where}, line {number}: {len(row)} fields, expected {width}")
        yield number, row
