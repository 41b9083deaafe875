"""Experiments on documents, with networks whose layers are learned from the data: tiny20 and text.

*tiny20* has 16,242 news messages over 100 words and a network of three layers. Full-batch updates:
1,000 of max-product, 1,500 or 5,000 of variational inference, 1,000 + 500 of both. *text* has data
sets over 10,000 words and networks of five layers. Batches of 128 documents: 4,000 updates of local
variational inference or of max-product, or 3,600 of max-product and 400 of local variational
inference. Two further data sets stand in for data sets of the paper that are hard to get, under
names of their own.

The graph is built from the training rows only. The start has no noise, and the temperature is 0.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from noisyor.baselines import independent_columns
from noisyor.data.observations import Observations
from noisyor.inference.evaluate import Score
from noisyor.learning.initialize import initialize
from noisyor.model.layered import layered
from noisyor.model.network import Network
from reproduction import datasets
from reproduction.protocol import (
    ALL_INITS,
    MP_PHASE,
    Choice,
    Context,
    Experiment,
    Outcome,
    RunSpec,
    known_datasets,
    paper_method,
)
from reproduction.training import elbos, learn, outcome_of, phases_of, split_for

__all__ = ["LOADERS", "TEXT", "TEXT_PROTOCOL", "TINY20", "TINY20_PROTOCOL", "run_layered"]


@dataclass(frozen=True)
class LayeredProtocol:
    """Constants of an experiment.

    ``train_share`` of the rows, 1 where the test rows are given; ``mp_share`` of a hybrid's
    updates are max-product; ``hybrid_local`` whether the others are local; ``keep_network`` stores
    graph and parameters with the run, for small networks.
    """

    n_layers: int
    batch_size: int | None
    learning_rate: float
    ancestors_only: bool
    mp_share: float
    hybrid_local: bool
    keep_network: bool
    train_share: float = 1.0

    def settings(self) -> dict[str, Any]:
        """Return the constants, for the record."""
        return asdict(self) | {"train_share": None if self.train_share == 1.0 else self.train_share}


def run_layered(
    spec: RunSpec,
    context: Context,
    train_rows: Observations,
    test_rows: Observations,
    protocol: LayeredProtocol,
    names: tuple[str, ...] | None = None,
) -> Outcome:
    """Build the graph from the training rows, train, and evaluate the bounds of the other rows."""
    train_rows, score_rows = split_for(spec, train_rows, test_rows)
    start = initialize(layered(train_rows, protocol.n_layers, visible_names=names), spec.init)
    phases = phases_of(
        spec,
        temperature=0.0,
        ancestors_only=protocol.ancestors_only,
        mp_share=protocol.mp_share,
        hybrid_local=protocol.hybrid_local,
    )
    learned = learn(
        start,
        train_rows,
        phases,
        spec=spec,
        context=context,
        batch_size=protocol.batch_size,
        learning_rate=protocol.learning_rate,
    )
    local = spec.method == "local-vi" or protocol.hybrid_local

    def bounds_after(number: int) -> dict[str, float]:
        return elbos(
            learned.results[number].network,
            score_rows,
            context,
            kinds=("mp", "vi"),
            last=phases[number],
            local=local,
        )

    bounds = bounds_after(-1)
    halfway = bounds_after(0) if len(phases) > 1 else {}
    if spec.part == "validation":
        metrics = {"validation_elbo": bounds["elbo"]}
        if halfway:
            metrics[MP_PHASE + "validation_elbo"] = halfway["elbo"]
        return outcome_of(learned, metrics, protocol.settings())
    metrics = {f"test_{name}": value for name, value in bounds.items()}
    metrics |= {f"{MP_PHASE}test_{name}": value for name, value in halfway.items()}
    if halfway:
        metrics[MP_PHASE + "steps"] = float(phases[0].steps)
    metrics["trivial_elbo"] = Score(
        independent_columns(train_rows).log_probability(score_rows), weights=score_rows.weights
    ).mean
    metrics["n_edges"] = float(start.n_edges + start.n_nodes)  # with leaks, as the paper counts
    arrays = network_arrays(learned.network) if protocol.keep_network else None
    return outcome_of(learned, metrics, protocol.settings(), arrays)


def network_arrays(network: Network) -> dict[str, Any]:
    """Return graph and parameters as arrays, for the picture of the network."""
    return {
        "child_ptr": network.child_ptr,
        "parent": network.parent,
        "theta": network.theta[network.param],
        "leak": network.theta[network.leak_param],
        "levels": network.hidden_levels,
        "names": np.array(network.visible_names or (), dtype=np.str_),
    }


_OWN_METRICS = {"mp": "test_elbo_mp"}  # the authors' max-product code computes no other bound


# ---- tiny20

_TINY20_STEPS = {"mp": 1000, "vi": 1500, "local-vi": 1500, "hybrid": 1500}
TINY20_PROTOCOL = LayeredProtocol(
    n_layers=3,
    batch_size=None,
    learning_rate=0.01,
    ancestors_only=False,
    mp_share=2 / 3,
    hybrid_local=False,
    keep_network=True,
    train_share=0.7,
)


def _run_tiny20(spec: RunSpec, context: Context) -> Outcome:
    data = datasets.load_tiny20()
    rows = Observations.of(data.observations)
    train_rows, test_rows = rows.split(TINY20_PROTOCOL.train_share, spec.seed)
    return run_layered(spec, context, train_rows, test_rows, TINY20_PROTOCOL, tuple(data.words))


def _tiny20_cases(choice: Choice) -> list[str]:
    return known_datasets("tiny20", choice, ("tiny20",)) or ["tiny20"]


TINY20 = Experiment(
    name="tiny20",
    title="tiny20",
    methods=("mp-two-stage", "hybrid-two-stage", "vi", "local-vi", "mp", "hybrid"),
    main_metric="test_elbo",
    metrics={"test_elbo": True, "test_elbo_mp": True, "test_elbo_vi": True},
    takes=("datasets",),
    cases=_tiny20_cases,
    inits=lambda method: ALL_INITS,
    steps=lambda method: _TINY20_STEPS[paper_method(method)],
    run=_run_tiny20,
    expected_seeds=10,
    own_metrics=_OWN_METRICS,
)


# ---- text

LOADERS = {
    "IMDB": "load_imdb",
    "Agnews": "load_ag_news",
    "Abstract": "load_scientific_papers",
    "Patent": "load_big_patent",
    "Yelp": "load_yelp",
    "Agnews-77006": "load_ag_news_union",
    "Abstract-years": "load_arxiv_years",
}
"""Functions of `reproduction.datasets` by the names of the data sets."""

_SUBSTITUTES = {
    "Agnews-77006": "Agnews",
    "Abstract-years": "Abstract",
    "Agnews-partial": "Agnews",  # 20,392 training documents with titles: two runs of the record
    "Abstract-arxiv": "Abstract",  # 68,288 abstracts of recent years
}
_TEXT_STEPS = {"mp": 4000, "local-vi": 4000, "hybrid": 4000}
TEXT_PROTOCOL = LayeredProtocol(
    n_layers=5,
    batch_size=128,
    learning_rate=3e-4,
    ancestors_only=True,
    mp_share=0.9,
    hybrid_local=True,
    keep_network=False,
)


@lru_cache(maxsize=1)  # reading takes half a minute, and runs of one data set follow each other
def load_text(name: str) -> Any:
    """Load a data set by its name in `LOADERS`."""
    return getattr(datasets, LOADERS[name])()


def _run_text(spec: RunSpec, context: Context) -> Outcome:
    data = load_text(spec.case)
    train_rows, test_rows = Observations.of(data.train), Observations.of(data.test)
    return run_layered(spec, context, train_rows, test_rows, TEXT_PROTOCOL)


def _text_cases(choice: Choice) -> list[str]:
    paper = [name for name in LOADERS if name not in _SUBSTITUTES]
    return known_datasets("text", choice, LOADERS) or paper


TEXT = Experiment(
    name="text",
    title="Text data",
    methods=("mp-two-stage", "local-vi", "hybrid-two-stage", "mp", "hybrid"),
    main_metric="test_elbo",
    metrics={"test_elbo": True, "test_elbo_mp": True, "test_elbo_vi": True},
    takes=("datasets",),
    cases=_text_cases,
    inits=lambda method: ALL_INITS,
    steps=lambda method: _TEXT_STEPS[paper_method(method)],
    run=_run_text,
    expected_seeds=10,
    substitutes=_SUBSTITUTES,
    own_metrics=_OWN_METRICS,
)
