"""One run on a Dask cluster: its rows, a job that all tasks share, and the two ways to use them.

`Session.map` applies a function to every chunk of rows. `Session.sum` adds up a function over
ranges of rows in the fixed tree of `noisyor.engines.reduction`.

Sums have a fixed order, and noise is keyed by row numbers. So results have the same bits for any
number of workers, as long as all workers have the same processors and library versions. Tasks have
no side effects that matter: Dask runs the tasks of a lost worker again on another one.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from noisyor._util.arrays import FloatArray
from noisyor._util.progress import progress_bar
from noisyor.data.observations import Observations
from noisyor.distributed.chunks import Ranges, Reader, reader_of
from noisyor.engines.contract import EngineLike
from noisyor.engines.reduction import ROWS_OF_BLOCK, TreeSum, tree_sum
from noisyor.engines.registry import get_engine
from noisyor.errors import ClusterError, MissingExtraError, NoisyOrError
from noisyor.inference.method import Method
from noisyor.learning.state import rows_identity
from noisyor.model.network import Network

T = TypeVar("T")

ROWS_AT_ONCE = 16 * ROWS_OF_BLOCK
"""Rows that a task of a sum has in memory; a power of two of blocks, so a node of the tree."""

_TASKS_PER_THREAD = 8
"""Tasks of a sum per thread of the cluster, so that all threads finish at about the same time."""

_MIN_ROWS_OF_TASK = 8 * ROWS_OF_BLOCK

_SUBMITTED_PER_THREAD = 3
"""Tasks of a map that are submitted at a time, so that memory does not grow with their number."""

_FAN_IN = 8
"""Partial sums that one task adds up; a power of two, so that the result is a node of the tree."""

_RETRIES = 2
"""Times that Dask reruns a task that raised an error: shared storage sometimes fails."""


@dataclass(frozen=True, eq=False)
class Job:
    """The data that all tasks of a run share; sent to the cluster once.

    Attributes
    ----------
    network : None where rows are only read.
    reader : reads rows on a worker.
    engine, method, seed : as in `noisyor.explain`.
    """

    network: Network | None
    reader: Reader
    engine: EngineLike
    method: Method | None = None
    seed: int = 0

    def network_at(self, theta: FloatArray | None = None) -> Network:
        """Return the network, with the parameters ``theta`` (n_params,) if given."""
        assert self.network is not None
        # A worker keeps the job, and with it what engines derive from the graph.
        return self.network if theta is None else self.network.with_theta(theta)


class Session:
    """A cluster, and the job that tasks share. A task is a list of ranges of row numbers.

    Parameters
    ----------
    client : a ``distributed.Client`` that is not asynchronous.
    job : what all tasks share.
    """

    def __init__(self, client: Any, job: Job) -> None:
        self.client, self.job, self.n_rows = client, job, job.reader.n_rows
        self._shared_job = self.share(job)

    def share(self, value: Any) -> Any:
        """Return a future of a value that many tasks need: sent once, apart from the tasks.

        The value is the result of a task, so that Dask computes it again if its worker is lost.
        """
        from distributed.protocol.pickle import dumps, loads

        with self._connected(), warnings.catch_warnings():
            # Dask advises against large arguments; it would lose scattered data with a worker.
            warnings.filterwarnings("ignore", "Sending large graph")
            return self.client.submit(loads, dumps(value), key=_new_key())

    def map(
        self,
        function: Callable[..., T],
        *,
        skip: Collection[int] = (),
        progress: bool | None = False,
        **shared: Any,
    ) -> list[T]:
        """Return ``function(rows, job, **shared)`` for every chunk of rows, in their order.

        Chunks without rows are left out, and those whose indices are in ``skip``.
        """
        reader, sizes = self.job.reader, self.job.reader.source.sizes
        chunks = [index for index in reader.filled.tolist() if index not in skip]
        tasks = ([reader.chunk_range(index)] for index in chunks)
        found = dict[int, T]()
        with progress_bar(self.n_rows, "cluster", "rows", progress) as bar:
            bar.update(self.n_rows - sum(sizes[index] for index in chunks))
            for index, result in self.map_tasks(apply_to_chunk, tasks, compute=function, **shared):
                found[index] = result
                bar.update(sizes[chunks[index]])
        return [found[index] for index in range(len(chunks))]

    def map_tasks(
        self, function: Callable[..., T], tasks: Iterator[Ranges], **shared: Any
    ) -> Iterator[tuple[int, T]]:
        """Yield index and result of ``function(task, job=…, **shared)`` as tasks finish.

        ``function`` must be importable on workers. ``tasks`` are drawn only when they are
        submitted. ``shared`` are further arguments, small values or futures from `share`.
        """
        from distributed import as_completed

        waiting, running = enumerate(tasks), dict[Any, tuple[int, Ranges]]()
        limit = max(4, _SUBMITTED_PER_THREAD * self.n_threads())
        with self._connected():
            done = as_completed(loop=self.client.loop)
            try:
                while True:
                    while len(running) < limit and (entry := next(waiting, None)) is not None:
                        (future,) = self._submit(function, [entry[1]], shared)
                        running[future] = entry
                        done.add(future)
                    if not running:
                        return
                    future = next(done)
                    if future.status == "error":
                        self._fail(future, [(f, task) for f, (_, task) in running.items()])
                    index, _ = running.pop(future)
                    yield index, future.result()
            finally:
                self._cancel(list(running))

    def sum(
        self, function: Callable[..., list[FloatArray]], tasks: Sequence[Ranges], **shared: Any
    ) -> list[FloatArray]:
        """Return the sum of ``function(rows, job, **shared)`` over batches of the tasks' rows.

        Workers add the results; only the total is sent to the client.
        """
        with self._connected():
            first = self._submit(sum_over_batches, tasks, {"compute": function, **shared})
            futures, level = list(first), first
            while len(level) > 1:
                groups = [level[k : k + _FAN_IN] for k in range(0, len(level), _FAN_IN)]
                level = self.client.map(tree_sum, groups, key=[_new_key() for _ in groups])
                futures += level
            try:
                if level[0].exception() is not None:
                    self._fail(level[0], list(zip(first, tasks, strict=True)))
                total: list[FloatArray] = level[0].result()
                return total
            except BaseException:
                self._cancel(futures)
                raise

    def split(self, begin: int, end: int, ranges: Callable[[int, int], Ranges]) -> list[Ranges]:
        """Cut positions ``begin`` to ``end`` of an order of the rows into the tasks of a sum.

        ``ranges`` gives the row numbers at some positions.
        """
        size = self.rows_per_task(end - begin)
        return [ranges(first, min(first + size, end)) for first in range(begin, end, size)]

    def rows_per_task(self, n_rows: int) -> int:
        """Return the size of tasks for a number of rows: a power of two of blocks.

        It depends on the number of threads of the cluster; the bits of a sum do not depend on it.
        """
        n_tasks, size = _TASKS_PER_THREAD * self.n_threads(), _MIN_ROWS_OF_TASK
        while n_rows >= 2 * size * n_tasks:
            size *= 2
        return size

    def n_threads(self) -> int:
        """Return the number of threads of all workers, at least one."""
        with self._connected():
            return max(1, sum(map(int, self.client.nthreads().values())))

    def identity(self) -> bytes:
        """Return the identity of the rows: their number, and the content of the first chunk."""
        first = [self.job.reader.chunk_range(int(self.job.reader.filled[0]))]
        ((_, found),) = self.map_tasks(apply_to_chunk, iter([first]), compute=_identity)
        return f"{self.n_rows} rows".encode() + bytes(found)

    # ---- private

    def _submit(
        self, function: Callable[..., Any], tasks: Sequence[Ranges], shared: dict[str, Any]
    ) -> list[Any]:
        futures: list[Any] = self.client.map(
            function,
            tasks,
            key=[_new_key() for _ in tasks],
            retries=_RETRIES,
            job=self._shared_job,
            **shared,
        )
        return futures

    def _fail(self, future: Any, tasks: Sequence[tuple[Any, Ranges]]) -> NoReturn:
        """Raise the error of a future; ``tasks`` are submitted tasks with their futures."""
        error = future.exception()
        if isinstance(error, NoisyOrError):
            raise error
        if type(error).__name__ == "KilledWorker":
            # Dask also blames tasks that were waiting on the same worker.
            blamed = [self.job.reader.describe(task) for f, task in tasks if f.status == "error"]
            raise ClusterError(
                f"{', '.join(blamed[:3])}: every worker that held this task died; it crashes the "
                "process or needs more memory than a worker has"
            )
        if isinstance(error, ImportError | AttributeError):
            raise ClusterError(
                f"workers cannot load the data sent to them: {error}. Define your own classes in a "
                "module that workers can import"
            )
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, OSError) and error.strerror:
            reason = f"{error.strerror}: {error.filename or ''}".strip(": ")
        raise ClusterError(f"a worker failed: {reason}")

    def _cancel(self, futures: list[Any]) -> None:
        if futures and self.client.status == "running":
            self.client.cancel(futures, force=True)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Raise `ClusterError` if the scheduler cannot be reached."""
        try:
            if self.client.status != "running":
                raise ConnectionError("the client is closed")
            yield
        except NoisyOrError:
            raise
        except (CancelledError, OSError) as error:
            raise ClusterError("the connection to the scheduler is lost") from error


