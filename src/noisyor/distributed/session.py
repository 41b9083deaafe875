"""One run on a cluster: rows, a job that all tasks share, and workers that compute the same bits.

A `Session` offers the two operations that all functions on clusters are made of: `Session.map`
applies a function to every chunk of rows, `Session.sum` adds up a function over ranges of rows in
the fixed tree of `noisyor.engines.reduction`.

Sums have a fixed order, and noise is keyed by row numbers. What is left is how a machine rounds: a
different processor, compiler or library version may differ in the last bit of a single number. So
every worker solves a small problem first, and its results are compared with those of the client.
"""

from __future__ import annotations

import hashlib
import platform
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from typing import Any, NamedTuple, TypeVar

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.progress import progress_bar
from noisyor._version import __version__
from noisyor.data.observations import Observations
from noisyor.distributed.chunks import ClusterRows, Ranges, Reader, TaskRows
from noisyor.distributed.cluster import Cluster, SharedValue
from noisyor.engines.contract import EngineLike, Evidence, NoiseKey
from noisyor.engines.noise import combine, uniform
from noisyor.engines.reduction import ROWS_OF_BLOCK, TreeSum
from noisyor.engines.registry import Runner, get_engine
from noisyor.errors import ClusterError
from noisyor.inference.method import Method
from noisyor.learning.state import rows_identity
from noisyor.model.builders import bipartite
from noisyor.model.network import Network

T = TypeVar("T")

ROWS_AT_ONCE = 16 * ROWS_OF_BLOCK
"""Rows that a task of a sum has in memory; a power of two of blocks, so a node of the tree."""

_TASKS_PER_THREAD = 8
"""Tasks of a sum for each thread of the cluster, so that all threads finish at about one time."""

_MIN_ROWS_OF_TASK = 8 * ROWS_OF_BLOCK


class ClusterSettings(NamedTuple):
    """Settings that all functions on clusters share, see `noisyor.distributed.train`."""

    engine: EngineLike = "auto"
    exact: bool = True
    timeout: float = 60.0


@dataclass(frozen=True, eq=False)
class Job:
    """What all tasks of a run share; sent to the cluster once.

    Attributes
    ----------
    network : None where rows are only read.
    reader : reads rows on a worker.
    engine, method, seed : as in `noisyor.explain`.
    sampling : whether tasks run Gibbs sweeps.
    fingerprint : the `numeric_fingerprint` that workers must have; None accepts any.
    """

    network: Network | None
    reader: Reader
    engine: EngineLike
    method: Method | None = None
    seed: int = 0
    sampling: bool = False
    fingerprint: str | None = None

    def network_at(self, theta: FloatArray | None = None) -> Network:
        """Return the network, with the parameters ``theta`` (n_params,) if given."""
        assert self.network is not None
        # A worker keeps the job, and with it what engines derive from the graph.
        return self.network if theta is None else self.network.with_theta(theta)

    def check_fingerprint(self) -> None:
        """Raise an error in a process that computes other bits than the client."""
        if self.fingerprint is not None and self.fingerprint != numeric_fingerprint(
            self.method, self.engine, self.sampling
        ):
            raise ClusterError(f"{_describe_worker()} computes other bits than the client")

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
    job.check_fingerprint()
    return compute(job.reader.whole_chunk(task), job, **shared)


def sum_over_batches(
    task: TaskRows, job: Job, compute: Callable[..., list[FloatArray]], **shared: Any
) -> list[FloatArray]:
    """Task: add up a function over batches of rows."""
    job.check_fingerprint()
    total = TreeSum()
    for rows in job.reader.batches(task, ROWS_AT_ONCE):
        total.add(compute(rows, job, **shared))
    return total.result()


def _identity(rows: Observations, job: Job) -> bytes:
    return rows_identity(rows)


@contextmanager
def open_session(
    client: Any, network: Network | None, rows: Any, settings: ClusterSettings, **job: Any
) -> Iterator[Session]:
    """Open rows on a cluster whose workers compute the same bits; ``job`` as in `Job`."""
    cluster = Cluster(client, settings.timeout)
    known = ClusterRows(client, rows, None if network is None else network.n_visible)
    shared = Job(network, known.reader, task_engine(settings.engine), **job)
    fingerprint = _check_workers(cluster, shared, settings.exact)
    try:
        yield Session(cluster, known, cluster.share(replace(shared, fingerprint=fingerprint)))
    finally:
        known.forget()


