"""Memberships of rows in given factors, with few wrong entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, SingleArray
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidDataError
from noisyor.search.cover import OBJECTIVES, Cover, Matrix
from noisyor.search.moves import refine

__all__ = ["cover_rows"]

_MAX_ENTRIES = 2**18
"""Entries of the rows that are looked at together."""


def cover_rows(X: Any, factors: npt.ArrayLike, *, engine: EngineLike = "auto") -> BinaryArray:
    """Memberships with which given factors draw rows with few wrong entries.

    The factor that lowers the errors of a row most is added until none does; then single
    memberships are switched while that helps. So no row has more errors than without any factor,
    and no single switch leaves it with fewer. Of equal memberships the fewer are taken. Unobserved
    entries do not count.

    Parameters
    ----------
    X : binary data (n_rows, n_columns) in any form that `Observations.of` takes; NaN is unobserved.
    factors : (n_components, n_columns) of 0 and 1, such as those of `search_factors`.
    engine : as in `explain`.

    Returns
    -------
    uint8 (n_rows, n_components).

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1]])
    >>> nor.search.cover_rows(X, factors=[[1, 1, 0], [0, 1, 1]])
    array([[1, 0],
           [1, 1],
           [0, 0]], dtype=uint8)
    """
    given = np.asarray(factors)
    if given.ndim != 2 or not np.isin(given, (0, 1)).all():
        raise InvalidDataError(
            f"factors are (n_components, n_columns) of 0 and 1, got shape {given.shape}"
            + ("" if given.ndim != 2 else " with other values")
        )
    plain = given.astype(np.uint8)
    observations, numbers = Observations.of(X, n_visible=plain.shape[1]).unique_rows()
    observations = observations.with_weights(None)  # what is best for a row does not depend on them
    objective = OBJECTIVES["errors"]
    states = np.zeros((observations.n_rows, len(plain)), dtype=np.uint8)
    block = max(1, _MAX_ENTRIES // max(1, plain.shape[1]))
    for begin in range(0, len(states), block):
        rows = slice(begin, begin + block)
        matrix = Matrix.of(observations.take(rows))
        cover = Cover.of(matrix, states[rows], plain, objective)
        weights = objective.weights(matrix, cover.rates)
        cover = cover.with_bits(matrix, _greedy_states(weights, plain), plain)
        while True:  # a pass of the kernel gives up on a row after some sweeps
            better = refine(matrix, cover, factors=False, engine=engine)
            if np.array_equal(better.states, cover.states):
                break
            cover = better
        states[rows] = cover.states
    return states[numbers]


def _greedy_states(weights: SingleArray, factors: BinaryArray) -> BinaryArray:
    """Memberships (n_rows, n_components): add the factor that gains most, while one gains."""
    plain = factors.astype(np.float32)
    states = np.zeros((len(weights), len(factors)), dtype=np.uint8)
    rows, left = np.arange(len(weights)), weights.copy()
    while len(rows) and len(factors):
        gain = left @ plain.T  # whole numbers: exact, in whatever order they are added
        best = gain.argmax(1)
        helps = gain[np.arange(len(rows)), best] > 0
        rows, left, best = rows[helps], left[helps], best[helps]
        states[rows, best] = 1
        left[factors[best] > 0] = 0  # what is covered gains nothing any more
    return states
