"""Boolean covers: binary memberships and factors whose OR reconstructs a binary matrix.

A cover is scored by a description length: the log-probability of the data, given that a covered
entry is 0 at one rate and an uncovered entry is 1 at another, plus the log-probability of the
memberships and factors, each drawn with its own frequency of ones. A factor is worth keeping if it
shortens the description, and the right number of factors is the one supported by the data (minimum
description length, MDL). Where the number is given, a cover can be scored by the number of wrong
entries instead.

Moves improve a cover: `refine` climbs by single flips, `prune` drops factors, `merge` makes one of
two, `combine` makes one cover of two, `reduce_errors` replaces factors by others with fewer errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, FloatArray, IntArray, SingleArray
from noisyor.data.observations import Observations
from noisyor.engines.contract import CoverResult, EngineLike, Factors, ImproveOptions, NoiseKey
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError

_SMALLEST_RATE, _LARGEST_RATE = 1e-4, 0.4

_TIE = 1e-8
"""Cost of a bit, in wrong entries. All bits of a cover together cost less than one wrong entry."""

PRIOR_ROWS = 2.0
"""Weight of the overall failure rate when an edge's own count is shrunk towards it, in rows."""


class Matrix(NamedTuple):
    """The data: ``ones`` and ``observed``, both bool (n_rows, n_columns), and weights of the rows.

    ``weight`` (n_rows,) is the number of rows that each row stands for; None if all weights are 1.

    >>> import noisyor as nor
    >>> Matrix.of(nor.Observations.of(np.array([[1.0, np.nan]]))).observed
    array([[ True, False]])
    """

    ones: npt.NDArray[np.bool_]
    observed: npt.NDArray[np.bool_]
    weight: FloatArray | None = None

    @classmethod
    def of(cls, observations: Observations) -> Matrix:
        """Return rows as a dense matrix."""
        dense = observations.to_dense()
        return cls(dense > 0, ~np.isnan(dense), observations.weights)  # NaN > 0 is False

    def n_entries(self, entries: npt.NDArray[np.bool_]) -> float:
        """Count the entries (n_rows, n_columns) that are True, by weight."""
        if self.weight is None:
            return int(entries.sum())
        return float(self.weight @ entries.sum(1))

    def n_in_columns(self, entries: npt.NDArray[np.bool_]) -> FloatArray:
        """Count the entries that are True in each column, by weight, (n_columns,)."""
        if self.weight is None:
            return np.asarray(entries.sum(0, dtype=np.float64))
        return np.asarray(self.weight @ entries)

    def weighted(self, values: npt.NDArray[np.generic]) -> SingleArray:
        """Return values (n_rows, ...) as float32, each row times its weight."""
        plain = values.astype(np.float32)
        return plain if self.weight is None else plain * self.weight[:, None].astype(np.float32)


class ErrorRates(NamedTuple):
    """Probability that a covered entry is 0, and that an uncovered one is 1."""

    false_negative: float
    false_positive: float


Objective = Literal["mdl", "hamming"]
"""Score of a cover: minus its description length in nats, or minus its number of wrong entries.
With ``"hamming"`` a bit costs so little that bits only decide between covers with equal errors."""

OBJECTIVES: tuple[Objective, ...] = get_args(Objective)


def wrong_entries(matrix: Matrix, counts: IntArray) -> float:
    """Count the observed entries that are covered but 0, or 1 but not covered.

    ``counts`` (n_rows, n_columns): how many factors cover each entry.
    """
    return matrix.n_entries(((counts > 0) != matrix.ones) & matrix.observed)


def error_rates(matrix: Matrix, counts: IntArray) -> ErrorRates:
    """Return the error rates if ``counts`` (n_rows, n_columns) factors cover each entry.

    A pseudo-entry of each kind is added, so that no rate is 0.
    """
    covered = (counts > 0) & matrix.observed
    uncovered = (counts == 0) & matrix.observed
    missed = (matrix.n_entries(covered & ~matrix.ones) + 1) / (matrix.n_entries(covered) + 2)
    spurious = (matrix.n_entries(uncovered & matrix.ones) + 1) / (matrix.n_entries(uncovered) + 2)
    low, high = _SMALLEST_RATE, _LARGEST_RATE
    return ErrorRates(min(max(missed, low), high), min(max(spurious, low), high))


def log_likelihood(matrix: Matrix, counts: IntArray, rates: ErrorRates) -> float:
    """Return the log-probability of the observed entries, given how often each is covered."""
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


def coverage_gain(matrix: Matrix, rates: ErrorRates, objective: Objective = "mdl") -> SingleArray:
    """Return how much the score rises if an entry is covered, (n_rows, n_columns), bits aside."""
    one, zero = np.float32(1), np.float32(-1)
    if objective == "mdl":
        one = np.float32(np.log((1.0 - rates.false_negative) / rates.false_positive))
        zero = np.float32(np.log(rates.false_negative / (1.0 - rates.false_positive)))
    return np.where(matrix.observed, np.where(matrix.ones, one, zero), np.float32(0))


