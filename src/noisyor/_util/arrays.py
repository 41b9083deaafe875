"""Types of arrays by what they store, not by their shape, and arrays from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor._util.compression import reading
from noisyor.errors import InvalidDataError

FloatArray = npt.NDArray[np.float64]
SingleArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
BinaryArray = npt.NDArray[np.uint8]
"""Zeros and ones; states of hidden nodes; evidence of 0, 1 and 2 (free)."""
AnyArray = npt.NDArray[Any]


def read_arrays(
    path: Path, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, AnyArray]:
    """Read arrays of a ``.npz`` file by their names; optional ones only if they are there."""
    # NumPy does not close a damaged file that it opened itself.
    with (
        reading(path, Exception),
        path.open("rb") as stream,
        np.load(stream, allow_pickle=False) as file,
    ):
        absent = [name for name in required if name not in file.files]
        if absent:
            there = ", ".join(sorted(file.files)) or "none"
            raise InvalidDataError(f"{path}: no array {absent[0]!r}; there are {there}")
        names = [*required, *(name for name in optional if name in file.files)]
        return {name: file[name] for name in names}
