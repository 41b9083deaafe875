"""Time mean-field updates, compared with max-product and the paper's GPU.

    python benchmarks/mean_field_update_time.py [--data DIR] [--json FILE]

An update is inference on a minibatch, the gradient, Adam and the clip, on two threads. Every
network has been trained for some steps by mean-field first. Each round repeats the same updates
from the same state with the published schedule, 10 x (10 sweeps over q + 10 steps on r), with the
options beyond it, and with max-product. ``lost_nats`` is the bound of the published schedule minus
the bound of an option: the mean over rows, and the worst row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import noisyor as nor
from _measure import Machine, arguments, interleaved, significant, write
from _problems import Problem, blind_deconvolution, bmf, data_directory, imdb, tiny20
from noisyor.engines.registry import get_engine
from noisyor.model.network import Network

TOLERANCE = 1e-4


class Case(NamedTuple):
    """A problem: builder, file, updates per round, steps before, the paper's seconds, our goal."""

    build: Callable[[Path], Problem]
    file: str | None
    local: bool
    updates: int
    warm_up: int
    paper_seconds: float | None
    target_ms: float | None


CASES: dict[str, Case] = {
    "bmf n=100 r=20": Case(lambda _: bmf(100, 20), None, False, 5, 3000, 0.62, 25.0),
    "bmf n=200 r=120": Case(lambda _: bmf(200, 120), None, False, 2, 500, 14.42, 500.0),
    "bmf n=400 r=240": Case(lambda _: bmf(400, 240), None, False, 1, 200, 167.83, 3000.0),
    "blind deconvolution": Case(
        blind_deconvolution, "conv_problem.npz", False, 1, 200, 24.65, 1000.0
    ),
    "tiny20": Case(tiny20, "20news_w100.mat", False, 1, 60, None, None),
    "imdb local": Case(imdb, "imdb_reviews_train.jsonl.xz", True, 1, 60, 32.5, 2500.0),
}


def methods_of(case: Case, problem: Problem) -> dict[str, nor.MeanField | nor.MaxProduct]:
    """Return the variants, the published schedule first."""
    published = nor.MeanField(local=case.local)
    stop = replace(published, tolerance=TOLERANCE)
    return {
        "published": published,
        "stop": stop,
        "max-product": problem.method,
        "max-product, 100 iterations": replace(problem.method, tolerance=0.0),
    }


def measure(problem: Problem, case: Case, rounds: int, quiet: float | None) -> dict[str, Any]:
    """Time all variants of a case from one trained state, and compute their loss of the bound."""
    methods, batches = methods_of(case, problem), problem.batches()
    stop = methods["stop"]
    assert isinstance(stop, nor.MeanField)
    trained = nor.train(
        problem.network,
        problem.rows,
        stop,
        steps=case.warm_up,
        batch_size=problem.batch_size,
        learning_rate=problem.learning_rate,
        progress=False,
    )
    network, start = trained.network, trained.state

    def updates(method: nor.MeanField | nor.MaxProduct, n_threads: int, count: int) -> float:
        state, value, engine = start, 0.0, get_engine("numba", n_threads=n_threads)
        for _ in range(count):
            state, value = nor.learning.step(
                state,
                network,
                batches[state.step % len(batches)],
                method,
                learning_rate=problem.learning_rate,
                seed=0,
                engine=engine,
            )
        return value

    cases: dict[str, Callable[[], object]] = {
        name: partial(updates, method, 2, case.updates) for name, method in methods.items()
    }
    cases["published, 1 thread"] = partial(updates, methods["published"], 1, case.updates)
    times = interleaved(cases, rounds, quiet=quiet)
    for entry in times.values():
        for key in ("wall_ms", "cpu_ms", "fastest_wall_ms"):
            entry[key] = significant(entry[key] / case.updates)
    return {
        "warm_up_steps": case.warm_up,
        "rows": problem.batch_size,
        "variants": times,
        "ratio_to_published": {
            name: significant(times["published"]["wall_ms"] / entry["wall_ms"], 3)
            for name, entry in times.items()
        },
        "lost_nats": lost(network, batches[start.step % len(batches)], methods),
    }


def lost(network: Network, batch: Any, methods: dict[str, Any]) -> dict[str, Any]:
    """Return the loss of the bound of each mean-field variant, and its rounds."""
    posteriors: dict[str, Any] = {
        name: nor.explain(network, batch, method)
        for name, method in methods.items()
        if isinstance(method, nor.MeanField)
    }
    reference = posteriors["published"].elbo_vi
    return {
        name: {
            "mean": float((reference - posterior.elbo_vi).mean()),
            "worst_row": float((reference - posterior.elbo_vi).max()),
            "mean_bound": float(posterior.elbo_vi.mean()),
            "mean_rounds": float(posterior.iterations.mean()),
        }
        for name, posterior in posteriors.items()
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="directory of the data files")
    parser.add_argument("--only", nargs="*", help="run the cases whose names start so")
    given = parser.parse_args()
    data, machine = data_directory(given.data), Machine()
    results: dict[str, Any] = {}
    for name, case in CASES.items():
        if given.only and not name.startswith(tuple(given.only)):
            continue
        if case.file is not None and (data is None or not (data / case.file).exists()):
            results[name] = {"skipped": f"{case.file} not found, give --data DIR"}
            print(f"{name}: skipped, {case.file} not found")
            continue
        assert data is not None or case.file is None
        row = measure(case.build(data or Path()), case, given.rounds, given.quiet)
        published = row["variants"]["published"]["wall_ms"]
        row["target_ms"] = case.target_ms
        row["paper_gpu_ms"] = case.paper_seconds and case.paper_seconds * 1e3
        row["ratio_paper_to_published"] = case.paper_seconds and significant(
            case.paper_seconds * 1e3 / published, 3
        )
        results[name] = row
        _print(name, row)
    write(
        given.json,
        {"machine": machine.describe(), "tolerance": TOLERANCE, "cases": results},
    )


def _print(name: str, row: dict[str, Any]) -> None:
    paper = ""
    if row["paper_gpu_ms"]:
        paper = f", {row['ratio_paper_to_published']} x the speed of the paper's GPU"
    print(f"{name}: target {row['target_ms']} ms{paper}")
    for variant, times in row["variants"].items():
        line = f"  {row['ratio_to_published'][variant]:7.2f} x   {times['wall_ms']:9.2f} ms wall"
        loss = row["lost_nats"].get(variant)
        note = ""
        if loss is not None:
            note = (
                f"   bound {loss['mean_bound']:.4f}, lost {loss['mean']:.1e} a row, "
                f"{loss['worst_row']:.1e} at worst, {loss['mean_rounds']:.1f} rounds"
            )
        print(f"{line} {times['cpu_ms']:9.2f} ms CPU   {variant}{note}", flush=True)


if __name__ == "__main__":
    main()
