"""What a Boolean cover is judged by: its description length, or the entries it gets wrong.

An objective says what a covered entry is worth and what a membership or an entry of a factor costs;
the moves of `cover` need no more than that.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, FloatArray

__all__ = [
    "OBJECTIVES",
    "BinaryArray",
    "Matrix",
    "Objective",
    "Rates",
    "price_of",
    "rates_of",
    "weights_of",
    "wrong_entries",
]


_SMALLEST_RATE, _LARGEST_RATE = 1e-4, 0.4

_TIE = 1e-8
"""Price of a bit in wrong entries: all bits of a cover together cost less than one."""


class Matrix(NamedTuple):
    """The data: ``ones`` and ``observed``, both bool (n_rows, n_columns)."""

    ones: npt.NDArray[np.bool_]
    observed: npt.NDArray[np.bool_]


class Rates(NamedTuple):
    """Probability that a covered entry is 0, and that an uncovered one is 1."""

    missed: float
    spurious: float


class Objective(Protocol):
    """What a cover is judged by: the data it draws, and the bits it needs for that."""

    def fit(self, matrix: Matrix, counts: npt.NDArray[np.int32], rates: Rates) -> float:
        """How well entries covered by ``counts`` causes draw the data; larger is better."""

    def weights(self, matrix: Matrix, rates: Rates) -> npt.NDArray[np.float32]:
        """Gain in ``fit`` from covering each entry, (n_rows, n_columns)."""

    def length(self, bits: BinaryArray, axis: int) -> FloatArray:
        """What each line of memberships or of a factor along an axis costs."""

    def price(self, bits: BinaryArray) -> FloatArray:
        """What a further bit costs, by column; never negative."""


class DescriptionLength:
    """Nats to write the data down; a factor has to pay for itself."""

    def fit(self, matrix: Matrix, counts: npt.NDArray[np.int32], rates: Rates) -> float:
        missed, spurious = rates
        covered = counts > 0
        value = 0.0
        for where, one, zero in (
            (covered, 1.0 - missed, missed),
            (~covered, spurious, 1.0 - spurious),
        ):
            seen = where & matrix.observed
            n_ones = int((seen & matrix.ones).sum())
            value += n_ones * np.log(one) + (int(seen.sum()) - n_ones) * np.log(zero)
        return float(value)

    def weights(self, matrix: Matrix, rates: Rates) -> npt.NDArray[np.float32]:
        return weights_of(matrix, rates)

    def length(self, bits: BinaryArray, axis: int) -> FloatArray:
        n = bits.shape[axis]
        on = bits.sum(axis, dtype=np.float64)
        share = (on + 1) / (n + 2)  # a coin of its own bias
        return np.asarray(-on * np.log(share) - (n - on) * np.log1p(-share))

    def price(self, bits: BinaryArray) -> FloatArray:
        return price_of(bits)


class WrongEntries:
    """Number of wrong entries; bits are free, but of two equal covers that with fewer is better."""

    def fit(self, matrix: Matrix, counts: npt.NDArray[np.int32], rates: Rates) -> float:
        return -float(wrong_entries(matrix, counts))

    def weights(self, matrix: Matrix, rates: Rates) -> npt.NDArray[np.float32]:
        sign = np.where(matrix.ones, np.float32(1), np.float32(-1))
        return np.where(matrix.observed, sign, np.float32(0))

    def length(self, bits: BinaryArray, axis: int) -> FloatArray:
        return np.asarray(_TIE * bits.sum(axis, dtype=np.float64))

    def price(self, bits: BinaryArray) -> FloatArray:
        return np.full(bits.shape[1], _TIE)


OBJECTIVES: dict[str, Objective] = {"description": DescriptionLength(), "errors": WrongEntries()}
"""What a cover can be judged by, by name."""


def wrong_entries(matrix: Matrix, counts: npt.NDArray[np.int32]) -> int:
    """Number of observed entries that are covered but 0, or 1 but not covered."""
    return int((((counts > 0) != matrix.ones) & matrix.observed).sum())


def rates_of(matrix: Matrix, counts: npt.NDArray[np.int32]) -> Rates:
    """Rates of errors when ``counts`` (n_rows, n_columns) causes cover each entry."""
    covered = (counts > 0) & matrix.observed
    uncovered = (counts == 0) & matrix.observed
    missed = (int((covered & ~matrix.ones).sum()) + 1) / (int(covered.sum()) + 2)
    spurious = (int((uncovered & matrix.ones).sum()) + 1) / (int(uncovered.sum()) + 2)
    low, high = _SMALLEST_RATE, _LARGEST_RATE
    return Rates(min(max(missed, low), high), min(max(spurious, low), high))


def weights_of(matrix: Matrix, rates: Rates) -> npt.NDArray[np.float32]:
    """Gain in log-probability from covering each entry."""
    one = np.float32(np.log((1.0 - rates.missed) / rates.spurious))
    zero = np.float32(np.log(rates.missed / (1.0 - rates.spurious)))
    return np.where(matrix.observed, np.where(matrix.ones, one, zero), np.float32(0))


def price_of(states: BinaryArray) -> FloatArray:
    """Log-odds against a membership, by cause; never negative."""
    share = (states.sum(0, dtype=np.float64) + 1) / (len(states) + 2)
    share = np.clip(share, _SMALLEST_RATE, 0.5)
    return np.asarray(np.log((1.0 - share) / share))
