"""Tasks on a cluster, from the side of the client: sums in a fixed tree, results one by one.

Dask runs a task again whose worker has died. What is left to do here: values that were sent and are
gone with the workers that held them are sent again; a worker that has fallen silent (stopped, or
cut off) is not waited for; and whatever cannot be done ends in one error that says which rows.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Generic, TypeVar

from noisyor._util.arrays import FloatArray
from noisyor.distributed.chunks import Item
from noisyor.distributed.tasks import add_up
from noisyor.distributed.workers import Again, Workers
from noisyor.errors import ClusterError, NoisyOrError

__all__ = ["Cluster", "Pending", "Shared"]

T = TypeVar("T")

_FAN_IN = 8
"""Parts that one task adds up; a power of two, so that sums are nodes of the tree."""

_ATTEMPTS = 20
"""How often work is sent anew without any of it getting done."""

_ALONE = 3
"""Losses in a row after which tasks are asked one by one, and that a task alone is at fault for."""

_RETRIES = 2
"""How often a task is tried again that raised an error: shared storage hiccups."""


class Shared:
    """A value that many tasks need: sent once, by itself and not with the tasks."""

    def __init__(self, cluster: Cluster, value: Any) -> None:
        self._cluster, self.value = cluster, value
        self._future: Any = None
        self._generation = -1

    def future(self) -> Any:
        """The value on the cluster; sent again if what was sent may be gone."""
        if self._future is None or self._generation != self._cluster.workers.generation:
            self._future = self._cluster.send(self.value)
            self._generation = self._cluster.workers.generation
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
            except Again:
                self._future = None
        raise _given_up()


class Cluster:
    """A client, watched over.

    Parameters
    ----------
    client : a ``distributed.Client`` that is not asynchronous.
    timeout : seconds after which a worker that does not report is left alone.
    """

    def __init__(self, client: Any, timeout: float = 60.0) -> None:
        self.workers = Workers(client, timeout)
        import distributed  # is there, or the line above has said so

        self._dask, self.client = distributed, client
        with suppress(Again):
            self.workers.look()

    # ---- what is sent

    def share(self, value: Any) -> Shared:
        """A value for many tasks."""
        return Shared(self, value)

    def send(self, value: Any) -> Any:
        """Send a value to one worker; the others get it from there."""
        for _ in range(_ATTEMPTS):
            self.workers.wait()
            places = self.workers.places()
            try:
                return self.workers.within(
                    lambda: self.client.scatter(value, hash=False, workers=places)  # noqa: B023
                )
            except (TimeoutError, OSError, ValueError, KeyError):
                self.workers.look()  # the worker has gone or fallen silent meanwhile: try others
            except Exception as error:  # Dask has no class for what a worker says here
                raise ClusterError(
                    f"workers cannot load what is sent to them: {error}. Classes of your own must "
                    "be in a module that workers can import"
                ) from error
        raise ClusterError("no worker takes what is sent to it")

    # ---- work

    def ask_all(self, function: Callable[..., T], *arguments: Any) -> list[T]:
        """What each worker that is there answers; one that goes meanwhile, or hangs, does not."""
        waiting = {
            self.client.submit(
                function, *arguments, pure=False, workers=[address], retries=1
            ): address
            for address in self.workers.awake()
        }
        found, end = [], time.monotonic() + max(self.workers.timeout, 60.0)
        while waiting and time.monotonic() < end:
            with suppress(TimeoutError, CancelledError):
                self._done(list(waiting), 0.5, "ALL_COMPLETED")
            there = self.workers.present()
            for future, address in list(waiting.items()):
                if future.status == "finished":
                    with suppress(TimeoutError, CancelledError):  # its worker has gone
                        found.append(future.result(timeout=self.workers.timeout))
                if future.status != "pending" or address not in there:
                    del waiting[future]
        return found

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
                    workers=self.workers.places(),
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
                        workers=self.workers.places(),
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
            except Again:
                self._drop(futures)
                if attempt % _ALONE == 0:
                    self._suspect(items, function, job, shared)
        raise _given_up()

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
                    most = max(4, 3 * self.workers.n_threads)
                    while len(flying) < most:
                        task = again.pop() if again else next(coming, None)
                        if task is None:
                            break
                        try:
                            flying[self.submit(function, task[1], job, shared)] = task
                        except Again:
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
                except (Again, self._dask.scheduler.KilledWorker) as error:
                    stuck += 1
                    if stuck > _ATTEMPTS:
                        raise _given_up() from None
                    again += flying.values()
                    known = not isinstance(error, Again)
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
            workers=prefer or self.workers.places(),
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
                    settled = self.workers.settled()
                    future = self.submit(function, item, job, shared, prefer=settled)
                    self._wait([future])
                    if future.status == "error":
                        raise _of_worker(future.exception())
                    break
                except self._dask.scheduler.KilledWorker:
                    raise _at_fault(item, job) from None
                except Again:
                    continue
            else:
                raise _at_fault(item, job)

    def _wait(self, futures: Sequence[Any], when: str = "ALL_COMPLETED") -> Sequence[Any]:
        """Those of the futures that are done, when one is or all are."""
        pause = min(5.0, self.workers.timeout / 4)
        while True:
            try:
                return list(self._done(futures, pause, when))
            except TimeoutError:
                self.workers.look()
            except CancelledError:
                self.workers.lost()

    def _done(self, futures: Sequence[Any], seconds: float, when: str) -> set[Any]:
        with self.client.as_current():
            done: set[Any] = self._dask.wait(futures, timeout=seconds, return_when=when).done
        return done

    def _result(self, future: Any) -> Any:
        try:
            if future.status == "error":
                raise _of_worker(future.exception())
            return future.result(timeout=self.workers.timeout)
        except (TimeoutError, CancelledError):
            self.workers.lost()

    def _drop(self, futures: Iterable[Any]) -> None:
        futures = list(futures)
        if futures:
            with suppress(TimeoutError, OSError):  # the scheduler is gone; the next call says so
                self.workers.within(lambda: self.client.cancel(futures, force=True))


def _given_up() -> ClusterError:
    return ClusterError(f"gave up: what was sent was lost {_ATTEMPTS} times in a row")


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
