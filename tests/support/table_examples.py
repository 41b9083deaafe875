"""A small matrix, and how to write and read files of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from noisyor.data.observations import Observations
from noisyor.tables import ReadOptions, Table
from noisyor.tables.table import read_table

COLUMNS = ("hair", "eggs", "milk", "legs, four")
NAMES = ("bear", "bee", "carp")
X = np.array([[1, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 0]], dtype=np.uint8)
EXPECTED = Observations.of(X)
DOCUMENTS = ["The cat sat.", "the dog, the cat", "A bird! don't 42", "dog and bird"]


def written(name: str, text: str | bytes) -> Path:
    path = Path(name)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def table(delimiter: str = ",", quote: str = '"') -> str:
    header = delimiter.join(["animal", *(f"{quote}{name}{quote}" for name in COLUMNS)])
    rows = (delimiter.join([name, *map(str, row)]) for name, row in zip(NAMES, X, strict=True))
    return "\n".join([header, *rows]) + "\n"


def rows_of(path: str | Path, **options) -> Table:
    return read_table(path, ReadOptions(**options))


def tags() -> list[list[str]]:
    return [[COLUMNS[k] for k in np.flatnonzero(row)] for row in X]
