"""Training on more rows than memory holds: chunks of rows come one after another, none is kept.

`train_stream` goes through the chunks with the same `step` as `train`; `learn_chunk` goes through
one chunk, for callers that are handed chunks instead of asking for them. Chunks come from a
function that returns an iterator, or from files through `open_rows`.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from noisyor._util.csr import pointers
from noisyor._util.progress import progress_bar
from noisyor.data.chunks import RowSource, open_rows, write_rows
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.method import Method
from noisyor.learning.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from noisyor.learning.train import (
    Callback,
    History,
    Recorder,
    StepInfo,
    TrainingResult,
    TrainingState,
    capture,
    check_settings,
    init,
    restore,
    step,
)
from noisyor.network.graph import Network

__all__ = [
    "RowSource",
    "StreamState",
    "learn_chunk",
    "open_rows",
    "start_stream",
    "train_stream",
    "write_rows",
]

PathLike = str | os.PathLike[str]


# ---- training


class StreamState(NamedTuple):
    """Where a stream stands: the state of training, and the rows and chunks seen so far."""

    training: TrainingState
    n_rows: int
    n_chunks: int


def start_stream(network: Network) -> StreamState:
    """State before the first chunk."""
    return StreamState(init(network), 0, 0)


def learn_chunk(
    state: StreamState,
    network: Network,
    X: Any,
    method: Method | None = None,
    *,
    batch_size: int = 100,
    learning_rate: float = 0.01,
    relative: bool = False,
    seed: int = 0,
    engine: EngineLike = "auto",
) -> tuple[StreamState, History]:
    """Go through one chunk once: the new state, and the record of its updates.

    Feeding chunks one after another gives the same bits as one pass of `train_stream` over them.

    Parameters
    ----------
    state : from `start_stream`, or from the chunk before.
    network : the network that the stream started with; its parameters are not looked at again.
    X : rows in any form that `Observations.of` takes.
    method, batch_size, learning_rate, relative, seed, engine : see `train_stream`.
    """
    check_settings(0, batch_size, learning_rate, seed, 0, False)
    n_rows = _height(X)
    chunk = _Chunk(state.n_chunks, n_rows, _numbered(X, network.n_visible, state.n_rows, n_rows))
    recorder, training = Recorder(History()), state.training
    learn = _learner(network, method, learning_rate, relative, seed, engine)
    for batch in chunk.batches(batch_size, seed, turn=0, skip=0):
        began = time.perf_counter()
        training, value = learn(training, batch)
        recorder.add(value, time.perf_counter() - began)
    return StreamState(training, state.n_rows + n_rows, state.n_chunks + 1), recorder.history()


def train_stream(
    network: Network,
    chunks: RowSource | Iterable[Any] | Callable[[], Iterable[Any]],
    method: Method | None = None,
    *,
    passes: int = 1,
    steps: int | None = None,
    batch_size: int = 100,
    learning_rate: float = 0.01,
    relative: bool = False,
    seed: int = 0,
    n_rows: int | None = None,
    callbacks: Iterable[Callback] = (),
    checkpoint: PathLike | None = None,
    checkpoint_every: float = 30.0,
    resume: bool = False,
    engine: EngineLike = "auto",
    progress: bool | None = None,
) -> TrainingResult:
    """Learn the free parameters of a network from chunks of rows, one in memory at a time.

    Rows are shuffled within their chunk, and the chunks of a `RowSource` among each other, anew in
    every pass; those of an iterator come in its order. A minibatch never reaches over the end of a
    chunk. The same chunks and settings give the same bits, also across a stop and resume.

    Parameters
    ----------
    network : graph and starting parameters, see `initialize`.
    chunks : a `RowSource` (see `open_rows`), a function that returns a new iterator over chunks
        each time it is called, a list of chunks, or, for a single pass, an iterator. A chunk has
        any form that `Observations.of` takes.
    method : how causes are inferred; default ``MaxProduct(temperature=1.0)``.
    passes : how often to go through all chunks.
    steps : number of updates in total instead of ``passes``; the chunks are gone through until
        they are done.
    batch_size : rows per update.
    learning_rate : of Adam.
    relative : whether the rate is in proportion to the parameters, see `train`.
    seed : of the shuffling and of the perturbations.
    n_rows : number of rows of a pass, if you know it, so that the progress bar can tell the time
        left; a `RowSource` knows it.
    callbacks : called after every update with a `StepInfo`; returning True stops training.
    checkpoint : file that the state is written to, atomically, every ``checkpoint_every`` seconds,
        at the end, and on an interrupt.
    resume : continue from the checkpoint if the file exists. Graph, settings and the first chunk
        must be the same; chunks that were finished are passed over (those of a `RowSource` unread).
    engine : as in `explain`.
    progress : show a progress bar in rows, with rows per second; None shows it on a terminal only.

    Returns
    -------
    TrainingResult; its history has one entry per update.
    """
    settings = check_settings(steps or 0, batch_size, learning_rate, seed, 0, resume)
    if relative:  # left out otherwise, so that older checkpoints stay valid
        settings["relative"] = True
    if steps is None and passes < 0:
        raise InvalidSettingError(f"passes must not be negative, got {passes}")
    if resume and checkpoint is None:
        raise InvalidSettingError("resume needs the checkpoint file to resume from")
    method = MaxProduct(temperature=1.0) if method is None else method
    stream = _Stream(chunks, network.n_visible, seed)
    state, history, identity = init(network), History(), ""
    if checkpoint is not None:
        record = {**settings, "method": method.settings(), "batch_size": batch_size, "stream": True}
        identity = Checkpoint.identity_of(network, stream.first(), None, record)
        found = load_checkpoint(checkpoint, identity) if resume else None
        if found is not None:
            state, history = restore(found)
    recorder, callbacks = Recorder(history), tuple(callbacks)

    def save() -> None:
        if checkpoint is not None:
            save_checkpoint(checkpoint, capture(state, recorder.history(), identity))

    learn = _learner(network, method, learning_rate, relative, seed, engine)
    saved, before, resumed_at = time.monotonic(), 0, state.step  # before: updates of past chunks
    turns: Iterable[int] = itertools.count() if steps is not None else range(passes)
    limit = float("inf") if steps is None else steps
    known = stream.n_rows or n_rows or 0  # a bar without a total shows the speed only
    expected = known * passes if steps is None else steps * batch_size
    with progress_bar(expected, "train", "rows", progress) as bar:
        try:
            for turn in turns if state.step < limit else ():
                for chunk in stream.turn(turn):
                    total = -(-chunk.n_rows // batch_size)
                    skip = min(total, resumed_at - before) if before < resumed_at else 0
                    before += total
                    done = min(skip * batch_size, chunk.n_rows)
                    if done and not bar.disable:
                        bar.initial += done  # not counted in the speed
                        bar.update(done)
                    if skip == total:
                        continue
                    for batch in chunk.batches(batch_size, seed, turn, skip):
                        began = time.perf_counter()
                        state, value = learn(state, batch)
                        recorder.add(value, time.perf_counter() - began)
                        bar.update(batch.n_rows)
                        recorder.show(bar, refresh=False)
                        current = network.with_theta(state.theta)
                        stop = [callback(StepInfo(state, value, current)) for callback in callbacks]
                        if any(stop) or state.step >= limit:
                            return _result(network, state, recorder)
                        if time.monotonic() - saved >= checkpoint_every:
                            save()
                            saved = time.monotonic()
                if before == 0:
                    raise InvalidDataError("no rows: there was not a single chunk")
        finally:  # also on an interrupt: the state is always that of a whole update
            save()
    return _result(network, state, recorder)


def _result(network: Network, state: TrainingState, recorder: Recorder) -> TrainingResult:
    return TrainingResult(network.with_theta(state.theta), state, recorder.history())


def _learner(
    network: Network,
    method: Method | None,
    learning_rate: float,
    relative: bool,
    seed: int,
    engine: EngineLike,
) -> Callable[[TrainingState, Observations], tuple[TrainingState, float]]:
    """`step` with all that stays the same."""
    chosen = MaxProduct(temperature=1.0) if method is None else method
    engine = get_engine(engine)

    def learn(state: TrainingState, batch: Observations) -> tuple[TrainingState, float]:
        return step(
            state,
            network,
            batch,
            chosen,
            learning_rate=learning_rate,
            seed=seed,
            engine=engine,
            relative=relative,
        )

    return learn


# ---- chunks


class _Chunk(NamedTuple):
    number: int
    n_rows: int
    read: Callable[[], Observations]

    def batches(self, batch_size: int, seed: int, turn: int, skip: int) -> Iterator[Observations]:
        """Minibatches of the chunk in a random order that depends on the arguments alone."""
        rows = self.read()
        order = np.random.default_rng((seed, turn, self.number)).permutation(rows.n_rows)
        shuffled = rows.take(order)
        for begin in range(skip * batch_size, rows.n_rows, batch_size):
            yield shuffled.take(slice(begin, begin + batch_size))


class _Stream:
    """The chunks of every pass, whatever they come from."""

    def __init__(self, chunks: Any, n_visible: int, seed: int) -> None:
        if hasattr(chunks, "shape") or isinstance(chunks, (Observations, str, os.PathLike)):
            raise InvalidDataError(
                f"chunks come from open_rows, a function or a list, got {type(chunks).__name__}; "
                "for data in memory there is train"
            )
        if not callable(chunks) and not isinstance(chunks, (Iterable, RowSource)):
            raise InvalidDataError(
                f"chunks come from open_rows, a function or a list, got {type(chunks).__name__}"
            )
        self.chunks, self.n_visible, self.seed = chunks, n_visible, seed
        self.used = False
        self.starts = pointers(chunks.sizes) if isinstance(chunks, RowSource) else None

    @property
    def n_rows(self) -> int | None:
        """Rows of a pass, if they are known."""
        return self.chunks.n_rows if isinstance(self.chunks, RowSource) else None

    def first(self) -> Observations:
        """The first chunk of the data."""
        if isinstance(self.chunks, RowSource):
            return self._of_source(0).read()
        for chunk in self._given():
            return chunk.read()
        raise InvalidDataError("no rows: there was not a single chunk")

    def turn(self, turn: int) -> Iterator[_Chunk]:
        """All chunks, for the pass with this number."""
        if not isinstance(self.chunks, RowSource):
            yield from self._given()
            return
        for number in np.random.default_rng((self.seed, turn)).permutation(len(self.chunks)):
            yield self._of_source(int(number))

    def _of_source(self, number: int) -> _Chunk:
        assert self.starts is not None
        first, n_rows = int(self.starts[number]), self.chunks.sizes[number]

        def read() -> Observations:
            return _numbered(self.chunks.read(number), self.n_visible, first, n_rows)()

        return _Chunk(number, n_rows, read)

    def _given(self) -> Iterator[_Chunk]:
        if isinstance(self.chunks, Iterator) and self.used:
            raise InvalidSettingError(
                "an iterator can be gone through once only: for several passes or a checkpoint "
                "give a function that returns a new one"
            )
        self.used, first = True, 0
        for number, X in enumerate(self.chunks() if callable(self.chunks) else self.chunks):
            n_rows = _height(X)
            yield _Chunk(number, n_rows, _numbered(X, self.n_visible, first, n_rows))
            first += n_rows


def _numbered(X: Any, n_visible: int, first: int, n_rows: int) -> Callable[[], Observations]:
    """Reader of a chunk whose rows are numbered from ``first``: randomness is keyed by that."""
    return partial(Observations.of, X, n_visible, row_ids=np.arange(first, first + n_rows))


def _height(X: Any) -> int:
    shape = getattr(X, "shape", None)
    if isinstance(X, Observations) or not shape:
        return len(X) if hasattr(X, "__len__") else Observations.of(X).n_rows
    return int(shape[0])
