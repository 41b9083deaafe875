"""Networks that start from a mixture of Bernoullis: its classes become alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.validation import COUNT, check_seed
from noisyor.data.observations import Observations
from noisyor.errors import InvalidSettingError
from noisyor.model.builders import bipartite
from noisyor.model.graph import Network
from noisyor.search.mixtures.model import BernoulliMixture

__all__ = ["start_from_mixture"]

_NONE, _HARDLY_NONE = 1e-3, 1e-6
"""Prior of "none of the classes", with further sets and without: the mixture has no such class, a
network can learn one."""

_NOISE = 1e-3
"""Largest noise at the start; the classes already account for nearly all that is on."""

_OWN = 0.3
"""How likely a member of a further set switches on a column of the row that it is made of, if the
mixture does not account for it at all."""

_CANDIDATES = 4000
"""Rows that members of further sets are made of, at most."""

_NEVER = 1e-4
"""Smallest probability that an edge works: from nothing, no edge could grow."""


def start_from_mixture(
    mixture: BernoulliMixture, X: Any = None, further_sets: Sequence[int] = (), *, seed: int = 0
) -> Network:
    """A bipartite network whose first set of alternatives are the classes of a mixture.

    With nothing else it has the probabilities of the mixture, but for a trace. Each further set has
    the given number of alternatives and is off half of the time. They are made of what the mixture
    leaves open in some rows, which are drawn one after another and far from each other, as
    k-means++ draws its centres. The rest is left to learning (`learn_by_gibbs` with
    ``smooth_to="frequency"``).

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
    prior = [mixture.share * (1.0 - (_NONE if further_sets else _HARDLY_NONE))]
    if further_sets:
        if X is None:
            raise InvalidSettingError("further_sets are made of rows of X, but X is None")
        generator = np.random.default_rng([check_seed(seed), 1])
        open_, weight = _left_open(mixture, Observations.of(X, n_visible=n_visible), generator)
        for size in further_sets:
            chosen = _far_apart(open_, weight, size, generator)
            works.append(np.maximum(_OWN * open_[chosen], _NEVER))
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


def _left_open(
    mixture: BernoulliMixture, rows: Observations, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """How little a mixture accounts for every one of some rows (n, n_visible), and their weights.

    An entry that is on has one less the probability that the classes of its row give it.
    """
    weight = rows.row_weights
    if rows.n_rows > _CANDIDATES:
        share = weight / rows.total_weight
        rows = rows.take(np.sort(generator.choice(rows.n_rows, _CANDIDATES, p=share)))
        weight = np.ones(_CANDIDATES)
    ones = np.nan_to_num(rows.to_dense()).astype(np.float64)
    return ones * (1.0 - mixture.classes(rows) @ mixture.probability), weight


def _far_apart(
    points: FloatArray, weight: FloatArray, size: int, generator: np.random.Generator
) -> list[int]:
    """Numbers of points (n, n_visible), each drawn by its squared distance to those before."""
    chosen: list[int] = []
    distance = (points**2).sum(axis=1)
    for _ in range(size):
        share = weight * (distance + _NEVER)
        chosen.append(int(generator.choice(len(points), p=share / share.sum())))
        distance = np.minimum(distance, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    return chosen
