"""Gibbs sweeps and annealed importance sampling of networks that are laid out as matrices.

Equations T35 to T38 and T41 of docs/theory.md. Where no hidden node has parents and most edges
exist, edges need no lists: column k of a matrix (n_visible, width) holds the edges of hidden node
k. Padding columns, which fill the width up to a multiple of eight, and missing edges have theta =
0. Padding columns are never on.

With B_i the total parameter of visible i that is on and ``off_i = 1 / (exp(B_i) - 1)``, a hidden
node that is off has the log-odds

    gain = log-odds of its prior - cost + sum over visibles i that are on of log(1 + works_i off_i)

so eight nodes take one multiplication and one addition for each such visible, and one logarithm of
the product. Nodes are drawn one after another, but most do not change: the values computed for
eight nodes stay valid until one of them changes.

Chains of annealed importance sampling start from independent nodes with given probabilities. They
pass to p(h, x) by Gibbs sweeps whose log-odds are a mean of the log-odds at the start and at the
end. The weight `heat` of the latter rises in equal steps; it is 1 in a Gibbs sweep.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import uint64

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor.engines.contract import FREE, Evidence, GibbsResult, NoiseKey, TemperingResult
from noisyor.engines.numba.arguments import (
    Packed,
    Workspace,
    advance,
    aligned_zeros,
    arrays,
    launch,
    pack,
    unpack,
)
from noisyor.engines.numba.cache import inner, njit
from noisyor.engines.numba.graph import TINY, Rows, log_expm1, read_clamps, rows_of
from noisyor.engines.numba.scalar import combine, logistic_of, maximum, uniform_of
from noisyor.engines.numba.simd import (
    LANES,
    exp_minus,
    fma,
    load,
    log_one_plus,
    logistic,
    reduce_max,
    splat,
    store,
)
from noisyor.model.network import Network

_MIN_FILLED = 0.25
"""A network is laid out as a matrix if at least this share of the matrix are edges."""

_MAX_PRODUCT = 1e290
"""Largest product of factors before its logarithm is taken, so that none overflows."""

_MIN_PROBABILITY = 1e-12
"""Smallest probability of a node whose edges get successes: less is below rounding."""

_IMPOSSIBLE = -1e30
"""Log-odds of padding columns; finite, so that differences stay finite."""

_AFTER_NODES = np.uint64(2**32)
"""Keys of sweeps begin where those of nodes end, so that no two draws share a key."""


class Matrices(NamedTuple):
    """Parameters by column: equations T3 and T4 of docs/theory.md.

    ``theta`` and ``works`` = 1 - exp(-theta) (n_visible * width,), row after row. By column:
    ``total``, sum of theta over the visibles, and ``log_odds`` of the prior. By visible: ``leak``
    and ``leak_works``. ``total_leak`` is the sum over all nodes.
    """

    n_hidden: int
    width: int
    theta: npt.NDArray[np.float64]
    works: npt.NDArray[np.float64]
    total: npt.NDArray[np.float64]
    log_odds: npt.NDArray[np.float64]
    leak: npt.NDArray[np.float64]
    leak_works: npt.NDArray[np.float64]
    total_leak: float


class Work(Workspace):
    """Scratch of one thread."""

    # Log-odds of a node without the visibles that are on, and where chains start; its probability
    # in the present sweep; evidence on it.
    per_column = arrays(float64="net start_odds probability", uint8="state known")
    # By position among the ones of a row: B and ``off``, both without a node that is on, the leak,
    # and the first entry of the matrix row.
    per_one = arrays(float64="sums off less less_off leak", int64="ones")
    # Probabilities of eight nodes, and of those that earn successes.
    per_lane = arrays(int(LANES), float64="fresh lanes")


class Sums(Workspace):
    """Sums over a block of rows; without entries if only draws are wanted."""

    per_edge = arrays(float64="successes")
    per_column = arrays(float64="times_on")
    # ``unseen``: weight of the rows in which a visible is missing.
    per_visible = arrays(float64="leak_successes unseen")
    # The part of ``times_on`` in rows in which a visible is missing; empty if nothing is missing.
    per_unseen_edge = arrays(float64="unseen_on")
    per_block = arrays(1, float64="weight")


class Block(Workspace):
    """Memory of one block of rows."""

    work: Work
    sums: Sums


def is_dense(network: Network) -> bool:
    """Return whether to lay a network out as a matrix."""
    if network.child_ptr[network.n_visible] < network.n_edges:
        return False
    width = -(-network.n_hidden // LANES) * LANES
    return bool(network.n_edges >= _MIN_FILLED * network.n_visible * width)


def _edge_entries(network: Network, width: int) -> npt.NDArray[np.int64]:
    """Return the entry of the matrix of each edge (n_edges,); built once for a graph."""
    entries: npt.NDArray[np.int64] | None = network.engine_cache.get("numba matrix")
    if entries is None:
        entries = network.edge_child.astype(np.int64) * width + network.parent
        network.engine_cache["numba matrix"] = entries
    return entries


def matrices_of(network: Network) -> Matrices:
    """Return the parameters of a network as matrices."""
    n_visible, n_hidden = network.n_visible, network.n_hidden
    width = -(-n_hidden // LANES) * LANES
    value = np.maximum(network.theta, TINY)
    theta = aligned_zeros(n_visible * width, np.float64)
    theta[_edge_entries(network, width)] = value[network.param]
    works = aligned_zeros(n_visible * width, np.float64)
    np.negative(np.expm1(-theta, out=works), out=works)
    leak = value[network.leak_param]
    log_odds = np.full(width, _IMPOSSIBLE)
    log_odds[:n_hidden] = log_expm1(leak[n_visible:])
    total = theta.reshape(n_visible, width).sum(axis=0)
    total_leak, leak = float(leak.sum()), leak[:n_visible]
    return Matrices(
        n_hidden, width, theta, works, total, log_odds, leak, -np.expm1(-leak), total_leak
    )


def _allocate(tables: Matrices, with_sums: bool = False, missing: bool = False) -> Packed[Block]:
    """Allocate scratch and zeros for a block of rows."""
    n_visible, width = len(tables.leak), tables.width
    n_edges = n_visible * width
    work = Work(per_column=width, per_one=-(-n_visible // LANES) * LANES)
    sums = Sums(
        per_edge=n_edges if with_sums else 0,
        per_column=width if with_sums else 0,
        per_visible=n_visible if with_sums else 0,
        per_unseen_edge=n_edges if missing else 0,
    )
    return pack(Block(work=work, sums=sums))


# ---- Gibbs sweeps


class Sweep(NamedTuple):
    """Arguments of a call, which all blocks share; ``states`` (n_rows, n_hidden)."""

    rows: Rows
    key: NoiseKey
    tables: Matrices
    states: npt.NDArray[np.uint8]


def dense_sweep(
    network: Network,
    tables: Matrices,
    evidence: Evidence,
    states: BinaryArray,
    key: NoiseKey,
    sum_blocks: Callable[[Callable[[int, int], list[FloatArray]], int], list[FloatArray]],
) -> GibbsResult:
    """Draw every hidden node of every row once; ``sum_blocks`` is the engine's sum over rows."""
    states = np.array(states, dtype=np.uint8, order="C")
    sweep = pack(Sweep(rows_of(evidence), key, tables, states))
    missing = len(evidence.missing_columns) > 0

    def block(begin: int, end: int) -> list[FloatArray]:
        memory = _allocate(tables, True, missing)
        launch(sweep_dense, (sweep, memory), begin, end)
        return list(memory.values.sums)

    sums = dict(zip(Sums._fields, sum_blocks(block, evidence.n_rows), strict=True))
    return GibbsResult(states, *_by_parameter(network, tables.width, **sums))


