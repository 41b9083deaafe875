"""Does a layer above sampled causes describe documents better than one layer, or than a mixture?

    python benchmarks/layers_on_causes.py [--data DIR] [--json results/layers_on_causes.json]

tiny20, split 0; a tenth of its training rows chooses, and its first 600 rows are scored. Causes
with edges to all words are learned by Gibbs sampling. Their states in a last sweep are rows of a
table; a mixture over these becomes a set of alternatives above the causes, and all parameters are
sampled further. Beside it: independent causes beside the classes of a mixture, and mixtures alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import noisyor as nor
from _measure import Machine, arguments, significant, write
from _problems import data_directory, use_data
from noisyor.data.observations import Observations
from noisyor.engines.contract import NoiseKey
from noisyor.learning.gibbs_em import ChainsInMemory, GibbsRounds
from noisyor.search import start_from_mixture, start_from_topics
from noisyor.search.restarts import unpacked

CAUSES, ROWS, SWEEPS, ROUNDS, MORE_SWEEPS = 40, 600, 60, 80, 10
SMOOTHING: dict[str, Any] = {"smoothing": 1.0, "smooth_to": "frequency"}


def one_layer(rows: Observations) -> nor.Network:
    """Causes with edges to all words."""
    start = start_from_topics(rows.unique_rows()[0], CAUSES)
    return nor.learning.learn_by_gibbs(start, rows, sweeps=SWEEPS, **SMOOTHING)


def sampled_causes(network: nor.Network, rows: Observations) -> np.ndarray:
    """States of the causes (n_rows, n_hidden) after some sweeps."""
    chains = ChainsInMemory(network, rows, share_draws=False)
    for number in range(MORE_SWEEPS):
        chains.sweep(network, NoiseKey(0, number))
    return unpacked(chains.state(), "chains", (rows.n_rows, network.n_hidden))


def with_set_above(network: nor.Network, rows: Observations) -> nor.Network:
    """The same causes below a set of alternatives, the classes of a mixture over their states."""
    states = sampled_causes(network, rows)
    mixture = nor.search.learn_mixture(states, CAUSES, smoothing=2.0)
    above = start_from_mixture(mixture)
    below = [(k, i) for k in range(CAUSES) for i in range(network.n_visible)]
    upper = [(CAUSES + k, j) for k in range(above.n_hidden) for j in range(CAUSES)]
    failure = np.r_[_failures(network).ravel(), _failures(above).ravel()]
    prior = np.r_[above.noise_probability, above.prior_probability]
    start = nor.from_edges(
        network.n_visible,
        CAUSES + above.n_hidden,
        below,
        upper,
        failure_probability=np.clip(failure, 1e-6, 1.0 - 1e-9),
        prior_probability=np.clip(prior, 1e-6, 1.0 - 1e-6),
        noise_probability=network.noise_probability,
        alternatives=np.r_[np.full(CAUSES, -1), np.zeros(above.n_hidden, dtype=int)],
    )
    rounds = GibbsRounds(start, ChainsInMemory(start, rows), **SMOOTHING)
    return rounds.advance(ROUNDS)


def _failures(network: nor.Network) -> np.ndarray:
    """Failure probabilities (n_hidden, n_visible) of a network with all edges."""
    theta = np.zeros((network.n_hidden, network.n_visible))
    theta[network.parent, network.edge_child] = network.theta[network.param]
    return np.exp(-theta)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, default=None)
    options = parser.parse_args()
    data = data_directory(options.data)
    if data is None:
        parser.error("the folder of the data is needed: --data DIR or NOISYOR_DATA")
    use_data(data)
    machine = Machine()
    rows = Observations.of(nor.datasets.load_tiny20().observations)
    train, _ = rows.split(0.7, 0)
    train, judges = train.split(0.9, 0)
    few = judges.take(slice(0, ROWS))
    cases: dict[str, Any] = {}

    def add(name: str, learn: Callable[[], Any]) -> Any:
        began = time.process_time()
        model = learn()
        used = time.process_time() - began
        if isinstance(model, nor.Network):
            found = nor.estimate_evidence(model, few, n_chains=8, n_steps=32)
            score, error = found.mean, found.mean_error
        else:
            score, error = float(model.log_probability(few).mean()), 0.0
        cases[name] = {
            "log_p": significant(score, 6),
            "error_of_estimate": significant(error),
            "cpu_s": significant(used),
        }
        print(name, cases[name], flush=True)
        return model

    causes = add(f"{CAUSES} causes", lambda: one_layer(train))
    add(f"{CAUSES} causes below {CAUSES} classes", lambda: with_set_above(causes, train))
    sets = [[64] + [1] * CAUSES]
    add(
        f"64 classes beside {CAUSES} causes",
        lambda: (
            nor.learning.learn_density(
                train, sets=sets, held_out=judges, max_rounds=100, progress=False
            ).network
        ),
    )
    learn = nor.search.learn_mixture
    add("64 classes", lambda: learn(train, 64, held_out=judges))
    add("average of mixtures", lambda: nor.search.average_mixtures(train, held_out=judges))
    write(options.json, {"rows": ROWS, "cases": cases, "machine": machine.describe()})


if __name__ == "__main__":
    main()
