"""Algorithm 1 of the paper: minibatch, inference, gradient, Adam, clip.

`train` is a loop around the pure function `step`; the progress bar, the callbacks and the
checkpoint see the state but never look inside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.progress import progress_bar
from noisyor._util.validation import check_seed
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidSettingError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.method import Method
from noisyor.learning import adam
from noisyor.learning.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from noisyor.network.graph import Network
from noisyor.network.parameters import THETA_MIN

EDGE_ROWS, EDGE_SHARE = 0.1, 0.1
"""Prior of an edge: rows for each row of smoothing, and the share in which the cause succeeds."""

_CURVE_POINTS = 400


class TrainingState(NamedTuple):
    """All that changes from step to step: parameters (n_params,) and the optimiser's moments."""

    step: int
    theta: FloatArray
    optimiser: adam.AdamState


class Evaluation(NamedTuple):
    """Mean held-out bound after a number of steps."""

    step: int
    elbo: float


@dataclass(frozen=True)
class History:
    """What training recorded.

    ``elbo`` (steps,) mean bound of each minibatch before its update; ``evaluations`` the held-out
    ones; ``seconds`` (steps,) wall time of each update.
    """

    elbo: FloatArray = field(default_factory=lambda: np.empty(0))
    seconds: FloatArray = field(default_factory=lambda: np.empty(0))
    evaluations: tuple[Evaluation, ...] = ()

    def curve(self) -> dict[str, list[float]]:
        """Bounds in a few hundred means, and the held-out bounds: plain lists for a file."""
        edges = np.unique(np.linspace(0, len(self.elbo), _CURVE_POINTS + 1).astype(int))
        return {
            "step": edges[1:].tolist(),
            "elbo": [float(self.elbo[a:b].mean()) for a, b in pairwise(edges)],
            "held_out_step": [int(point.step) for point in self.evaluations],
            "held_out_elbo": [float(point.elbo) for point in self.evaluations],
        }


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """The learned network, the final state (to go on from) and the record of the run."""

    network: Network
    state: TrainingState
    history: History


class Pull(NamedTuple):
    """Prior on the parameters, (n_params,) each: rows seen beforehand in which a parameter's edge
    or leak switched its node on, and in which it did not, as shares of the training rows.
    """

    on: FloatArray
    off: FloatArray


class StepInfo(NamedTuple):
    """What a callback is told after a step: the new state, its batch bound, the network so far."""

    state: TrainingState
    elbo: float
    network: Network


Callback = Callable[[StepInfo], bool | None]


def init(network: Network) -> TrainingState:
    """State before the first step; parameters below the floor are lifted to it."""
    return TrainingState(0, np.maximum(network.theta, THETA_MIN), adam.init(network.n_params))


def step(
    state: TrainingState,
    network: Network,
    batch: Observations,
    method: Method,
    *,
    learning_rate: float,
    seed: int,
    engine: EngineLike,
    pull: Pull | None = None,
    relative: bool = False,
) -> tuple[TrainingState, float]:
    """One update from one minibatch: the new state and the batch's mean bound before it.

    ``pull`` is the prior on the parameters, if there is one; ``relative`` as in `train`.
    """
    current = network.with_theta(state.theta)
    total = method.gradient(current, batch, seed=seed, step=state.step, engine=engine).total
    value, gradient = total.value / total.weight, total.gradient / total.weight
    if pull is not None:
        gradient = gradient + pull.on / np.expm1(state.theta) - pull.off
    if relative:
        gradient = gradient * state.theta  # with respect to log theta
    optimiser, ascent = adam.update(state.optimiser, gradient, learning_rate)
    theta = state.theta * np.exp(ascent) if relative else state.theta + ascent
    theta = np.where(network.free, np.maximum(theta, THETA_MIN), state.theta)
    return TrainingState(state.step + 1, theta, optimiser), value


def smoothing_pull(network: Network, smoothing: float, n_rows: int) -> Pull | None:
    """Prior that is worth ``smoothing`` rows, per training row; None for none.

    Of a leak: so many further rows in which the node came on by itself and as many in which it did
    not. Of an edge: a tenth of that in which the cause was on, and failed in nine cases of ten.
    Without them a cause claims every column that was on, for whatever reason, in each of its rows.
    """
    if not smoothing:
        return None
    roles, rows = network.roles, smoothing / n_rows
    edge = roles == "failure"
    on = np.where(edge, EDGE_ROWS * EDGE_SHARE * rows, rows)
    off = np.where(edge, EDGE_ROWS * (1.0 - EDGE_SHARE) * rows, rows)
    used = roles != "unused"
    return Pull(on * used, off * used)


