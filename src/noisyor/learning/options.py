"""The options of training, in one value that every function that trains understands."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from noisyor._util.options import OPTIONS
from noisyor._util.progress import Progress
from noisyor._util.validation import (
    check_seed,
    check_settings,
)
from noisyor.errors import InvalidSettingError
from noisyor.learning.state import Callback

__all__ = ["TrainOptions", "choose_options"]

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How to train. The defaults are the paper's.

    Functions that train also take single options by name: ``train(network, X, steps=100)``.

    Parameters
    ----------
    steps : number of updates in total; None for as many as ``passes`` take.
    passes : how often to go through all rows, if ``steps`` is None.
    batch_size : rows per update; None for all rows, or for a whole chunk in `train_stream`.
    block_rows : shuffle blocks of so many consecutive rows instead of single rows, if minibatches
        are shuffled at all; for rows that are read in runs. None shuffles single rows, as in the
        paper, and on a cluster blocks of 8,192; `train_stream` shuffles in a way of its own.
    learning_rate : of Adam.
    final_learning_rate : what the rate falls to, geometrically, at the last of the steps; None
        keeps it constant, as in the paper. Resuming for more steps changes the course then.
    parameterization : what Adam moves. ``"theta"``, as in the paper: all parameters move by the
        rate, which is much for those of rare columns. ``"log"``: their logarithms, so that at a
        rate of 0.01 each changes by one per cent, whether a column is on in half of the rows or in
        one of a thousand. For starts of the right size, see `start_from_counts`.
    smoothing : strength of a Beta prior on the parameters, in pseudo-rows, which prevents
        overfitting on small data; see `smoothing_prior`. 0, as in the paper, for none.
    seed : of the shuffling and of the perturbations.
    evaluate_every : steps between two evaluations of held-out rows; 0 for one at the end only.
    callbacks : called after every update with a `StepInfo`; returning True stops training.
    checkpoint : file that the state is written to, atomically, every ``checkpoint_every`` seconds,
        at the end, and on an interrupt.
    resume : continue from the checkpoint if the file exists. It must come from the same data,
        graph and settings; only ``steps``, ``passes`` and the engine's workers may differ.
    time_limit : seconds after which to stop, with what was found by then; None for no limit. In
        functions that search before they train it is the limit of both.
    progress : show a progress bar with the running bound; None shows it on a terminal or in a
        notebook only.

    Examples
    --------
    >>> import noisyor as nor
    >>> TrainOptions = nor.learning.TrainOptions
    >>> options = TrainOptions(steps=100, learning_rate=0.1, final_learning_rate=0.001)
    >>> round(options.rate(50), 6)
    0.01
    >>> TrainOptions(batch_size=0)
    Traceback (most recent call last):
    noisyor.errors.InvalidSettingError: batch_size must be 1, 2, … or None, got 0
    """

    steps: int | None = None
    passes: int = 1
    batch_size: int | None = 20
    block_rows: int | None = None
    learning_rate: float = 1e-3
    final_learning_rate: float | None = None
    parameterization: Literal["theta", "log"] = "theta"
    smoothing: float = 0.0
    seed: int = 0
    evaluate_every: int = 0
    callbacks: Iterable[Callback] = ()
    checkpoint: PathLike | None = None
    checkpoint_every: float = 30.0
    resume: bool = False
    time_limit: float | None = None
    progress: Progress = None

    def __post_init__(self) -> None:
        check_settings(self, {name: OPTIONS[name].rule for name in _NAMES})
        check_seed(self.seed)
        given = self.callbacks
        calls = tuple(given) if isinstance(given, Iterable) else (None,)
        if not all(map(callable, calls)):
            raise InvalidSettingError(f"callbacks must be a list of functions, got {given!r}")
        object.__setattr__(self, "callbacks", calls)
        if self.resume and self.checkpoint is None:
            raise InvalidSettingError("resume needs the checkpoint file to resume from")

    def rate(self, step: int) -> float:
        """Return the learning rate after a number of steps."""
        if self.final_learning_rate is None:
            return self.learning_rate
        if self.steps is None:
            raise InvalidSettingError(
                "final_learning_rate needs the number of steps at which it is reached: give steps"
            )
        decay = (self.final_learning_rate / self.learning_rate) ** (1.0 / max(self.steps, 1))
        return float(self.learning_rate * decay**step)

    def run_key(self) -> dict[str, object]:
        """Return all that determines a run, step by step: what a resumed run must share."""
        final = self.final_learning_rate
        return {
            "batch_size": None if self.batch_size is None else int(self.batch_size),
            "learning_rate": float(self.learning_rate),
            "final_learning_rate": None if final is None else float(final),
            "parameterization": self.parameterization,
            "smoothing": float(self.smoothing),
            "seed": int(self.seed),
            "evaluate_every": int(self.evaluate_every),
            **({} if self.block_rows is None else {"block_rows": int(self.block_rows)}),
        }

    def record(self) -> dict[str, Any]:
        """Return the options for a model file: the essential ones, and others if unusual."""
        names = ["steps", "batch_size", "learning_rate", "seed"]
        unusual = ("smoothing", "final_learning_rate", "parameterization")
        names += [name for name in unusual if getattr(self, name) != getattr(_PAPER, name)]
        return {name: getattr(self, name) for name in names}


_NAMES = tuple(field.name for field in fields(TrainOptions))
_PAPER = TrainOptions()


def choose_options(
    options: TrainOptions | None,
    changes: Mapping[str, Any],
    defaults: TrainOptions = _PAPER,
    also: Iterable[str] = (),
) -> TrainOptions:
    """Return the options given, or the defaults, with some of them changed by name.

    Parameters
    ----------
    options : taken as they are; None for ``defaults``.
    changes : new values by name. A name that no option has is refused.
    defaults : of the function that calls this.
    also : further names that the function knows, for the suggestion in the error.

    Examples
    --------
    >>> choose_options(None, {"steps": 5}).steps
    5
    >>> choose_options(None, {"setps": 5})
    Traceback (most recent call last):
    noisyor.errors.InvalidSettingError: there is no option 'setps'; did you mean 'steps'?
    """
    if not isinstance(options, TrainOptions | None):
        raise InvalidSettingError(
            f"options must be TrainOptions or None, got {type(options).__name__}"
        )
    for name in changes:
        if name not in _NAMES:
            known = (*_NAMES, *also)
            alike = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {alike[0]!r}?" if alike else f"there are {', '.join(known)}"
            raise InvalidSettingError(f"there is no option {name!r}; {hint}")
    chosen = defaults if options is None else options
    return replace(chosen, **changes) if changes else chosen
