"""Names of array types, once: what is stored, not what shape it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
SingleArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
BinaryArray = npt.NDArray[np.uint8]
"""Zeros and ones; states of hidden nodes; evidence of 0, 1 and 2 (free)."""
AnyArray = npt.NDArray[Any]
