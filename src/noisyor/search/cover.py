"""Boolean covers: binary memberships and factors whose OR draws a binary matrix.

A cover is judged by a description length: the log-probability of the data, given that a covered
entry is 0 with one rate and an uncovered entry is 1 with another, plus that of the memberships and
the factors, each a coin of its own bias. So a factor has to pay for itself, and the right number of
factors is the one that the data pay for. Or, where the number is given, by the number of entries
that it gets wrong. `refine` climbs by single flips, `prune` drops factors, `merge` makes one of
two, `combine` makes one cover of two, `replace` finds better factors for some.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor.engines.contract import CoverResult, EngineLike, Factors
from noisyor.engines.registry import get_engine
from noisyor.search.objectives import OBJECTIVES, Matrix, Objective, Rates, rates_of, wrong_entries

__all__ = ["PRIOR_ROWS", "Cover", "combine", "merge", "prune", "refine", "replace"]

_ROUNDS = 30

PRIOR_ROWS = 2.0
"""Weight of the overall failure rate beside an edge's own count, in rows."""

_SEEDS, _TURNS = 8, 4
"""Rows and columns that seed a new cause, each so many, and turns of memberships and factor."""

_SIMILAR = 0.5
"""Overlap of rows or columns from which two causes may be one."""

_DESCRIPTION = OBJECTIVES["description"]


@dataclass(eq=False)
class Cover:
    """Memberships (n_rows, n_causes) and factors (n_causes, n_columns), uint8, and their counts.

    ``counts`` (n_rows, n_columns) says how many causes cover each entry.
    """

    states: BinaryArray
    factors: BinaryArray
    counts: npt.NDArray[np.int32]
    rates: Rates
    objective: Objective = _DESCRIPTION

    @classmethod
    def of(
        cls,
        matrix: Matrix,
        states: npt.ArrayLike,
        factors: npt.ArrayLike,
        objective: Objective = _DESCRIPTION,
    ) -> Cover:
        """A cover with its counts and rates worked out."""
        states = np.ascontiguousarray(states, dtype=np.uint8)
        factors = np.ascontiguousarray(factors, dtype=np.uint8)
        counts = (states.astype(np.float32) @ factors.astype(np.float32)).astype(np.int32)
        return cls(states, factors, counts, rates_of(matrix, counts), objective)

    @property
    def n_causes(self) -> int:
        """Number of factors."""
        return len(self.factors)

    def errors(self, matrix: Matrix) -> int:
        """Number of observed entries that the cover gets wrong."""
        return wrong_entries(matrix, self.counts)

    def score(self, matrix: Matrix) -> float:
        """How good the cover is by its objective; larger is better."""
        lengths = self.objective.length(self.states, 0).sum()
        lengths += self.objective.length(self.factors, 1).sum()
        return self.objective.fit(matrix, self.counts, self.rates) - float(lengths)

    def worth(self, matrix: Matrix) -> FloatArray:
        """What the score would lose without each factor, (n_causes,); negative ones do not pay."""
        alone = np.where(
            self.counts == 1, self.objective.weights(matrix, self.rates), np.float32(0)
        )
        gain = ((self.states.T.astype(np.float32) @ alone) * self.factors).sum(1, dtype=np.float64)
        lengths = self.objective.length(self.states, 0) + self.objective.length(self.factors, 1)
        return np.asarray(gain - lengths)

    def without(self, matrix: Matrix, causes: list[int]) -> Cover:
        """The cover without some of its causes."""
        return self.with_bits(
            matrix, np.delete(self.states, causes, axis=1), np.delete(self.factors, causes, axis=0)
        )

    def with_bits(self, matrix: Matrix, states: npt.ArrayLike, factors: npt.ArrayLike) -> Cover:
        """Other memberships and factors, judged by the same objective."""
        return Cover.of(matrix, states, factors, self.objective)


