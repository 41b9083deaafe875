"""Compare the errors of Boolean factorizations with published results.

    python benchmarks/published_matrices.py [--seeds N] [--json results/published_matrices.json]

Matrices and published numbers of wrong entries are from Kovács, Günlük, Hauser, "Binary Matrix
Factorisation via Column Generation" (AAAI 2021), and the authors' repository. Their column
generation had 20 + 10 minutes of CPLEX for each instance; k-greedy is their heuristic. noisyor runs
`search_factors(objective="hamming")` with its default settings and seeds 0, 1, …, and the median
over the seeds is compared. CPU seconds are those of the search, after compilation. ``--high-ranks``
compares ranks of half the columns and more with three baselines instead: GreConD, a greedy
algorithm, and K columns as memberships, with every other column an OR of them.

The files are found by `reproduction.datasets.fetch`. Every run is written to the JSON file as soon
as it is finished, and finished runs are skipped.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

import _root  # noqa: F401
import noisyor as nor
from _measure import Machine, arguments, significant, write
from _simple_baselines import alternating_greedy, grecond, greedy_memberships
from reproduction.datasets import fetch

RANKS = (2, 5, 10)
SOURCE = (
    "Kovács, Günlük, Hauser (2021), Binary Matrix Factorisation via Column Generation, AAAI 35; "
    "https://github.com/kovacsrekaagnes/rank_k_Binary_Matrix_Factorisation"
)


class Published(NamedTuple):
    """Wrong entries with 2, 5 and 10 factors."""

    column_generation: tuple[int, int, int]
    k_greedy: tuple[int, int, int]


PUBLISHED = {
    "zoo": Published((272, 126, 39), (323, 218, 175)),
    "heart": Published((1185, 737, 425), (1187, 738, 565)),
    "lymp": Published((1192, 982, 728), (1201, 1053, 859)),
    "apb": Published((776, 684, 573), (776, 688, 606)),
}


def matrix(name: str) -> Any:
    """Return the matrix of 0 and 1."""
    return np.loadtxt(fetch(f"bmf_published/{name}.txt"), dtype=np.uint8)


def run(name: str, causes: int, seed: int) -> dict[str, Any]:
    """Run one search, and count its errors again from states and factors."""
    X = matrix(name)
    began, began_wall = time.process_time(), time.perf_counter()
    found = nor.search.search_factors(X, causes, objective="hamming", seed=seed)
    cpu, wall = time.process_time() - began, time.perf_counter() - began_wall
    drawn = found.states.astype(int) @ found.factors.astype(int) > 0
    return {
        "errors": int((drawn != (X > 0)).sum()),
        "factors": len(found.factors),
        "restarts": len(found.scores),
        "cpu_s": significant(cpu),
        "wall_s": significant(wall),
    }


def summary(runs: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one line per instance: median and range over seeds, and the comparison."""
    lines = []
    for name, published in PUBLISHED.items():
        for position, causes in enumerate(RANKS):
            some = [v for k, v in runs.items() if k.startswith(f"{name} k={causes} ")]
            if not some:
                continue
            errors, theirs = [v["errors"] for v in some], published.column_generation[position]
            middle = median(errors)
            lines.append(
                {
                    "data": name,
                    "k": causes,
                    "column_generation": theirs,
                    "k_greedy": published.k_greedy[position],
                    "ours_median": middle,
                    "ours_fewest": min(errors),
                    "ours_most": max(errors),
                    "runs": len(some),
                    "cpu_s_median": significant(median(v["cpu_s"] for v in some)),
                    "cpu_s_most": max(v["cpu_s"] for v in some),
                    "outcome": "won" if middle < theirs else "tied" if middle == theirs else "lost",
                }
            )
    return lines


