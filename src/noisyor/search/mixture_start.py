"""Networks that start from a mixture of Bernoullis: its classes become alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from noisyor._util.validation import COUNT, check_seed
from noisyor.data.observations import Observations
from noisyor.errors import InvalidSettingError
from noisyor.network.builders import bipartite
from noisyor.network.graph import Network
from noisyor.search.mixture import BernoulliMixture

__all__ = ["start_from_mixture"]

_NONE = 1e-3
"""Prior of "none of the classes": the mixture has no such class, a network can learn one."""

_NOISE = 1e-3
"""Largest noise at the start; the classes already account for nearly all that is on."""

_OWN = 0.3
"""How likely at most a member of a further set switches on the columns of the row it is made of."""

_NEVER = 1e-4
"""Smallest probability that an edge works: from nothing, no edge could grow."""


def start_from_mixture(
    mixture: BernoulliMixture, X: Any = None, further_sets: Sequence[int] = (), *, seed: int = 0
) -> Network:
    """A bipartite network whose first set of alternatives are the classes of a mixture.

    With nothing else it has the probabilities of the mixture, but for a thousandth. Each further
    set has the given number of alternatives, made of random rows, and is off half of the time: what
    it is for is left to learning (`learn_by_gibbs` with ``smooth_to="frequency"``).

    Parameters
    ----------
    mixture : from `learn_mixture`.
    X : rows that further sets are made of; not needed without any.
    further_sets : numbers of alternatives; a set of 1 is an ordinary cause.
    seed : of the choice of rows.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> mixture = nor.search.learn_mixture(X, 2)
    >>> network = nor.search.start_from_mixture(mixture, X, [2, 1])
    >>> network.alternatives
    array([0, 0, 1, 1, 2], dtype=int32)
    """
    for size in further_sets:
        COUNT.check("further_sets", size)
    n_classes, n_visible = mixture.probability.shape
    leak = np.minimum(_NOISE, 0.5 * mixture.probability.min(axis=0))
    works = [np.maximum(1.0 - (1.0 - mixture.probability) / (1.0 - leak), _NEVER)]
    prior = [mixture.share * (1.0 - _NONE)]
    if further_sets:
        if X is None:
            raise InvalidSettingError("further_sets are made of rows of X, but X is None")
        rows = Observations.of(X, n_visible=n_visible)
        generator = np.random.default_rng([check_seed(seed), 1])
        weight = rows.row_weights / rows.total_weight
        for size in further_sets:
            chosen = np.sort(generator.choice(rows.n_rows, size, p=weight))
            own = np.nan_to_num(rows.take(chosen).to_dense()).astype(np.float64)
            works.append(np.maximum(_OWN * generator.random(own.shape) * own, _NEVER))
            prior.append(np.full(size, 0.5 / size))
    sizes = [n_classes, *further_sets]
    return bipartite(
        n_visible,
        sum(sizes),
        failure_probability=1.0 - np.concatenate(works),
        prior_probability=np.concatenate(prior),
        noise="per_visible",
        noise_probability=leak,
        alternatives=np.repeat(np.arange(len(sizes)), sizes),
    )
