"""Rules for single settings, and the table of settings of a fit."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from numbers import Integral, Real  # NumPy's numbers are registered there
from typing import Any, NamedTuple

from noisyor._util.progress import Job
from noisyor.errors import InvalidSettingError

_MAX_COUNT = 2**31 - 1
_MAX_SHOWN = 200


class Rule(NamedTuple):
    """A rule for a setting: ``valid`` checks a value, ``expected`` describes valid values."""

    valid: Callable[[Any], bool]
    expected: str

    def check(self, name: str, value: object) -> None:
        """Raise `InvalidSettingError` unless the value of the named setting is valid."""
        if not self.valid(value):
            shown = " ".join(repr(value).split())  # one line, also of an array
            shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]} ..."
            raise InvalidSettingError(f"{name} must be {self.expected}, got {shown}")


def is_finite(value: object) -> bool:
    """Return whether a setting is a number that is finite as a float."""
    if not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def is_whole(value: object) -> bool:
    """Return whether a setting is an integer; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def count(least: int = 1) -> Rule:
    """Return the rule that a setting is a whole number of at least ``least``."""
    return Rule(
        lambda value: is_whole(value) and least <= value <= _MAX_COUNT,
        f"{least}, {least + 1}, …",
    )


COUNT, COUNT_OR_ZERO = count(), count(0)
NOT_NEGATIVE = Rule(lambda value: is_finite(value) and value >= 0, "at least 0")
BELOW_ONE = Rule(lambda value: is_finite(value) and 0 <= value < 1, "in [0, 1)")
POSITIVE = Rule(lambda value: is_finite(value) and value > 0, "a positive number")
SEED = Rule(
    lambda value: is_whole(value) and 0 <= value < 2**63, "a whole number of 0 .. 2**63 - 1"
)


COUNT_OR_AUTO = Rule(
    lambda value: value == "auto" if isinstance(value, str) else COUNT.valid(value),
    "1, 2, … or 'auto'",
)
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
    """Return the rule that a setting is None or satisfies another rule."""
    if rule.valid(None):
        return rule
    return Rule(lambda value: value is None or rule.valid(value), f"{rule.expected} or None")


def check_settings(instance: object, rules: Mapping[str, Rule]) -> None:
    """Check attributes of an object, each by its rule; the error names the first that fails."""
    for name, rule in rules.items():
        rule.check(name, getattr(instance, name))


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number of at least ``least`` as a plain integer."""
    count(least).check(name, value)
    return int(value)


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Check that a value is one of the allowed words, and return it."""
    choice(*allowed).check(name, value)
    return str(value)


def check_seed(seed: Any) -> int:
    """Return a seed, 0 .. 2**63 - 1, as a plain integer."""
    SEED.check("seed", seed)
    return int(seed)


class Option(NamedTuple):
    """One setting of a fit.

    Attributes
    ----------
    rule : which values are valid.
    help : one sentence for the command line, if the setting has a flag.
    kinds : kinds of model that have the setting.
    read : turns the text of the command line into a value.
    metavar : what stands for the value in the help.
    """

    rule: Rule
    help: str = ""
    kinds: tuple[str, ...] = ("factors", "topics", "features", "network")
    read: Callable[[str], Any] = str
    metavar: str = "NAME"


def _read_count(text: str) -> int | str:
    return text if text == "auto" else int(text)


def _read_shape(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.replace("x", ",").split(","))


_SHAPE = Rule(
    lambda value: (
        isinstance(value, list | tuple) and len(value) == 2 and all(map(COUNT.valid, value))
    ),
    "height and width, such as 6,6",
)
_PROGRESS = Rule(
    lambda value: value is None or isinstance(value, bool | Job), "True or False or None"
)
_ANY = Rule(lambda value: True, "anything")


_RATE = Rule(
    lambda value: (callable(value) and not isinstance(value, type)) or POSITIVE.valid(value),
    "a positive number or a function of the step",
)
_OPTIMIZER = Rule(
    lambda value: (
        value is None
        or (
            not isinstance(value, type)
            and all(callable(getattr(value, name, None)) for name in ("init", "update"))
        )
    ),
    "None or an object with the functions init and update, such as Adam(0.01)",
)

OPTIONS: dict[str, Option] = {
    # how a model is trained: the fields of `TrainOptions`; three of them have a flag
    "steps": Option(or_none(COUNT_OR_ZERO), "Number of updates.", read=int, metavar="N"),
    "batch_size": Option(or_none(COUNT), "Rows per update.", read=int, metavar="N"),
    "learning_rate": Option(_RATE, "Learning rate of Adam.", read=float, metavar="X"),
    "passes": Option(COUNT_OR_ZERO),
    "block_rows": Option(or_none(COUNT)),
    "optimizer": Option(_OPTIMIZER),
    "final_learning_rate": Option(or_none(POSITIVE)),
    "parameterization": Option(choice("theta", "log")),
    "smoothing": Option(NOT_NEGATIVE),
    "seed": Option(_ANY),
    "evaluate_every": Option(COUNT_OR_ZERO),
    "callbacks": Option(_ANY),
    "checkpoint": Option(or_none(PATH)),
    "checkpoint_every": Option(NOT_NEGATIVE),
    "resume": Option(FLAG),
    "time_limit": Option(or_none(POSITIVE)),
    "progress": Option(_PROGRESS),
    # what is learned
    "n_components": Option(
        or_none(COUNT_OR_AUTO),
        "Number of causes (factors, features) or topics, or auto (factors).  [default: auto]",
        ("factors", "topics", "features"),
        _read_count,
        "K",
    ),
    "objective": Option(
        choice("auto", "mdl", "likelihood", "hamming"),
        "Factors: minimum description length, likelihood of rows or fewest wrong entries.  "
        "[default: auto, mdl or likelihood by a quick test]",
        ("factors",),
    ),
    "n_layers": Option(
        count(2), "Topics: layers, words included.  [default: 3]", ("topics",), int, "N"
    ),
    "feature_shape": Option(_SHAPE, "Features: their size.", ("features",), _read_shape, "H,W"),
}
"""All settings of a fit, by name: one table for `TrainOptions`, estimators and command line."""
