"""Shared by the benchmarks: interleaved timing, a description of the machine, JSON output."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def interleaved(
    cases: Mapping[str, Callable[[], object]], rounds: int, repeat: int = 1
) -> dict[str, dict[str, float]]:
    """Median wall and CPU milliseconds of each case over rounds in which every case has its turn.

    What disturbs the machine for a while then disturbs all cases alike. A case is called
    ``repeat`` times a turn, once without the clock before the first round.
    """
    for case in cases.values():
        case()
    wall: dict[str, list[float]] = {name: [] for name in cases}
    cpu: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            began, began_cpu = time.perf_counter(), time.process_time()
            for _ in range(repeat):
                case()
            cpu[name].append((time.process_time() - began_cpu) * 1e3 / repeat)
            wall[name].append((time.perf_counter() - began) * 1e3 / repeat)
    return {name: summary(wall[name], cpu[name]) for name in cases}


def summary(wall: list[float], cpu: list[float]) -> dict[str, float]:
    """Medians of both and the fastest wall time, in the unit of the arguments."""
    return {
        "wall_ms": significant(statistics.median(wall)),
        "cpu_ms": significant(statistics.median(cpu)),
        "fastest_wall_ms": significant(min(wall)),
        "rounds": len(wall),
    }


def significant(value: float, digits: int = 4) -> float:
    """The number rounded to some significant digits."""
    return float(f"{value:.{digits}g}")


class Machine:
    """What a benchmark ran on, and how much of it others used meanwhile."""

    def __init__(self) -> None:
        self.load = os.getloadavg()
        self.began = time.perf_counter()
        self.busy, self.own = _busy_seconds(), _own_seconds()

    def describe(self, *packages: str) -> dict[str, Any]:
        """For the JSON file; call it at the end. Packages not installed are left out."""
        elapsed = time.perf_counter() - self.began
        cores = len(os.sched_getaffinity(0))
        others = None
        if self.busy is not None and (busy := _busy_seconds()) is not None:
            others = (busy - self.busy) - (_own_seconds() - self.own)
            others = round(max(0.0, others) / (elapsed * cores), 3)
        return {
            "cpu": _cpu_model(),
            "cores": cores,
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            **_versions("noisyor", "numba", "numpy", "scipy", *packages),
            "load_average_at_start": [round(value, 2) for value in self.load],
            "load_average_at_end": [round(value, 2) for value in os.getloadavg()],
            "share_of_cpu_used_by_others": others,
            "seconds": round(elapsed, 1),
        }


def arguments(
    description: str, parser: argparse.ArgumentParser | None = None
) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark has."""
    parser = parser or argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds")
    return parser


def write(path: Path | None, content: Mapping[str, Any]) -> None:
    """Write the results, if a file was asked for."""
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


def _busy_seconds() -> float | None:
    """Seconds that all cores together were not idle, since the start of the system."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    ticks = [int(field) for field in fields]
    return (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
