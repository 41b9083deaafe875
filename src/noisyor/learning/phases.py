"""Training in phases with different methods, such as max-product, then mean-field."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from noisyor._util.validation import COUNT_OR_ZERO
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidSettingError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.mean_field import MeanField
from noisyor.inference.method import Method
from noisyor.learning.state import (
    Callback,
    TrainingResult,
    TrainOptions,
    check_place,
    choose_options,
)
from noisyor.learning.train import train
from noisyor.model.network import Network, network_of


class Phase(NamedTuple):
    """Updates by one method; the name is the ending of the phase's checkpoint."""

    name: str
    method: Method
    steps: int


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


def train_phases(
    network: Network,
    X: Any,
    phases: Sequence[Phase],
    options: TrainOptions | None = None,
    *,
    held_out: Any = None,
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
        writes to the path ``checkpoint`` with a dot and its name appended. With ``resume`` training
        continues in the phase that was interrupted; finished phases are not run again. A callback
        that stops a phase stops the run.

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
        check_place(_options_of(options, phase, 0).checkpoint)
    network = network_of(network)
    rows, earlier = network.rows_of(X), 0
    results: list[TrainingResult] = []
    for phase in phases:
        own = _options_of(options, phase, earlier)
        result = train(network, rows, phase.method, own, held_out=held_out, engine=engine)
        results.append(result)
        network, earlier = result.network, earlier + phase.steps
        if result.state.step < phase.steps:
            break
    return PhasedRun(tuple(phases), tuple(results))


def _options_of(options: TrainOptions, phase: Phase, earlier_steps: int) -> TrainOptions:
    path = options.checkpoint
    if path is not None:
        path = f"{os.fspath(path)}.{phase.name}"

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
    network, X, options, engine, changes : see `train_phases`. The phases are ``"mp"`` and
        ``"vi"``.
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
