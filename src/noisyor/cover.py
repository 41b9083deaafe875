"""Boolean covers: binary memberships and factors whose OR draws a binary matrix.

A cover is judged by a description length: the log-probability of the data, given that a covered
entry is 0 with one rate and an uncovered entry is 1 with another, plus that of the memberships and
the factors, each a coin of its own bias. So a factor has to pay for itself, and the right number of
factors is the one that the data pay for. `refine` climbs by single flips, `prune` drops factors,
`merge` makes one of two, `combine` makes one cover of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor.engines.numba.cover import improve_rows
from noisyor.engines.threads import run_blocks
from noisyor.network import FloatArray

__all__ = [
    "PRIOR_ROWS",
    "BinaryArray",
    "Cover",
    "Matrix",
    "Rates",
    "combine",
    "merge",
    "price_of",
    "prune",
    "rates_of",
    "refine",
    "weights_of",
]

BinaryArray = npt.NDArray[np.uint8]

_SMALLEST_RATE, _LARGEST_RATE = 1e-4, 0.4
_ROUNDS = 30

PRIOR_ROWS = 2.0
"""Weight of the overall failure rate beside an edge's own count, in rows."""

_SIMILAR = 0.5
"""Overlap of rows or columns from which two causes may be one."""


class Matrix(NamedTuple):
    """The data: ``ones`` and ``observed``, both bool (n_rows, n_columns)."""

    ones: npt.NDArray[np.bool_]
    observed: npt.NDArray[np.bool_]


class Rates(NamedTuple):
    """Probability that a covered entry is 0, and that an uncovered one is 1."""

    missed: float
    spurious: float


@dataclass(eq=False)
class Cover:
    """Memberships (n_rows, n_causes) and factors (n_causes, n_columns), uint8, and their counts.

    ``counts`` (n_rows, n_columns) says how many causes cover each entry.
    """

    states: BinaryArray
    factors: BinaryArray
    counts: npt.NDArray[np.int32]
    rates: Rates

    @classmethod
    def of(cls, matrix: Matrix, states: npt.ArrayLike, factors: npt.ArrayLike) -> Cover:
        """A cover with its counts and rates worked out."""
        states = np.ascontiguousarray(states, dtype=np.uint8)
        factors = np.ascontiguousarray(factors, dtype=np.uint8)
        counts = (states.astype(np.float32) @ factors.astype(np.float32)).astype(np.int32)
        return cls(states, factors, counts, rates_of(matrix, counts))

    @property
    def n_causes(self) -> int:
        """Number of factors."""
        return len(self.factors)

    def errors(self, matrix: Matrix) -> int:
        """Number of observed entries that the cover gets wrong."""
        return int((((self.counts > 0) != matrix.ones) & matrix.observed).sum())

    def score(self, matrix: Matrix) -> float:
        """Minus the description length of data, memberships and factors, in nats."""
        missed, spurious = self.rates
        covered = self.counts > 0
        value = 0.0
        for where, one, zero in (
            (covered, 1.0 - missed, missed),
            (~covered, spurious, 1.0 - spurious),
        ):
            seen = where & matrix.observed
            n_ones = int((seen & matrix.ones).sum())
            value += n_ones * np.log(one) + (int(seen.sum()) - n_ones) * np.log(zero)
        lengths = _length(self.states, axis=0).sum() + _length(self.factors, axis=1).sum()
        return float(value - lengths)

    def worth(self, matrix: Matrix) -> FloatArray:
        """What the score would lose without each factor, (n_causes,); negative ones do not pay."""
        alone = np.where(self.counts == 1, weights_of(matrix, self.rates), np.float32(0))
        gain = ((self.states.T.astype(np.float32) @ alone) * self.factors).sum(1, dtype=np.float64)
        return np.asarray(gain - _length(self.states, axis=0) - _length(self.factors, axis=1))

    def without(self, matrix: Matrix, causes: list[int]) -> Cover:
        """The cover without some of its causes."""
        return Cover.of(
            matrix, np.delete(self.states, causes, axis=1), np.delete(self.factors, causes, axis=0)
        )


def refine(
    matrix: Matrix,
    cover: Cover,
    *,
    rounds: int = _ROUNDS,
    factors: bool = True,
    n_threads: int = 1,
) -> Cover:
    """Flip memberships, then entries of factors, in turn, while the score rises.

    With ``factors`` False the factors and the rates are left as they are.
    """
    states, drawn, counts, rates = cover.states, cover.factors, cover.counts, cover.rates
    states, counts = states.copy(), counts.copy()
    for _ in range(rounds):
        weights = weights_of(matrix, rates)
        flips = _improve(weights, counts, states, drawn, n_threads)
        if factors:
            columns = np.ascontiguousarray(drawn.T)
            counts = np.ascontiguousarray(counts.T)
            flips += _improve(np.ascontiguousarray(weights.T), counts, columns, states.T, n_threads)
            drawn, counts = np.ascontiguousarray(columns.T), np.ascontiguousarray(counts.T)
            rates = rates_of(matrix, counts)
        if not flips or not factors:
            break
    return Cover(states, drawn, counts, rates)


