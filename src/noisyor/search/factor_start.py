"""Starting parameters from what a search found: factors of a matrix, features of images."""

from __future__ import annotations

import numpy as np
from scipy.special import betaln

from noisyor._util.arrays import FloatArray
from noisyor.errors import InvalidNetworkError
from noisyor.model.network import Network, theta_from_failure, theta_from_probability
from noisyor.search.cover import PRIOR_ROWS
from noisyor.search.factors import FoundFactors
from noisyor.search.features import FoundFeatures
from noisyor.search.placements import OFF_FAILURE

__all__ = [
    "EXACT",
    "edge_counts",
    "equivalent_sample_size",
    "failures_from_counts",
    "is_determined_by_counts",
    "start_from_factors",
    "start_from_features",
]

_OFF_ROWS, _OFF_SHARE = 0.05, 0.1
"""Prior of an edge that a factor does not have: pseudo-rows, and the share in which it works."""

_UNUSED_PRIOR = 1e-4
"""Prior probability of a hidden node that nothing was found for."""

EXACT = 2e-3
"""Error rates below which there is nothing to learn from errors."""

_ALIKE = 100.0
"""Equivalent sample size of the pooled rate from which edges are taken to fail equally often."""


def start_from_factors(network: Network, found: FoundFactors) -> Network:
    """A bipartite network whose hidden nodes are the factors found; fixed entries keep their value.

    Parameters
    ----------
    network : from `bipartite`, with at least as many hidden nodes as there are factors; the others
        are switched off.
    found : result of `search_factors`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], 10, axis=0)
    >>> found = nor.search.search_factors(X, 2, n_restarts=1)
    >>> graph = nor.bipartite(n_visible=4, n_hidden=2)
    >>> network = nor.search.start_from_factors(graph, found)
    >>> network.failure_probability.round() + 0.0
    array([[0., 0., 1., 1.],
           [1., 1., 0., 0.]])
    """
    if network.n_visible != found.factors.shape[1]:
        raise InvalidNetworkError(
            f"the factors have {found.factors.shape[1]} columns, but the network has "
            f"{network.n_visible} visible nodes"
        )
    failure = _filled(failures_from_counts(found), network.n_hidden, 1.0 - _OFF_SHARE, "factors")
    weight = np.ones(len(found.states)) if found.matrix.weight is None else found.matrix.weight
    prior = (weight @ found.states + 1.0) / (weight.sum() + 2.0)
    if len(prior) == 0 or len(network.groups["prior"]) > 1:  # one that all share is that of these
        prior = _filled(prior, network.n_hidden, _UNUSED_PRIOR, "factors")
    return _started(network, failure, prior, _noise_from_counts(found))


def start_from_features(network: Network, found: FoundFeatures) -> Network:
    """A convolutional network whose features are those found; fixed parameters keep their value.

    Parameters
    ----------
    network : from `convolutional`, with at least as many features as were found and the same
        placements; the others are switched off.
    found : result of `search_features`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> images = np.zeros((6, 3, 3))
    >>> images[:, 1, :2] = 1
    >>> found = nor.search.search_features(images, 1, (1, 2), border=False, n_restarts=1)
    >>> network = nor.convolutional((3, 3), 1, (1, 2))
    >>> nor.search.start_from_features(network, found).theta_of("failure").shape
    (1, 1, 2)
    """
    n_components = len(network.group("failure"))
    failure = _filled(found.failure, n_components, OFF_FAILURE, "features")
    prior = _filled(found.prior, n_components, _UNUSED_PRIOR, "features")
    noise = np.full(network.n_visible, found.rates.false_positive)
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


