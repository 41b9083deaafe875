"""Causes that a bipartite network can do without.

If a cause is taken away, other causes may do what it did, or noise: as often, but without knowing
in which rows. What the bound loses by that is what the cause is worth. A cause pays for itself if
the rows lose more than it takes to write its edges down.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.objective import log_joint
from noisyor.network.builders import bipartite
from noisyor.network.graph import Network
from noisyor.search.restarts import sample_rows

__all__ = ["prune_causes", "worth_when_alone"]

_METHOD = MaxProduct(polish=5)
"""Messages alone cannot choose between two causes that are alike."""

_MOST_ENTRIES = 2**17
"""Entries of the rows by which causes are compared; beyond, a sample of rows is."""

_DOUBTFUL = 8
"""Causes looked at closely in each round, beside as many as have to go."""

_EDGE = 0.1
"""Parameter from which an edge has to be written down."""

_CLEAR = float(np.log(2.0))
"""Parameter of an edge that works more often than not."""


def worth_when_alone(network: Network, X: Any, *, engine: EngineLike = "auto") -> FloatArray:
    """How far the mean bound falls without each cause if nothing takes its place, (n_hidden,).

    Parameters
    ----------
    network : any network.
    X : observations in any form that `Observations.of` takes.
    """
    rows = Observations.of(X, n_visible=network.n_visible)
    posterior = _METHOD.posterior(network, rows, engine=engine)
    states = np.asarray(posterior.states.toarray(), dtype=np.uint8)
    worth = np.zeros(network.n_hidden)
    for cause in range(network.n_hidden):
        on = np.flatnonzero(states[:, cause])
        if len(on):
            without = states[on]
            without[:, cause] = 0
            lost = posterior.log_joint[on] - log_joint(network, without, rows.take(on), engine)
            worth[cause] = lost.sum() / rows.n_rows
    return worth


def prune_causes(
    network: Network, X: Any, most: int, *, seed: int = 0, engine: EngineLike = "auto"
) -> Network:
    """The network with at most ``most`` causes, all of which pay for themselves; one at least.

    Parameters
    ----------
    network : from `bipartite`, all parameters free.
    X : observations in any form that `Observations.of` takes.
    seed : of the sample of rows, where there are many.
    """
    observations = Observations.of(X, n_visible=network.n_visible)
    n_rows = observations.n_rows
    _, rows = sample_rows(observations, _MOST_ENTRIES, seed)
    while network.n_hidden > 1:
        excess = max(0, network.n_hidden - most)
        edges = (network.theta_of("failure") > _EDGE).sum(axis=1)
        price = 0.5 * np.log(n_rows) * (edges + 1)
        alone = n_rows * worth_when_alone(network, rows, engine=engine)
        order = np.argsort(alone - price, kind="stable")[: excess + _DOUBTFUL]
        whole = _bound(network, rows, engine)
        loss = np.full((2, network.n_hidden), np.inf)  # noise takes over, or other causes do
        for cause in order:
            for by_noise in (1, 0):
                without = _without(network, [cause], [cause] if by_noise else [])
                loss[by_noise, cause] = n_rows * (whole - _bound(without, rows, engine))
        dropped = _to_drop(network, loss.min(axis=0), price, excess)
        if not dropped:
            break
        network = _without(network, dropped, [k for k in dropped if loss[1, k] < loss[0, k]])
    return network


def _bound(network: Network, rows: Observations, engine: EngineLike) -> float:
    return rows.mean(_METHOD.bounds(network, rows, engine=engine).elbo)


def _to_drop(network: Network, loss: FloatArray, price: FloatArray, excess: int) -> list[int]:
    """Causes to drop in one round: all that do not pay; if all do and are too many, the least.

    Of causes with a column in common only one goes at a time, for the other may rely on it. One
    cause always stays.
    """
    clear = network.theta_of("failure") > _CLEAR
    order = np.argsort(loss - price, kind="stable")
    chosen: list[int] = []
    for cause in order[:-1]:
        if loss[cause] < price[cause] and not (clear[chosen] & clear[cause]).any():
            chosen.append(int(cause))
    return chosen if chosen or not excess else [int(order[0])]


def _without(network: Network, causes: list[int], by_noise: list[int]) -> Network:
    """The network without some causes; noise, where each column has its own, does what some did."""
    kept = np.setdiff1d(np.arange(network.n_hidden), causes)
    failure, prior = network.failure_probability, network.prior_probability
    noise = network.noise_probability
    shared = len(network.group("noise")) == 1 and network.n_visible > 1
    if not shared:
        for cause in by_noise:
            noise = 1.0 - (1.0 - noise) * (1.0 - prior[cause] * (1.0 - failure[cause]))
    one_prior = len(network.group("prior")) == 1 and network.n_hidden > 1
    return bipartite(
        network.n_visible,
        len(kept),
        prior="shared" if one_prior else "per_component",
        noise="shared" if shared else "per_visible",
        failure_probability=failure[kept],
        prior_probability=prior[0] if one_prior else prior[kept],
        noise_probability=noise[0] if shared else noise,
    )
