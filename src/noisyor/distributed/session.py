"""One run on a cluster: its rows, and a job that all tasks share.

A `Session` offers the two operations that all functions on clusters are made of: `Session.map`
applies a function to every chunk of rows, `Session.sum` adds up a function over ranges of rows in
the fixed tree of `noisyor.engines.reduction`.

Sums have a fixed order, and noise is keyed by row numbers. So results have the same bits for any
number of workers, as long as all workers have the same processors and library versions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from noisyor._util.arrays import FloatArray
from noisyor._util.progress import progress_bar
from noisyor.data.observations import Observations
from noisyor.distributed.chunks import ClusterRows, Ranges, Reader, TaskRows
from noisyor.distributed.cluster import Cluster, SharedValue
from noisyor.engines.contract import EngineLike
from noisyor.engines.reduction import ROWS_OF_BLOCK, TreeSum
from noisyor.engines.registry import get_engine
from noisyor.inference.method import Method
from noisyor.learning.state import rows_identity
from noisyor.model.network import Network

T = TypeVar("T")

ROWS_AT_ONCE = 16 * ROWS_OF_BLOCK
"""Rows that a task of a sum has in memory; a power of two of blocks, so a node of the tree."""

_TASKS_PER_THREAD = 8
"""Tasks of a sum for each thread of the cluster, so that all threads finish at about one time."""

_MIN_ROWS_OF_TASK = 8 * ROWS_OF_BLOCK


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

    def describe(self, task: TaskRows) -> str:
        """Return the chunks and rows of a task, for error messages."""
        return self.reader.describe(task)


class Session(NamedTuple):
    """A cluster, its rows, and the job that tasks share."""

    cluster: Cluster
    rows: ClusterRows
    job: SharedValue

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
        reader, found = self.rows.reader, dict[int, T]()
        chunks = [index for index in reader.filled.tolist() if index not in skip]
        with progress_bar(self.rows.n_rows, "cluster", "rows", progress) as bar:
            bar.update(self.rows.n_rows - sum(reader.sizes[index] for index in chunks))
            tasks = (self.rows.select_chunk(index) for index in chunks)
            for index, result in self.cluster.map(
                apply_to_chunk, tasks, self.job, compute=function, **shared
            ):
                found[index] = result
                bar.update(reader.sizes[chunks[index]])
        return [found[index] for index in range(len(chunks))]

    def sum(
        self, function: Callable[..., list[FloatArray]], tasks: Sequence[TaskRows], **shared: Any
    ) -> list[FloatArray]:
        """Return the sum of ``function(rows, job, **shared)`` over batches of the tasks' rows."""
        return self.cluster.sum(sum_over_batches, tasks, self.job, compute=function, **shared)

    def split(self, begin: int, end: int, ranges: Callable[[int, int], Ranges]) -> list[TaskRows]:
        """Cut positions ``begin`` to ``end`` of an order of the rows into the tasks of a sum.

        ``ranges`` gives the row numbers at some positions.
        """
        size = self.rows_per_task(end - begin)
        return [
            self.rows.select(ranges(first, min(first + size, end)), keep=True)
            for first in range(begin, end, size)
        ]

    def rows_per_task(self, n_rows: int) -> int:
        """Return the size of tasks for a number of rows: a power of two of blocks.

        It depends on the number of threads of the cluster; the bits of a sum do not depend on it.
        """
        n_tasks, size = _TASKS_PER_THREAD * self.cluster.workers.n_threads, _MIN_ROWS_OF_TASK
        while n_rows >= 2 * size * n_tasks:
            size *= 2
        return size

    def identity(self) -> bytes:
        """Return what identifies the rows: their number, and the content of the first chunk."""
        first = self.rows.select_chunk(int(self.rows.reader.filled[0]))
        found: bytes = self.cluster.run(apply_to_chunk, first, self.job, compute=_identity)
        return f"{self.rows.n_rows} rows".encode() + found


def apply_to_chunk(task: TaskRows, job: Job, compute: Callable[..., T], **shared: Any) -> T:
    """Task: apply a function to one chunk of rows."""
    return compute(job.reader.whole_chunk(task), job, **shared)


def sum_over_batches(
    task: TaskRows, job: Job, compute: Callable[..., list[FloatArray]], **shared: Any
) -> list[FloatArray]:
    """Task: add up a function over batches of rows."""
    total = TreeSum()
    for rows in job.reader.batches(task, ROWS_AT_ONCE):
        total.add(compute(rows, job, **shared))
    return total.result()


def _identity(rows: Observations, job: Job) -> bytes:
    return rows_identity(rows)


@contextmanager
def open_session(
    client: Any,
    network: Network | None,
    rows: Any,
    *,
    engine: EngineLike = "auto",
    timeout: float = 60.0,
    **job: Any,
) -> Iterator[Session]:
    """Open rows on a cluster; ``job`` as in `Job`."""
    cluster = Cluster(client, timeout)
    known = ClusterRows(client, rows, None if network is None else network.n_visible)
    if isinstance(engine, str):
        engine = get_engine(engine, n_threads=1)  # because Dask runs a task on every thread
    try:
        yield Session(cluster, known, cluster.share(Job(network, known.reader, engine, **job)))
    finally:
        known.forget()
