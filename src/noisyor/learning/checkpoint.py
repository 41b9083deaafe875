"""Checkpoints: the state of a run in one file, written atomically and bound to that run."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load, save

from noisyor._util.files import check_folder, real_path, write_atomically
from noisyor.data.observations import Observations
from noisyor.engines.context import CheckpointStore
from noisyor.errors import CheckpointError
from noisyor.model.network import Network

FORMAT = "noisyor-checkpoint-2"
_MARK = b"noisyor-checkpoint-"  # in the header of any version

_START = 2**20  # bytes that hold the header of any checkpoint


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Everything needed to go on: the step reached, the arrays, and whose they are.

    ``identity`` is a hash of the data, the graph, the starting parameters and the settings.
    """

    identity: str
    step: int
    arrays: dict[str, npt.NDArray[Any]]

    @staticmethod
    def identity_of(
        network: Network,
        rows: bytes,
        held_out: bytes | None,
        settings: dict[str, object],
    ) -> str:
        """Return a hash of all that determines a run; rows are given by `rows_identity`."""
        digest = hashlib.sha256()
        for array in (
            network.child_ptr,
            network.parent,
            network.param,
            network.leak_param,
            network.theta,
            network.free,
        ):
            digest.update(np.ascontiguousarray(array).tobytes())
        for data in (rows, held_out):
            digest.update(b"none" if data is None else data)
        digest.update(json.dumps(settings, sort_keys=True).encode())
        return digest.hexdigest()


def rows_identity(rows: Observations) -> bytes:
    """Return what identifies rows: entries, weights, and the ids that key their noise."""
    return rows.fingerprint().encode() + rows.row_ids.tobytes()


def check_place(path: str | os.PathLike[str] | None) -> None:
    """Reject a path where no checkpoint can be written, before the work starts.

    Raises
    ------
    CheckpointError : the folder does not exist, cannot be written to or is full, or there is a file
        that is no checkpoint.
    """
    if path is None:
        return
    try:
        target = real_path(Path(path))
        if not target.parent.is_dir():
            raise CheckpointError(f"{_cannot(path)}: the folder {target.parent} does not exist")
        check_folder(target.parent)
        if not stat.S_ISREG(target.lstat().st_mode):
            raise CheckpointError(f"{_cannot(path)}: it is not a regular file")
        if target.stat().st_size and not is_checkpoint(target):
            raise CheckpointError(f"{_cannot(path)}: the file there is no checkpoint")
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{_cannot(path)}: {_reason(error)}") from error


def is_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is marked as a checkpoint, of any version and perhaps damaged."""
    try:
        with open(path, "rb") as stream:
            return _MARK in stream.read(_START)
    except (OSError, ValueError):
        return False


def save_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint; a stop at any moment leaves the previous one or this one."""
    description = {
        "format": FORMAT,
        "identity": checkpoint.identity,
        "step": str(checkpoint.step),
    }
    content = save(
        {name: np.ascontiguousarray(array) for name, array in checkpoint.arrays.items()},
        metadata={**description, "sha256": _digest(description, checkpoint.arrays)},
    )
    try:
        write_atomically(real_path(Path(path)), content)
    except OSError as error:
        raise CheckpointError(f"{_cannot(path)}: {_reason(error)}") from error


def load_checkpoint(
    path: str | os.PathLike[str], identity: str, n_params: int
) -> Checkpoint | None:
    """Read a checkpoint of the run with this identity; None if there is no such file."""
    if not os.path.lexists(path):
        return None
    checkpoint = read_checkpoint(path, identity)
    _check_arrays(path, checkpoint, n_params)
    return checkpoint


