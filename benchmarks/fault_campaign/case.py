"""Run one case of the campaign in a forked process, with limits on time and memory.

A crash of the interpreter, a hang or excessive memory is then an outcome like any other. Forking
avoids importing the libraries again for every case.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LIMIT_SECONDS = 10.0
LIMIT_MB = 1000.0

Attempt = Callable[[Path], str]
"""What a case does in an empty folder.

It returns a few words if what happened is allowed (``"refused"``, ``"the same result"``) and raises
`Loss` if a promise is broken. Any other exception is a traceback, which counts as a loss too.
"""

_ALLOWED, _LOST, _TRACEBACK = 0, 3, 4
_POLL_SECONDS = 0.02
_MB = 2**20


class Loss(Exception):  # noqa: N818
    """A guarantee of noisyor was violated."""


@dataclass(frozen=True)
class Case:
    """One attempt to make something go wrong; the same seed makes the same attempt."""

    name: str
    kind: str
    seed: int


@dataclass(frozen=True)
class Outcome:
    """How a case ended.

    Attributes
    ----------
    ok : whether all guarantees held.
    what : what the attempt returned; otherwise the loss, the traceback or the signal.
    seconds : from the fork to the end.
    peak_mb : of the process or its largest descendant, including the memory of the caller.
    """

    case: Case
    ok: bool
    what: str
    seconds: float
    peak_mb: float


def run_in_process(
    case: Case,
    attempt: Attempt,
    *,
    limit_seconds: float = LIMIT_SECONDS,
    limit_mb: float = LIMIT_MB,
) -> Outcome:
    """Run an attempt in a forked process and return how it ended.

    The process gets a temporary folder as its working directory, and its own session: everything
    that the attempt started is killed at the end.
    """
    folder = Path(tempfile.mkdtemp(prefix="noisyor-fault-"))
    try:
        return _run(case, attempt, folder, limit_seconds, limit_mb)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(
    case: Case, attempt: Attempt, folder: Path, limit_seconds: float, limit_mb: float
) -> Outcome:
    work = folder / "work"
    work.mkdir()
    sys.stdout.flush()
    sys.stderr.flush()
    began = time.monotonic()
    process = os.fork()
    if process == 0:
        _in_child(attempt, work, folder / "output", folder / "answer")
    try:
        why = _watch(process, began, limit_seconds, limit_mb)
    finally:
        _end_session(process)
        _, status, usage = os.wait4(process, 0)
    seconds = time.monotonic() - began
    unit = 1 if sys.platform == "darwin" else 1024
    peak = usage.ru_maxrss * unit / _MB
    answer = folder / "answer"
    said = answer.read_text("utf-8") if answer.exists() else ""
    answered = answer.exists()
    if not why and os.WIFSIGNALED(status):
        why = f"died of {signal.Signals(os.WTERMSIG(status)).name}: {_last(folder / 'output')}"
    elif not why and os.WEXITSTATUS(status) == _TRACEBACK:
        why = f"traceback: {said}"
    elif not why and os.WEXITSTATUS(status) == _LOST:
        why = said
    elif not why and os.WEXITSTATUS(status) != _ALLOWED:
        why = f"ended with code {os.WEXITSTATUS(status)}: {_last(folder / 'output')}"
    elif not why and not answered:
        why = "ended without an answer"
    elif not why and peak > limit_mb:
        why = f"took {peak:.0f} MB"
    what = (why or said).replace(f"{work}/", "")  # no paths of this machine in the record
    return Outcome(case, not why, what, round(seconds, 3), round(peak, 1))


def _in_child(attempt: Attempt, work: Path, output: Path, answer: Path) -> None:
    """Run the attempt in the forked process; never returns, and runs no cleanup of the parent."""
    code, said = _ALLOWED, ""
    try:
        os.setsid()
        handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(work)
        said = attempt(work)
    except Loss as error:
        code, said = _LOST, str(error)
    except BaseException as error:
        code = _TRACEBACK
        place = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
    finally:
        try:
            answer.write_text(said, "utf-8", errors="backslashreplace")
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _watch(process: int, began: float, limit_seconds: float, limit_mb: float) -> str:
    """Wait until the process ends or exceeds a limit; return the limit in words, or nothing."""
    while os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        seconds, memory = time.monotonic() - began, _megabytes(process)
        if seconds > limit_seconds:
            return f"took longer than {limit_seconds:g} s"
        if memory > limit_mb:
            return f"took {memory:.0f} MB"
        time.sleep(min(_POLL_SECONDS, 0.001 + seconds / 20))
    return ""


def _end_session(process: int) -> None:
    """Kill the process and all that it started; its id is not reused before the wait."""
    for kill in (os.killpg, os.kill):
        try:
            kill(process, signal.SIGKILL)
        except OSError:
            continue


def _megabytes(process: int) -> float:
    """Return the memory of a process and its descendants; 0 if the system does not report it.

    Pages that several processes share are divided among them.
    """
    total = 0.0
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        total = sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (OSError, IndexError):
        return total
    return total + sum(_megabytes(int(child)) for child in children)


def _last(output: Path) -> str:
    lines = output.read_text("utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "no output"
