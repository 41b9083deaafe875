"""Time gradient updates, compared with the paper's GPU.

    python benchmarks/update_time.py [--data DIR] [--json results/update_time.json]

An update consists of inference on a minibatch, the gradient, Adam and the clip. Every network is
trained for 200 steps first, so that messages carry information. Each round repeats the same updates
from the same state on one and two threads, with 100 iterations and with early stopping of rows, in
the default order of messages and in the authors' order. The paper's times are for one GPU, 100
iterations and the authors' order (column "Update time" of MP in its tables). ``parts`` splits the
time on two threads. The text network is measured in a separate process, whose peak memory is that
of training.
"""

from __future__ import annotations

import multiprocessing
import pickle
import resource
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import noisyor as nor
from _inference import BatchInference
from _measure import Machine, arguments, interleaved, significant, write
from _problems import (
    BMF_SIZES,
    Problem,
    active_edges,
    blind_deconvolution,
    bmf,
    data_directory,
    imdb,
    tiny20,
)
from noisyor.engines.registry import get_engine
from noisyor.learning.optimizers import Adam
from noisyor.learning.state import TrainingState
from noisyor.model.network import Network

WARM_UP = 200
PAPER_BMF = {(100, 20): 0.09, (200, 120): 0.26, (400, 80): 0.35, (400, 240): 0.86}
TARGET_BMF_MS = {(100, 20): 3.0, (200, 120): 15.0, (400, 240): 50.0}


class Case(NamedTuple):
    """A problem: builder, file, updates per round, the paper's seconds, our goal."""

    build: Callable[[Path], Problem]
    file: str | None
    updates: int
    forced: bool
    paper_seconds: float | None
    paper_table: str | None
    target_ms: float | None


def _bmf_case(n: int, r: int) -> Case:
    return Case(
        lambda _: bmf(n, r),
        None,
        5,
        True,
        PAPER_BMF[n, r],
        "BMF results",
        TARGET_BMF_MS.get((n, r)),
    )


CASES: dict[str, Case] = {
    # First, while this process is small: a new process inherits its parent's peak memory.
    "imdb": Case(
        imdb, "imdb_reviews_train.jsonl.xz", 4, False, 7.51, "Update times, Tensorflow", 150.0
    ),
    **{f"bmf n={n} r={r}": _bmf_case(n, r) for n, r in BMF_SIZES},
    "blind deconvolution": Case(
        blind_deconvolution, "conv_problem.npz", 2, True, 0.53, "BD results", 60.0
    ),
    "tiny20": Case(tiny20, "20news_w100.mat", 1, False, None, None, 250.0),
}


def measure(problem: Problem, case: Case, rounds: int, quiet: float | None) -> dict[str, Any]:
    """Measure the times of all variants of a case."""
    trained = problem.trained(WARM_UP)
    network, start, batches = trained.network, trained.state, problem.batches()
    methods = {"early stop": problem.method}
    if case.forced:
        methods = {"100 iterations": replace(problem.method, tolerance=0.0), **methods}
    methods |= {
        f"authors' order, {name}": replace(method, schedule="two-stage")
        for name, method in methods.items()
    }

    def updates(method: nor.MaxProduct, n_threads: int) -> None:
        state, engine = start, get_engine("numba", n_threads=n_threads)
        for _ in range(case.updates):
            state, _ = nor.learning.step(
                state,
                network,
                batches[state.step % len(batches)],
                method,
                learning_rate=problem.learning_rate,
                seed=0,
                engine=engine,
            )

    cases: dict[str, Callable[[], object]] = {
        f"{name}, {n_threads} thread{'s' * (n_threads > 1)}": partial(updates, method, n_threads)
        for name, method in methods.items()
        for n_threads in (2, 1)
    }
    variants = list(cases)
    batch = batches[start.step % len(batches)]
    iterations = {}
    for name, method in methods.items():
        parts, iterations[name] = _parts(network, batch, method, start)
        cases |= {f"{name}: {part}": function for part, function in parts.items()}
    times = interleaved(cases, rounds, quiet=quiet)  # the parts in the same rounds
    for variant in variants:
        for key in ("wall_ms", "cpu_ms", "fastest_wall_ms"):
            times[variant][key] = significant(times[variant][key] / case.updates)
    edges = active_edges(network, batch, problem.method.ancestors_only)
    return {
        "variants": {variant: times[variant] for variant in variants},
        "parts_ms_on_2_threads": {
            name: {part: times[f"{name}: {part}"]["wall_ms"] for part in parts} for name in methods
        },
        "mean_iterations": iterations,
        "active_edges_per_row": round(edges, 1),
    }


