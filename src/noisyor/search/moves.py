"""Moves that improve a Boolean cover.

`refine` climbs by single flips, `prune` drops factors, `merge` makes one of two, `combine` makes
one cover of two, `reduce_errors` replaces factors by others with fewer errors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, FloatArray, IntArray, SingleArray
from noisyor.engines.contract import CoverResult, EngineLike, Factors, ImproveOptions, NoiseKey
from noisyor.engines.registry import get_engine
from noisyor.search.cover import Cover, Matrix, error_rates

__all__ = ["combine", "merge", "prune", "reduce_errors", "refine"]

_ROUNDS = 30

_WORK = 3 * 2**18
"""Words of rows and columns, once for each factor, that the replacements of one call look at."""

_MAX_STEPS = 500
"""Replacements of one call, at most; half of them in a row that gain nothing end it."""

_HOT_SWEEPS, _TEMPERATURE = 10, 0.5
"""Passes with noise after a replacement, at most, and their temperature in wrong entries."""

_FEW_STEPS, _COLD_STEPS = 50, 200
"""Where ``_WORK`` allows fewer replacements than the first number, the second are made without
noise. It makes room for a new factor; in a large matrix it costs more elsewhere than that gains."""

_SIMILAR = 0.5
"""Overlap of rows or columns from which two factors may be one."""


def refine(
    matrix: Matrix,
    cover: Cover,
    *,
    rounds: int = _ROUNDS,
    factors: bool = True,
    engine: EngineLike = "auto",
) -> Cover:
    """Flip memberships, then entries of factors, in turn, while the score rises.

    Parameters
    ----------
    matrix : the data.
    cover : of the same rows and columns.
    rounds : at most.
    factors : False leaves the factors and the rates as they are.
    engine : as in `explain`.

    >>> matrix = Matrix(np.array([[1, 1, 0]] * 9 + [[0, 0, 1]]) > 0, np.ones((10, 3)) > 0)
    >>> start = Cover.of(matrix, states=[[0]] + [[1]] * 9, factors=[[1, 1, 0]])
    >>> refine(matrix, start).states.T  # the first row belongs to the factor, the last does not
    array([[1, 1, 1, 1, 1, 1, 1, 1, 1, 0]], dtype=uint8)
    """
    states, drawn, counts, rates = cover.states, cover.factors, cover.counts, cover.rates
    objective = cover.objective
    for _ in range(rounds):
        weights = objective.weights(matrix, rates)
        # The weight of a row multiplies the gains and the costs of its memberships alike.
        costs = objective.bit_cost(states, matrix.weight)
        states, counts, flips = _improve(weights, counts, states, drawn, costs, engine)
        if factors:
            columns = np.ascontiguousarray(drawn.T)
            counts = np.ascontiguousarray(counts.T)
            across = np.ascontiguousarray(matrix.weighted(weights).T)
            costs = objective.bit_cost(columns)
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

    The one without which the score loses least goes first.

    >>> matrix = Matrix(np.array([[1, 1, 0]] * 9 + [[0, 0, 0]] * 9) > 0, np.ones((18, 3)) > 0)
    >>> twice = Cover.of(matrix, states=[[1, 1]] * 9 + [[0, 0]] * 9, factors=[[1, 1, 0]] * 2)
    >>> prune(matrix, twice, max_components=2).n_components
    1
    """
    settled = False
    while cover.n_components:
        gain = cover.leave_one_out_gain(matrix)
        order = np.argsort(gain, kind="stable")
        excess = cover.n_components - max_components
        if excess <= 0 and gain[order[0]] > 0:
            if settled:
                break
            cover, settled = refine(matrix, cover, engine=engine), True
            continue
        leave = _dissimilar(cover.factors, order, max(1, excess // 8))
        cover = refine(matrix, cover.without(matrix, leave), rounds=2, engine=engine)
        settled = False
    return cover


def combine(
    matrix: Matrix, first: Cover, second: Cover, max_components: int, *, engine: EngineLike = "auto"
) -> Cover:
    """The best factors of two covers, at most ``max_components`` of them.

    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], 10, axis=0)
    >>> matrix = Matrix(X > 0, np.ones(X.shape) > 0)
    >>> left, right = Cover.of(matrix, X[:, :1], X[:1]), Cover.of(matrix, X[:, 2:3], X[10:11])
    >>> left.errors(matrix), combine(matrix, left, right, max_components=2).errors(matrix)
    (40, 0)
    """
    both = first.with_bits(
        matrix,
        np.hstack([first.states, second.states]),
        np.vstack([first.factors, second.factors]),
    )
    return prune(matrix, both, max_components, engine=engine)


def merge(matrix: Matrix, cover: Cover, *, engine: EngineLike = "auto") -> Cover:
    """Make one factor of two that share most of their rows or columns, where the score rises.

    >>> X = np.repeat([[1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0]], 20, axis=0)
    >>> matrix = Matrix(X > 0, np.ones(X.shape) > 0)
    >>> halves = Cover.of(matrix, X[:, :2], factors=[[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0]])
    >>> merge(matrix, halves).factors
    array([[1, 1, 1, 1, 0, 0]], dtype=uint8)
    """
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
    """Replace factors, some at a time, while that lowers the number of wrong entries.

    The result has no more wrong entries than ``cover``, and at most ``max_components`` factors,
    that is at least as many as ``cover`` has. ``key`` is that of the noise.

    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], 10, axis=0)
    >>> matrix = Matrix(X > 0, np.ones(X.shape) > 0)
    >>> poor = Cover.of(matrix, X[:, 1:3], factors=[[1, 1, 0, 0], [0, 1, 1, 0]])
    >>> reduce_errors(matrix, poor, 2, NoiseKey(0)).errors(matrix)
    0
    """
    spare = max_components - cover.n_components
    words = sum(n * -(-m // 64) for n, m in (matrix.ones.shape, matrix.ones.shape[::-1]))
    steps, sweeps = min(_MAX_STEPS, _WORK // max(1, max_components * words)), _HOT_SWEEPS
    if steps < _FEW_STEPS:
        steps, sweeps = _COLD_STEPS, 0
    improver = get_engine(engine, "improve_cover")
    found = improver.improve_cover(
        matrix.ones,
        matrix.observed,
        np.empty(0) if matrix.weight is None else matrix.weight,
        np.pad(cover.states, ((0, 0), (0, spare))),
        np.pad(cover.factors, ((0, spare), (0, 0))),
        ImproveOptions(steps, steps // 2, sweeps, _TEMPERATURE),
        key,
    )
    used = found.states.any(0) & found.factors.any(1)
    return cover.with_bits(matrix, found.states[:, used], found.factors[used])


def _similar_pairs(matrix: Matrix, cover: Cover) -> list[tuple[int, int]]:
    """Pairs of factors whose rows or columns overlap by half or more, closest first."""
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
    """Flips of memberships, one pass over all rows."""
    _, column = np.nonzero(factors)
    ptr = np.concatenate([[0], np.cumsum(factors.sum(1, dtype=np.int64))])
    listed = Factors(ptr, column.astype(np.int32))
    flipper = get_engine(engine, "cover_memberships")
    return flipper.cover_memberships(weights, listed, states, counts, costs)


def _dissimilar(factors: BinaryArray, order: npt.NDArray[np.intp], count: int) -> list[int]:
    """The first ``count`` of ``order`` that share less than half of their columns."""
    chosen: list[int] = []
    sizes = factors.sum(1, dtype=np.int64)
    for candidate in order:
        shared = (factors[chosen] & factors[candidate]).sum(1, dtype=np.int64)
        if (2 * shared < np.minimum(sizes[chosen], sizes[candidate]).clip(1)).all():
            chosen.append(int(candidate))
            if len(chosen) == count:
                break
    return chosen