def table(lines: list[dict[str, Any]]) -> str:
    """Return the summary as a Markdown table."""
    rows = [
        "| data | k | column generation | k-greedy | ours, median | fewest to most "
        "| CPU s | most | |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for line in lines:
        rows.append(
            "| {data} | {k} | {column_generation} | {k_greedy} | {ours_median:g} "
            "| {ours_fewest} to {ours_most} | {cpu_s_median:.1f} | {cpu_s_most:.1f} "
            "| {outcome} |".format(**line)
        )
    return "\n".join(rows)


def chosen_columns(X: Any, k: int) -> list[int]:
    """Choose K columns by removing, one by one, the column that the others replace best."""
    columns, F = list(range(X.shape[1])), X.T.astype(np.float32)
    while len(columns) > k:
        costs = []
        for j in columns:
            others = F[[i for i in columns if i != j]]
            drawn = greedy_memberships(F[[j]], others) @ others > 0
            costs.append(int((drawn != (F[[j]] > 0)).sum()))
        columns.pop(int(np.argmin(costs)))
    return columns


def baselines(X: Any, k: int) -> dict[str, int]:
    """Count the wrong entries of three baselines, with memberships by `cover_rows`."""

    def wrong(rows: Any, factors: Any) -> int:
        states = nor.search.cover_rows(rows, factors.astype(np.uint8))
        return int(((states.astype(int) @ factors.astype(int) > 0) != (rows > 0)).sum())

    return {
        "grecond": min(wrong(X, grecond(X, k)), wrong(X.T, grecond(X.T, k))),
        "greedy": wrong(X, alternating_greedy(X, k)),
        "columns": wrong(X.T, X[:, chosen_columns(X, k)].T),
    }


def high_ranks(seeds: int) -> list[dict[str, Any]]:
    """Return one line per instance and rank: half, three quarters and all but two columns."""
    lines = []
    for name in PUBLISHED:
        X = matrix(name)
        for k in (X.shape[1] // 2, X.shape[1] * 3 // 4, X.shape[1] - 2):
            some = [run(name, k, seed) for seed in range(seeds)]
            errors, cpu = [one["errors"] for one in some], median(one["cpu_s"] for one in some)
            ours = {"ours": median(errors), "most": max(errors), "cpu_s": significant(cpu)}
            lines.append({"data": name, "k": k, **baselines(X, k), **ours})
            print("| " + " | ".join(str(value) for value in lines[-1].values()) + " |", flush=True)
    return lines


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default 5)")
    parser.add_argument("--table", action="store_true", help="print --json as a table and stop")
    parser.add_argument(
        "--high-ranks", action="store_true", help="compare ranks of half the columns and more"
    )
    given = parser.parse_args()
    known = given.json is not None and Path(given.json).exists()
    found: dict[str, Any] = json.loads(Path(given.json).read_text()) if known else {}
    runs = found.setdefault("runs", {})
    if given.table:
        print(table(summary(runs)))
        return
    machine = Machine()
    nor.search.search_factors(np.eye(4), 2, objective="hamming", n_restarts=2)  # compiles
    if given.high_ranks:
        write(given.json, {**found, "high_ranks": high_ranks(given.seeds)})
        return
    for name in PUBLISHED:
        for causes in RANKS:
            for seed in range(given.seeds):
                key = f"{name} k={causes} seed={seed}"
                if key in runs:
                    continue
                runs[key] = run(name, causes, seed)
                print(f"{key}: {json.dumps(runs[key])}", flush=True)
                lines = summary(runs)
                outcomes = [line["outcome"] for line in lines]
                write(
                    given.json,
                    {
                        **found,
                        "command": " ".join(["python", *sys.argv]),
                        "settings": 'search_factors(X, k, objective="hamming", seed=seed)',
                        "source": SOURCE,
                        "machine": machine.describe("scikit-learn"),
                        **{word: outcomes.count(word) for word in ("won", "tied", "lost")},
                        "summary": lines,
                        "runs": runs,
                    },
                )
    print(table(summary(runs)))


if __name__ == "__main__":
    main()
