"""Measures one source tree for ``against_commit.py``: started with its ``src`` and ``benchmarks``.

Problems come from the tree's own ``update_time.py`` and ``_problems.py``. What differs between
trees is in `_kernel` and `_stepper`: each tries today's interface, then the one before the engines
had a contract.
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

import noisyor as nor
from _problems import bmf_near_truth
from update_time import CASES, WARM_UP

Case = Callable[[], float]


def _kernel(n: int, r: int) -> Case:
    """The engine's side of ``against_c.py``: 100 iterations on 20 rows, one thread."""
    problem = bmf_near_truth(n, r)
    network, batch = problem.network, problem.batches()[0]
    method = replace(problem.method, temperature=0.0, tolerance=0.0)
    try:
        from _inference import BatchInference
    except ImportError:
        from noisyor.engines.numba import engine

        prepared = engine.PreparedNetwork(network)
        options = method._options(0)
        return lambda: float(engine.infer(prepared, batch, options).log_joint.mean())
    inference = BatchInference(network, batch, method)
    return lambda: float(inference()[1].mean())


def _stepper() -> tuple[Any, Callable[[int], dict[str, Any]]]:
    """The module of training, and the option of its `step` that sets the threads."""
    try:
        from noisyor import learning
        from noisyor.engines.registry import get_engine
    except ImportError:
        from noisyor import training

        return training, lambda n_threads: {"n_threads": n_threads}
    return learning, lambda n_threads: {"engine": get_engine("numba", n_threads=n_threads)}


def _updates(name: str, data: Path, theta: Path) -> dict[str, Case]:
    """All variants of a problem of ``update_time.py``, from the parameters in a file.

    The tree that is asked first trains them and writes the file, so that both do the same work.
    """
    training, threads = _stepper()
    case = CASES[name]
    problem = case.build(data)
    if not theta.exists():
        np.save(theta, problem.trained(WARM_UP).network.theta)
    trained = problem.network.with_theta(np.load(theta))
    start, batches = training.init(trained)._replace(step=WARM_UP), problem.batches()
    methods = {"early stop": problem.method}
    if case.forced:
        methods = {"100 iterations": replace(problem.method, tolerance=0.0), **methods}

    def updates(method: nor.MaxProduct, n_threads: int) -> float:
        state, value, options = start, 0.0, threads(n_threads)
        for _ in range(case.updates):
            state, value = training.step(
                state,
                trained,
                batches[state.step % len(batches)],
                method,
                learning_rate=problem.learning_rate,
                seed=0,
                **options,
            )
        return value

    return {
        f"{variant}, {n_threads} thread{'s' * (n_threads > 1)}": partial(updates, method, n_threads)
        for variant, method in methods.items()
        for n_threads in (2, 1)
    }


def main() -> None:
    cases: dict[str, Case] = {}
    for line in sys.stdin:
        message = json.loads(line)
        answer: dict[str, Any]
        if message["command"] == "kernel":
            cases = {"kernel": _kernel(*message["size"])}
            answer = {"variants": list(cases)}
        elif message["command"] == "updates":
            cases = _updates(message["case"], Path(message["data"]), Path(message["theta"]))
            answer = {"variants": list(cases), "updates": CASES[message["case"]].updates}
        elif message["command"] == "run":
            began, began_cpu = time.perf_counter(), time.process_time()
            value = cases[message["variant"]]()
            cpu, wall = time.process_time() - began_cpu, time.perf_counter() - began
            answer = {"wall_ms": wall * 1e3, "cpu_ms": cpu * 1e3, "value": value}
        else:
            answer = {"source": str(Path(nor.__file__).parent.parent)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
