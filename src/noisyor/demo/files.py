"""Where the demo's results go: checked before the work, written after it, each in one step.

Only files that an earlier demo wrote are replaced.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from noisyor._util.paths import (
    ROOM,
    check_folder,
    check_target,
    make_folder,
    real_path,
    write_text,
)
from noisyor.demo.page import GENERATOR
from noisyor.demo.run import EXPERIMENT
from noisyor.errors import InvalidSettingError, ModelFileError
from noisyor.io.model_file import read_metadata, save_network
from noisyor.model.network import Network

__all__ = ["DemoFiles", "prepare_files", "write_files"]

_AUTHOR = "the demo"


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
    check_target(files.page, _is_page, _AUTHOR)
    check_target(files.model, _is_model, _AUTHOR)
    check_folder(out)
    if record is not None:
        if real_path(record) in (real_path(files.page), real_path(files.model)):
            raise InvalidSettingError(
                f"{record} cannot hold the record, it is the name of another result"
            )
        check_target(record, _is_record, _AUTHOR)
        check_folder(record.parent)
    return files


def write_files(files: DemoFiles, page: str, network: Network, record: dict[str, Any]) -> None:
    """Write the results, the record last: if it is there, so are the others."""
    for path in filter(None, files):
        make_folder(path.parent)
    metadata = {key: record[key] for key in ("experiment", "seed", "settings", "metrics")}
    save_network(real_path(files.model), network, metadata=metadata)
    write_text(files.page, page)
    if files.record is not None:
        write_text(files.record, json.dumps(record, indent=2) + "\n")


def _is_page(path: Path) -> bool:
    with path.open("rb") as stream:
        return f'name="generator" content="{GENERATOR} '.encode() in stream.read(2000)


def _is_model(path: Path) -> bool:
    try:
        return read_metadata(path).get("experiment") == EXPERIMENT
    except ModelFileError:
        return False


def _is_record(path: Path) -> bool:
    if path.stat().st_size > ROOM:
        return False
    try:
        record = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and record.get("experiment") == EXPERIMENT
