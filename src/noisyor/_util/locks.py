"""Locks of the operating system on files, which end with the process that holds them.

A killed process leaves its lock file behind but not the lock. Nothing has to be guessed from
process ids, which differ between containers and are used again.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from noisyor.errors import InvalidSettingError

if sys.platform == "win32":  # pragma: no cover
    import msvcrt
else:
    import fcntl

__all__ = ["locked", "take"]

_TAKEN = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
_BEYOND = 2**30  # where Windows locks a byte: what is locked there cannot be read
_LARGEST_NOTE = 10_000


def take(handle: int) -> bool | None:
    """Lock an open file without waiting, and tell whether it worked.

    None says that the file system has no locks. The lock ends when the file is closed, at latest
    with the process.
    """
    try:
        if sys.platform == "win32":  # pragma: no cover
            os.lseek(handle, _BEYOND, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            os.lseek(handle, 0, os.SEEK_SET)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in _TAKEN else None
    return True


@contextmanager
def locked(target: Path, doing: str) -> Iterator[None]:
    """Hold a lock on a file or folder, which need not exist yet, for the time of the context.

    The lock is a hidden file beside a file, or inside a folder. It names its holder and is removed
    at the end; the lock file of a dead process is taken over. On a file system without locks the
    context does nothing.

    Parameters
    ----------
    target : the file or folder.
    doing : what the process does, for the message to others.

    Raises
    ------
    InvalidSettingError : another process, or thread, holds the lock.
    """
    real = Path(os.path.realpath(target))
    path = real / ".noisyor.lock" if real.is_dir() else real.with_name(f".{real.name}.lock")
    handle = _hold(path, target)
    try:
        note = {"process": os.getpid(), "host": platform.node(), "doing": doing}
        with suppress(OSError):  # a full disk: the lock holds, it only cannot say whose it is
            os.truncate(handle, 0)
            os.write(handle, json.dumps(note).encode())
        yield
    finally:
        if sys.platform == "win32":  # pragma: no cover
            os.close(handle)  # an open file cannot be removed there
            with suppress(OSError):
                path.unlink()
        else:
            with suppress(OSError):
                path.unlink()  # before the lock ends: nobody else has it yet
            os.close(handle)


def _hold(path: Path, target: Path) -> int:
    """Return the handle of the file at the path, open and locked."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if take(handle) is False:
                raise InvalidSettingError(f"{target} is in use: {_holder(path)}")
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(path)):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # its holder removed it in the meantime: this is no lock any more


def _holder(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            note = json.loads(stream.read(_LARGEST_NOTE))
        process, host, doing = int(note["process"]), str(note["host"]), str(note["doing"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return "another process works on it"
    where = "" if host == platform.node() else f" on {host}"
    return f"process {process}{where} ({doing}) works on it"
