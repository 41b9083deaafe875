"""Measure the contribution of each step of the search for factors.

    python benchmarks/factorization_ablation.py [--json FILE]

The variants range from one run of joint max-product to the whole search, on clean and on flipped
matrices of the paper's generator. ``error_pct`` is the error against the clean training matrix,
``test_re_pct`` the error on unseen rows, both as means over seeds. Cells that are already in the
JSON file are skipped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from _measure import Machine, arguments, significant, write
from _simple_baselines import errors
from noisyor.datasets.synthetic import generate_bmf
from noisyor.inference.joint import JointMaxProduct, pmp_factorize
from noisyor.search.cover import Cover, Matrix, prune, refine
from noisyor.search.factors import search_factors

PROBLEMS = {
    "n=100 r=40": (100, 40, 0.0),
    "n=200 r=40, 1 % flipped": (200, 40, 0.01),
    "n=200 r=40, 10 % flipped": (200, 40, 0.1),
    "n=200 r=120": (200, 120, 0.0),
}
SEEDS = (910, 911, 912)
SETTINGS = JointMaxProduct(iterations=200, damping=0.6)

Found = tuple[Any, Any]
Stage = Callable[[Any, int, int], Found]


def joint(X: Any, r: int, seed: int) -> Found:
    found = pmp_factorize(X, r, SETTINGS, flip_probability=0.02, density=X.mean(), seed=seed)
    return found.states, found.features


def pruned(X: Any, r: int, seed: int, excess: float = 1.0) -> Found:
    matrix = Matrix(X > 0, np.ones(X.shape, dtype=bool))
    cover = Cover.of(matrix, *joint(X, int(np.ceil(excess * r)), seed))
    cover = prune(matrix, refine(matrix, cover), r)
    return cover.states, cover.factors


def searched(X: Any, r: int, seed: int, starts: int) -> Found:
    found = search_factors(X, r, n_restarts=starts, seed=seed)
    return found.states, found.factors


STAGES: dict[str, Stage] = {
    "one run of joint max-product": joint,
    "+ refined and pruned": pruned,
    "+ half as many causes again before pruning": lambda X, r, s: pruned(X, r, s, 1.5),
    "one start, merged and repaired": lambda X, r, s: searched(X, r, s, 1),
    "three starts, combined": lambda X, r, s: searched(X, r, s, 3),
    "the whole search": lambda X, r, s: searched(X, r, s, 12),
}


def measure(
    n: int, r: int, flips: float, stage: Callable[[Any, int, int], Found]
) -> dict[str, Any]:
    """Return means over the seeds."""
    rows = []
    for seed in SEEDS:
        data = generate_bmf(n, r, seed)
        clean = data.train > 0
        X = clean ^ (np.random.default_rng((seed, 1)).random(clean.shape) < flips)
        began = time.process_time()
        states, factors = stage(X.astype(np.uint8), r, seed)
        seconds = time.process_time() - began
        drawn = states.astype(np.float32) @ factors.astype(np.float32) > 0
        error = 100.0 * np.mean(drawn != clean)
        rows.append((error, errors(data.test, factors.astype(np.float32)), seconds))
    means = np.mean(rows, axis=0)
    names = ("error_pct", "test_re_pct", "cpu_s")
    return {name: significant(value, 3) for name, value in zip(names, means, strict=True)}


def table(problems: dict[str, Any]) -> str:
    """Return the results as a Markdown table."""
    lines = [f"| | {' | '.join(problems)} |", "| --- |" + " ---: |" * len(problems)]
    for name in STAGES:
        cells = [
            f"{found[name]['error_pct']:.2f} / {found[name]['test_re_pct']:.2f}"
            if name in found
            else "–"
            for found in problems.values()
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--table", action="store_true", help="print --json as a table and stop")
    given = parser.parse_args()
    if given.table:
        print(table(json.loads(given.json.read_text())["problems"]))
        return
    machine, result = Machine(), {}
    if given.json is not None and given.json.exists():
        result = json.loads(given.json.read_text())["problems"]
    for problem, (n, r, flips) in PROBLEMS.items():
        cells = result.setdefault(problem, {})
        for name, stage in STAGES.items():
            if name in cells:
                continue
            cells[name] = measure(n, r, flips, stage)
            print(f"{problem}: {name}: {result[problem][name]}", flush=True)
            write(given.json, {"machine": machine.describe(), "problems": result})


if __name__ == "__main__":
    main()
