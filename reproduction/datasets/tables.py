"""Data sets that are tables or images: tiny20, overparametrization and blind deconvolution.

``source`` is the user's own copy of a file; without it the file is searched for, or downloaded.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import AnyArray, BinaryArray, FloatArray
from noisyor._util.files import existing, reading
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, InvalidSettingError
from reproduction.datasets.archives import members
from reproduction.datasets.download import fetch, find

__all__ = [
    "OVPM_NAMES",
    "DeconvolutionProblem",
    "OvpmData",
    "Tiny20Data",
    "load_deconvolution",
    "load_ovpm",
    "load_tiny20",
]


def _read_arrays(path: Path, names: Sequence[str]) -> dict[str, AnyArray]:
    """Read arrays of a ``.npz`` file by their names."""
    # NumPy does not close a damaged file that it opened itself.
    with (
        reading(path, Exception),
        path.open("rb") as stream,
        np.load(stream, allow_pickle=False) as file,
    ):
        absent = [name for name in names if name not in file.files]
        if absent:
            there = ", ".join(sorted(file.files)) or "none"
            raise InvalidDataError(f"{path}: no array {absent[0]!r}; there are {there}")
        return {name: file[name] for name in names}


# ---- tiny20


@dataclass(frozen=True, eq=False)
class Tiny20Data:
    """Newsgroup posts as binary rows.

    Attributes
    ----------
    observations : (16242, 100).
    words : (100,) names of the columns.
    groups : (16242,) which of the group names each post belongs to, from 0.
    group_names : (4,) families of newsgroups.
    """

    observations: Observations
    words: tuple[str, ...]
    groups: npt.NDArray[np.int64]
    group_names: tuple[str, ...]


def load_tiny20(source: str | os.PathLike[str] | None = None) -> Tiny20Data:
    """Load tiny20: which of 100 words each of 16,242 newsgroup posts contains.

    Parameters
    ----------
    source : a copy of the file; without it the file is looked for, or downloaded.
    """
    from scipy.io import loadmat

    path = fetch("20news_w100.mat") if source is None else existing(source)
    try:
        with warnings.catch_warnings():
            # SciPy 1.18 announces another class of sparse matrices; both are read below.
            warnings.simplefilter("ignore", DeprecationWarning)
            content = loadmat(path)
        words = tuple(str(word[0]) for word in content["wordlist"].ravel())
        group_names = tuple(str(name[0]) for name in content["groupnames"].ravel())
        groups = content["newsgroups"].ravel().astype(np.int64) - 1
        documents = content["documents"].T
    except Exception as error:  # the reader has no family of errors of its own
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InvalidDataError(f"{path}: not the tiny20 file ({reason})") from error
    observations = Observations.of(documents, column_names=words)
    if len(groups) != observations.n_rows:
        raise InvalidDataError(f"{path}: {len(groups)} groups of {observations.n_rows} documents")
    return Tiny20Data(observations, words, groups, group_names)


# ---- blind deconvolution


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
    arrays = _read_arrays(path, ("X", "W"))
    images, features = (_binary_images(path, name, arrays[name]) for name in ("X", "W"))
    return DeconvolutionProblem(images[:, 0], features[0])


def _binary_images(path: object, name: str, values: npt.NDArray[np.generic]) -> BinaryArray:
    """Check an array of 0 and 1 with four axes, of which the channels' has length 1."""
    if values.ndim != 4 or values.shape[0 if name == "W" else 1] != 1:
        raise InvalidDataError(
            f"{path}: {name} has shape {values.shape}, expected images of one channel"
        )
    if not np.isin(values, (0, 1)).all():
        raise InvalidDataError(f"{path}: {name} holds other values than 0 and 1")
    return values.astype(np.uint8)


# ---- overparametrization

OVPM_NAMES = ("IMG", "PLNT", "UNIF", "CON8", "CON24", "IMG-FLIP", "IMG-UNIF")
"""The seven data sets."""

_N_CAUSES = 8
_ARRAYS = ("samples", "weights", "priors", "noise")
_ARCHIVE = "overparam_noisyor_datasets_raw.tar.xz"


@dataclass(frozen=True, eq=False)
class OvpmData:
    """Samples of a noisy-OR network, and the causes to be recovered from them.

    Attributes
    ----------
    name : of the data set.
    observations : (10000, D) samples in the order of the file.
    failure : (8, D) probability that a visible stays off when one cause is on and nothing else;
        1 where there is no edge.
    prior : (8,) probability of each cause.
    noise_failure : (D,) probability that a visible stays off when no cause is on.
    image_shape : (8, 8) if the visibles are pixels, row by row; else None.

    IMG-FLIP and IMG-UNIF are not drawn from this network alone: some columns were flipped, and
    eight more causes were active. The eight here are those to be recovered.
    """

    name: str
    observations: Observations
    failure: FloatArray
    prior: FloatArray
    noise_failure: FloatArray
    image_shape: tuple[int, int] | None


