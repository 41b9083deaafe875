"""Starting parameters from what a search found: factors of a matrix, features of images."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaln

from noisyor._util.arrays import FloatArray
from noisyor.data.observations import Observations
from noisyor.errors import InvalidNetworkError
from noisyor.network.graph import Network
from noisyor.network.parameters import theta_from_failure, theta_from_probability
from noisyor.search.cover import PRIOR_ROWS
from noisyor.search.factors import FoundFactors
from noisyor.search.features import FoundFeatures
from noisyor.search.placements import OFF_FAILURE

__all__ = [
    "EXACT",
    "counts_say_all",
    "edge_counts",
    "failures_from_counts",
    "start_from_factors",
    "start_from_features",
]

_OFF_ROWS, _OFF_SHARE = 0.05, 0.1
"""Belief in an edge that a factor does not have: rows, and the share in which it would succeed."""

_UNUSED_PRIOR = 1e-4
"""Prior probability of a cause that nothing was found for."""


EXACT = 2e-3
"""Rates of errors below which there is nothing to learn from them."""

_ALIKE = 100.0
"""Rows that the overall rate counts for from which on edges are taken to be all alike."""


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
    failure = _filled(
        failures_from_counts(found, rows), network.n_hidden, 1.0 - _OFF_SHARE, "causes"
    )
    prior = (found.states.sum(0) + 1.0) / (len(rows) + 2.0)
    if len(prior) == 0 or len(network.groups["prior"]) > 1:  # one that all share is that of these
        prior = _filled(prior, network.n_hidden, _UNUSED_PRIOR, "causes")
    return _started(network, failure, prior, _noise_from_counts(found, rows))


def start_from_features(network: Network, found: FoundFeatures) -> Network:
    """A convolutional network whose features are those found; fixed parameters keep their value.

    Parameters
    ----------
    network : from `convolutional`, with at least as many features as were found and the same
        placements; the others are switched off.
    found : result of `search_features`.
    """
    n_features = len(network.group("failure"))
    failure = _filled(found.failure, n_features, OFF_FAILURE, "features")
    prior = _filled(found.prior, n_features, _UNUSED_PRIOR, "features")
    noise = np.full(network.n_visible, found.rates.spurious)
    return _started(network, failure, prior, noise)


def _started(
    network: Network, failure: FloatArray, prior: FloatArray, noise: FloatArray
) -> Network:
    """The network with these probabilities; what several share is the mean of their parameters."""
    theta = np.array(network.theta)
    for name, value in (
        ("failure", theta_from_failure(failure)),
        ("prior", theta_from_probability(prior)),
        ("noise", theta_from_probability(noise)),
    ):
        index = network.group(name)
        theta[index] = value if index.shape == value.shape else value.mean()
    return network.with_theta(np.where(network.free, theta, network.theta))


def _filled(found: FloatArray, size: int, rest: float, what: str) -> FloatArray:
    """The values found, followed by a constant for what the network has beyond them."""
    if len(found) > size:
        raise InvalidNetworkError(f"{len(found)} {what} were found, but the network has {size}")
    return np.concatenate([found, np.full((size - len(found), *found.shape[1:]), rest)])


def counts_say_all(found: FoundFactors, X: Any) -> bool:
    """Whether training has nothing to add to counts.

    So it is if there are next to no errors, or if the edges' rates of failure differ by no more
    than chance would have them.
    """
    if max(found.rates) < EXACT:
        return True
    zeros, total = edge_counts(found, Observations.of(X).take(found.rows).to_dense())
    edges = found.factors == 1
    return _rows_of_belief(zeros[edges], total[edges], found.rates.missed) >= _ALIKE


def failures_from_counts(found: FoundFactors, rows: npt.NDArray[np.float32]) -> FloatArray:
    """Failure probability of each edge, (n_causes, n_visible).

    An edge of a factor: from the rows that it alone explains, and from the rate of all edges, which
    weighs more the less they differ. Any other: from the rows of the cause in which the column is
    0; if there is none, nothing speaks against the edge, and it is likely to fail but not certain
    to.

    Parameters
    ----------
    found : factors and memberships.
    rows : the searched rows, 0, 1 or NaN, (n_searched, n_visible).
    """
    zeros, total = edge_counts(found, rows)
    edges, missed = found.factors == 1, found.rates.missed
    weight = _rows_of_belief(zeros[edges], total[edges], missed)
    share = (zeros + weight * missed) / (total + weight)
    against = found.states.T.astype(np.float32) @ (rows == 0).astype(np.float32)
    other = 1.0 - _OFF_ROWS * _OFF_SHARE / (_OFF_ROWS + against)
    failure = np.where(edges, np.clip(share, 1e-5, 0.9), other)
    return np.asarray(failure, dtype=np.float64)


def _noise_from_counts(found: FoundFactors, rows: npt.NDArray[np.float32]) -> FloatArray:
    """How often each column is 1 though nothing covers it, (n_visible,)."""
    uncovered = (found.states.astype(np.float32) @ found.factors.astype(np.float32)) == 0
    ones = (uncovered & (rows == 1)).sum(0, dtype=np.float64)
    total = (uncovered & ~np.isnan(rows)).sum(0, dtype=np.float64)
    weight = _rows_of_belief(ones, total, found.rates.spurious)
    share = (ones + weight * found.rates.spurious) / (total + weight)
    # a column that had no such 1 yet may have one tomorrow
    return np.asarray(np.maximum(share, np.minimum(found.rates.spurious, 1.0 / (total + 2.0))))


def edge_counts(
    found: FoundFactors, rows: npt.NDArray[np.float32]
) -> tuple[FloatArray, FloatArray]:
    """Rows in which an edge alone decides, (n_causes, n_visible): those with a 0, and all."""
    states, factors = found.states.astype(np.float32), found.factors.astype(np.float32)
    alone = (states @ factors == 1) & ~np.isnan(rows)
    zeros = states.T @ (alone & (rows == 0)).astype(np.float32)
    return zeros.astype(np.float64), (states.T @ alone.astype(np.float32)).astype(np.float64)


def _rows_of_belief(counts: FloatArray, total: FloatArray, mean: float) -> float:
    """How many rows the mean rate counts for: many if the rates differ by chance only.

    The weight under which the counts are most probable when the rates have a beta distribution of
    this mean.
    """
    if not len(total):
        return PRIOR_ROWS
    weights = PRIOR_ROWS * 2.0 ** np.arange(10)
    a, b = weights[:, None] * mean, weights[:, None] * (1.0 - mean)
    likelihood = (betaln(counts + a, total - counts + b) - betaln(a, b)).sum(axis=1)
    return float(weights[np.argmax(likelihood)])
