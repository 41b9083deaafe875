"""Two-phase training: max-product first, then mean-field from the parameters it found."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any

from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidSettingError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.mean_field import MeanField
from noisyor.learning.train import Callback, TrainingResult, train
from noisyor.network.graph import Network


@dataclass(frozen=True, eq=False)
class HybridResult:
    """The learned network and the two phases.

    Attributes
    ----------
    network : after the last phase that was run.
    max_product : result of the first phase.
    mean_field : result of the second, or None if a callback stopped the first.
    """

    network: Network
    max_product: TrainingResult
    mean_field: TrainingResult | None


def train_hybrid(
    network: Network,
    X: Any,
    *,
    mp_steps: int,
    vi_steps: int,
    max_product: MaxProduct | None = None,
    mean_field: MeanField | None = None,
    batch_size: int | None = 20,
    learning_rate: float = 1e-3,
    seed: int = 0,
    held_out: Any = None,
    evaluate_every: int = 0,
    callbacks: Iterable[Callback] = (),
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_every: float = 30.0,
    resume: bool = False,
    engine: EngineLike = "auto",
    progress: bool | None = None,
) -> HybridResult:
    """Learn with max-product, then go on with mean-field.

    Only the parameters are handed over: the second phase starts with a fresh optimiser, at the
    first minibatch of the same order of rows.

    Parameters
    ----------
    network, X, batch_size, learning_rate, seed, evaluate_every, engine, progress : as in
        `train`, for both phases.
    mp_steps, vi_steps : updates of each phase.
    max_product : how the first phase infers; default ``MaxProduct()``, the mode, as the paper does
        for text.
    mean_field : how the second does; default ``MeanField()``. The paper uses
        ``MeanField(local=True)`` for large text.
    held_out : data whose mean bound is recorded, Elbo^MP in the first phase, Elbo^VI in the second.
    callbacks : called after every step of both phases; returning True stops training.
    checkpoint : the phases write to this path with ``.mp`` and ``.vi`` appended.
    resume : continue from those files, in whichever phase training was; a phase that is finished is
        not run again.
    """
    if mp_steps < 0 or vi_steps < 0:
        raise InvalidSettingError(
            f"mp_steps and vi_steps must not be negative, got {mp_steps} and {vi_steps}"
        )
    if resume and checkpoint is None:
        raise InvalidSettingError("resume needs the checkpoint file to resume from")
    observations = Observations.of(X, n_visible=network.n_visible)
    callbacks = tuple(callbacks)

    def phase(start: Network, method: MaxProduct | MeanField, steps: int, name: str) -> Any:
        return train(
            start,
            observations,
            method,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            seed=seed,
            held_out=held_out,
            evaluate_every=evaluate_every,
            callbacks=callbacks,
            checkpoint=None if checkpoint is None else os.fspath(checkpoint) + name,
            checkpoint_every=checkpoint_every,
            resume=resume,
            engine=engine,
            progress=progress,
        )

    first: TrainingResult = phase(network, max_product or MaxProduct(), mp_steps, ".mp")
    if first.state.step < mp_steps:
        return HybridResult(first.network, first, None)
    second: TrainingResult = phase(first.network, mean_field or MeanField(), vi_steps, ".vi")
    return HybridResult(second.network, first, second)
