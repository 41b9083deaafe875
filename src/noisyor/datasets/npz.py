"""Arrays from ``.npz`` files, with one clear line for whatever is wrong with the file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor.errors import InvalidDataError

__all__ = ["read_arrays"]


def read_arrays(
    path: Path, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, npt.NDArray[Any]]:
    """Some arrays of a file by their names; optional ones only if they are there."""
    try:
        if not zipfile.is_zipfile(path):
            raise zipfile.BadZipFile("no archive of arrays")
        with np.load(path, allow_pickle=False) as content:
            missing = [name for name in required if name not in content]
            if missing:
                raise InvalidDataError(f"{path}: no array {missing[0]!r} in the file")
            names = [*required, *(name for name in optional if name in content)]
            return {name: content[name] for name in names}
    except InvalidDataError:
        raise
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InvalidDataError(f"{path}: damaged or incomplete ({reason})") from error
