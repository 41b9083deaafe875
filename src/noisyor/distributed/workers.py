"""Keep track of the workers of a Dask cluster as they join, leave or stop responding.

Dask notices by itself when the process of a worker ends. It does not give up a worker that is
stopped or cut off from the network until much later, if at all: `Workers` does, after a timeout.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NoReturn, TypeVar

from noisyor._util.validation import POSITIVE
from noisyor.errors import ClusterError, MissingExtraError

T = TypeVar("T")

_STARTUP_SECONDS = 3.0
"""Time a worker needs to start. Dask does not restart a worker that dies before that."""

_MAX_TIMEOUTS_WITHOUT_WORKERS = 5
"""Timeouts after which a cluster without any worker is given up."""


def import_dask() -> tuple[Any, Any]:
    """Return the modules ``dask`` and ``distributed``, or raise an error that names the extra."""
    try:
        import dask

        import distributed
    except ImportError:
        raise MissingExtraError.of("clusters need Dask", "dask") from None
    return dask, distributed


class RetrySignal(Exception):  # noqa: N818  control flow, not an error
    """Submitted work is lost, or waits for a worker that does not respond: submit it again."""


class Workers:
    """The workers of a client, and which of them respond.

    Parameters
    ----------
    client : a ``distributed.Client`` that is not asynchronous.
    timeout : seconds without a heartbeat after which a worker gets no more work.

    Attributes
    ----------
    generation : increases whenever data sent earlier may be lost.
    """

    def __init__(self, client: Any, timeout: float) -> None:
        _, distributed = import_dask()
        if not isinstance(client, distributed.Client) or client.asynchronous:
            raise ClusterError(
                "client must be a distributed.Client that is not asynchronous, "
                f"got {type(client).__name__}"
            )
        POSITIVE.check("timeout", timeout)
        self.client, self.timeout, self.generation = client, float(timeout), 0
        self._silent = set[str]()
        self._restricted_to: list[str] | None = None
        self._first_seen: dict[str, float] = {}
        self._without_workers_since: float | None = None

    def info(self) -> dict[str, Any]:
        """Return what the scheduler knows of each worker, by address."""
        if self.client.status != "running":
            raise ClusterError("the connection to the scheduler is lost")
        try:
            # Some versions of Dask list only five workers unless asked for all.
            answer = self.call(lambda: self.client.scheduler_info(n_workers=-1))
        except (TimeoutError, OSError) as error:
            raise ClusterError("the scheduler does not answer") from error
        found: dict[str, Any] = answer["workers"]
        # Workers of the first call may have been there for any time.
        now = time.monotonic() if self._first_seen else -math.inf
        self._first_seen = {address: self._first_seen.get(address, now) for address in found}
        return found

    @property
    def n_threads(self) -> int:
        """Number of threads of all workers, at least one."""
        return max(1, sum(int(each["nthreads"]) for each in self.info().values()))

    def responding(self) -> list[str]:
        """Return the addresses of the workers that respond."""
        return [address for address in self.info() if address not in self._silent]

    def ready(self) -> list[str] | None:
        """Return the addresses of responding workers that have finished starting; None if none."""
        now, addresses = time.monotonic(), self.responding()
        return [a for a in addresses if now - self._first_seen[a] >= _STARTUP_SECONDS] or None

    def addresses(self) -> list[str] | None:
        """Return the workers that new tasks may run on; None if there is no restriction."""
        self._restricted_to = (self.responding() or None) if self._silent else None
        return self._restricted_to

    def check(self) -> None:
        """Raise `RetrySignal` if workers stopped responding since the last check."""
        seen = {address: float(each["last_seen"]) for address, each in self.info().items()}
        if not seen:
            self._check_patience()
            return
        self._without_workers_since = None
        latest = max(seen.values())
        silent = {address for address, last in seen.items() if latest - last > self.timeout}
        new, self._silent = silent - self._silent, silent
        # Tasks restricted to workers that have all left would wait forever.
        stranded = self._restricted_to is not None and not (
            set(self._restricted_to) & (set(seen) - silent)
        )
        if new or stranded:
            self.generation += 1
            raise RetrySignal

    def wait_for_one(self) -> None:
        """Wait until the cluster has a worker, for five timeouts at most."""
        while not self.info():
            self._check_patience()
            time.sleep(0.5)
        self._without_workers_since = None

    def report_loss(self) -> NoReturn:
        """Raise `RetrySignal`: the scheduler or a worker has lost submitted work."""
        self.check()
        self.generation += 1
        raise RetrySignal

    def call(self, function: Callable[[], T]) -> T:
        """Return the result of a call that may hang; raise TimeoutError after the timeout."""
        outcome: Future[T] = Future()

        def work() -> None:
            try:
                outcome.set_result(function())
            except BaseException as error:
                outcome.set_exception(error)

        threading.Thread(target=work, daemon=True, name="noisyor-cluster").start()
        return outcome.result(self.timeout)

    def _check_patience(self) -> None:
        """Raise an error if the cluster has had no worker for too long."""
        now, limit = time.monotonic(), _MAX_TIMEOUTS_WITHOUT_WORKERS * self.timeout
        if self._without_workers_since is None:
            self._without_workers_since = now
        if now - self._without_workers_since > limit:
            raise ClusterError(f"the cluster has had no worker for {limit:.0f} seconds")
