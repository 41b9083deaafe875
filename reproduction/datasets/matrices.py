"""Real binary matrices: plants by where they grow, animals by their attributes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import read_arrays
from noisyor._util.compression import existing, open_binary
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError
from noisyor.tables.lines import equally_wide, fields, text_lines
from reproduction.datasets.download import fetch, find

__all__ = ["MatrixData", "load_plants", "load_zoo"]

_ATTRIBUTES = (
    *("hair", "feathers", "eggs", "milk", "airborne", "aquatic", "predator", "toothed"),
    *("backbone", "breathes", "venomous", "fins", "legs", "tail", "domestic", "catsize"),
)
_LEGS = (0, 2, 4, 5, 6, 8)


@dataclass(frozen=True, eq=False)
class MatrixData:
    """A binary matrix with names.

    Attributes
    ----------
    name : of the data.
    observations : (n, p), with column names.
    row_names : (n,), not necessarily distinct.
    labels : (n,) a class of each row, or None.
    """

    name: str
    observations: Observations
    row_names: tuple[str, ...]
    labels: npt.NDArray[np.int64] | None


def load_plants(source: str | os.PathLike[str] | None = None) -> MatrixData:
    """34,781 plants and the 70 states and provinces of North America that they grow in.

    Parameters
    ----------
    source : ``bmf_plants.npz`` or the original ``plants.data``, a line per plant: its name and the
        places, separated by commas; without it either is looked for, or the original downloaded.
    """
    path = _path(source, "bmf_plants.npz", "plants.data")
    if path.suffix == ".npz":
        return _from_arrays("plants", path)
    names, places = [], []
    for _, line in _lines(path):
        name, *where = line.rstrip("\r\n").split(",")
        names.append(name)
        places.append(where)
    columns = sorted({place for where in places for place in where})
    column_of = {place: column for column, place in enumerate(columns)}
    rows = ({column_of[place] for place in where} for where in places)
    observations = Observations.from_indices(rows, len(columns), column_names=columns)
    return MatrixData("plants", observations, tuple(names), None)


def load_zoo(source: str | os.PathLike[str] | None = None) -> MatrixData:
    """101 animals and 21 attributes: 15 that are there or not, and the number of legs.

    ``labels`` are the classes of the file, 1 to 7.

    Parameters
    ----------
    source : ``bmf_zoo.npz`` or the original ``zoo.data``, 18 fields a line; without it either is
        looked for, or the original downloaded.
    """
    path = _path(source, "bmf_zoo.npz", "zoo.data")
    if path.suffix == ".npz":
        return _from_arrays("zoo", path)
    names, labels, matrix = [], [], []
    for number, row in equally_wide(fields(_lines(path), path), path, len(_ATTRIBUTES) + 2):
        try:
            values = dict(zip(_ATTRIBUTES, map(int, row[1:-1]), strict=True))
            legs = values["legs"]
            if legs not in _LEGS or not {values[key] for key in values if key != "legs"} <= {0, 1}:
                raise ValueError
            labels.append(int(row[-1]))
        except ValueError:
            raise InvalidDataError(
                f"{path}, line {number}: not the attributes of an animal"
            ) from None
        names.append(row[0])
        matrix.append(
            [
                flag
                for key in _ATTRIBUTES
                for flag in ([legs == n for n in _LEGS] if key == "legs" else [bool(values[key])])
            ]
        )
    columns = [
        name
        for key in _ATTRIBUTES
        for name in ([f"legs={n}" for n in _LEGS] if key == "legs" else [key])
    ]
    observations = Observations.of(np.array(matrix), column_names=columns)
    return MatrixData("zoo", observations, tuple(names), np.array(labels, dtype=np.int64))


def _path(source: str | os.PathLike[str] | None, packed: str, original: str) -> Path:
    if source is not None:
        return existing(source)
    return find(packed) or fetch(original)


def _lines(path: Path) -> list[tuple[int, str]]:
    with open_binary(path) as stream:
        lines = [(k, line) for k, line in text_lines(stream, path, "latin-1") if line.strip()]
    if not lines:
        raise InvalidDataError(f"{path} is empty")
    return lines


def _from_arrays(name: str, path: Path) -> MatrixData:
    arrays = read_arrays(path, ("X", "columns", "names"), ("y",))
    observations = Observations.of(arrays["X"], column_names=arrays["columns"].tolist())
    names = tuple(arrays["names"].tolist())
    labels = arrays.get("y")
    for what, came in (("names", len(names)), ("y", None if labels is None else len(labels))):
        if came not in (None, observations.n_rows):
            raise InvalidDataError(f"{path}: {what} has {came} entries, X {observations.n_rows}")
    return MatrixData(
        name, observations, names, None if labels is None else labels.astype(np.int64)
    )
