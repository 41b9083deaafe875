"""Training by stochastic ascent of a bound on the log-likelihood of the rows: the loop.

`gradient` and `update` are the two halves of one update. A `Run` does many updates, with a record,
checkpoints and a progress bar. The sums over a minibatch come from `TrainingRows`: in `train` from
rows in memory, in `noisyor.distributed.train` from workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.progress import Job, TimeUpError, progress_bar, warn
from noisyor.data.chunks import BlockOrder
from noisyor.data.observations import Observations
from noisyor.engines.contract import Engine, EngineLike, GradientSum
from noisyor.engines.registry import get_engine
from noisyor.errors import CheckpointError, InvalidSettingError
from noisyor.inference.max_product import MaxProduct, method_for
from noisyor.inference.method import Method, check_method
from noisyor.learning.optimizers import Adam, Optimizer
from noisyor.learning.state import (
    Checkpoint,
    Evaluation,
    History,
    Recorder,
    StepInfo,
    TrainingResult,
    TrainingState,
    TrainOptions,
    check_place,
    choose_options,
    load_checkpoint,
    rows_identity,
    save_checkpoint,
)
from noisyor.model.network import THETA_MAX, THETA_MIN, FittedModel, Network, network_of

_MIN_STEPS, _CHECKED_ROWS = 20, 64
"""Smallest number of updates, and number of rows, for the check that some cause is on."""


def train(
    network: Network | FittedModel,
    X: Any,
    method: Method | None = None,
    options: TrainOptions | None = None,
    *,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Any,
) -> TrainingResult:
    """Learn the free parameters of a network from binary data.

    Rows are shuffled once by the seed; the minibatch of step t is the contiguous slice number
    ``t mod ceil(n_rows / batch_size)`` of them. The same arguments give the same bits for any
    number of workers, and after a stop and resume. A row of weight w counts as w rows.

    Parameters
    ----------
    network : graph and starting parameters, see `initialize`, or a fitted estimator.
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
    network, options = network_of(network), choose_options(options, changes)
    rows = _InMemory(network, network.rows_of(X), get_engine(engine))
    result = train_on(network, rows, method, options, held_out=held_out, engine=rows.engine)
    if result.state.step >= _MIN_STEPS:
        with suppress(TimeUpError):  # the engine of a recipe has a time limit of its own
            _check_active(result.network, rows, method)
    return result


def _check_active(network: Network, rows: _InMemory, method: Method | None) -> None:
    """Warn if a trained network switches no cause on in the first rows."""
    some = rows.rows.take(slice(0, _CHECKED_ROWS))
    if not some.n_active:
        return
    chosen = default_method(network) if method is None else method
    if not chosen.posterior(network, some, engine=rows.engine).states.nnz:
        warn(
            f"training ended with no cause on in the first {some.n_rows} rows: the network "
            "explains them by noise; try another start, a smaller learning rate or more steps",
            UserWarning,
            stacklevel=3,
        )


def default_method(network: Network) -> MaxProduct:
    """Return the method that training uses by default: perturbed max-product, as in the paper.

    In deep networks only the ancestors of visible nodes that are on are inferred, see `method_for`.
    """
    return replace(method_for(network), temperature=1.0, icm=0)


Batches = Callable[[int, TrainingState], GradientSum]
"""Function that returns the sums over minibatch number n at the parameters of a state."""


class TrainingRows(Protocol):
    """Rows to train on, in memory or on the machines of a cluster."""

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        ...

    def total_weight(self) -> float:
        """Return the sum of the weights of the rows."""
        ...

    def identity(self) -> bytes:
        """Return the identity of the rows for a checkpoint."""
        ...

    def batches(self, method: Method, options: TrainOptions) -> Batches:
        """Return the minibatches; ``batch_size`` of the options is filled in."""
        ...


class _InMemory(NamedTuple):
    """Rows of this process."""

    network: Network
    rows: Observations
    engine: Engine

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    def total_weight(self) -> float:
        return self.rows.total_weight

    def identity(self) -> bytes:
        return rows_identity(self.rows)

    def batches(self, method: Method, options: TrainOptions) -> Batches:
        size, seed = options.batch_size or self.n_rows, options.seed
        one_batch = size >= self.n_rows
        if options.block_rows is None:
            shuffled = self.rows.shuffled(seed)
            if one_batch and not method.has_noise:  # repeated rows are inferred once
                shuffled, _ = shuffled.unique_rows()
        else:  # the bits of `noisyor.distributed.train`
            shuffled = self.rows.take(order_of(self.n_rows, options).indices())

        def compute(number: int, state: TrainingState) -> GradientSum:
            batch = shuffled.take(slice(number * size, (number + 1) * size))
            return gradient(state, self.network, batch, method, seed=seed, engine=self.engine)

        return compute


def order_of(n_rows: int, options: TrainOptions) -> BlockOrder:
    """Return the order of rows shuffled in blocks; unshuffled if one batch has all rows."""
    assert options.block_rows is not None
    one_batch = (options.batch_size or n_rows) >= n_rows
    return BlockOrder(n_rows, options.block_rows, None if one_batch else options.seed)


