"""Measure how tight bounds on log p(x) are, and whether training on better bounds helps.

    python benchmarks/evidence.py [--data DIR] [--json results/evidence.json] [--skip-training]

Elbo^MP and Elbo^VI are the paper's bounds; ``set`` is `nor.evidence_bound`, ``estimate`` is
`nor.estimate_evidence` with the standard error of its mean. If all configurations can be
enumerated, the exact value is given too. All numbers are means over rows, in nats.

Training runs have the same network, data and seed. They use one mode or one sample per row (with
ICM or without), eight samples, or eight times the steps. They are scored on held-out rows by both
of the paper's bounds and by ``set``. The rows "weighted set" of the results were made with commit
13ec29d; docs/evidence.md says why that method was removed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import noisyor as nor
from _measure import Machine, arguments, significant, write
from _problems import bmf, bmf_data, bmf_near_truth, data_directory, load_tiny20, tiny20
from noisyor.data.observations import Observations
from noisyor.model.network import Network
from posterior_calibration import problems

ROWS = 200


def bounds(name: str, network: Network, rows: Observations, exact: bool = False) -> dict[str, Any]:
    result: dict[str, Any] = {"problem": name, "rows": rows.n_rows}
    scores = nor.evaluate(network, rows)
    assert scores.elbo_vi is not None
    result["elbo_mp"], result["elbo_vi"] = scores.elbo_mp.mean, scores.elbo_vi.mean
    began = time.process_time()
    found = nor.evidence_bound(network, rows)
    result["set_cpu_ms_per_row"] = (time.process_time() - began) / rows.n_rows * 1e3
    result["set"] = found.mean
    result["configurations"] = float(found.n_configurations.mean())
    assert (found.per_row >= scores.elbo_mp.per_row - 1e-9).all()
    began = time.process_time()
    estimate = nor.estimate_evidence(network, rows, n_chains=16, n_steps=16)
    result["estimate_cpu_ms_per_row"] = (time.process_time() - began) / rows.n_rows * 1e3
    result["estimate"], result["estimate_error"] = estimate.mean, estimate.mean_error
    if exact:
        truth = nor.inference.enumerate_posterior(network, rows).log_likelihood
        result["exact"] = float(truth.mean())
        assert (found.per_row <= truth + 1e-9).all()
    return {key: rounded(value) for key, value in result.items()}


def rounded(value: Any) -> Any:
    return significant(value, 6) if isinstance(value, float) else value


def enumerable() -> Iterator[dict[str, Any]]:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for kind, network, rows in problems():
        by_kind.setdefault(kind, []).append(bounds(kind, network, rows, exact=True))
    for kind, parts in by_kind.items():
        mean = {
            key: rounded(float(np.mean([part[key] for part in parts])))
            for key in parts[0]
            if key not in ("problem", "rows")
        }
        mean["estimate_error"] = rounded(mean["estimate_error"] / np.sqrt(len(parts)))
        rows = sum(part["rows"] for part in parts)
        yield {"problem": f"{len(parts)} {kind} networks", "rows": rows, **mean}


def bmf_test_rows(n: int, r: int) -> Observations:
    """Draw test rows: other states, the same features."""
    data = bmf_data(n, r)
    generator = np.random.default_rng(7)
    other = generator.random((ROWS, r)) < data.U.mean()
    return Observations.of((other.astype(np.int64) @ data.V > 0).astype(np.uint8))


def training(data: Path | None) -> Iterator[dict[str, Any]]:
    cases: list[tuple[str, Any, Observations, int, int | None]] = []
    for seed in range(2):
        cases.append(
            (f"BMF n=100 r=20, seed {seed}", bmf(100, 20), bmf_test_rows(100, 20), 3000, 20)
        )
    if data is not None:
        test = load_tiny20(data).split(0.7, seed=0)[1].take(slice(0, 1000))
        cases.append(("tiny20", tiny20(data), test, 400, 512))
    for number, (name, problem, test, steps, batch) in enumerate(cases):
        sample = nor.MaxProduct(temperature=1.0)
        for method_name, method, times in [
            ("mode", nor.MaxProduct(), 1),
            ("polished mode", nor.MaxProduct(icm=20), 1),
            ("sample", sample, 1),
            ("polished sample", replace(sample, icm=20), 1),
            ("8 samples", replace(sample, n_samples=8), 1),
            ("sample, 8 times the steps", sample, 8),
        ]:
            began = time.process_time()
            learned = nor.train(
                problem.network,
                problem.rows,
                method,
                steps=steps * times,
                batch_size=batch,
                learning_rate=problem.learning_rate,
                seed=number,
                progress=False,
            ).network
            seconds = time.process_time() - began
            scores = nor.evaluate(learned, test)
            assert scores.elbo_vi is not None
            yield {
                "problem": name,
                "method": method_name,
                "steps": steps * times,
                "cpu_seconds": significant(seconds, 3),
                "elbo_mp": rounded(scores.elbo_mp.mean),
                "elbo_vi": rounded(scores.elbo_vi.mean),
                "set": rounded(nor.evidence_bound(learned, test).mean),
            }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="folder with 20news_w100.mat")
    parser.add_argument("--skip-training", action="store_true")
    options = parser.parse_args()
    machine = Machine()
    data = data_directory(options.data)
    table, trained = [], []
    for row in enumerable():
        table.append(row)
        print(row, flush=True)
    cases: list[tuple[str, Network, Observations]] = [
        ("BMF n=100 r=20, trained", bmf(100, 20).trained(3000).network, bmf_test_rows(100, 20)),
        ("BMF n=400 r=240, near truth", bmf_near_truth(400, 240).network, bmf_test_rows(400, 240)),
    ]
    if data is not None:
        test = load_tiny20(data).split(0.7, seed=0)[1].take(slice(0, ROWS))
        cases.append(("tiny20, trained", tiny20(data).trained(150).network, test))
    for name, network, rows in cases:
        rows = rows.take(slice(0, 40)) if "400" in name else rows
        table.append(bounds(name, network, rows))
        print(table[-1], flush=True)
    for row in training(data) if not options.skip_training else ():
        trained.append(row)
        print(row, flush=True)
    content = {"bounds": table, "training": trained, "machine": machine.describe()}
    write(options.json, content)


if __name__ == "__main__":
    main()
