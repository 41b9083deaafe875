"""Experiments with one hidden layer: matrix factorization, overparametrization, deconvolution.

*bmf* factors X = U V over {0, 1}, a quarter of the entries on. The model has as many causes as the
truth and one prior for all of them. 40,000 updates of 20 rows; the test rows are as many new rows
of the same V. Every seed has data of its own.

*overparam* counts how many of eight true causes a model with 8 to 32 finds, in seven data sets of
10,000 rows. The model has a prior for each cause. 45,000 updates of 20 rows by max-product.

*deconvolution* finds four shapes in 80 images of 14 x 14 and explains 20 others. The model has five
features of 6 x 6, one more and one pixel wider than the truth, and a prior for each. 3,000
full-batch updates.

The noise is fixed at 0.01. Training is at temperature 1, test at temperature 0. The other method of
these experiments, joint max-product over features and states (*pmp*), has no training.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from noisyor._util.arrays import BinaryArray, FloatArray, LongArray
from noisyor._util.validation import check_count
from noisyor.data.observations import Observations
from noisyor.datasets import generate_bmf
from noisyor.errors import InvalidSettingError
from noisyor.inference.evaluate import explain
from noisyor.inference.joint import Factorization, JointMaxProduct, pmp_deconvolve, pmp_factorize
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.mean_field import MeanField
from noisyor.learning.initialize import Noise, initialize
from noisyor.metrics import (
    factorization_error,
    features_iou,
    reconstruct_images,
    reconstruction_error,
    threshold_features,
)
from noisyor.model.builders import bipartite, convolutional
from noisyor.model.network import Network, probability_from_theta
from reproduction import datasets
from reproduction.protocol import (
    ALL_INITS,
    Choice,
    Context,
    Experiment,
    Outcome,
    RunSpec,
    known_datasets,
    paper_method,
)
from reproduction.training import elbos, given, learn, outcome_of, phases_of, split_for

__all__ = [
    "BMF",
    "BMF_PROTOCOL",
    "DECONVOLUTION",
    "DECONVOLUTION_PROTOCOL",
    "NOISES",
    "NOISE_PROBABILITY",
    "OVERPARAM",
    "OVERPARAM_PROTOCOL",
    "Recovery",
    "Scores",
    "recovered_parameters",
    "run_one_layer",
]

NOISE_PROBABILITY = 0.01
NOISES: tuple[Noise, ...] = ("gaussian", "wide-gaussian", "uniform")
"""Noise at the start: that of the paper's text, read in two ways, and of the authors' software."""

_PMP_ITERATIONS = 1000


@dataclass(frozen=True)
class OneLayerProtocol:
    """Constants of an experiment.

    ``steps`` updates of ``batch_size`` rows, None for all; ``train_share`` of the rows, 1 where
    the test rows are generated.
    """

    steps: int
    batch_size: int | None
    learning_rate: float
    train_share: float = 1.0

    def steps_of(self, method: str) -> int:
        """Return the paper's number of updates, or of iterations."""
        return _PMP_ITERATIONS if paper_method(method) == "pmp" else self.steps

    def settings(self) -> dict[str, Any]:
        """Return the constants of training, for the record."""
        return {
            "noise_probability": NOISE_PROBABILITY,
            "train_share": None if self.train_share == 1.0 else self.train_share,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
        }


class Scores(NamedTuple):
    """Metrics of a learned model besides the bounds, and arrays for figures."""

    metrics: dict[str, float]
    arrays: dict[str, Any]


