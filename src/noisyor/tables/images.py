"""A folder of PNG files as a stack of binary images."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from noisyor.errors import InvalidDataError, MissingExtraError
from noisyor.tables.arrays import Found
from noisyor.tables.options import ReadOptions
from noisyor.tables.row_builder import Gathering

__all__ = ["read_images"]

_MOST_PIXELS = 4_000_000


def read_images(path: Path, options: ReadOptions) -> Found:
    """Grey levels from 0 (black) to 1 (white), larger than one half (or ``above``) is 1."""
    image_module = _pillow(path)
    files = sorted(file for file in path.iterdir() if file.suffix.lower() == ".png")
    if not files:
        raise InvalidDataError(f"{path} holds no .png file")
    threshold = 0.5 if options.above is None else options.above
    gathering = Gathering(path)
    shape: tuple[int, int] | None = None
    for file in files:
        pixels = _pixels(image_module, file, shape)
        if shape is None:
            shape = pixels.shape
        on = (pixels <= threshold) if options.invert else (pixels > threshold)
        flat = on.reshape(1, -1)
        gathering.add_masks(flat, np.zeros_like(flat))
    assert shape is not None
    return gathering.finish(shape), tuple(file.name for file in files)


def _pixels(image_module: Any, file: Path, shape: tuple[int, int] | None) -> Any:
    try:
        with warnings.catch_warnings():
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
    except InvalidDataError:
        raise
    except OSError as error:
        if error.errno is not None:
            raise
        raise InvalidDataError(f"{file}: not a PNG image, or damaged ({error})") from error
    except Exception as error:  # damaged content raises many kinds
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InvalidDataError(f"{file}: not a PNG image, or damaged ({reason})") from error


def _pillow(path: Path) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError(
            f"{path}: images need Pillow, which is not installed; pip install pillow brings it"
        ) from None
    return Image