def _by_parameter(
    network: Network,
    width: int,
    *,
    successes: FloatArray,
    times_on: FloatArray,
    leak_successes: FloatArray,
    unseen: FloatArray,
    unseen_on: FloatArray,
    weight: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return successes and trials (n_params,) each, equation T38, from the totals of `Sums`."""
    entries = _edge_entries(network, width)
    of_visible, of_hidden = np.split(network.leak_param, [network.n_visible])
    times_on, total = times_on[: network.n_hidden], float(weight[0])

    def add_up(edges: FloatArray, visible: FloatArray, hidden: FloatArray) -> FloatArray:
        result = np.bincount(network.param, edges, network.n_params)
        result += np.bincount(of_visible, visible, network.n_params)
        return np.asarray(result + np.bincount(of_hidden, hidden, network.n_params))

    on = times_on[network.parent]
    if len(unseen_on):
        on = on - unseen_on[entries]
    return (
        add_up(successes[entries], leak_successes, times_on),
        add_up(on, total - unseen, np.full(network.n_hidden, total)),
    )


@njit("dense Gibbs sweep")
def sweep_dense(sweep_address, block_address, begin, end):
    """Draw the hidden nodes of rows ``begin`` to ``end`` once; ``states`` change in place.

    Draws and sums are those of `noisyor.engines.numba.gibbs.sweep_rows`.
    """
    sweep, block = unpack(sweep_address, Sweep), unpack(block_address, Block)
    work, sums, tables, rows = block.work, block.sums, sweep.tables, sweep.rows
    width, n_hidden = tables.width, tables.n_hidden
    for row in range(begin, end):
        weight = rows.weight[row] if rows.weighted else 1.0
        sums.weight[0] += weight
        key = combine(
            combine(uint64(sweep.key.seed), uint64(rows.row_ids[row])), uint64(sweep.key.step)
        )
        n_ones = _enter_row(tables, work, rows, row)
        for c in range(n_hidden):
            state = sweep.states[row * n_hidden + c]
            work.state[c] = state if work.known[c] == FREE else work.known[c]
        _enter_state(tables, work, n_ones)
        for c in range(0, width, LANES):
            _draw_eight(tables, work, sums, n_ones, c, 1.0, weight, key)
        for index in range(n_ones):
            i = rows.columns[rows.ptr[row] + index]
            sums.leak_successes[i] += weight * tables.leak_works[i] * (1.0 + work.off[index])
        scale = splat(weight)
        for c in range(0, width, LANES):
            on = fma(scale, load(work.probability, c), load(sums.times_on, c))
            store(sums.times_on, c, on)
        for position in range(rows.missing_ptr[row], rows.missing_ptr[row + 1]):
            i = rows.missing_columns[position]
            sums.unseen[i] += weight
            for c in range(0, width, LANES):
                on = fma(scale, load(work.probability, c), load(sums.unseen_on, i * width + c))
                store(sums.unseen_on, i * width + c, on)
        for c in range(n_hidden):
            sweep.states[row * n_hidden + c] = work.state[c]


# ---- annealed importance sampling


class Tempering(NamedTuple):
    """A call. ``first`` (n_rows, n_hidden) probability of each node at the start."""

    rows: Rows
    key: NoiseKey
    tables: Matrices
    n_chains: int
    n_steps: int
    first: npt.NDArray[np.float64]
    result: TemperingResult


def dense_temper(
    tables: Matrices,
    evidence: Evidence,
    first: FloatArray,
    n_chains: int,
    n_steps: int,
    key: NoiseKey,
    share: Callable[[Callable[[int, int], None], int], None],
) -> TemperingResult:
    """Run the chains of every row; ``share`` is the engine's loop over rows."""
    n_rows, n_hidden = first.shape
    result = TemperingResult(np.empty((n_rows, n_chains)), np.empty((n_rows, n_chains, n_hidden)))
    first = np.ascontiguousarray(first, dtype=np.float64)
    call = pack(Tempering(rows_of(evidence), key, tables, n_chains, n_steps, first, result))
    share(lambda begin, end: launch(anneal_dense, (call, _allocate(tables)), begin, end), n_rows)
    return result


@njit("dense annealing")
def anneal_dense(call_address, block_address, begin, end):
    """Run the chains of rows ``begin`` to ``end``."""
    call, block = unpack(call_address, Tempering), unpack(block_address, Block)
    work, sums, tables, rows = block.work, block.sums, call.tables, call.rows
    n_hidden, n_steps = tables.n_hidden, call.n_steps
    for row in range(begin, end):
        row_key = combine(uint64(call.key.seed), uint64(rows.row_ids[row]))
        first = advance(call.first, row * n_hidden)
        n_ones, log_off = _enter_row(tables, work, rows, row), 0.0
        for c in range(n_hidden):
            work.start_odds[c] = 0.0
            if work.known[c] == FREE:
                work.start_odds[c] = math.log(first[c] / (1.0 - first[c]))
                log_off += math.log1p(-first[c])
        # log p(h, x) of the state in which nothing is on, but for the factors of `_log_ratio`.
        base = -tables.total_leak
        for index in range(n_ones):
            base += work.leak[index]
        for position in range(rows.missing_ptr[row], rows.missing_ptr[row + 1]):
            base += tables.leak[rows.missing_columns[position]]
        for chain in range(call.n_chains):
            chain_key = combine(row_key, uint64(chain))
            for c in range(n_hidden):
                work.state[c] = work.known[c]
                if work.known[c] == FREE:
                    work.state[c] = uniform_of(combine(chain_key, uint64(c))) < first[c]
            log_weight = 0.0
            for step in range(n_steps):
                # Sums are computed again in every step, so that rounding does not accumulate.
                _enter_state(tables, work, n_ones)
                log_weight += (base - log_off + _log_ratio(tables, work, n_ones)) / n_steps
                heat = (step + 1) / n_steps
                key = combine(chain_key, uint64(step) + _AFTER_NODES)
                for c in range(0, tables.width, LANES):
                    _draw_eight(tables, work, sums, n_ones, c, heat, 0.0, key)
            draw = row * call.n_chains + chain
            call.result.log_weight[draw] = log_weight
            for c in range(n_hidden):
                call.result.probability[draw * n_hidden + c] = work.probability[c]


@inner()
def _log_ratio(tables, work, n_ones):
    """Return log p(h, x) minus log q(h) of the present state, up to a constant.

    A visible that is on adds ``log(exp(B) - 1) = B - log(1 + off)``. The parameters of edges in B
    cancel against the cost of the nodes, as they do in ``net``.
    """
    value, factor = 0.0, 1.0
    for c in range(tables.n_hidden):
        if work.state[c]:
            value += work.net[c] - work.start_odds[c]
    for index in range(n_ones):
        factor *= 1.0 + work.off[index]
        if factor > 1e7:  # off is below 1e301: one more factor cannot overflow
            value -= math.log(factor)
            factor = 1.0
    return value - math.log(factor)


# ---- the state of a row, and draws


@inner(inline="always")
def _enter_row(tables, work, rows, row):
    """Fill the arrays that depend on the row; return its number of ones."""
    read_clamps(tables.n_hidden, rows, row, work.known)
    width = tables.width
    ones, n_ones = rows.ptr[row], rows.ptr[row + 1] - rows.ptr[row]
    for index in range(n_ones):
        i = rows.columns[ones + index]
        work.ones[index] = i * width
        work.leak[index] = tables.leak[i]
    for index in range(n_ones, -(-n_ones // LANES) * LANES):
        work.sums[index] = 1.0  # any number: lanes that are never read
        work.less[index] = 1.0
    # Being on costs theta of every child that is off.
    for c in range(0, width, LANES):
        cost = load(tables.total, c)
        for index in range(n_ones):
            cost = cost - load(tables.theta, work.ones[index] + c)
        for position in range(rows.missing_ptr[row], rows.missing_ptr[row + 1]):
            cost = cost - load(tables.theta, rows.missing_columns[position] * width + c)
        store(work.net, c, load(tables.log_odds, c) - cost)
    return n_ones


@inner(inline="always")
def _enter_state(tables, work, n_ones):
    """Fill the sums for the present state."""
    for index in range(n_ones):
        work.sums[index] = work.leak[index]
    for c in range(tables.width):
        if work.state[c]:
            for index in range(n_ones):
                work.sums[index] += tables.theta[work.ones[index] + c]
    _refresh(work.sums, work.off, n_ones)


@inner()
def _refresh(sums, off, n_ones):
    """Compute ``off = 1 / (exp(B) - 1)`` from the sums B."""
    for index in range(0, n_ones, LANES):
        rest, works = exp_minus(load(sums, index))
        store(off, index, rest / works)


@inner()
def _without(tables, work, n_ones, c):
    """Fill ``less`` and ``less_off``: the sums without the node of column c."""
    for index in range(n_ones):
        # Never below the leak, whatever the rounding.
        less = work.sums[index] - tables.theta[work.ones[index] + c]
        work.less[index] = maximum(less, work.leak[index])
    _refresh(work.less, work.less_off, n_ones)


@inner()
def _leave(work, n_ones):
    """Replace the present sums by those without a node."""
    for index in range(0, n_ones, LANES):
        store(work.sums, index, load(work.less, index))
        store(work.off, index, load(work.less_off, index))


@inner()
def _switch_on(tables, work, n_ones, c):
    """Add the node of column c to the sums."""
    for index in range(n_ones):
        work.sums[index] += tables.theta[work.ones[index] + c]
    _refresh(work.sums, work.off, n_ones)


@inner(forceinline=True)
def _gains(tables, work, n_ones, c):
    """Return the log-odds of eight nodes that are off, from column c on."""
    one = splat(1.0)
    gain, factor, bound = load(work.net, c), one, 1.0
    for index in range(n_ones):
        odds = work.off[index]
        # No factor is above 1 + off: all lanes overflow late enough if this product does not.
        bound *= 1.0 + odds
        if bound > _MAX_PRODUCT:
            gain = gain + log_one_plus(factor - one)[0]
            factor, bound = one, 1.0 + odds
        factor = factor * fma(load(tables.works, work.ones[index] + c), splat(odds), one)
    return gain + log_one_plus(factor - one)[0]


@inner(forceinline=True)
def _successes_of_eight(tables, work, sums, n_ones, c, expected):
    """Add the successes of the edges of eight nodes, equation T38.

    ``expected`` is weight times probability. The sums are without these nodes; then the share of an
    edge is works (1 + off) / (1 + works off).
    """
    one = splat(1.0)
    for index in range(n_ones):
        odds, at = splat(work.off[index]), work.ones[index] + c
        works = load(tables.works, at)
        share = works * (one + odds) / fma(works, odds, one)
        store(sums.successes, at, fma(expected, share, load(sums.successes, at)))


@inner()
def _draw_eight(tables, work, sums, n_ones, first, heat, weight, key):
    """Draw eight nodes one after another, each given all others.

    The log-odds are those at the start for ``heat`` 0, of p(h, x) for 1. Successes count ``weight``
    times; with a weight of 0 there are none.
    """
    done, last = first, first + LANES
    start = splat(1.0 - heat) * load(work.start_odds, first)
    while done < last:
        fresh = logistic(fma(splat(heat), _gains(tables, work, n_ones, first), start))
        store(work.fresh, 0, fresh)
        store(work.lanes, 0, splat(0.0))
        changed = -1
        while done < last and changed < 0:
            c = done
            done += 1
            if c >= tables.n_hidden:
                break  # from here on columns only fill up
            if work.state[c]:
                _without(tables, work, n_ones, c)
                probability = 1.0
                if work.known[c] == FREE:
                    gain = heat * _gain_of_one(tables, work, n_ones, c)
                    probability = logistic_of(gain + (1.0 - heat) * work.start_odds[c])
                if weight > 0.0:
                    _successes_of_one(tables, work, sums, n_ones, c, weight * probability)
            else:
                probability = work.fresh[c - first] if work.known[c] == FREE else 0.0
                work.lanes[c - first] = probability
            work.probability[c] = probability
            if (uniform_of(combine(key, uint64(c))) < probability) != work.state[c]:
                changed = c
        expected = load(work.lanes, 0)
        if weight > 0.0 and reduce_max(expected) >= _MIN_PROBABILITY:
            _successes_of_eight(tables, work, sums, n_ones, first, expected * splat(weight))
        if changed < 0:
            break
        work.state[changed] = 1 - work.state[changed]
        if work.state[changed]:
            _switch_on(tables, work, n_ones, changed)
        else:
            _leave(work, n_ones)


@inner()
def _gain_of_one(tables, work, n_ones, c):
    """Return the log-odds of a node that is on, from the sums without it."""
    gain, factor = work.net[c], 1.0
    for index in range(n_ones):
        factor *= 1.0 + tables.works[work.ones[index] + c] * work.less_off[index]
        if factor > 1e7:  # off is below 1e301: one more factor cannot overflow
            gain += math.log(factor)
            factor = 1.0
    return gain + math.log(factor)


@inner()
def _successes_of_one(tables, work, sums, n_ones, c, expected):
    """Add the successes of the edges of a node that is on, from the sums without it."""
    for index in range(n_ones):
        odds, at = work.less_off[index], work.ones[index] + c
        works = tables.works[at]
        sums.successes[at] += expected * works * (1.0 + odds) / (1.0 + works * odds)
