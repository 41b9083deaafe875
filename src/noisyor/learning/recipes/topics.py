"""Topics of bags of words: so many of them, or a hierarchy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidSettingError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.mean_field import MeanField
from noisyor.inference.method import Method
from noisyor.learning.checkpoint import check_place
from noisyor.learning.gibbs_em import learn_by_gibbs
from noisyor.learning.initialize import initialize
from noisyor.learning.options import TrainChanges, TrainOptions, choose_options
from noisyor.learning.recipes.fit import DEFAULTS, FitResult, learn_network
from noisyor.learning.recipes.job import Work, working
from noisyor.learning.starts import start_by_sampling
from noisyor.model.builders import bipartite
from noisyor.model.layered import layered
from noisyor.model.network import Network
from noisyor.search.count_start import start_from_counts
from noisyor.search.restarts import numbers_in, sample_rows
from noisyor.search.topic_start import choose_topics, start_from_topics

__all__ = ["learn_topics"]

_FIRST_SWEEPS, _SWEEPS = 10, 30
"""Rounds of Gibbs sampling for more topics than are asked for, and for those that are kept."""

_MORE = 2
"""Times as many topics are learned at first as are asked for."""

_MAX_ENTRIES = 2**28
"""Documents times words; above this many, Gibbs sampling uses a random subset of documents."""


def learn_topics(
    X: Any,
    n_layers: int = 3,
    *,
    n_components: int | None = None,
    n_parents: int | None = None,
    shrink: int = 3,
    init: str = "data",
    method: Method | None = None,
    options: TrainOptions | None = None,
    held_out: Any = None,
    engine: EngineLike = "auto",
    **changes: Unpack[TrainChanges],
) -> FitResult:
    """Topics of binary bags of words: ``n_components`` of them, or a hierarchy from the data.

    Max-product, the default, is made for explanations by the most likely topics. The highest bounds
    on the probability of documents are reached by ``method=MeanField(tolerance=1e-4)`` over some
    hundred words, and by ``MeanField(local=True, tolerance=1e-4)`` over thousands.

    Parameters
    ----------
    X : binary data (n_documents, n_words).
    n_layers, shrink : see `layered`; not used where the number of topics is given.
    n_components : number of topics, in one layer with edges to all words. Twice as many start from
        a linear factorisation, see `start_from_topics`, and are learned by Gibbs sampling; the best
        of them, see `choose_topics`, are learned further. Training follows only if ``steps`` says
        so. `topic_words` lists what they are about.
    n_parents : see `layered`; by default 5, or 15 if full mean-field starts from the data.
    init : ``"data"``: max-product and local mean-field start from counts, see `start_from_counts`,
        and move the logarithms of the parameters; full mean-field starts from a first training and
        Gibbs sampling, see `start_by_sampling`. All are refined with large batches, a rate that
        falls to a tenth, and smoothing. Or the name of one of the paper's starts, see `initialize`,
        with small batches and a constant rate.
    method : how hidden states are inferred; default ``MaxProduct(ancestors_only=True)``.
    options, changes : how to train; the seed is also that of the start. Defaults depend on `init`.
    held_out, engine : see `train`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], 10, axis=0)
    >>> fitted = nor.learn_topics(X, 2, n_parents=1, shrink=2, steps=5, progress=False)
    >>> fitted.network.n_hidden, fitted.settings["step_on"]
    (2, 'log')
    """
    if n_components is not None:
        return _flat(X, n_components, init, method, options, held_out, engine, changes)
    sampled = init == "data" and isinstance(method, MeanField) and not method.local
    also = (
        "n_components",
        "n_parents",
        "shrink",
        "init",
        "method",
        "options",
        "held_out",
        "engine",
    )
    chosen = choose_options(options, changes, _topic_defaults(init, sampled), also)
    check_place(chosen.checkpoint)
    if options is None and init == "data" and "final_learning_rate" not in changes:
        chosen = replace(chosen, final_learning_rate=0.1 * chosen.learning_rate)
    observations = Observations.of(X)
    if n_parents is None:
        n_parents = 15 if sampled else 5
    with working(chosen, engine, ("train",), observations, {"recipe": "topics"}) as work:
        network = layered(observations, n_layers, n_parents=n_parents, shrink=shrink)
        if init != "data":
            network = initialize(network, init, seed=chosen.seed)
        elif sampled:
            assert isinstance(method, MeanField)
            network = start_by_sampling(
                network,
                observations,
                method,
                seed=chosen.seed,
                engine=work.engine,
                progress=work.job,
            )
        else:
            network = start_from_counts(network, observations)
        method = MaxProduct(ancestors_only=True) if method is None else method
        fitted = learn_network(
            network, observations, method, work.options, held_out=held_out, engine=work.engine
        )
    return replace(fitted, settings={"init": init, **fitted.settings})


def _flat(
    X: Any,
    n_components: int,
    init: str,
    method: Method | None,
    options: TrainOptions | None,
    held_out: Any,
    engine: EngineLike,
    changes: TrainChanges,
) -> FitResult:
    """So many topics in one layer."""
    if init != "data":
        raise InvalidSettingError(f'a number of topics needs init="data", got {init!r}')
    defaults = replace(DEFAULTS, steps=0, batch_size=1024, smoothing=1.0, step_on="log")
    chosen = choose_options(options, changes, defaults, ("n_components", "method", "held_out"))
    check_place(chosen.checkpoint)
    observations = Observations.of(X)
    course: dict[str, object] = {
        "recipe": "topics",
        "n_components": int(n_components),
        "sweeps": [_FIRST_SWEEPS, _SWEEPS],
    }
    with working(chosen, engine, ("gibbs", "gibbs", "train"), observations, course) as work:
        kept = None if work.keeper is None else work.keeper.load("start")
        if kept is not None:
            graph = bipartite(
                observations.n_visible, n_components, prior="per_component", noise="per_visible"
            )
            network = graph.with_theta(np.array(numbers_in(kept, "theta", graph.n_params)))
        else:
            network = _sampled(observations, n_components, work)
            if work.keeper is not None and not work.job.is_over:
                work.keeper.save("start", {"theta": network.theta})
        fitted = learn_network(
            network, observations, method, work.options, held_out=held_out, engine=work.engine
        )
    return replace(fitted, settings={"init": init, **fitted.settings})


def _sampled(observations: Observations, n_components: int, work: Work) -> Network:
    """Topics after Gibbs sampling: twice as many at first, then the best of them."""
    seed = work.options.seed
    _, rows = sample_rows(observations, _MAX_ENTRIES, seed)
    possible = min(observations.n_rows, observations.n_visible)
    more = max(n_components, min(_MORE * n_components, possible))
    network = start_from_topics(observations, more, seed=seed)

    def learned(start: Network, sweeps: int) -> Network:
        return learn_by_gibbs(
            start,
            rows,
            sweeps=sweeps,
            smoothing=1.0,
            seed=seed,
            engine=work.engine,
            progress=work.job,
        )

    network = choose_topics(learned(network, _FIRST_SWEEPS), rows, n_components)
    return learned(network, _SWEEPS)


def _topic_defaults(init: str, sampled: bool) -> TrainOptions:
    if init != "data":
        return replace(DEFAULTS, batch_size=128)
    # In a small batch the one occurrence of a rare word is a gradient of thousands, which Adam
    # remembers for a thousand steps: the word's noise would stay where it happens to be.
    large = replace(DEFAULTS, batch_size=1024, smoothing=1.0)
    if sampled:
        return replace(large, steps=400, learning_rate=0.005)
    # Of ten thousand words most are in less than a hundredth of the documents. Steps of one size
    # for all would lose the frequencies that the counts have found.
    return replace(large, steps=200, learning_rate=0.05, step_on="log")
