"""Matrices in MATLAB files."""

from __future__ import annotations

import io
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from noisyor.errors import InvalidDataError, NoisyOrError
from noisyor.tables.gathering import Gathering, check_columns
from noisyor.tables.npy import Found, choose, largest_ratio, sparse_rows, with_labels
from noisyor.tables.options import ReadOptions

__all__ = ["read_matlab"]

_NUMBERS = {
    *("double", "single", "logical", "sparse"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}
_LARGEST = 2**31


def read_matlab(path: Path, options: ReadOptions) -> Found:
    """A numeric or sparse matrix of a ``.mat`` file up to version 7, with names if it has any."""
    content = path.read_bytes()
    if b"MATLAB 7.3 MAT-file" in content[:128] or content.startswith(b"\x89HDF"):
        raise InvalidDataError(
            f"{path} is a MATLAB file of version 7.3, which is not read; save it with -v7"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return _read(content, path, options)
    except NoisyOrError:
        raise
    except Exception as error:  # the reader has no family of errors of its own
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InvalidDataError(f"{path}: not a MATLAB file, or damaged ({reason[:200]})") from error


def _read(content: bytes, path: Path, options: ReadOptions) -> Found:
    from scipy import sparse
    from scipy.io import loadmat, whosmat

    listed = whosmat(io.BytesIO(content))
    shapes = {name: tuple(shape) for name, shape, kind in listed if kind in _NUMBERS}
    chosen = choose(shapes, options, path)
    where = f"{path}, variable {chosen!r}"
    kind = next(kind for name, _, kind in listed if name == chosen)
    if kind != "sparse":
        size = math.prod(shapes[chosen])
        if size > min(_LARGEST, largest_ratio * len(content)):
            raise InvalidDataError(f"{where}: announces {size:,} numbers, too many for this file")
    labels = [name for name, _, kind in listed if kind == "cell"]
    loaded: dict[str, Any] = loadmat(io.BytesIO(content), variable_names=[chosen, *labels])
    matrix = loaded[chosen]
    if sparse.issparse(matrix):
        n_entries = matrix.nnz
        data = sparse_rows(
            lambda: sparse.csc_array(matrix), matrix.shape, n_entries, where, options
        )
    else:
        array = np.asarray(matrix)
        array = array.T if options.transpose and array.ndim == 2 else array
        check_columns(math.prod(array.shape[1:]), where)
        gathering = Gathering(where, None, options.above)
        gathering.add(array)
        data = gathering.finish(array.shape[1:] if array.ndim == 3 else ())
    return with_labels(data, {name: _strings(loaded.get(name)) for name in labels}, path)


def _strings(cells: Any) -> Any:
    """A cell array of strings as a plain list of them; empty if it is anything else."""
    items = [item.item() if getattr(item, "size", 0) == 1 else None for item in np.ravel(cells)]
    if not all(isinstance(item, str) for item in items):
        return np.empty(0, dtype=np.str_)
    return np.array(items, dtype=np.str_)
