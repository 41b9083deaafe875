"""What every format of `noisyor.tables.options` must do: the same rows, and one line for damage.

A new format is entered in `EXAMPLES`; ``tests/tables/test_formats.py`` runs the checks on each.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.io

from noisyor.errors import NoisyOrError
from noisyor.tables import FORMATS, ReadOptions
from noisyor.tables.table import read_table

WORDS = ("hair", "eggs", "milk", "legs")
X = np.array([[1, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 0]], dtype=np.uint8)


class Example(NamedTuple):
    """How to write a file with the rows of ``X``, and options to read it, if it needs any."""

    name: str
    write: Callable[[Path], Any]
    options: ReadOptions = ReadOptions()


def _items() -> list[list[str]]:
    return [[WORDS[k] for k in np.flatnonzero(row)] for row in X]


def _pairs() -> list[str]:
    return [f"{row},{item}" for row, items in enumerate(_items()) for item in items]


def _table(delimiter: str) -> str:
    return "\n".join(delimiter.join(map(str, row)) for row in (WORDS, *X.tolist()))


def _parquet(path: Path) -> None:
    import pandas

    pandas.DataFrame(X, columns=list(WORDS)).to_parquet(path)


def _images(path: Path) -> None:
    from PIL import Image

    path.mkdir()
    for number, row in enumerate(X):
        Image.fromarray(row.reshape(2, 2) * np.uint8(255)).save(path / f"{number}.png")


def _folder(path: Path) -> None:
    path.mkdir()
    for number, items in enumerate(_items()):
        (path / f"{number}.txt").write_text(" ".join(items))


EXAMPLES: dict[str, Example] = {
    "csv": Example("d.csv", lambda path: path.write_text(_table(","))),
    "tsv": Example("d.tsv", lambda path: path.write_text(_table("\t"))),
    "baskets": Example(
        "d.baskets", lambda path: path.write_text("\n".join(map(",".join, _items())))
    ),
    "pairs": Example("d.pairs", lambda path: path.write_text("\n".join(_pairs()))),
    "jsonl": Example("d.jsonl", lambda path: path.write_text("\n".join(map(json.dumps, _items())))),
    "parquet": Example("d.parquet", _parquet),
    "npy": Example("d.npy", lambda path: np.save(path, X)),
    "npz": Example("d.npz", lambda path: np.savez_compressed(path, X=X, columns=WORDS)),
    "mat": Example("d.mat", lambda path: scipy.io.savemat(path, {"X": X})),
    "text": Example("d.txt", lambda path: path.write_text("\n".join(map(" ".join, _items())))),
    "images": Example("pictures", _images),
    "folder": Example("papers", _folder),
}


def check_rows(format: str, folder: Path) -> None:
    """The file is recognized and has the rows of ``X``; names of columns lead to the columns."""
    example = EXAMPLES[format]
    path = folder / example.name
    example.write(path)
    table = read_table(path, example.options)
    assert table.format == format
    names = table.observations.column_names
    order = range(len(WORDS)) if names is None else [names.index(word) for word in WORDS]
    np.testing.assert_array_equal(table.observations.to_dense()[:, list(order)], X)
    assert table.row_names is None or len(table.row_names) == len(X)


def check_damage(format: str, folder: Path, seed: int = 0, times: int = 60) -> int:
    """Damage is no error or one of our family, in one line that names the file.

    Returns how often the damaged file was refused. Formats of folders are not damaged.
    """
    if FORMATS[format].members:
        return 0
    example = EXAMPLES[format]
    path = folder / example.name
    example.write(path)
    content = path.read_bytes()
    random = np.random.default_rng(seed)
    refused = 0
    for _ in range(times):
        path.write_bytes(damaged(content, random))
        refused += is_refused(path, example.options)
    return refused


def is_refused(path: Path, options: ReadOptions | None = None) -> bool:
    """Whether the file is refused, and then in one line that names it."""
    try:
        read_table(path, options)
    except NoisyOrError as error:
        message = str(error)
    else:
        return False
    assert str(path) in message
    assert "\n" not in message
    return True


def damaged(content: bytes, random: np.random.Generator) -> bytes:
    """The bytes cut off, overwritten in one place, or changed in three near the start."""
    raw = bytearray(content)
    place = int(random.integers(len(raw)))
    if random.random() < 0.3:
        raw = raw[:place]
    elif random.random() < 0.5:
        raw[place : place + 8] = random.bytes(8)
    else:
        for where in random.integers(min(len(raw), 400), size=3):
            raw[where] = int(random.choice([0, 1, 127, 128, 255]))
    return bytes(raw)
