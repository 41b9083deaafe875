"""Gibbs sweeps of bipartite networks that are laid out as matrices, eight hidden nodes at a time.

Equations T35 to T38 and T52 of docs/theory.md. With B_i the total parameter of visible i that is
on and ``off_i = 1 / (exp(B_i) - 1)``, a hidden node that is off has the log-odds

    gain = log-odds of its prior - cost + sum over visibles i that are on of log(1 + works_i off_i)

so eight nodes take one multiplication and one addition for each such visible, and one logarithm of
the product. A set of alternatives is drawn at once. Independent nodes are drawn one after another,
but most stay as they are: what was computed for eight of them is good until one of them changes.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import uint64

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor.engines.contract import FREE, Evidence, GibbsResult, NoiseKey
from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.float64x8 import (
    WIDTH,
    exp_minus,
    fma,
    inner,
    load,
    log_one_plus,
    logistic,
    pointers,
    reduce_max,
    splat,
    store,
)
from noisyor.engines.numba.sampling.alternatives import CERTAIN, IMPOSSIBLE, choose, softmax
from noisyor.engines.numba.sampling.dense_layout import Columns, Dense, Matrices, aligned
from noisyor.engines.numba.sampling.gibbs import NEGLIGIBLE
from noisyor.engines.numba.sampling.walker import LARGE, logistic_of, uniform_of
from noisyor.engines.numba.scalar import combine
from noisyor.engines.reduction import ROWS_OF_BLOCK
from noisyor.model.network import Network


class Work(NamedTuple):
    """Scratch of one thread.

    By column: ``net``, log-odds of a node without the visibles that are on, ``probability``,
    ``state``, and ``known``, evidence on it. By place among the ones of a row: ``sums`` = B,
    ``off``, the same without a node that is on, ``less`` and ``less_off``, first entry of the
    matrix row, ``ones``, and ``leak``. ``fresh`` and ``lanes`` (8,): probabilities of eight nodes,
    and those that earn credit.
    """

    net: npt.NDArray[np.float64]
    probability: npt.NDArray[np.float64]
    state: npt.NDArray[np.uint8]
    known: npt.NDArray[np.uint8]
    sums: npt.NDArray[np.float64]
    off: npt.NDArray[np.float64]
    less: npt.NDArray[np.float64]
    less_off: npt.NDArray[np.float64]
    fresh: npt.NDArray[np.float64]
    lanes: npt.NDArray[np.float64]
    ones: npt.NDArray[np.int64]
    leak: npt.NDArray[np.float64]


class Sums(NamedTuple):
    """What a block of rows adds up.

    ``credit`` (n_visible * width,) of edges; ``noise`` (n_visible,) credit of their leaks;
    ``times_on`` (width,) sum of the probabilities; ``times_none`` (n_parts,) of no alternative of
    a set being on; ``unseen`` (n_visible,) weight of the rows in which a visible is missing, and
    ``unseen_on`` (n_visible * width,) the part of ``times_on`` in these, empty if nothing is
    missing; ``weight`` (1,) of the rows.
    """

    credit: npt.NDArray[np.float64]
    noise: npt.NDArray[np.float64]
    times_on: npt.NDArray[np.float64]
    times_none: npt.NDArray[np.float64]
    unseen: npt.NDArray[np.float64]
    unseen_on: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]


def _allocate_work(columns: Columns) -> Work:
    """Scratch for rows of a network."""
    width, ones = columns.width, -(-columns.n_visible // WIDTH) * WIDTH
    return Work(
        aligned(width),
        aligned(width),
        np.zeros(width, dtype=np.uint8),
        np.full(width, FREE, dtype=np.uint8),
        aligned(ones),
        aligned(ones),
        aligned(ones),
        aligned(ones),
        aligned(WIDTH),
        aligned(WIDTH),
        np.zeros(ones, dtype=np.int64),
        aligned(ones),
    )


def _allocate_sums(columns: Columns, missing: bool) -> Sums:
    """Zeros for a block of rows."""
    size = columns.n_visible * columns.width
    return Sums(
        aligned(size),
        np.zeros(columns.n_visible),
        aligned(columns.width),
        np.zeros(len(columns.is_set)),
        np.zeros(columns.n_visible),
        aligned(size if missing else 0),
        np.zeros(1),
    )


def dense_sweep(
    network: Network,
    dense: Dense,
    matrices: Matrices,
    evidence: Evidence,
    states: BinaryArray,
    key: NoiseKey,
    sum_blocks: Callable[[Callable[[int], list[FloatArray]], int], list[FloatArray]],
) -> GibbsResult:
    """Draw every hidden node of every row once; ``sum_blocks`` is the engine's sum over rows."""
    columns, states = dense.columns, states.copy()
    missing = len(evidence.missing_columns) > 0

    def block(number: int) -> list[FloatArray]:
        begin = number * ROWS_OF_BLOCK
        end, sums = min(begin + ROWS_OF_BLOCK, evidence.n_rows), _allocate_sums(columns, missing)
        work = _allocate_work(columns)
        sweep_dense(columns, matrices, evidence, states, key.seed, key.step, work, sums, begin, end)
        return list(sums)

    sums = Sums(*sum_blocks(block, evidence.n_rows))
    return GibbsResult(states, *_by_parameter(network, dense, sums))


