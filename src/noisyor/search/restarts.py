"""What the searches for factors and for features share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray
from noisyor.data.observations import Observations

__all__ = ["Restarts", "draw_rows", "sample_rows"]


class Restarts:
    """Scores of the best result after each restart, and whether further restarts are worthwhile.

    >>> restarts = Restarts(patience=2)
    >>> [restarts.add(score) for score in (1.0, 3.0, 3.0, 3.0)]
    [True, True, True, False]
    """

    def __init__(self, patience: int) -> None:
        self.scores: list[float] = []
        self._patience, self._stale = patience, 0

    def add(self, score: float) -> bool:
        """Record the best score so far; False if ``patience`` restarts in a row were no better."""
        self.scores.append(score)
        improved = len(self.scores) == 1 or score > self.scores[-2] + 1e-6
        self._stale = 0 if improved else self._stale + 1
        return self._stale < self._patience


def sample_rows(
    observations: Observations, max_entries: int, seed: int
) -> tuple[npt.NDArray[np.int64], Observations]:
    """Numbers of the rows that are searched, and those rows: all, or a sample of large data.

    Rows with weights are drawn by these; what is drawn more than once has a weight in the sample.

    >>> import noisyor as nor
    >>> numbers, rows = sample_rows(nor.Observations.of(np.eye(8)), max_entries=16, seed=0)
    >>> len(numbers), rows.n_rows
    (2, 2)
    """
    rows = np.arange(observations.n_rows, dtype=np.int64)
    count = max(1, max_entries // observations.n_visible)
    if len(rows) <= count:
        return rows, observations
    generator = np.random.default_rng(seed)
    if observations.weights is None:
        rows = np.sort(generator.permutation(len(rows))[:count]).astype(np.int64)
        return rows, observations.take(rows)
    rows, times = np.unique(draw_rows(observations.weights, count, generator), return_counts=True)
    return rows, observations.take(rows).weighted(times)


def draw_rows(
    weights: FloatArray, count: int, generator: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Numbers of ``count`` rows, ascending, each as often as its share of the weights, or one more.

    Parameters
    ----------
    weights : (n_rows,), positive.
    count : of draws; if whole weights sum to it, a row is drawn exactly as often as it weighs.
    generator : of the draws.

    >>> draw_rows(np.array([1.0, 3.0]), 4, np.random.default_rng(0))
    array([0, 1, 1, 1])
    """
    order = generator.permutation(len(weights))
    ends = np.cumsum(weights[order])
    points = (generator.random() + np.arange(count)) * (ends[-1] / count)
    places = np.searchsorted(ends, points, side="right")
    return np.sort(order[np.minimum(places, len(order) - 1)])
