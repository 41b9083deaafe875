"""Check settings, with one wording for what was expected and what was given."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from numbers import Integral, Real  # NumPy's numbers are registered there
from typing import Any, NamedTuple

from noisyor.errors import InvalidSettingError

__all__ = [
    "BELOW_ONE",
    "COUNT",
    "COUNT_OR_AUTO",
    "COUNT_OR_ZERO",
    "FLAG",
    "NOT_NEGATIVE",
    "NUMBER",
    "PATH",
    "POSITIVE",
    "TEXT",
    "WORKERS",
    "Rule",
    "check_choice",
    "check_count",
    "check_positive",
    "check_seed",
    "check_settings",
    "choice",
    "count",
    "is_finite",
    "is_whole",
    "or_none",
]


_LARGEST_COUNT = 2**31 - 1


class Rule(NamedTuple):
    """A rule for a setting: ``valid`` decides, ``expected`` says it in words."""

    valid: Callable[[Any], bool]
    expected: str

    def check(self, name: str, value: object) -> None:
        """Raise `InvalidSettingError` unless the value of the named setting is valid."""
        if not self.valid(value):
            raise InvalidSettingError(f"{name} must be {self.expected}, got {value!r}")


def is_finite(value: object) -> bool:
    """Tell whether a setting is a number that is finite as a float."""
    if not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def is_whole(value: object) -> bool:
    """Tell whether a setting is a whole number; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def count(least: int = 1) -> Rule:
    """Return the rule that a setting is a whole number of at least ``least``."""
    return Rule(
        lambda value: is_whole(value) and least <= value <= _LARGEST_COUNT,
        f"{least}, {least + 1}, …",
    )


COUNT, COUNT_OR_ZERO = count(), count(0)
NOT_NEGATIVE = Rule(lambda value: is_finite(value) and value >= 0, "at least 0")
BELOW_ONE = Rule(lambda value: is_finite(value) and 0 <= value < 1, "in [0, 1)")
POSITIVE = Rule(lambda value: is_finite(value) and value > 0, "a positive number")
_SEED = Rule(
    lambda value: is_whole(value) and 0 <= value < 2**63, "a whole number of 0 .. 2**63 - 1"
)


COUNT_OR_AUTO = Rule(lambda value: value == "auto" or COUNT.valid(value), "1, 2, … or 'auto'")
NUMBER = Rule(is_finite, "a finite number")
WORKERS = Rule(lambda value: value == -1 or COUNT.valid(value), "1, 2, … or -1 for all cores")
FLAG = Rule(lambda value: isinstance(value, bool), "True or False")
PATH = Rule(
    lambda value: isinstance(value, os.PathLike) or (isinstance(value, str) and "\0" not in value),
    "a path",
)
TEXT = Rule(lambda value: isinstance(value, str), "a text")


def choice(*allowed: str) -> Rule:
    """Return the rule that a setting is one of a few words."""
    words = ", ".join(repr(word) for word in allowed[:-1])
    listed = f"{words} or {allowed[-1]!r}" if words else repr(allowed[-1])
    return Rule(lambda value: isinstance(value, str) and value in allowed, listed)


def or_none(rule: Rule) -> Rule:
    """Return the rule that a setting is None, or as another rule says."""
    return Rule(lambda value: value is None or rule.valid(value), f"{rule.expected} or None")


def check_settings(instance: object, rules: Mapping[str, Rule]) -> None:
    """Check attributes of an object, each by its rule; the error names the first that fails."""
    for name, rule in rules.items():
        rule.check(name, getattr(instance, name))


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number of at least ``least`` as a plain integer."""
    count(least).check(name, value)
    return int(value)


def check_positive(name: str, value: Any) -> float:
    """Return a finite number above 0 as a plain float."""
    POSITIVE.check(name, value)
    return float(value)


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return one of a few words."""
    choice(*allowed).check(name, value)
    return str(value)


def check_seed(seed: Any) -> int:
    """Return a seed, 0 .. 2**63 - 1, as a plain integer."""
    _SEED.check("seed", seed)
    return int(seed)
