"""Checks that the settings of all methods share."""

from __future__ import annotations

import math

import numpy as np

from noisyor.errors import InvalidSettingError


def is_finite(value: object) -> bool:
    """Whether a setting is a finite number."""
    return isinstance(value, int | float | np.number) and math.isfinite(value)


def is_whole(value: object) -> bool:
    """Whether a setting is a whole number; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_seed(seed: int) -> int:
    """A seed as a plain integer of 0 .. 2**63 - 1."""
    if not is_whole(seed) or not 0 <= seed < 2**63:
        raise InvalidSettingError(f"seed must be a whole number of 0 .. 2**63 - 1, got {seed!r}")
    return int(seed)


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """The value of a setting is among those allowed."""
    if value not in allowed:
        raise InvalidSettingError(f"{name} is one of {allowed}, got {value!r}")
