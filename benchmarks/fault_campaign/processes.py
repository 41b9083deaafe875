"""Run noisyor as services do: forked and spawned processes, threads, pools, read-only disks."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

import noisyor as nor
from fault_campaign.case import Attempt, Case, Loss
from fault_campaign.works import network, rows, table
from noisyor._util.progress import progress_bar
from noisyor.engines.registry import get_engine

_COMMAND = (sys.executable, "-c", "import sys; from noisyor.cli.main import main; sys.exit(main())")
_NO_CONTAINER = 77
_IN_CONTAINER = f"""
mount --make-rprivate / && mount --bind "$0" "$0" && mount -o remount,ro,bind / ||
    exit {_NO_CONTAINER}
cd "$0"
if setpriv --reuid=65534 --regid=65534 --clear-groups "$1" -c "" 2>/dev/null; then
    echo nobody >&2
    exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
fi
echo root >&2  # the interpreter is in a folder that others may not read
exec "$@"
"""
_KERNEL = """
from noisyor.engines.numba.cache import njit

@njit()
def twice(x):
    return x + x
"""


def cases(n: int, seed: int) -> Iterator[tuple[Case, Attempt]]:
    """Yield ``n`` cases, of all kinds in turn."""
    expected = explained()
    kinds: dict[str, Callable[[int], Attempt]] = {
        "prefork": lambda seed: partial(_prefork, expected, seed),
        "threads": lambda seed: partial(_threads, expected),
        "kernel cache": lambda seed: partial(_damaged_kernels, seed),
        "spawn": lambda seed: partial(_spawn, expected),
        "joblib": lambda seed: partial(_joblib, expected),
        "jobs killed": lambda seed: partial(_jobs_killed, seed),
        "read-only": lambda seed: partial(_read_only, seed),
    }
    turns = itertools.cycle(kinds.items())
    for number in range(n):
        kind, attempt = next(turns)
        yield Case(f"{kind} {number}", kind, seed + number), attempt(seed + number)


def explained(n_threads: int = 1, _: int = 0) -> bytes:
    """Return the result that every process and thread must compute."""
    found = nor.explain(network(), rows(), engine=get_engine(n_threads=n_threads), progress=False)
    answer: bytes = found.states.toarray().tobytes()
    return answer


def _answers(found: list[bytes], expected: bytes) -> str:
    if any(answer != expected for answer in found):
        raise Loss("the answers differ")
    return "the same answers"


# ---- many at once


def _prefork(expected: bytes, seed: int, folder: Path) -> str:
    """Fork after first work, as a service does; kill one worker, and let the others continue."""
    random = np.random.default_rng(seed)
    show = bool(random.integers(2))

    def work(times: int) -> None:
        for _ in range(times):
            with progress_bar(2, "explain", "rows", show) as bar:
                bar.update(1)
                if explained(n_threads=2) != expected:
                    os._exit(3)
                bar.update(1)

    work(2)
    workers = []
    for _ in range(3):
        worker = os.fork()
        if worker == 0:
            signal.alarm(30)
            try:
                work(15)
                os._exit(0)
            finally:
                os._exit(1)
        workers.append(worker)
    time.sleep(float(random.uniform(0.0, 0.1)))
    os.kill(workers[0], signal.SIGKILL)
    work(2)
    codes = [os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers]
    if any(codes[1:]):
        raise Loss(f"siblings of a killed worker ended with {codes[1:]}")
    work(2)
    return "the others went on"


def _threads(expected: bytes, folder: Path) -> str:
    """Call from eight threads at once."""
    found: list[bytes] = []

    def ask() -> None:
        for _ in range(5):
            found.append(explained(n_threads=2))

    askers = [threading.Thread(target=ask) for _ in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    if len(found) != 40:
        raise Loss(f"{len(found)} of 40 calls were answered")
    return _answers(found, expected)


def _spawn(expected: bytes, folder: Path) -> str:
    """Call from a pool of spawned processes."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        return _answers(pool.starmap(explained, [(1, number) for number in range(4)]), expected)


def _joblib(expected: bytes, folder: Path) -> str:
    """Call from a joblib pool, as scikit-learn does."""
    from joblib import Parallel, delayed

    found = Parallel(n_jobs=2)(delayed(explained)(1, number) for number in range(4))
    return _answers(found, expected)


# ---- processes that end


def _jobs_killed(seed: int, folder: Path) -> str:
    """Kill a sweep that uses two processes; the processes must end with it."""
    arguments = "run bmf --size 12,3 --init paper-3 --seeds 0-3 --steps 3000 --jobs 2 --quiet"
    process = subprocess.Popen(
        [sys.executable, "-m", "reproduction", *arguments.split(), "--out", str(folder / "out")],
        cwd=Path(__file__).resolve().parents[2],
    )
    time.sleep(float(np.random.default_rng(seed).uniform(0.5, 8.0)))
    started = _descendants(process.pid)
    process.kill()
    process.wait()
    for _ in range(200):
        if not any(Path(f"/proc/{number}").exists() for number in started):
            return "all ended" if started else "killed before they began"
        time.sleep(0.05)
    raise Loss("workers live on without their parent")


def _descendants(process: int) -> list[int]:
    try:
        listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [number for child in map(int, listed) for number in (child, *_descendants(child))]


# ---- places to write


def _damaged_kernels(seed: int, folder: Path) -> str:
    """Truncate, overwrite or flip a bit in files of compiled kernels."""
    source = folder / "doubling.py"
    source.write_text(_KERNEL)
    if runpy.run_path(str(source))["twice"](2.0) != 4.0:
        raise Loss("a kernel is wrong")
    random = np.random.default_rng(seed)
    files = sorted((folder / "__pycache__").glob("doubling*.nb*"))
    if len(files) != 2:
        raise Loss("kernels are not cached")
    for _ in range(10):
        path = files[random.integers(2)]
        content = bytearray(path.read_bytes())
        place = int(random.integers(len(content)))
        how = random.integers(3)
        if how == 0:
            del content[place:]
        elif how == 1:
            content[place : place + 20] = random.bytes(20)
        else:
            content[place] ^= 1 << int(random.integers(8))
        path.write_bytes(bytes(content))
        if runpy.run_path(str(source))["twice"](2.0) != 4.0:
            raise Loss("a damaged kernel was used")
        again = runpy.run_path(str(source))["twice"]
        if again(2.0) != 4.0 or not sum(again.stats.cache_hits.values()):
            raise Loss("a damaged kernel was not replaced")
    return "compiled anew"


def _read_only(seed: int, folder: Path) -> str:
    """Run commands where only one temporary folder is writable and there is no home folder."""
    (folder / "x.csv").write_text(table())
    model = folder / "m.safetensors"
    nor.save_network(model, network())
    commands = (
        ["explain", str(model), "--observe", "0,1"],
        ["info", str(model)],
        ["fit", "x.csv", "--out", "n.safetensors", "--kind", "topics", "--layers=2", "--steps=3"],
        ["demo", "--out", "demo", "--quiet"],
    )
    chosen = commands[seed % len(commands)]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")},
        **{"HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent", "TMPDIR": str(folder)},
    }
    for path in (folder.parent, folder, *folder.iterdir()):
        path.chmod(0o777)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", _IN_CONTAINER, str(folder), *_COMMAND, *chosen],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == _NO_CONTAINER or done.stderr.startswith("unshare:"):
        return "skipped: no mounts of its own here"
    if done.returncode not in (0, 1) or "Traceback" in done.stderr:
        raise Loss(f"{chosen[0]} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return "worked as nobody" if "nobody" in done.stderr.split("\n", 1)[0] else "worked as root"
