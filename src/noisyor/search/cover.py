"""Boolean covers: binary memberships and factors whose OR draws a binary matrix, and their scores.

A cover is judged by a description length: the log-probability of the data, given that a covered
entry is 0 with one rate and an uncovered entry is 1 with another, plus that of the memberships and
the factors, each a coin of its own bias. A factor is worth keeping if it shortens the description,
and the right number of factors is the one supported by the data (minimum description length, MDL).
Where the number is given, a cover can be judged by the number of wrong entries instead. How covers
are improved is in `noisyor.search.moves`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, FloatArray, IntArray, SingleArray
from noisyor.data.observations import Observations

__all__ = [
    "OBJECTIVES",
    "PRIOR_ROWS",
    "Cover",
    "ErrorRates",
    "Matrix",
    "Objective",
    "bit_cost",
    "coverage_gain",
    "error_rates",
    "wrong_entries",
]

_SMALLEST_RATE, _LARGEST_RATE = 1e-4, 0.4

_TIE = 1e-8
"""Cost of a bit in wrong entries: all bits of a cover together cost less than one."""

PRIOR_ROWS = 2.0
"""Weight of the overall failure rate beside an edge's own count, in rows."""


class Matrix(NamedTuple):
    """The data: ``ones`` and ``observed``, both bool (n_rows, n_columns), and weights of the rows.

    ``weight`` (n_rows,) says how many rows each one stands for; None if each stands for one.

    >>> import noisyor as nor
    >>> Matrix.of(nor.Observations.of(np.array([[1.0, np.nan]]))).observed
    array([[ True, False]])
    """

    ones: npt.NDArray[np.bool_]
    observed: npt.NDArray[np.bool_]
    weight: FloatArray | None = None

    @classmethod
    def of(cls, observations: Observations) -> Matrix:
        """Rows as a dense matrix."""
        dense = observations.to_dense()
        return cls(dense > 0, ~np.isnan(dense), observations.weights)  # NaN > 0 is False

    def n_entries(self, entries: npt.NDArray[np.bool_]) -> float:
        """How many entries (n_rows, n_columns) are True; whole unless rows have weights."""
        if self.weight is None:
            return int(entries.sum())
        return float(self.weight @ entries.sum(1))

    def n_in_columns(self, entries: npt.NDArray[np.bool_]) -> FloatArray:
        """The same by column, (n_columns,)."""
        if self.weight is None:
            return np.asarray(entries.sum(0, dtype=np.float64))
        return np.asarray(self.weight @ entries)

    def weighted(self, values: npt.NDArray[np.generic]) -> SingleArray:
        """Values (n_rows, ...) as float32, those of a row times its weight."""
        plain = values.astype(np.float32)
        return plain if self.weight is None else plain * self.weight[:, None].astype(np.float32)


class ErrorRates(NamedTuple):
    """Probability that a covered entry is 0, and that an uncovered one is 1."""

    false_negative: float
    false_positive: float


class Objective(Protocol):
    """What a cover is judged by: how well it draws the data, and the bits it needs for that."""

    def fit(self, matrix: Matrix, counts: IntArray, rates: ErrorRates) -> float:
        """How well entries covered by ``counts`` factors draw the data; larger is better."""

    def weights(self, matrix: Matrix, rates: ErrorRates) -> SingleArray:
        """Gain in ``fit`` from covering each entry, (n_rows, n_columns)."""

    def code_length(self, bits: BinaryArray, weight: FloatArray | None = None) -> FloatArray:
        """Cost of each column of memberships, or of factors turned; rows may have weights."""

    def bit_cost(self, bits: BinaryArray, weight: FloatArray | None = None) -> FloatArray:
        """Cost of a further bit in a row of weight 1, by column; never negative."""


