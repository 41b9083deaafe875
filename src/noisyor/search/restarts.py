"""What the searches for factors and for features share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import AnyArray, BinaryArray, FloatArray
from noisyor.data.observations import Observations
from noisyor.errors import CheckpointError

__all__ = ["Keeper", "Restarts", "draw_rows", "numbers_in", "packed", "sample_rows", "unpacked"]


class Keeper(Protocol):
    """Where a search keeps what it has found, so that a stop costs one restart at most."""

    def load(self, name: str) -> dict[str, AnyArray] | None:
        """Arrays that were kept under a name by a run with the same data and settings, or None."""
        ...

    def save(self, name: str, arrays: dict[str, AnyArray]) -> None:
        """Keep arrays under a name, in place of those before."""
        ...


def packed(name: str, bits: BinaryArray) -> dict[str, AnyArray]:
    """An array of 0 and 1, and its shape, as small arrays with this name; see `unpacked`."""
    return {name: np.packbits(bits, axis=None), f"{name}_shape": np.array(bits.shape, np.int64)}


def unpacked(
    kept: Mapping[str, AnyArray], name: str, expected: tuple[int | None, ...]
) -> BinaryArray:
    """What `packed` made; None stands for an axis of any length.

    >>> unpacked(packed("states", np.eye(3, dtype=np.uint8)), "states", (3, None))[1]
    array([0, 1, 0], dtype=uint8)
    """
    content, size = kept.get(name), kept.get(f"{name}_shape")
    if content is not None and content.dtype == np.uint8 and content.ndim == 1:
        shape = () if size is None or size.dtype != np.int64 else tuple(size.ravel().tolist())
        fits = len(shape) == len(expected) and all(
            wanted in (came, None) and came >= 0
            for came, wanted in zip(shape, expected, strict=True)
        )
        if fits and -(-math.prod(shape) // 8) == len(content):
            return np.unpackbits(content, count=math.prod(shape)).reshape(shape)
    raise CheckpointError(f"the state of the search is not one of these data: {name}")


def numbers_in(
    kept: Mapping[str, AnyArray], name: str, n: int | None = None, *, gaps: bool = False
) -> list[float]:
    """A list of ``n`` numbers that was kept, finite unless there may be ``gaps`` (NaN)."""
    values = kept.get(name)
    if (
        values is None
        or values.ndim != 1
        or values.dtype.kind not in "iuf"
        or n not in (len(values), None)
        or not (np.isfinite(values) | (gaps & np.isnan(values))).all()
    ):
        raise CheckpointError(f"the state of the search is not one of these data: {name}")
    return [float(value) for value in values]


class Restarts:
    """Scores of the best result after each restart, and whether further restarts are worthwhile.

    >>> restarts = Restarts(patience=2)
    >>> [restarts.add(score) for score in (1.0, 3.0, 3.0, 3.0)]
    [True, True, True, False]
    """

    def __init__(self, patience: int, scores: Sequence[float] = ()) -> None:
        """``scores`` are those of restarts that were made before."""
        self.scores: list[float] = []
        self._patience, self._stale = patience, 0
        for score in scores:
            self.add(score)

    def add(self, score: float) -> bool:
        """Record the best score so far; False if ``patience`` restarts in a row were no better."""
        self.scores.append(score)
        improved = len(self.scores) == 1 or score > self.scores[-2] + 1e-6
        self._stale = 0 if improved else self._stale + 1
        return self.worthwhile

    @property
    def worthwhile(self) -> bool:
        """Whether another restart may add something."""
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
    return rows, observations.take(rows).with_weights(times)


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
