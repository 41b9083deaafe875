"""Train on more rows than fit into memory, one chunk of rows after another.

`train_stream` goes through the chunks with the same `step` as `train`; `learn_chunk` goes through
one chunk, for callers that receive chunks from elsewhere. Chunks come from a function that returns
an iterator, or from files through `noisyor.data.chunks.open_rows`.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from noisyor._util.arrays import pointers
from noisyor._util.progress import Job, TimeUpError, progress_bar
from noisyor.data.chunks import RowSource
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.method import Method
from noisyor.learning.state import (
    History,
    Recorder,
    TrainingResult,
    TrainingState,
    TrainOptions,
    choose_options,
    rows_identity,
)
from noisyor.learning.train import Run, gradient, step
from noisyor.model.network import Network

_DEFAULTS = TrainOptions(batch_size=100, learning_rate=0.01)


class StreamState(NamedTuple):
    """Position in a stream: the state of training, and the numbers of rows and chunks so far."""

    training: TrainingState
    n_rows: int = 0
    n_chunks: int = 0


def learn_chunk(
    state: StreamState,
    network: Network,
    rows: Observations,
    method: Method | None,
    options: TrainOptions,
    engine: EngineLike = "auto",
) -> tuple[StreamState, History]:
    """Go through one chunk once; return the new state and the record of its updates.

    Feeding chunks one after another gives the same bits as one pass of `train_stream` over them.
    Of the options, ``batch_size``, ``learning_rate``, ``parameterization`` and ``seed`` are used.
    """
    chosen = MaxProduct(temperature=1.0) if method is None else method
    n_rows, engine = rows.n_rows, get_engine(engine)
    chunk = _Chunk(state.n_chunks, n_rows, state.n_rows, lambda: rows)
    recorder, training = Recorder(History()), state.training
    for batch in chunk.batches(options, network.n_visible, turn=0, skip=0):
        began = time.perf_counter()
        training, value = step(training, network, batch, chosen, options, engine=engine)
        recorder.add(value, time.perf_counter() - began)
    history = recorder.history(len(recorder.elbo))
    return StreamState(training, state.n_rows + n_rows, state.n_chunks + 1), history


def train_stream(
    network: Network,
    chunks: RowSource | Iterable[Any] | Callable[[], Iterable[Any]],
    method: Method | None = None,
    options: TrainOptions | None = None,
    *,
    n_rows: int | None = None,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Any,
) -> TrainingResult:
    """Learn the free parameters of a network from chunks of rows, one in memory at a time.

    In every pass, rows are shuffled within their chunk, and the chunks of a `RowSource` are
    shuffled; chunks of an iterator keep its order. A minibatch never crosses the end of a chunk.
    The same chunks and settings give the same bits, also across a stop and resume.

    Parameters
    ----------
    network : graph and starting parameters, see `initialize`.
    chunks : a `RowSource` (see `open_rows`), a function that returns a new iterator over chunks
        each time it is called, a list of chunks, or, for a single pass, an iterator. A chunk has
        any form that `Observations.of` takes.
    method : how hidden states are inferred; default ``MaxProduct(temperature=1.0)``.
    options : how to train; default one pass with minibatches of 100 rows, at a rate of 0.01. To
        resume, graph, settings and the first chunk must be the same; finished chunks are skipped
        (those of a `RowSource` are not read).
    n_rows : number of rows of a pass, if it is known and ``chunks`` is not a `RowSource`; used for
        the progress bar, and required for ``smoothing``.
    held_out : data whose mean bound is recorded every ``evaluate_every`` steps and at the end.
    engine : as in `explain`.
    changes : single options by name, such as ``passes=3``; see `TrainOptions`.

    Returns
    -------
    TrainingResult; its history has one entry per update.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(n_visible=2, n_hidden=1)
    >>> chunks = [np.eye(2), np.ones((1, 2))]
    >>> nor.train_stream(network, chunks, passes=2, progress=False).state.step
    4
    """
    options = choose_options(options, changes, _DEFAULTS)
    stream, engine = _Stream(chunks, network.n_visible), get_engine(engine)
    known = stream.n_rows or n_rows
    if options.steps is None and options.final_learning_rate is not None:
        options = replace(options, steps=stream.n_steps(options))
    run = Run(
        network,
        method,
        options,
        identified_by=lambda: rows_identity(stream.first()),
        n_rows=known,
        held_out=held_out,
        engine=engine,
        settings={"stream": True},
    )
    limit, expected = options.steps, (known or 0) * options.passes
    if limit is not None:
        expected = limit * (options.batch_size or 0)
    job = Job.of(options.progress, options.time_limit)
    with progress_bar(expected, "train", "rows", job) as bar, run.kept(), suppress(TimeUpError):
        if limit is None or run.state.step < limit:
            for batch in stream.batches(options, run.state.step, bar):
                about: dict[str, Any] = {"network": network, "batch": batch, "method": run.method}
                compute = partial(gradient, **about, seed=options.seed, engine=engine)
                if run.advance(compute, bar, batch.n_rows) or run.state.step == limit:
                    return run.result()
        run.evaluate(run.state)
    return run.result()


# ---- chunks


class _Chunk(NamedTuple):
    """A chunk: ``first`` is the number of its first row; ``read`` returns its rows in any form."""

    number: int
    n_rows: int
    first: int
    read: Callable[[], Any]

    def rows(self, n_visible: int) -> Observations:
        """Read the chunk; its row ids, which key the noise, are the numbers of the rows."""
        ids = np.arange(self.first, self.first + self.n_rows)
        return Observations.of(self.read(), n_visible, row_ids=ids)

    def batches(
        self, options: TrainOptions, n_visible: int, turn: int, skip: int
    ) -> Iterator[Observations]:
        """Yield minibatches of a chunk in a random order that depends on the arguments alone."""
        rows, size = self.rows(n_visible), options.batch_size or self.n_rows
        order = np.random.default_rng((options.seed, turn, self.number)).permutation(rows.n_rows)
        shuffled = rows.take(order)
        for begin in range(skip * size, rows.n_rows, size):
            yield shuffled.take(slice(begin, begin + size))


class _Stream:
    """Chunks of every pass, from any kind of source."""

    def __init__(self, chunks: Any, n_visible: int) -> None:
        in_memory = hasattr(chunks, "shape") or isinstance(chunks, Observations | str | os.PathLike)
        if in_memory or not (callable(chunks) or isinstance(chunks, Iterable | RowSource)):
            raise InvalidDataError(
                f"chunks come from open_rows, a function or a list, got {type(chunks).__name__}; "
                "train takes data in memory"
            )
        self.given, self.n_visible, self.used = chunks, n_visible, False
        self.source = chunks if isinstance(chunks, RowSource) else None

    @property
    def n_rows(self) -> int | None:
        """Rows of a pass, if they are known."""
        return None if self.source is None else self.source.n_rows

    def first(self) -> Observations:
        """Return the first chunk of the data."""
        for chunk in self._chunks(range(1)):
            return chunk.rows(self.n_visible)
        raise InvalidDataError("no rows: the data have no chunk")

    def n_steps(self, options: TrainOptions) -> int | None:
        """Return the number of updates of all passes, if known beforehand."""
        if self.source is None:
            return None
        sizes = self.source.sizes
        return options.passes * sum(-(-rows // (options.batch_size or rows)) for rows in sizes)

    def batches(self, options: TrainOptions, resumed_at: int, bar: Any) -> Iterator[Observations]:
        """Yield minibatches of all passes, without end if a number of steps is given.

        The first ``resumed_at`` minibatches are skipped: ``bar`` counts their rows, but not for its
        speed.
        """
        before = 0  # updates of past chunks
        turns = range(options.passes) if options.steps is None else itertools.count()
        for turn in turns:
            n_chunks = 0 if self.source is None else len(self.source)
            order = np.random.default_rng((options.seed, turn)).permutation(n_chunks)
            for chunk in self._chunks(order.tolist()):
                size = options.batch_size or chunk.n_rows
                total = -(-chunk.n_rows // size)
                skip = min(total, max(0, resumed_at - before))
                before += total
                done = min(skip * size, chunk.n_rows)
                if done:
                    bar.skip(done)
                if skip < total:
                    yield from chunk.batches(options, self.n_visible, turn, skip)
            if before == 0:
                raise InvalidDataError("no rows: the data have no chunk")

    def _chunks(self, order: Iterable[int]) -> Iterator[_Chunk]:
        """Yield the chunks of a source in this order, or all given chunks in theirs."""
        if self.source is not None:
            starts, sizes = pointers(self.source.sizes), self.source.sizes
            for number in order:
                read = partial(self.source.read, number)
                yield _Chunk(number, sizes[number], int(starts[number]), read)
            return
        if isinstance(self.given, Iterator) and self.used:
            raise InvalidSettingError(
                "an iterator can be consumed only once: for several passes or a checkpoint give a "
                "function that returns a new one"
            )
        self.used, first = True, 0
        for number, X in enumerate(self.given() if callable(self.given) else self.given):
            n_rows = _height(X)
            yield _Chunk(number, n_rows, first, partial(Observations.of, X, self.n_visible))
            first += n_rows


def _height(X: Any) -> int:
    shape = getattr(X, "shape", None)
    if isinstance(X, Observations) or not shape:
        return len(X) if hasattr(X, "__len__") else Observations.of(X).n_rows
    return int(shape[0])