def train(
    network: Network,
    X: Any,
    method: Method | None = None,
    *,
    steps: int,
    batch_size: int | None = 20,
    learning_rate: float = 1e-3,
    final_learning_rate: float | None = None,
    relative: bool = False,
    smoothing: float = 0.0,
    seed: int = 0,
    held_out: Any = None,
    evaluate_every: int = 0,
    callbacks: Iterable[Callback] = (),
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_every: float = 30.0,
    resume: bool = False,
    engine: EngineLike = "auto",
    progress: bool | None = None,
) -> TrainingResult:
    """Learn the free parameters of a network from binary data.

    Rows are shuffled once by the seed; the batch of step t is the contiguous slice number
    ``t mod ceil(n_rows / batch_size)`` of them. The same arguments give the same bits, whatever
    the number of threads, and across a stop and resume.

    Parameters
    ----------
    network : graph and starting parameters, see `initialize`.
    X : training data in any form that `Observations.of` takes.
    method : how causes are inferred; default ``MaxProduct(temperature=1.0)``.
    steps : number of updates in total.
    batch_size : rows per update; None for all.
    learning_rate : of Adam.
    final_learning_rate : what the rate falls to, geometrically, at the last of the steps; by
        default it stays as it is, as in the paper. Resuming for more steps changes the course then.
    relative : the steps of Adam are those of the parameters' logarithms: at a rate of 0.01 they
        change by one per cent each, whether a column is on in half of the rows or in one of a
        thousand. For starts that are of the right size, see `start_from_counts`. False, as in the
        paper: all parameters move by the rate, and those of rare columns hardly come to rest.
    smoothing : rows seen beforehand in which nothing was certain, against fitting small data to
        the last bit, see `smoothing_pull`; 0, as in the paper, for none.
    seed : of the shuffling and of the perturbations.
    held_out : data whose mean bound is recorded every ``evaluate_every`` steps and at the end.
    callbacks : called after every step with a `StepInfo`; returning True stops training.
    checkpoint : file that the state is written to, atomically, every ``checkpoint_every`` seconds,
        at the end, and on an interrupt.
    resume : continue from the checkpoint if the file exists. It must come from the same data,
        graph and settings; only ``steps`` and the number of threads may differ.
    engine : as in `explain`.
    progress : show a progress bar with the running bound; None shows it on a terminal only.
    """
    method = MaxProduct(temperature=1.0) if method is None else method
    observations = Observations.of(X, n_visible=network.n_visible)
    held_out = None if held_out is None else Observations.of(held_out, network.n_visible)
    settings = check_settings(steps, batch_size, learning_rate, seed, evaluate_every, resume)
    if not (np.isfinite(smoothing) and smoothing >= 0):
        raise InvalidSettingError(f"smoothing must not be negative, got {smoothing}")
    if final_learning_rate is not None and not 0 < final_learning_rate < np.inf:
        raise InvalidSettingError(
            f"final_learning_rate must be positive, got {final_learning_rate}"
        )
    decay = 1.0
    if final_learning_rate is not None:
        settings["final_learning_rate"] = float(final_learning_rate)
        decay = (final_learning_rate / learning_rate) ** (1.0 / max(steps, 1))
    if smoothing:  # left out otherwise, so that older checkpoints stay valid
        settings["smoothing"] = float(smoothing)
    if relative:
        settings["relative"] = True
    pull = smoothing_pull(network, smoothing, observations.n_rows)
    if resume and checkpoint is None:
        raise InvalidSettingError("resume needs the checkpoint file to resume from")
    engine = get_engine(engine)
    batch_size = min(batch_size or observations.n_rows, observations.n_rows)
    n_batches = -(-observations.n_rows // batch_size)

    state, history = init(network), History()
    identity = ""
    if checkpoint is not None:
        record = {**settings, "method": method.settings(), "batch_size": batch_size}
        identity = Checkpoint.identity_of(network, observations, held_out, record)
        if resume:
            found = load_checkpoint(checkpoint, identity)
            if found is not None:
                state, history = restore(found)
    shuffled = observations.shuffled(seed)
    recorder = Recorder(history)
    callbacks = tuple(callbacks)

    def save() -> None:
        if checkpoint is not None:
            save_checkpoint(checkpoint, capture(state, recorder.history(), identity))

    saved = time.monotonic()
    with progress_bar(steps, "train", "steps", progress) as bar:
        bar.update(state.step)
        try:
            while state.step < steps:
                began = time.perf_counter()
                number = state.step % n_batches
                batch = shuffled.take(slice(number * batch_size, (number + 1) * batch_size))
                state, value = step(
                    state,
                    network,
                    batch,
                    method,
                    learning_rate=learning_rate * decay**state.step,
                    seed=seed,
                    engine=engine,
                    pull=pull,
                    relative=relative,
                )
                recorder.add(value, time.perf_counter() - began)
                current = network.with_theta(state.theta)
                last = state.step == steps
                if held_out is not None and (
                    last or (evaluate_every and state.step % evaluate_every == 0)
                ):
                    bound = method.bounds(current, held_out, engine=engine).elbo
                    recorder.evaluations.append(Evaluation(state.step, held_out.mean(bound)))
                bar.update(1)
                recorder.show(bar, refresh=last)
                stop = [callback(StepInfo(state, value, current)) for callback in callbacks]
                if any(stop):
                    break
                if time.monotonic() - saved >= checkpoint_every:
                    save()
                    saved = time.monotonic()
        finally:  # also on an interrupt: the state is always that of a whole step
            save()
    return TrainingResult(network.with_theta(state.theta), state, recorder.history())


class Recorder:
    """Collects the history without copying it at every step."""

    def __init__(self, history: History) -> None:
        self.elbo = history.elbo.tolist()
        self.seconds = history.seconds.tolist()
        self.evaluations = list(history.evaluations)
        self.running: float | None = None

    def add(self, elbo: float, seconds: float) -> None:
        """Record an update: the bound of its batch, and how long it took."""
        self.elbo.append(elbo)
        self.seconds.append(seconds)
        self.running = elbo if self.running is None else 0.98 * self.running + 0.02 * elbo

    def show(self, bar: Any, refresh: bool) -> None:
        """Put the running bound, and the last held-out one, beside a progress bar."""
        if bar.disable or self.running is None:
            return
        shown = {"elbo": f"{self.running:.3f}"}
        if self.evaluations:
            shown["held out"] = f"{self.evaluations[-1].elbo:.3f}"
        bar.set_postfix(shown, refresh=refresh)

    def history(self) -> History:
        """The record so far."""
        return History(np.array(self.elbo), np.array(self.seconds), tuple(self.evaluations))


def check_settings(
    steps: int,
    batch_size: int | None,
    learning_rate: float,
    seed: int,
    evaluate_every: int,
    resume: bool,
) -> dict[str, object]:
    """Refuse what makes no sense; the settings that a checkpoint must agree on."""
    if steps < 0:
        raise InvalidSettingError(f"steps must not be negative, got {steps}")
    if batch_size is not None and batch_size < 1:
        raise InvalidSettingError(f"batch_size must be at least 1 or None, got {batch_size}")
    if not (np.isfinite(learning_rate) and learning_rate > 0):
        raise InvalidSettingError(f"learning_rate must be positive, got {learning_rate}")
    if evaluate_every < 0:
        raise InvalidSettingError(f"evaluate_every must not be negative, got {evaluate_every}")
    return {
        "learning_rate": float(learning_rate),
        "seed": check_seed(seed),
        "evaluate_every": int(evaluate_every),
    }


def capture(state: TrainingState, history: History, identity: str) -> Checkpoint:
    """State and record of a run as a checkpoint."""
    return Checkpoint(
        identity=identity,
        step=state.step,
        arrays={
            "theta": state.theta,
            "adam_first": state.optimiser.first,
            "adam_second": state.optimiser.second,
            "elbo": history.elbo,
            "seconds": history.seconds,
            "evaluation_step": np.array([e.step for e in history.evaluations], dtype=np.int64),
            "evaluation_elbo": np.array([e.elbo for e in history.evaluations], dtype=np.float64),
        },
    )


def restore(saved: Checkpoint) -> tuple[TrainingState, History]:
    """State and record of a run from its checkpoint."""
    arrays = saved.arrays
    optimiser = adam.AdamState(saved.step, arrays["adam_first"], arrays["adam_second"])
    evaluations = tuple(
        Evaluation(int(number), float(elbo))
        for number, elbo in zip(arrays["evaluation_step"], arrays["evaluation_elbo"], strict=True)
    )
    history = History(arrays["elbo"], arrays["seconds"], evaluations)
    return TrainingState(saved.step, arrays["theta"], optimiser), history


__all__ = [
    "Evaluation",
    "History",
    "Pull",
    "Recorder",
    "StepInfo",
    "TrainingResult",
    "TrainingState",
    "capture",
    "check_settings",
    "init",
    "restore",
    "smoothing_pull",
    "step",
    "train",
]
