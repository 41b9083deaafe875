"""Read files that may be compressed or packed, and fetch the files of the HPO."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from noisyor.errors import DatasetNotFoundError, InvalidDataError

__all__ = ["cache_folder", "existing", "fetch", "packed_texts", "read_text"]

_RELEASE = "https://github.com/obophenotype/human-phenotype-ontology/releases/download/v2025-01-16/"
_FILES = {
    "hpo_phenotype.hpoa": (
        _RELEASE + "phenotype.hpoa",
        "8180403e2f5de0d8f41890e587d95077ce7f8bb8228d5d7b29dd358b70f0938c",
    ),
    "hp.obo": (
        _RELEASE + "hp.obo",
        "6b77de067eecc838319ce7650ed5bab0f92a502eabb160e6bc7c0238bc1548c5",
    ),
}
_COMPRESSIONS: dict[bytes, Any] = {b"\xfd7zXZ": lzma.open, b"\x1f\x8b": gzip.open, b"BZh": bz2.open}
_ENDINGS = (".xz", ".gz", ".bz2")
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, tarfile.TarError)


def existing(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file or folder, which must exist."""
    found = Path(path)
    if not found.exists():
        raise DatasetNotFoundError(f"{found} does not exist")
    return found


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a UTF-8 file, unpacked if it is gzip, xz or bzip2.

    Invalid bytes are replaced, because they can only occur in labels.
    """
    found = existing(path)
    if found.is_dir():
        raise InvalidDataError(f"{found} is a folder, expected a file")
    with found.open("rb") as stream:
        return _text_of(stream, found)


def packed_texts(path: Path, endings: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield the texts of all files with some endings in a folder, zip or tar archive.

    Parameters
    ----------
    path : a folder, searched with its subfolders in the order of names, or an archive.
    endings : of file names, without the ending of a compression.

    Yields
    ------
    description of the place for messages, name of the file, and text.
    """

    def wanted(name: str) -> bool:
        plain = Path(name.lower())
        while plain.suffix in _ENDINGS:
            plain = plain.with_suffix("")
        return plain.name.endswith(endings) and not plain.name.startswith(".")

    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and wanted(file.name):
                yield str(file), file.name, read_text(file)
    elif zipfile.is_zipfile(path):
        with _damage_of(path), zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if wanted(name):
                    where = f"{path}/{name}"
                    with archive.open(name) as stream:
                        yield where, Path(name).name, _text_of(stream, where)
    else:
        with _damage_of(path), tarfile.open(path) as tar:
            for member in tar:
                content = tar.extractfile(member) if wanted(member.name) else None
                if content is not None:
                    where = f"{path}/{member.name}"
                    yield where, Path(member.name).name, _text_of(content, where)


def _text_of(stream: IO[bytes], where: object) -> str:
    with _damage_of(where):
        content = stream.read()
        for magic, opener in _COMPRESSIONS.items():
            if content.startswith(magic):
                with opener(io.BytesIO(content)) as unpacked:
                    content = unpacked.read()
                break
    return content.decode("utf-8-sig", "replace")


@contextmanager
def _damage_of(where: object) -> Iterator[None]:
    """Turn the errors of damaged or incomplete files into one line that names the file."""
    try:
        yield
    except (*_DAMAGE, zipfile.BadZipFile) as error:
        raise InvalidDataError(f"{where}: damaged or incomplete ({error})") from error


# ---- downloads


def fetch(name: str) -> Path:
    """Return the path of a file of the HPO, which is downloaded if there is no local copy.

    Copies are searched in the folder named by the environment variable ``NOISYOR_DATA``, then in
    the cache, as they are or compressed.
    """
    import pooch

    named = os.environ.get("NOISYOR_DATA")
    cache = cache_folder()
    for folder in [Path(named), cache] if named else [cache]:
        for ending in ("", *_ENDINGS):
            copy = folder / f"{name}{ending}"
            if copy.is_file():
                return copy
    url, sha256 = _FILES[name]
    try:
        path = pooch.retrieve(url, f"sha256:{sha256}", fname=name, path=cache)
    except (OSError, ValueError) as error:
        raise DatasetNotFoundError(
            f"{name} could not be downloaded ({error}): get it from {url} and put it into {cache}"
        ) from error
    return Path(path)


def cache_folder() -> Path:
    """Return the folder for downloads and models."""
    import pooch

    return Path(pooch.os_cache("noisyor"))