def _by_parameter(network: Network, dense: Dense, sums: Sums) -> tuple[FloatArray, FloatArray]:
    """Credits and chances (n_params,) each, equations T38 and T52."""
    column, of_edge = dense.columns.column, network.param
    of_visible, of_hidden = np.split(network.leak_param, [network.n_visible])
    times_on, weight = sums.times_on[column], float(sums.weight[0])

    def add_up(edges: FloatArray, visible: FloatArray, hidden: FloatArray) -> FloatArray:
        result = np.bincount(of_edge, edges, network.n_params)
        result += np.bincount(of_visible, visible, network.n_params)
        return np.asarray(result + np.bincount(of_hidden, hidden, network.n_params))

    on = times_on[network.parent]
    if len(sums.unseen_on):
        on = on - sums.unseen_on[dense.place]
    part = np.searchsorted(dense.columns.part_ptr, column, "right") - 1
    member = network.sets.number >= 0
    free = np.where(member, times_on + sums.times_none[part], weight)
    return (
        add_up(sums.credit[dense.place], sums.noise, times_on),
        add_up(on, weight - sums.unseen, free),
    )


@njit(cache=True, nogil=True)
def sweep_dense(columns, matrices, rows, states, seed, sweep, work_arrays, sum_arrays, begin, end):
    """One sweep over the hidden nodes of rows ``begin`` to ``end``; ``states`` change in place.

    Draws and sums are those of `noisyor.engines.numba.sampling.gibbs.sweep_rows`.
    """
    work, sums, tables = pointers(work_arrays), pointers(sum_arrays), pointers(matrices)
    width, node, weights = columns.width, columns.node, rows.weight
    n_clamps, n_parts = rows.clamp.shape[0], len(columns.is_set)
    part_ptr = columns.part_ptr
    for row in range(begin, end):
        weight = weights[row] if len(weights) > 0 else 1.0
        sums.weight[0] += weight
        ones = rows.columns[rows.ptr[row] : rows.ptr[row + 1]]
        missing = rows.missing_columns[rows.missing_ptr[row] : rows.missing_ptr[row + 1]]
        key = combine(combine(uint64(seed), uint64(rows.row_ids[row])), uint64(sweep))
        n_ones = len(ones)
        for c in range(width):
            k = node[c]
            work.state[c] = states[row, k] if k >= 0 else 0
        if n_clamps > 0:
            _clamp(columns, work, rows.clamp[min(row, n_clamps - 1)])
        _enter_row(columns, tables, work, ones, missing)
        for part in range(n_parts):
            first, last = part_ptr[part], part_ptr[part + 1]
            if columns.is_set[part]:
                set_key = combine(key, uint64(node[first]))
                none = _draw_set(tables, work, sums, n_ones, first, last, weight, set_key)
                sums.times_none[part] += weight * none
            else:
                for c in range(first, last, WIDTH):
                    _draw_eight(tables, work, sums, n_ones, c, node, weight, key)
        for place in range(n_ones):
            i = ones[place]
            sums.noise[i] += weight * tables.leak_works[i] * (1.0 + work.off[place])
        scale = splat(weight)
        for c in range(0, width, WIDTH):
            on = fma(scale, load(work.probability, c), load(sums.times_on, c))
            store(sums.times_on, c, on)
        for i in missing:
            sums.unseen[i] += weight
            for c in range(0, width, WIDTH):
                on = fma(scale, load(work.probability, c), load(sums.unseen_on, i * width + c))
                store(sums.unseen_on, i * width + c, on)
        for c in range(width):
            k = node[c]
            if k >= 0:
                states[row, k] = work.state[c]


