"""Run a sweep: one run after another or in several processes, resumable at any moment.

Every finished run is added to the record at once, so a stop loses nothing but the time since the
last checkpoint of the runs that were under way.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import wait as wait_for_any
from pathlib import Path
from typing import Any

from noisyor._util.files import locked, remove_leftovers
from noisyor._util.progress import progress_bar
from noisyor.engines.registry import get_engine
from noisyor.engines.threads import resolve_threads
from noisyor.errors import NoisyOrError
from reproduction import experiment
from reproduction.protocol import Context, RunSpec, StopRequested
from reproduction.record import Record, is_recorded, recorded, run_record

__all__ = ["Sweep", "SweepError", "run_sweep"]

_GRACE_SECONDS = 60.0  # for runs under way to write a checkpoint after an interrupt


class SweepError(NoisyOrError, RuntimeError):
    """A process of a sweep ended unexpectedly."""


@dataclass(frozen=True)
class Sweep:
    """A list of runs and how to execute them.

    Attributes
    ----------
    specs : the runs, in this order.
    out : folder with the record; checkpoints go to ``out/checkpoints/EXPERIMENT``.
    resume : skip the runs that are recorded.
    jobs : number of processes; 1 works in this one.
    threads : threads of each run; None shares the cores among the jobs.
    progress : show a progress bar; None shows it on a terminal only.
    """

    specs: Sequence[RunSpec]
    out: Path
    resume: bool = True
    jobs: int = 1
    threads: int | None = None
    progress: bool | None = None

    @property
    def threads_per_run(self) -> int:
        """Threads of each run."""
        if self.threads is not None:
            return resolve_threads(self.threads)
        return max(1, resolve_threads(None) // self.jobs)


def run_sweep(sweep: Sweep) -> int:
    """Execute all runs that are not recorded yet; returns their number.

    Raises
    ------
    KeyboardInterrupt : on an interrupt, after the runs under way have written their checkpoints.
    InvalidSettingError : another process runs the same experiment for the same record.
    """
    sweep.out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as locks:
        for name in sorted({spec.experiment for spec in sweep.specs}):
            locks.enter_context(locked(sweep.out / name))
        return _run_alone(sweep)


def _run_alone(sweep: Sweep) -> int:
    folders = {_checkpoints(sweep.out, spec) for spec in sweep.specs}
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    record = Record(sweep.out)
    for path in (record.table, record.manifest):
        remove_leftovers(path)  # a killed sweep whose runs are all recorded writes neither again
    finished = recorded(record.lines()) if sweep.resume else set()
    left = [spec for spec in sweep.specs if not is_recorded(spec, finished)]
    for spec in sweep.specs:
        # A run may have been killed after it was recorded, before its checkpoints were removed.
        if not sweep.resume or is_recorded(spec, finished):
            _remove_checkpoints(sweep.out, spec)
    with progress_bar(len(sweep.specs), "reproduce", "runs", sweep.progress) as bar:
        bar.update(len(sweep.specs) - len(left))
        if sweep.jobs == 1:
            _run_here(sweep, left, bar)
        elif left:
            _run_in_processes(sweep, left, bar)
    for folder in folders:
        with suppress(OSError):  # it holds checkpoints of other runs
            folder.rmdir()
    return len(left)


def execute(spec: RunSpec, out: Path, n_threads: int, on_step: Callable[[int, int], None]) -> str:
    """Execute one run and add it to the record; returns its name."""
    began = time.perf_counter()
    context = Context(get_engine(n_threads=n_threads), _checkpoints(out, spec), on_step)
    outcome = experiment(spec.experiment).run(spec, context)
    Record(out).append(run_record(spec, outcome, context, time.perf_counter() - began))
    _remove_checkpoints(out, spec)
    return spec.name


def _run_here(sweep: Sweep, specs: Sequence[RunSpec], bar: Any) -> None:
    for spec in specs:

        def show(done: int, total: int, spec: RunSpec = spec) -> None:
            if not bar.disable and (done % max(1, total // 100) == 0):
                percent = 100 * done // max(1, total)
                bar.set_postfix({spec.name: f"{percent} %"}, refresh=False)
                bar.update(0)

        with _termination_as_interrupt():
            execute(spec, sweep.out, sweep.threads_per_run, show)
        bar.update(1)


def _run_in_processes(sweep: Sweep, specs: Sequence[RunSpec], bar: Any) -> None:
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    pool = ProcessPoolExecutor(
        min(sweep.jobs, len(specs)), spawn, initializer=_start_worker, initargs=(stop,)
    )
    waiting = iter(specs)
    running: set[Future[str]] = set()
    try:
        with _termination_as_interrupt():
            while True:
                while len(running) < sweep.jobs and (spec := next(waiting, None)) is not None:
                    running.add(pool.submit(_work, spec, sweep.out, sweep.threads_per_run))
                if not running:
                    break
                # a limited wait, so that an interrupt is noticed on every system
                done, running = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                    bar.update(1)
                if not bar.disable:
                    bar.refresh()  # the clock goes on
    except BrokenProcessPool as error:
        raise SweepError(
            "a process ended unexpectedly, perhaps for lack of memory; finished runs are kept: "
            "run the same sweep again with fewer jobs"
        ) from error
    finally:
        stop.set()
        _finish(pool, running)


def _finish(pool: ProcessPoolExecutor, running: set[Future[str]]) -> None:
    """Wait until running workers have written their checkpoints, then end the processes."""
    workers = list((pool._processes or {}).values())
    with _interrupts_ignored():
        wait(running, timeout=_GRACE_SECONDS)
        unfinished = any(not future.done() for future in running)
        pool.shutdown(wait=not unfinished, cancel_futures=True)
        if unfinished:  # inference without steps in between: its result is lost, nothing else
            for worker in workers:
                worker.kill()


# ---- in the worker processes

_stop: Any = None


def _start_worker(stop: Any) -> None:
    global _stop
    _stop = stop
    for number in (signal.SIGINT, signal.SIGTERM):  # may be sent to the whole group of processes
        signal.signal(number, signal.SIG_IGN)  # the parent decides, and says so by the event
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    """End this process with its parent, even if the parent was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for_any([parent.sentinel])  # a pipe that the system closes when the parent ends
    os._exit(1)


def _work(spec: RunSpec, out: Path, n_threads: int) -> str:
    def check(done: int, total: int) -> None:
        if _stop.is_set():
            raise StopRequested

    return execute(spec, out, n_threads, check)


# ---- small things


def _checkpoints(out: Path, spec: RunSpec) -> Path:
    return out / "checkpoints" / spec.experiment


def _remove_checkpoints(out: Path, spec: RunSpec) -> None:
    for phase in ("mp", "vi"):
        path = _checkpoints(out, spec) / f"{spec.name}.{phase}"
        remove_leftovers(path)
        path.unlink(missing_ok=True)


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
