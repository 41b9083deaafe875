"""Boolean matrix factorisation: X = U V over {0, 1}, a quarter of the entries on.

The model has as many causes as the truth, one prior for all of them, and noise fixed at 0.01.
Training: 40,000 updates of 20 rows, temperature 1; test at temperature 0 on as many new rows of
the same V. Every seed has data of its own.
"""

from __future__ import annotations

import re
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
from noisyor.inference.joint_max_product import JointMaxProduct, factorize
from noisyor.learning.initialize import Noise, initialize
from noisyor.metrics import factorization_error, reconstruction_error, trivial_reference
from noisyor.network.builders import bipartite

__all__ = ["EXPERIMENT"]

SIZES = tuple((n, n * tenths // 10) for n in (100, 200, 400) for tenths in (2, 4, 6))
"""The paper's (n, r)."""

NOISE_PROBABILITY = 0.01
STEPS = 40_000
BATCH_SIZE = 20
LEARNING_RATE = 1e-3
PMP_ITERATIONS = 1000
START_NOISE: Noise = "gaussian"
"""The paper's text. The authors' software has uniform noise, which leaves more wrong entries
(`benchmarks/factorization_schedules.py`)."""


def _run(spec: RunSpec, context: Context) -> Outcome:
    n, r = _size(spec.case)
    data = datasets.generate_bmf(n, r, spec.seed)
    if spec.method == "pmp":
        return _run_pmp(spec, context, data, r)
    train_rows, score_rows = split_for(
        spec, Observations.of(data.train), Observations.of(data.test)
    )
    start = initialize(
        bipartite(n, r, prior="shared", noise_probability=NOISE_PROBABILITY, fixed=("noise",)),
        spec.init,
        noise=START_NOISE,
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
    states = modes(learned.network, score_rows, spec, context)
    metrics = {f"test_{name}": value for name, value in bounds.items()}
    metrics["test_re_pct"] = factorization_error(learned.network, states, data.test)
    factor = learned.network.theta_of("failure") >= np.log(2.0)
    arrays = {"factor": pack(factor), "true": pack(data.V)}
    return outcome_of(learned, metrics | _trivial(data.test), arrays)


def _run_pmp(spec: RunSpec, context: Context, data: Any, r: int) -> Outcome:
    """Factorise the training rows, then infer the test rows given V.

    In the paper's protocol the test activations are one perturbed sample too; the error at their
    mode is recorded beside it.
    """
    settings = JointMaxProduct(iterations=spec.steps)
    n = len(data.train)
    found = factorize(data.train, r, settings, seed=spec.seed, engine=context.engine)
    test_rows = Observations.of(data.test, row_ids=n + np.arange(n))  # noise of their own
    errors = [
        reconstruction_error(
            factorize(
                test_rows,
                settings=at,
                features=found.features,
                seed=spec.seed,
                engine=context.engine,
            ).reconstruction,
            data.test,
        )
        for at in (settings, replace(settings, temperature=0.0))
    ]
    metrics = {"test_re_pct": errors[0], "test_re_pct_mode": errors[1]}
    return Outcome(
        metrics | _trivial(data.test),
        np.empty(0),
        settings=settings.settings(),
        arrays={"factor": pack(found.features), "true": pack(data.V)},
    )


def _trivial(test: npt.NDArray[np.uint8]) -> dict[str, float]:
    trivial = trivial_reference(test, NOISE_PROBABILITY)
    return {"trivial_re_pct": trivial.reconstruction_error, "trivial_elbo": trivial.elbo}


def _size(case: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+),(\d+)", case.replace(" ", ""))
    if match is None or not all(int(number) for number in match.groups()):
        raise InvalidSettingError(f"a size is n,r, two positive whole numbers, got {case!r}")
    return int(match[1]), int(match[2])


def _cases(choice: Choice) -> list[str]:
    if choice.datasets or choice.latents:
        raise InvalidSettingError("bmf takes --size n,r, not --dataset or --latents")
    sizes = [_size(size) for size in choice.sizes] or SIZES
    return [f"{n},{r}" for n, r in sizes]


def _inits(method: str) -> tuple[str, ...]:
    return ("prior",) if method == "pmp" else ALL_INITS


def _steps(method: str) -> int:
    return PMP_ITERATIONS if method == "pmp" else STEPS


EXPERIMENT = Experiment(
    name="bmf",
    title="Boolean matrix factorisation",
    methods=("mp-two-stage", "mp", "vi", "pmp"),
    main_metric="test_elbo",
    metrics={"test_elbo": True, "test_re_pct": False, "test_re_pct_mode": False},
    cases=_cases,
    inits=_inits,
    steps=_steps,
    run=_run,
    expected_seeds=10,
    settings={
        "noise_probability": NOISE_PROBABILITY,
        "batch_size": BATCH_SIZE,
        "learning_rate": LEARNING_RATE,
        "temperature": 1.0,
        "initialization_noise": START_NOISE,
    },
)
