"""A folder of PNG files as a stack of binary images."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noisyor._util.compression import reading
from noisyor.errors import InvalidDataError, MissingExtraError
from noisyor.tables.options import ReadOptions
from noisyor.tables.table import RowBuilder, Table

__all__ = ["read"]

_MOST_PIXELS = 4_000_000


def read(path: Path, options: ReadOptions, columns: Sequence[str] | None = None) -> Table:
    """Grey levels from 0 (black) to 1 (white), larger than one half (or ``above``) is 1."""
    image_module = _pillow(path)
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() == ".png")
    if not files:
        raise InvalidDataError(f"{path} holds no .png file")
    threshold = 0.5 if options.above is None else options.above
    builder = RowBuilder(path)
    shape: tuple[int, int] | None = None
    for file in files:
        levels = _grey_levels(image_module, file, shape)
        if shape is None:
            shape = levels.shape
        on = (levels <= threshold) if options.invert else (levels > threshold)
        builder.add_codes(on.reshape(1, -1).astype(np.uint8))
    assert shape is not None
    names = tuple(file.relative_to(path).as_posix() for file in files)
    return Table(builder.finish(shape), names)


def _grey_levels(image_module: Any, file: Path, shape: tuple[int, int] | None) -> Any:
    # Damaged content raises exceptions of many kinds, and warnings.
    with reading(file, Exception, fault="not a PNG image, or damaged"), warnings.catch_warnings():
        warnings.simplefilter("error")
        with image_module.open(file, formats=["PNG"]) as image:
            size = (image.height, image.width)
            if size[0] * size[1] > _MOST_PIXELS:
                raise InvalidDataError(
                    f"{file}: {size[0]} x {size[1]} pixels, more than {_MOST_PIXELS:,}"
                )
            if shape is not None and size != shape:
                raise InvalidDataError(
                    f"{file}: {size[0]} x {size[1]} pixels, those before have "
                    f"{shape[0]} x {shape[1]}"
                )
            # Modes with 16 bits are not brought to 8 by the conversion.
            deep = image.mode.startswith("I")
            grey = image if deep else image.convert("L")
            return np.asarray(grey, dtype=np.float64) / (65535.0 if deep else 255.0)


def _pillow(path: Path) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError(
            f"{path}: images need Pillow, which is not installed; pip install pillow brings it"
        ) from None
    return Image
