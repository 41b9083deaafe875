"""Tasks on a cluster, from the side of the client: sums in a fixed tree, results one by one.

Dask runs a task again whose worker has died. What is left to do here: values that were sent and are
gone with the workers that held them are sent again; a worker that has fallen silent (stopped, or
cut off) is not waited for; and whatever cannot be done ends in one error that says which rows.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import Future as Outcome
from contextlib import suppress
from typing import Any, Generic, TypeVar

from noisyor._util.arrays import FloatArray
from noisyor._util.validation import POSITIVE
from noisyor.distributed.bits import bits_of, describe_machine
from noisyor.distributed.chunks import Item
from noisyor.distributed.tasks import Job, add_up, look_at_bits
from noisyor.errors import ClusterError, MissingExtraError, NoisyOrError

__all__ = ["Cluster", "Pending", "Shared"]

T = TypeVar("T")

_FAN_IN = 8
"""Parts that one task adds up; a power of two, so that sums are nodes of the tree."""

_ATTEMPTS = 20
"""How often work is sent anew without any of it getting done."""

_ALONE = 3
"""Losses in a row after which tasks are asked one by one, and that a task alone is at fault for."""

_SETTLED = 3.0
"""Seconds that a worker takes to start: Dask does not start one again that dies meanwhile."""

_PATIENCE = 5
"""Timeouts for which a cluster may have no worker at all."""

_RETRIES = 2
"""How often a task is tried again that raised an error: shared storage hiccups."""


class _Again(Exception):  # noqa: N818  no error, a turn of a loop
    """What was sent is gone, or waits for a worker that is silent: send it again."""


class Shared:
    """A value that many tasks need: sent once, by itself and not with the tasks."""

    def __init__(self, cluster: Cluster, value: Any) -> None:
        self._cluster, self.value = cluster, value
        self._future: Any = None
        self._generation = -1

    def future(self) -> Any:
        """The value on the cluster; sent again if what was sent may be gone."""
        if self._future is None or self._generation != self._cluster.generation:
            self._future = self._cluster.send(self.value)
            self._generation = self._cluster.generation
        return self._future


class Pending(Generic[T]):
    """A task under way."""

    def __init__(
        self, cluster: Cluster, function: Callable[..., T], item: Any, job: Shared
    ) -> None:
        self._cluster, self._call, self._future = cluster, (function, item, job), None

    def send(self) -> None:
        """Send it, if it has not been sent."""
        if self._future is None:
            self._future = self._cluster.submit(*self._call, {})

    def result(self) -> T:
        """Its result, when it is there; sent again if it gets lost."""
        for _ in range(_ATTEMPTS):
            try:
                self.send()
                found: T = self._cluster.wait_for(self._future)
                return found
            except _Again:
                self._future = None
        raise ClusterError(f"gave up: what was sent was lost {_ATTEMPTS} times in a row")


class Cluster:
    """A client, watched over.

    Parameters
    ----------
    client : a ``distributed.Client`` that is not asynchronous.
    timeout : seconds after which a worker that does not report is left alone.
    """

    def __init__(self, client: Any, timeout: float = 60.0) -> None:
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
        self._dask, self.client, self.timeout = distributed, client, float(timeout)
        self.generation, self._silent = 0, set[str]()
        self._given_to: list[str] | None = None
        self._since: dict[str, float] = {}
        self._alone_since: float | None = None
        with suppress(_Again):
            self._look()

    # ---- what is sent

    def share(self, value: Any) -> Shared:
        """A value for many tasks."""
        return Shared(self, value)

    def send(self, value: Any) -> Any:
        """Send a value to one worker; the others get it from there."""
        for _ in range(_ATTEMPTS):
            while not self._workers():
                self._wait_for_workers()
                time.sleep(0.5)
            self._alone_since = None
            places = self._places()
            try:
                return self._within(
                    lambda: self.client.scatter(value, hash=False, workers=places)  # noqa: B023
                )
            except (TimeoutError, OSError, ValueError, KeyError):
                self._look()  # the worker has gone or fallen silent meanwhile: try others
        raise ClusterError("no worker takes what is sent to it")

    @property
    def n_threads(self) -> int:
        """Threads of all workers, at least one."""
        return max(1, sum(int(each["nthreads"]) for each in self._workers().values()))

    # ---- tests

    def check_bits(self, job: Job, exact: bool) -> None:
        """Compare what the workers compute with what this process does; refuse or warn."""
        asked = (job.method, job.engine, job.sampling)
        mine = bits_of(*asked)
        waiting = {
            self.client.submit(
                look_at_bits, *asked, pure=False, workers=[address], retries=1
            ): address
            for address in self._seen()
            if address not in self._silent
        }
        found, end = [], time.monotonic() + max(self.timeout, 60.0)
        # What joins, or comes back, later is tested by its first task.
        while waiting and time.monotonic() < end:
            with suppress(TimeoutError, CancelledError):
                self._done(list(waiting), 0.5, "ALL_COMPLETED")
            there = self._workers()
            for future, address in list(waiting.items()):
                if future.status == "finished":
                    with suppress(TimeoutError, CancelledError):  # its worker has gone
                        found.append(future.result(timeout=self.timeout))
                if future.status != "pending" or address not in there:
                    del waiting[future]
        other = sorted(name for bits, name in found if bits != mine)
        if not other:
            return
        message = (
            f"{'; '.join(other)} compute{'s' * (len(other) == 1)} other bits than this process "
            f"({describe_machine()})"
        )
        if exact:
            raise ClusterError(
                f"{message}: results would depend on who computes what. Use machines and versions "
                "that agree, or exact=False if the last digits do not matter"
            )
        warnings.warn(message, RuntimeWarning, stacklevel=4)

    # ---- work

    def sum(
        self,
        function: Callable[..., list[FloatArray]],
        items: Sequence[Item],
        job: Shared,
        **shared: Any,
    ) -> list[FloatArray]:
        """Sum of ``function(item, job=…, **shared)`` over the items, in the order of the tree.

        The items are nodes of the tree, one after another. Only the sum comes back.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            run = f"noisyor-{uuid.uuid4().hex}"
            futures: list[Any] = []
            try:
                sent = {name: _sent(value) for name, value in {"job": job, **shared}.items()}
                level = self.client.map(
                    function,
                    items,
                    key=[f"{run}-{number}" for number in range(len(items))],
                    retries=_RETRIES,
                    workers=self._places(),
                    **sent,
                )
                futures += level
                for depth in itertools.count():
                    if len(level) == 1:
                        break
                    groups = [level[n : n + _FAN_IN] for n in range(0, len(level), _FAN_IN)]
                    level = self.client.map(
                        add_up,
                        groups,
                        key=[f"{run}-sum-{depth}-{n}" for n in range(len(groups))],
                        workers=self._places(),
                    )
                    futures += level
                self._wait(level)
                found: list[FloatArray] = self._result(level[0])
                return found
            except self._dask.scheduler.KilledWorker:
                pairs = zip(futures, items, strict=False)  # sums follow the items
                suspects = [item for future, item in pairs if future.status == "error"]
                self._drop(futures)
                self._suspect(suspects, function, job, shared)
            except _Again:
                self._drop(futures)
                if attempt % _ALONE == 0:
                    self._suspect(items, function, job, shared)
        raise ClusterError(f"gave up: what was sent was lost {_ATTEMPTS} times in a row")

    def each(
        self,
        function: Callable[..., T],
        items: Iterable[Item],
        job: Shared,
        **shared: Any,
    ) -> Iterator[tuple[int, T]]:
        """Number and result of ``function(item, job=…, **shared)``, in the order of completion.

        A bounded number of them is under way at any time, so that memory does not grow with theirs.
        """
        coming, flying = enumerate(items), dict[Any, tuple[int, Item]]()
        again: list[tuple[int, Item]] = []
        stuck = 0
        try:
            while True:
                try:
                    most = max(4, 3 * self.n_threads)
                    while len(flying) < most:
                        task = again.pop() if again else next(coming, None)
                        if task is None:
                            break
                        try:
                            flying[self.submit(function, task[1], job, shared)] = task
                        except _Again:
                            again.append(task)
                            raise
                    if not flying:
                        return
                    for future in self._wait(list(flying), "FIRST_COMPLETED"):
                        number, _ = flying[future]
                        result = self._result(future)
                        del flying[future]
                        stuck = 0
                        yield number, result
                except (_Again, self._dask.scheduler.KilledWorker) as error:
                    stuck += 1
                    if stuck > _ATTEMPTS:
                        raise ClusterError(
                            f"gave up: what was sent was lost {_ATTEMPTS} times in a row"
                        ) from None
                    again += flying.values()
                    known = not isinstance(error, _Again)
                    failed = [
                        item
                        for future, (_, item) in flying.items()
                        if future.status == "error" or not known
                    ]
                    self._drop(flying)
                    flying.clear()
                    if known or stuck % _ALONE == 0:
                        self._suspect(failed, function, job, shared)
        finally:
            self._drop(flying)

    def one(
        self,
        function: Callable[..., T],
        item: Item,
        job: Shared,
        **shared: Any,
    ) -> T:
        """The result of a single task."""
        return next(result for _, result in self.each(function, [item], job, **shared))

    def begin(self, function: Callable[..., T], item: Any, job: Shared) -> Pending[T]:
        """Begin a task whose result is asked for later."""
        return Pending(self, function, item, job)

    def submit(
        self,
        function: Any,
        item: Any,
        job: Shared,
        shared: dict[str, Any],
        prefer: list[str] | None = None,
    ) -> Any:
        """The future of one task; workers to ``prefer`` are no more than that."""
        sent = {name: _sent(value) for name, value in {"job": job, **shared}.items()}
        key = f"noisyor-{uuid.uuid4().hex}"
        return self.client.submit(
            function,
            item,
            key=key,
            retries=_RETRIES,
            workers=prefer or self._places(),
            allow_other_workers=prefer is not None,
            **sent,
        )

    def wait_for(self, future: Any) -> Any:
        """The result of a future."""
        self._wait([future])
        return self._result(future)

    # ---- private

    def _suspect(
        self, items: Sequence[Any], function: Any, job: Shared, shared: dict[str, Any]
    ) -> None:
        """Tasks whose workers died again and again: run alone, one of them is at fault or none is.

        Dask suspects whatever was waiting on a worker that died, and nothing if what the tasks need
        died with it. So each is asked by itself.
        """
        for item in items:
            for _ in range(_ALONE):
                try:
                    settled = self._settled()
                    future = self.submit(function, item, job, shared, prefer=settled)
                    self._wait([future])
                    if future.status == "error":
                        raise future.exception()
                    break
                except self._dask.scheduler.KilledWorker:
                    raise _at_fault(item, job) from None
                except _Again:
                    continue
            else:
                raise _at_fault(item, job)

    def _wait(self, futures: Sequence[Any], when: str = "ALL_COMPLETED") -> Sequence[Any]:
        """Those of the futures that are done, when one is or all are."""
        pause = min(5.0, self.timeout / 4)
        while True:
            try:
                return list(self._done(futures, pause, when))
            except TimeoutError:
                self._look()
            except CancelledError:
                self._lost()

    def _done(self, futures: Sequence[Any], seconds: float, when: str) -> set[Any]:
        with self.client.as_current():
            done: set[Any] = self._dask.wait(futures, timeout=seconds, return_when=when).done
        return done

    def _result(self, future: Any) -> Any:
        try:
            if future.status == "error":
                raise _of_worker(future.exception())
            return future.result(timeout=self.timeout)
        except TimeoutError:
            self._look()
            self.generation += 1
            raise _Again from None
        except CancelledError:
            self._lost()

    def _lost(self) -> None:
        """Futures were cancelled: the scheduler is gone, or what they need is."""
        self._look()
        self.generation += 1
        raise _Again

    def _drop(self, futures: Iterable[Any]) -> None:
        futures = list(futures)
        if futures:
            with suppress(TimeoutError, OSError):  # the scheduler is gone; the next call says so
                self._within(lambda: self.client.cancel(futures, force=True))

    def _places(self) -> list[str] | None:
        """Workers that may be given work; None for all."""
        self._given_to = None
        if self._silent:
            self._given_to = [name for name in self._seen() if name not in self._silent] or None
        return self._given_to

    def _look(self) -> None:
        """Look at the workers: go on without those that have fallen silent since the last time."""
        seen = self._seen()
        if not seen:
            self._wait_for_workers()
            return
        self._alone_since = None
        latest = max(seen.values())
        silent = {name for name, last in seen.items() if latest - last > self.timeout}
        new = silent - self._silent
        self._silent = silent
        # Work that was given to some workers only waits for ever when these have gone.
        if new or (self._given_to is not None and not set(self._given_to) & (set(seen) - silent)):
            self.generation += 1
            raise _Again

    def _wait_for_workers(self) -> None:
        """There is no worker: give up after a while."""
        now = time.monotonic()
        self._alone_since = now if self._alone_since is None else self._alone_since
        patience = _PATIENCE * self.timeout
        if now - self._alone_since > patience:
            raise ClusterError(f"the cluster has had no worker for {patience:.0f} seconds")

    def _seen(self) -> dict[str, float]:
        """When the scheduler last heard of each worker."""
        return {name: float(each["last_seen"]) for name, each in self._workers().items()}

    def _workers(self) -> dict[str, Any]:
        """What the scheduler says of each worker."""
        if self.client.status != "running":
            raise ClusterError("the connection to the scheduler is lost")
        try:
            found: dict[str, Any] = self._within(self.client.scheduler_info)["workers"]
        except (TimeoutError, OSError) as error:
            raise ClusterError("the scheduler does not answer") from error
        now = time.monotonic() if self._since else -math.inf  # those of the first look are old
        self._since = {name: self._since.get(name, now) for name in found}
        return found

    def _settled(self) -> list[str] | None:
        """Workers that have been here for a while; None if there is none."""
        now, present = time.monotonic(), self._workers()
        old = [name for name in present if now - self._since[name] >= _SETTLED]
        return [name for name in old if name not in self._silent] or None

    def _within(self, function: Callable[[], T]) -> T:
        """The result of a call that may hang; TimeoutError if it takes longer than a timeout."""
        outcome: Outcome[T] = Outcome()

        def work() -> None:
            try:
                outcome.set_result(function())
            except BaseException as error:
                outcome.set_exception(error)

        threading.Thread(target=work, daemon=True, name="noisyor-cluster").start()
        return outcome.result(self.timeout)


def _at_fault(item: Any, job: Shared) -> ClusterError:
    place = job.value.reader.where(item.pieces)
    return ClusterError(
        f"{place}: every worker that was given these rows died: they take more memory than a "
        "worker has, or crash it"
    )


def _sent(value: Any) -> Any:
    return value.future() if isinstance(value, Shared) else value


def _of_worker(error: BaseException) -> BaseException:
    """The error of a task as the client raises it."""
    if isinstance(error, NoisyOrError) or type(error).__name__ == "KilledWorker":
        return error
    if isinstance(error, OSError) and error.strerror:
        return ClusterError(
            f"a worker failed: {error.strerror}: {error.filename or ''}".strip(": ")
        )
    return ClusterError(f"a worker failed: {type(error).__name__}: {error}")
