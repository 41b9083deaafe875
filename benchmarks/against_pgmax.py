"""Compare the speed of inference with PGMax, the library behind the paper, on the same CPU.

    python benchmarks/against_pgmax.py --pgmax-python ENVIRONMENT/bin/python \\
        [--json results/against_pgmax.json]

PGMax needs its own environment. It imports only some of its declared requirements:

    python -m venv ENVIRONMENT
    ENVIRONMENT/bin/pip install jax==0.4.30 jaxlib==0.4.30 "numpy<2" numba cvxpy absl-py
    ENVIRONMENT/bin/pip install --no-deps pgmax==0.6.1

Both infer the modes of 20 rows of the paper's Boolean matrix factorization by 100 iterations with
damping 0.5, alternately and on all cores. The parameters are the true ones with some noise. PGMax
runs the paper's factor graph: a pairwise factor for every edge and an OR factor for every visible
node, the leak included. It is batched with ``vmap`` and compiled before the timing. PGMax uses the
order of messages called "ours, authors' order". In our default order, states may differ if
max-product does not converge.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import noisyor as nor
from _inference import BatchInference
from _measure import Machine, Timing, arguments, interleaved, significant, write
from _problems import bmf_near_truth
from _worker import Worker

SIZES = {(100, 20): 100.0, (400, 80): 500.0}
"""Sizes n, r and the ratio aimed at."""

ITERATIONS, DAMPING = 100, 0.5


def measure(
    python: str, n: int, r: int, rounds: int, quiet: float | None, n_rows: int
) -> dict[str, Any]:
    problem = bmf_near_truth(n, r)
    network = problem.network
    batch = problem.batches()[0].take(slice(0, n_rows))
    method = replace(problem.method, temperature=0.0, tolerance=0.0, max_iterations=ITERATIONS)
    prior = float(network.theta_of("prior")[0])
    worker = Worker(
        [python, "-W", "ignore", str(Path(__file__).with_name("_pgmax_worker.py"))],
        {
            "theta": network.theta_of("failure").T.tolist(),
            "noise": float(network.theta_of("noise")[0]),
            "prior_log_odds": float(np.log(np.expm1(prior))),
            "X": batch.to_dense().astype(int).tolist(),
            "iterations": ITERATIONS,
            "damping": DAMPING,
        },
    )
    same_order = replace(method, schedule="two-stage")
    methods = {
        "ours": method,
        "ours, early stop": replace(method, tolerance=nor.MaxProduct().tolerance),
        "ours, authors' order": same_order,
        "ours, authors' order, early stop": replace(
            same_order, tolerance=nor.MaxProduct().tolerance
        ),
    }
    ours = {
        name: BatchInference(network, batch, variant, n_threads=2)
        for name, variant in methods.items()
    }
    found = {name: inference() for name, inference in ours.items()}
    times = interleaved(
        {"pgmax": lambda: Timing(**worker.ask({"command": "run"})), **ours},
        rounds,
        quiet=quiet,
    )
    worker.close()

    states = np.array(worker.first["states"], dtype=np.uint8)
    bound = nor.inference.log_joint(network, states, batch)
    agreement = {name: states == output.states for name, (output, _) in found.items()}
    return {
        "ratio_pgmax_to_ours": {
            name: significant(times["pgmax"]["wall_ms"] / times[name]["wall_ms"], 3)
            for name in methods
        },
        "ratio_of_cpu_time": {
            name: significant(times["pgmax"]["cpu_ms"] / times[name]["cpu_ms"], 3)
            for name in methods
        },
        **times,
        "rows": batch.n_rows,
        "pgmax_ms_per_row": significant(times["pgmax"]["wall_ms"] / batch.n_rows),
        "ours_ms_per_row": significant(times["ours"]["wall_ms"] / batch.n_rows),
        "pgmax_build_seconds": round(worker.first["build_seconds"], 2),
        "pgmax_compile_and_first_run_seconds": round(worker.first["first_run_seconds"], 2),
        "states_that_agree": {
            name: significant(float(same.mean())) for name, same in agreement.items()
        },
        "rows_with_the_same_states": {
            name: int(same.all(axis=1).sum()) for name, same in agreement.items()
        },
        "mean_log_joint": {
            "pgmax": significant(float(bound.mean()), 6),
            **{name: significant(float(value.mean()), 6) for name, (_, value) in found.items()},
        },
        "versions": worker.first["versions"],
        "device": worker.first["device"],
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--pgmax-python", required=True, help="python of PGMax's environment")
    parser.add_argument("--rows", type=int, default=20, help="rows in the batch")
    parser.set_defaults(rounds=5)
    given = parser.parse_args()
    machine = Machine()
    results: dict[str, Any] = {}
    for (n, r), target in SIZES.items():
        row = measure(given.pgmax_python, n, r, given.rounds, given.quiet, given.rows)
        results[f"bmf n={n} r={r}"] = {**row, "target_ratio": target}
        ratio = row["ratio_pgmax_to_ours"]
        print(f"n={n} r={r}: PGMax {row['pgmax']['wall_ms']:.0f} ms")
        for name, times in ratio.items():
            print(
                f"{times:7.0f} x faster   {row[name]['wall_ms']:.2f} ms wall   "
                f"{row['states_that_agree'][name]:.1%} of the states agree   mean log p(h, x) "
                f"{row['mean_log_joint'][name]} (PGMax {row['mean_log_joint']['pgmax']})   {name}"
            )
    versions = next(iter(results.values()))["versions"]
    for row in results.values():
        del row["versions"]
    write(given.json, {"machine": {**machine.describe(), **versions}, "cases": results})


if __name__ == "__main__":
    main()
