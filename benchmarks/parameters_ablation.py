"""Measure the contribution of each step from factors to parameters.

    python benchmarks/parameters_ablation.py [--seeds 2] [--json results/parameters_ablation.json]
    python benchmarks/parameters_ablation.py --table --json results/parameters_ablation.json

The steps are those of `learn_factors` after its search, with the same factors for all steps. On
matrices of the paper's generator with n=200, r=40 and a tenth of the entries flipped, the script
measures the error against the clean matrix. On OVPM data with K = 16 it measures how many of the
eight causes are recovered, the largest error of a parameter, and the test bound of the mode. Cells
that are already in the JSON file are skipped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import _root  # noqa: F401
import noisyor as nor
from _measure import Machine, arguments, significant, write
from noisyor.data.observations import Observations
from noisyor.datasets.synthetic import generate_bmf
from noisyor.learning.validation import prune_hidden
from noisyor.metrics import factorization_error
from noisyor.model.network import Network
from noisyor.search import starts as warm_start
from noisyor.search.cover import PRIOR_ROWS
from noisyor.search.factors import FoundFactors, search_factors
from reproduction import datasets
from reproduction.one_layer import OVERPARAM_PROTOCOL, recovered_parameters

FLIPPED, FLIPS = "10 % flipped", 0.1
OVPM = ("PLNT", "IMG-FLIP")
ASKED, SPARE = 16, 16

Step = Callable[[Observations, FoundFactors], Network]


def counted(rows: Observations, found: FoundFactors) -> Network:
    return warm_start.start_from_factors(found)


def counted_alone(rows: Observations, found: FoundFactors) -> Network:
    """Estimate every edge by its own count; the rate of all edges has the weight of two rows."""
    network = counted(rows, found)
    zeros, total = warm_start.edge_counts(found)
    weight = PRIOR_ROWS
    share = (zeros + weight * found.rates.false_negative) / (total + weight)
    failure = np.where(found.factors == 1, np.clip(share, 1e-5, 0.9), network.failure_probability)
    return nor.bipartite(
        rows.n_visible,
        len(found.factors),
        noise="per_visible",
        failure_probability=failure,
        prior_probability=network.prior_probability,
        noise_probability=network.noise_probability,
    )


def trained(rows: Observations, found: FoundFactors, temperature: float) -> Network:
    return nor.train(
        counted(rows, found),
        rows,
        nor.MaxProduct(temperature=temperature),
        steps=600,
        batch_size=100,
        learning_rate=5e-3,
        final_learning_rate=2e-4,
        smoothing=0.5,
        progress=False,
    ).network


def sampled(rows: Observations, found: FoundFactors) -> Network:
    return nor.learning.learn_by_gibbs(counted(rows, found), rows, sweeps=40)


def pruned(rows: Observations, found: FoundFactors) -> Network:
    network = prune_hidden(sampled(rows, found), rows, ASKED)
    return nor.learning.learn_by_gibbs(network, rows, sweeps=40)


STEPS: dict[str, Step] = {
    "counts, each edge by itself": counted_alone,
    "counts, edges shrunk to their mean": counted,
    "+ 600 steps of max-product, temperature 0": lambda rows, found: trained(rows, found, 0.0),
    "+ 600 steps of max-product, temperature 1": lambda rows, found: trained(rows, found, 1.0),
    "+ Gibbs sampling": sampled,
    "+ Gibbs sampling, pruning, Gibbs sampling": pruned,
}


def flipped_problem(seed: int) -> tuple[Observations, FoundFactors, Callable[[Network], Any]]:
    data = generate_bmf(200, 40, 920 + seed)
    clean = data.train > 0
    flips = np.random.default_rng((920 + seed, 1)).random(clean.shape) < FLIPS
    rows = Observations.of((clean ^ flips).astype(np.uint8))

    def judge(network: Network) -> dict[str, float]:
        states = nor.explain(network, rows).states.toarray()
        return {"error_pct": factorization_error(network, states, data.train)}

    return rows, search_factors(rows, 40, seed=seed), judge


def ovpm_problem(
    name: str, seed: int
) -> tuple[Observations, FoundFactors, Callable[[Network], Any]]:
    data = datasets.load_ovpm(name)
    rows, test = Observations.of(data.observations).split(OVERPARAM_PROTOCOL.train_share, seed)

    def judge(network: Network) -> dict[str, float]:
        recovery = recovered_parameters(
            network.theta_of("failure"), network.prior_probability, data.failure
        )
        return {
            "recovered": recovery.n_recovered,
            "largest_cost": float(np.minimum(recovery.cost, 99.0).max()),
            "causes": network.n_hidden,
            "test_elbo": float(nor.explain(network, test).log_joint.mean()),
        }

    return rows, search_factors(rows, ASKED + SPARE, seed=seed), judge


def table(runs: list[dict[str, Any]]) -> str:
    """Return means over seeds, and the largest error over seeds, as a Markdown table."""
    lines = [
        f"| | {FLIPPED}: error, % | "
        + " | ".join(f"{name}: recovered, largest error, bound" for name in OVPM)
        + " |",
        "| --- |" + " ---: |" * (1 + len(OVPM)),
    ]
    for step in STEPS:
        cells = []
        for problem in (FLIPPED, *OVPM):
            cell = [run for run in runs if run["step"] == step and run["problem"] == problem]
            if not cell:
                cells.append("–")
            elif problem == FLIPPED:
                cells.append(f"{np.mean([run['error_pct'] for run in cell]):.2f}")
            else:
                recovered = np.mean([run["recovered"] for run in cell])
                largest = max(run["largest_cost"] for run in cell)
                bound = np.mean([run["test_elbo"] for run in cell])
                shown = "none" if largest >= 99 else f"{largest:.2f}"
                cells.append(f"{recovered:.1f}, {shown}, {bound:.2f}")
        lines.append(f"| {step} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="print --json as a table and stop")
    options = parser.parse_args()
    runs: list[dict[str, Any]] = []
    if options.json is not None and options.json.exists():
        runs = json.loads(options.json.read_text())["runs"]
    if options.table:
        print(table(runs))
        return
    machine = Machine()
    done = {(run["problem"], run["seed"], run["step"]) for run in runs}
    for seed in range(options.seeds):
        for problem in (FLIPPED, *OVPM):
            left = [step for step in STEPS if (problem, seed, step) not in done]
            if problem == FLIPPED:  # none of its 40 causes is spare
                left = [step for step in left if STEPS[step] is not pruned]
            if not left:
                continue
            if problem == FLIPPED:
                rows, found, judge = flipped_problem(seed)
            else:
                rows, found, judge = ovpm_problem(problem, seed)
            for step in left:
                began = time.process_time()
                network = STEPS[step](rows, found)
                seconds = time.process_time() - began
                figures = {name: significant(value, 4) for name, value in judge(network).items()}
                run = {"problem": problem, "seed": seed, "step": step, **figures}
                runs.append({**run, "cpu_s": significant(seconds, 3)})
                print(runs[-1], flush=True)
                write(options.json, {"machine": machine.describe(), "runs": runs})
    print(table(runs))


if __name__ == "__main__":
    main()
