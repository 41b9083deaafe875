"""Open files, compressed or not, and write them safely: in one step, under a lock.

Compression is recognized by the first bytes, not by the name. A file that ends early is an
`InvalidDataError`, never a shorter file.
"""

from __future__ import annotations

import bz2
import csv
import errno
import gzip
import hashlib
import io
import json
import lzma
import math
import os
import re
import secrets
import shutil
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from noisyor.errors import DatasetNotFoundError, InvalidDataError, InvalidSettingError, NoisyOrError

if sys.platform == "win32":  # pragma: no cover
    import msvcrt
else:
    import fcntl


COMPRESSIONS: dict[str, tuple[bytes, Callable[[Any], Any]]] = {
    ".xz": (b"\xfd7zXZ\x00", lzma.open),
    ".gz": (b"\x1f\x8b", gzip.open),
    ".bz2": (b"BZh", bz2.open),
}
"""First bytes and opening function of compressed files, by the ending of their names."""

_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)


def uncompressed_name(path: Path) -> str:
    """Return the name of a file in lower case, without the endings of compressions."""
    name = path.name.lower()
    while (ending := Path(name).suffix) in COMPRESSIONS:
        name = name.removesuffix(ending)
    return name


def existing(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file or folder that must exist."""
    found = Path(path)
    if not found.exists():
        raise DatasetNotFoundError(f"{found} does not exist")
    return found


@contextmanager
def reading(
    where: object, *more: type[Exception], fault: str = "damaged or incomplete"
) -> Iterator[None]:
    """Convert any exception from a damaged file to one `InvalidDataError` that names the file.

    Parameters
    ----------
    where : the file, and the position in it.
    more : further exceptions of a parser that mean damage.
    fault : text of the message.
    """
    damage: tuple[type[Exception], ...] = (*_DAMAGE, *more, OSError)
    try:
        yield
    except NoisyOrError:
        raise
    except damage as error:
        # Errors of the system (no permission, disk gone) are not damage. EINVAL is: a damaged
        # archive points before the start of the file.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise InvalidDataError(f"{where}: {fault} ({reason[:200]})") from error


@contextmanager
def located(where: object) -> Iterator[None]:
    """Name the file, or the position in it, in errors about its content."""
    try:
        yield
    except InvalidDataError as error:
        raise InvalidDataError(f"{where}: {error}") from error


@contextmanager
def open_binary(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open the content of a file, unpacked if it is gzip, xz or bzip2."""
    path = existing(path)
    if path.is_dir():
        raise InvalidDataError(f"{path} is a folder, expected a file")
    with path.open("rb") as raw, reading(path), decompressed(raw, path) as stream:
        yield stream


@contextmanager
def decompressed(raw: IO[bytes], where: object) -> Iterator[IO[bytes]]:
    """Open a buffered stream, unpacked if its first bytes are those of gzip, xz or bzip2."""
    first = raw.peek(8)  # type: ignore[attr-defined]  # streams of files and members all have it
    for magic, opener in COMPRESSIONS.values():
        if first.startswith(magic):
            with opener(raw) as stream:
                yield stream
            return
    yield raw


PROBE_BYTES = 2**20
"""Bytes that must be free on the disk before work begins."""

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""First characters by which a spreadsheet takes a text for a formula."""

_PART_SUFFIX = ".noisyor-part"
_LOCK_TAKEN = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)


# ---- replace a file in one step


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
    remove_leftovers(target)
    handle, temporary = _open_part(target)
    try:
        with os.fdopen(handle, "w+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if sys.platform != "win32":
                os.replace(temporary, target)  # while locked, so that no other process removes it
        if sys.platform == "win32":  # pragma: no cover
            os.replace(temporary, target)  # an open file cannot be renamed there
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _open_part(target: Path) -> tuple[int, str]:
    """Create a temporary file beside the target, and lock it until it is closed.

    If the target exists, the file gets its permissions.
    """
    while True:
        name = f"{_part_prefix(target)}{secrets.token_hex(4)}{_PART_SUFFIX}"
        temporary = os.path.join(target.parent, name)
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(FileNotFoundError):
            shutil.copymode(target, temporary)
        if take_lock(handle) is not False and os.path.exists(temporary):
            return handle, temporary
        os.close(handle)  # another process took it for a leftover before it was locked
        Path(temporary).unlink(missing_ok=True)


def remove_leftovers(target: Path) -> None:
    """Remove temporary files of killed writers of the same file, never those of a living one."""
    if sys.platform == "win32":  # pragma: no cover
        return
    form = re.compile(f"{re.escape(_part_prefix(target))}[a-z0-9_]{{8}}{re.escape(_PART_SUFFIX)}")
    with suppress(OSError):
        for entry in os.scandir(target.parent):
            if form.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                handle = os.open(entry.path, os.O_RDWR | os.O_NOFOLLOW)
                try:
                    if take_lock(handle):
                        os.unlink(entry.path)
                finally:
                    os.close(handle)


def _part_prefix(target: Path) -> str:
    """Return the prefix of temporary files: a hash, since the name may have full length."""
    return f".{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}."


# ---- locks
#
# Locks of the operating system end with the process that holds them. A killed process leaves its
# lock file behind but not the lock, so nothing has to be guessed from process ids, which differ
# between containers and are used again.


def take_lock(handle: int) -> bool | None:
    """Lock an open file without waiting; return whether it is locked.

    None means that the file system has no locks. The lock ends when the file is closed.
    """
    try:
        if sys.platform == "win32":  # pragma: no cover
            os.lseek(handle, 2**30, os.SEEK_SET)  # beyond the content: locked bytes are unreadable
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            os.lseek(handle, 0, os.SEEK_SET)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in _LOCK_TAKEN else None
    return True


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Hold a lock on a file or folder, which need not exist yet, for the time of the context.

    The lock is a hidden file beside a file, or inside a folder. It is removed at the end; the lock
    file of a dead process is taken over. On a file system without locks the context does nothing.

    Raises
    ------
    InvalidSettingError : another process, or thread, holds the lock.
    """
    real = real_path(target)
    path = real / ".noisyor.lock" if real.is_dir() else real.with_name(f".{real.name}.lock")
    handle = _hold(path, target)
    try:
        yield
    finally:
        if sys.platform == "win32":  # pragma: no cover
            os.close(handle)  # an open file cannot be removed there
            with suppress(OSError):
                path.unlink()
        else:
            with suppress(OSError):
                path.unlink()  # while locked, so that no other process has it yet
            os.close(handle)


def _hold(path: Path, target: Path) -> int:
    """Return the handle of the file at the path, open and locked."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if take_lock(handle) is False:
                raise InvalidSettingError(f"{target} is in use: another process works on it")
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(path)):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # its holder removed it in the meantime: this is no lock any more


# ---- files that a command writes


def check_folder(folder: Path) -> None:
    """Check that a folder, or the one that it would be created in, can be written to."""
    nearest = real_path(folder)
    with _naming(folder):
        while not nearest.exists():
            nearest = nearest.parent
        with tempfile.TemporaryFile(dir=nearest) as probe:
            probe.write(bytes(PROBE_BYTES))


def check_target(path: Path, is_ours: Callable[[Path], bool], author: str) -> None:
    """Check that a path does not exist, is empty or holds an earlier file of the same writer."""
    with _naming(path):
        if not os.path.lexists(path):
            return
        if not path.is_file():
            raise InvalidSettingError(f"{path} cannot be replaced: it is not a regular file")
        if path.stat().st_size and not is_ours(path):
            raise InvalidSettingError(
                f"{path} exists and was not written by {author}; remove it or choose another name"
            )


def write_text(path: Path, text: str) -> None:
    """Replace a file in one step; characters that UTF-8 cannot encode become ``?``."""
    with _naming(path):
        write_atomically(real_path(path), text.encode(errors="replace"))


def real_path(path: Path) -> Path:
    """Return the path behind links, so that a link stays one when its target is replaced."""
    return Path(os.path.realpath(path))


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the path that the user gave in errors of the system, not that of a temporary file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def csv_content(rows: Iterable[Iterable[object]]) -> bytes:
    """Return rows of cells as the content of a CSV file.

    A text that a spreadsheet would take for a formula gets an apostrophe before it, which the
    reader of CSV files removes from column names. Numbers stay as they are.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow(
            f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell
            for cell in row
        )
    return text.getvalue().encode(errors="replace")


def plain(value: Any) -> Any:
    """Return a value as dicts with text keys, lists, text, numbers, Booleans and None.

    NumPy scalars and arrays become numbers and lists. NaN and infinity, which JSON does not have,
    become None.

    Raises
    ------
    TypeError : JSON has no form for the value.
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"JSON cannot hold a  {type(value).__name__}")


def to_json(value: Any, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """Return the JSON text of `plain`, without an end of line."""
    return json.dumps(plain(value), indent=indent, ensure_ascii=ascii_only, allow_nan=False)