def run_one_layer(
    spec: RunSpec,
    context: Context,
    network: Network,
    rows: tuple[Observations, Observations],
    protocol: OneLayerProtocol,
    score: Callable[[Network], Scores],
) -> Outcome:
    """Train from one of the paper's starts and evaluate the bounds.

    ``rows`` are those to train on and those to test on. ``score`` computes the other metrics of a
    test run. Both bounds are evaluated after training by mean field, Elbo^MP alone after
    max-product.
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
    scores = score(learned.network)
    metrics = {f"test_{name}": value for name, value in bounds.items()}
    return outcome_of(learned, metrics | scores.metrics, protocol.settings(), scores.arrays)


def _run_joint(
    spec: RunSpec,
    context: Context,
    fit: Callable[..., Factorization],
    infer: Callable[..., Factorization],
    score: Callable[[Factorization, BinaryArray], Scores],
    test: BinaryArray,
    settings: dict[str, Any] | None = None,
) -> Outcome:
    """Learn features and states together, then infer the test rows given the features.

    In the paper's protocol the test states are one perturbed sample too; the error at their mode
    is recorded beside it. ``fit(settings=...)`` learns, ``infer(settings=..., features=...)``
    explains the test rows, ``score`` gets the factorization and the reconstruction of ``test``;
    ``settings`` are further ones, for the record.
    """
    changes = given(tolerance=spec.tolerance, damping=spec.damping)
    method = JointMaxProduct(iterations=spec.steps, schedule=spec.schedule, **changes)
    common: dict[str, Any] = {"seed": spec.seed, "engine": context.engine}
    found = fit(settings=method, **common)
    noisy, mode = (
        infer(settings=at, features=found.features, **common).reconstruction
        for at in (method, replace(method, temperature=0.0))
    )
    scores = score(found, noisy)
    wrong = {"test_re_pct_mode": reconstruction_error(mode, test)}
    return Outcome(
        scores.metrics | wrong,
        np.empty(0),
        settings={"pmp": {**method.settings(), **(settings or {})}},
        arrays=scores.arrays,
    )


def _modes(network: Network, X: Observations, spec: RunSpec, context: Context) -> Any:
    """Return sparse states (n_rows, n_hidden) at the mode that the method of a run finds."""
    method = MaxProduct(schedule=spec.schedule) if spec.kind == "mp" else MeanField()
    return explain(network, X, method, engine=context.engine).states


def trivial_metrics(test: npt.ArrayLike) -> dict[str, float]:
    """Return error in percent and bound of a model without causes: every 1 is noise."""
    given = np.asarray(test)
    ones = int(given.sum())
    elbo = ones * np.log(NOISE_PROBABILITY) + (given.size - ones) * np.log1p(-NOISE_PROBABILITY)
    return {
        "trivial_re_pct": 100.0 * ones / given.size,
        "trivial_elbo": float(elbo / len(given)),
    }


# ---- Boolean matrix factorization

_SIZES = tuple((n, n * tenths // 10) for n in (100, 200, 400) for tenths in (2, 4, 6))
BMF_PROTOCOL = OneLayerProtocol(steps=40_000, batch_size=20, learning_rate=1e-3)


def _run_bmf(spec: RunSpec, context: Context) -> Outcome:
    n, r = _size(spec.case)
    data = generate_bmf(n, r, spec.seed)
    test_rows = Observations.of(data.test)

    def scores(wrong: float, factor: BinaryArray) -> Scores:
        arrays = {"factor": factor, "true": data.V}
        return Scores({"test_re_pct": wrong} | trivial_metrics(data.test), arrays)

    if spec.kind == "pmp":
        own_noise = Observations.of(data.test, row_ids=n + np.arange(n))

        def score_factors(found: Factorization, reconstruction: BinaryArray) -> Scores:
            return scores(reconstruction_error(reconstruction, data.test), found.features)

        fit, infer = partial(pmp_factorize, data.train, r), partial(pmp_factorize, own_noise)
        return _run_joint(spec, context, fit, infer, score_factors, data.test)

    def score(network: Network) -> Scores:
        wrong = factorization_error(network, _modes(network, test_rows, spec, context), data.test)
        return scores(wrong, network.theta_of("failure") >= np.log(2.0))

    network = bipartite(n, r, prior="shared", noise_probability=NOISE_PROBABILITY, fixed="noise")
    rows = (Observations.of(data.train), test_rows)
    return run_one_layer(spec, context, network, rows, BMF_PROTOCOL, score)


def _size(case: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+),(\d+)", case.replace(" ", ""))
    if match is None or not all(int(number) for number in match.groups()):
        raise InvalidSettingError(f"a size is n,r, two positive whole numbers, got {case!r}")
    return int(match[1]), int(match[2])


def _bmf_cases(choice: Choice) -> list[str]:
    sizes = [_size(size) for size in choice.sizes] or _SIZES
    return [f"{n},{r}" for n, r in sizes]


BMF = Experiment(
    name="bmf",
    title="Boolean matrix factorization",
    methods=("mp-two-stage", "mp", "vi", "pmp-two-stage", "pmp"),
    main_metric="test_elbo",
    metrics={"test_elbo": True, "test_re_pct": False, "test_re_pct_mode": False},
    takes=("sizes",),
    cases=_bmf_cases,
    inits=lambda method: ("prior",) if paper_method(method) == "pmp" else ALL_INITS,
    steps=BMF_PROTOCOL.steps_of,
    run=_run_bmf,
    expected_seeds=10,
    noises=NOISES,
    own_metrics={"pmp": "test_re_pct"},
)


# ---- overparametrization

COMPONENTS = (8, 10, 16, 32)
"""The paper's numbers of causes in the model."""