def bit_cost(
    bits: BinaryArray, weight: FloatArray | None = None, objective: Objective = "mdl"
) -> FloatArray:
    """Return the cost of one more bit in a row of weight 1, by column: the log-odds against a one.

    ``bits`` are memberships, or transposed factors; ``weight`` is that of their rows.
    """
    if objective == "hamming":
        return np.full(bits.shape[1], _TIE)
    on, n = _ones_and_rows(bits, weight)
    share = np.clip((on + 1) / (n + 2), _SMALLEST_RATE, 0.5)
    return np.asarray(np.log((1.0 - share) / share))


def code_length(
    bits: BinaryArray, weight: FloatArray | None = None, objective: Objective = "mdl"
) -> FloatArray:
    """Return the cost of each column of bits: its code length given its own frequency of ones."""
    on, n = _ones_and_rows(bits, weight)
    if objective == "hamming":
        return np.asarray(_TIE * on)
    share = (on + 1) / (n + 2)
    return np.asarray(-on * np.log(share) - (n - on) * np.log1p(-share))


def _ones_and_rows(bits: BinaryArray, weight: FloatArray | None) -> tuple[FloatArray, float]:
    """Count the ones in each column, and the rows, by weight."""
    if weight is None:
        return bits.sum(0, dtype=np.float64), len(bits)
    return weight @ bits, float(weight.sum())


@dataclass(eq=False)
class Cover:
    """Memberships and factors, and how often they cover each entry.

    ``states`` uint8 (n_rows, n_components); ``factors`` uint8 (n_components, n_columns); ``counts``
    (n_rows, n_columns): how many factors cover each entry; ``rates`` of errors.
    """

    states: BinaryArray
    factors: BinaryArray
    counts: IntArray
    rates: ErrorRates
    objective: Objective = "mdl"

    @classmethod
    def of(
        cls,
        matrix: Matrix,
        states: npt.ArrayLike,
        factors: npt.ArrayLike,
        objective: Objective = "mdl",
    ) -> Cover:
        """Build a cover, with its counts and rates."""
        states = np.ascontiguousarray(states, dtype=np.uint8)
        factors = np.ascontiguousarray(factors, dtype=np.uint8)
        counts = (states.astype(np.float32) @ factors.astype(np.float32)).astype(np.int32)
        return cls(states, factors, counts, error_rates(matrix, counts), objective)

    @property
    def n_components(self) -> int:
        """Number of factors."""
        return len(self.factors)

    def errors(self, matrix: Matrix) -> float:
        """Count the observed entries that the cover gets wrong."""
        return wrong_entries(matrix, self.counts)

    def score(self, matrix: Matrix) -> float:
        """Return the score of the cover by its objective; larger is better."""
        if self.objective == "mdl":
            fit = log_likelihood(matrix, self.counts, self.rates)
        else:
            fit = -float(self.errors(matrix))
        return fit - float(sum(part.sum() for part in self._code_lengths(matrix)))

    def leave_one_out_gain(self, matrix: Matrix) -> FloatArray:
        """Return how much the score falls without each factor, (n_components,)."""
        covering = coverage_gain(matrix, self.rates, self.objective)
        alone = np.where(self.counts == 1, covering, np.float32(0))
        states = matrix.weighted(self.states)
        gain = ((states.T @ alone) * self.factors).sum(1, dtype=np.float64)
        of_states, of_factors = self._code_lengths(matrix)
        return np.asarray(gain - (of_states + of_factors))

    def without(self, matrix: Matrix, dropped: list[int]) -> Cover:
        """Return the cover without some of its factors."""
        return self.with_bits(
            matrix,
            np.delete(self.states, dropped, axis=1),
            np.delete(self.factors, dropped, axis=0),
        )

    def with_bits(self, matrix: Matrix, states: npt.ArrayLike, factors: npt.ArrayLike) -> Cover:
        """Return a cover of other memberships and factors with the same objective."""
        return Cover.of(matrix, states, factors, self.objective)

    def _code_lengths(self, matrix: Matrix) -> tuple[FloatArray, FloatArray]:
        """Return the cost of memberships and of entries of each factor, (n_components,) both."""
        of_states = code_length(self.states, matrix.weight, self.objective)
        return of_states, code_length(self.factors.T, objective=self.objective)


_ROUNDS = 30

_WORK = 3 * 2**19
"""Work of one call of `reduce_errors`: 64-bit words of rows and columns, times replacements."""

_MIN_STEPS, _MAX_STEPS = 75, 12_000
"""Smallest and largest number of replacements of one call. The call ends early if half of them in a
row bring no gain."""