def task_engine(engine: EngineLike) -> EngineLike:
    """Return the engine of tasks: one thread each, because Dask runs a task on every thread."""
    return get_engine(engine, n_threads=1) if isinstance(engine, str) else engine


# ---- whether machines compute the same bits


def _check_workers(cluster: Cluster, job: Job, exact: bool) -> str | None:
    """Compare all workers with this process; return the fingerprint they need, None for any.

    Workers that join later are checked by their first task.
    """
    arguments = (job.method, job.engine, job.sampling)
    mine = numeric_fingerprint(*arguments)
    answers = cluster.ask_all(_worker_fingerprint, *arguments)
    different = sorted(worker for fingerprint, worker in answers if fingerprint != mine)
    if different:
        message = (
            f"{'; '.join(different)} compute{'s' * (len(different) == 1)} other bits than this "
            f"process ({describe_machine()})"
        )
        if exact:
            raise ClusterError(
                f"{message}: results would depend on which worker computes what. Use the same "
                "processors and versions, or exact=False if the last digits do not matter"
            )
        warnings.warn(message, RuntimeWarning, stacklevel=5)
    return mine if exact else None


def _worker_fingerprint(
    method: Method | None, engine: EngineLike, sampling: bool
) -> tuple[str, str]:
    """Task: fingerprint and description of this worker."""
    return numeric_fingerprint(method, engine, sampling), _describe_worker()


_fingerprints: dict[tuple[str, str, bool], str] = {}


def numeric_fingerprint(method: Method | None, engine: EngineLike, sampling: bool = False) -> str:
    """Return a hash of results of this process: NumPy's functions and a gradient by the method.

    ``sampling`` adds a Gibbs sweep. It is computed once in a process.
    """
    key = (repr(method), engine if isinstance(engine, str) else engine.name, sampling)
    if key not in _fingerprints:
        digest = hashlib.sha256()
        for values in _sample_results(method, engine, sampling):
            digest.update(np.ascontiguousarray(values, dtype=np.float64).tobytes())
        _fingerprints[key] = digest.hexdigest()
    return _fingerprints[key]


def _sample_results(method: Method | None, engine: EngineLike, sampling: bool) -> Iterator[Any]:
    points = np.linspace(1e-6, 12.0, 2001)
    yield from (f(points) for f in (np.exp, np.log, np.expm1, np.log1p, np.sqrt))
    yield from (np.exp(-points), np.log(-np.expm1(-points)), points.sum(), points @ np.exp(-points))
    if method is None:
        return
    n_rows, n_visible, n_hidden = 40, 24, 6
    draw = uniform(combine(7, np.arange(n_visible * (n_hidden + n_rows))))
    failure, cells = np.split(draw, [n_visible * n_hidden])
    network = bipartite(
        n_visible,
        n_hidden,
        failure_probability=failure.reshape(n_hidden, n_visible),
        prior_probability=0.2,
        noise_probability=0.05,
    )
    rows = Observations.of(cells.reshape(n_rows, n_visible) < 0.3)
    yield from method.gradient(network, rows, seed=3, step=1, engine=engine)
    if sampling:
        states = np.zeros((n_rows, n_hidden), dtype=np.uint8)
        sampler, prepared = Runner(engine, network).on("gibbs_sweep")
        yield from sampler.gibbs_sweep(prepared, Evidence.of(network, rows), states, NoiseKey(3))


def _describe_worker() -> str:
    """Address and machine of the worker that runs this task."""
    from distributed import get_worker

    return f"worker {get_worker().address} ({describe_machine()})"


@lru_cache
def describe_machine() -> str:
    """Return the processor and the versions of this process on one line."""
    packages = [f"{name} {version(name)}" for name in ("numpy", "numba", "llvmlite")]
    python = f"Python {platform.python_version()}"
    return ", ".join([_processor(), python, f"noisyor {__version__}", *packages])


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            names = [line.partition(":")[2].strip() for line in stream if "model name" in line]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
