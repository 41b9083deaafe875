"""The table of settings of a fit, which training, estimators and command line share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from noisyor._util.progress import Job
from noisyor._util.validation import (
    COUNT,
    COUNT_OR_AUTO,
    COUNT_OR_ZERO,
    FLAG,
    NOT_NEGATIVE,
    PATH,
    POSITIVE,
    TEXT,
    Rule,
    choice,
    count,
    or_none,
)

__all__ = ["OPTIONS", "Option"]


class Option(NamedTuple):
    """One setting of a fit.

    Attributes
    ----------
    rule : which values are valid.
    help : one sentence for the command line.
    kinds : kinds of model that have the setting.
    read : turns the text of the command line into a value.
    metavar : what stands for the value in the help.
    """

    rule: Rule
    help: str
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

OPTIONS: dict[str, Option] = {
    # how a model is trained: the fields of `TrainOptions`
    "steps": Option(or_none(COUNT_OR_ZERO), "Number of updates.", read=int, metavar="N"),
    "passes": Option(COUNT_OR_ZERO, "Passes over the rows, without steps.", read=int, metavar="N"),
    "batch_size": Option(or_none(COUNT), "Rows per update.", read=int, metavar="N"),
    "block_rows": Option(or_none(COUNT), "Rows shuffled together.", read=int, metavar="N"),
    "learning_rate": Option(POSITIVE, "Learning rate of Adam.", read=float, metavar="X"),
    "final_learning_rate": Option(
        or_none(POSITIVE), "Learning rate at the last update.", read=float, metavar="X"
    ),
    "parameterization": Option(choice("theta", "log"), "What Adam moves."),
    "smoothing": Option(NOT_NEGATIVE, "Pseudo-rows of the prior.", read=float, metavar="X"),
    "seed": Option(_ANY, "Seed; the same seed gives the same result.", read=int, metavar="N"),
    "evaluate_every": Option(COUNT_OR_ZERO, "Updates between evaluations.", read=int, metavar="N"),
    "callbacks": Option(_ANY, "Functions called after every update."),
    "checkpoint": Option(or_none(PATH), "File for the state of the run.", metavar="FILE"),
    "checkpoint_every": Option(NOT_NEGATIVE, "Seconds between checkpoints.", read=float),
    "resume": Option(FLAG, "Continue from the checkpoint."),
    "time_limit": Option(
        or_none(POSITIVE), "Write the best model found by then.", read=float, metavar="SECONDS"
    ),
    "progress": Option(_PROGRESS, "Show a progress bar."),
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
    "init": Option(
        or_none(TEXT),
        "Where training starts, such as data or paper-3.",
        ("factors", "topics", "features"),
    ),
}
"""All settings of a fit, by name: one table for `TrainOptions`, estimators and command line."""
