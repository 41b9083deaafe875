"""Checks that the settings of all methods share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

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


def check_fields(settings: Mapping[str, object], rules: Iterable[tuple[str, bool, str]]) -> None:
    """Refuse the first setting that breaks its rule.

    Parameters
    ----------
    settings : values by name.
    rules : (name, whether the value is valid, what was expected) of each setting to check.
    """
    for name, valid, expected in rules:
        if not valid:
            raise InvalidSettingError(f"{name} must be {expected}, got {settings[name]!r}")


def is_whole_from(value: object, smallest: int) -> bool:
    """Whether a setting is a whole number of at least ``smallest``."""
    return is_whole(value) and value >= smallest  # type: ignore[operator]


def is_number(value: object, smallest: float = -math.inf, *, above: float = -math.inf) -> bool:
    """Whether a setting is a finite number, at least ``smallest`` and larger than ``above``."""
    return is_finite(value) and smallest <= value and above < value  # type: ignore[operator]