def refine(
    matrix: Matrix,
    cover: Cover,
    *,
    rounds: int = _ROUNDS,
    factors: bool = True,
    engine: EngineLike = "auto",
) -> Cover:
    """Flip memberships, then entries of factors, in turn, while the score rises.

    With ``factors`` False the factors and the rates are left as they are.
    """
    states, drawn, counts, rates = cover.states, cover.factors, cover.counts, cover.rates
    objective = cover.objective
    for _ in range(rounds):
        weights = objective.weights(matrix, rates)
        states, counts, flips = _improve(weights, counts, states, drawn, objective, engine)
        if factors:
            columns = np.ascontiguousarray(drawn.T)
            counts = np.ascontiguousarray(counts.T)
            across = np.ascontiguousarray(weights.T)
            columns, counts, more = _improve(across, counts, columns, states.T, objective, engine)
            drawn, counts = np.ascontiguousarray(columns.T), np.ascontiguousarray(counts.T)
            flips += more
            rates = rates_of(matrix, counts)
        if not flips or not factors:
            break
    return Cover(states, drawn, counts, rates, objective)


def prune(matrix: Matrix, cover: Cover, most: int, *, engine: EngineLike = "auto") -> Cover:
    """Drop the factors worth least until at most ``most`` are left and each pays for itself."""
    settled = False
    while cover.n_causes:
        worth = cover.worth(matrix)
        order = np.argsort(worth, kind="stable")
        excess = cover.n_causes - most
        if excess <= 0 and worth[order[0]] > 0:
            if settled:
                break
            cover, settled = refine(matrix, cover, engine=engine), True
            continue
        leave = _dissimilar(cover.factors, order, max(1, excess // 8))
        cover = refine(matrix, cover.without(matrix, leave), rounds=2, engine=engine)
        settled = False
    return cover


def combine(
    matrix: Matrix, first: Cover, second: Cover, most: int, *, engine: EngineLike = "auto"
) -> Cover:
    """The best causes of two covers, at most ``most`` of them."""
    both = first.with_bits(
        matrix,
        np.hstack([first.states, second.states]),
        np.vstack([first.factors, second.factors]),
    )
    return prune(matrix, both, most, engine=engine)


def merge(matrix: Matrix, cover: Cover, *, engine: EngineLike = "auto") -> Cover:
    """Make one cause of two that share most of their rows or of their columns, where it pays."""
    while True:
        score, better = cover.score(matrix), None
        for first, second in _similar_pairs(cover):
            rest = [k for k in range(cover.n_causes) if k not in (first, second)]
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


def replace(
    matrix: Matrix,
    cover: Cover,
    causes: list[int],
    most: int,
    generator: np.random.Generator,
    *,
    engine: EngineLike = "auto",
) -> Cover:
    """Drop some causes and seed others from what is not covered then, up to ``most``; refined."""
    cover = cover.without(matrix, causes)
    while cover.n_causes < most:
        free = cover.counts == 0
        weights = np.where(free, cover.objective.weights(matrix, cover.rates), np.float32(0))
        states, factor, gain = _one_cause(weights, matrix.ones & free, generator)
        if gain <= 0:
            break
        cover = cover.with_bits(
            matrix, np.column_stack([cover.states, states]), np.vstack([cover.factors, factor])
        )
    return refine(matrix, cover, engine=engine)


def _one_cause(
    weights: npt.NDArray[np.float32],
    left: npt.NDArray[np.bool_],
    generator: np.random.Generator,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], float]:
    """Memberships (n_rows,), factor (n_columns,) and gain of the best of some single causes.

    Rows and columns of ``left``, ones that nothing covers, drawn by chance, seed them.
    """
    rows, columns = (
        generator.permutation(np.flatnonzero(left.any(axis)))[:_SEEDS] for axis in (1, 0)
    )
    if not len(rows):
        return np.zeros(len(left), dtype=bool), np.zeros(left.shape[1], dtype=bool), 0.0
    # sums of small whole numbers are exact in float32, in whatever order they are added
    factors = np.vstack([left[rows], left[:, columns].T.astype(np.float32) @ weights > 0])
    for _ in range(_TURNS):
        states = weights @ factors.T.astype(np.float32) > 0
        gains = states.T.astype(np.float32) @ weights
        factors = gains > 0
    total = np.maximum(gains, 0).sum(1)
    best = int(total.argmax())
    return states[:, best], factors[best], float(total[best])


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
    objective: Objective,
    engine: EngineLike,
) -> CoverResult:
    """Flips of memberships, one pass over all rows."""
    _, column = np.nonzero(factors)
    ptr = np.concatenate([[0], np.cumsum(factors.sum(1, dtype=np.int64))])
    listed = Factors(ptr, column.astype(np.int32))
    flipper = get_engine(engine, "cover_memberships")
    return flipper.cover_memberships(weights, listed, states, counts, objective.price(states))


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
