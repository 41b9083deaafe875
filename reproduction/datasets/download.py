"""Find a data file: in the user's folder, in the cache, or on the network, in this order.

The environment variable ``NOISYOR_DATA`` names the user's folder. ``files.csv`` lists every file
with its SHA-256 and its address. The checksum is that of the content, also where a copy is kept
compressed (``name.xz``). Files without an address are collections that exist as local copies only.
No checksum is published for the archives of BIGPATENT: the authors' own archive is handed out
through a form, and these hold the same files. A download is checked before it gets its name in the
cache, so a file in the cache is complete.
"""

from __future__ import annotations

import csv
import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from noisyor._util.files import COMPRESSIONS, open_binary, replacing, write_atomically
from noisyor.errors import (
    DatasetNotFoundError,
    InvalidDataError,
    InvalidSettingError,
    MissingExtraError,
)

__all__ = ["FILES", "DataFile", "cache_folder", "data_folder", "fetch", "find"]

FOLDER_VARIABLE = "NOISYOR_DATA"
"""Environment variable with the folder of local copies."""

_WEB_PAGE = (b"<!doctype html", b"<html")


@dataclass(frozen=True)
class DataFile:
    """One file that a loader reads.

    Attributes
    ----------
    name : path of the file inside the folder of data, and its key in `FILES`.
    sha256 : of its content; None if no published value is known. Then the first download is
        trusted, its checksum is written beside the file, and later reads are compared with it.
    url : where the file itself can be downloaded; None if nowhere.
    origin : a public page about the data.
    """

    name: str
    sha256: str | None
    url: str | None
    origin: str


def _listed() -> dict[str, DataFile]:
    with Path(__file__).with_name("files.csv").open(encoding="utf-8", newline="") as stream:
        return {
            row["name"]: DataFile(
                row["name"], row["sha256"] or None, row["url"] or None, row["origin"]
            )
            for row in csv.DictReader(stream)
        }


FILES = _listed()
"""Every known file by its name."""


def data_folder() -> Path | None:
    """Return the folder of local copies, or None if ``NOISYOR_DATA`` is not set."""
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        return None
    folder = Path(named)
    if not folder.is_dir():
        raise InvalidSettingError(f"{FOLDER_VARIABLE} names {named!r}, which is not a folder")
    return folder


def cache_folder() -> Path | None:
    """Return the folder of downloads, or None if pooch is not installed."""
    try:
        return Path(_pooch().os_cache("noisyor"))
    except MissingExtraError:
        return None


def find(name: str) -> Path | None:
    """Return a copy on this machine after comparing its checksum, or None if there is no copy.

    Parameters
    ----------
    name : of a file in `FILES`. A copy may be kept as it is or compressed, ``name.xz``,
        ``name.gz`` or ``name.bz2``.
    """
    file = _file(name)
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
    """Return a copy on this machine, downloaded if there is none.

    Parameters
    ----------
    name : of a file in `FILES`.
    progress : show a progress bar; None shows it on a terminal only.
    """
    found = find(name)
    if found is not None:
        return found
    file = _file(name)
    if file.url is None:
        raise DatasetNotFoundError(
            f"{name} cannot be downloaded: it was made from what is at {file.origin}; "
            f"put a copy into {_place()}"
        )
    return _download(file, file.url, sys.stderr.isatty() if progress is None else progress)


def _file(name: str) -> DataFile:
    if name not in FILES:
        raise InvalidSettingError(f"no data file is called {name!r}; known are {', '.join(FILES)}")
    return FILES[name]


def _check(copy: Path, file: DataFile, packed: bool) -> None:
    expected, source = file.sha256, "that of the published file"
    if expected is None:
        record = Path(f"{copy}.sha256")
        if not record.is_file():
            return
        expected, source = (record.read_text().split() or [""])[0], f"noted in {record.name}"
    with open_binary(copy) if packed else copy.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    if found != expected:
        raise InvalidDataError(
            f"{copy} is another file than expected: sha256 {found}, {source} is {expected}; "
            "move it away, or give its path to the loader to read it as it is"
        )


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
    """Raise an error if another file than expected came, before it gets its name in the cache."""
    stream.seek(0)
    first = stream.read(64).lstrip().lower()
    if not first or first.startswith(_WEB_PAGE):
        fault = "a web page" if first else "empty"
        raise InvalidDataError(f"{file.name}: the download of {file.url} is {fault}; not kept")
    stream.seek(0)
    found = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    if file.sha256 is None:
        write_atomically(f"{target}.sha256", f"{found}  {target.name}\n".encode())
    elif found != file.sha256:
        raise InvalidDataError(
            f"{file.name}: the download of {file.url} was not kept: its sha256 is {found}, "
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
        reason = f"{what}a download needs pooch"
        raise MissingExtraError.of(reason, "reproduction", instead) from None
    return pooch