OVERPARAM_PROTOCOL = OneLayerProtocol(
    steps=45_000, batch_size=20, learning_rate=1e-3, train_share=0.9
)


class Recovery(NamedTuple):
    """Pairs of true and learned causes.

    ``n_recovered`` true causes; ``learned`` (n_true,) index of the cause assigned, -1 if none
    is left; ``cost`` (n_true,) largest difference of a parameter of the pair, infinite if none.
    """

    n_recovered: int
    learned: LongArray
    cost: FloatArray


def recovered_parameters(
    theta: npt.ArrayLike, prior_probability: npt.ArrayLike, true_failure: npt.ArrayLike
) -> Recovery:
    """Count the true causes that learned parameters recover.

    Learned causes that are on with a probability above 0.02 are paired with the true ones so that
    the sum of the pairs' costs is smallest; the cost of a pair is its largest difference of a
    parameter. Pairs that cost at most 1 count. Since the sum is minimized, not the number of
    costly pairs, the count is not always the largest possible.

    Parameters
    ----------
    theta : (n_learned, n_visible) learned parameters of the edges.
    prior_probability : (n_learned,) probability of each learned cause.
    true_failure : (n_true, n_visible) failure probabilities, 1 where there is no edge.
    """
    learned, true = np.asarray(theta, np.float64), np.asarray(true_failure, np.float64)
    kept = np.flatnonzero(np.asarray(prior_probability, np.float64) > 0.02)
    result = Recovery(0, np.full(len(true), -1), np.full(len(true), np.inf))
    if not len(kept):
        return result
    cost = np.abs(learned[kept][None] + np.log(true)[:, None]).max(axis=2)
    chosen, partner = linear_sum_assignment(cost)
    result.learned[chosen] = kept[partner]
    result.cost[chosen] = cost[chosen, partner]
    return result._replace(n_recovered=int((result.cost <= 1.0).sum()))


def _run_overparam(spec: RunSpec, context: Context) -> Outcome:
    dataset, n_components = spec.case.split(",")
    data = datasets.load_ovpm(dataset)
    rows = Observations.of(data.observations)
    train_rows, test_rows = rows.split(OVERPARAM_PROTOCOL.train_share, spec.seed)

    def score(network: Network) -> Scores:
        theta = network.theta_of("failure")
        prior = probability_from_theta(network.theta_of("prior"))
        recovery = recovered_parameters(theta, prior, data.failure)
        nothing = recovered_parameters(np.zeros_like(theta), np.ones(len(theta)), data.failure)
        trivial = trivial_metrics(test_rows.to_dense().astype(np.uint8))
        metrics = {
            "recovered": float(recovery.n_recovered),
            "full_recovery_pct": 100.0 * (recovery.n_recovered == len(data.failure)),
            "trivial_elbo": trivial["trivial_elbo"],
            "trivial_recovered": float(nothing.n_recovered),
        }
        arrays = {
            "features": theta,
            "prior": prior,
            "assigned": np.where(recovery.cost <= 1.0, recovery.learned + 1, 0),
            "true_features": -np.log(data.failure),
            "image_shape": np.array(data.image_shape or (), dtype=np.int64),
        }
        return Scores(metrics, arrays)

    network = bipartite(
        rows.n_visible, int(n_components), noise_probability=NOISE_PROBABILITY, fixed="noise"
    )
    return run_one_layer(spec, context, network, (train_rows, test_rows), OVERPARAM_PROTOCOL, score)


