"""What the searches for factors and for features share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from noisyor.data.observations import Observations

__all__ = ["best_of_restarts", "sample_rows"]

Result = TypeVar("Result")


def best_of_restarts(
    results: Iterable[Result], score: Callable[[Result], float], patience: int
) -> tuple[Result, list[float]]:
    """Take results, each at least as good as the last, until some in a row are no better.

    Parameters
    ----------
    results : the best so far after each restart; at least one. No more are asked for than needed.
    score : of a result, larger is better.
    patience : restarts in a row without improvement after which the search ends.

    Returns
    -------
    The last result, and the score after each restart.

    >>> best_of_restarts(iter([1, 3, 3, 3, 9]), float, patience=2)
    (3, [1.0, 3.0, 3.0, 3.0])
    """
    scores: list[float] = []
    stale = 0
    for best in results:
        scores.append(score(best))
        improved = len(scores) == 1 or scores[-1] > scores[-2] + 1e-6
        stale = 0 if improved else stale + 1
        if stale >= patience:
            break
    return best, scores


def sample_rows(
    observations: Observations, max_entries: int, seed: int
) -> tuple[npt.NDArray[np.int64], Observations]:
    """Numbers of the rows that are searched, and those rows: all, or a sample of large data.

    >>> import noisyor as nor
    >>> numbers, rows = sample_rows(nor.Observations.of(np.eye(8)), max_entries=16, seed=0)
    >>> len(numbers), rows.n_rows
    (2, 2)
    """
    rows = np.arange(observations.n_rows, dtype=np.int64)
    count = max(1, max_entries // observations.n_visible)
    if len(rows) <= count:
        return rows, observations
    rows = np.sort(np.random.default_rng(seed).permutation(len(rows))[:count]).astype(np.int64)
    return rows, observations.take(rows)
