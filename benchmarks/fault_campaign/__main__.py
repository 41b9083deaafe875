"""Run the fault campaign: all cases in turn, a record written as it goes, a table at the end."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _measure import Machine, write
from fault_campaign.case import LIMIT_MB, LIMIT_SECONDS, Attempt, Case, Outcome, run_in_process

_RESULT = Path(__file__).resolve().parents[2] / "results" / "faults.json"
_SAVE_SECONDS = 5.0
_PROCESSES = 300.0  # seconds: a container compiles all kernels, a pool of processes starts anew
_SHOWN = 3

Pair = tuple[Case, Attempt]


class Record:
    """Outcomes by kind, and every loss in full."""

    def __init__(self) -> None:
        self.kinds: dict[str, dict[str, Any]] = {}
        self.losses: list[dict[str, Any]] = []

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        blank = {"cases": 0, "losses": 0, "seconds": 0.0, "peak_mb": 0.0, "what": Counter()}
        kind = self.kinds.setdefault(outcome.case.kind, blank)
        kind["cases"] += 1
        kind["losses"] += not outcome.ok
        kind["seconds"] = max(kind["seconds"], outcome.seconds)
        kind["peak_mb"] = max(kind["peak_mb"], outcome.peak_mb)
        if outcome.ok:
            kind["what"][outcome.what] += 1
        else:
            self.losses.append(asdict(outcome))

    @property
    def total(self) -> int:
        """Number of cases."""
        return sum(kind["cases"] for kind in self.kinds.values())

    def plain(self) -> dict[str, Any]:
        """Return the record for the JSON file, with the most frequent outcomes of each kind."""
        kinds = {
            name: {**kind, "what": dict(kind["what"].most_common(10))}
            for name, kind in sorted(self.kinds.items())
        }
        return {"cases": self.total, "kinds": kinds, "losses": self.losses}

    def table(self) -> str:
        """Return a table with a line for each kind: slowest case and largest memory."""
        lines = [f"{'kind':<24}{'cases':>7}{'losses':>8}{'seconds':>9}{'MB':>7}  what happened"]
        for name, kind in sorted(self.kinds.items()):
            common = "; ".join(f"{what} {n}" for what, n in kind["what"].most_common(_SHOWN))
            lines.append(
                f"{name:<24}{kind['cases']:>7}{kind['losses']:>8}{kind['seconds']:>9.1f}"
                f"{kind['peak_mb']:>7.0f}  {common}"
            )
        lines.append(f"{'all':<24}{self.total:>7}{len(self.losses):>8}")
        for loss in self.losses:
            lines.append(f"LOST {loss['case']['name']}: {loss['what']}")
        return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; return 1 if anything was lost."""
    given = _parser().parse_args(arguments)
    for name in ("NOISYOR", "OPENBLAS", "OMP", "NUMBA"):  # forked processes have no threads
        os.environ[f"{name}_NUM_THREADS"] = "1"
    machine, record, began = Machine(), Record(), time.monotonic()
    saved = began
    settings = {
        name: getattr(given, name)
        for name in ("kills", "fuzz", "processes", "minutes", "seed", "patience")
    }

    def save(finished: bool) -> None:
        limits = {"seconds": LIMIT_SECONDS, "seconds_of_processes": _PROCESSES, "mb": LIMIT_MB}
        content = {
            "settings": settings,
            "finished": finished,
            **record.plain(),
            "limits": limits,
            "machine": machine.describe(),
        }
        write(given.json, content)

    finished = True
    for (case, attempt), limit in _all(given):
        if time.monotonic() - began > 60 * given.minutes:
            print(f"time is over after {record.total} cases", file=sys.stderr)
            finished = False
            break
        record.add(run_in_process(case, attempt, limit_seconds=limit))
        if time.monotonic() - saved > _SAVE_SECONDS:
            saved = time.monotonic()
            save(finished=False)
            if sys.stderr.isatty():
                print(f"\r{record.total} cases, {len(record.losses)} lost", end="", file=sys.stderr)
    save(finished)
    print(record.table())
    return 1 if record.losses else 0


def _all(given: argparse.Namespace) -> Iterator[tuple[Pair, float]]:
    """Yield cases and their limits in seconds; kinds alternate, so that a short run has all."""
    from fault_campaign import kills, processes

    slow = LIMIT_SECONDS * given.patience
    sources: list[tuple[Iterator[Pair], float]] = [
        (processes.cases(given.processes, given.seed), _PROCESSES * given.patience),
        (kills.cases(given.kills, given.seed), slow),
    ]
    if given.fuzz and find_spec("fault_campaign.hostile"):
        from fault_campaign import hostile

        sources += [(hostile.cases(given.fuzz, given.seed), slow)]
    while sources:
        for source in list(sources):
            pair = next(source[0], None)
            if pair is None:
                sources.remove(source)
            else:
                yield pair, source[1]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="faults.py", description="Try to break noisyor, and report what was lost."
    )
    parser.add_argument(
        "--kills", type=int, default=1000, help="kills, full disks and concurrent runs"
    )
    parser.add_argument("--fuzz", type=int, default=5000, help="hostile files")
    parser.add_argument("--processes", type=int, default=28, help="services, pools, containers")
    parser.add_argument("--minutes", type=float, default=30.0, help="no new case after these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=_RESULT, help="record, written as it goes")
    parser.add_argument(
        "--patience", type=float, default=1.0, help="factor on the time limits, for a busy machine"
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
