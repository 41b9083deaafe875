"""Overparametrisation: how many of eight true causes are found by a model with 8 to 32.

Seven data sets of 10,000 rows; 9,000 to train on, the others to test. The model has a prior for
each cause and noise fixed at 0.01. Training: max-product, 45,000 updates of 20 rows, temperature 1.
"""

from __future__ import annotations

import numpy as np

from noisyor import datasets
from noisyor.data.observations import Observations
from noisyor.errors import InvalidSettingError
from noisyor.experiments.arrays import pack
from noisyor.experiments.phases import learn_and_bound, outcome_of, split_for
from noisyor.experiments.protocol import Choice, Context, Experiment, Outcome, RunSpec
from noisyor.learning.initialize import initialize
from noisyor.metrics import full_recovery, recovered_parameters, trivial_reference
from noisyor.network.builders import bipartite
from noisyor.network.graph import probability_from_theta

__all__ = ["DATASETS", "EXPERIMENT", "LATENTS"]

DATASETS = ("IMG", "PLNT", "UNIF", "CON8", "CON24", "IMG-FLIP", "IMG-UNIF")
LATENTS = (8, 10, 16, 32)
NOISE_PROBABILITY = 0.01
TRAIN_SHARE = 0.9
STEPS = 45_000
BATCH_SIZE = 20
LEARNING_RATE = 1e-3


def _run(spec: RunSpec, context: Context) -> Outcome:
    dataset, latents = spec.case.split(",")
    data = datasets.load_ovpm(dataset)
    rows = Observations.of(data.observations)
    train_rows, score_rows = split_for(spec, *rows.split(TRAIN_SHARE, spec.seed))
    start = initialize(
        bipartite(
            rows.n_visible, int(latents), noise_probability=NOISE_PROBABILITY, fixed=("noise",)
        ),
        spec.init,
        noise="uniform",
        seed=spec.seed,
    )
    learned, bounds = learn_and_bound(
        start,
        train_rows,
        score_rows,
        spec=spec,
        context=context,
        batch_size=BATCH_SIZE,
        learning_rate=LEARNING_RATE,
    )
    if spec.part == "validation":
        return outcome_of(learned, {"validation_elbo": bounds["elbo"]})
    network = learned.network
    theta, prior = network.theta_of("failure"), probability_from_theta(network.theta_of("prior"))
    recovery = recovered_parameters(theta, prior, data.failure)
    nothing = recovered_parameters(np.zeros_like(theta), np.ones(len(theta)), data.failure)
    n_true = len(data.failure)
    metrics = {f"test_{name}": value for name, value in bounds.items()} | {
        "recovered": float(recovery.n_recovered),
        "full_recovery_pct": full_recovery([recovery.n_recovered], n_true),
        "trivial_elbo": trivial_reference(
            score_rows.to_dense().astype(np.uint8), NOISE_PROBABILITY
        ).elbo,
        "trivial_recovered": float(nothing.n_recovered),
    }
    arrays = {
        "features": pack(theta),
        "prior": pack(prior),
        "assigned": pack(np.where(recovery.cost <= 1.0, recovery.learned + 1, 0)),
        "true_features": pack(-np.log(data.failure)),
        "image_shape": list(data.image_shape or ()),
    }
    return outcome_of(learned, metrics, arrays)


def _cases(choice: Choice) -> list[str]:
    if choice.sizes:
        raise InvalidSettingError("overparam takes --dataset and --latents, not --size")
    for name in choice.datasets:
        if name not in DATASETS:
            raise InvalidSettingError(
                f"overparam has no data set {name!r}; there are {', '.join(DATASETS)}"
            )
    latents = list(choice.latents) or LATENTS
    if min(latents) < 1:
        raise InvalidSettingError(f"there is at least one latent variable, got {min(latents)}")
    return [f"{name},{number}" for name in choice.datasets or DATASETS for number in latents]


EXPERIMENT = Experiment(
    name="overparam",
    title="Overparametrisation: causes recovered",
    methods=("mp", "mp-two-stage"),
    main_metric="recovered",
    metrics={"recovered": True, "full_recovery_pct": True, "test_elbo": True},
    cases=_cases,
    inits=lambda method: ("paper-3", "paper-4"),
    steps=lambda method: STEPS,
    run=_run,
    expected_seeds=50,
    settings={
        "noise_probability": NOISE_PROBABILITY,
        "train_share": TRAIN_SHARE,
        "batch_size": BATCH_SIZE,
        "learning_rate": LEARNING_RATE,
        "temperature": 1.0,
        "initialization_noise": "uniform",
    },
)