def is_determined_by_counts(found: FoundFactors) -> bool:
    """True if errors are rare, or if the edges' failure rates differ by no more than chance.

    Then training has nothing to add to counts.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], 200, axis=0)
    >>> found = nor.search.search_factors(X, 2, n_restarts=1)
    >>> nor.search.is_determined_by_counts(found)
    True
    """
    if max(found.rates) < EXACT:
        return True
    zeros, total = edge_counts(found)
    edges = found.factors == 1
    return equivalent_sample_size(zeros[edges], total[edges], found.rates.false_negative) >= _ALIKE


def failures_from_counts(found: FoundFactors) -> FloatArray:
    """Failure probability of each edge, (n_components, n_visible).

    An edge of a factor: from the rows that it alone explains, and from the rate of all edges, which
    weighs more the less they differ. Any other: from the rows of the factor in which the column is
    0; if there is none, nothing speaks against the edge, and it is likely to fail but not certain
    to.
    """
    zeros, total = edge_counts(found)
    edges, pooled = found.factors == 1, found.rates.false_negative
    weight = equivalent_sample_size(zeros[edges], total[edges], pooled)
    share = (zeros + weight * pooled) / (total + weight)
    off = found.matrix.observed & ~found.matrix.ones
    against = found.matrix.weighted(found.states).T @ off.astype(np.float32)
    other = 1.0 - _OFF_ROWS * _OFF_SHARE / (_OFF_ROWS + against)
    failure = np.where(edges, np.clip(share, 1e-5, 0.9), other)
    return np.asarray(failure, dtype=np.float64)


def _noise_from_counts(found: FoundFactors) -> FloatArray:
    """How often each column is 1 though nothing covers it, (n_visible,)."""
    uncovered = (found.states.astype(np.float32) @ found.factors.astype(np.float32)) == 0
    ones = found.matrix.n_in_columns(uncovered & found.matrix.ones)
    total = found.matrix.n_in_columns(uncovered & found.matrix.observed)
    pooled = found.rates.false_positive
    weight = equivalent_sample_size(ones, total, pooled)
    share = (ones + weight * pooled) / (total + weight)
    # a column that had no such 1 yet may have one tomorrow
    return np.asarray(np.maximum(share, np.minimum(pooled, 1.0 / (total + 2.0))))


def edge_counts(found: FoundFactors) -> tuple[FloatArray, FloatArray]:
    """Rows in which an edge alone decides, (n_components, n_visible): those with a 0, and all.

    >>> import noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], 10, axis=0)
    >>> zeros, total = edge_counts(nor.search.search_factors(X, 2, n_restarts=1))
    >>> total[0]  # the other factor covers the last columns, and is on in ten of the twenty rows
    array([20., 20., 10., 10.])
    """
    covered = found.states.astype(np.float32) @ found.factors.astype(np.float32)
    alone = (covered == 1) & found.matrix.observed
    states = found.matrix.weighted(found.states).T
    zeros = states @ (alone & ~found.matrix.ones).astype(np.float32)
    return zeros.astype(np.float64), (states @ alone.astype(np.float32)).astype(np.float64)


def equivalent_sample_size(counts: FloatArray, total: FloatArray, pooled: float) -> float:
    """Equivalent sample size of the pooled rate (empirical Bayes): large if the rates are alike.

    The weight, out of a few, under which the counts are most probable when the rates have a beta
    distribution with this mean.

    Parameters
    ----------
    counts, total : (n,) events and trials of each rate.
    pooled : mean rate.

    Examples
    --------
    >>> equivalent_sample_size(np.array([10.0, 10.0]), np.array([100.0, 100.0]), 0.1)
    1024.0
    >>> equivalent_sample_size(np.array([0.0, 20.0]), np.array([100.0, 100.0]), 0.1) < 10
    True
    """
    if not len(total):
        return PRIOR_ROWS
    weights = PRIOR_ROWS * 2.0 ** np.arange(10)
    a, b = weights[:, None] * pooled, weights[:, None] * (1.0 - pooled)
    likelihood = (betaln(counts + a, total - counts + b) - betaln(a, b)).sum(axis=1)
    return float(weights[np.argmax(likelihood)])
