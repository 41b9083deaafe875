"""Functions for benchmarks: interleaved timing, a description of the machine, JSON output."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple


class Timing(NamedTuple):
    """Times of a case that ran in another process."""

    wall_ms: float
    cpu_ms: float


class Rounds(NamedTuple):
    """Times of every case in each round, and the largest share of the cores that others used."""

    timings: list[dict[str, Timing]]
    share_of_others: float


def interleaved(
    cases: Mapping[str, Callable[[], object]],
    rounds: int,
    repeat: int = 1,
    quiet: float | None = None,
) -> dict[str, dict[str, float]]:
    """Return median wall and CPU milliseconds of each case over rounds, see `in_rounds`."""
    used, share = in_rounds(cases, rounds, repeat, quiet)
    return {name: summary(used, name, share) for name in cases}


def summary(used: list[dict[str, Timing]], name: str, share: float) -> dict[str, float]:
    """Return the medians of one case for the JSON file."""
    return {
        "wall_ms": significant(median(turn[name].wall_ms for turn in used)),
        "cpu_ms": significant(median(turn[name].cpu_ms for turn in used)),
        "fastest_wall_ms": significant(min(turn[name].wall_ms for turn in used)),
        "rounds": len(used),
        "share_of_cpu_used_by_others": round(share, 3),
    }


def in_rounds(
    cases: Mapping[str, Callable[[], object]],
    rounds: int,
    repeat: int = 1,
    quiet: float | None = None,
) -> Rounds:
    """Time the cases in rounds; every round runs every case.

    If other programs slow the machine for a while, they slow all cases. A case is called ``repeat``
    times in every round, and once before the first round without timing. With ``quiet``, rounds
    during which other programs used more than that share of the cores do not count, unless too few
    rounds remain; then the quietest rounds count.
    """
    for case in cases.values():
        case()
    chunks: list[tuple[float, list[dict[str, Timing]]]] = []
    counted, attempts = 0, 0
    while counted < rounds and attempts < _ATTEMPTS:
        watch = _Watch()
        chunk = [_round(cases, repeat)]
        while watch.seconds() < _CHUNK_SECONDS:
            chunk.append(_round(cases, repeat))
        elsewhere = sum(
            timing.cpu_ms * repeat / 1e3
            for turn in chunk
            for name, timing in turn.items()
            if name in _elsewhere
        )
        share = watch.share_of_others(elsewhere)
        chunks.append((share, chunk))
        attempts += 1
        if quiet is None or share <= quiet:
            counted += len(chunk)
        else:
            time.sleep(_PAUSE_SECONDS)
    chunks.sort(key=lambda item: item[0])
    used: list[dict[str, Timing]] = []
    shares: list[float] = []
    for share, chunk in chunks:
        if len(used) < rounds:
            used += chunk
            shares.append(share)
    return Rounds(used, max(shares))


_CHUNK_SECONDS = 1.0  # the system counts in ticks of 10 ms
_PAUSE_SECONDS = 2.0
_ATTEMPTS = 60
_elsewhere: set[str] = set()


def _round(cases: Mapping[str, Callable[[], object]], repeat: int) -> dict[str, Timing]:
    result = {}
    for name, case in cases.items():
        began, began_cpu = time.perf_counter(), time.process_time()
        answers = [case() for _ in range(repeat)]
        cpu = (time.process_time() - began_cpu) * 1e3 / repeat
        wall = (time.perf_counter() - began) * 1e3 / repeat
        if isinstance(answers[0], Timing):
            _elsewhere.add(name)
            wall, cpu = (sum(values) / repeat for values in zip(*answers, strict=True))
        result[name] = Timing(wall, cpu)
    return result


class _Watch:
    """Measure the share of the machine that other programs use from now on."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.busy, self.own = busy_seconds(), _own_seconds()

    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def share_of_others(self, own_elsewhere: float = 0.0) -> float:
        """Return the share of all cores; ``own_elsewhere``: CPU seconds of our other processes."""
        own = _own_seconds() - self.own + own_elsewhere
        others = busy_seconds() - self.busy - own
        return max(0.0, others) / (self.seconds() * len(os.sched_getaffinity(0)))


def significant(value: float, digits: int = 4) -> float:
    """Round a number to some significant digits."""
    return float(f"{value:.{digits}g}")


class Machine:
    """The machine that a benchmark ran on, and the share of it that other programs used."""

    def __init__(self) -> None:
        self.load = os.getloadavg()
        self.watch = _Watch()

    def describe(self, *packages: str) -> dict[str, Any]:
        """Return the description for the JSON file; call this at the end of a benchmark."""
        return {
            "cpu": _cpu_model(),
            "cores": len(os.sched_getaffinity(0)),
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            **_versions("noisyor", "numba", "numpy", "scipy", *packages),
            "load_average_at_start": [round(value, 2) for value in self.load],
            "load_average_at_end": [round(value, 2) for value in os.getloadavg()],
            "share_of_cpu_used_by_others": round(self.watch.share_of_others(), 3),
            "seconds": round(self.watch.seconds(), 1),
        }


def arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument(
        "--rounds", type=int, default=15, help="smallest number of interleaved rounds"
    )
    parser.add_argument(
        "--quiet",
        type=float,
        metavar="SHARE",
        help="do not count rounds during which others used more than this share of the cores",
    )
    return parser


def idea_arguments(description: str, ideas: Iterable[str]) -> argparse.ArgumentParser:
    """Return a parser for a benchmark that compares settings on data and stores finished runs."""
    parser = arguments(description)
    parser.add_argument(
        "--data", type=Path, help="folder of the data files (default: NOISYOR_DATA)"
    )
    parser.add_argument("--only", nargs="*", choices=list(ideas), help="settings to compare")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--table", type=Path, metavar="JSON", help="print the tables and stop")
    return parser


def earlier(path: Path | None, blank: dict[str, Any]) -> dict[str, Any]:
    """Return the results that an earlier call wrote to the file, or ``blank``."""
    return blank if path is None or not path.exists() else json.loads(path.read_text())


def write(path: Path | None, content: Mapping[str, Any]) -> None:
    """Write the results to the file, if one is given."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n")


def _versions(*packages: str) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()


def busy_seconds() -> float:
    """Return the busy seconds of all cores; of this process if the system does not report them."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return _own_seconds()
    ticks = [int(field) for field in fields]
    return (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    times = os.times()
    return time.process_time() + times.children_user + times.children_system