def load_ovpm(name: str, source: str | os.PathLike[str] | None = None) -> OvpmData:
    """Load one of the seven data sets of the overparametrization experiment.

    Parameters
    ----------
    name : one of `OVPM_NAMES`.
    source : the ``.npz`` file of the data set, or the original layout
        ``name/{samples,true_params}/...`` in a folder or an archive; without it the data are
        looked for in every form, or downloaded in the original layout.
    """
    if name not in OVPM_NAMES:
        raise InvalidSettingError(f"name is one of {', '.join(OVPM_NAMES)}, got {name!r}")
    if source is not None:
        path = existing(source)
        if path.suffix == ".npz":
            return _data(name, _read_arrays(path, _ARRAYS), path)
        return _data(name, _from_layout(name, path), path)
    if copy := find(f"ovpm_{name}.npz"):
        return _data(name, _read_arrays(copy, _ARRAYS), copy)
    if copy := find(_ARCHIVE):
        return _data(name, _from_layout(name, copy), copy)
    files = [fetch(file) for file in original_files(name)]
    arrays = {}
    for key, file in zip(_ARRAYS, files, strict=True):
        arrays[key] = _PARSERS[key](file.read_bytes(), file)
    return _data(name, arrays, files[0].parent.parent)


def _data(name: str, arrays: dict[str, npt.NDArray[Any]], path: Path) -> OvpmData:
    samples = arrays["samples"]
    if samples.ndim != 2:
        raise InvalidDataError(f"{path}: samples has shape {samples.shape}, expected a matrix")
    n, width = samples.shape
    for key, shape in (
        ("weights", (_N_CAUSES, width)),
        ("priors", (_N_CAUSES,)),
        ("noise", (width,)),
    ):
        values = arrays[key]
        if values.shape != shape:
            raise InvalidDataError(f"{path}: {key} has shape {values.shape}, expected {shape}")
        if not ((values >= 0) & (values <= 1)).all():
            raise InvalidDataError(f"{path}: {key} holds values that are no probabilities")
    image_shape = None if name == "PLNT" else (8, 8)
    if image_shape is not None:
        if width != 64:
            raise InvalidDataError(f"{path}: {width} columns are no image of 8 x 8 pixels")
        samples = samples.reshape(n, *image_shape)
    failure, prior, noise = (arrays[key].astype(np.float64) for key in _ARRAYS[1:])
    return OvpmData(name, Observations.of(samples), failure, prior, noise, image_shape)


# ---- the original layout


def original_files(name: str) -> list[str]:
    """Return the names of the original files of a data set: samples, weights, priors, noise."""
    samples = "samples_str10percent" if name == "IMG-FLIP" else "raw_samples_n10000_s0"
    folder = f"noisyor/datasets/{name}"
    return [
        f"{folder}/samples/{samples}",
        *(f"{folder}/true_params/{part}.txt" for part in ("weights", "priors", "noise")),
    ]


def _from_layout(name: str, path: Path) -> dict[str, npt.NDArray[Any]]:
    # Notes of checksums may lie beside the samples.
    pattern = re.compile(
        rf"(?:^|/){re.escape(name)}/"
        r"(?:(samples)/[^/]+(?<!\.sha256)|true_params/(weights|priors|noise)\.txt)$"
    )
    arrays: dict[str, npt.NDArray[Any]] = {}
    with reading(path):
        for file, stream in members(path, lambda file: pattern.search(file) is not None):
            match = pattern.search(file)
            assert match is not None
            key = match[1] or match[2]
            where = f"{path}, {file}"
            if key in arrays:
                raise InvalidDataError(f"{where}: a second file of {key}")
            arrays[key] = _PARSERS[key](stream.read(), where)
    missing = [key for key in _ARRAYS if key not in arrays]
    if missing:
        raise InvalidDataError(f"{path} has no {missing[0]} of {name}")
    return arrays


def _counted(content: bytes, where: object) -> npt.NDArray[Any]:
    """Parse one value per line, after a first line with their number."""
    values = _numbers(content, where)
    if values.shape[1] != 1 or values[0, 0] != len(values) - 1:
        raise InvalidDataError(f"{where}: line 1 is not the number of values that follow")
    result: npt.NDArray[Any] = values[1:, 0]
    return result


def _numbers(content: bytes, where: object) -> npt.NDArray[Any]:
    """Parse lines of numbers with blanks or tabs between them."""
    if not content.strip():
        raise InvalidDataError(f"{where} is empty")
    try:
        return np.loadtxt(BytesIO(content), ndmin=2)
    except ValueError as error:  # it names the row
        raise InvalidDataError(f"{where}: not a table of numbers ({error})") from error


_PARSERS: dict[str, Callable[[bytes, object], npt.NDArray[Any]]] = {
    "samples": _numbers,
    "weights": _numbers,
    "priors": _counted,
    "noise": _counted,
}
