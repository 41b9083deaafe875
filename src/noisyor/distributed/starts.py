"""The search for factors on a cluster: starts do not need each other, so they run at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Literal

from noisyor._util.validation import check_seed
from noisyor.data.observations import Observations
from noisyor.distributed.chunks import is_for_cluster
from noisyor.distributed.driver import Cluster, Pending
from noisyor.distributed.session import OnCluster, engine_of_tasks, session
from noisyor.distributed.tasks import count_rows
from noisyor.engines.context import Context
from noisyor.engines.contract import EngineLike
from noisyor.search.cover import Cover
from noisyor.search.factors import FoundFactors, SearchSettings, Start, Starts, search_rows

__all__ = ["count_chunks", "fetch_sample", "search_factors"]

_ENTRIES, _FEWEST_ROWS = 2**19, 5_000
"""Entries that a sample of rows has about, and rows that it has at least."""


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
    """Find sets of columns that switch on together, with starts that run on a cluster at once.

    Parameters
    ----------
    client, engine, exact, timeout : as in `noisyor.distributed.train`.
    rows : rows in memory, in any form that `Observations.of` takes, or as in
        `noisyor.distributed.train`: workers fetch a sample of these then, of half a million entries
        or 5,000 rows, and the search sees that.
    n_components, n_restarts, patience, objective, seed, progress : as in
        `noisyor.search.search_factors`.

    Returns
    -------
    What `noisyor.search.search_factors` finds in the same rows, to the last bit. Of a sample,
    ``rows`` are numbers within the sample.

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
    context = Context.of(engine_of_tasks(engine), seed, progress, ["search"])
    return search_rows(
        observations, settings, context, lambda starts: _StartsOnCluster(cluster, starts)
    )


def fetch_sample(
    client: Any, rows: Any, seed: int, *, exact: bool = True, timeout: float = 60.0
) -> Observations:
    """A random sample of rows that workers fetch: all rows if they are few."""
    with session(client, None, rows, OnCluster(exact=exact, timeout=timeout)) as opened:
        count = max(_FEWEST_ROWS, _ENTRIES // opened.rows.reader.n_visible)
        return opened.sample(count, check_seed(seed))


def count_chunks(
    client: Any, rows: Any, *, exact: bool = True, timeout: float = 60.0
) -> dict[int, tuple[int, int, int, str]]:
    """Of every chunk that has rows: how many, their ones and missing entries, and a fingerprint."""
    with session(client, None, rows, OnCluster(exact=exact, timeout=timeout)) as opened:
        return dict(opened.cluster.each(count_rows, opened.rows.chunk_items(), opened.job))


_Request = tuple[Start, int, int]
"""Arguments of `Starts.start`."""


class _StartsOnCluster:
    """Starts that are begun before they are asked for, as many as the cluster has threads."""

    def __init__(self, cluster: Cluster, starts: Starts) -> None:
        self._cluster, self._starts = cluster, cluster.share(starts)
        self._coming: deque[_Request] = deque()
        self._begun: dict[_Request, Pending[Cover]] = {}

    def announce(self, requests: Sequence[_Request]) -> None:
        self._coming = deque(requests)
        self._begun.clear()
        self._begin_more()

    def start(self, start: Start, number: int, max_components: int) -> Cover:
        request = (start, number, max_components)
        pending = self._begun.pop(request, None)
        if pending is None:
            pending = self._cluster.begin(run_start, request, self._starts)
            pending.send()
        self._begin_more()
        return pending.result()

    def _begin_more(self) -> None:
        while self._coming and len(self._begun) < self._cluster.workers.n_threads:
            request = self._coming.popleft()
            if request not in self._begun:
                self._begun[request] = self._cluster.begin(run_start, request, self._starts)
                self._begun[request].send()


def run_start(item: Sequence[Any], job: Starts) -> Cover:
    """Task: one start of a search."""
    return job.start(*item)
