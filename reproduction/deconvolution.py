"""2D blind deconvolution: find four shapes in 80 images of 14 x 14, explain 20 others.

The model has five features of 6 x 6, one more and one pixel wider than the truth, a prior for each
and noise fixed at 0.01. Training: 3,000 full-batch updates, temperature 1; test at temperature 0.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from noisyor._util.arrays import BinaryArray
from noisyor.data.observations import Observations
from noisyor.inference.joint import Factorization, deconvolve
from noisyor.metrics import (
    features_iou,
    reconstruct_images,
    reconstruction_error,
    threshold_features,
)
from noisyor.model.builders import convolutional
from noisyor.model.network import Network, probability_from_theta
from reproduction import datasets
from reproduction.one_layer import (
    NOISE_PROBABILITY,
    NOISES,
    OneLayerProtocol,
    Verdict,
    modes,
    run_joint,
    run_one_layer,
    trivial_metrics,
)
from reproduction.protocol import (
    ALL_INITS,
    Choice,
    Context,
    Experiment,
    Outcome,
    RunSpec,
    known_datasets,
)

__all__ = ["EXPERIMENT", "FEATURE_SHAPE", "N_COMPONENTS", "PROTOCOL", "TRAIN_SHARE"]

N_COMPONENTS = 5
FEATURE_SHAPE = (6, 6)
TRAIN_SHARE = 0.8
PROTOCOL = OneLayerProtocol(
    steps=3000, batch_size=None, learning_rate=0.01, train_share=TRAIN_SHARE
)
ACTIVATION_PRIORS = {"prior-1e-75": 1e-75, "prior-0.01": 0.01}
"""Probability of an activation in PMP: the authors' software, and the original experiment."""

_KEPT_IMAGES = 20


def _run(spec: RunSpec, context: Context) -> Outcome:
    data = datasets.load_deconvolution()
    images = Observations.of(data.images)
    train_rows, test_rows = images.split(TRAIN_SHARE, spec.seed)
    test = test_rows.to_dense().astype(np.uint8).reshape(-1, *test_rows.shape)

    def verdict(
        features: BinaryArray, reconstruction: BinaryArray, learned: dict[str, Any]
    ) -> Verdict:
        metrics = {
            "test_re_pct": reconstruction_error(reconstruction, test),
            "features_iou": features_iou(features, data.features),
            **trivial_metrics(test),
            "trivial_features_iou": 0.0,
        }
        pictures = {
            "true_features": data.features,
            "test_images": test[:_KEPT_IMAGES],
            "reconstruction": reconstruction[:_KEPT_IMAGES],
        }
        return Verdict(metrics, learned | pictures)

    if spec.method == "pmp":
        prior: dict[str, Any] = {"state_probability": ACTIVATION_PRIORS[spec.init]}

        def judge_features(found: Factorization, reconstruction: BinaryArray) -> Verdict:
            return verdict(found.features, reconstruction, {"features": found.features})

        fit = partial(deconvolve, train_rows, N_COMPONENTS, FEATURE_SHAPE, **prior)
        infer = partial(deconvolve, test_rows, **prior)
        return run_joint(spec, context, fit, infer, judge_features, test, prior)

    def judge(network: Network) -> Verdict:
        states = modes(network, test_rows, spec, context)
        theta = network.theta_of("failure")
        learned = {
            "features": theta,
            "prior": probability_from_theta(network.theta_of("prior")),
        }
        return verdict(threshold_features(theta), reconstruct_images(network, states), learned)

    network = convolutional(
        images.shape,  # type: ignore[arg-type]
        N_COMPONENTS,
        FEATURE_SHAPE,
        noise_probability=NOISE_PROBABILITY,
        fixed="noise",
    )
    return run_one_layer(spec, context, network, (train_rows, test_rows), PROTOCOL, judge)


def _cases(choice: Choice) -> list[str]:
    return known_datasets("deconvolution", choice, ("BD",)) or ["BD"]


EXPERIMENT = Experiment(
    name="deconvolution",
    title="2D blind deconvolution",
    methods=("mp-two-stage", "mp", "vi", "pmp"),
    main_metric="test_elbo",
    metrics={
        "test_re_pct": False,
        "test_re_pct_mode": False,
        "features_iou": True,
        "test_elbo": True,
    },
    takes=("datasets",),
    cases=_cases,
    inits=lambda method: tuple(ACTIVATION_PRIORS) if method == "pmp" else ALL_INITS,
    steps=PROTOCOL.steps_of,
    run=_run,
    expected_seeds=10,
    noises=NOISES,
)