class DescriptionLength:
    """Nats to write the data down; a factor has to save more than it costs."""

    def fit(self, matrix: Matrix, counts: IntArray, rates: ErrorRates) -> float:
        """Log-probability of the observed entries."""
        missed, spurious = rates
        covered = counts > 0
        value = 0.0
        for where, one, zero in (
            (covered, 1.0 - missed, missed),
            (~covered, spurious, 1.0 - spurious),
        ):
            seen = where & matrix.observed
            n_ones = matrix.n_entries(seen & matrix.ones)
            value += n_ones * np.log(one) + (matrix.n_entries(seen) - n_ones) * np.log(zero)
        return float(value)

    def weights(self, matrix: Matrix, rates: ErrorRates) -> SingleArray:
        """Gain in log-probability."""
        return coverage_gain(matrix, rates)

    def code_length(self, bits: BinaryArray, weight: FloatArray | None = None) -> FloatArray:
        """Nats of each column: a coin of its own bias."""
        on, n = _ones_and_rows(bits, weight)
        share = (on + 1) / (n + 2)
        return np.asarray(-on * np.log(share) - (n - on) * np.log1p(-share))

    def bit_cost(self, bits: BinaryArray, weight: FloatArray | None = None) -> FloatArray:
        """Log-odds against a one."""
        return bit_cost(bits, weight)


class WrongEntries:
    """Number of wrong entries; bits are free, but of two equal covers that with fewer is better."""

    def fit(self, matrix: Matrix, counts: IntArray, rates: ErrorRates) -> float:
        """Minus the number of wrong entries."""
        return -float(wrong_entries(matrix, counts))

    def weights(self, matrix: Matrix, rates: ErrorRates) -> SingleArray:
        """1 for a one, -1 for a zero."""
        sign = np.where(matrix.ones, np.float32(1), np.float32(-1))
        return np.where(matrix.observed, sign, np.float32(0))

    def code_length(self, bits: BinaryArray, weight: FloatArray | None = None) -> FloatArray:
        """Next to nothing."""
        return np.asarray(_TIE * _ones_and_rows(bits, weight)[0])

    def bit_cost(self, bits: BinaryArray, weight: FloatArray | None = None) -> FloatArray:
        """Next to nothing."""
        return np.full(bits.shape[1], _TIE)


OBJECTIVES: dict[str, Objective] = {"description": DescriptionLength(), "errors": WrongEntries()}
"""What a cover can be judged by, by name."""


def _ones_and_rows(bits: BinaryArray, weight: FloatArray | None) -> tuple[FloatArray, float]:
    """Number of ones in each column, and of rows, both counted by weight."""
    if weight is None:
        return bits.sum(0, dtype=np.float64), len(bits)
    return weight @ bits, float(weight.sum())


def wrong_entries(matrix: Matrix, counts: IntArray) -> float:
    """Number of observed entries that are covered but 0, or 1 but not covered.

    ``counts`` (n_rows, n_columns): how many factors cover each entry.

    >>> matrix = Matrix(np.array([[1, 1, 0]]) > 0, np.array([[1, 1, 1]]) > 0)
    >>> wrong_entries(matrix, np.array([[1, 0, 2]]))
    2
    """
    return matrix.n_entries(((counts > 0) != matrix.ones) & matrix.observed)


def error_rates(matrix: Matrix, counts: IntArray) -> ErrorRates:
    """Rates of errors when ``counts`` (n_rows, n_columns) factors cover each entry.

    A pseudo-entry of each kind is added, so that no rate is 0.

    >>> matrix = Matrix(np.array([[1] * 8 + [0] * 8]) > 0, np.ones((1, 16)) > 0)
    >>> error_rates(matrix, np.array([[1] * 8 + [0] * 8]))
    ErrorRates(false_negative=0.1, false_positive=0.1)
    """
    covered = (counts > 0) & matrix.observed
    uncovered = (counts == 0) & matrix.observed
    missed = (matrix.n_entries(covered & ~matrix.ones) + 1) / (matrix.n_entries(covered) + 2)
    spurious = (matrix.n_entries(uncovered & matrix.ones) + 1) / (matrix.n_entries(uncovered) + 2)
    low, high = _SMALLEST_RATE, _LARGEST_RATE
    return ErrorRates(min(max(missed, low), high), min(max(spurious, low), high))


