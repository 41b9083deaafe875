"""Why does local mean field end above the paper on IMDB? Three trials, each one training.

    python benchmarks/text_local_vi.py [--data DIR] --json results/text_local_vi.json

The reproduction trains local mean field on IMDB from start paper-3 and ends 0.7 nats above the
paper. Each trial changes one thing that the paper does not state:

* *usual*: nothing. The bound after 3,600 and 4,000 updates shows what a tenth of the training
  is worth, and the bound with fewer rounds of the E-step what the rounds of the test are worth.
* *ties*: the words are numbered in another order before the graph is built. Equal distances between
  clusters are then resolved in another way, and some edges differ.
* *rounds*: training has 5 rounds of 5 + 5 steps instead of 10 rounds of 10 + 10.

Trials that the JSON file already holds are not run again.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import _root  # noqa: F401
import noisyor as nor
from _measure import Machine, arguments, earlier, write
from _problems import use_data
from noisyor.learning.state import StepInfo
from reproduction import datasets
from reproduction.layered import TEXT_PROTOCOL as PROTOCOL

EARLIER, STEPS = 3600, 4000
SEED = 0
USUAL = nor.MeanField(local=True, tolerance=1e-4)
ROUNDS = {
    "10 x (10 + 10)": nor.MeanField(local=True, keep_q=False),
    "5 x (5 + 5)": nor.MeanField(local=True, outer=5, inner=5, r_iterations=5, keep_q=False),
    "3 x (3 + 3)": nor.MeanField(local=True, outer=3, inner=3, r_iterations=3, keep_q=False),
}
TRIALS = ("usual", "ties", "rounds")


def trial(name: str, train: nor.Observations, test: nor.Observations) -> dict[str, Any]:
    """Train once and return the bounds on the test documents."""
    began = time.process_time()
    if name == "ties":
        order = np.random.default_rng(SEED).permutation(train.n_visible)
        train, test = (nor.Observations.of(rows.to_csr()[:, order]) for rows in (train, test))
    method = USUAL
    if name == "rounds":
        method = nor.MeanField(local=True, outer=5, inner=5, r_iterations=5)
    graph = nor.layered(train, PROTOCOL.n_layers)
    before: list[nor.Network] = []

    def keep(info: StepInfo) -> None:
        if info.state.step == EARLIER:
            before.append(info.network)

    learned = nor.train(
        nor.initialize(graph, "paper-3"),
        train,
        method,
        steps=STEPS,
        batch_size=PROTOCOL.batch_size,
        learning_rate=PROTOCOL.learning_rate,
        seed=SEED,
        callbacks=(keep,),
        progress=False,
    ).network
    usual = next(iter(ROUNDS))
    kept = tuple(ROUNDS) if name == "usual" else (usual,)
    return {
        "n_edges": int(graph.n_edges + graph.n_nodes),
        "after 3,600": bounds(before[0], test, usual),
        "after 4,000": {rounds: bounds(learned, test, rounds) for rounds in kept},
        "cpu_s": round(time.process_time() - began, 1),
    }


def bounds(network: nor.Network, test: nor.Observations, rounds: str) -> dict[str, float]:
    """Return the mean bounds of the test documents with some number of rounds."""
    posterior = ROUNDS[rounds].posterior(network, test)
    assert posterior.elbo_vi is not None
    return {
        "elbo_mp": round(float(posterior.log_joint.mean()), 3),
        "elbo_vi": round(float(posterior.elbo_vi.mean()), 3),
    }


def main() -> None:
    """Run the trials that are missing, and print all."""
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="folder of the data files, else NOISYOR_DATA")
    parser.add_argument("--trials", nargs="+", default=list(TRIALS), choices=TRIALS)
    options = parser.parse_args()
    use_data(options.data)
    data = datasets.load_imdb()
    train, test = nor.Observations.of(data.train), nor.Observations.of(data.test)
    machine, content = Machine(), earlier(options.json, {"machine": {}, "trials": {}})
    for name in options.trials:
        if name not in content["trials"]:
            content["trials"][name] = trial(name, train, test)
            write(options.json, content | {"machine": machine.describe()})
    for name, found in content["trials"].items():
        print(name, found)


if __name__ == "__main__":
    main()
