"""Start a Dask scheduler and workers as processes on this machine, and measure them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import dask
import psutil

from distributed import Client

Stamp = dict[str, float]

QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.worker.memory.monitor-interval": "500ms",
}
"""Dask settings of docs/scale.md, which make Dask monitor itself less often.

By default Dask profiles every thread 100 times a second, checks every event loop 50 times and the
memory 10 times, which takes six times the CPU time of all its other work.
"""


class Machines:
    """A scheduler, workers with one thread each, connected by TCP, and a client in this process.

    With ``pin``, worker n runs on core n only.
    """

    def __init__(
        self, n_workers: int, settings: Mapping[str, Any] = QUIET, *, pin: bool = False
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="machines-"))
        self.file = self.folder / "scheduler.json"
        self._environment = os.environ | {_variable(k): str(v) for k, v in settings.items()}
        self._log = (self.folder / "log").open("w")
        self._scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0")
        cores = sorted(os.sched_getaffinity(0)) if pin else []
        self._nannies = [
            self._start(
                *("worker", "--nthreads", "1", "--memory-limit", "4GB"),
                *("--local-directory", str(self.folder)),
                core=cores[number % len(cores)] if cores else None,
            )
            for number in range(n_workers)
        ]
        with dask.config.set(settings):
            self.client = Client(scheduler_file=str(self.file), timeout=120, set_as_default=False)
        self.client.wait_for_workers(n_workers, timeout=120)

    def _start(self, what: str, *options: str, core: int | None = None) -> subprocess.Popen[bytes]:
        module = f"distributed.cli.dask_{what}"
        command = [sys.executable, "-m", module, "--scheduler-file", str(self.file)]
        return subprocess.Popen(
            [*command, "--no-dashboard", *options],
            env=self._environment,
            stdout=self._log,
            stderr=self._log,
            preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
        )

    def processes(self) -> dict[str, psutil.Process]:
        """Return all processes by role; workers that are restarting are left out."""
        found = {"client": psutil.Process(), "scheduler": psutil.Process(self._scheduler.pid)}
        for number, each in enumerate(self._nannies):
            nanny = psutil.Process(each.pid)
            found[f"nanny {number}"] = nanny
            for child in nanny.children():
                if _is_worker(child):
                    found[f"worker {number}"] = child
        return found

    def workers(self) -> list[psutil.Process]:
        """Return the processes in which tasks run."""
        return [each for name, each in self.processes().items() if name.startswith("worker")]

    def cpu(self) -> Stamp:
        """Return the CPU seconds of each process so far, and the time."""
        found = {"wall": time.perf_counter()}
        for name, process in self.processes().items():
            spent = process.cpu_times()
            found[name] = spent.user + spent.system
        return found

    def memory(self) -> dict[str, int]:
        """Return the resident memory of each process in bytes."""
        found = {}
        for name, process in self.processes().items():
            try:
                found[name] = process.memory_info().rss
            except psutil.Error:
                continue
        return found

    def kill(self) -> None:
        """Kill the scheduler and the workers."""
        doomed = [p for name, p in self.processes().items() if name != "client"]
        for process in doomed:
            process.kill()
        for each in (self._scheduler, *self._nannies):
            each.wait()

    def close(self) -> None:
        """Shut down client, workers and scheduler."""
        self.client.close()
        for each in (*self._nannies, self._scheduler):
            each.terminate()
        for each in (*self._nannies, self._scheduler):
            each.wait()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Watch:
    """Call a function every few seconds in a thread, until the context ends."""

    def __init__(self, look: Callable[[], Any], seconds: float) -> None:
        self.seen: list[tuple[float, Any]] = []
        self._stop, began = threading.Event(), time.perf_counter()

        def work() -> None:
            while not self._stop.wait(seconds):
                self.seen.append((time.perf_counter() - began, look()))

        self._thread = threading.Thread(target=work, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


def between(before: Stamp, after: Stamp) -> Stamp:
    """Return the CPU seconds and wall seconds between two measurements."""
    return {name: after[name] - before.get(name, 0.0) for name in after}


def by_role(spent: Stamp) -> Stamp:
    """Sum CPU seconds by role: client, scheduler, nannies and workers."""
    roles = dict.fromkeys(("client", "scheduler", "nanny", "worker"), 0.0)
    for name, seconds in spent.items():
        if name != "wall":
            roles[name.split()[0]] += seconds
    return roles


def _variable(setting: str) -> str:
    """Return the environment variable of a Dask setting."""
    return "DASK_" + setting.upper().replace(".", "__").replace("-", "_")


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(process.cmdline()) and process.status() != "zombie"
    except psutil.Error:
        return False