_SIMILAR = 0.5
"""Overlap of rows or columns above which two factors may be merged."""


def refine(
    matrix: Matrix,
    cover: Cover,
    *,
    rounds: int = _ROUNDS,
    factors: bool = True,
    engine: EngineLike = "auto",
) -> Cover:
    """Flip memberships, then entries of factors, in turn, while the score rises.

    ``factors=False`` leaves the factors and the rates as they are.
    """
    states, drawn, counts, rates = cover.states, cover.factors, cover.counts, cover.rates
    objective = cover.objective
    for _ in range(rounds):
        weights = coverage_gain(matrix, rates, objective)
        # The weight of a row multiplies the gains and the costs of its memberships alike.
        costs = bit_cost(states, matrix.weight, objective)
        states, counts, flips = _improve(weights, counts, states, drawn, costs, engine)
        if factors:
            columns = np.ascontiguousarray(drawn.T)
            counts = np.ascontiguousarray(counts.T)
            across = np.ascontiguousarray(matrix.weighted(weights).T)
            costs = bit_cost(columns, objective=objective)
            columns, counts, more = _improve(across, counts, columns, states.T, costs, engine)
            drawn, counts = np.ascontiguousarray(columns.T), np.ascontiguousarray(counts.T)
            flips += more
            rates = error_rates(matrix, counts)
        if not flips or not factors:
            break
    return Cover(states, drawn, counts, rates, objective)


