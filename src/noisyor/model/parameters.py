"""Parameters and the probabilities they stand for.

An edge or leak with parameter ``theta`` leaves its node off with probability ``exp(-theta)``. For
an edge that is the failure probability of the parent; for a leak, one minus the probability that
the node is on by itself.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray
from noisyor.errors import InvalidNetworkError

__all__ = [
    "THETA_MAX",
    "THETA_MIN",
    "failure_from_theta",
    "probability_from_theta",
    "theta_from_failure",
    "theta_from_probability",
]

THETA_MIN = 1e-5
"""Smallest parameter: the paper's epsilon, below which log-likelihood gradients explode."""

THETA_MAX = 1e6
"""Largest parameter. exp(-theta) is 0 long before; sums of larger ones lose what others add."""

_SUREST = -np.log(np.finfo(np.float64).tiny)  # exp(-theta) is still a normal number


def theta_from_failure(probability: npt.ArrayLike) -> FloatArray:
    """Parameter of an edge whose parent fails to switch the child on with this probability.

    Examples
    --------
    >>> import noisyor as nor
    >>> float(nor.model.theta_from_failure(0.5).round(3))
    0.693
    """
    failure = _probability(probability, "failure probability")
    with np.errstate(divide="ignore"):
        return np.clip(-np.log(failure), THETA_MIN, _SUREST)


def failure_from_theta(theta: npt.ArrayLike) -> FloatArray:
    """Failure probability ``exp(-theta)`` of an edge.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.model.failure_from_theta([0.0, 0.693147]).round(3).tolist()
    [1.0, 0.5]
    """
    return np.exp(-np.asarray(theta, dtype=np.float64))


def theta_from_probability(probability: npt.ArrayLike) -> FloatArray:
    """Leak parameter of a node that is on with this probability when all its parents are off.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.model.theta_from_probability([0.0, 0.5]).round(5).tolist()
    [1e-05, 0.69315]
    """
    on = _probability(probability, "probability")
    with np.errstate(divide="ignore"):
        return np.clip(-np.log1p(-on), THETA_MIN, _SUREST)


def theta_from_odds(odds: npt.ArrayLike) -> FloatArray:
    """Leak parameter of a node whose odds of being on are these when all its parents are off."""
    return np.clip(np.log1p(np.asarray(odds, dtype=np.float64)), THETA_MIN, THETA_MAX)


def probability_from_theta(theta: npt.ArrayLike) -> FloatArray:
    """Probability ``1 - exp(-theta)``: that a leak, or an active parent, switches its node on.

    Examples
    --------
    >>> import noisyor as nor
    >>> float(nor.model.probability_from_theta(0.693147).round(3))
    0.5
    """
    return -np.expm1(-np.asarray(theta, dtype=np.float64))


def _probability(value: npt.ArrayLike, what: str) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    bad = ~((array >= 0) & (array <= 1))
    if bad.any():
        raise InvalidNetworkError(
            f"a {what} lies between 0 and 1, got {float(array[bad].flat[0])} "
            f"({int(bad.sum())} such values)"
        )
    return array
