"""Files that a command writes: paths checked before the work, content written in one step."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from noisyor._util.atomic import write_atomically
from noisyor.errors import InvalidSettingError

__all__ = [
    "FORMULA_STARTS",
    "check_folder",
    "check_target",
    "csv_content",
    "make_folder",
    "real_path",
    "write_text",
]

ROOM = 2**20
"""Bytes that must fit on the disk before work begins."""

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""First characters by which a spreadsheet takes a text for a formula."""


def check_folder(folder: Path) -> None:
    """Check that a folder, or the one that it would be created in, can be written to."""
    existing = real_path(folder)
    try:
        while not existing.exists():
            existing = existing.parent
        with tempfile.TemporaryFile(dir=existing) as probe:
            probe.write(bytes(ROOM))
    except OSError as error:
        raise _about(folder, error) from error


def check_target(path: Path, is_ours: Callable[[Path], bool], author: str) -> None:
    """Check that a path is free, empty or holds a file that the author wrote earlier."""
    try:
        if not os.path.lexists(path):
            return
        if not path.is_file():
            raise InvalidSettingError(f"{path} is in the way: it is not a regular file")
        if path.stat().st_size and not is_ours(path):
            raise InvalidSettingError(
                f"{path} exists and was not written by {author}; remove it or choose another name"
            )
    except OSError as error:
        raise _about(path, error) from error


def make_folder(folder: Path) -> None:
    """Create a folder with those above it, unless it exists."""
    try:
        real_path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _about(folder, error) from error


def write_text(path: Path, text: str) -> None:
    """Replace a file in one step; what UTF-8 does not have (half a surrogate pair) is a ``?``."""
    try:
        write_atomically(real_path(path), text.encode(errors="replace"))
    except OSError as error:
        raise _about(path, error) from error


def csv_content(rows: Iterable[Iterable[object]]) -> bytes:
    """Return rows of cells as the content of a CSV file.

    A text that a spreadsheet would take for a formula gets an apostrophe before it, which the
    reader of CSV files removes from column names. Numbers stay as they are.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow([_no_formula(cell) if isinstance(cell, str) else cell for cell in row])
    return text.getvalue().encode(errors="replace")


def _no_formula(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def real_path(path: Path) -> Path:
    """Return the path behind links, so that a link stays one when its target is replaced."""
    return Path(os.path.realpath(path))


def _about(path: Path, error: OSError) -> OSError:
    """Return the error with the name that the user gave, not that of a temporary file."""
    return OSError(error.errno, error.strerror or str(error), str(path))
