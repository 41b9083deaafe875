"""Overparametrisation: how many of eight true causes are found by a model with 8 to 32.

Seven data sets of 10,000 rows; 9,000 to train on, the others to test. The model has a prior for
each cause and noise fixed at 0.01. Training: max-product, 45,000 updates of 20 rows, temperature 1.
"""

from __future__ import annotations

import numpy as np

from noisyor._util.validation import check_count
from noisyor.data.observations import Observations
from noisyor.metrics import full_recovery, recovered_parameters
from noisyor.model.builders import bipartite
from noisyor.model.network import Network, probability_from_theta
from reproduction import datasets
from reproduction.one_layer import (
    NOISE_PROBABILITY,
    NOISES,
    OneLayerProtocol,
    Verdict,
    run_one_layer,
    trivial_metrics,
)
from reproduction.protocol import (
    Choice,
    Context,
    Experiment,
    Outcome,
    RunSpec,
    known_datasets,
)

__all__ = ["COMPONENTS", "DATASETS", "EXPERIMENT", "PROTOCOL", "TRAIN_SHARE"]

DATASETS = ("IMG", "PLNT", "UNIF", "CON8", "CON24", "IMG-FLIP", "IMG-UNIF")
COMPONENTS = (8, 10, 16, 32)
"""The paper's numbers of causes in the model."""

TRAIN_SHARE = 0.9
PROTOCOL = OneLayerProtocol(
    steps=45_000, batch_size=20, learning_rate=1e-3, train_share=TRAIN_SHARE
)


def _run(spec: RunSpec, context: Context) -> Outcome:
    dataset, n_components = spec.case.split(",")
    data = datasets.load_ovpm(dataset)
    rows = Observations.of(data.observations)
    train_rows, test_rows = rows.split(TRAIN_SHARE, spec.seed)

    def judge(network: Network) -> Verdict:
        theta = network.theta_of("failure")
        prior = probability_from_theta(network.theta_of("prior"))
        recovery = recovered_parameters(theta, prior, data.failure)
        nothing = recovered_parameters(np.zeros_like(theta), np.ones(len(theta)), data.failure)
        metrics = {
            "recovered": float(recovery.n_recovered),
            "full_recovery_pct": full_recovery([recovery.n_recovered], len(data.failure)),
            "trivial_elbo": trivial_metrics(test_rows.to_dense().astype(np.uint8))["trivial_elbo"],
            "trivial_recovered": float(nothing.n_recovered),
        }
        arrays = {
            "features": theta,
            "prior": prior,
            "assigned": np.where(recovery.cost <= 1.0, recovery.learned + 1, 0),
            "true_features": -np.log(data.failure),
            "image_shape": np.array(data.image_shape or (), dtype=np.int64),
        }
        return Verdict(metrics, arrays)

    network = bipartite(
        rows.n_visible, int(n_components), noise_probability=NOISE_PROBABILITY, fixed="noise"
    )
    return run_one_layer(spec, context, network, (train_rows, test_rows), PROTOCOL, judge)


def _cases(choice: Choice) -> list[str]:
    names = known_datasets("overparam", choice, DATASETS) or DATASETS
    numbers = [check_count("n_components", number) for number in choice.n_components] or COMPONENTS
    return [f"{name},{number}" for name in names for number in numbers]


EXPERIMENT = Experiment(
    name="overparam",
    title="Overparametrisation: causes recovered",
    methods=("mp-two-stage", "mp"),
    main_metric="recovered",
    metrics={"recovered": True, "full_recovery_pct": True, "test_elbo": True},
    takes=("datasets", "n_components"),
    cases=_cases,
    inits=lambda method: ("paper-3", "paper-4"),
    steps=PROTOCOL.steps_of,
    run=_run,
    expected_seeds=50,
    noises=NOISES,
)
