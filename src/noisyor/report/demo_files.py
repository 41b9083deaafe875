"""Where the demo's results go: checked before the work, written after it, each in one step.

Only files that an earlier demo wrote are replaced.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from noisyor.demo import EXPERIMENT
from noisyor.errors import InvalidSettingError, ModelFileError
from noisyor.files import write_atomically
from noisyor.model_file import read_metadata, save_network
from noisyor.network import Network
from noisyor.report.demo_page import GENERATOR

__all__ = ["DemoFiles", "prepare_files", "write_files"]

_ROOM = 2**20  # bytes, more than the demo writes


class DemoFiles(NamedTuple):
    """The page, the model, and the machine-readable record if one is wanted."""

    page: Path
    model: Path
    record: Path | None


def prepare_files(out: Path, record: Path | None) -> DemoFiles:
    """Check that everything can be written later; nothing is created yet.

    Raises
    ------
    OSError : a folder cannot be written to, or its disk is full.
    InvalidSettingError : a file is in the way that is not the demo's own.
    """
    files = DemoFiles(out / "index.html", out / "model.safetensors", record)
    _check_target(files.page, _is_page)
    _check_target(files.model, _is_model)
    _check_folder(out)
    if record is not None:
        if _real(record) in (_real(files.page), _real(files.model)):
            raise InvalidSettingError(f"--json {record} is also the name of another result")
        _check_target(record, _is_record)
        _check_folder(record.parent)
    return files


def write_files(files: DemoFiles, page: str, network: Network, record: dict[str, Any]) -> None:
    """Write the results, the record last: if it is there, so are the others."""
    for path in filter(None, files):
        _make_folder(path.parent)
    metadata = {key: record[key] for key in ("experiment", "seed", "settings", "metrics")}
    save_network(_real(files.model), network, metadata=metadata)
    _write(files.page, page)
    if files.record is not None:
        _write(files.record, json.dumps(record, indent=2) + "\n")


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(_real(path), text.encode())
    except OSError as error:
        raise _about(path, error) from error


def _make_folder(folder: Path) -> None:
    try:
        _real(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _about(folder, error) from error


def _check_folder(folder: Path) -> None:
    """Try to write into a folder, or into the one that it would be created in."""
    existing = _real(folder)
    try:
        while not existing.exists():
            existing = existing.parent
        with tempfile.TemporaryFile(dir=existing) as probe:
            probe.write(bytes(_ROOM))
    except OSError as error:
        raise _about(folder, error) from error


def _check_target(path: Path, is_ours: Callable[[Path], bool]) -> None:
    """Refuse to replace anything but an empty file or one that an earlier demo wrote."""
    try:
        if not os.path.lexists(path):
            return
        if not path.is_file():
            raise InvalidSettingError(f"{path} is in the way: it is not a regular file")
        if path.stat().st_size and not is_ours(path):
            raise InvalidSettingError(
                f"{path} exists and was not written by the demo; remove it or choose another name"
            )
    except OSError as error:
        raise _about(path, error) from error


def _is_page(path: Path) -> bool:
    with path.open("rb") as stream:
        return f'name="generator" content="{GENERATOR} '.encode() in stream.read(2000)


def _is_model(path: Path) -> bool:
    try:
        return read_metadata(path).get("experiment") == EXPERIMENT
    except ModelFileError:
        return False


def _is_record(path: Path) -> bool:
    if path.stat().st_size > _ROOM:
        return False
    try:
        record = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and record.get("experiment") == EXPERIMENT


def _real(path: Path) -> Path:
    """The place itself: through links, so that a link stays one when its target is replaced."""
    return Path(os.path.realpath(path))


def _about(path: Path, error: OSError) -> OSError:
    """The same error with the name that the user gave, not that of a temporary file."""
    return OSError(error.errno, error.strerror or str(error), str(path))
