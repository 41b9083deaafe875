"""Training in phases with different methods, such as max-product, then mean-field."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from noisyor._util.arrays import FloatArray
from noisyor._util.validation import COUNT_OR_ZERO
from noisyor.engines.contract import EngineLike
from noisyor.errors import CheckpointError, InvalidSettingError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.mean_field import MeanField
from noisyor.inference.method import Method
from noisyor.learning.state import (
    Callback,
    History,
    TrainingResult,
    TrainOptions,
    check_place,
    choose_options,
)
from noisyor.learning.train import train
from noisyor.model.network import Network, network_of


class Phase(NamedTuple):
    """Updates by one method.

    ``suffix`` is appended to the checkpoint path that all phases share; default a dot and the name
    of the phase.
    """

    name: str
    method: Method
    steps: int
    suffix: str | None = None


@dataclass(frozen=True, eq=False)
class PhasedRun:
    """Result of training in phases.

    ``phases`` are the requested phases; ``results`` holds the results of the phases that were run,
    in order: all of them unless a callback stopped one. ``run["mp"]`` is the result of the phase
    with that name.
    """

    phases: tuple[Phase, ...]
    results: tuple[TrainingResult, ...]

    def __getitem__(self, name: str) -> TrainingResult:
        for phase, result in zip(self.phases, self.results, strict=False):
            if phase.name == name:
                return result
        raise KeyError(name)

    def __contains__(self, name: str) -> bool:
        return name in [phase.name for phase in self.phases[: len(self.results)]]

    @property
    def network(self) -> Network:
        """The network after the last phase that was run."""
        return self.results[-1].network

    @property
    def history(self) -> History:
        """The record of all phases that were run, one after another."""
        joined = History()
        for result in self.results:
            joined = joined.followed_by(result.history)
        return joined

    @property
    def update_seconds(self) -> tuple[FloatArray, ...]:
        """Wall time of every update, (steps,) for each phase."""
        return tuple(result.history.seconds for result in self.results)

    @property
    def earlier_seconds(self) -> float:
        """Wall time of the updates that were done before the run was resumed."""
        return sum(
            (float(each.history.seconds[: each.resumed_at].sum()) for each in self.results), 0.0
        )


def train_phases(
    network: Network,
    X: Any,
    phases: Sequence[Phase],
    options: TrainOptions | None = None,
    *,
    held_out: Any = None,
    on_bad_checkpoint: Literal["raise", "restart"] = "raise",
    engine: EngineLike = "auto",
    **changes: Any,
) -> PhasedRun:
    """Train by several methods, one after another.

    Every phase starts from the parameters of the phase before, with a fresh optimizer and the same
    order of rows.

    Parameters
    ----------
    network, X, held_out, engine : see `train`.
    phases : at least one, each with its number of steps.
    options, changes : options of all phases; the phases set ``steps`` and ``passes``. Every phase
        writes to the path ``checkpoint`` with its own suffix. With ``resume`` training continues in
        the phase that was interrupted; finished phases are not run again. A callback that stops a
        phase stops the run.
    on_bad_checkpoint : whether a checkpoint that is damaged or belongs to another run is an error,
        or is discarded and its phase restarted.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(n_visible=2, n_hidden=1)
    >>> rough = nor.learning.Phase("rough", nor.MaxProduct(), 3)
    >>> fine = nor.learning.Phase("fine", nor.MeanField(), 2)
    >>> run = nor.learning.train_phases(network, np.eye(2), [rough, fine], progress=False)
    >>> [result.state.step for result in run.results]
    [3, 2]
    """
    options = choose_options(options, changes)
    if changes.keys() & {"steps", "passes"} or not phases:
        raise InvalidSettingError("training in phases needs phases, and steps for each of them")
    for phase in phases:
        if not isinstance(phase, Phase):
            raise InvalidSettingError(f"expected Phase(name, method, steps), got {phase!r}")
        COUNT_OR_ZERO.check("steps", phase.steps)
        if on_bad_checkpoint == "raise":
            check_place(_options_of(options, phase, 0).checkpoint)
    network = network_of(network)
    rows, earlier = network.rows_of(X), 0
    results: list[TrainingResult] = []
    for phase in phases:
        own = _options_of(options, phase, earlier)
        learn = partial(train, network, rows, phase.method, own, held_out=held_out, engine=engine)
        try:
            results.append(learn())
        except CheckpointError:
            if on_bad_checkpoint == "raise" or own.checkpoint is None:
                raise
            Path(own.checkpoint).unlink(missing_ok=True)
            results.append(learn())
        network, earlier = results[-1].network, earlier + phase.steps
        if results[-1].state.step < phase.steps:
            break
    return PhasedRun(tuple(phases), tuple(results))


def _options_of(options: TrainOptions, phase: Phase, earlier_steps: int) -> TrainOptions:
    path = options.checkpoint
    if path is not None:
        path = os.fspath(path) + (f".{phase.name}" if phase.suffix is None else phase.suffix)

    def after(callback: Callback) -> Callback:
        return lambda info: callback(info._replace(earlier_steps=earlier_steps))

    calls = [after(callback) for callback in options.callbacks]
    return replace(options, steps=phase.steps, checkpoint=path, callbacks=calls)


def train_hybrid(
    network: Network,
    X: Any,
    *,
    mp_steps: int,
    vi_steps: int,
    max_product: MaxProduct | None = None,
    mean_field: MeanField | None = None,
    options: TrainOptions | None = None,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Any,
) -> PhasedRun:
    """Learn with max-product, then continue with mean-field from the learned parameters.

    Parameters
    ----------
    network, X, options, engine, changes : see `train_phases`. The phases, and the suffixes of
        their checkpoints, are ``"mp"`` and ``"vi"``.
    mp_steps, vi_steps : updates of each phase.
    max_product : how the first phase infers; default ``MaxProduct()``, the mode, as the paper does
        for text.
    mean_field : how the second phase infers; default ``MeanField()``. The paper uses
        ``MeanField(local=True)`` for large text.
    held_out : data whose mean bound is recorded, Elbo^MP in the first phase, Elbo^VI in the second.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(n_visible=2, n_hidden=1)
    >>> run = nor.learning.train_hybrid(
    ...     network, np.eye(2), mp_steps=3, vi_steps=2, progress=False
    ... )
    >>> run["mp"].state.step, run["vi"].state.step
    (3, 2)
    """
    phases = [
        Phase("mp", max_product or MaxProduct(), mp_steps),
        Phase("vi", mean_field or MeanField(), vi_steps),
    ]
    return train_phases(network, X, phases, options, held_out=held_out, engine=engine, **changes)
