"""Measure one source tree for ``against_commit.py``, which starts this script with its ``src``.

The script uses only public names of the package, so that modules may differ between the trees. If a
tree cannot run a variant, the answer is the error.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

sys.path.append(str(Path(__file__).parent))  # the problems; the package is that of PYTHONPATH

import noisyor as nor
from _problems import BUILDERS, Problem

Variant = Callable[[], float]
"""Does the work once and returns a number to compare between the trees."""


def variants_of(message: dict[str, Any]) -> dict[str, Variant]:
    """Build a problem from the rows in a file, and the functions to measure on it.

    The first tree trains the parameters and writes them to a file, so that both trees start from
    the same parameters.
    """
    rows = nor.Observations.of(sp.csr_array(sp.load_npz(message["rows"])))
    problem, theta = BUILDERS[message["problem"]](rows), Path(message["theta"])
    if not theta.exists():
        np.save(theta, problem.trained(message["warm_up"]).network.theta)
    network = problem.network.with_theta(np.load(theta))
    start = nor.learning.init(network)._replace(step=message["warm_up"])
    batches, n_updates = problem.batches(), message["updates"]

    def updates(method: Any, n_threads: int) -> float:
        state, value = start, 0.0
        engine = nor.engines.get_engine("numba", n_threads=n_threads)
        for _ in range(n_updates):
            batch = batches[state.step % len(batches)]
            rate = problem.learning_rate
            state, value = nor.learning.step(
                state, network, batch, method, learning_rate=rate, seed=0, engine=engine
            )
        return value

    methods: dict[str, Any] = {"early stop": problem.method}
    if message["forced"]:
        methods = {"100 iterations": replace(problem.method, tolerance=0.0), **methods}
    methods |= {
        f"authors' order, {name}": replace(method, schedule="two-stage")
        for name, method in methods.items()
    }
    if message["mean_field"]:
        methods["mean field"] = nor.MeanField(local=problem.method.ancestors_only)
    return {
        f"{name}, {n_threads} thread{'s' * (n_threads > 1)}": partial(updates, method, n_threads)
        for name, method in methods.items()
        for n_threads in (2, 1)
    } | (_others(problem, network) if message["others"] else {})


def _others(problem: Problem, network: nor.Network) -> dict[str, Variant]:
    """Return further calls on a small problem; each uses other kernels."""
    rows, few = problem.rows, problem.rows.take(slice(0, 10))

    def gibbs() -> float:
        return float(nor.learning.learn_by_gibbs(network, rows, sweeps=20, seed=0).theta.sum())

    def factors() -> float:
        fit = nor.learn_factors(rows, 20, n_restarts=2, steps=0, seed=0, progress=False)
        return float(fit.network.theta.sum())

    return {
        "explain": lambda: float(nor.explain(network, rows, nor.MaxProduct()).log_joint.mean()),
        "evaluate": lambda: nor.evaluate(network, rows, nor.MaxProduct()).elbo_mp.mean,
        "marginals": lambda: float(nor.marginals(network, few, "chains").probability.sum()),
        "evidence bound": lambda: nor.evidence_bound(network, few).mean,
        "Gibbs EM": gibbs,
        "learn factors": factors,
    }


def run(variant: Variant) -> dict[str, Any]:
    began, began_cpu = time.perf_counter(), time.process_time()
    try:
        value = variant()
    except Exception as error:  # of an interface that this tree does not have
        return {"error": f"{type(error).__name__}: {error}"}
    cpu, wall = time.process_time() - began_cpu, time.perf_counter() - began
    return {"wall_ms": wall * 1e3, "cpu_ms": cpu * 1e3, "value": value}


def main() -> None:
    variants: dict[str, Variant] = {}
    for line in sys.stdin:
        message = json.loads(line)
        answer: dict[str, Any]
        if message["command"] == "build":
            variants = variants_of(message)
            answer = {"variants": list(variants)}
        elif message["command"] == "run":
            answer = run(variants[message["variant"]])
        else:
            answer = {"source": str(Path(nor.__file__).parent.parent)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