def _new_key() -> str:
    return f"noisyor-{uuid.uuid4().hex}"


def apply_to_chunk(task: Ranges, job: Job, compute: Callable[..., T], **shared: Any) -> T:
    """Task: apply a function to one chunk of rows."""
    return compute(job.reader.chunk(job.reader.chunks_of(task)[0]), job, **shared)


def sum_over_batches(
    task: Ranges, job: Job, compute: Callable[..., list[FloatArray]], **shared: Any
) -> list[FloatArray]:
    """Task: add up a function over batches of rows."""
    total = TreeSum()
    for rows in job.reader.batches(task, ROWS_AT_ONCE):
        total.add(compute(rows, job, **shared))
    return total.result()


def _identity(rows: Observations, job: Job) -> bytes:
    return rows_identity(rows)


def open_session(
    client: Any, network: Network | None, rows: Any, *, engine: EngineLike = "auto", **job: Any
) -> Session:
    """Open rows on a cluster; ``job`` as in `Job`."""
    try:
        import distributed
    except ImportError:
        raise MissingExtraError.of("clusters need Dask", "dask") from None
    if not isinstance(client, distributed.Client) or client.asynchronous:
        raise ClusterError(
            "client must be a distributed.Client that is not asynchronous, "
            f"got {type(client).__name__}"
        )
    reader = reader_of(rows, None if network is None else network.n_visible)
    if isinstance(engine, str):
        engine = get_engine(engine, n_threads=1)  # because Dask runs a task on every thread
    return Session(client, Job(network, reader, engine, **job))