def open_store(path: str | os.PathLike[str], identity: str, *, resume: bool) -> CheckpointStore:
    """Open the file that keeps what a search found, beside the checkpoint of the training.

    A disk that is full by now costs the file, with a warning, and never the result.

    Parameters
    ----------
    path : the file.
    identity : hash of the data and of the settings that determine the search.
    resume : read what is there; otherwise it is replaced.
    """
    check_place(path)

    def write(arrays: dict[str, npt.NDArray[Any]]) -> None:
        try:
            save_checkpoint(path, Checkpoint(identity, 0, arrays))
        except CheckpointError as error:
            warnings.warn(f"{error}; the search is not stopped", RuntimeWarning, stacklevel=2)

    found = read_checkpoint(path, identity).arrays if resume and os.path.lexists(path) else {}
    return CheckpointStore(found, write)


def search_identity(observations: Observations, settings: dict[str, object]) -> str:
    """Return a hash of all that determines a search."""
    digest = hashlib.sha256(observations.fingerprint().encode())
    digest.update(observations.row_ids.tobytes())
    digest.update(json.dumps(settings, sort_keys=True).encode())
    return digest.hexdigest()


def read_checkpoint(path: str | os.PathLike[str], identity: str) -> Checkpoint:
    """Read the checkpoint in a file, which must belong to the run with this identity."""
    checkpoint = _read(Path(path))
    if checkpoint.identity != identity:
        raise CheckpointError(
            f"the checkpoint {os.fspath(path)} belongs to another run: data, graph, starting "
            "parameters or settings differ. Resume with the same ones, or choose another file."
        )
    return checkpoint


def _read(path: Path) -> Checkpoint:
    try:
        if not path.is_file():
            raise CheckpointError(f"cannot read the checkpoint {path}: it is not a regular file")
        content = path.read_bytes()
        length = int.from_bytes(content[:8], "little")
        if length > _START:
            raise CheckpointError(f"the checkpoint {path} is damaged: its header is too long")
        metadata = dict(json.loads(content[8 : 8 + length])["__metadata__"])
        if metadata.get("format") != FORMAT:
            raise CheckpointError(f"{path} is not a checkpoint of this version")
        arrays = load(content)
        if metadata.pop("sha256") != _digest(metadata, arrays):
            raise CheckpointError(f"the checkpoint {path} is damaged")
        return Checkpoint(metadata["identity"], int(metadata["step"]), arrays)
    except CheckpointError:
        raise
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoint {path}: {_reason(error)}") from error
    except Exception as error:  # parsers meet anything in a damaged file
        raise CheckpointError(f"the checkpoint {path} is damaged: {_reason(error)}") from error


def _check_arrays(path: str | os.PathLike[str], checkpoint: Checkpoint, n_params: int) -> None:
    """Reject arrays that do not fit a network of ``n_params`` parameters."""
    arrays, step = checkpoint.arrays, checkpoint.step
    n_evaluations = arrays["evaluation_step"].size if "evaluation_step" in arrays else 0
    expected = {
        "theta": (np.float64, n_params),
        "adam_first": (np.float64, n_params),
        "adam_second": (np.float64, n_params),
        "elbo": (np.float64, step),
        "seconds": (np.float64, step),
        "evaluation_step": (np.int64, n_evaluations),
        "evaluation_elbo": (np.float64, n_evaluations),
    }
    found = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    wanted = {name: (np.dtype(kind), (size,)) for name, (kind, size) in expected.items()}
    if found != wanted or not all(
        np.isfinite(arrays[name]).all() and arrays[name].min(initial=0.0) >= least
        for name, least in (("theta", 0.0), ("adam_first", -np.inf), ("adam_second", 0.0))
    ):
        raise CheckpointError(f"the checkpoint {os.fspath(path)} is not one of this network")


def _digest(description: dict[str, str], arrays: dict[str, npt.NDArray[Any]]) -> str:
    """Return a checksum of the content of a checkpoint."""
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _cannot(path: str | os.PathLike[str]) -> str:
    return f"cannot write the checkpoint {os.fspath(path)}"


def _reason(error: Exception) -> str:
    """Return the text of an error on one line."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return " ".join(text.split()) or type(error).__name__
