"""Sums and maxima over the edges of each child, all children at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import AnyArray, FloatArray
from noisyor._util.csr import pointers


def sums_at(places: AnyArray, values: AnyArray, size: int) -> FloatArray:
    """Sums, shape (size,), of the values that have the same place."""
    return np.asarray(np.bincount(places, values, size), dtype=np.float64)


class Segments:
    """Runs of consecutive entries, one after another: the edges into one child are one run.

    ``lengths`` (n_runs,) are all positive. Arrays are over entries or over runs.
    """

    def __init__(self, lengths: npt.ArrayLike) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self.start = pointers(self.lengths)[:-1]

    def sum(self, values: AnyArray) -> FloatArray:
        """Sum over each run, shape (n_runs,)."""
        return np.add.reduceat(np.asarray(values, dtype=np.float64), self.start)

    def max(self, values: FloatArray) -> FloatArray:
        """Largest of each run, shape (n_runs,)."""
        return np.maximum.reduceat(values, self.start)

    def spread(self, by_run: AnyArray) -> AnyArray:
        """The value of its run for every entry."""
        return np.repeat(by_run, self.lengths)

    def max_of_others(self, values: FloatArray) -> FloatArray:
        """For every entry the largest of its run without it; minus infinity if it is alone."""
        best = self.max(values)
        at_best = values == self.spread(best)
        second = self.max(np.where(at_best, -np.inf, values))
        second = np.where(self.sum(at_best) > 1, best, second)
        return np.where(at_best, self.spread(second), self.spread(best))
