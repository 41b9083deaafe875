"""Annealed importance sampling of networks that are laid out as matrices, eight nodes at a time.

Equation T41 of docs/theory.md, with the layout and the Gibbs draws of `dense_gibbs`. Chains start
from independent nodes with given probabilities and pass to p(h, x) by Gibbs sweeps whose log-odds
are a mean of the log-odds at the start and at the end. The weight `heat` of the latter rises in
equal steps.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import uint64

from noisyor.engines.contract import FREE, NoiseKey
from noisyor.engines.numba.arguments import Workspace, arrays, unpack
from noisyor.engines.numba.cache import inner, njit
from noisyor.engines.numba.dense_gibbs import (
    Matrices,
    Work,
    enter_state,
    enter_visibles,
    gain_of_one,
    gains,
    leave,
    switch_on,
    without,
)
from noisyor.engines.numba.graph import Rows
from noisyor.engines.numba.scalar import combine, logistic_of, uniform_of
from noisyor.engines.numba.simd import LANES, fma, load, logistic, splat, store

_AFTER_NODES = np.uint64(2**32)
"""Keys of sweeps begin where those of nodes end, so that no two draws share a key."""


class Tempering(NamedTuple):
    """A call. ``first`` (n_rows, n_hidden) probability of each node at the start.

    ``base`` is log p(h, x) of the row without ones and of the state in which nothing is on.
    Results: ``log_weight`` (n_rows, n_chains), and ``on`` (n_rows * n_chains, n_hidden), the
    probability of each node in the last sweep of each chain.
    """

    rows: Rows
    key: NoiseKey
    tables: Matrices
    base: float
    n_chains: int
    n_steps: int
    first: npt.NDArray[np.float64]
    log_weight: npt.NDArray[np.float64]
    on: npt.NDArray[np.float64]


class Memory(Workspace, aligned=True):
    """Memory of one thread; ``odds`` are the log-odds at the start."""

    per_column = arrays(float64="odds")
    work: Work


def allocate(tables: Matrices) -> Memory:
    """Scratch for one thread."""
    work = Work(per_column=tables.width, per_one=-(-len(tables.leak) // LANES) * LANES)
    work.known.fill(FREE)
    return Memory(work=work, per_column=tables.width)


@njit("dense annealing")
def anneal_dense(call_address, memory_address, begin, end):
    """Run the chains of rows ``begin`` to ``end``."""
    call, memory = unpack(call_address, Tempering), unpack(memory_address, Memory)
    work, odds, tables, rows = memory.work, memory.odds, call.tables, call.rows
    n_hidden, n_steps = tables.n_hidden, call.n_steps
    for row in range(begin, end):
        n_ones = rows.ptr[row + 1] - rows.ptr[row]
        row_key = combine(uint64(call.key.seed), uint64(rows.row_ids[row]))
        log_off = _enter_first(tables, work, odds, rows, row, call.first)
        enter_visibles(tables, work, rows, row)
        base = call.base
        for index in range(n_ones):
            base += work.leak[index]
        for position in range(rows.missing_ptr[row], rows.missing_ptr[row + 1]):
            base += tables.leak[rows.missing_columns[position]]
        for chain in range(call.n_chains):
            chain_key = combine(row_key, uint64(chain))
            for c in range(n_hidden):
                work.state[c] = work.known[c]
                if work.known[c] == FREE:
                    draw = uniform_of(combine(chain_key, uint64(c)))
                    work.state[c] = draw < call.first[row * n_hidden + c]
            log_weight = 0.0
            for step in range(n_steps):
                # The sums afresh in every step: rounding does not add up.
                enter_state(tables, work, n_ones)
                log_weight += (base - log_off + _log_ratio(tables, work, odds, n_ones)) / n_steps
                heat = (step + 1) / n_steps
                key = combine(chain_key, uint64(step) + _AFTER_NODES)
                for c in range(0, tables.width, LANES):
                    _draw_eight(tables, work, odds, n_ones, c, heat, key)
            line = row * call.n_chains + chain
            call.log_weight[line] = log_weight
            for c in range(n_hidden):
                call.on[line * n_hidden + c] = work.probability[c]


@inner()
def _enter_first(tables, work, odds, rows, row, first):
    """Fill what is known, and the log-odds at the start; return log q of all free nodes off."""
    n_hidden, log_off = tables.n_hidden, 0.0
    clamps = row * n_hidden if rows.n_clamps > 1 else 0  # one line may hold for all rows
    for c in range(tables.width):
        odds[c] = 0.0
        if c >= n_hidden:
            work.state[c] = 0
            continue
        if rows.n_clamps > 0:
            work.known[c] = rows.clamp[clamps + c]
        if work.known[c] == FREE:
            probability = first[row * n_hidden + c]
            odds[c] = math.log(probability / (1.0 - probability))
            log_off += math.log1p(-probability)
    return log_off


@inner()
def _log_ratio(tables, work, odds, n_ones):
    """Log p(h, x) minus log q(h) of the present state, but for what no state changes.

    A visible that is on adds ``log(exp(B) - 1) = B - log(1 + off)``. The parameters of edges in B
    cancel against the cost of the nodes, as they do in ``net``.
    """
    value, factor = 0.0, 1.0
    for c in range(tables.n_hidden):
        if work.state[c]:
            value += work.net[c] - odds[c]
    for index in range(n_ones):
        factor *= 1.0 + work.off[index]
        if factor > 1e7:  # off is below 1e301: one more factor cannot overflow
            value -= math.log(factor)
            factor = 1.0
    return value - math.log(factor)


@inner()
def _draw_eight(tables, work, odds, n_ones, first, heat, key):
    """Draw eight nodes one after another, each given all else."""
    done, last = first, first + LANES
    start = splat(1.0 - heat) * load(odds, first)
    while done < last:
        fresh = logistic(fma(splat(heat), gains(tables, work, n_ones, first), start))
        store(work.fresh, 0, fresh)
        changed = -1
        while done < last and changed < 0:
            c = done
            done += 1
            if c >= tables.n_hidden:
                break  # from here on columns only fill up
            if work.known[c] != FREE:
                work.probability[c] = work.known[c]
                continue
            if work.state[c]:
                without(tables, work, n_ones, c)
                gain = heat * gain_of_one(tables, work, n_ones, c) + (1.0 - heat) * odds[c]
                work.probability[c] = logistic_of(gain)
            else:
                work.probability[c] = work.fresh[c - first]
            if (uniform_of(combine(key, uint64(c))) < work.probability[c]) != work.state[c]:
                changed = c
        if changed < 0:
            break
        work.state[changed] = 1 - work.state[changed]
        if work.state[changed]:
            switch_on(tables, work, n_ones, changed)
        else:
            leave(work, n_ones)
