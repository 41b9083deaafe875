"""Files that a command will write: checked before the work, written after it in one step."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from noisyor._util.atomic import write_atomically
from noisyor.errors import InvalidSettingError

__all__ = ["check_folder", "check_target", "make_folder", "real_path", "write_text"]

ROOM = 2**20
"""Bytes that must fit on the disk before work begins."""


def check_folder(folder: Path) -> None:
    """Try to write into a folder, or into the one that it would be created in."""
    existing = real_path(folder)
    try:
        while not existing.exists():
            existing = existing.parent
        with tempfile.TemporaryFile(dir=existing) as probe:
            probe.write(bytes(ROOM))
    except OSError as error:
        raise _about(folder, error) from error


def check_target(path: Path, is_ours: Callable[[Path], bool], author: str) -> None:
    """Refuse to replace anything but an empty file or one that the author wrote earlier."""
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


def real_path(path: Path) -> Path:
    """The place itself: through links, so that a link stays one when its target is replaced."""
    return Path(os.path.realpath(path))


def _about(path: Path, error: OSError) -> OSError:
    """The same error with the name that the user gave, not that of a temporary file."""
    return OSError(error.errno, error.strerror or str(error), str(path))
