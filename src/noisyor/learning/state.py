"""What changes in training, what is recorded of it, and both as a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor.engines.contract import WarmState
from noisyor.learning.checkpoint import Checkpoint
from noisyor.model.network import Network

__all__ = [
    "AdamState",
    "Callback",
    "Evaluation",
    "History",
    "Recorder",
    "StepInfo",
    "TrainingResult",
    "TrainingState",
    "adam_update",
    "capture",
    "restore",
    "start_adam",
]

_CURVE_POINTS = 400


_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8


class AdamState(NamedTuple):
    """Moments of the gradient, each (n_params,), and the number of updates so far."""

    updates: int
    first: FloatArray
    second: FloatArray


def start_adam(n_params: int) -> AdamState:
    """Return the optimizer state before the first update.

    >>> start_adam(3).updates
    0
    """
    return AdamState(0, np.zeros(n_params), np.zeros(n_params))


def adam_update(
    state: AdamState, gradient: FloatArray, learning_rate: float
) -> tuple[AdamState, FloatArray]:
    """Return the new state of Adam (Kingma and Ba, 2015) and the step to add, (n_params,).

    The first step is the rate in the direction of the gradient.

    >>> state, step = adam_update(start_adam(2), np.array([0.3, -5.0]), 0.1)
    >>> step.round(6)
    array([ 0.1, -0.1])
    """
    updates = state.updates + 1
    first = _BETA_1 * state.first + (1 - _BETA_1) * gradient
    second = _BETA_2 * state.second + (1 - _BETA_2) * gradient**2
    size = learning_rate / (1 - _BETA_1**updates)
    step = size * first / (np.sqrt(second / (1 - _BETA_2**updates)) + _EPSILON)
    return AdamState(updates, first, second), step


class TrainingState(NamedTuple):
    """All that changes from step to step; a value, never changed in place.

    ``theta`` (n_params,) parameters; ``optimizer`` moments of Adam; ``warm`` where inference of a
    minibatch may start the next time, by the key of the minibatch: empty unless the method keeps
    something, as ``MeanField(warm_start=True)`` does. Checkpoints leave ``warm`` out.

    Examples
    --------
    >>> import noisyor as nor
    >>> state = nor.learning.init(nor.bipartite(n_visible=3, n_hidden=2))
    >>> state.step, state.theta.shape, state.warm
    (0, (9,), {})
    """

    step: int
    theta: FloatArray
    optimizer: AdamState
    warm: Mapping[Hashable, WarmState] = {}


class Evaluation(NamedTuple):
    """Mean held-out bound after a number of steps.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.learning.Evaluation(step=100, elbo=-8.5).elbo
    -8.5
    """

    step: int
    elbo: float


@dataclass(frozen=True)
class History:
    """What training recorded.

    ``elbo`` (steps,) mean bound of each minibatch before its update, rows counted by their weights;
    ``seconds`` (steps,) wall time of each update; ``evaluations`` the held-out bounds;
    ``forgotten`` how many updates came before the first that is kept, see `recent`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> held_out = nor.learning.Evaluation(step=2, elbo=-8.0)
    >>> history = nor.learning.History(elbo=np.array([-9.0, -7.0]), evaluations=(held_out,))
    >>> history.curve()["elbo"], history.curve()["held_out_elbo"]
    ([-9.0, -7.0], [-8.0])
    """

    elbo: FloatArray = field(default_factory=lambda: np.empty(0))
    seconds: FloatArray = field(default_factory=lambda: np.empty(0))
    evaluations: tuple[Evaluation, ...] = ()
    forgotten: int = 0

    @property
    def n_steps(self) -> int:
        """Number of updates, those included whose record was forgotten."""
        return self.forgotten + len(self.elbo)

    def curve(self) -> dict[str, list[float]]:
        """Return a few hundred means of the bounds, and the held-out bounds, as lists."""
        edges = np.unique(np.linspace(0, len(self.elbo), _CURVE_POINTS + 1).astype(int))
        return {
            "step": (self.forgotten + edges[1:]).tolist(),
            "elbo": [float(self.elbo[a:b].mean()) for a, b in pairwise(edges)],
            "held_out_step": [int(point.step) for point in self.evaluations],
            "held_out_elbo": [float(point.elbo) for point in self.evaluations],
        }

    def followed_by(self, later: History) -> History:
        """Return the record of a run followed by that of its continuation."""
        return History(
            np.concatenate([self.elbo, later.elbo]),
            np.concatenate([self.seconds, later.seconds]),
            self.evaluations + later.evaluations,
            self.forgotten + later.forgotten,
        )

    def recent(self, most: int) -> History:
        """Return the record of the last updates only, so that endless runs stay small."""
        surplus = len(self.elbo) - most
        if surplus <= 0:
            return self
        forgotten = self.forgotten + surplus
        kept = tuple(point for point in self.evaluations if point.step > forgotten)
        return History(self.elbo[-most:], self.seconds[-most:], kept, forgotten)


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """The learned network, the final state (to go on from) and the record of the run.

    ``resumed_at`` is the step of the checkpoint that the run went on from, 0 if it began anew.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(n_visible=2, n_hidden=1)
    >>> result = nor.train(network, np.eye(2), steps=3, progress=False)
    >>> result.state.step, result.history.elbo.shape, result.resumed_at
    (3, (3,), 0)
    """

    network: Network
    state: TrainingState
    history: History
    resumed_at: int = 0


class StepInfo(NamedTuple):
    """What a callback gets after a step.

    ``state`` the new state; ``elbo`` the mean bound of the minibatch before the update; ``network``
    with the new parameters; ``earlier_steps`` those of the phases before this one, see
    `train_phases`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network, seen = nor.bipartite(n_visible=2, n_hidden=1), []
    >>> result = nor.train(network, np.eye(2), steps=3, callbacks=[seen.append], progress=False)
    >>> [info.state.step for info in seen]
    [1, 2, 3]
    """

    state: TrainingState
    elbo: float
    network: Network
    earlier_steps: int = 0


Callback = Callable[[StepInfo], bool | None]
"""Called after every update; returning True stops training."""


class Recorder:
    """Collects the history without copying it at every step.

    >>> recorder = Recorder(History())
    >>> recorder.add(elbo=-3.0, seconds=0.1)
    >>> recorder.history(steps=1).elbo
    array([-3.])
    """

    def __init__(self, history: History) -> None:
        self.elbo = history.elbo.tolist()
        self.seconds = history.seconds.tolist()
        self.evaluations = list(history.evaluations)
        self.running: float | None = None

    def add(self, elbo: float, seconds: float) -> None:
        """Record an update: the mean bound of its minibatch, and how long it took."""
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

    def history(self, steps: int) -> History:
        """Return the record of the first steps, without what an interrupted step left."""
        known = tuple(each for each in self.evaluations if each.step <= steps)
        return History(np.array(self.elbo[:steps]), np.array(self.seconds[:steps]), known)


def capture(state: TrainingState, history: History, identity: str) -> Checkpoint:
    """Return the state and record of a run as a checkpoint of the run ``identity``.

    >>> capture(TrainingState(3, np.ones(2), start_adam(2)), History(), identity="run").step
    3
    """
    return Checkpoint(
        identity=identity,
        step=state.step,
        arrays={
            "theta": state.theta,
            "adam_first": state.optimizer.first,
            "adam_second": state.optimizer.second,
            "elbo": history.elbo,
            "seconds": history.seconds,
            "evaluation_step": np.array([e.step for e in history.evaluations], dtype=np.int64),
            "evaluation_elbo": np.array([e.elbo for e in history.evaluations], dtype=np.float64),
        },
    )


def restore(saved: Checkpoint) -> tuple[TrainingState, History]:
    """Return the state and record of a run from its checkpoint.

    >>> state = TrainingState(3, np.ones(2), start_adam(2))
    >>> again, history = restore(capture(state, History(), identity="run"))
    >>> again.step, again.theta.tolist()
    (3, [1.0, 1.0])
    """
    arrays = saved.arrays
    optimizer = AdamState(saved.step, arrays["adam_first"], arrays["adam_second"])
    evaluations = tuple(
        Evaluation(int(number), float(elbo))
        for number, elbo in zip(arrays["evaluation_step"], arrays["evaluation_elbo"], strict=True)
    )
    history = History(arrays["elbo"], arrays["seconds"], evaluations)
    return TrainingState(saved.step, arrays["theta"], optimizer), history
