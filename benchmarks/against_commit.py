"""Compare the speed of this source tree with another one; both run alternately.

    python benchmarks/against_commit.py --baseline OTHER [--data DIR] [--only NAME ...] \\
        [--json results/against_commit.json]

OTHER is the folder of another commit, for example a ``git worktree``. The script measures two kinds
of work:

* the updates of ``update_time.py``, and some other calls on the smallest of its problems, in one
  process for each tree. Rounds alternate between the two processes, and ratios are computed within
  a round, so that a busy machine slows both sides. Both trees have the same rows and start from the
  same parameters; the values that they compute are compared;
* ``demo`` and ``fit``: the commands ``noisyor demo`` and ``noisyor fit examples/animals.csv``
  with eight components. Each run has an empty folder for compiled kernels (*cold*) and is
  repeated with the kernels that it compiled (*warm*).

A ratio is the time of this tree divided by the time of the baseline, for wall time and CPU time, as
a median over the rounds. Below 1, this tree is faster.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
import tomllib
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import scipy.sparse as sp

from _measure import Machine, Timing, arguments, in_rounds, significant, summary, write
from _problems import BMF_SIZES, bmf_name, data_directory, load_rows
from _worker import Worker
from update_time import CASES, WARM_UP

ROOT = Path(__file__).resolve().parents[1]
TREES = ("baseline", "current")
SMALLEST = bmf_name(*BMF_SIZES[0])
COMMANDS = {
    "demo": ["demo"],
    "fit": [
        *("fit", str(ROOT / "examples" / "animals.csv"), "--id-column", "animal"),
        *("--drop", "class", "--components", "8", "--out", "animals.safetensors"),
    ],
}

KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000"}
"""Keeps freed memory in the process. Otherwise some processes, by chance and with either tree,
return it after every update and spend as long on page faults as on inference."""


# ---- updates and other calls


def start(tree: Path) -> Worker:
    """Start a process that measures the package of a tree."""
    source = tree / "src"
    if not (source / "noisyor").is_dir():
        raise SystemExit(f"{source / 'noisyor'} does not exist")
    worker = Worker(
        [sys.executable, "-W", "ignore", str(Path(__file__).with_name("_commit_worker.py"))],
        {"command": "source"},
        {**os.environ, **KEEP_MEMORY, "PYTHONPATH": str(source)},
    )
    if Path(worker.first["source"]) != source:
        raise SystemExit(f"the process measures {worker.first['source']}, not {source}")
    return worker


def compare(
    workers: dict[str, Worker], variant: str, updates: int, rounds: int, quiet: float | None
) -> dict[str, Any]:
    """Measure one variant in both trees; times of updates are per update."""
    values: dict[str, float] = {}
    for tree in TREES:  # this also compiles
        answer = workers[tree].ask({"command": "run", "variant": variant})
        if "error" in answer:
            return {"skipped": f"{tree}: {answer['error']}"}

    def turn(tree: str) -> Timing:
        answer = workers[tree].ask({"command": "run", "variant": variant})
        values[tree] = answer["value"]
        return Timing(answer["wall_ms"] / updates, answer["cpu_ms"] / updates)

    cases = {tree: partial(turn, tree) for tree in TREES}
    used, share = in_rounds(cases, rounds, quiet=quiet)
    return {
        **ratios(used),
        **{tree: summary(used, tree, share) for tree in TREES},
        "difference_of_values": abs(values["current"] - values["baseline"]),
    }


def ratios(rounds: list[dict[str, Timing]]) -> dict[str, float]:
    """Median over rounds of the time of this tree divided by that of the baseline."""

    def ratio(field: str) -> float:
        pairs = [
            (getattr(one["current"], field), getattr(one["baseline"], field)) for one in rounds
        ]
        return significant(median(new / old for new, old in pairs))

    return {"ratio_of_wall_time": ratio("wall_ms"), "ratio_of_cpu_time": ratio("cpu_ms")}


def measure(
    workers: dict[str, Worker], message: dict[str, Any], rounds: int, quiet: float | None
) -> dict[str, Any]:
    """Measure all variants of one problem."""
    built = {tree: workers[tree].ask(message) for tree in reversed(TREES)}  # this tree trains
    found = {}
    for variant in built["current"]["variants"]:
        n_updates = message["updates"] if "thread" in variant else 1
        found[variant] = compare(workers, variant, n_updates, rounds, quiet)
    return found


def problem_message(name: str, data: Path | None, folder: Path) -> dict[str, Any] | None:
    """Write the rows of a problem and say what to measure; None if its data are not there."""
    case = CASES[name]
    if case.file is not None and (data is None or not (data / case.file).exists()):
        print(f"{name}: skipped, {case.file} not found, give --data DIR")
        return None
    sp.save_npz(folder / "rows.npz", load_rows(name, data).to_csr())
    return {
        "command": "build",
        "problem": name,
        "rows": str(folder / "rows.npz"),
        "theta": str(folder / "theta.npy"),
        "warm_up": WARM_UP,
        "updates": case.updates,
        "forced": case.forced,
        "mean_field": name in (SMALLEST, "imdb"),
        "others": name == SMALLEST,
    }


# ---- commands


def run_command(tree: Path, command: list[str], folder: Path) -> Timing:
    """Run a command of a tree in a new folder beside that of its compiled kernels."""
    scripts = tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    module, function = scripts["noisyor"].split(":")
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "NUMBA_CACHE_DIR": str(folder / "kernels"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    code = f"import sys; from {module} import {function}; sys.exit({function}())"
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-c", code, *command],
        cwd=tempfile.mkdtemp(dir=folder),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode:
        raise SystemExit(f"{tree}: noisyor {' '.join(command)}:\n{ended.stderr[-2000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timing(wall * 1e3, cpu * 1e3)


def measure_command(trees: dict[str, Path], command: list[str], rounds: int) -> dict[str, Any]:
    """Measure a command without and with compiled kernels, in rounds."""
    times: dict[str, list[dict[str, Timing]]] = {"cold": [], "warm": []}
    for _ in range(rounds):
        for used in times.values():
            used.append({})
        for name, tree in trees.items():
            with tempfile.TemporaryDirectory() as folder:
                for used in times.values():
                    used[-1][name] = run_command(tree, command, Path(folder))
    return {
        kind: {**ratios(used), **{tree: summary(used, tree, 0.0) for tree in TREES}}
        for kind, used in times.items()
    }


# ---- all


def commit_of(tree: Path) -> str | None:
    """Name the commit of a tree, marked if files were changed since."""
    found = subprocess.run(
        ["git", "-C", str(tree), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or None


def show(name: str, variants: dict[str, Any]) -> None:
    for variant, row in variants.items():
        if "skipped" in row:
            print(f"{name}, {variant}: skipped, {row['skipped']}", flush=True)
            continue
        old, new = row["baseline"], row["current"]
        difference = row.get("difference_of_values")
        print(
            f"{row['ratio_of_wall_time']:6.3f} x wall  {old['wall_ms']:10.3f} -> "
            f"{new['wall_ms']:10.3f} ms   {row['ratio_of_cpu_time']:6.3f} x CPU  "
            f"{old['cpu_ms']:10.3f} -> {new['cpu_ms']:10.3f} ms   {name}, {variant}"
            + ("" if difference is None else f"   values differ by {difference:.1e}"),
            flush=True,
        )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--baseline", type=Path, required=True, help="folder of the other tree")
    parser.add_argument("--data", type=Path, help="directory of the data files")
    parser.add_argument(
        "--only", nargs="*", help=f"start of the names to run: {', '.join([*COMMANDS, *CASES])}"
    )
    parser.add_argument("--command-rounds", type=int, default=3, help="rounds of the commands")
    given = parser.parse_args()
    data, machine = data_directory(given.data), Machine()
    trees = {"baseline": given.baseline.resolve(), "current": ROOT}
    chosen = [
        name for name in [*CASES, *COMMANDS] if not given.only or name.startswith(tuple(given.only))
    ]
    workers = {name: start(tree) for name, tree in trees.items()}
    results: dict[str, Any] = {}
    for name in chosen:
        if name in COMMANDS:
            results[name] = measure_command(trees, COMMANDS[name], given.command_rounds)
        else:
            with tempfile.TemporaryDirectory() as folder:
                message = problem_message(name, data and data.resolve(), Path(folder))
                if message is None:
                    continue
                results[name] = measure(workers, message, given.rounds, given.quiet)
        show(name, results[name])
    for worker in workers.values():
        worker.close()
    commits = {name: commit_of(tree) for name, tree in trees.items()}
    write(given.json, {"machine": machine.describe(), "commits": commits, "cases": results})


if __name__ == "__main__":
    main()
