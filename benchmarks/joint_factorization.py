"""Measure joint max-product (PMP) on the paper's problems: errors, time and memory.

    python benchmarks/joint_factorization.py [--data DIR] [--only CASE ...]
        [--json results/joint_factorization.json]

The paper's protocol has 1,000 iterations, damping 0.5 and noise on all unary terms. The features of
the training set are decoded and clamped, and the states of the test set are inferred with noise.
The script also infers them at temperature 0. Cases: ``bmf``, n=100; ``two-stage``, the same problem
with the paper's schedule, in which all factors are updated in parallel, in NumPy; ``large``, n=400,
r=240, for which the paper ran out of memory, in a separate process whose peak memory is reported,
also with more damping; ``deconvolution`` with both priors of the states.
"""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from _measure import Machine, arguments, significant, write
from _problems import data_directory
from noisyor.data.observations import Observations
from noisyor.engines.numpy.joint_max_product import infer_jointly
from noisyor.inference.joint import (
    CERTAIN,
    Factorization,
    JointMaxProduct,
    pmp_deconvolve,
    pmp_factorize,
)
from noisyor.metrics import features_iou, reconstruction_error

PAPER_BMF = {20: (9.81, 0.92), 40: (9.63, 0.67), 60: (7.36, 1.03)}
PAPER_BD = {"test_re_pct": (6.65, 0.79), "features_iou": (0.94, 0.03)}
ACTIVATION_PRIORS = {"noisy-OR paper's code": 1e-75, "original experiment": 0.01}
TEST_NOISE = 10_000  # added to the seed for the noise of test inference
LARGE = (400, 240)
LARGE_DAMPING = (0.5, 0.7)
LARGE_SEEDS = (0, 1)
TWO_STAGE_SEEDS = 5  # at most: a minute each


class Product(NamedTuple):
    """Test and training matrix (n, n) and the true features (r, n), all of 0 and 1."""

    test: npt.NDArray[np.uint8]
    train: npt.NDArray[np.uint8]
    features: npt.NDArray[np.uint8]


def share_on(r: int) -> float:
    return float(np.sqrt(1 - 0.75 ** (1 / r)))


def boolean_product(n: int, r: int, seed: int) -> Product:
    """Draw the paper's problem in its order: test states, training states, features."""
    generator = np.random.default_rng(seed)
    U_test, U, V = (generator.random(s) < share_on(r) for s in [(n, r), (n, r), (r, n)])
    drawn = [(u.astype(np.int64) @ V.astype(np.int64) > 0).astype(np.uint8) for u in (U_test, U)]
    return Product(drawn[0], drawn[1], V.astype(np.uint8))


def bmf(n: int, r: int, seed: int, damping: float = 0.5) -> dict[str, Any]:
    """Learn from the training matrix and explain the test matrix."""
    data, settings = boolean_product(n, r, seed), JointMaxProduct(damping=damping)
    began, began_cpu = time.perf_counter(), time.process_time()
    learned = pmp_factorize(data.train, r, settings, seed=seed)
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu

    def error(settings: JointMaxProduct) -> float:
        given = learned.features
        found = pmp_factorize(data.test, settings=settings, features=given, seed=seed + TEST_NOISE)
        return reconstruction_error(found.reconstruction, data.test)

    return {
        "seed": seed,
        "test_re_pct": error(settings),
        "test_re_pct_temperature_0": error(replace(settings, temperature=0.0)),
        "train_re_pct": reconstruction_error(learned.reconstruction, data.train),
        "trivial_re_pct": 100.0 * float(data.test.mean()),
        "true_features_found": _found(learned.features, data.features),
        "learning_seconds": significant(seconds),
        "learning_cpu_seconds": significant(cpu),
        "cpu_ns_per_and": significant(cpu * 1e9 / (learned.iterations * r * data.train.size), 3),
    }


def _found(learned: npt.NDArray[np.uint8], true: npt.NDArray[np.uint8]) -> int:
    """Count the true features that were learned without an error."""
    known = {row.tobytes() for row in learned}
    return sum(row.tobytes() in known for row in true)


def two_stage(n: int, r: int, seed: int) -> dict[str, Any]:
    """Run the schedule that updates all factors in parallel and damps all messages."""
    data, generator = boolean_product(n, r, seed), np.random.default_rng(seed + TEST_NOISE)
    prior = np.log(share_on(r)) - np.log1p(-share_on(r))

    def run(X: npt.NDArray[np.uint8], features: npt.NDArray[np.float64]) -> Any:
        unary = prior + generator.logistic(size=(n, r, 1, 1))
        pixels = np.where(X, CERTAIN, -CERTAIN)[:, None]
        return infer_jointly(pixels, unary, features, iterations=1000, two_stage=True)

    def error(beliefs: Any, V: npt.NDArray[np.bool_], X: npt.NDArray[np.uint8]) -> float:
        U = beliefs.states[:, :, 0, 0] > 0
        return reconstruction_error(U.astype(np.int64) @ V.astype(np.int64) > 0, X)

    began = time.perf_counter()
    learned = run(data.train, prior + generator.logistic(size=(r, 1, n)))
    V = learned.features[:, 0] > 0
    inferred = run(data.test, np.where(V, CERTAIN, -CERTAIN)[:, None])
    return {
        "seed": seed,
        "test_re_pct": error(inferred, V, data.test),
        "train_re_pct": error(learned, V, data.train),
        "seconds": significant(time.perf_counter() - began),
    }


