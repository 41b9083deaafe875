"""Compare estimates of the probabilities of causes with exact ones by enumeration.

    python benchmarks/posterior_calibration.py [--json results/posterior_calibration.json]
        [--plot results/posterior_calibration.svg]

Networks have 8 to 15 causes and are of three kinds: loopy networks with random parameters and data,
sparse bipartite networks with data drawn from them, and ambiguous networks in which every cause may
explain every visible. ``error`` is the root mean square difference from the exact probability and
``largest`` the largest difference. ``spread`` is the standard deviation of the difference in units
of the stated error: 1 is correct, and above 1 the error bars are too small. ``outside`` is the
share of differences beyond two stated errors. A reliability curve compares stated with mean exact
probabilities.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import noisyor as nor
from _measure import Machine, arguments, significant, write
from noisyor._util.arrays import FloatArray
from noisyor.data.observations import Observations
from noisyor.inference.sampling import METHODS, MarginalMethod
from noisyor.model.network import Network

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from random_networks import random_network, random_rows

SAMPLES = (16, 64)
EDGES = np.linspace(0.0, 1.0, 11)


def problems() -> Iterator[tuple[str, Network, Observations]]:
    for seed in range(40):
        network = random_network(1000 + seed, max_hidden=12, max_visible=20)
        yield "loopy", network, Observations.of(random_rows(network, seed, 8, missing=0.1))
    for seed in range(20):
        generator = np.random.default_rng(seed)
        linked = generator.random((14, 20)) < 0.3
        failure = np.where(linked, generator.uniform(0.05, 0.6, linked.shape), 0.9999)
        prior = generator.uniform(0.02, 0.3, 14)
        network = nor.bipartite(20, 14, failure_probability=failure, prior_probability=prior)
        yield "sparse", network, Observations.of(nor.sample(network, 8, seed).visible)
    for seed in range(12):
        generator = np.random.default_rng(seed)
        network = nor.bipartite(
            12,
            15,
            failure_probability=generator.uniform(0.1, 0.9, (15, 12)),
            prior_probability=0.05,
            noise_probability=0.001,
        )
        yield "ambiguous", network, Observations.of(nor.sample(network, 8, seed).visible)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--plot", type=Path, help="write the reliability plot to this SVG file")
    options = parser.parse_args()
    machine = Machine()
    collected: dict[tuple[str, MarginalMethod, int], list[FloatArray]] = {}
    seconds: dict[tuple[str, MarginalMethod, int], float] = {}
    rows: dict[str, int] = {}
    for kind, network, data in problems():
        exact = nor.inference.enumerate_posterior(network, data).marginals
        rows[kind] = rows.get(kind, 0) + data.n_rows
        for method in METHODS:
            for n_samples in SAMPLES:
                key = kind, method, n_samples
                began = time.process_time()
                found = nor.marginals(network, data, method, n_samples=n_samples)
                seconds[key] = seconds.get(key, 0.0) + time.process_time() - began
                part = np.stack([found.probability.ravel(), exact.ravel(), found.error.ravel()])
                collected.setdefault(key, []).append(part)
    table = []
    for key, parts in collected.items():
        kind, method, n_samples = key
        stated = np.concatenate(parts, axis=1)
        ms = significant(seconds[key] / rows[kind] * 1e3, 3)
        row = {"networks": kind, "method": method, "n_samples": n_samples, "cpu_ms_per_row": ms}
        table.append(row | measures(stated))
        print(" ".join(f"{value:>10}" for value in table[-1].values()))
    curves = {
        method: reliability(
            np.concatenate(
                [p for k in collected if k[1:] == (method, 64) for p in collected[k]], axis=1
            )
        )
        for method in METHODS
    }
    if options.plot:
        plot(curves, options.plot)
    write(options.json, {"table": table, "reliability": curves, "machine": machine.describe()})


def measures(part: FloatArray) -> dict[str, Any]:
    stated, exact, error = part
    difference = stated - exact
    result: dict[str, Any] = {
        "error": significant(float(np.sqrt((difference**2).mean())), 3),
        "largest": significant(float(np.abs(difference).max()), 3),
        "spread": None,
        "outside": None,
    }
    known = error > 1e-9
    if known.any():
        z = difference[known] / error[known]
        result["spread"] = significant(float(z.std()), 3)
        result["outside"] = significant(float((np.abs(z) > 2).mean()), 3)
    return {name: "-" if value is None else value for name, value in result.items()}


def reliability(part: FloatArray) -> dict[str, list[float]]:
    """Return mean stated and mean exact probability in ten bins of the stated probability."""
    stated, exact, _ = part
    place = np.clip(np.digitize(stated, EDGES) - 1, 0, 9)
    count = np.bincount(place, minlength=10)
    used = count > 0
    return {
        "stated": (np.bincount(place, stated, 10)[used] / count[used]).round(4).tolist(),
        "exact": (np.bincount(place, exact, 10)[used] / count[used]).round(4).tolist(),
        "count": count[used].tolist(),
    }


def plot(curves: dict[MarginalMethod, dict[str, list[float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "noisyor"
    figure, axes = plt.subplots(figsize=(5, 5))
    axes.plot([0, 1], [0, 1], color="0.7", label="perfect")
    for (method, curve), marker in zip(curves.items(), "os^vD", strict=False):
        axes.plot(curve["stated"], curve["exact"], marker=marker, markersize=4, label=method)
    axes.set_xlabel("stated probability of a cause")
    axes.set_ylabel("mean exact probability")
    axes.set_title("Are probabilities of causes right? (64 samples)")
    axes.legend()
    axes.set_aspect("equal")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
