"""Where recipes start: parameters that took a search, or Gibbs sampling, to find."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np

from noisyor._util.arrays import AnyArray
from noisyor._util.progress import Job, Progress
from noisyor._util.validation import COUNT_OR_AUTO, COUNT_OR_ZERO
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.inference.mean_field import MeanField
from noisyor.learning.gibbs_em import learn_by_gibbs
from noisyor.learning.initialize import initialize
from noisyor.learning.options import TrainOptions
from noisyor.learning.pruning import prune_hidden
from noisyor.learning.train import train
from noisyor.model.builders import bipartite
from noisyor.model.network import Network
from noisyor.search.factor_start import EXACT, is_determined_by_counts, start_from_factors
from noisyor.search.factors import search_factors
from noisyor.search.restarts import Keeper, numbers_in, sample_rows

__all__ = ["start_by_sampling", "start_by_search"]

_SWEEPS = 40
"""Rounds of Gibbs sampling after a search or a first training."""

_MAX_ENTRIES = 2**23
"""Above this many entries, Gibbs sampling uses a random subset of rows."""

_SHARE_OF_SEARCH = 0.6
"""Of the time, if it is limited: the parameters of what is found have to be learned, too."""

_ROWS_TO_COMPARE = 1000
"""With fewer rows, hidden nodes are better judged by description length than by bound."""


def start_by_search(
    X: Any,
    n_components: int | Literal["auto"],
    *,
    noise: Literal["shared", "per_visible"] = "per_visible",
    n_restarts: int = 12,
    n_extra: int = 16,
    objective: Literal["description", "errors"] = "description",
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: Progress = None,
    keeper: Keeper | None = None,
) -> tuple[Network, bool]:
    """A bipartite network from the factors that a search finds in the data.

    Where counts do not determine the parameters, Gibbs sampling follows; with a thousand rows or
    more, hidden nodes that are not supported by the data are dropped.

    Parameters
    ----------
    X : binary data (n_rows, n_visible).
    n_components, noise, n_restarts, n_extra : see `learn_factors`.
    objective, seed, engine, progress, keeper : see `search_factors`. Factors with fewest errors are
        taken as they are: nothing is added to them or dropped.

    Returns
    -------
    The network, and whether nothing is left to train.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], 200, axis=0)
    >>> network, settled = nor.learning.start_by_search(X, 2, n_restarts=1, progress=False)
    >>> network.n_hidden, settled
    (2, True)
    """
    COUNT_OR_AUTO.check("n_components", n_components)
    COUNT_OR_ZERO.check("n_extra", n_extra)
    observations = Observations.of(X)
    enough = observations.total_weight >= _ROWS_TO_COMPARE
    limit, sought = observations.n_visible, n_components
    if not isinstance(n_components, str):
        more = n_extra if enough and objective == "description" else 0
        limit, sought = n_components, n_components + more
    job = Job.of(progress, ["search", "gibbs", "gibbs"])
    kept = None if keeper is None else keeper.load("start")
    if kept is not None:
        return _kept_start(bipartite(observations.n_visible, _n_hidden(kept), noise=noise), kept)
    with job.until(_SHARE_OF_SEARCH):
        found = search_factors(
            observations,
            sought,
            n_restarts=n_restarts,
            objective=objective,
            seed=seed,
            engine=engine,
            progress=job,
            keeper=keeper,
        )
    network = bipartite(observations.n_visible, max(1, len(found.factors)), noise=noise)
    network = start_from_factors(network, found)
    settled = max(found.rates) < EXACT if enough else is_determined_by_counts(found)
    settled = objective == "errors" or (settled and network.n_hidden <= limit)
    if not settled:
        _, rows = sample_rows(observations.unique_rows()[0], _MAX_ENTRIES, seed)
        sample = partial(learn_by_gibbs, sweeps=_SWEEPS, seed=seed, engine=engine, progress=job)
        network = sample(network, rows)
        if enough:
            network = prune_hidden(network, rows, limit, seed=seed, engine=engine)
            network = sample(network, rows)
    if keeper is not None and not job.is_over:
        numbers = {"n_hidden": network.n_hidden, "settled": float(settled)}
        arrays = {name: np.array([value], np.float64) for name, value in numbers.items()}
        keeper.save("start", {"theta": network.theta, **arrays})
    return network, settled


def start_by_sampling(
    network: Network,
    X: Any,
    method: MeanField,
    *,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: Progress = None,
) -> Network:
    """Starting parameters for mean-field: a first training by it, then Gibbs sampling.

    Mean-field alone stays with whichever hidden nodes it chose first. Sampling moves them apart,
    and training goes on from a better place.

    Parameters
    ----------
    network : any graph; its free parameters are not used.
    X : training data.
    method : of the first training.
    seed, engine, progress : see `train`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], [10, 10, 40], axis=0)
    >>> graph, method = nor.bipartite(n_visible=4, n_hidden=2), nor.MeanField(tolerance=1e-3)
    >>> start = nor.learning.start_by_sampling(graph, X, method, progress=False)
    >>> start.failure_probability.shape
    (2, 4)
    """
    options = TrainOptions(
        steps=400,
        batch_size=1024,
        learning_rate=0.01,
        final_learning_rate=2e-3,
        smoothing=1.0,
        seed=seed,
        progress=progress,
    )
    network = initialize(network, "paper-3", noise="uniform", seed=seed)
    network = train(network, X, method, options, engine=engine).network
    _, rows = sample_rows(Observations.of(X).unique_rows()[0], _MAX_ENTRIES, seed)
    return learn_by_gibbs(
        network, rows, sweeps=_SWEEPS, seed=seed, engine=engine, progress=progress
    )


def _n_hidden(kept: dict[str, AnyArray]) -> int:
    return int(numbers_in(kept, "n_hidden", 1)[0])


def _kept_start(graph: Network, kept: dict[str, AnyArray]) -> tuple[Network, bool]:
    """What `start_by_search` kept: the network, and whether nothing is left to train."""
    theta = np.array(numbers_in(kept, "theta", graph.n_params))
    return graph.with_theta(theta), bool(numbers_in(kept, "settled", 1)[0])
