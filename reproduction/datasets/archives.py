"""Read files of archives and folders front to back, without unpacking them."""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from typing import IO

from noisyor._util.files import decompressed, existing, reading
from noisyor.errors import InvalidDataError

__all__ = ["members", "tar_members"]

_ZIP = b"PK"
_CHUNK = 1 << 20


def members(
    path: str | os.PathLike[str], wanted: Callable[[str], bool]
) -> Iterator[tuple[str, IO[bytes]]]:
    """Iterate over files of a folder, a tar archive (compressed or not) or a zip archive.

    Parameters
    ----------
    path : the archive, or a folder, searched with its subfolders in the order of names.
    wanted : decides by the name inside, with "/" between folders, from the outermost folder on.

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
    """Iterate over files of an open tar stream, compressed or not; ``where`` names it."""
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
    """Remember the last 512 bytes read from a stream: zeros end a tar archive."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.last = b"\x01"

    def read(self, size: int) -> bytes:
        block = self.stream.read(size)
        self.last = (self.last + block[-512:])[-512:]
        return block