def prune(matrix: Matrix, cover: Cover, most: int, *, n_threads: int = 1) -> Cover:
    """Drop the factors worth least until at most ``most`` are left and each pays for itself."""
    settled = False
    while cover.n_causes:
        worth = cover.worth(matrix)
        order = np.argsort(worth, kind="stable")
        excess = cover.n_causes - most
        if excess <= 0 and worth[order[0]] > 0:
            if settled:
                break
            cover, settled = refine(matrix, cover, n_threads=n_threads), True
            continue
        leave = _dissimilar(cover.factors, order, max(1, excess // 8))
        cover = refine(matrix, cover.without(matrix, leave), rounds=2, n_threads=n_threads)
        settled = False
    return cover


def combine(matrix: Matrix, first: Cover, second: Cover, most: int, *, n_threads: int = 1) -> Cover:
    """The best causes of two covers, at most ``most`` of them."""
    both = Cover.of(
        matrix,
        np.hstack([first.states, second.states]),
        np.vstack([first.factors, second.factors]),
    )
    return prune(matrix, both, most, n_threads=n_threads)


def merge(matrix: Matrix, cover: Cover, *, n_threads: int = 1) -> Cover:
    """Make one cause of two that share most of their rows or of their columns, where it pays."""
    while True:
        score, better = cover.score(matrix), None
        for first, second in _similar_pairs(cover):
            rest = [k for k in range(cover.n_causes) if k not in (first, second)]
            states = cover.states[:, first] | cover.states[:, second]
            factor = cover.factors[first] | cover.factors[second]
            merged = Cover.of(
                matrix,
                np.column_stack([cover.states[:, rest], states]),
                np.vstack([cover.factors[rest], factor]),
            )
            if merged.score(matrix) > score:
                better = merged
                break
        if better is None:
            return refine(matrix, cover, n_threads=n_threads)
        cover = better


def _similar_pairs(cover: Cover) -> list[tuple[int, int]]:
    """Pairs of causes whose rows or columns overlap by half or more, closest first."""
    closeness = np.zeros((cover.n_causes, cover.n_causes))
    for bits in (cover.states.T, cover.factors):
        plain = bits.astype(np.float32)
        shared, size = plain @ plain.T, plain.sum(1)
        either = size[:, None] + size[None, :] - shared
        closeness = np.maximum(closeness, shared / np.maximum(either, 1.0))
    first, second = np.nonzero(np.triu(closeness >= _SIMILAR, 1))
    order = np.argsort(-closeness[first, second], kind="stable")
    return list(zip(first[order].tolist(), second[order].tolist(), strict=True))


def _improve(
    weights: npt.NDArray[np.float32],
    counts: npt.NDArray[np.int32],
    states: BinaryArray,
    factors: BinaryArray,
    n_threads: int,
) -> int:
    """One pass of the kernel over all rows; ``counts`` and ``states`` change."""
    _, column = np.nonzero(factors)
    ptr = np.concatenate([[0], np.cumsum(factors.sum(1, dtype=np.int64))])
    price = price_of(states)
    column = column.astype(np.int32)
    flips: list[int] = []

    def work(begin: int, end: int) -> None:
        flips.append(improve_rows(weights, counts, states, ptr, column, price, begin, end))

    run_blocks(work, len(states), n_threads)
    return sum(flips)


def _dissimilar(factors: BinaryArray, order: npt.NDArray[np.intp], most: int) -> list[int]:
    """The first ``most`` of ``order`` that share less than half of their columns."""
    chosen: list[int] = []
    sizes = factors.sum(1, dtype=np.int64)
    for candidate in order:
        shared = (factors[chosen] & factors[candidate]).sum(1, dtype=np.int64)
        if (2 * shared < np.minimum(sizes[chosen], sizes[candidate]).clip(1)).all():
            chosen.append(int(candidate))
            if len(chosen) == most:
                break
    return chosen


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


def _length(bits: BinaryArray, axis: int) -> FloatArray:
    """Nats to write each line of bits along an axis with a coin of its own bias."""
    n = bits.shape[axis]
    on = bits.sum(axis, dtype=np.float64)
    share = (on + 1) / (n + 2)
    return np.asarray(-on * np.log(share) - (n - on) * np.log1p(-share))