def train_on(
    network: Network,
    rows: TrainingRows,
    method: Method | None,
    options: TrainOptions,
    *,
    held_out: Any,
    engine: EngineLike,
    settings: dict[str, object] | None = None,
) -> TrainingResult:
    """Run the loop of `train`, wherever the rows are; other arguments as in `Run`."""
    if method is not None:
        check_method(method)
    size = min(options.batch_size or rows.n_rows, rows.n_rows)
    n_batches = -(-rows.n_rows // size)
    steps = options.passes * n_batches if options.steps is None else options.steps
    options = replace(options, steps=steps, batch_size=size)
    run = Run(
        network,
        method,
        options,
        identified_by=rows.identity,
        n_rows=rows.total_weight() if options.smoothing else None,
        held_out=held_out,
        engine=engine,
        settings=settings,
    )
    batches = rows.batches(run.method, options)
    job = Job.of(options.progress, options.time_limit)
    with progress_bar(steps, "train", "steps", job) as bar, run.kept(), suppress(TimeUpError):
        bar.update(run.state.step)
        while run.state.step < steps:
            number = run.state.step % n_batches
            if run.advance(partial(batches, number), bar, 1):
                break
    return run.result()


class Run:
    """A training run: its state and record, and the work after each update.

    A checkpoint must share the identity of the rows, which ``identified_by`` returns, and the
    ``settings``. ``n_rows`` is the number of training rows, counted by weight, if known. ``engine``
    infers the held-out rows, which are in memory.
    """

    def __init__(
        self,
        network: Network,
        method: Method | None,
        options: TrainOptions,
        *,
        identified_by: Callable[[], bytes],
        n_rows: float | None,
        held_out: Any,
        engine: EngineLike,
        settings: dict[str, object] | None = None,
    ) -> None:
        self.network, self.options, self.engine = network, options, engine
        self.held_out = None if held_out is None else network.rows_of(held_out)
        self.method = default_method(network) if method is None else method
        if options.smoothing and n_rows is None:
            raise InvalidSettingError("smoothing needs the number of rows: give n_rows")
        self.prior = smoothing_prior(network, options.smoothing, n_rows or 1.0)
        self.state, history, self.identity = init(network, options.optimizer), History(), ""
        if options.checkpoint is not None:
            check_place(options.checkpoint)
            key = {**options.run_key(), "method": self.method.settings(), **(settings or {})}
            unseen = None if self.held_out is None else rows_identity(self.held_out)
            self.identity = Checkpoint.identity_of(network, identified_by(), unseen, key)
            if options.resume:
                found = load_checkpoint(options.checkpoint, self.identity, self.state)
                if found is not None:
                    self.state, history = found.restore(self.state)
        self.resumed_at = self.state.step
        self.recorder, self.saved_at = Recorder(history), time.monotonic()

    def advance(
        self, compute: Callable[[TrainingState], GradientSum], bar: Any, amount: int
    ) -> bool:
        """Do one update, evaluation, checkpoint and callbacks; return True if a callback stops.

        ``compute`` gives the sums over the minibatch; ``bar`` moves by ``amount``.
        """
        began, options, total = time.perf_counter(), self.options, compute(self.state)
        state = update(self.state, self.network, total, options, prior=self.prior)
        value = total.value / total.weight
        self.recorder.add(value, time.perf_counter() - began)
        last = state.step == options.steps
        if last or (options.evaluate_every and state.step % options.evaluate_every == 0):
            self.evaluate(state)
        # An interrupt may come between any two lines. What was recorded of a state that is not
        # assigned yet is left out of the checkpoint, and comes again with that step.
        self.state = state
        bar.update(amount)
        self.recorder.show(bar, refresh=last)
        if options.callbacks:
            info = StepInfo(self.state, value, self.network.with_theta(self.state.theta))
            stops = [callback(info) for callback in options.callbacks]  # all are called
            if any(stops):
                return True
        if time.monotonic() - self.saved_at >= options.checkpoint_every:
            self.save()
        return False

    def evaluate(self, state: TrainingState) -> None:
        """Record the held-out bound of a state, once, if there are held-out rows."""
        known = self.recorder.evaluations
        if self.held_out is not None and (not known or known[-1].step != state.step):
            current = self.network.with_theta(state.theta)
            bounds = self.method.bounds(current, self.held_out, engine=self.engine)
            known.append(Evaluation(state.step, self.held_out.mean(bounds.elbo)))

    def save(self) -> None:
        """Write the checkpoint, if there is a file for it.

        If the disk is full, a warning is shown and training continues without the checkpoint.
        """
        if self.options.checkpoint is not None:
            history = self.recorder.history(self.state.step)
            try:
                kept = Checkpoint.of(self.state, history, self.identity)
                save_checkpoint(self.options.checkpoint, kept)
            except CheckpointError as error:
                warn(f"{error}; training continues without it")
        self.saved_at = time.monotonic()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Write the checkpoint when the context ends, also on an interrupt."""
        try:
            yield
        finally:
            self.save()

    def result(self) -> TrainingResult:
        """Return the network with the parameters reached, the state and the record."""
        learned = self.network.with_theta(self.state.theta)
        history = self.recorder.history(self.state.step)
        return TrainingResult(learned, self.state, history, self.resumed_at)


def init(network: Network, optimizer: Optimizer | None = None) -> TrainingState:
    """Return the state before the first step; parameters below the floor are raised to it.

    ``optimizer`` is that of `TrainOptions`; None for `Adam`.

    Examples
    --------
    >>> import noisyor as nor
    >>> state = nor.learning.init(nor.bipartite(n_visible=3, n_hidden=2))
    >>> state.step, state.theta.shape
    (0, (9,))
    """
    theta = np.maximum(network.theta, THETA_MIN)
    return TrainingState(0, theta, (optimizer or Adam()).init(theta))


def gradient(
    state: TrainingState,
    network: Network,
    batch: Observations,
    method: Method,
    *,
    seed: int = 0,
    engine: EngineLike = "auto",
) -> GradientSum:
    """Sum the gradient over the rows of a minibatch: the first half of `step`.

    The sums of the parts of a minibatch add up (`GradientSum.plus`) to that of the whole. ``seed``
    is the seed of the perturbations.
    """
    current = network.with_theta(state.theta)
    return method.gradient(current, batch, seed=seed, step=state.step, engine=engine)


def update(
    state: TrainingState,
    network: Network,
    total: GradientSum,
    options: TrainOptions | None = None,
    *,
    prior: BetaPrior | None = None,
    **changes: Any,
) -> TrainingState:
    """Take one step of the optimizer on the mean gradient: the second half of `step`.

    ``total`` is the sum over the rows of the minibatch, from `gradient` at the same ``state``.
    """
    options = choose_options(options, changes)
    ascent = total.gradient / total.weight
    if prior is not None:
        with np.errstate(over="ignore"):  # a quotient by infinity is 0, as it should be
            ascent = ascent + prior.on / np.expm1(state.theta) - prior.off
    logs = options.parameterization == "log"
    if logs:
        ascent = ascent * state.theta  # chain rule: d theta / d log theta = theta
    place = np.log(state.theta) if logs else state.theta
    move, optimizer = options.chosen_optimizer().update(-ascent, state.optimizer, place)
    move = np.asarray(move, dtype=np.float64)
    if move.shape != state.theta.shape or np.isnan(move).any():
        raise InvalidSettingError(
            f"the optimizer must return {len(state.theta)} numbers to add to the parameters, got "
            f"{'NaN' if move.shape == state.theta.shape else f'shape {move.shape}'} at step "
            f"{state.step}"
        )
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
    engine: EngineLike = "auto",
    **changes: Any,
) -> tuple[TrainingState, float]:
    """Do one update from one minibatch.

    Parameters
    ----------
    state : from `init`, or from the update before.
    network : the graph, and which parameters are free; its own parameters are not used.
    batch : rows.
    method : how hidden states are inferred.
    options : uses ``learning_rate``, ``final_learning_rate``, ``steps``, ``optimizer``,
        ``parameterization`` and ``seed``; default ``TrainOptions()``.
    prior : prior of the parameters, see `smoothing_prior`; None for none.
    engine : as in `explain`.
    changes : single options by name.

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
    total = gradient(state, network, batch, method, seed=options.seed, engine=engine)
    return update(state, network, total, options, prior=prior), total.value / total.weight


_EDGE_ROWS, _EDGE_SHARE = 0.1, 0.1
"""Prior of an edge: pseudo-rows per pseudo-row of a leak, and the share in which the edge works."""


class BetaPrior(NamedTuple):
    """Beta prior on the probability that an edge or leak switches its node on.

    ``on``, ``off`` (n_params,): pseudo-counts of successes and failures, as shares of the training
    rows. With ``p = 1 - exp(-theta)`` the log-density is, up to a constant, ``on * log(p) + off *
    log(1 - p)``; its derivative by theta is ``on / expm1(theta) - off``.
    """

    on: FloatArray
    off: FloatArray


def smoothing_prior(network: Network, smoothing: float, n_rows: float) -> BetaPrior | None:
    """Return a Beta prior as strong as ``smoothing`` rows; None if that is 0.

    A leak gets ``smoothing`` pseudo-rows in which its node is on by itself and as many in which it
    is not. An edge gets a tenth of that and fails in nine of ten. Without a prior, a hidden node
    gets an edge to every column that happens to be on in all of its rows. ``n_rows`` is the number
    of training rows, counted by weight.
    """
    if not smoothing:
        return None
    roles, rows = network.roles, smoothing / n_rows
    edge = roles == "failure"
    on = np.where(edge, _EDGE_ROWS * _EDGE_SHARE * rows, rows)
    off = np.where(edge, _EDGE_ROWS * (1.0 - _EDGE_SHARE) * rows, rows)
    used = roles != "unused"
    return BetaPrior(on * used, off * used)
