"""What every function on a cluster begins with: rows, a job, and workers that are alike."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from noisyor.data.observations import Observations
from noisyor.distributed.bits import bits_of, describe_machine
from noisyor.distributed.chunks import ClusterRows
from noisyor.distributed.driver import Cluster, Shared
from noisyor.distributed.tasks import Job, identify, look_at_bits, take_rows
from noisyor.engines.contract import EngineLike
from noisyor.engines.reduction import ROWS_OF_BLOCK
from noisyor.engines.registry import get_engine
from noisyor.errors import ClusterError
from noisyor.model.network import Network

__all__ = ["OnCluster", "Session", "engine_of_tasks", "session"]

_TASKS_PER_THREAD = 8
"""Tasks of a sum for each thread of the cluster, so that all end at about the same time."""

_FEWEST_ROWS_OF_TASK = 8 * ROWS_OF_BLOCK


class OnCluster(NamedTuple):
    """What every function on a cluster is told; see `noisyor.distributed.train`."""

    engine: EngineLike = "auto"
    exact: bool = True
    timeout: float = 60.0


class Session(NamedTuple):
    """A cluster, rows, and the job that its tasks share."""

    cluster: Cluster
    rows: ClusterRows
    job: Shared

    def first_chunk(self) -> bytes:
        """What identifies the rows: their number, and all of the first chunk."""
        found = self.cluster.one(identify, next(self.rows.chunk_items()), self.job)
        return f"{self.rows.n_rows} rows".encode() + found

    def task_rows(self, n_rows: int) -> int:
        """Rows of a task of a sum over so many: a power of two of blocks. No bit depends on it."""
        enough, size = _TASKS_PER_THREAD * self.cluster.workers.n_threads, _FEWEST_ROWS_OF_TASK
        while n_rows >= 2 * size * enough:
            size *= 2
        return size

    def sample(self, n_rows: int, seed: int) -> Observations:
        """Some rows, fetched by workers: all if they are so few, else drawn without repetition."""
        everything, size = self.rows.n_rows, self.task_rows(self.rows.n_rows)
        chosen = np.arange(everything)
        if everything > n_rows:
            drawn = np.random.default_rng(seed).choice(everything, n_rows, replace=False)
            chosen = np.sort(drawn)
        breaks = np.flatnonzero(np.diff(chosen // size)) + 1
        items = [
            self.rows.item([(int(row), int(row) + 1) for row in part])
            for part in np.split(chosen, breaks)
        ]
        parts = dict(self.cluster.each(take_rows, items, self.job))
        return Observations.concatenate([parts[number] for number in range(len(items))])


def engine_of_tasks(engine: EngineLike) -> EngineLike:
    """One given by name has one thread: Dask runs as many tasks on a worker as it has threads."""
    return get_engine(engine, n_threads=1) if isinstance(engine, str) else engine


@contextmanager
def session(
    client: Any,
    network: Network | None,
    rows: Any,
    how: OnCluster,
    **more: Any,
) -> Iterator[Session]:
    """Rows and a job on a cluster, once its workers have been tested; ``more`` goes to the job."""
    cluster = Cluster(client, how.timeout)
    known = ClusterRows(client, rows, None if network is None else network.n_visible)
    job = Job(network, known.reader, engine_of_tasks(how.engine), **more)
    job = replace(job, bits=_agreed_bits(cluster, job, how.exact))
    try:
        yield Session(cluster, known, cluster.share(job))
    finally:
        known.forget()


def _agreed_bits(cluster: Cluster, job: Job, exact: bool) -> str | None:
    """What workers must compute; None for anything. Those that are there are asked.

    Whoever joins later is tested by its first task.
    """
    asked = (job.method, job.engine, job.sampling)
    mine, found = bits_of(*asked), cluster.ask_all(look_at_bits, *asked)
    other = sorted(name for bits, name in found if bits != mine)
    if other:
        message = (
            f"{'; '.join(other)} compute{'s' * (len(other) == 1)} other bits than this process "
            f"({describe_machine()})"
        )
        if exact:
            raise ClusterError(
                f"{message}: results would depend on who computes what. Use machines and versions "
                "that agree, or exact=False if the last digits do not matter"
            )
        warnings.warn(message, RuntimeWarning, stacklevel=5)
    return mine if exact else None
