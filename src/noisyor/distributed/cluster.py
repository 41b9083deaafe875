"""Run tasks on a cluster that loses workers: one function maps over tasks, one sums their results.

Dask reruns a task when the process of its worker ends. `Cluster` adds what Dask leaves open:

* data that were sent once and got lost with the workers that held them are sent again;
* tasks of a worker that stopped responding are given to other workers;
* a task that cannot be done ends in one error that names its rows.

Tasks have no side effects that matter and no state, so that all of them may run twice.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, TypeVar

from noisyor._util.arrays import FloatArray
from noisyor.distributed.workers import RetrySignal, Workers, import_dask
from noisyor.engines.reduction import tree_sum
from noisyor.errors import ClusterError, NoisyOrError

T = TypeVar("T")

_FAN_IN = 8
"""Partial sums that one task adds up; a power of two, so that the result is a node of the tree."""

_MAX_ATTEMPTS = 20
"""Times that work is submitted again while no task finishes."""

_MAX_LOSSES = 3
"""Losses in a row after which tasks run one at a time, and losses of one task run alone."""

_RETRIES = 2
"""Times that Dask reruns a task that raised an error: shared storage sometimes fails."""


class SharedValue:
    """A value that many tasks need: sent to the cluster once, apart from the tasks."""

    def __init__(self, cluster: Cluster, value: Any) -> None:
        self._cluster, self.value = cluster, value
        self._future: Any = None
        self._generation = -1

    def future(self) -> Any:
        """Return the value on the cluster; send it again if it may be lost."""
        if self._future is None or self._generation != self._cluster.workers.generation:
            self._future = self._cluster.send(self.value)
            self._generation = self._cluster.workers.generation
        return self._future


class Cluster:
    """A cluster that survives the loss of workers.

    Parameters
    ----------
    client : a ``distributed.Client`` that is not asynchronous.
    timeout : seconds without a heartbeat after which a worker gets no more work.
    """

    def __init__(self, client: Any, timeout: float = 60.0) -> None:
        self.workers = Workers(client, timeout)
        _, self._distributed = import_dask()
        self.client = client
        with suppress(RetrySignal):
            self.workers.check()

    def share(self, value: Any) -> SharedValue:
        """Return a handle of a value that many tasks need."""
        return SharedValue(self, value)

    def send(self, value: Any) -> Any:
        """Send a value to one worker and return its future; other workers fetch it from there."""
        for _ in range(_MAX_ATTEMPTS):
            self.workers.wait_for_one()
            addresses = self.workers.addresses()
            try:
                return self.workers.call(
                    lambda: self.client.scatter(value, hash=False, workers=addresses)  # noqa: B023
                )
            except (TimeoutError, OSError, ValueError, KeyError):
                self.workers.check()  # the chosen worker left or hangs: try others
            except Exception as error:  # Dask passes on whatever a worker raises
                raise ClusterError(
                    f"workers cannot load the data sent to them: {error}. Define your own classes "
                    "in a module that workers can import"
                ) from error
        raise ClusterError(f"no worker accepted data in {_MAX_ATTEMPTS} attempts")

    def map(
        self,
        function: Callable[..., T],
        tasks: Iterable[Any],
        job: SharedValue,
        *,
        max_running: int | None = None,
        **shared: Any,
    ) -> Iterator[tuple[int, T]]:
        """Yield index and result of ``function(task, job=…, **shared)`` as tasks finish.

        Parameters
        ----------
        function : runs on a worker; importable there.
        tasks : small values, drawn from the iterable only when they are submitted.
        job : what all tasks share; its method ``describe(task)`` names a task in error messages.
        max_running : tasks submitted at a time, so that memory does not grow with their number;
            default 3 for each thread of the cluster.
        shared : further arguments, values or `SharedValue`.
        """
        waiting, running = enumerate(tasks), dict[Any, tuple[int, Any]]()
        again: list[tuple[int, Any]] = []
        n_losses = 0
        try:
            while True:
                try:
                    sent = _futures(job, shared)
                    limit = max_running or max(4, 3 * self.workers.n_threads)
                    while len(running) < limit:
                        entry = again.pop() if again else next(waiting, None)
                        if entry is None:
                            break
                        running[self._submit(function, entry[1], sent)] = entry
                    if not running:
                        return
                    for future in self._wait(list(running), "FIRST_COMPLETED"):
                        result = self._result(future)
                        index, _ = running.pop(future)
                        n_losses = 0
                        yield index, result
                except (RetrySignal, self._distributed.KilledWorker) as error:
                    n_losses += 1
                    if n_losses > _MAX_ATTEMPTS:
                        raise _gave_up() from None
                    again += running.values()
                    killed = not isinstance(error, RetrySignal)
                    suspects = [
                        task
                        for future, (_, task) in running.items()
                        if future.status == "error" or not killed
                    ]
                    self._cancel(running)
                    running.clear()
                    if killed or n_losses % _MAX_LOSSES == 0:
                        self._run_alone(suspects, function, job, shared)
        finally:
            self._cancel(running)

    def run(self, function: Callable[..., T], task: Any, job: SharedValue, **shared: Any) -> T:
        """Return the result of a single task, see `map`."""
        return next(result for _, result in self.map(function, [task], job, **shared))

    def sum(
        self,
        function: Callable[..., list[FloatArray]],
        tasks: Sequence[Any],
        job: SharedValue,
        **shared: Any,
    ) -> list[FloatArray]:
        """Return the sum of ``function(task, job=…, **shared)`` over all tasks.

        Sums follow the fixed tree of `noisyor.engines.reduction`, in which each task is a node.
        Workers add up; only the total comes back to the client.
        """
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            futures: list[Any] = []
            suspects: Sequence[Any] = ()
            try:
                futures += self._submit_sum(function, tasks, _futures(job, shared))
                self._wait(futures[-1:])
                total: list[FloatArray] = self._result(futures[-1])
                return total
            except self._distributed.KilledWorker:
                pairs = zip(futures, tasks, strict=False)  # the futures of tasks come first
                suspects = [task for future, task in pairs if future.status == "error"]
            except RetrySignal:
                if attempt % _MAX_LOSSES == 0:
                    suspects = tasks
            self._cancel(futures)
            self._run_alone(suspects, function, job, shared)
        raise _gave_up()

    # ---- private

    def _submit(
        self, function: Any, task: Any, sent: dict[str, Any], prefer: list[str] | None = None
    ) -> Any:
        """Submit one task and return its future; workers in ``prefer`` are only a preference."""
        return self.client.submit(
            function,
            task,
            key=f"noisyor-{uuid.uuid4().hex}",
            retries=_RETRIES,
            workers=prefer or self.workers.addresses(),
            allow_other_workers=prefer is not None,
            **sent,
        )

    def _submit_sum(self, function: Any, tasks: Sequence[Any], sent: dict[str, Any]) -> list[Any]:
        """Submit tasks and the additions above them; the last future is that of the total."""
        run, addresses = f"noisyor-{uuid.uuid4().hex}", self.workers.addresses()
        level = self.client.map(
            function,
            tasks,
            key=[f"{run}-{index}" for index in range(len(tasks))],
            retries=_RETRIES,
            workers=addresses,
            **sent,
        )
        futures = list(level)
        for depth in itertools.count():
            if len(level) == 1:
                return futures
            groups = [level[first : first + _FAN_IN] for first in range(0, len(level), _FAN_IN)]
            level = self.client.map(
                tree_sum,
                groups,
                key=[f"{run}-sum-{depth}-{index}" for index in range(len(groups))],
                workers=addresses,
            )
            futures += level
        raise AssertionError  # the loop returns

    def _run_alone(
        self, tasks: Sequence[Any], function: Any, job: SharedValue, shared: dict[str, Any]
    ) -> None:
        """Run suspected tasks one at a time, and raise an error for one that kills its workers.

        Dask blames every task that was waiting on a worker that died, and none if the data that
        tasks need died with the worker. A task that is run alone is at fault by itself.
        """
        for task in tasks:
            for _ in range(_MAX_LOSSES):
                try:
                    ready = self.workers.ready()
                    future = self._submit(function, task, _futures(job, shared), prefer=ready)
                    self._wait([future])
                    if future.status == "error":
                        raise _client_error(future.exception())
                    break
                except self._distributed.KilledWorker:
                    raise _fatal_task(task, job) from None
                except RetrySignal:
                    continue
            else:
                raise _fatal_task(task, job)

    def _wait(self, futures: Sequence[Any], when: str = "ALL_COMPLETED") -> Sequence[Any]:
        """Wait for all futures, or for the first one, and return those that are done."""
        pause = min(5.0, self.workers.timeout / 4)
        while True:
            try:
                return list(self._wait_once(futures, pause, when))
            except TimeoutError:
                self.workers.check()
            except CancelledError:
                self.workers.report_loss()

    def _wait_once(self, futures: Sequence[Any], seconds: float, when: str) -> set[Any]:
        with self.client.as_current():
            done: set[Any] = self._distributed.wait(futures, timeout=seconds, return_when=when).done
        return done

    def _result(self, future: Any) -> Any:
        try:
            if future.status == "error":
                raise _client_error(future.exception())
            return future.result(timeout=self.workers.timeout)
        except (TimeoutError, CancelledError):
            self.workers.report_loss()

    def _cancel(self, futures: Iterable[Any]) -> None:
        futures = list(futures)
        if futures and self.client.status == "running":
            with suppress(TimeoutError, OSError):  # no scheduler: the next call reports it
                self.workers.call(lambda: self.client.cancel(futures, force=True))


def _futures(job: SharedValue, shared: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a task, with futures for shared values."""
    arguments = {"job": job, **shared}
    return {
        name: value.future() if isinstance(value, SharedValue) else value
        for name, value in arguments.items()
    }


def _gave_up() -> ClusterError:
    return ClusterError(f"gave up: submitted tasks were lost {_MAX_ATTEMPTS} times in a row")


def _fatal_task(task: Any, job: SharedValue) -> ClusterError:
    return ClusterError(
        f"{job.value.describe(task)}: every worker that ran this task died; it crashes the "
        "process or needs more memory than a worker has"
    )


def _client_error(error: BaseException) -> BaseException:
    """Turn the error of a task into the one that the client raises."""
    if isinstance(error, NoisyOrError) or type(error).__name__ == "KilledWorker":
        return error
    if isinstance(error, OSError) and error.strerror:
        return ClusterError(
            f"a worker failed: {error.strerror}: {error.filename or ''}".strip(": ")
        )
    return ClusterError(f"a worker failed: {type(error).__name__}: {error}")
