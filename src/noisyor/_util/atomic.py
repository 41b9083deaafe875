"""Writing files so that a stop at any moment leaves the old content or the new, never half."""

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
    """Replace a file in one step: what is written goes beside it, to disk, and gets its name.

    The stream may also be read. The folder must exist. On failure the old file stays and no
    temporary file remains. A process that is killed leaves one behind; the next that writes the
    same file removes it.
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
    """A new file beside the target, locked as long as it is open."""
    while True:
        handle, temporary = tempfile.mkstemp(_ENDING, _prefix(target), target.parent)
        if take(handle) is not False and os.path.exists(temporary):
            return handle, temporary
        os.close(handle)  # another process took it for a leftover before it was locked
        Path(temporary).unlink(missing_ok=True)


def _remove_leftovers(target: Path) -> None:
    """Remove what writers of the same file left when they were killed, never a living one's."""
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
    """How names of temporary files begin; a hash, because the name itself may be of full length."""
    return f".{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}."


def _mode(target: Path) -> int:
    """Permissions of the file that is replaced, or those that a new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
