"""Text data: documents over 10,000 words, networks of five layers learned from them.

Batches of 128 documents, rate 3e-4, no noise at the start, temperature 0: 4,000 updates of local
variational inference, 3,600 of max-product, or 3,600 of max-product and 400 of local variational
inference. Two further data sets stand in for those of the paper that are hard to come by, under
names of their own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

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

__all__ = ["EXPERIMENT", "PROTOCOL", "SUBSTITUTES"]

LOADERS = {
    "IMDB": "load_imdb",
    "Agnews": "load_ag_news",
    "Abstract": "load_scientific_papers",
    "Patent": "load_big_patent",
    "Yelp": "load_yelp",
    "Agnews-partial": "load_ag_news_partial",
    "Abstract-arxiv": "load_arxiv_abstracts",
}
SUBSTITUTES = {"Agnews-partial": "Agnews", "Abstract-arxiv": "Abstract"}
"""Data sets that stand in for one of the paper's: its numbers are shown, but not judged."""

STEPS = {"mp": 3600, "local-vi": 4000, "hybrid": 4000}

PROTOCOL = LayeredProtocol(
    n_layers=5,
    batch_size=128,
    learning_rate=3e-4,
    ancestors_only=True,
    mp_share=0.9,
    hybrid_local=True,
    keep_network=False,
)


@lru_cache(maxsize=1)
def _load(name: str) -> Any:
    """Reading takes half a minute, and the runs of a data set follow each other."""
    return getattr(datasets, LOADERS[name])()


def _run(spec: RunSpec, context: Context) -> Outcome:
    data = _load(spec.case)
    train_rows, test_rows = Observations.of(data.train), Observations.of(data.test)
    return run_layered(spec, context, train_rows, test_rows, PROTOCOL)


def _cases(choice: Choice) -> list[str]:
    paper = [name for name in LOADERS if name not in SUBSTITUTES]
    return known_datasets("text", choice, LOADERS) or paper


EXPERIMENT = Experiment(
    name="text",
    title="Text data",
    methods=("mp-two-stage", "local-vi", "hybrid-two-stage", "mp", "hybrid"),
    main_metric="test_elbo",
    metrics={"test_elbo": True, "test_elbo_mp": True, "test_elbo_vi": True},
    takes=("datasets",),
    cases=_cases,
    inits=lambda method: ALL_INITS,
    steps=lambda method: STEPS[paper_method(method)],
    run=_run,
    expected_seeds=10,
    substitutes=SUBSTITUTES,
)
