"""Replace files in one step: a stop at any moment leaves the old content or the new one."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from noisyor._util.locks import take

_ENDING = ".noisyor-part"


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file in one step, see `replacing`."""
    with replacing(path) as stream:
        stream.write(content)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a stream whose content replaces a file in one step at the end.

    The content is written to a temporary file beside the target, flushed to disk, and renamed. The
    stream may also be read. The folder must exist. On failure the old file stays and no temporary
    file remains. A killed process leaves one behind, which the next writer of the file removes.
    """
    target = Path(path)
    _remove_leftovers(target)
    handle, temporary = _open_part(target)
    try:
        with os.fdopen(handle, "w+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            os.chmod(temporary, _mode(target))
            if sys.platform != "win32":
                os.replace(temporary, target)  # while the lock holds, so that nobody removes it
        if sys.platform == "win32":  # pragma: no cover
            os.replace(temporary, target)  # an open file cannot be renamed there
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _open_part(target: Path) -> tuple[int, str]:
    """Create a temporary file beside the target, locked as long as it is open."""
    while True:
        handle, temporary = tempfile.mkstemp(_ENDING, _prefix(target), target.parent)
        if take(handle) is not False and os.path.exists(temporary):
            return handle, temporary
        os.close(handle)  # another process took it for a leftover before it was locked
        Path(temporary).unlink(missing_ok=True)


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files of killed writers of the same file, never those of a living one."""
    if sys.platform == "win32":  # pragma: no cover
        return
    form = re.compile(f"{re.escape(_prefix(target))}[a-z0-9_]{{8}}{re.escape(_ENDING)}")
    with suppress(OSError):
        for entry in os.scandir(target.parent):
            if form.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                handle = os.open(entry.path, os.O_RDWR | os.O_NOFOLLOW)
                try:
                    if take(handle):
                        os.unlink(entry.path)
                finally:
                    os.close(handle)


def _prefix(target: Path) -> str:
    """Return the prefix of temporary files: a hash, since the name may have full length."""
    return f".{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}."


def _mode(target: Path) -> int:
    """Return the permissions of the file to replace, or those that a new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
