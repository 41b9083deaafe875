"""Connect to a Dask cluster, and keep track of its workers as they join, leave or stop responding.

Dask notices by itself when the process of a worker ends. It does not give up a worker that is
stopped or cut off from the network until much later, if at all: `Workers` does, after a timeout.
"""

from __future__ import annotations

import math
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any, NoReturn, TypeVar

from noisyor._util.validation import POSITIVE
from noisyor.errors import ClusterError, InvalidSettingError, MissingExtraError

T = TypeVar("T")

QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.worker.memory.monitor-interval": "500ms",
}
"""Dask settings for workers started by `connect`, which make Dask monitor itself less often.

By default Dask profiles every thread 100 times a second, checks every event loop 50 times and the
memory 10 times, which takes six times the CPU time of all its other work.
"""

_STARTUP_SECONDS = 3.0
"""Time a worker needs to start. Dask does not restart a worker that dies before that."""

_MAX_TIMEOUTS_WITHOUT_WORKERS = 5
"""How long a cluster may have no worker at all, in timeouts."""


def connect(where: str, *, timeout: float = 30.0) -> Any:
    """Return a ``distributed.Client`` for a running scheduler, or for workers started here.

    Parameters
    ----------
    where : the address of a scheduler such as ``"tcp://10.0.0.1:8786"``, or ``"local:4"`` to start
        four workers with one thread each on this machine, which stop when the client is closed.
    timeout : seconds to wait for the scheduler.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.distributed.connect("somewhere")
    Traceback (most recent call last):
        ...
    noisyor.errors.InvalidSettingError: a cluster must be local:N or the address of a scheduler such
    as tcp://10.0.0.1:8786, got 'somewhere'
    """
    dask, distributed = import_dask()
    local = re.fullmatch(r"local:([1-9][0-9]{0,3})", where)
    if local:
        with dask.config.set(QUIET), _interrupts_blocked():
            return distributed.Client(
                n_workers=int(local[1]),
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
                set_as_default=False,
            )
    if not re.fullmatch(r"(tcp|tls|ws|wss)://\S+", where):
        raise InvalidSettingError(
            "a cluster must be local:N or the address of a scheduler such as tcp://10.0.0.1:8786, "
            f"got {where!r}"
        )
    try:
        return distributed.Client(where, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(f"no scheduler answers at {where}: {error}") from error


def import_dask() -> tuple[Any, Any]:
    """Return the modules ``dask`` and ``distributed``, or say which extra to install."""
    try:
        import dask

        import distributed
    except ImportError:
        raise MissingExtraError.of("clusters need Dask", "dask") from None
    return dask, distributed


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Let threads and processes that are started inside the context ignore Ctrl-C.

    A terminal sends Ctrl-C to every process. The client stops its workers itself; a worker that
    received the signal too would only print a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):  # not on Windows
        yield
        return
    resource_tracker.ensure_running()  # started later, it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
