"""Checkpoints: the state of a run in one file, written atomically and bound to that run."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import save

from noisyor._util.atomic import write_atomically
from noisyor.data.observations import Observations
from noisyor.errors import CheckpointError
from noisyor.network.graph import Network

FORMAT = "noisyor-checkpoint-1"

_NAMES = {
    "theta",
    "adam_first",
    "adam_second",
    "elbo",
    "seconds",
    "evaluation_step",
    "evaluation_elbo",
}


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
        observations: Observations,
        held_out: Observations | None,
        settings: dict[str, object],
    ) -> str:
        """Hash of all that determines the course of a run."""
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
        for data in (observations, held_out):
            digest.update(b"none" if data is None else data.fingerprint().encode())
            digest.update(b"" if data is None else data.row_ids.tobytes())
        digest.update(json.dumps(settings, sort_keys=True).encode())
        return digest.hexdigest()


def save_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint; a stop at any moment leaves the previous one or this one."""
    content = save(
        {name: np.ascontiguousarray(array) for name, array in checkpoint.arrays.items()},
        metadata={
            "format": FORMAT,
            "identity": checkpoint.identity,
            "step": str(checkpoint.step),
            "sha256": _digest(checkpoint.arrays),
        },
    )
    try:
        write_atomically(path, content)
    except OSError as error:
        raise CheckpointError(f"cannot write the checkpoint {os.fspath(path)}: {error}") from error


def load_checkpoint(path: str | os.PathLike[str], identity: str) -> Checkpoint | None:
    """Read a checkpoint of the run with this identity; None if there is no such file."""
    if not Path(path).exists():
        return None
    checkpoint = _read(path)
    if checkpoint.identity != identity:
        raise CheckpointError(
            f"the checkpoint {os.fspath(path)} belongs to another run: data, graph, starting "
            "parameters or settings differ. Resume with the same ones, or choose another file."
        )
    return checkpoint


def is_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Whether a file says that it is a checkpoint; of any version, and perhaps damaged."""
    from safetensors import safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return str((file.metadata() or {}).get("format")).startswith("noisyor-checkpoint-")
    except (SafetensorError, OSError, ValueError):
        return False


def _read(path: str | os.PathLike[str]) -> Checkpoint:
    from safetensors import safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if metadata.get("format") != FORMAT:
            raise CheckpointError(f"{os.fspath(path)} is not a checkpoint of this version")
        if set(arrays) != _NAMES or metadata["sha256"] != _digest(arrays):
            raise CheckpointError(f"the checkpoint {os.fspath(path)} is damaged")
        return Checkpoint(metadata["identity"], int(metadata["step"]), arrays)
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"cannot read the checkpoint {os.fspath(path)}: {error}") from error


def _digest(arrays: dict[str, npt.NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()
