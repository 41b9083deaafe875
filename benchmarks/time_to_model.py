"""Time `noisyor fit` and `noisyor report` on several tables.

    python benchmarks/time_to_model.py --tables DIR [--data DIR] [--json results/time_to_model.json]

The script runs the commands in separate processes and records wall time, CPU time of all threads,
and the result. Kernels are compiled before, except in the runs called cold, which start with an
empty cache. Missing tables are skipped.

The folder of --tables holds tables that cannot be distributed here: votes.csv (HouseVotes84 of the
R package mlbench) and mushroom.csv (KEEL's mushroom without its rows with missing values, a column
for each value). Baskets are generated with a shape like groceries: some items are in half of the
baskets, most items in few, and a habit adds a third of its items. The folder of --data, or else
NOISYOR_DATA, holds density/nltcs.npz and arxiv_abstracts.jsonl.xz, of which the first 3,000
abstracts are read.
"""

from __future__ import annotations

import json
import lzma
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from _measure import Machine, arguments, earlier, significant, write

ABSTRACTS = 3000
BASKETS, ITEMS, HABITS = 9835, 169, 14

_NOISYOR = "import sys; from noisyor.cli.main import main; sys.exit(main())"

TABLES = {
    "votes": ["votes.csv", "--drop", "party", "--truth", "y/n"],
    "mushroom": ["mushroom.csv", "--drop", "class"],
    "baskets": ["baskets.txt", "--format", "baskets"],
    "nltcs": ["nltcs.npy"],
    "abstracts": ["abstracts.jsonl"],
}


def prepare(data: Path, folder: Path) -> None:
    """Write tables made from the files of the data folder, and baskets."""
    made_baskets(folder / "baskets.txt")
    packed = data / "density/nltcs.npz"
    if packed.exists():
        with np.load(packed) as bits:
            rows = np.unpackbits(bits["train"], axis=1, count=int(bits["n_columns"]))
        np.save(folder / "nltcs.npy", rows)
    texts = data / "arxiv_abstracts.jsonl.xz"
    if texts.exists():
        with lzma.open(texts, "rt") as lines, open(folder / "abstracts.jsonl", "w") as out:
            out.writelines(islice(lines, ABSTRACTS))


def made_baskets(path: Path, seed: int = 7) -> None:
    """Write a file of baskets: single items drawn by their frequency, and parts of habits."""
    random = np.random.default_rng(seed)
    common = np.sort(random.pareto(1.1, ITEMS) + 0.05)[::-1]
    common /= common.sum()
    habits = [
        random.choice(ITEMS, random.integers(4, 12), replace=False, p=common) for _ in range(HABITS)
    ]
    with open(path, "w") as file:
        for _ in range(BASKETS):
            basket = set(random.choice(ITEMS, 1 + random.poisson(2.0), p=common))
            for habit in habits:
                if random.random() < 0.07:
                    basket |= {item for item in habit if random.random() < 0.3}
            print(",".join(f"item {item:03d}" for item in sorted(basket)), file=file)


def timed(command: list[str], **environment: str) -> tuple[dict[str, float], str]:
    """Return wall and CPU seconds of a command, and its output."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _NOISYOR, *command],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-500:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": significant(wall, 3), "cpu_s": significant(cpu, 3)}, done.stdout


def case(options: list[str], place: Path, rounds: int, folder: Path, cold: bool) -> dict[str, Any]:
    """Measure the times of one table."""
    model, page = folder / "model.safetensors", folder / "page.html"
    fit = ["fit", str(place), *options[1:], "--out", str(model), "--force", "--json"]
    report = ["report", str(model), str(place), "--out", str(page), "--force", "--quiet"]
    runs: dict[str, list[Any]] = {"fit": [], "report": []}
    for number in range(rounds + 1):  # the first makes sure that kernels are there
        for name, command in (("fit", fit), ("report", report)):
            seconds, printed = timed(command)
            if number:
                runs[name].append(seconds)
            if name == "fit":
                learned = json.loads(printed)
    result: dict[str, Any] = {
        "command": " ".join(["noisyor fit", *options]),
        **{key: learned[key] for key in ("rows", "columns", "hidden", "log_p", "independent")},
        "sets": learned["settings"].get("sets"),
        "rounds": rounds,
    }
    for name, times in runs.items():
        for key in ("wall_s", "cpu_s"):
            result[f"{name}_{key}"] = median(one[key] for one in times)
        result[f"{name}_fastest_wall_s"] = min(one["wall_s"] for one in times)
    if cold:
        with tempfile.TemporaryDirectory() as cache:
            for name, command in (("fit", fit), ("report", report)):
                seconds, _ = timed(command, NUMBA_CACHE_DIR=cache)
                result |= {f"cold_{name}_{key}": value for key, value in seconds.items()}
    return result


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--tables", type=Path, help="folder of votes and mushroom")
    parser.add_argument("--data", type=Path, help="folder of the data files")
    parser.add_argument("--only", nargs="*", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--cold", nargs="*", choices=list(TABLES), default=["votes", "mushroom"])
    parser.set_defaults(rounds=3)
    options = parser.parse_args()
    data = options.data or Path(os.environ.get("NOISYOR_DATA", "."))
    machine, result = Machine(), earlier(options.json, {"cases": {}})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(data, folder)
        for table in options.only:
            places = [folder / TABLES[table][0]]
            if options.tables is not None:
                places.append(options.tables / TABLES[table][0])
            place = next((one for one in places if one.exists()), None)
            if place is None:
                print(f"{table}: not there")
                continue
            watch = Machine()
            found = case(TABLES[table], place, options.rounds, folder, table in options.cold)
            used = watch.describe()["share_of_cpu_used_by_others"]
            result["cases"][table] = {**found, "share_of_cpu_used_by_others": used}
            print(table, json.dumps(found))
            result["machine"] = machine.describe()
            write(options.json, result)


if __name__ == "__main__":
    main()
