"""Boolean matrix factorisation: X = U V over {0, 1}, a quarter of the entries on.

The model has as many causes as the truth, one prior for all of them, and noise fixed at 0.01.
Training: 40,000 updates of 20 rows, temperature 1; test at temperature 0 on as many new rows of
the same V. Every seed has data of its own.
"""

from __future__ import annotations

import re
from functools import partial

import numpy as np

from noisyor import datasets
from noisyor._util.arrays import BinaryArray
from noisyor.data.observations import Observations
from noisyor.errors import InvalidSettingError
from noisyor.inference.joint import Factorization, factorize
from noisyor.metrics import factorization_error, reconstruction_error
from noisyor.model.builders import bipartite
from noisyor.model.network import Network
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
from reproduction.protocol import ALL_INITS, Choice, Context, Experiment, Outcome, RunSpec

__all__ = ["EXPERIMENT", "PROTOCOL"]

SIZES = tuple((n, n * tenths // 10) for n in (100, 200, 400) for tenths in (2, 4, 6))
"""The paper's (n, r)."""

PROTOCOL = OneLayerProtocol(
    steps=40_000,
    batch_size=20,
    learning_rate=1e-3,
)


def _run(spec: RunSpec, context: Context) -> Outcome:
    n, r = _size(spec.case)
    data = datasets.generate_bmf(n, r, spec.seed)
    test_rows = Observations.of(data.test)

    def verdict(wrong: float, factor: BinaryArray) -> Verdict:
        arrays = {"factor": factor, "true": data.V}
        return Verdict({"test_re_pct": wrong} | trivial_metrics(data.test), arrays)

    if spec.method == "pmp":
        own_noise = Observations.of(data.test, row_ids=n + np.arange(n))

        def judge_factors(found: Factorization, reconstruction: BinaryArray) -> Verdict:
            return verdict(reconstruction_error(reconstruction, data.test), found.features)

        fit, infer = partial(factorize, data.train, r), partial(factorize, own_noise)
        return run_joint(spec, context, fit, infer, judge_factors, data.test)

    def judge(network: Network) -> Verdict:
        wrong = factorization_error(network, modes(network, test_rows, spec, context), data.test)
        return verdict(wrong, network.theta_of("failure") >= np.log(2.0))

    network = bipartite(n, r, prior="shared", noise_probability=NOISE_PROBABILITY, fixed="noise")
    rows = (Observations.of(data.train), test_rows)
    return run_one_layer(spec, context, network, rows, PROTOCOL, judge)


def _size(case: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+),(\d+)", case.replace(" ", ""))
    if match is None or not all(int(number) for number in match.groups()):
        raise InvalidSettingError(f"a size is n,r, two positive whole numbers, got {case!r}")
    return int(match[1]), int(match[2])


def _cases(choice: Choice) -> list[str]:
    sizes = [_size(size) for size in choice.sizes] or SIZES
    return [f"{n},{r}" for n, r in sizes]


EXPERIMENT = Experiment(
    name="bmf",
    title="Boolean matrix factorisation",
    methods=("mp-two-stage", "mp", "vi", "pmp"),
    main_metric="test_elbo",
    metrics={"test_elbo": True, "test_re_pct": False, "test_re_pct_mode": False},
    takes=("sizes",),
    cases=_cases,
    inits=lambda method: ("prior",) if method == "pmp" else ALL_INITS,
    steps=PROTOCOL.steps_of,
    run=_run,
    expected_seeds=10,
    noises=NOISES,
)
