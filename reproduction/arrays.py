"""Small arrays inside JSON: binary ones as bits, others as half precision, base64."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor.errors import InvalidDataError

__all__ = ["pack", "unpack"]


def pack(values: npt.ArrayLike) -> dict[str, Any]:
    """A JSON object that holds an array: bits if it is binary, else numbers of two bytes."""
    array = np.asarray(values)
    binary = array.dtype == np.bool_ or bool(((array == 0) | (array == 1)).all())
    if binary:
        content, kind = np.packbits(array.astype(np.bool_).ravel()).tobytes(), "bits"
    elif array.dtype.kind in "iu" and array.size and array.min() >= 0 and array.max() < 2**16:
        content, kind = array.astype("<u2").tobytes(), "uint16"
    else:
        content, kind = array.astype("<f2").tobytes(), "float16"
    return {
        "shape": list(array.shape),
        "kind": kind,
        "base64": base64.b64encode(content).decode("ascii"),
    }


def unpack(packed: Any) -> npt.NDArray[Any]:
    """The array that `pack` wrote: uint8 for bits, int64 for whole numbers, else float64."""
    try:
        shape = tuple(int(size) for size in packed["shape"])
        content = base64.b64decode(packed["base64"], validate=True)
        size = int(np.prod(shape))
        if packed["kind"] == "bits":
            bits = np.unpackbits(np.frombuffer(content, np.uint8), count=size)
            return bits.reshape(shape)
        wide: npt.NDArray[Any]
        if packed["kind"] == "uint16":
            wide = np.frombuffer(content, "<u2").astype(np.int64)
        else:
            wide = np.frombuffer(content, "<f2").astype(np.float64)
        return wide.reshape(shape)
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise InvalidDataError(f"a stored array cannot be read: {error}") from error