def _parts(
    network: Network,
    batch: nor.Observations,
    method: nor.MaxProduct,
    state: TrainingState,
) -> tuple[dict[str, Callable[[], object]], float]:
    """Time the parts of an update on two threads, and return the mean number of iterations."""
    inference = BatchInference(network, batch, method, n_threads=2, step=state.step)
    found = inference.max_product()
    gradient = inference.gradient(found).gradient
    adam = Adam(1e-3)
    moments = adam.update(-gradient, adam.init(network.theta))[1]

    def optimize() -> None:
        ascent = adam.update(-gradient, moments)[0]
        np.where(network.free, np.maximum(state.theta + ascent, 1e-5), state.theta)

    parts: dict[str, Callable[[], object]] = {
        "prepare": lambda: _prepare(inference, network.with_theta(state.theta)),
        "infer": inference.max_product,
        "gradient": lambda: inference.gradient(found),
        "adam and clip": optimize,
    }
    return parts, round(float(found.iterations.mean()), 1)


def _prepare(inference: BatchInference, network: Network) -> object:
    """Prepare the network; parameters are copied to the edges when first needed."""
    return inference.engine.prepare(network).parameters


def _build_to_file(name: str, data: Path, file: Path) -> None:
    file.write_bytes(pickle.dumps(CASES[name].build(data)))


def _measure_file(name: str, rounds: int, quiet: float | None, file: Path) -> dict[str, Any]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    problem: Problem = pickle.loads(file.read_bytes())
    result = measure(problem, CASES[name], rounds, quiet)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        **result,
        "peak_memory_mb_before": round(before / 1024),
        "peak_memory_mb": round(peak / 1024),
    }


def in_own_process(name: str, data: Path, rounds: int, quiet: float | None) -> dict[str, Any]:
    """Measure in a new process; another process builds the graph, which takes more memory."""
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "problem"
        with ProcessPoolExecutor(1, mp_context=spawn) as process:
            process.submit(_build_to_file, name, data, file).result()
        with ProcessPoolExecutor(1, mp_context=spawn) as process:
            return process.submit(_measure_file, name, rounds, quiet, file).result()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="directory of the data files")
    parser.add_argument("--only", nargs="*", help="run the cases whose names start so")
    given = parser.parse_args()
    data = data_directory(given.data) or Path()
    machine = Machine()
    results: dict[str, Any] = {}
    for name, case in CASES.items():
        if given.only and not name.startswith(tuple(given.only)):
            continue
        if case.file is not None and not (data / case.file).exists():
            results[name] = {"skipped": f"{case.file} not found, give --data DIR"}
            print(f"{name}: skipped, {case.file} not found")
            continue
        if name == "imdb":
            row = in_own_process(name, data, given.rounds, given.quiet)
        else:
            row = measure(case.build(data), case, given.rounds, given.quiet)
        row = {"paper_gpu_ms": None, "ratio_paper_to_ours": None, **row}
        if case.paper_seconds is not None:
            row["paper_gpu_ms"] = case.paper_seconds * 1e3
            row["paper_table"] = case.paper_table
            row["ratio_paper_to_ours"] = {
                variant: significant(case.paper_seconds * 1e3 / times["wall_ms"], 3)
                for variant, times in row["variants"].items()
            }
        row["target_ms"] = case.target_ms
        results[name] = row
        _print(name, row)
    write(given.json, {"machine": machine.describe(), "warm_up_steps": WARM_UP, "cases": results})


def _print(name: str, row: dict[str, Any]) -> None:
    print(name)
    for variant, times in row["variants"].items():
        ratio = "no time in the paper"
        if row["ratio_paper_to_ours"]:
            ratio = f"{row['ratio_paper_to_ours'][variant]:6.1f} x the paper's speed"
        line = f"  {ratio}   {times['wall_ms']:8.2f} ms wall {times['cpu_ms']:8.2f} ms CPU"
        print(f"{line}   {variant}")
    for variant, parts in row["parts_ms_on_2_threads"].items():
        listed = ", ".join(f"{part} {value:.2f}" for part, value in parts.items())
        iterations = row["mean_iterations"][variant]
        print(f"    parts in ms, {variant} ({iterations} iterations): {listed}")
    if "peak_memory_mb" in row:
        print(f"    peak memory {row['peak_memory_mb']} MB")


if __name__ == "__main__":
    main()