def _large(damping: float, seed: int) -> dict[str, Any]:
    n, r = LARGE
    pmp_factorize(np.eye(8), 2, JointMaxProduct(iterations=1))  # compile
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = bmf(n, r, seed, damping)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        **result,
        "peak_memory_mb_before": round(before / 1024),
        "peak_memory_mb": round(peak / 1024),
    }


def large(damping: float, seed: int) -> dict[str, Any]:
    """Run n=400, r=240 in a new process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(_large, damping, seed).result()


def deconvolution(data: Path, prior: float, seed: int) -> dict[str, Any]:
    """Learn from 80 images and explain the other 20."""
    with np.load(data / "conv_problem.npz") as archive:
        images, true = archive["X"][:, 0], archive["W"][0]
    train, test = Observations.of(images).split(0.8, seed=seed)
    settings = JointMaxProduct()
    began = time.perf_counter()
    learned = pmp_deconvolve(train, 5, (6, 6), settings, state_probability=prior, seed=seed)
    seconds = time.perf_counter() - began

    def error(settings: JointMaxProduct) -> float:
        found = pmp_deconvolve(
            test,
            settings=settings,
            features=learned.features,
            state_probability=prior,
            seed=seed + TEST_NOISE,
        )
        return _image_error(found, test)

    return {
        "seed": seed,
        "test_re_pct": error(settings),
        "test_re_pct_temperature_0": error(replace(settings, temperature=0.0)),
        "train_re_pct": _image_error(learned, train),
        "features_iou": features_iou(learned.features, true),
        "trivial_re_pct": 100.0 * float(test.to_dense().mean()),
        "learning_seconds": significant(seconds),
    }


def _image_error(found: Factorization, images: Observations) -> float:
    return reconstruction_error(found.reconstruction.reshape(len(images), -1), images.to_dense())


def summary(runs: list[dict[str, Any]], paper: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """Return means over the runs, and the paper's numbers."""
    result: dict[str, Any] = {}
    for metric, (mean, spread) in paper.items():
        values = [run[metric] for run in runs]
        result[metric] = {
            "mean": significant(statistics.fmean(values)),
            "spread": significant(statistics.stdev(values)) if len(values) > 1 else None,
            "paper_mean": mean,
            "paper_spread": spread,
            "ratio_to_paper": significant(statistics.fmean(values) / mean, 3),
        }
    return {"summary": result, "runs": runs}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="directory of conv_problem.npz")
    parser.add_argument("--seeds", type=int, default=3, help="runs of bmf and deconvolution")
    cases = ["bmf", "two-stage", "large", "deconvolution"]
    parser.add_argument("--only", nargs="*", choices=cases, default=cases)
    given = parser.parse_args()
    data, seeds = data_directory(given.data), range(given.seeds)
    machine = Machine()
    results: dict[str, Any] = {}
    if "large" in given.only:  # first: a new process inherits its parent's peak memory
        for damping in LARGE_DAMPING:
            name = f"bmf n={LARGE[0]} r={LARGE[1]}, damping {damping}"
            results[name] = {"runs": [large(damping, seed) for seed in LARGE_SEEDS]}
            for run in results[name]["runs"]:
                _print_run(name, run)
    if "bmf" in given.only:
        pmp_factorize(np.eye(8), 2, JointMaxProduct(iterations=1))  # compile
        for r, paper in PAPER_BMF.items():
            name = f"bmf n=100 r={r}"
            results[name] = summary([bmf(100, r, s) for s in seeds], {"test_re_pct": paper})
            _print_summary(name, results[name])
    if "two-stage" in given.only:
        name = "bmf n=100 r=20, two-stage schedule"
        runs = [two_stage(100, 20, s) for s in seeds[:TWO_STAGE_SEEDS]]
        results[name] = summary(runs, {"test_re_pct": PAPER_BMF[20]})
        _print_summary(name, results[name])
    if "deconvolution" in given.only:
        if data is None or not (data / "conv_problem.npz").exists():
            print("deconvolution: skipped, conv_problem.npz not found, give --data DIR")
        else:
            for source, prior in ACTIVATION_PRIORS.items():
                name = f"deconvolution, prior of an activation {prior:g} ({source})"
                runs = [deconvolution(data, prior, s) for s in seeds]
                results[name] = summary(runs, PAPER_BD)
                _print_summary(name, results[name])
    write(given.json, {"machine": machine.describe(), "cases": results})


def _print_summary(name: str, result: dict[str, Any]) -> None:
    print(name)
    for metric, row in result["summary"].items():
        ours = f"{row['mean']:8.3f}" + ("" if row["spread"] is None else f" ({row['spread']:.3f})")
        theirs = f"{row['paper_mean']} ({row['paper_spread']})"
        print(f"  {row['ratio_to_paper']:6.3f} x the paper's   {metric}: {ours}, paper {theirs}")
    for run in result["runs"]:
        _print_run("    run", run)


def _print_run(name: str, run: dict[str, Any]) -> None:
    shown = {
        key: round(value, 3) if isinstance(value, float) else value for key, value in run.items()
    }
    print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in shown.items()), flush=True)


if __name__ == "__main__":
    main()
