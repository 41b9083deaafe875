"""2D blind deconvolution: find four shapes in 80 images of 14 x 14, explain 20 others.

The model has five features of 6 x 6, one more and one pixel wider than the truth, a prior for each
and noise fixed at 0.01. Training: 3,000 full-batch updates, temperature 1; test at temperature 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor import datasets
from noisyor.data.observations import Observations
from noisyor.errors import InvalidSettingError
from noisyor.experiments.arrays import pack
from noisyor.experiments.phases import learn_and_bound, modes, outcome_of, split_for
from noisyor.experiments.protocol import ALL_INITS, Choice, Context, Experiment, Outcome, RunSpec
from noisyor.inference.joint_max_product import JointMaxProduct, deconvolve
from noisyor.learning.initialize import initialize
from noisyor.metrics import (
    features_iou,
    reconstruct_images,
    reconstruction_error,
    threshold_features,
    trivial_reference,
)
from noisyor.network.builders import convolutional
from noisyor.network.graph import probability_from_theta

__all__ = ["EXPERIMENT"]

N_FEATURES = 5
FEATURE_SHAPE = (6, 6)
NOISE_PROBABILITY = 0.01
TRAIN_SHARE = 0.8
STEPS = 3000
LEARNING_RATE = 0.01
PMP_ITERATIONS = 1000
ACTIVATION_PRIORS = {"prior-1e-75": 1e-75, "prior-0.01": 0.01}
"""Probability of an activation in PMP: the authors' software, and the original experiment."""

_KEPT_IMAGES = 20


def _run(spec: RunSpec, context: Context) -> Outcome:
    data = datasets.load_deconvolution()
    images = Observations.of(data.images)
    train_images, test_images = images.split(TRAIN_SHARE, spec.seed)
    train_rows, score_rows = split_for(spec, train_images, test_images)
    if spec.method == "pmp":
        return _run_pmp(spec, context, data, train_rows, score_rows)
    start = initialize(
        convolutional(
            images.shape,  # type: ignore[arg-type]
            N_FEATURES,
            FEATURE_SHAPE,
            noise_probability=NOISE_PROBABILITY,
            fixed=("noise",),
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
        batch_size=None,
        learning_rate=LEARNING_RATE,
    )
    if spec.part == "validation":
        return outcome_of(learned, {"validation_elbo": bounds["elbo"]})
    states = modes(learned.network, score_rows, spec, context)
    reconstruction = reconstruct_images(learned.network, states)
    theta = learned.network.theta_of("failure")
    metrics = {f"test_{name}": value for name, value in bounds.items()}
    metrics |= _scores(threshold_features(theta), reconstruction, score_rows, data.features)
    arrays = {
        "features": pack(theta),
        "prior": pack(probability_from_theta(learned.network.theta_of("prior"))),
        **_pictures(score_rows, reconstruction, data.features),
    }
    return outcome_of(learned, metrics, arrays)


def _run_pmp(
    spec: RunSpec, context: Context, data: Any, train_rows: Observations, test_rows: Observations
) -> Outcome:
    """Deconvolve the training images, then infer the test images given the features.

    In the paper's protocol the test activations are one perturbed sample too; the error at their
    mode is recorded beside it.
    """
    settings = JointMaxProduct(iterations=spec.steps)
    prior, engine = ACTIVATION_PRIORS[spec.init], context.engine
    found = deconvolve(
        train_rows,
        N_FEATURES,
        FEATURE_SHAPE,
        settings,
        activation_probability=prior,
        seed=spec.seed,
        engine=engine,
    )
    noisy, mode = (
        deconvolve(
            test_rows,
            settings=at,
            features=found.features,
            activation_probability=prior,
            seed=spec.seed,
            engine=engine,
        ).reconstruction
        for at in (settings, replace(settings, temperature=0.0))
    )
    metrics = _scores(found.features, noisy, test_rows, data.features)
    metrics["test_re_pct_mode"] = reconstruction_error(mode, _images(test_rows))
    return Outcome(
        metrics,
        np.empty(0),
        settings={**settings.settings(), "activation_probability": prior},
        arrays={
            "features": pack(found.features),
            **_pictures(test_rows, noisy, data.features),
        },
    )


def _scores(
    features: npt.NDArray[np.uint8],
    reconstruction: npt.NDArray[np.uint8],
    rows: Observations,
    true_features: npt.NDArray[np.uint8],
) -> dict[str, float]:
    images = _images(rows)
    trivial = trivial_reference(images, NOISE_PROBABILITY)
    return {
        "test_re_pct": reconstruction_error(reconstruction, images),
        "features_iou": features_iou(features, true_features),
        "trivial_re_pct": trivial.reconstruction_error,
        "trivial_elbo": trivial.elbo,
        "trivial_features_iou": 0.0,
    }


def _pictures(
    rows: Observations,
    reconstruction: npt.NDArray[np.uint8],
    true_features: npt.NDArray[np.uint8],
) -> dict[str, Any]:
    return {
        "true_features": pack(true_features),
        "test_images": pack(_images(rows)[:_KEPT_IMAGES]),
        "reconstruction": pack(reconstruction[:_KEPT_IMAGES]),
    }


def _images(rows: Observations) -> npt.NDArray[np.uint8]:
    return rows.to_dense().astype(np.uint8).reshape(-1, *rows.shape)


def _cases(choice: Choice) -> list[str]:
    if choice.sizes or choice.latents or set(choice.datasets) - {"BD"}:
        raise InvalidSettingError("deconvolution has one data set, BD, and one size")
    return ["BD"]


def _inits(method: str) -> tuple[str, ...]:
    return tuple(ACTIVATION_PRIORS) if method == "pmp" else ALL_INITS


def _steps(method: str) -> int:
    return PMP_ITERATIONS if method == "pmp" else STEPS


EXPERIMENT = Experiment(
    name="deconvolution",
    title="2D blind deconvolution",
    methods=("mp", "vi", "pmp", "mp-two-stage"),
    main_metric="test_elbo",
    metrics={
        "test_re_pct": False,
        "test_re_pct_mode": False,
        "features_iou": True,
        "test_elbo": True,
    },
    cases=_cases,
    inits=_inits,
    steps=_steps,
    run=_run,
    expected_seeds=10,
    settings={
        "n_features": N_FEATURES,
        "feature_shape": list(FEATURE_SHAPE),
        "noise_probability": NOISE_PROBABILITY,
        "train_share": TRAIN_SHARE,
        "batch_size": None,
        "learning_rate": LEARNING_RATE,
        "temperature": 1.0,
        "initialization_noise": "uniform",
    },
)
