"""What the searches for factors and for features share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from noisyor.data.observations import Observations

__all__ = ["best_of_starts", "sample_rows"]

Result = TypeVar("Result")


def best_of_starts(
    first: Result,
    improve: Callable[[Result, int], Result],
    score: Callable[[Result], float],
    starts: int,
    patience: int,
) -> tuple[Result, list[float]]:
    """Improve a result by one start after another, until some in a row have added nothing.

    Parameters
    ----------
    first : what start 0 found.
    improve : from the best result so far and the number of a start to one that is at least as good.
    score : of a result, larger is better.
    starts : number of starts at most, the first included.
    patience : starts in a row without improvement after which the search ends.

    Returns
    -------
    The best result, and its score after each start.
    """
    best, scores, stale = first, [score(first)], 0
    for number in range(1, starts):
        best = improve(best, number)
        scores.append(score(best))
        stale = 0 if scores[-1] > scores[-2] + 1e-6 else stale + 1
        if stale >= patience:
            break
    return best, scores


def sample_rows(
    observations: Observations, most_entries: int, seed: int
) -> tuple[npt.NDArray[np.int64], Observations]:
    """Numbers of the rows that are searched, and those rows: all, or a sample of large data."""
    rows = np.arange(observations.n_rows, dtype=np.int64)
    most = max(1, most_entries // observations.n_visible)
    if len(rows) <= most:
        return rows, observations
    rows = np.sort(np.random.default_rng(seed).permutation(len(rows))[:most]).astype(np.int64)
    return rows, observations.take(rows)
