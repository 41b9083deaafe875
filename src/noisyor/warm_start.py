"""Starting parameters from the data, for each kind of network."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor.factor_search import FoundFactors
from noisyor.network import FloatArray, Network, theta_from_failure, theta_from_probability
from noisyor.observations import Observations

__all__ = ["failures_from_counts", "start_from_factors"]

_OFF_ROWS, _OFF_SHARE = 0.05, 0.1
"""Belief in an edge that a factor does not have: rows, and the share in which it would succeed."""

_UNUSED_PRIOR = 1e-4
"""Prior probability of a cause that nothing was found for."""

_PRIOR_ROWS = 2.0
"""Weight of the overall failure rate beside an edge's own count."""


def start_from_factors(network: Network, X: Any, found: FoundFactors) -> Network:
    """A bipartite network whose causes are the factors found; fixed entries keep their value.

    Parameters
    ----------
    network : from `bipartite`, with at least as many hidden nodes as there are factors; the others
        are switched off.
    X : the data that was searched.
    found : result of `search_factors`.
    """
    rows = Observations.of(X, n_visible=network.n_visible).take(found.rows).to_dense()
    n_found, n_hidden = len(found.factors), network.n_hidden
    failure = np.full((n_hidden, network.n_visible), 1.0 - _OFF_SHARE)
    failure[:n_found] = failures_from_counts(found, rows)
    prior = np.full(n_hidden, _UNUSED_PRIOR)
    prior[:n_found] = (found.states.sum(0) + 1.0) / (len(rows) + 2.0)
    theta = np.array(network.theta)
    for name, value in (
        ("failure", theta_from_failure(failure)),
        ("prior", theta_from_probability(prior)),
        ("noise", theta_from_probability(np.full(network.n_visible, found.rates.spurious))),
    ):
        index = network.groups[name]
        if name != "failure" and len(index) == 1:
            value = value[: max(1, n_found)].mean(keepdims=True)
        theta[index] = value
    return network.with_theta(np.where(network.free, theta, network.theta))


def failures_from_counts(found: FoundFactors, rows: npt.NDArray[np.float32]) -> FloatArray:
    """Failure probability of each edge, (n_causes, n_visible).

    An edge of a factor: from the rows that it alone explains. Any other: from the rows of the cause
    in which the column is 0; if there is none, nothing speaks against the edge, and it is likely
    to fail but not certain to.

    Parameters
    ----------
    found : factors and memberships.
    rows : the searched rows, 0, 1 or NaN, (n_searched, n_visible).
    """
    states, factors = found.states.astype(np.float32), found.factors.astype(np.float32)
    alone = (states @ factors == 1) & ~np.isnan(rows)
    zeros = states.T @ (alone & (rows == 0)).astype(np.float32)
    total = states.T @ alone.astype(np.float32)
    share = (zeros + _PRIOR_ROWS * found.rates.missed) / (total + _PRIOR_ROWS)
    against = states.T @ (rows == 0).astype(np.float32)
    other = 1.0 - _OFF_ROWS * _OFF_SHARE / (_OFF_ROWS + against)
    failure = np.where(found.factors == 1, np.clip(share, 1e-5, 0.9), other)
    return np.asarray(failure, dtype=np.float64)