@inner()
def _clamp(columns, work, clamp):
    """Take over what is known of hidden nodes."""
    for c in range(columns.width):
        k = columns.node[c]
        work.known[c] = clamp[k] if k >= 0 else 0
        if work.known[c] != FREE:
            work.state[c] = work.known[c]


@inner()
def _enter_row(columns, tables, work, ones, missing):
    """Fill what depends on the visibles of a row, and the sums for its states."""
    width, n_ones = columns.width, len(ones)
    for place in range(n_ones):
        work.ones[place] = ones[place] * width
        work.leak[place] = tables.leak[ones[place]]
        work.sums[place] = work.leak[place]
    for place in range(n_ones, -(-n_ones // WIDTH) * WIDTH):
        work.sums[place] = 1.0  # any number: lanes that are never read
        work.less[place] = 1.0
    # Being on costs theta of every child that is off.
    for c in range(0, width, WIDTH):
        cost = load(tables.total, c)
        for place in range(n_ones):
            cost = cost - load(tables.theta, work.ones[place] + c)
        for i in missing:
            cost = cost - load(tables.theta, i * width + c)
        store(work.net, c, load(tables.log_odds, c) - cost)
    for c in range(width):
        if work.state[c]:
            for place in range(n_ones):
                work.sums[place] += tables.theta[work.ones[place] + c]
    _refresh(work.sums, work.off, n_ones)


@inner()
def _refresh(sums, off, n_ones):
    """``off = 1 / (exp(B) - 1)`` from the sums B."""
    for place in range(0, n_ones, WIDTH):
        rest, works = exp_minus(load(sums, place))
        store(off, place, rest / works)


@inner()
def _without(tables, work, n_ones, c):
    """Fill ``less`` and ``less_off``: the sums without the node of column c."""
    for place in range(n_ones):
        # Never below the leak, whatever the rounding.
        less = work.sums[place] - tables.theta[work.ones[place] + c]
        work.less[place] = max(less, work.leak[place])
    _refresh(work.less, work.less_off, n_ones)


@inner()
def _leave(work, n_ones):
    """Make the sums without a node the present ones."""
    for place in range(0, n_ones, WIDTH):
        store(work.sums, place, load(work.less, place))
        store(work.off, place, load(work.less_off, place))


@inner()
def _switch_on(tables, work, n_ones, c):
    """Add the node of column c to the sums."""
    for place in range(n_ones):
        work.sums[place] += tables.theta[work.ones[place] + c]
    _refresh(work.sums, work.off, n_ones)


@inner(forceinline=True)
def _gains(tables, work, n_ones, c):
    """Log-odds of eight nodes that are off, from column c."""
    one = splat(1.0)
    gain, factor, bound = load(work.net, c), one, 1.0
    for place in range(n_ones):
        odds = work.off[place]
        # No factor is above 1 + off: all lanes overflow late enough if this product does not.
        bound *= 1.0 + odds
        if bound > LARGE:
            gain = gain + log_one_plus(factor - one)[0]
            factor, bound = one, 1.0 + odds
        factor = factor * fma(load(tables.works, work.ones[place] + c), splat(odds), one)
    return gain + log_one_plus(factor - one)[0]


@inner(forceinline=True)
def _credit_eight(tables, work, sums, n_ones, c, expected):
    """Credit of the edges of eight nodes, equation T38; ``expected``: weight times probability.

    The sums are without them. In terms of it, the share of an edge is works (1 + off) / (1 + works
    off).
    """
    one = splat(1.0)
    for place in range(n_ones):
        odds, at = splat(work.off[place]), work.ones[place] + c
        works = load(tables.works, at)
        share = works * (one + odds) / fma(works, odds, one)
        store(sums.credit, at, fma(expected, share, load(sums.credit, at)))


@inner()
def _draw_set(tables, work, sums, n_ones, first, last, weight, key):
    """Draw a set of alternatives given all else; return the probability that none is on.

    Equation T52: the odds of each against none are those of an independent node, the others off.
    """
    probability, known = work.probability, work.known
    for c in range(first, last):
        if work.state[c]:
            _without(tables, work, n_ones, c)
            _leave(work, n_ones)
            work.state[c] = 0
    for c in range(first, last, WIDTH):
        store(probability, c, _gains(tables, work, n_ones, c))
        for lane in range(c, c + WIDTH):
            if known[lane] != FREE:
                probability[lane] = CERTAIN if known[lane] else IMPOSSIBLE
    none = softmax(probability, first, last)
    for c in range(first, last, WIDTH):
        share = load(probability, c)
        if reduce_max(share) >= NEGLIGIBLE:
            _credit_eight(tables, work, sums, n_ones, c, share * splat(weight))
    chosen = choose(probability, first, last, none, uniform_of(key))
    if chosen >= 0:
        work.state[chosen] = 1
        _switch_on(tables, work, n_ones, chosen)
    return none


@inner()
def _draw_eight(tables, work, sums, n_ones, first, node, weight, key):
    """Draw eight independent nodes one after another, each given all else."""
    done, last = first, first + WIDTH
    while done < last:
        store(work.fresh, 0, logistic(_gains(tables, work, n_ones, first)))
        store(work.lanes, 0, splat(0.0))
        changed = -1
        while done < last and changed < 0:
            c, k = done, node[done]
            done += 1
            if k < 0:
                break  # from here on columns only fill up
            if work.state[c]:
                _without(tables, work, n_ones, c)
                probability = 1.0
                if work.known[c] == FREE:
                    probability = logistic_of(_gain_of_one(tables, work, n_ones, c))
                _credit_one(tables, work, sums, n_ones, c, weight * probability)
            else:
                probability = work.fresh[c - first] if work.known[c] == FREE else 0.0
                work.lanes[c - first] = probability
            work.probability[c] = probability
            if (uniform_of(combine(key, uint64(k))) < probability) != work.state[c]:
                changed = c
        expected = load(work.lanes, 0)
        if reduce_max(expected) >= NEGLIGIBLE:
            _credit_eight(tables, work, sums, n_ones, first, expected * splat(weight))
        if changed < 0:
            break
        work.state[changed] = 1 - work.state[changed]
        if work.state[changed]:
            _switch_on(tables, work, n_ones, changed)
        else:
            _leave(work, n_ones)


@inner()
def _gain_of_one(tables, work, n_ones, c):
    """Log-odds of a node that is on, from the sums without it."""
    gain, factor = work.net[c], 1.0
    for place in range(n_ones):
        factor *= 1.0 + tables.works[work.ones[place] + c] * work.less_off[place]
        if factor > 1e7:  # off is below 1e301: one more factor cannot overflow
            gain += math.log(factor)
            factor = 1.0
    return gain + math.log(factor)


@inner()
def _credit_one(tables, work, sums, n_ones, c, expected):
    """Credit of the edges of a node that is on, from the sums without it."""
    for place in range(n_ones):
        odds, at = work.less_off[place], work.ones[place] + c
        works = tables.works[at]
        sums.credit[at] += expected * works * (1.0 + odds) / (1.0 + works * odds)