def _overparam_cases(choice: Choice) -> list[str]:
    names = known_datasets("overparam", choice, datasets.OVPM_NAMES) or datasets.OVPM_NAMES
    numbers = [check_count("n_components", number) for number in choice.n_components] or COMPONENTS
    return [f"{name},{number}" for name in names for number in numbers]


OVERPARAM = Experiment(
    name="overparam",
    title="Overparametrization: causes recovered",
    methods=("mp-two-stage", "mp"),
    main_metric="recovered",
    metrics={"recovered": True, "full_recovery_pct": True, "test_elbo": True},
    takes=("datasets", "n_components"),
    cases=_overparam_cases,
    inits=lambda method: ("paper-3", "paper-4"),
    steps=OVERPARAM_PROTOCOL.steps_of,
    run=_run_overparam,
    expected_seeds=50,
    noises=NOISES,
)


# ---- blind deconvolution

N_FEATURES = 5
FEATURE_SHAPE = (6, 6)
DECONVOLUTION_PROTOCOL = OneLayerProtocol(
    steps=3000, batch_size=None, learning_rate=0.01, train_share=0.8
)
_ACTIVATION_PRIORS = {"prior-1e-75": 1e-75, "prior-0.01": 0.01}
"""Probability of an activation in PMP: the authors' software, and the original experiment, whose
priors the paper's text names."""

_KEPT_IMAGES = 20


def _run_deconvolution(spec: RunSpec, context: Context) -> Outcome:
    data = datasets.load_deconvolution()
    images = Observations.of(data.images)
    train_rows, test_rows = images.split(DECONVOLUTION_PROTOCOL.train_share, spec.seed)
    test = test_rows.to_dense().astype(np.uint8).reshape(-1, *test_rows.shape)

    def scores(
        features: BinaryArray, reconstruction: BinaryArray, learned: dict[str, Any]
    ) -> Scores:
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
        return Scores(metrics, learned | pictures)

    if spec.kind == "pmp":
        prior: dict[str, Any] = {"state_probability": _ACTIVATION_PRIORS[spec.init]}

        def score_features(found: Factorization, reconstruction: BinaryArray) -> Scores:
            return scores(found.features, reconstruction, {"features": found.features})

        fit = partial(pmp_deconvolve, train_rows, N_FEATURES, FEATURE_SHAPE, **prior)
        infer = partial(pmp_deconvolve, test_rows, **prior)
        return _run_joint(spec, context, fit, infer, score_features, test, prior)

    def score(network: Network) -> Scores:
        states = _modes(network, test_rows, spec, context)
        theta = network.theta_of("failure")
        learned = {
            "features": theta,
            "prior": probability_from_theta(network.theta_of("prior")),
        }
        return scores(threshold_features(theta), reconstruct_images(network, states), learned)

    network = convolutional(
        images.shape,  # type: ignore[arg-type]
        N_FEATURES,
        FEATURE_SHAPE,
        noise_probability=NOISE_PROBABILITY,
        fixed="noise",
    )
    rows = (train_rows, test_rows)
    return run_one_layer(spec, context, network, rows, DECONVOLUTION_PROTOCOL, score)


def _deconvolution_cases(choice: Choice) -> list[str]:
    return known_datasets("deconvolution", choice, ("BD",)) or ["BD"]


DECONVOLUTION = Experiment(
    name="deconvolution",
    title="2D blind deconvolution",
    methods=("mp-two-stage", "mp", "vi", "pmp-two-stage", "pmp"),
    main_metric="test_elbo",
    metrics={
        "test_re_pct": False,
        "test_re_pct_mode": False,
        "features_iou": True,
        "test_elbo": True,
    },
    takes=("datasets",),
    cases=_deconvolution_cases,
    inits=lambda method: tuple(_ACTIVATION_PRIORS) if paper_method(method) == "pmp" else ALL_INITS,
    steps=DECONVOLUTION_PROTOCOL.steps_of,
    run=_run_deconvolution,
    expected_seeds=10,
    noises=NOISES,
    own_metrics={"pmp": "test_re_pct"},
    other_inits=("prior-1e-75",),
)
