"""The demo: four shapes overlap in small images, and a network finds them again.

`run_demo` does the work and returns everything that a page or a terminal may show; it prints and
writes nothing.
"""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor._version import __version__
from noisyor.datasets.deconvolution import DeconvolutionData, generate_deconvolution
from noisyor.engines.contract import EngineLike
from noisyor.engines.registry import get_engine
from noisyor.inference.explain import explain
from noisyor.inference.max_product import MaxProduct
from noisyor.learning.initialize import initialize
from noisyor.learning.state import History
from noisyor.learning.train import train
from noisyor.metrics import (
    FeatureMatch,
    TrivialReference,
    match_features,
    reconstruct_images,
    reconstruction_error,
    threshold_features,
    trivial_reference,
)
from noisyor.network.builders import convolutional
from noisyor.network.graph import Network
from noisyor.network.layout import state_shape

__all__ = ["DEFAULT_STEPS", "EXPERIMENT", "SHAPES", "DemoResult", "run_demo"]

EXPERIMENT = "demo"
"""Name of this experiment in the files that it writes."""

DEFAULT_STEPS = 1000
"""Updates after which the shapes are found; about 25 s on two cores."""

SHAPES = ("square", "plus", "triangle", "diamond")
"""Names of the true features, in their order."""

FOUND = 0.95
"""A shape counts as found from this intersection over union."""

N_IMAGES = 100
N_TRAIN = 80
N_COMPONENTS = 5
FEATURE_SHAPE = (6, 6)
NOISE_PROBABILITY = 0.01
INITIALIZATION = "paper-3"
LEARNING_RATE = 0.01


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What the demo did and how well.

    Attributes
    ----------
    seed, steps : what was asked for.
    workers : threads that were used.
    data : all images and what they were made of; the first ``N_TRAIN`` were learned from.
    network : the learned network.
    history : record of the training.
    match : which learned feature stands for which true one.
    states : (n_test, n_components, rows, columns) uint8, inferred causes of the test images.
    reconstruction : (n_test, 14, 14) uint8, what these causes draw.
    test_re_pct : pixels of the test images that the reconstruction gets wrong, in percent.
    test_elbo : mean bound of the test images, in nats.
    trivial : the same two for explaining nothing.
    training_seconds : wall time of the training, with compilation and held-out evaluation.
    """

    seed: int
    steps: int
    workers: int
    data: DeconvolutionData
    network: Network
    history: History
    match: FeatureMatch
    states: npt.NDArray[np.uint8]
    reconstruction: npt.NDArray[np.uint8]
    test_re_pct: float
    test_elbo: float
    trivial: TrivialReference
    training_seconds: float

    @property
    def train_images(self) -> npt.NDArray[np.uint8]:
        """Images learned from, (N_TRAIN, 14, 14)."""
        return self.data.images[:N_TRAIN]

    @property
    def test_images(self) -> npt.NDArray[np.uint8]:
        """Images never seen in training, (n_test, 14, 14)."""
        return self.data.images[N_TRAIN:]

    @property
    def features_iou(self) -> float:
        """Mean intersection over union of the true features with the learned ones."""
        return float(self.match.iou.mean())

    @property
    def n_found(self) -> int:
        """How many of the true shapes were found."""
        return int((self.match.iou >= FOUND).sum())

    @property
    def binary_features(self) -> npt.NDArray[np.uint8]:
        """Learned features, thresholded, (N_COMPONENTS, height, width)."""
        return threshold_features(self.network.theta_of("failure"))

    @property
    def spare_features(self) -> list[int]:
        """Learned features that match no true one."""
        return [f for f in range(N_COMPONENTS) if f not in self.match.learned]

    @property
    def update_median(self) -> float:
        """Median wall time of an update in seconds."""
        return float(np.median(self.history.seconds))

    def settings(self) -> dict[str, Any]:
        """Everything that determines the result, and the number of threads."""
        return {
            "n_images": N_IMAGES,
            "n_train": N_TRAIN,
            "n_test": N_IMAGES - N_TRAIN,
            "image_shape": list(self.data.images.shape[1:]),
            "n_components": N_COMPONENTS,
            "feature_shape": list(FEATURE_SHAPE),
            "noise_probability": NOISE_PROBABILITY,
            "initialization": INITIALIZATION,
            "initialization_noise": "uniform",
            "method": "max-product",
            "temperature": 1.0,
            "steps": self.steps,
            "batch_size": N_TRAIN,
            "learning_rate": LEARNING_RATE,
            "threads": self.workers,
        }

    def metrics(self) -> dict[str, float]:
        """The results, each beside its trivial reference."""
        return {
            "features_iou": self.features_iou,
            "test_re_pct": self.test_re_pct,
            "test_elbo": self.test_elbo,
            "trivial_re_pct": self.trivial.reconstruction_error,
            "trivial_elbo": self.trivial.elbo,
        }

    def record(self, total_seconds: float) -> dict[str, Any]:
        """Machine-readable result, for JSON; ``total_seconds`` is that of the whole command."""
        return {
            "experiment": EXPERIMENT,
            "settings": self.settings(),
            "seed": self.seed,
            "metrics": self.metrics(),
            "seconds": {
                "total": total_seconds,
                "training": self.training_seconds,
                "update_median": self.update_median,
            },
            "environment": {
                "python": platform.python_version(),
                "numba": version("numba"),
                "numpy": np.__version__,
                "noisyor": __version__,
                "cpu_count": os.cpu_count(),
            },
        }


def run_demo(
    seed: int = 0,
    *,
    steps: int = DEFAULT_STEPS,
    engine: EngineLike = "auto",
    progress: bool | None = None,
) -> DemoResult:
    """Generate images, learn from 80 of them by Algorithm 1, explain the 20 others.

    Parameters
    ----------
    seed : of the images, the starting parameters and the perturbations.
    steps : number of updates, at least 1.
    engine : as in `explain`.
    progress : show a progress bar; None shows it on a terminal only.
    """
    runner = get_engine(engine)
    data = generate_deconvolution(N_IMAGES, seed)
    test_images = data.images[N_TRAIN:]
    image_shape = (data.images.shape[1], data.images.shape[2])
    start = initialize(
        convolutional(
            image_shape,
            N_COMPONENTS,
            FEATURE_SHAPE,
            noise_probability=NOISE_PROBABILITY,
            fixed=("noise",),
        ),
        INITIALIZATION,
        noise="uniform",
        seed=seed,
    )
    method = MaxProduct(temperature=1.0)
    began = time.perf_counter()
    result = train(
        start,
        data.images[:N_TRAIN],
        method,
        steps=steps,
        batch_size=None,
        learning_rate=LEARNING_RATE,
        seed=seed,
        held_out=test_images,
        evaluate_every=max(1, steps // 20),
        engine=runner,
        progress=progress,
    )
    training_seconds = time.perf_counter() - began
    network = result.network
    posterior = explain(network, test_images, method.at_test_time(), engine=runner)
    reconstruction = reconstruct_images(network, posterior.states)
    return DemoResult(
        seed=seed,
        steps=steps,
        workers=runner.workers,
        data=data,
        network=network,
        history=result.history,
        match=match_features(threshold_features(network.theta_of("failure")), data.features),
        states=posterior.states.toarray().reshape(
            -1, N_COMPONENTS, *state_shape(image_shape, FEATURE_SHAPE)
        ),
        reconstruction=reconstruction,
        test_re_pct=reconstruction_error(reconstruction, test_images),
        test_elbo=float(posterior.log_joint.mean()),
        trivial=trivial_reference(test_images, NOISE_PROBABILITY),
        training_seconds=training_seconds,
    )
