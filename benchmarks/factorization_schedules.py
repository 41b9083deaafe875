"""Measure how the message schedule and the noise of the start affect max-product training.

    python benchmarks/factorization_schedules.py [--json FILE] [--table]

The script runs the paper's protocol on Boolean matrices (n=100 r=40, start paper-3) with both
message schedules and both kinds of noise that break the symmetry: that of the paper's text and that
of the authors' software. Bounds of training and test rows are also computed during training, at the
mode found by the same schedule. Cells that are already in the JSON file are skipped.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

import _root  # noqa: F401
import noisyor as nor
from _measure import Machine, arguments, significant, write
from noisyor.datasets.synthetic import generate_bmf
from noisyor.engines.registry import get_engine
from noisyor.learning.state import StepInfo
from noisyor.learning.train import train
from noisyor.metrics import factorization_error
from reproduction.one_layer import BMF_PROTOCOL as PROTOCOL
from reproduction.one_layer import NOISE_PROBABILITY

N, R = 100, 40
SEEDS = (0, 1, 2)
WHEN = (4_000, 12_000, PROTOCOL.steps)
VARIANTS = [
    (schedule, noise)
    for schedule in ("collapsed", "two-stage")
    for noise in ("uniform", "gaussian")
]
NAMES = ("train_elbo", "test_elbo", "test_re_pct", "prior", "causes_on")


def measure(schedule: Any, noise: Any, seed: int) -> dict[str, Any]:
    """Return bounds, error, learned prior and number of causes on, at some steps of one run."""
    data = generate_bmf(N, R, seed)
    rows = nor.Observations.of(data.train)
    network = nor.bipartite(
        N, R, prior="shared", noise_probability=NOISE_PROBABILITY, fixed=("noise",)
    )
    result: dict[str, Any] = {}

    def look(info: StepInfo) -> None:
        if info.state.step in WHEN:
            trained, method = info.network, nor.MaxProduct(schedule=schedule)
            found = nor.explain(trained, data.test, method)
            values = (
                method.bounds(trained, rows, engine=get_engine(n_threads=1)).elbo.mean(),
                found.log_joint.mean(),
                factorization_error(trained, found.states, data.test),
                trained.prior_probability[0],
                found.states.sum() / N,
            )
            result[str(info.state.step)] = {
                name: significant(float(value), 4)
                for name, value in zip(NAMES, values, strict=True)
            }

    began = time.process_time()
    train(
        nor.initialize(network, "paper-3", noise=noise, seed=seed),
        rows,
        nor.MaxProduct(temperature=1.0, schedule=schedule),
        steps=PROTOCOL.steps,
        batch_size=PROTOCOL.batch_size,
        learning_rate=PROTOCOL.learning_rate,
        seed=seed,
        callbacks=(look,),
        progress=False,
    )
    return {"steps": result, "cpu_s": significant(time.process_time() - began, 3)}


def table(cells: dict[str, Any]) -> str:
    """Return means over the seeds as a Markdown table."""
    lines = [
        "| messages | noise of the start | runs | step | train | test | test RE, % | prior | on |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for schedule, noise in VARIANTS:
        found = list(cells.get(f"{schedule}, {noise}", {}).values())
        for step in WHEN if found else ():
            means = np.mean([[run["steps"][str(step)][name] for name in NAMES] for run in found], 0)
            train_elbo, test_elbo, error, prior, on = means
            lines.append(
                f"| {schedule} | {noise} | {len(found)} | {step:,} | {train_elbo:.1f} | "
                f"{test_elbo:.1f} | {error:.1f} | {prior:.3f} | {on:.2f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--table", action="store_true", help="print --json as a table and stop")
    given = parser.parse_args()
    cells: dict[str, Any] = {}
    if given.json is not None and given.json.exists():
        cells = json.loads(given.json.read_text())["cells"]
    if given.table:
        print(table(cells))
        return
    machine = Machine()
    for seed in SEEDS:
        for schedule, noise in VARIANTS:
            runs = cells.setdefault(f"{schedule}, {noise}", {})
            if str(seed) in runs:
                continue
            runs[str(seed)] = measure(schedule, noise, seed)
            print(f"seed {seed}, {schedule}, {noise}: {runs[str(seed)]}", flush=True)
            write(given.json, {"machine": machine.describe(), "cells": cells})


if __name__ == "__main__":
    main()
