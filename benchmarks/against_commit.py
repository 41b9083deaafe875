"""Is this source tree as fast as another one? Both run side by side, in turns.

    python benchmarks/against_commit.py --baseline OTHER/src [--data DIR] \\
        [--json results/against_commit.json]

The kernels of ``against_c.py`` and the updates of ``update_time.py``, in a process of its own for
either tree. Rounds alternate between the two processes; a ratio is that of one round, so what
disturbs the machine for a while disturbs both sides of it. Ratios are this tree to the baseline,
medians over the rounds: below 1 this tree is faster. The baseline needs its ``benchmarks`` folder
beside its ``src``, for example a ``git worktree`` of the other commit. Both start from the same
parameters, and the bounds that they reach are compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from _measure import Machine, Timing, arguments, in_rounds, significant, summary, write
from _problems import BMF_SIZES, data_directory
from _worker import Worker
from update_time import CASES

TREES = ("baseline", "current")
KERNEL_RUNS = 3
"""A kernel takes milliseconds: its turn is several calls, as in ``against_c.py``."""


def start(source: Path) -> Worker:
    """A process that measures the tree of a ``src`` folder."""
    source = source.resolve()
    benchmarks = source.parent / "benchmarks"
    for needed in (source / "noisyor", benchmarks / "update_time.py"):
        if not needed.exists():
            raise SystemExit(f"{needed} does not exist")
    script = Path(__file__).with_name("_commit_worker.py")
    worker = Worker(
        [sys.executable, "-P", "-W", "ignore", str(script)],  # -P: not the benchmarks beside it
        {"command": "source"},
        {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(benchmarks)])},
    )
    if Path(worker.first["source"]) != source:
        raise SystemExit(f"the process measures {worker.first['source']}, not {source}")
    return worker


def commit_of(source: Path) -> str | None:
    """The commit of a tree, marked if files were changed since."""
    found = subprocess.run(
        ["git", "-C", str(source), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or None


def compare(
    workers: dict[str, Worker], variant: str, updates: int, rounds: int, quiet: float | None
) -> dict[str, Any]:
    """Times of one variant in both trees; those of updates are per update."""
    values: dict[str, float] = {}

    def turn(tree: str) -> Timing:
        answer = workers[tree].ask({"command": "run", "variant": variant})
        values[tree] = answer["value"]
        return Timing(answer["wall_ms"] / updates, answer["cpu_ms"] / updates)

    repeat = KERNEL_RUNS if variant == "kernel" else 1
    cases = {tree: partial(turn, tree) for tree in TREES}
    used, share = in_rounds(cases, rounds, repeat, quiet)

    def ratio(field: str) -> float:
        pairs = ((getattr(t["current"], field), getattr(t["baseline"], field)) for t in used)
        return significant(median(new / old for new, old in pairs))

    return {
        "ratio_of_wall_time": ratio("wall_ms"),
        "ratio_of_cpu_time": ratio("cpu_ms"),
        **{tree: summary(used, tree, share) for tree in TREES},
        "difference_of_bounds": abs(values["current"] - values["baseline"]),
    }


def measure(
    workers: dict[str, Worker], message: dict[str, Any], rounds: int, quiet: float | None
) -> dict[str, Any]:
    """All variants of one problem."""
    told = {tree: workers[tree].ask(message) for tree in reversed(TREES)}  # this tree trains
    variants = told["current"]["variants"]
    if told["baseline"]["variants"] != variants:
        raise SystemExit(f"the trees measure different variants: {told}")
    updates = told["current"].get("updates", 1)
    return {name: compare(workers, name, updates, rounds, quiet) for name in variants}


def problems(data: Path | None, directory: Path) -> dict[str, dict[str, Any]]:
    """What to ask the processes for, by the name of the problem."""
    messages: dict[str, dict[str, Any]] = {
        f"kernel n={n} r={r}": {"command": "kernel", "size": [n, r]} for n, r in BMF_SIZES
    }
    for number, (name, case) in enumerate(CASES.items()):
        if case.file is not None and (data is None or not (data / case.file).exists()):
            print(f"{name}: skipped, {case.file} not found, give --data DIR")
            continue
        theta = directory / f"{number}.npy"
        messages[name] = {"command": "updates", "case": name, "theta": str(theta)}
        messages[name]["data"] = "" if data is None else str(data.resolve())
    return messages


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--baseline", type=Path, required=True, help="the other tree's src folder")
    parser.add_argument("--data", type=Path, help="directory of the data files")
    parser.add_argument("--only", nargs="*", help="start of the names of the problems to run")
    given = parser.parse_args()
    data, machine = data_directory(given.data), Machine()
    sources = {"baseline": given.baseline, "current": Path(__file__).parent.parent / "src"}
    workers = {tree: start(source) for tree, source in sources.items()}
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        for name, message in problems(data, Path(directory)).items():
            if given.only and not name.startswith(tuple(given.only)):
                continue
            results[name] = measure(workers, message, given.rounds, given.quiet)
            for variant, row in results[name].items():
                print(
                    f"{row['ratio_of_wall_time']:6.3f} x wall {row['ratio_of_cpu_time']:6.3f} x "
                    f"CPU   {row['baseline']['wall_ms']:9.3f} -> {row['current']['wall_ms']:9.3f} "
                    f"ms   {name}, {variant}   bounds differ by {row['difference_of_bounds']:.1e}",
                    flush=True,
                )
    for worker in workers.values():
        worker.close()
    commits = {tree: commit_of(source) for tree, source in sources.items()}
    write(given.json, {"machine": machine.describe(), "commits": commits, "cases": results})


if __name__ == "__main__":
    main()
