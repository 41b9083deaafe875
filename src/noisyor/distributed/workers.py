"""Who of a cluster is there: workers that come, go, and fall silent."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future as Outcome
from typing import Any, NoReturn, TypeVar

from noisyor._util.validation import POSITIVE
from noisyor.errors import ClusterError, MissingExtraError

__all__ = ["Again", "Workers"]

T = TypeVar("T")

_SETTLED = 3.0
"""Seconds that a worker takes to start: Dask does not start one again that dies meanwhile."""

_PATIENCE = 5
"""Timeouts for which a cluster may have no worker at all."""


class Again(Exception):  # noqa: N818  no error, a turn of a loop
    """What was sent is gone, or waits for a worker that is silent: send it again."""


class Workers:
    """The workers of a client.

    Parameters
    ----------
    client : a ``distributed.Client`` that is not asynchronous.
    timeout : seconds after which a worker that does not report is left alone.

    Attributes
    ----------
    generation : grows whenever what was sent before may be gone.
    """

    def __init__(self, client: Any, timeout: float) -> None:
        try:
            import distributed
        except ImportError:
            raise MissingExtraError.of("clusters need Dask", "dask") from None
        if not isinstance(client, distributed.Client) or client.asynchronous:
            raise ClusterError(
                "client must be a distributed.Client that is not asynchronous, "
                f"got {type(client).__name__}"
            )
        POSITIVE.check("timeout", timeout)
        self.client, self.timeout, self.generation = client, float(timeout), 0
        self._silent = set[str]()
        self._given_to: list[str] | None = None
        self._since: dict[str, float] = {}
        self._alone_since: float | None = None

    def present(self) -> dict[str, Any]:
        """What the scheduler says of each worker."""
        if self.client.status != "running":
            raise ClusterError("the connection to the scheduler is lost")
        try:
            # Some versions of Dask speak of five workers only if not asked for all.
            told = self.within(lambda: self.client.scheduler_info(n_workers=-1))
        except (TimeoutError, OSError) as error:
            raise ClusterError("the scheduler does not answer") from error
        found: dict[str, Any] = told["workers"]
        now = time.monotonic() if self._since else -math.inf  # those of the first look are old
        self._since = {name: self._since.get(name, now) for name in found}
        return found

    @property
    def n_threads(self) -> int:
        """Threads of all workers, at least one."""
        return max(1, sum(int(each["nthreads"]) for each in self.present().values()))

    def awake(self) -> list[str]:
        """Workers that have not fallen silent."""
        return [name for name in self.present() if name not in self._silent]

    def settled(self) -> list[str] | None:
        """Workers that have been here for a while; None if there is none."""
        now, awake = time.monotonic(), self.awake()
        return [name for name in awake if now - self._since[name] >= _SETTLED] or None

    def places(self) -> list[str] | None:
        """Workers that may be given work; None for all."""
        self._given_to = (self.awake() or None) if self._silent else None
        return self._given_to

    def look(self) -> None:
        """Go on without those that have fallen silent since the last time: `Again` if there are."""
        seen = {name: float(each["last_seen"]) for name, each in self.present().items()}
        if not seen:
            self._be_patient()
            return
        self._alone_since = None
        latest = max(seen.values())
        silent = {name for name, last in seen.items() if latest - last > self.timeout}
        new = silent - self._silent
        self._silent = silent
        # Work that was given to some workers only waits for ever when these have gone.
        if new or (self._given_to is not None and not set(self._given_to) & (set(seen) - silent)):
            self.generation += 1
            raise Again

    def wait(self) -> None:
        """Wait until there is a worker, but not for ever."""
        while not self.present():
            self._be_patient()
            time.sleep(0.5)
        self._alone_since = None

    def lost(self) -> NoReturn:
        """What was sent is gone, for the scheduler has lost it or a worker has."""
        self.look()
        self.generation += 1
        raise Again

    def within(self, function: Callable[[], T]) -> T:
        """The result of a call that may hang; TimeoutError if it takes longer than a timeout."""
        outcome: Outcome[T] = Outcome()

        def work() -> None:
            try:
                outcome.set_result(function())
            except BaseException as error:
                outcome.set_exception(error)

        threading.Thread(target=work, daemon=True, name="noisyor-cluster").start()
        return outcome.result(self.timeout)

    def _be_patient(self) -> None:
        """There is no worker: give up after a while."""
        now = time.monotonic()
        self._alone_since = now if self._alone_since is None else self._alone_since
        patience = _PATIENCE * self.timeout
        if now - self._alone_since > patience:
            raise ClusterError(f"the cluster has had no worker for {patience:.0f} seconds")
