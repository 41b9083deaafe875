"""Files in archives, folders and compressed streams, read front to back and never unpacked.

Compression is recognized by the first bytes, not by the name. Damage is an `InvalidDataError` in
one line, never a file that silently ends early.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from noisyor.errors import DatasetNotFoundError, InvalidDataError, NoisyOrError

__all__ = [
    "COMPRESSIONS",
    "MOST_UNPACKED",
    "check_compressed",
    "check_unpacked",
    "decompressed",
    "existing",
    "members",
    "open_binary",
    "reading",
    "reason_of",
    "tar_members",
    "uncompressed_name",
]


class Compression(NamedTuple):
    """How compressed files begin, and the function that opens them."""

    magic: bytes
    open: Callable[[Any], Any]


COMPRESSIONS: dict[str, Compression] = {
    ".xz": Compression(b"\xfd7zXZ\x00", lzma.open),
    ".gz": Compression(b"\x1f\x8b", gzip.open),
    ".bz2": Compression(b"BZh", bz2.open),
}
"""The compressions that are read, by the ending of a file's name."""

MOST_UNPACKED = 64 * 2**20
"""Bytes that any compressed file may hold; more only if it is not packed more than 100 times."""

_DENSEST = 100
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)
_ZIP = b"PK"
_CHUNK = 1 << 20
_SMALL = 16 * 2**20


def uncompressed_name(path: Path) -> str:
    """Name of a file in small letters, without the endings of compressions."""
    name = path.name.lower()
    while (ending := Path(name).suffix) in COMPRESSIONS:
        name = name.removesuffix(ending)
    return name


def existing(path: str | os.PathLike[str]) -> Path:
    """The path of a file or folder that exists."""
    found = Path(path)
    if not found.exists():
        raise DatasetNotFoundError(f"{found} does not exist")
    return found


@contextmanager
def reading(
    where: object, *more: type[Exception], fault: str = "damaged or incomplete"
) -> Iterator[None]:
    """Anything that a damaged or incomplete file raises becomes one line that names it.

    Parameters
    ----------
    where : the file, and the place in it.
    more : exceptions of a parser that mean damage too.
    fault : what the line says.
    """
    damage: tuple[type[Exception], ...] = (*_DAMAGE, *more, OSError)
    try:
        yield
    except NoisyOrError:
        raise
    except damage as error:
        # The system's own errors (no permission, disk gone) are not damage. EINVAL is: a damaged
        # archive points to a place before the start of the file.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise InvalidDataError(f"{where}: {fault} ({reason_of(error)})") from error


def reason_of(error: Exception) -> str:
    """The first line of an error, or its kind if it says nothing."""
    return (str(error).strip().partition("\n")[0] or type(error).__name__)[:200]


@contextmanager
def open_binary(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """The content of a file, unpacked if it is gzip, xz or bzip2."""
    path = existing(path)
    if path.is_dir():
        raise InvalidDataError(f"{path} is a folder, expected a file")
    with path.open("rb") as raw, reading(path), decompressed(raw, path) as stream:
        yield stream


@contextmanager
def decompressed(raw: IO[bytes], where: object) -> Iterator[IO[bytes]]:
    """An open buffered stream, unpacked if its first bytes are those of gzip, xz or bzip2.

    A few kilobytes can unpack to gigabytes: what comes out is counted, see `check_unpacked`.
    """
    first = raw.peek(8)  # type: ignore[attr-defined]  # streams of files and members all have it
    for magic, opener in COMPRESSIONS.values():
        if first.startswith(magic):
            with opener(raw) as stream:
                yield io.BufferedReader(_Counted(stream, raw, where), _CHUNK)
            return
    yield raw


def check_compressed(path: Path) -> None:
    """Unpack a small compressed file once to see that it is not too large, before it is parsed.

    A large one would take too long; what is unpacked of it is counted as it is read.
    """
    if path.stat().st_size <= _SMALL:
        with open_binary(path) as stream:
            if isinstance(stream, io.BufferedReader) and isinstance(stream.raw, _Counted):
                while stream.read(_CHUNK):
                    pass


def check_unpacked(n_bytes: int, packed: int, where: object, allowed: int) -> None:
    """Refuse content that is far larger than the file that it comes from.

    Parameters
    ----------
    n_bytes : size of the content, announced or counted so far.
    packed : size of the compressed file.
    where : names the file in errors.
    allowed : bytes that are no danger, however well they are packed.
    """
    if n_bytes > max(allowed, _DENSEST * packed):
        raise InvalidDataError(
            f"{where}: unpacks to {n_bytes / 2**20:,.0f} MB or more, over {_DENSEST} times its "
            "size; if that is meant, unpack it first"
        )


class _Counted(io.RawIOBase):
    """What a decompressor gives, counted."""

    def __init__(self, stream: IO[bytes], raw: IO[bytes], where: object) -> None:
        self._stream, self._raw, self._where = stream, raw, where
        self._total = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._stream.read(len(buffer))
        buffer[: len(block)] = block
        self._total += len(block)
        if self._total > MOST_UNPACKED:
            check_unpacked(self._total, self._packed(), self._where, MOST_UNPACKED)
        return len(block)

    def _packed(self) -> int:
        try:
            return os.fstat(self._raw.fileno()).st_size
        except OSError:  # a member of an archive: what was read of it so far
            return self._raw.tell()


def members(
    path: str | os.PathLike[str], wanted: Callable[[str], bool]
) -> Iterator[tuple[str, IO[bytes]]]:
    """Some files of a folder, a tar archive (compressed or not) or a zip archive.

    Parameters
    ----------
    path : the archive, or a folder, searched with its subfolders in the order of names.
    wanted : of the name inside, with "/" between folders, that of the outermost folder first.

    Yields
    ------
    name and open stream of each; read it before asking for the next.
    """
    path = existing(path)
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            name = f"{path.resolve().name}/{file.relative_to(path).as_posix()}"
            if file.is_file() and wanted(name):
                with file.open("rb") as stream, reading(file):
                    yield name, stream
        return
    with path.open("rb") as raw:
        is_zip = raw.read(2) == _ZIP
    if is_zip:
        with reading(path), zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if not entry.is_dir() and wanted(entry.filename):
                    with archive.open(entry) as stream:
                        yield entry.filename, stream
        return
    with path.open("rb") as raw, reading(path):
        yield from tar_members(raw, path, wanted)


def tar_members(
    raw: IO[bytes], where: object, wanted: Callable[[str], bool]
) -> Iterator[tuple[str, IO[bytes]]]:
    """The same for the open stream of a tar archive, compressed or not; ``where`` names it."""
    with reading(where), decompressed(raw, where) as stream:
        tail = _Tail(stream)
        # The tar reader's own decompression takes a cut file for one that ends there.
        with tarfile.open(fileobj=tail, mode="r|") as archive:  # type: ignore[call-overload]
            for entry in archive:
                if entry.isfile() and wanted(entry.name):
                    content = archive.extractfile(entry)
                    if content is not None:
                        yield entry.name, content
        while tail.read(_CHUNK):  # to the end, where checksums are
            pass
        if any(tail.last):
            raise InvalidDataError(f"{where}: damaged or incomplete (the archive has no end)")


class _Tail:
    """A stream that remembers the last 512 bytes that were read: zeros end a tar archive."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.last = b"\x01"

    def read(self, size: int) -> bytes:
        block = self.stream.read(size)
        self.last = (self.last + block[-512:])[-512:]
        return block
