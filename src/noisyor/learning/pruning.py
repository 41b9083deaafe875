"""Hidden nodes that a bipartite network can do without.

If a hidden node is taken away, others may do what it did, or noise: as often, but without knowing
in which rows. What the bound loses by that is the gain from keeping the node. It is supported by
the data if the rows lose more than it takes to write its edges down (minimum description length).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray
from noisyor._util.progress import TimeUpError
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.inference.max_product import MaxProduct, log_joint
from noisyor.model.builders import bipartite
from noisyor.model.network import Network
from noisyor.search.cover import sample_rows

__all__ = ["drop_hidden", "leave_one_out_gain", "prune_hidden"]

_METHOD = MaxProduct(icm=5)
"""Messages alone cannot choose between two hidden nodes that are alike."""

_MAX_ENTRIES = 2**17
"""Above this many entries, hidden nodes are compared on a random subset of the rows."""

_DOUBTFUL = 8
"""Number of hidden nodes looked at closely in each round, besides those in excess."""

_EDGE = 0.1
"""Parameter from which an edge has to be written down."""

_CLEAR = float(np.log(2.0))
"""Parameter of an edge that works more often than not."""


def leave_one_out_gain(network: Network, X: Any, *, engine: EngineLike = "auto") -> FloatArray:
    """Return how far the mean bound falls without each hidden node, (n_hidden,).

    Parameters
    ----------
    network : any network.
    X : observations in any form that `Observations.of` takes.
    engine : as in `explain`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(3, 2, failure_probability=[[0.1, 0.1, 1.0], [1.0, 1.0, 0.1]])
    >>> rows = np.array([[1, 1, 0], [1, 1, 0]])
    >>> nor.learning.leave_one_out_gain(network, rows).round(1)
    array([6.8, 0. ])
    """
    rows = Observations.of(X, n_visible=network.n_visible)
    posterior = _METHOD.posterior(network, rows, engine=engine)
    states = np.asarray(posterior.states.toarray(), dtype=np.uint8)
    gain = np.zeros(network.n_hidden)
    for node in range(network.n_hidden):
        on = np.flatnonzero(states[:, node])
        if len(on):
            without = states[on]
            without[:, node] = 0
            lost = posterior.log_joint[on] - log_joint(network, without, rows.take(on), engine)
            if rows.weights is not None:
                lost = lost * rows.weights[on]
            gain[node] = lost.sum() / rows.total_weight
    return gain


def prune_hidden(
    network: Network,
    X: Any,
    max_components: int,
    *,
    seed: int = 0,
    engine: EngineLike = "auto",
) -> Network:
    """Drop hidden nodes that the data do not support (MDL); at least one stays.

    Parameters
    ----------
    network : from `bipartite`, all parameters free.
    X : observations in any form that `Observations.of` takes.
    max_components : number of hidden nodes to keep at most.
    seed : of the sample of rows, where there are many.
    engine : as in `explain`.

    Examples
    --------
    >>> import noisyor as nor
    >>> failure = [[0.1, 0.1, 0.1, 1, 1, 1], [1, 1, 1, 0.1, 0.1, 0.1], [1, 1, 1, 0.1, 0.1, 0.1]]
    >>> network = nor.bipartite(6, 3, failure_probability=failure, noise_probability=0.01)
    >>> rows = nor.sample(network, 100, seed=0).visible
    >>> nor.learning.prune_hidden(network, rows, 3).n_hidden  # two of the three are alike
    2
    """
    observations = Observations.of(X, n_visible=network.n_visible)
    n_rows = observations.total_weight
    _, rows = sample_rows(observations, _MAX_ENTRIES, seed)
    try:
        return _pruned(network, rows, n_rows, max_components, engine)
    except TimeUpError:  # those that switch on least must go without a closer look
        weight = network.prior_probability * (1.0 - network.failure_probability).sum(axis=1)
        excess = max(0, network.n_hidden - max_components)
        return _without(network, np.argsort(weight, kind="stable")[:excess].tolist(), [])


def _pruned(
    network: Network, rows: Observations, n_rows: float, max_components: int, engine: EngineLike
) -> Network:
    while network.n_hidden > 1:
        excess = max(0, network.n_hidden - max_components)
        edges = (network.theta_of("failure") > _EDGE).sum(axis=1)
        length = 0.5 * np.log(n_rows) * (edges + 1)
        alone = n_rows * leave_one_out_gain(network, rows, engine=engine)
        order = np.argsort(alone - length, kind="stable")[: excess + _DOUBTFUL]
        whole = _bound(network, rows, engine)
        loss = np.full((2, network.n_hidden), np.inf)  # noise takes over, or other nodes do
        for node in order:
            for by_noise in (1, 0):
                without = _without(network, [node], [node] if by_noise else [])
                loss[by_noise, node] = n_rows * (whole - _bound(without, rows, engine))
        dropped = _to_drop(network, loss.min(axis=0), length, excess)
        if not dropped:
            break
        network = _without(network, dropped, [k for k in dropped if loss[1, k] < loss[0, k]])
    return network


def drop_hidden(network: Network, nodes: npt.ArrayLike) -> Network:
    """Return a bipartite network without some hidden nodes; noise does what they did."""
    dropped = np.asarray(nodes, dtype=np.int64).tolist()
    return _without(network, dropped, dropped)


def _bound(network: Network, rows: Observations, engine: EngineLike) -> float:
    return rows.mean(_METHOD.bounds(network, rows, engine=engine).elbo)


def _to_drop(network: Network, loss: FloatArray, length: FloatArray, excess: int) -> list[int]:
    """Return the nodes to drop in one round: those without support, or the least supported.

    Of nodes with a column in common only one goes at a time, for the other may rely on it. One
    node always stays.
    """
    clear = network.theta_of("failure") > _CLEAR
    order = np.argsort(loss - length, kind="stable")
    chosen: list[int] = []
    for node in order[:-1]:
        if loss[node] < length[node] and not (clear[chosen] & clear[node]).any():
            chosen.append(int(node))
    return chosen if chosen or not excess else [int(order[0])]


def _without(network: Network, nodes: list[int], by_noise: list[int]) -> Network:
    """Return the network without some nodes; per-column noise absorbs those in ``by_noise``."""
    kept = np.setdiff1d(np.arange(network.n_hidden), nodes)
    failure, prior = network.failure_probability, network.prior_probability
    noise = network.noise_probability
    shared = len(network.group("noise")) == 1 and network.n_visible > 1
    if not shared:
        for node in by_noise:
            noise = 1.0 - (1.0 - noise) * (1.0 - prior[node] * (1.0 - failure[node]))
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