def prune(
    matrix: Matrix, cover: Cover, max_components: int, *, engine: EngineLike = "auto"
) -> Cover:
    """Drop factors until at most ``max_components`` are left, all of them supported by the data.

    The factor without which the score falls least is dropped first.

    >>> matrix = Matrix(np.array([[1, 1, 0]] * 9 + [[0, 0, 0]] * 9) > 0, np.ones((18, 3)) > 0)
    >>> twice = Cover.of(matrix, states=[[1, 1]] * 9 + [[0, 0]] * 9, factors=[[1, 1, 0]] * 2)
    >>> prune(matrix, twice, max_components=2).n_components
    1
    """
    is_refined = False
    while cover.n_components:
        gain = cover.leave_one_out_gain(matrix)
        order = np.argsort(gain, kind="stable")
        excess = cover.n_components - max_components
        if excess <= 0 and gain[order[0]] > 0:
            if is_refined:
                break
            cover, is_refined = refine(matrix, cover, engine=engine), True
            continue
        leave = _dissimilar(cover.factors, order, max(1, excess // 8))
        cover = refine(matrix, cover.without(matrix, leave), rounds=2, engine=engine)
        is_refined = False
    return cover


def combine(
    matrix: Matrix, first: Cover, second: Cover, max_components: int, *, engine: EngineLike = "auto"
) -> Cover:
    """Combine two covers into one of their best factors, ``max_components`` at most."""
    both = first.with_bits(
        matrix,
        np.hstack([first.states, second.states]),
        np.vstack([first.factors, second.factors]),
    )
    return prune(matrix, both, max_components, engine=engine)


def merge(matrix: Matrix, cover: Cover, *, engine: EngineLike = "auto") -> Cover:
    """Merge pairs of factors that share most of their rows or columns, if the score rises."""
    while True:
        score, better = cover.score(matrix), None
        for first, second in _similar_pairs(matrix, cover):
            rest = [k for k in range(cover.n_components) if k not in (first, second)]
            states = cover.states[:, first] | cover.states[:, second]
            factor = cover.factors[first] | cover.factors[second]
            merged = cover.with_bits(
                matrix,
                np.column_stack([cover.states[:, rest], states]),
                np.vstack([cover.factors[rest], factor]),
            )
            if merged.score(matrix) > score:
                better = merged
                break
        if better is None:
            return refine(matrix, cover, engine=engine)
        cover = better


def reduce_errors(
    matrix: Matrix, cover: Cover, max_components: int, key: NoiseKey, *, engine: EngineLike = "auto"
) -> Cover:
    """Replace factors, a few at a time, as long as the number of wrong entries falls.

    The result has no more wrong entries than ``cover``, and at most ``max_components`` factors;
    ``cover`` must not have more. ``key`` is the key of the random draws.
    """
    spare = max_components - cover.n_components
    words = sum(n * -(-m // 64) for n, m in (matrix.ones.shape, matrix.ones.shape[::-1]))
    steps = min(max(_WORK // max(1, words), _MIN_STEPS), _MAX_STEPS)
    improver = get_engine(engine, "improve_cover")
    found = improver.improve_cover(
        matrix.ones,
        matrix.observed,
        np.empty(0) if matrix.weight is None else matrix.weight,
        np.pad(cover.states, ((0, 0), (0, spare))),
        np.pad(cover.factors, ((0, spare), (0, 0))),
        ImproveOptions(steps, steps // 2),
        key,
    )
    used = found.states.any(0) & found.factors.any(1)
    return cover.with_bits(matrix, found.states[:, used], found.factors[used])


def _similar_pairs(matrix: Matrix, cover: Cover) -> list[tuple[int, int]]:
    """Return pairs of factors whose rows or columns overlap by half or more, closest first."""
    closeness = np.zeros((cover.n_components, cover.n_components))
    counted = matrix.weighted(cover.states).T, cover.factors.astype(np.float32)
    for bits, plain in zip((cover.states.T, cover.factors), counted, strict=True):
        shared, size = plain @ bits.T.astype(np.float32), plain.sum(1)
        either = size[:, None] + size[None, :] - shared
        closeness = np.maximum(closeness, shared / np.maximum(either, 1.0))
    first, second = np.nonzero(np.triu(closeness >= _SIMILAR, 1))
    order = np.argsort(-closeness[first, second], kind="stable")
    return list(zip(first[order].tolist(), second[order].tolist(), strict=True))


def _improve(
    weights: SingleArray,
    counts: IntArray,
    states: BinaryArray,
    factors: BinaryArray,
    costs: FloatArray,
    engine: EngineLike,
) -> CoverResult:
    """Flip memberships in one pass over all rows."""
    _, column = np.nonzero(factors)
    ptr = np.concatenate([[0], np.cumsum(factors.sum(1, dtype=np.int64))])
    listed = Factors(ptr, column.astype(np.int32))
    flipper = get_engine(engine, "cover_memberships")
    return flipper.cover_memberships(weights, listed, states, counts, costs)


def _dissimilar(factors: BinaryArray, order: npt.NDArray[np.intp], count: int) -> list[int]:
    """Return the first ``count`` of ``order`` that share less than half of their columns."""
    chosen: list[int] = []
    sizes = factors.sum(1, dtype=np.int64)
    for candidate in order:
        shared = (factors[chosen] & factors[candidate]).sum(1, dtype=np.int64)
        if (2 * shared < np.minimum(sizes[chosen], sizes[candidate]).clip(1)).all():
            chosen.append(int(candidate))
            if len(chosen) == count:
                break
    return chosen


_MAX_ENTRIES = 2**18
"""Entries of the rows that are processed together."""


def cover_rows(X: Any, factors: npt.ArrayLike, *, engine: EngineLike = "auto") -> BinaryArray:
    """Find memberships with which given factors reconstruct rows with few wrong entries.

    The factor that lowers the errors of a row most is added until no factor lowers them; then
    single memberships are flipped as long as the errors fall. So no row has more errors than
    without any factor, and no single flip lowers its errors. Of equally good choices, the one with
    fewer memberships is taken. Unobserved entries do not count.

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
    states = np.zeros((observations.n_rows, len(plain)), dtype=np.uint8)
    block = max(1, _MAX_ENTRIES // max(1, plain.shape[1]))
    for begin in range(0, len(states), block):
        rows = slice(begin, begin + block)
        matrix = Matrix.of(observations.take(rows))
        cover = Cover.of(matrix, states[rows], plain, "hamming")
        weights = coverage_gain(matrix, cover.rates, "hamming")
        cover = cover.with_bits(matrix, _greedy_states(weights, plain), plain)
        while True:  # a pass of the kernel gives up on a row after some sweeps
            better = refine(matrix, cover, factors=False, engine=engine)
            if np.array_equal(better.states, cover.states):
                break
            cover = better
        states[rows] = cover.states
    return states[numbers]


def _greedy_states(weights: SingleArray, factors: BinaryArray) -> BinaryArray:
    """Return memberships (n_rows, n_components), found by adding the best factor repeatedly."""
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


def is_worthwhile(scores: Sequence[float], patience: int) -> bool:
    """Return whether one of the last ``patience`` restarts raised ``scores``, the best so far."""
    recent = pairwise(scores[-patience - 1 :])
    return len(scores) <= patience or any(after > before + 1e-6 for before, after in recent)


def sample_rows(
    observations: Observations, max_entries: int, seed: int
) -> tuple[npt.NDArray[np.int64], Observations]:
    """Return the indices of rows to use, and those rows: all, or a sample of large data.

    Rows are drawn in proportion to their weights; a row that is drawn twice has weight 2 in the
    sample.
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
    """Draw ``count`` row indices, ascending, each as often as its share of the weights.

    If the weights are integers whose sum is ``count``, each row is drawn as often as its weight.
    """
    order = generator.permutation(len(weights))
    ends = np.cumsum(weights[order])
    points = (generator.random() + np.arange(count)) * (ends[-1] / count)
    index = np.searchsorted(ends, points, side="right")
    return np.sort(order[np.minimum(index, len(order) - 1)])
