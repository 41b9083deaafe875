"""Values as JSON holds them: plain Python, finite numbers."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

__all__ = ["plain", "to_json"]


def plain(value: Any) -> Any:
    """Return a value as dicts with text keys, lists, text, numbers, Booleans and None.

    NumPy scalars and arrays become numbers and lists. NaN and infinity, which JSON does not have,
    become None.

    Raises
    ------
    TypeError : JSON has no form for the value.
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"JSON has no form for a {type(value).__name__}")


def to_json(value: Any, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """Return the JSON text of `plain`, without an end of line."""
    return json.dumps(plain(value), indent=indent, ensure_ascii=ascii_only, allow_nan=False)
