"""Open files, compressed or not, and report damage in one line.

Compression is recognized by the first bytes, not by the name. A file that ends early is an
`InvalidDataError`, never a shorter file.
"""

from __future__ import annotations

import bz2
import errno
import gzip
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
    "decompressed",
    "existing",
    "open_binary",
    "reading",
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
    """Turn whatever a damaged file raises into one `InvalidDataError` that names the file.

    Parameters
    ----------
    where : the file, and the position in it.
    more : further exceptions of a parser that mean damage.
    fault : what the message says.
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
        raise InvalidDataError(f"{where}: {fault} ({_reason_of(error)})") from error


def _reason_of(error: Exception) -> str:
    """Return the first line of an error, or its type if it has no text."""
    return (str(error).strip().partition("\n")[0] or type(error).__name__)[:200]


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
