"""Training on rows in memory, by stochastic ascent of a bound on their log-likelihood.

An update has two halves. `gradient` sums over the rows of a minibatch and can be computed anywhere,
in parts that add up; `update` turns the sum into new parameters. `step` does both, and `train` does
many steps, with a record, checkpoints and a progress bar. All but `train` are pure functions of
their arguments.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from noisyor._util.progress import Job, TimeUpError, progress_bar
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike, GradientSum
from noisyor.engines.registry import get_engine
from noisyor.errors import CheckpointError, InvalidSettingError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.method import BatchGradient, Method
from noisyor.learning import adam
from noisyor.learning.checkpoint import (
    Checkpoint,
    check_place,
    load_checkpoint,
    save_checkpoint,
)
from noisyor.learning.options import TrainChanges, TrainOptions, choose_options
from noisyor.learning.priors import BetaPrior, smoothing_prior
from noisyor.learning.state import (
    Evaluation,
    History,
    Recorder,
    StepInfo,
    TrainingResult,
    TrainingState,
    capture,
    restore,
)
from noisyor.network.graph import Network
from noisyor.network.parameters import THETA_MAX, THETA_MIN

__all__ = ["Run", "gradient", "init", "step", "train", "update"]


def init(network: Network) -> TrainingState:
    """State before the first step; parameters below the floor are lifted to it.

    Examples
    --------
    >>> import noisyor as nor
    >>> state = nor.learning.init(nor.bipartite(n_visible=3, n_hidden=2))
    >>> state.step, state.theta.shape
    (0, (9,))
    """
    return TrainingState(0, np.maximum(network.theta, THETA_MIN), adam.init(network.n_params))


def gradient(
    state: TrainingState,
    network: Network,
    batch: Observations,
    method: Method,
    *,
    seed: int = 0,
    key: Hashable = None,
    engine: EngineLike = "auto",
) -> BatchGradient:
    """First half of an update: sums over the rows of a minibatch, at the parameters of the state.

    The ``total`` of the parts of a minibatch add up (`GradientSum.plus`) to that of the whole.

    Parameters
    ----------
    state : from `init`, or from the update before.
    network : the graph; its own parameters are not looked at.
    batch : rows.
    method : how hidden states are inferred.
    seed : of the perturbations.
    key : which minibatch this is, for methods that start from where they left it (``state.warm``);
        None if it does not come again.
    engine : as in `explain`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(n_visible=2, n_hidden=1)
    >>> rows, state = nor.Observations.of(np.eye(2)), nor.learning.init(network)
    >>> total = nor.learning.gradient(state, network, rows, nor.MaxProduct()).total
    >>> total.gradient.shape, total.weight
    ((4,), 2.0)
    """
    current = network.with_theta(state.theta)
    warm = state.warm.get(key)
    return method.gradient(current, batch, seed=seed, step=state.step, warm=warm, engine=engine)


def update(
    state: TrainingState,
    network: Network,
    total: GradientSum,
    options: TrainOptions | None = None,
    *,
    prior: BetaPrior | None = None,
    **changes: Unpack[TrainChanges],
) -> TrainingState:
    """Second half of an update: one step of Adam on the mean gradient of the rows.

    Parameters
    ----------
    state : the state at which the gradient was taken.
    network : tells which parameters are free.
    total : sum over the rows of the minibatch, from `gradient`.
    options : of these ``learning_rate``, ``final_learning_rate``, ``steps`` and ``step_on``.
    prior : of the parameters, see `smoothing_prior`.
    changes : single options by name.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(n_visible=2, n_hidden=1)
    >>> state = nor.learning.init(network)
    >>> total = nor.engines.GradientSum(value=-3.0, gradient=np.ones(4), weight=2.0)
    >>> moved = nor.learning.update(state, network, total, learning_rate=0.1)
    >>> (moved.theta - state.theta).round(6)
    array([0.1, 0.1, 0.1, 0.1])
    """
    options = choose_options(options, changes)
    ascent = total.gradient / total.weight
    if prior is not None:
        with np.errstate(over="ignore"):  # a quotient by infinity is 0, as it should be
            ascent = ascent + prior.on / np.expm1(state.theta) - prior.off
    logs = options.step_on == "log"
    if logs:
        ascent = ascent * state.theta  # chain rule: d theta / d log theta = theta
    optimizer, move = adam.update(state.optimizer, ascent, options.rate(state.step))
    with np.errstate(over="ignore"):  # what a rate that is far too large leads to is cut below
        theta = state.theta * np.exp(move) if logs else state.theta + move
    theta = np.where(network.free, np.clip(theta, THETA_MIN, THETA_MAX), state.theta)
    return state._replace(step=state.step + 1, theta=theta, optimizer=optimizer)


def step(
    state: TrainingState,
    network: Network,
    batch: Observations,
    method: Method,
    options: TrainOptions | None = None,
    *,
    prior: BetaPrior | None = None,
    key: Hashable = None,
    engine: EngineLike = "auto",
    **changes: Unpack[TrainChanges],
) -> tuple[TrainingState, float]:
    """One update from one minibatch: `gradient`, then `update`.

    Parameters
    ----------
    state, network, batch, method, key, engine : see `gradient`.
    options, prior, changes : see `update`; the ``seed`` of the options is that of the gradient.

    Returns
    -------
    The new state, and the mean bound of the minibatch before the update.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(n_visible=2, n_hidden=1)
    >>> rows, state = nor.Observations.of(np.eye(2)), nor.learning.init(network)
    >>> state, elbo = nor.learning.step(state, network, rows, nor.MaxProduct())
    >>> state.step, elbo < 0
    (1, True)
    """
    options = choose_options(options, changes)
    found = gradient(state, network, batch, method, seed=options.seed, key=key, engine=engine)
    after = update(state, network, found.total, options, prior=prior)
    if found.warm is not None and key is not None:
        after = after._replace(warm={**state.warm, key: found.warm})
    return after, found.total.value / found.total.weight


def train(
    network: Network,
    X: Any,
    method: Method | None = None,
    options: TrainOptions | None = None,
    *,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Unpack[TrainChanges],
) -> TrainingResult:
    """Learn the free parameters of a network from binary data.

    Rows are shuffled once by the seed; the minibatch of step t is the contiguous slice number
    ``t mod ceil(n_rows / batch_size)`` of them. The same arguments give the same bits, whatever
    the number of workers, and across a stop and resume (apart from ``MeanField(warm_start=True)``,
    which starts afresh when it resumes). A row of weight w counts as w rows. Where every update
    sees all rows and the method has no noise, rows that repeat are inferred once.

    Parameters
    ----------
    network : graph and starting parameters, see `initialize`.
    X : training data in any form that `Observations.of` takes.
    method : how hidden states are inferred; default ``MaxProduct(temperature=1.0)``.
    options : how to train; default ``TrainOptions()``.
    held_out : data whose mean bound is recorded every ``evaluate_every`` steps and at the end.
    engine : as in `explain`.
    changes : single options by name, such as ``steps=1000``; see `TrainOptions`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.initialize(nor.bipartite(n_visible=4, n_hidden=2), noise="uniform")
    >>> X = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]] * 10)
    >>> result = nor.train(network, X, steps=50, learning_rate=0.05, progress=False)
    >>> bool(result.history.elbo[-5:].mean() > result.history.elbo[:5].mean())
    True
    """
    options = choose_options(options, changes)
    observations = Observations.of(X, n_visible=network.n_visible)
    size = min(options.batch_size or observations.n_rows, observations.n_rows)
    n_batches = -(-observations.n_rows // size)
    steps = options.passes * n_batches if options.steps is None else options.steps
    options = replace(options, steps=steps, batch_size=size)
    run = Run(
        network,
        method,
        options,
        identified_by=lambda: observations,
        n_rows=observations.total_weight,
        held_out=held_out,
        engine=engine,
    )
    shuffled = observations.shuffled(options.seed)
    if n_batches == 1 and not run.method.has_noise:  # the same sums with less work
        shuffled, _ = shuffled.merged()
    job = Job.of(options.progress, ["train"], options.time_limit)
    with (
        progress_bar(steps, "train", "steps", job) as bar,
        run.kept(),
        suppress(TimeUpError),
    ):
        bar.update(run.state.step)
        while run.state.step < steps:
            number = run.state.step % n_batches
            batch = shuffled.take(slice(number * size, (number + 1) * size))
            if run.advance(batch, bar, 1, key=number):
                break
    return run.result()


class Run:
    """A run of training: its state and its record, and all that is due after an update.

    Parameters
    ----------
    network, method, held_out, engine : see `train`.
    options : with ``steps`` filled in, if the number is known.
    identified_by : gives the rows that a checkpoint must agree on.
    n_rows : training rows, counted by weight; None if unknown.
    settings : more of what a checkpoint must agree on.
    """

    def __init__(
        self,
        network: Network,
        method: Method | None,
        options: TrainOptions,
        *,
        identified_by: Callable[[], Observations],
        n_rows: float | None,
        held_out: Any = None,
        engine: EngineLike = "auto",
        settings: dict[str, object] | None = None,
    ) -> None:
        self.network, self.options, self.engine = network, options, get_engine(engine)
        self.method = MaxProduct(temperature=1.0) if method is None else method
        self.held_out = None
        if held_out is not None:
            self.held_out = Observations.of(held_out, n_visible=network.n_visible)
        if options.smoothing and n_rows is None:
            raise InvalidSettingError("smoothing needs the number of rows: give n_rows")
        self.prior = smoothing_prior(network, options.smoothing, n_rows or 1.0)
        self.state, history, self.identity = init(network), History(), ""
        if options.checkpoint is not None:
            check_place(options.checkpoint)
            course = {**options.course(), "method": self.method.settings(), **(settings or {})}
            self.identity = Checkpoint.identity_of(network, identified_by(), self.held_out, course)
            if options.resume:
                found = load_checkpoint(options.checkpoint, self.identity, network.n_params)
                if found is not None:
                    self.state, history = restore(found)
        self.resumed_at = self.state.step
        self.recorder, self.saved_at = Recorder(history), time.monotonic()

    def advance(self, batch: Observations, bar: Any, amount: int, *, key: Hashable = None) -> bool:
        """One update, and what is due after it; True if a callback asks to stop.

        ``bar`` moves by ``amount``; ``key`` as in `gradient`.
        """
        began, options = time.perf_counter(), self.options
        state, value = step(
            self.state,
            self.network,
            batch,
            self.method,
            options,
            prior=self.prior,
            key=key,
            engine=self.engine,
        )
        self.recorder.add(value, time.perf_counter() - began)
        last = state.step == options.steps
        if last or (options.evaluate_every and state.step % options.evaluate_every == 0):
            self._evaluate(state)
        # An interrupt may come between any two lines. What was recorded of a state that is not
        # assigned yet is left out of the checkpoint, and comes again with that step.
        self.state = state
        bar.update(amount)
        self.recorder.show(bar, refresh=last)
        info = StepInfo(self.state, value, self.network.with_theta(self.state.theta))
        stops = [callback(info) for callback in options.callbacks]  # all are called
        if any(stops):
            return True
        if time.monotonic() - self.saved_at >= options.checkpoint_every:
            self.save()
        return False

    def evaluate(self) -> None:
        """Record the held-out bound of the present parameters, once, if there are held-out rows."""
        self._evaluate(self.state)

    def _evaluate(self, state: TrainingState) -> None:
        if self.held_out is None:
            return
        known = self.recorder.evaluations
        if not known or known[-1].step != state.step:
            current = self.network.with_theta(state.theta)
            bound = self.method.bounds(current, self.held_out, engine=self.engine).elbo
            known.append(Evaluation(state.step, self.held_out.mean(bound)))

    def save(self) -> None:
        """Write the checkpoint, if there is a file for it.

        A disk that is full by now costs the checkpoint, with a warning, and never the result.
        """
        if self.options.checkpoint is not None:
            kept = capture(self.state, self.recorder.history(self.state.step), self.identity)
            try:
                save_checkpoint(self.options.checkpoint, kept)
            except CheckpointError as error:
                warnings.warn(f"{error}; training is not stopped", RuntimeWarning, stacklevel=2)
        self.saved_at = time.monotonic()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Write the checkpoint at the end, also on an interrupt: the state is of a whole step."""
        try:
            yield
        finally:
            self.save()

    def result(self) -> TrainingResult:
        """The network with the parameters reached, the state and the record."""
        learned = self.network.with_theta(self.state.theta)
        history = self.recorder.history(self.state.step)
        return TrainingResult(learned, self.state, history, self.resumed_at)
