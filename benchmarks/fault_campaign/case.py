"""One case of the campaign: a function in a forked process, with bounds on time and memory.

A crash of the interpreter, a hang and a lack of memory are then outcomes like any other. The
process is a copy of the caller, so that modules that the caller has imported cost nothing.
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
"""What a case does in an empty folder of its own.

It returns, in a few words, what happened if that is allowed: ``"refused"``, ``"the same result"``.
It raises `Loss` for what may not happen. Any other exception is a traceback, and a loss too.
"""

_ALLOWED, _LOST, _TRACEBACK = 0, 3, 4
_POLL_SECONDS = 0.02
_MB = 2**20


class Loss(Exception):  # noqa: N818
    """Something that noisyor promises did not hold."""


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
    ok : whether all that is promised held.
    what : what the attempt returned; otherwise the loss, the traceback or the signal.
    seconds : from the fork to the end.
    peak_mb : of the process or of its largest descendant; starts at what the caller had taken.
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
    """Run an attempt in a forked process and see how it ends.

    The process gets a temporary folder, which is also its working directory, and a session of its
    own, which ends with the case: whatever the attempt has started is killed.
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
    what = (why or said).replace(f"{work}/", "")  # a record has no places of a machine
    return Outcome(case, not why, what, round(seconds, 3), round(peak, 1))


def _in_child(attempt: Attempt, work: Path, output: Path, answer: Path) -> None:
    """The forked process: never returns, and runs no clean-up that belongs to the parent."""
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
    """Wait until the process ends, or until it has passed a limit: which one, in words."""
    while os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        seconds, memory = time.monotonic() - began, _megabytes(process)
        if seconds > limit_seconds:
            return f"took longer than {limit_seconds:g} s"
        if memory > limit_mb:
            return f"took {memory:.0f} MB"
        time.sleep(min(_POLL_SECONDS, 0.001 + seconds / 20))
    return ""


def _end_session(process: int) -> None:
    """Kill the process and whatever it has started; its number is not reused until waited for."""
    for kill in (os.killpg, os.kill):
        try:
            kill(process, signal.SIGKILL)
        except OSError:
            continue


def _megabytes(process: int) -> float:
    """Memory that a process and its descendants hold, 0 where the system does not tell."""
    total = 0.0
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        total = pages * resource.getpagesize() / _MB
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (OSError, IndexError):
        return total
    return total + sum(_megabytes(int(child)) for child in children)


def _last(output: Path) -> str:
    lines = output.read_text("utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "no output"
