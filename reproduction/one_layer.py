"""One run on a network of one hidden layer: what bmf, overparam and deconvolution share.

The noise is fixed at 0.01. Training is at temperature 1, test at temperature 0. PMP, joint
max-product over features and states, has no training: it is the other method of these
experiments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray
from noisyor.data.observations import Observations
from noisyor.inference.evaluate import explain
from noisyor.inference.joint import Factorization, JointMaxProduct
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.mean_field import MeanField
from noisyor.learning.initialize import Noise, initialize
from noisyor.metrics import reconstruction_error, trivial_reference
from noisyor.model.network import Network
from reproduction.protocol import Context, Outcome, RunSpec
from reproduction.training import elbos, given, learn, outcome_of, phases_of, split_for

__all__ = [
    "NOISES",
    "NOISE_PROBABILITY",
    "OneLayerProtocol",
    "Verdict",
    "modes",
    "run_joint",
    "run_one_layer",
    "trivial_metrics",
]

NOISE_PROBABILITY = 0.01
NOISES: tuple[Noise, ...] = ("gaussian", "wide-gaussian", "uniform")
"""Noise at the start: that of the paper's text, read in two ways, and of the authors' software."""

PMP_ITERATIONS = 1000


@dataclass(frozen=True)
class OneLayerProtocol:
    """Constants of an experiment.

    ``steps`` updates of ``batch_size`` rows, None for all; ``train_share`` of the rows, None where
    the test rows are generated.
    """

    steps: int
    batch_size: int | None
    learning_rate: float
    train_share: float | None = None

    def steps_of(self, method: str) -> int:
        """The paper's number of updates, or of iterations."""
        return PMP_ITERATIONS if method == "pmp" else self.steps

    def settings(self) -> dict[str, Any]:
        """The constants of training, for the record."""
        return {
            "noise_probability": NOISE_PROBABILITY,
            "train_share": self.train_share,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
        }


class Verdict(NamedTuple):
    """What an experiment says of a network: metrics besides the bounds, and arrays for figures."""

    metrics: dict[str, float]
    arrays: dict[str, Any]


def run_one_layer(
    spec: RunSpec,
    context: Context,
    network: Network,
    rows: tuple[Observations, Observations],
    protocol: OneLayerProtocol,
    judge: Callable[[Network], Verdict],
) -> Outcome:
    """Train from one of the paper's starts, take the bounds, and ask ``judge`` on the test part.

    ``rows`` are those to train on and those to test on. Bounds: both where mean field was trained,
    Elbo^MP alone where max-product was.
    """
    train_rows, score_rows = split_for(spec, *rows)
    learned = learn(
        initialize(network, spec.init, noise=spec.noise, seed=spec.seed),
        train_rows,
        phases_of(spec, temperature=1.0),
        spec=spec,
        context=context,
        batch_size=protocol.batch_size,
        learning_rate=protocol.learning_rate,
    )
    kinds = ("mp",) if spec.kind == "mp" else ("mp", "vi")
    bounds = elbos(learned.network, score_rows, context, kinds=kinds, last=learned.phases[-1])
    if spec.part == "validation":
        return outcome_of(learned, {"validation_elbo": bounds["elbo"]}, protocol.settings())
    verdict = judge(learned.network)
    metrics = {f"test_{name}": value for name, value in bounds.items()}
    return outcome_of(learned, metrics | verdict.metrics, protocol.settings(), verdict.arrays)


def run_joint(
    spec: RunSpec,
    context: Context,
    fit: Callable[..., Factorization],
    infer: Callable[..., Factorization],
    judge: Callable[[Factorization, BinaryArray], Verdict],
    test: BinaryArray,
    settings: dict[str, Any] | None = None,
) -> Outcome:
    """Learn features and states together, then infer the test rows given the features.

    In the paper's protocol the test states are one perturbed sample too; the error at their
    mode is recorded beside it. ``fit(settings=...)`` learns, ``infer(settings=..., features=...)``
    explains the test rows, ``judge`` is given what was learned and the reconstruction of ``test``;
    ``settings`` are further ones, for the record.
    """
    changes = given(tolerance=spec.tolerance, damping=spec.damping)
    method = JointMaxProduct(iterations=spec.steps, **changes)
    common: dict[str, Any] = {"seed": spec.seed, "engine": context.engine}
    found = fit(settings=method, **common)
    noisy, mode = (
        infer(settings=at, features=found.features, **common).reconstruction
        for at in (method, replace(method, temperature=0.0))
    )
    verdict = judge(found, noisy)
    wrong = {"test_re_pct_mode": reconstruction_error(mode, test)}
    return Outcome(
        verdict.metrics | wrong,
        np.empty(0),
        settings={"pmp": {**method.settings(), **(settings or {})}},
        arrays=verdict.arrays,
    )


def modes(network: Network, X: Observations, spec: RunSpec, context: Context) -> Any:
    """States (n_rows, n_hidden), sparse, at the mode that the method of a run finds."""
    method = MaxProduct(schedule=spec.schedule) if spec.kind == "mp" else MeanField()
    return explain(network, X, method, engine=context.engine).states


def trivial_metrics(test: npt.ArrayLike) -> dict[str, float]:
    """Error and bound of a model that explains nothing: every 1 is noise."""
    trivial = trivial_reference(test, NOISE_PROBABILITY)
    return {"trivial_re_pct": trivial.reconstruction_error, "trivial_elbo": trivial.elbo}
