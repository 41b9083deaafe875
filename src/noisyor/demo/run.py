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

from noisyor._util.validation import check_choice
from noisyor._version import __version__
from noisyor.datasets.synthetic import DeconvolutionData, generate_deconvolution
from noisyor.engines.contract import Engine, EngineLike
from noisyor.engines.registry import get_engine
from noisyor.inference.evaluate import explain
from noisyor.inference.max_product import MaxProduct
from noisyor.learning.initialize import initialize
from noisyor.learning.recipes.features import learn_features
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
from noisyor.model.builders import convolutional
from noisyor.model.layout import state_shape
from noisyor.model.network import Network

__all__ = ["ALGORITHMS", "DEFAULT_STEPS", "EXPERIMENT", "SHAPES", "DemoResult", "run_demo"]

EXPERIMENT = "demo"
"""Name of this experiment in the files that it writes."""

DEFAULT_STEPS = {"search": 20, "paper": 1000}
"""Updates after which the shapes are found, by algorithm: 3 s and 25 s on two cores."""

ALGORITHMS = tuple(DEFAULT_STEPS)
"""A search for the shapes that is then fine-tuned, or the paper's training from scratch."""

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
N_RESTARTS = 2


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What the demo did and how well.

    Attributes
    ----------
    algorithm, seed, steps : what was asked for.
    workers : threads that were used.
    data : all images and what they were made of; the first ``N_TRAIN`` were learned from.
    network : the learned network.
    history : record of the training.
    match : which learned feature stands for which true one.
    states : (n_test, n_features, rows, columns) uint8, inferred causes of the test images.
    reconstruction : (n_test, 14, 14) uint8, what these causes draw.
    test_re_pct : pixels of the test images that the reconstruction gets wrong, in percent.
    test_elbo : mean bound of the test images, in nats.
    trivial : the same two for explaining nothing.
    training_seconds : wall time of the learning, with compilation and held-out evaluation.
    """

    algorithm: str
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
        """Learned features, thresholded, (n_features, height, width)."""
        return threshold_features(self.network.theta_of("failure"))

    @property
    def spare_features(self) -> list[int]:
        """Learned features that match no true one."""
        return [f for f in range(self.states.shape[1]) if f not in self.match.learned]

    @property
    def update_median(self) -> float:
        """Median wall time of an update in seconds."""
        return float(np.median(self.history.seconds))

    def settings(self) -> dict[str, Any]:
        """Everything that determines the result, and the number of threads."""
        paper = {
            "noise_probability": NOISE_PROBABILITY,
            "initialization": INITIALIZATION,
            "initialization_noise": "uniform",
            "temperature": 1.0,
            "learning_rate": LEARNING_RATE,
        }
        return {
            "algorithm": self.algorithm,
            "n_images": N_IMAGES,
            "n_train": N_TRAIN,
            "n_test": N_IMAGES - N_TRAIN,
            "image_shape": list(self.data.images.shape[1:]),
            "n_components": N_COMPONENTS,
            "feature_shape": list(FEATURE_SHAPE),
            "method": "max-product",
            "steps": self.steps,
            "batch_size": N_TRAIN,
            "threads": self.workers,
            **(paper if self.algorithm == "paper" else {"n_restarts": N_RESTARTS}),
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
    algorithm: str = "search",
    steps: int | None = None,
    engine: EngineLike = "auto",
    progress: bool | None = None,
) -> DemoResult:
    """Generate images, learn from 80 of them, explain the 20 others.

    Parameters
    ----------
    seed : of the images, the starting parameters and the perturbations.
    algorithm : ``"search"`` looks for the shapes and fine-tunes them, see `learn_features`;
        ``"paper"`` trains by the paper's Algorithm 1 from a start that knows nothing.
    steps : number of updates, at least 1; None for as many as the algorithm needs.
    engine : as in `explain`.
    progress : show a progress bar; None shows it on a terminal only.
    """
    check_choice("algorithm", algorithm, ALGORITHMS)
    steps = DEFAULT_STEPS[algorithm] if steps is None else steps
    runner = get_engine(engine)
    data = generate_deconvolution(N_IMAGES, seed)
    learn = _by_search if algorithm == "search" else _by_the_paper
    began = time.perf_counter()
    network, history = learn(data.images, seed, steps, runner, progress)
    training_seconds = time.perf_counter() - began
    test_images = data.images[N_TRAIN:]
    border = algorithm == "search"
    image_shape = (data.images.shape[1], data.images.shape[2])
    posterior = explain(network, test_images, MaxProduct(), engine=runner)
    reconstruction = reconstruct_images(network, posterior.states)
    features = threshold_features(network.theta_of("failure"))
    return DemoResult(
        algorithm=algorithm,
        seed=seed,
        steps=steps,
        workers=runner.workers,
        data=data,
        network=network,
        history=history,
        match=match_features(features, data.features),
        states=posterior.states.toarray().reshape(
            -1, len(features), *state_shape(image_shape, FEATURE_SHAPE, border)
        ),
        reconstruction=reconstruction,
        test_re_pct=reconstruction_error(reconstruction, test_images),
        test_elbo=float(posterior.log_joint.mean()),
        trivial=trivial_reference(test_images, NOISE_PROBABILITY),
        training_seconds=training_seconds,
    )


Images = npt.NDArray[np.uint8]


def _by_search(
    images: Images, seed: int, steps: int, engine: Engine, progress: bool | None
) -> tuple[Network, History]:
    fitted = learn_features(
        images[:N_TRAIN],
        N_COMPONENTS,
        FEATURE_SHAPE,
        n_restarts=N_RESTARTS,
        seed=seed,
        steps=steps,
        held_out=images[N_TRAIN:],
        evaluate_every=max(1, steps // 20),
        engine=engine,
        progress=progress,
    )
    return fitted.network, fitted.history


def _by_the_paper(
    images: Images, seed: int, steps: int, engine: Engine, progress: bool | None
) -> tuple[Network, History]:
    empty = convolutional(
        (images.shape[1], images.shape[2]),
        N_COMPONENTS,
        FEATURE_SHAPE,
        noise_probability=NOISE_PROBABILITY,
        fixed=("noise",),
    )
    trained = train(
        initialize(empty, INITIALIZATION, noise="uniform", seed=seed),
        images[:N_TRAIN],
        MaxProduct(temperature=1.0),
        steps=steps,
        batch_size=None,
        learning_rate=LEARNING_RATE,
        seed=seed,
        held_out=images[N_TRAIN:],
        evaluate_every=max(1, steps // 20),
        engine=engine,
        progress=progress,
    )
    return trained.network, trained.history
