"""Which part of the noise at the start costs recovered causes? Failures and priors apart.

    python benchmarks/overparam_noise.py [--data DIR] --json results/overparam_noise.json

The paper's text has normal noise on failure and prior probabilities, the authors' software uniform
noise on failure probabilities only: they differ twice. Both are in the record of the reproduction.
This benchmark trains with the two noises between them, normal noise on failures only, and uniform
noise on failures with normal noise on priors. Models have ten causes and start from paper-4; all
else is the protocol of the reproduction. It counts the true causes that a run recovers.

Runs that the JSON file already holds are not run again.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np

import _root  # noqa: F401
import noisyor as nor
from _measure import Machine, arguments, earlier, write
from _problems import use_data
from noisyor.engines.registry import get_engine
from noisyor.learning.initialize import Noise
from reproduction import datasets
from reproduction.one_layer import NOISE_PROBABILITY, recovered_parameters
from reproduction.one_layer import OVERPARAM_PROTOCOL as PROTOCOL

CASES = ("CON8,10", "UNIF,10")
START = "paper-4"
NOISES: tuple[tuple[Noise, Noise], ...] = (("gaussian", "none"), ("uniform", "gaussian"))
"""Noise of the failures and of the priors."""


def recovered(case: str, failures: Noise, priors: Noise, seed: int) -> int:
    """Train once and return the number of true causes recovered."""
    name, n_causes = case.split(",")
    data = datasets.load_ovpm(name)
    rows, _ = nor.Observations.of(data.observations).split(PROTOCOL.train_share, seed)
    network = nor.bipartite(
        rows.n_visible, int(n_causes), noise_probability=NOISE_PROBABILITY, fixed="noise"
    )
    start, other = (nor.initialize(network, START, noise, seed) for noise in (failures, priors))
    start = start.with_theta(np.where(network.roles == "prior", other.theta, start.theta))
    learned = nor.train(
        start,
        rows,
        nor.MaxProduct(temperature=1.0, schedule="two-stage"),
        steps=PROTOCOL.steps,
        batch_size=PROTOCOL.batch_size,
        learning_rate=PROTOCOL.learning_rate,
        seed=seed,
        engine=get_engine(n_threads=1),
        progress=False,
    ).network
    prior = -np.expm1(-learned.theta_of("prior"))
    return recovered_parameters(learned.theta_of("failure"), prior, data.failure).n_recovered


def main() -> None:
    """Run what is missing, and print the number of full recoveries."""
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="folder of the data files, else NOISYOR_DATA")
    parser.add_argument("--seeds", type=int, default=9, help="seeds from 0 on")
    options = parser.parse_args()
    use_data(options.data)
    machine, content = Machine(), earlier(options.json, {"machine": {}, "recovered": {}})
    for seed, case, (failures, priors) in product(range(options.seeds), CASES, NOISES):
        found = content["recovered"].setdefault(case, {})
        runs = found.setdefault(f"failures {failures}, priors {priors}", {})
        if str(seed) not in runs:
            runs[str(seed)] = recovered(case, failures, priors, seed)
            write(options.json, content | {"machine": machine.describe()})
    for case, kinds in content["recovered"].items():
        for kind, runs in kinds.items():
            counts = list(runs.values())
            print(f"{case}, {kind}: mean {np.mean(counts):.2f}, all 8 in {counts.count(8)}")


if __name__ == "__main__":
    main()
