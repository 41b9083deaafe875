"""tiny20: 16,242 news messages over 100 words, a network of three layers learned from them.

The graph is built from the training rows only. Full-batch updates at temperature 0 from a start
without noise: 1,000 of max-product, 1,500 or 5,000 of variational inference, 1,000 + 500 of both.
"""

from __future__ import annotations

from noisyor.data.observations import Observations
from reproduction import datasets
from reproduction.layered import LayeredProtocol, run_layered
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

__all__ = ["EXPERIMENT", "PROTOCOL"]

TRAIN_SHARE = 0.7
STEPS = {"mp": 1000, "vi": 1500, "local-vi": 1500, "hybrid": 1500}

PROTOCOL = LayeredProtocol(
    n_layers=3,
    batch_size=None,
    learning_rate=0.01,
    ancestors_only=False,
    mp_share=2 / 3,
    hybrid_local=False,
    keep_network=True,
    train_share=TRAIN_SHARE,
)


def _run(spec: RunSpec, context: Context) -> Outcome:
    data = datasets.load_tiny20()
    rows = Observations.of(data.observations)
    train_rows, test_rows = rows.split(TRAIN_SHARE, spec.seed)
    return run_layered(spec, context, train_rows, test_rows, PROTOCOL, tuple(data.words))


def _cases(choice: Choice) -> list[str]:
    return known_datasets("tiny20", choice, ("tiny20",)) or ["tiny20"]


EXPERIMENT = Experiment(
    name="tiny20",
    title="tiny20",
    methods=("mp-two-stage", "hybrid-two-stage", "vi", "local-vi", "mp", "hybrid"),
    main_metric="test_elbo",
    metrics={"test_elbo": True, "test_elbo_mp": True, "test_elbo_vi": True},
    takes=("datasets",),
    cases=_cases,
    inits=lambda method: ALL_INITS,
    steps=lambda method: STEPS[paper_method(method)],
    run=_run,
    expected_seeds=10,
)
