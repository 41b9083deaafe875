"""Where a data file is: the user's folder, the cache, or the network, in this order.

The folder is named by the environment variable ``NOISYOR_DATA``. What is downloaded is checked
before it gets its name in the cache, so that a file that is there is whole.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import IO, Any

from noisyor._util.atomic import replacing, write_atomically
from noisyor._util.compression import COMPRESSIONS, open_binary
from noisyor.errors import (
    DatasetNotFoundError,
    InvalidDataError,
    InvalidSettingError,
    MissingExtraError,
)
from reproduction.datasets.registry import DataFile, data_file

__all__ = ["FOLDER_VARIABLE", "cache_folder", "data_folder", "fetch", "find"]

FOLDER_VARIABLE = "NOISYOR_DATA"
"""Environment variable with the folder of local copies."""

_WEB_PAGE = (b"<!doctype html", b"<html")


def data_folder() -> Path | None:
    """The folder of local copies, or None if ``NOISYOR_DATA`` is not set."""
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        return None
    folder = Path(named)
    if not folder.is_dir():
        raise InvalidSettingError(f"{FOLDER_VARIABLE} names {named!r}, which is not a folder")
    return folder


def cache_folder() -> Path | None:
    """Where downloads are kept, or None if pooch is not installed."""
    try:
        return Path(_pooch().os_cache("noisyor"))
    except MissingExtraError:
        return None


def find(name: str) -> Path | None:
    """A copy on this machine with the right checksum, or None if there is no copy.

    Parameters
    ----------
    name : of a file in `reproduction.datasets.registry.FILES`. A copy may be kept as it is or
        compressed, ``name.xz``, ``name.gz`` or ``name.bz2``.
    """
    file = data_file(name)
    for folder in (data_folder(), cache_folder()):
        if folder is None:
            continue
        for ending in ("", *COMPRESSIONS):
            copy = Path(f"{folder / file.name}{ending}")
            if copy.is_file():
                _check(copy, file, packed=bool(ending))
                return copy
    return None


def fetch(name: str, progress: bool | None = None) -> Path:
    """A copy on this machine, downloaded if there is none.

    Parameters
    ----------
    name : of a file in `reproduction.datasets.registry.FILES`.
    progress : show a progress bar; None shows it on a terminal only.
    """
    found = find(name)
    if found is not None:
        return found
    file = data_file(name)
    if file.url is None:
        raise DatasetNotFoundError(
            f"{name} cannot be downloaded: it was made from what is at {file.origin}; "
            f"put a copy into {_place()}"
        )
    return _download(file, file.url, sys.stderr.isatty() if progress is None else progress)


# ---- checksums


def _check(copy: Path, file: DataFile, packed: bool) -> None:
    expected, source = file.sha256, "that of the published file"
    if expected is None:
        record = Path(f"{copy}.sha256")
        if not record.is_file():
            return
        expected, source = (record.read_text().split() or [""])[0], f"noted in {record.name}"
    came = _digest(copy, packed)
    if came != expected:
        raise InvalidDataError(
            f"{copy} is another file than expected: sha256 {came}, {source} is {expected}; "
            "move it away, or give its path to the loader to read it as it is"
        )


def _digest(path: Path, packed: bool = False) -> str:
    """The checksum of a file, or of what it holds if it was compressed for keeping."""
    with open_binary(path) if packed else path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]


# ---- download


def _download(file: DataFile, url: str, progress: bool) -> Path:
    pooch = _pooch(file)
    cache = cache_folder()
    assert cache is not None
    target = cache / file.name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as stream:
            pooch.HTTPDownloader(progressbar=progress)(url, stream, None)
            _check_download(stream, file, target)
    except OSError as error:
        raise DatasetNotFoundError(
            f"{file.name} is not on this machine and could not be downloaded "
            f"({_reason(error)}): get it from {url} and put it into {_place()}"
        ) from error
    return target


def _check_download(stream: IO[bytes], file: DataFile, target: Path) -> None:
    """Refuse another file than expected before it gets its name in the cache."""
    stream.seek(0)
    first = stream.read(64).lstrip().lower()
    if not first or first.startswith(_WEB_PAGE):
        fault = "a web page" if first else "empty"
        raise InvalidDataError(
            f"{file.name}: what came from {file.url} is {fault}; it was not kept"
        )
    stream.seek(0)
    came = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    if file.sha256 is None:  # the first download sets what later reads are held to
        write_atomically(f"{target}.sha256", f"{came}  {target.name}\n".encode())
    elif came != file.sha256:
        raise InvalidDataError(
            f"{file.name}: what came from {file.url} was not kept: its sha256 is {came}, "
            f"expected {file.sha256}"
        )


def _reason(error: OSError) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return f"the server answered {status}"
    return error.strerror or type(error).__name__


def _place() -> str:
    folder = data_folder() or cache_folder()
    return str(folder) if folder is not None else f"the folder that {FOLDER_VARIABLE} names"


def _pooch(file: DataFile | None = None) -> Any:
    try:
        import pooch
    except ImportError:
        what = "" if file is None else f"{file.name} is not in {_place()}, and "
        instead = "" if file is None else f"; or put {file.url} into that folder yourself"
        raise MissingExtraError.of(
            f"{what}a download needs pooch", "reproduction", instead
        ) from None
    return pooch
