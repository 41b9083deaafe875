"""Blind deconvolution: the paper's 100 images of four stamped shapes."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, read_arrays
from noisyor._util.compression import existing
from noisyor.errors import InvalidDataError
from reproduction.datasets.download import fetch

__all__ = ["DeconvolutionProblem", "load_deconvolution"]


@dataclass(frozen=True, eq=False)
class DeconvolutionProblem:
    """Images and the shapes in them.

    Attributes
    ----------
    images : (100, 14, 14) uint8.
    features : (4, 5, 5) uint8, the shapes: a square, a plus, a triangle and a diamond.
    """

    images: BinaryArray
    features: BinaryArray


def load_deconvolution(source: str | os.PathLike[str] | None = None) -> DeconvolutionProblem:
    """Load the 100 images of the paper's experiment. The positions of the shapes are not published.

    Parameters
    ----------
    source : a copy of ``conv_problem.npz``; without it the file is looked for, or downloaded.
    """
    path = fetch("conv_problem.npz") if source is None else existing(source)
    arrays = read_arrays(path, ("X", "W"))
    images, features = (_binary_images(path, name, arrays[name]) for name in ("X", "W"))
    return DeconvolutionProblem(images[:, 0], features[0])


def _binary_images(path: object, name: str, values: npt.NDArray[np.generic]) -> BinaryArray:
    """Arrays of 0 and 1 with four axes, one of which, of length 1, is that of the channels."""
    if values.ndim != 4 or values.shape[0 if name == "W" else 1] != 1:
        raise InvalidDataError(
            f"{path}: {name} has shape {values.shape}, expected images of one channel"
        )
    if not np.isin(values, (0, 1)).all():
        raise InvalidDataError(f"{path}: {name} holds other values than 0 and 1")
    return values.astype(np.uint8)
