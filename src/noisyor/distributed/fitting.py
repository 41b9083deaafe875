"""Fit estimators on a cluster: a sample of the rows, and restarts of a search.

Training on all rows is `noisyor.distributed.train`. `NoisyOrEstimator.fit` puts the steps together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from noisyor._util.validation import check_seed
from noisyor.data.observations import Observations
from noisyor.distributed.chunks import TaskRows, is_for_cluster, joined
from noisyor.distributed.cluster import Cluster
from noisyor.distributed.session import (
    ROWS_AT_ONCE,
    ClusterSettings,
    Job,
    open_session,
    task_engine,
)
from noisyor.engines.context import Context
from noisyor.engines.contract import EngineLike
from noisyor.search.cover import Cover
from noisyor.search.factors import FoundFactors, SearchSettings, Start, Starts, search_rows

_SAMPLE_ENTRIES, _MIN_SAMPLE_ROWS = 2**19, 5_000
"""Entries of a sample of rows, approximately, and its smallest number of rows."""


def fetch_sample(
    client: Any, rows: Any, seed: int, *, exact: bool = True, timeout: float = 60.0
) -> Observations:
    """Let workers read a random sample of rows: about half a million entries, or all rows."""
    check_seed(seed)
    with open_session(client, None, rows, ClusterSettings("auto", exact, timeout)) as session:
        n_rows = session.rows.n_rows
        size = max(_MIN_SAMPLE_ROWS, _SAMPLE_ENTRIES // session.rows.reader.n_visible)
        if n_rows > size:
            chosen = np.sort(np.random.default_rng(seed).choice(n_rows, size, replace=False))
        else:
            chosen = np.arange(n_rows)
        task_of_row = chosen // session.rows_per_task(n_rows)
        groups = np.split(chosen, np.flatnonzero(np.diff(task_of_row)) + 1)
        tasks = (session.rows.select([(row, row + 1) for row in g.tolist()]) for g in groups)
        parts = dict(session.cluster.map(read_rows, tasks, session.job))
        return joined([parts[index] for index in range(len(groups))])


def count_rows(
    client: Any, rows: Any, *, exact: bool = True, timeout: float = 60.0
) -> tuple[int, int]:
    """Return the number of rows and of chunks."""
    with open_session(client, None, rows, ClusterSettings("auto", exact, timeout)) as session:
        return session.rows.n_rows, len(session.rows.reader.sizes)


def read_rows(task: TaskRows, job: Job) -> Observations:
    """Task: return rows of a sample."""
    job.check_fingerprint()
    return joined(list(job.reader.batches(task, ROWS_AT_ONCE)))


# ---- the search for factors


def search_factors(
    client: Any,
    rows: Any,
    n_components: int | Literal["auto"],
    *,
    n_restarts: int = 12,
    patience: int | None = None,
    objective: Literal["mdl", "hamming"] = "mdl",
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
    exact: bool = True,
    timeout: float = 60.0,
) -> FoundFactors:
    """Find sets of columns that switch on together; the restarts run on a cluster in parallel.

    Parameters
    ----------
    client, engine, exact, timeout : as in `noisyor.distributed.train`.
    rows : rows in memory, in any form that `Observations.of` takes, or as in
        `noisyor.distributed.train`. In the second case workers read a sample of half a million
        entries, or of 5,000 rows if that is more, and the search uses the sample.
    n_components, n_restarts, patience, objective, seed, progress : as in
        `noisyor.search.search_factors`.

    Returns
    -------
    What `noisyor.search.search_factors` finds in the same rows, with the same bits. For a sample,
    ``rows`` are indices into the sample.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> from distributed import Client
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 10, axis=0)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     found = nor.distributed.search_factors(client, X, 2, n_restarts=2)
    >>> found.factors.shape, found.errors
    ((2, 4), 0)
    """
    if is_for_cluster(rows):
        observations = fetch_sample(client, rows, seed, exact=exact, timeout=timeout)
    else:
        observations = Observations.of(rows)
    cluster = Cluster(client, timeout)
    settings = SearchSettings(n_components, n_restarts, patience, objective)
    context = Context.of(task_engine(engine), seed, progress, ["search"])
    return search_rows(
        observations, settings, context, lambda starts: _StartsOnCluster(cluster, starts)
    )


_Request = tuple[Start, int, int]
"""Arguments of `Starts.start`."""


class _SearchJob(NamedTuple):
    """What the tasks of a search share."""

    starts: Starts

    def describe(self, task: _Request) -> str:
        return f"restart {task[1]} of the search"


class _StartsOnCluster:
    """Starts of a search, of which as many as the cluster has threads are computed ahead."""

    def __init__(self, cluster: Cluster, starts: Starts) -> None:
        self._cluster, self._job = cluster, cluster.share(_SearchJob(starts))
        self._announced: list[_Request] = []
        self._finished: dict[_Request, Cover] = {}
        self._running: Iterator[tuple[int, Cover]] = iter(())

    def announce(self, requests: Sequence[_Request]) -> None:
        """Compute starts ahead, in the order in which they will probably be needed."""
        self._announced = list(dict.fromkeys(requests))
        self._finished.clear()
        self._running = self._cluster.map(
            run_start, self._announced, self._job, max_running=self._cluster.workers.n_threads
        )

    def start(self, start: Start, number: int, max_components: int) -> Cover:
        """Return the cover that a start finds, see `Starts.start`."""
        request = (start, number, max_components)
        if request not in self._announced:
            return self._cluster.run(run_start, request, self._job)
        while request not in self._finished:
            index, cover = next(self._running)
            self._finished[self._announced[index]] = cover
        return self._finished[request]


def run_start(task: _Request, job: _SearchJob) -> Cover:
    """Task: compute one start of a search."""
    return job.starts.start(*task)