def coverage_gain(matrix: Matrix, rates: ErrorRates) -> SingleArray:
    """Gain in log-probability from covering each entry, (n_rows, n_columns)."""
    one = np.float32(np.log((1.0 - rates.false_negative) / rates.false_positive))
    zero = np.float32(np.log(rates.false_negative / (1.0 - rates.false_positive)))
    return np.where(matrix.observed, np.where(matrix.ones, one, zero), np.float32(0))


def bit_cost(states: BinaryArray, weight: FloatArray | None = None) -> FloatArray:
    """Log-odds against a membership, by factor; never negative. ``weight`` (n_rows,) of the rows.

    >>> bit_cost(np.array([[0, 1], [0, 1], [0, 1], [0, 0]])).round(3)
    array([1.609, 0.   ])
    """
    on, n = _ones_and_rows(states, weight)
    share = (on + 1) / (n + 2)
    share = np.clip(share, _SMALLEST_RATE, 0.5)
    return np.asarray(np.log((1.0 - share) / share))


@dataclass(eq=False)
class Cover:
    """Memberships and factors, and how often they cover each entry.

    ``states`` uint8 (n_rows, n_components); ``factors`` uint8 (n_components, n_columns); ``counts``
    (n_rows, n_columns): how many factors cover each entry; ``rates`` of errors.

    >>> matrix = Matrix(np.array([[1, 1, 0], [0, 0, 0]]) > 0, np.ones((2, 3)) > 0)
    >>> cover = Cover.of(matrix, states=[[1], [0]], factors=[[1, 1, 0]])
    >>> cover.n_components, cover.errors(matrix)
    (1, 0)
    """

    states: BinaryArray
    factors: BinaryArray
    counts: IntArray
    rates: ErrorRates
    objective: Objective = OBJECTIVES["description"]

    @classmethod
    def of(
        cls,
        matrix: Matrix,
        states: npt.ArrayLike,
        factors: npt.ArrayLike,
        objective: Objective = OBJECTIVES["description"],
    ) -> Cover:
        """A cover with its counts and rates worked out."""
        states = np.ascontiguousarray(states, dtype=np.uint8)
        factors = np.ascontiguousarray(factors, dtype=np.uint8)
        counts = (states.astype(np.float32) @ factors.astype(np.float32)).astype(np.int32)
        return cls(states, factors, counts, error_rates(matrix, counts), objective)

    @property
    def n_components(self) -> int:
        """Number of factors."""
        return len(self.factors)

    def errors(self, matrix: Matrix) -> float:
        """Number of observed entries that the cover gets wrong."""
        return wrong_entries(matrix, self.counts)

    def score(self, matrix: Matrix) -> float:
        """How good the cover is by its objective; larger is better."""
        lengths = sum(part.sum() for part in self._code_lengths(matrix))
        return self.objective.fit(matrix, self.counts, self.rates) - float(lengths)

    def leave_one_out_gain(self, matrix: Matrix) -> FloatArray:
        """What the score would lose without each factor, (n_components,)."""
        alone = np.where(
            self.counts == 1, self.objective.weights(matrix, self.rates), np.float32(0)
        )
        states = matrix.weighted(self.states)
        gain = ((states.T @ alone) * self.factors).sum(1, dtype=np.float64)
        of_states, of_factors = self._code_lengths(matrix)
        return np.asarray(gain - (of_states + of_factors))

    def without(self, matrix: Matrix, dropped: list[int]) -> Cover:
        """The cover without some of its factors."""
        return self.with_bits(
            matrix,
            np.delete(self.states, dropped, axis=1),
            np.delete(self.factors, dropped, axis=0),
        )

    def with_bits(self, matrix: Matrix, states: npt.ArrayLike, factors: npt.ArrayLike) -> Cover:
        """Other memberships and factors, judged by the same objective."""
        return Cover.of(matrix, states, factors, self.objective)

    def _code_lengths(self, matrix: Matrix) -> tuple[FloatArray, FloatArray]:
        """Cost of the memberships in each factor, and of its entries, (n_components,) both."""
        of_states = self.objective.code_length(self.states, matrix.weight)
        return of_states, self.objective.code_length(self.factors.T)
