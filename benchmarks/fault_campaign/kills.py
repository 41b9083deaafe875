"""Kill work at any moment or in the middle of a write, fill its disk, or run it twice at once.

Afterwards the same work runs again. It must end with the result of an undisturbed run and leave no
temporary files.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fault_campaign.case import Attempt, Case, Loss
from fault_campaign.works import WORKS, Work, fit, leftovers, sweep, table, train
from noisyor._util.files import write_atomically

_KINDS = (*(("kill", name) for name in WORKS), *(("write", name) for name in WORKS))
_OTHERS = ("disk train", "disk fit", "rivals fit", "rivals sweep", "rivals write")
_NEW_MOUNTS = 0x00020000  # CLONE_NEWNS of Linux
_EVERY = 8  # one case in this many is a full disk or a concurrent run


def cases(n: int, seed: int) -> Iterator[tuple[Case, Attempt]]:
    """Yield ``n`` cases on all kinds of work in turn; kernels are compiled before the first."""
    measured = {name: _measured(work) for name, work in WORKS.items()}
    expected = {name: each.result for name, each in measured.items()}
    attempts: dict[str, Callable[[int], Attempt]] = {
        "disk train": lambda seed: partial(_full_disk, train, expected["train"], seed),
        "disk fit": lambda seed: partial(_full_disk, fit, expected["fit"], seed),
        "rivals fit": lambda seed: partial(_rivals, fit, expected["fit"]),
        "rivals sweep": lambda seed: partial(_rivals, sweep, expected["sweep"]),
        "rivals write": lambda seed: partial(_rival_writers, seed),
    }
    plain, others = itertools.cycle(_KINDS), itertools.cycle(_OTHERS)
    for number in range(n):
        own = seed + number
        if number % _EVERY == _EVERY - 1:
            kind = next(others)
            yield Case(f"{kind} {number}", kind, own), attempts[kind](own)
            continue
        how, name = next(plain)
        attempt = partial(_killed, WORKS[name], measured[name], own, how == "write")
        yield Case(f"{how} {name} {number}", f"{how} {name}", own), attempt


class _Measured(NamedTuple):
    """Result of an undisturbed run, its seconds, and how often it writes a file."""

    result: str
    seconds: float
    n_writes: int


def _measured(work: Work) -> _Measured:
    """Run the work twice in this process, so that forked processes have compiled kernels."""
    with tempfile.TemporaryDirectory() as first:
        work(Path(first))
    writes, flush = [], os.fsync

    def fsync(handle: int) -> None:
        writes.append(handle)
        flush(handle)

    os.fsync = fsync  # type: ignore[assignment]
    try:
        with tempfile.TemporaryDirectory() as again:
            began = time.perf_counter()
            result = work(Path(again))
            return _Measured(result, time.perf_counter() - began, len(writes))
    finally:
        os.fsync = flush


# ---- kills


def _killed(work: Work, known: _Measured, seed: int, in_write: bool, folder: Path) -> str:
    """Kill the work one to three times, then run it again."""
    random = np.random.default_rng(seed)
    hits = 0
    for _ in range(int(random.integers(1, 4))):
        last, where, torn = (
            int(random.integers(known.n_writes)),
            int(random.integers(3)),
            random.random(),
        )
        worker = os.fork()
        if worker == 0:
            if in_write:
                _end_in_write(last, where, torn)
            _until_killed(work, folder)
        if not in_write:
            time.sleep(float(random.uniform(0.0, 1.1 * known.seconds)))
            os.kill(worker, signal.SIGKILL)
        _, status = os.waitpid(worker, 0)
        hits += os.WIFSIGNALED(status)
        if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
            raise Loss("the work failed when it continued after a kill")
    return _given_again(work, known.result, folder, "killed" if hits else "too late to kill")


def _end_in_write(last: int, where: int, torn: float) -> None:
    """Make this process kill itself in one of its writes.

    Parameters
    ----------
    last : number of the write, from 0.
    where : 0 with a part of the content on disk, 1 before the file gets its name, 2 after that.
    torn : which part.
    """
    numbers, flush, replace = itertools.count(), os.fsync, os.replace
    now = [False]

    def fsync(handle: int) -> None:
        now[0] = next(numbers) == last
        if now[0] and where == 0:
            os.truncate(handle, int(torn * os.fstat(handle).st_size))
            os.kill(os.getpid(), signal.SIGKILL)
        flush(handle)
        if now[0] and where == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    def rename(source: str, target: str) -> None:
        replace(source, target)
        if now[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync, os.replace = fsync, rename  # type: ignore[assignment]


def _until_killed(work: Work, folder: Path) -> None:
    """Run the work in the forked process."""
    code = 0
    try:
        work(folder)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        code = 1
    finally:
        os._exit(code)


def _given_again(work: Work, expected: str, folder: Path, what: str) -> str:
    found = work(folder)
    if found != expected:
        raise Loss("the result differs from that of an undisturbed run")
    left = leftovers(folder)
    if left:
        raise Loss(f"left behind: {', '.join(left)}")
    return f"{what}, the same result"


# ---- a full disk


def _full_disk(work: Work, expected: str, seed: int, folder: Path) -> str:
    """Fill the disk during the work, then free it and run the work again."""
    place = folder / "small"
    place.mkdir()
    if not _mount(place):
        return "skipped: no tmpfs can be mounted here"
    try:
        random = np.random.default_rng(seed)
        filler = place / "filler"
        # The check for free space before the work succeeds; some kilobytes are left afterwards.
        write, n_bytes = os.fsync, int(random.integers(0, 40_000))
        calls, first = itertools.count(), int(random.integers(0, 8))

        def fsync(handle: int) -> None:
            if next(calls) == first:
                _fill(filler, place, n_bytes)
            write(handle)

        os.fsync = fsync  # type: ignore[assignment]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                early = work(place)
            if early != expected:
                raise Loss("a full disk changed the result")
        except Loss as error:
            if "code 2" not in str(error):
                raise
        finally:
            os.fsync = write
            filler.unlink(missing_ok=True)
        return _given_again(work, expected, place, "full")
    finally:
        subprocess.run(["umount", str(place)], capture_output=True)


def _mount(place: Path) -> bool:
    """Mount a file system of 3 MB that only this process sees; return whether that worked."""
    if not hasattr(ctypes.CDLL(None), "unshare") or ctypes.CDLL(None).unshare(_NEW_MOUNTS):
        return False
    commands = (
        ["mount", "--make-rprivate", "/"],
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)],
    )
    return not any(subprocess.run(each, capture_output=True).returncode for each in commands)


def _fill(filler: Path, place: Path, left: int) -> None:
    """Fill a small file system except for ``left`` bytes."""
    room = os.statvfs(place)
    size = max(0, room.f_bavail * room.f_frsize - left)
    with filler.open("wb") as stream:
        try:
            stream.write(bytes(size))
        except OSError:
            return


# ---- two at once


def _rivals(work: Work, expected: str, folder: Path) -> str:
    """Run the same work twice at once in one folder: one process works, the other names it."""
    (folder / "x.csv").write_text(table())
    workers = []
    for number in range(2):
        worker = os.fork()
        if worker == 0:
            _rival(work, folder, folder / f"said-{number}")
        workers.append(worker)
    codes = [os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers]
    said = [(folder / f"said-{number}").read_text() for number in range(2)]
    for number, code in enumerate(codes):
        if code:
            other = str(workers[1 - number])
            if "in use" not in said[number] and "exists" not in said[number]:
                raise Loss(f"the second ended with: {said[number][-300:]}")
            named = f"process {other}" in said[number] or "another process" in said[number]
            if "in use" in said[number] and not named:
                raise Loss(f"the lock names somebody else than {other}: {said[number]}")
    if all(codes):
        raise Loss(f"neither did the work: {said}")
    for number in range(2):
        (folder / f"said-{number}").unlink()
    return _given_again(work, expected, folder, "one did it" if any(codes) else "in turn")


def _rival(work: Work, folder: Path, note: Path) -> None:
    code, text = 0, ""
    try:
        text = work(folder)
    except BaseException as error:
        code, text = 1, f"{type(error).__name__}: {error}"
    finally:
        note.write_text(text)
        os._exit(code)


def _rival_writers(seed: int, folder: Path) -> str:
    """Let three processes replace one file, and kill one of them."""
    path, workers = folder / "file", []
    for number in range(3):
        worker = os.fork()
        if worker == 0:
            try:
                for _ in range(40):
                    write_atomically(path, bytes([number]) * 20_000)
                os._exit(0)
            finally:
                os._exit(1)
        workers.append(worker)
    time.sleep(np.random.default_rng(seed).uniform(0.0, 0.05))
    os.kill(workers[0], signal.SIGKILL)
    codes = [os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers]
    if any(codes[1:]):
        raise Loss("a writer failed because of the others")
    content = path.read_bytes()
    if len(content) != 20_000 or len(set(content)) != 1:
        raise Loss("the file is a mixture")
    write_atomically(path, b"end")
    if [found.name for found in folder.iterdir()] != ["file"]:
        raise Loss("temporary files are left")
    return "whole"
