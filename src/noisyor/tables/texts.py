"""Read plain texts, one per document, from a file or folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from noisyor.errors import InvalidSettingError
from noisyor.tables.options import ReadOptions
from noisyor.tables.readers.documents import iterate_texts

__all__ = ["iterate_documents", "load_documents"]


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
