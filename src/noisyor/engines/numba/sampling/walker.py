"""The part of a row in which hidden nodes interact, and configurations of it, flip by flip.

Equations T35 and T36 of docs/theory.md. A `Local` model keeps the hidden nodes that interact and,
of their edges, those into visibles that are on and into other hidden nodes. A hidden node without
any such edge is *isolated*: given the row it is independent of all others, so it is summed out in
closed form. In a network of twelve thousand diseases all but a few hundred are isolated.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import uint64

from noisyor.engines.contract import FREE
from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.scalar import log_expm1, mix

KNOWN = 1e300
"""Log-odds of a node that is known to be on."""


class Local(NamedTuple):
    """One row as seen by the nodes that interact.

    ``hidden`` (n,) their numbers; ``clamp`` (n,) evidence on them; ``cost`` (n,) of being on, and
    ``net_cost`` (n,) the same without the edges into active visibles. Children are numbered by
    slots: active visibles first, then the n nodes; ``leak`` (slots,). Edges of node j are
    ``ptr[j]:ptr[j + 1]`` of ``slot``, ``theta`` and ``works``, the probability 1 - exp(-theta);
    those into visibles come first and end at ``visible_end[j]``. ``offset`` is the part of
    log p(h, x) that does not depend on the nodes, isolated ones summed out; ``isolated``
    (n_hidden,) log-odds of the isolated nodes, NaN for the others.
    """

    hidden: npt.NDArray[np.int32]
    clamp: npt.NDArray[np.uint8]
    cost: npt.NDArray[np.float64]
    net_cost: npt.NDArray[np.float64]
    n_ones: int
    leak: npt.NDArray[np.float64]
    ptr: npt.NDArray[np.int64]
    visible_end: npt.NDArray[np.int64]
    slot: npt.NDArray[np.int32]
    theta: npt.NDArray[np.float64]
    works: npt.NDArray[np.float64]
    offset: float
    isolated: npt.NDArray[np.float64]


class Walker(NamedTuple):
    """A configuration that changes node by node.

    ``state`` (n,); by slot: ``sums``, the total parameter B, ``odds`` = log(exp(B) - 1) and ``off``
    = 1 / (exp(B) - 1).
    """

    state: npt.NDArray[np.uint8]
    sums: npt.NDArray[np.float64]
    odds: npt.NDArray[np.float64]
    off: npt.NDArray[np.float64]


@njit(cache=True, nogil=True)
def localize(graph, parameters, rows, row):
    """The local model of a row; isolated nodes are summed out into its offset."""
    n_visible, n_hidden = graph.n_visible, graph.n_hidden
    ones = rows.columns[rows.ptr[row] : rows.ptr[row + 1]]
    missing = rows.missing_columns[rows.missing_ptr[row] : rows.missing_ptr[row + 1]]
    slot_of = np.empty(n_visible + n_hidden, dtype=np.int32)
    for node in range(n_visible + n_hidden):
        slot_of[node] = -1
    for place in range(len(ones)):
        slot_of[ones[place]] = place
    # Being on costs theta of every child; children that are on give it back through their odds.
    cost, isolated = np.empty(n_hidden), np.empty(n_hidden)
    clamp, n_clamps = np.empty(n_hidden, dtype=np.uint8), rows.clamp.shape[0]
    for k in range(n_hidden):
        cost[k], isolated[k], clamp[k] = parameters.total[k], np.nan, FREE
        if n_clamps > 0:
            clamp[k] = rows.clamp[min(row, n_clamps - 1), k]
    offset = -parameters.total_leak
    for i in missing:
        offset += parameters.leak[i]
        for edge in range(graph.ptr[i], graph.ptr[i] + graph.n_parents[i]):
            cost[graph.parent[edge]] -= parameters.theta[edge]

    # First pass: who interacts, and how many edges that takes. Slots of visibles come first.
    hidden = np.empty(n_hidden, dtype=np.int32)
    n, n_edges = 0, 0
    for k in range(n_hidden):
        node = n_visible + k
        edges = 0
        for position in range(graph.out_ptr[k], graph.out_ptr[k + 1]):
            child = graph.out_child[position]
            if child >= n_visible or slot_of[child] >= 0:
                edges += 1
        # No parents, and no child that is on or hidden: independent of all others, equation T35.
        if edges == 0 and graph.n_parents[node] == 0:
            if clamp[k] == FREE:
                odds = log_expm1(parameters.leak[node]) - cost[k]
                offset += max(odds, 0.0) + math.log1p(math.exp(-abs(odds)))
                isolated[k] = odds
                continue
            if clamp[k] == 0:
                isolated[k] = -KNOWN
                continue
            offset += log_expm1(parameters.leak[node]) - cost[k]
            isolated[k] = KNOWN
            continue
        slot_of[node] = len(ones) + n
        hidden[n] = k
        n += 1
        n_edges += edges

    # Second pass: fill arrays of the right size.
    leak = np.empty(len(ones) + n)
    for place in range(len(ones)):
        leak[place] = parameters.leak[ones[place]]
    ptr, visible_end = np.zeros(n + 1, dtype=np.int64), np.zeros(n, dtype=np.int64)
    slot, theta, works = np.empty(n_edges, np.int32), np.empty(n_edges), np.empty(n_edges)
    local_cost, net_cost, local_clamp = np.empty(n), np.empty(n), np.empty(n, dtype=np.uint8)
    n_edges = 0
    for j in range(n):
        k = hidden[j]
        leak[len(ones) + j] = parameters.leak[n_visible + k]
        local_cost[j], net_cost[j], local_clamp[j] = cost[k], cost[k], clamp[k]
        visible_end[j] = n_edges
        for position in range(graph.out_ptr[k], graph.out_ptr[k + 1]):
            child = slot_of[graph.out_child[position]]
            if child >= 0:
                slot[n_edges] = child
                theta[n_edges] = parameters.theta[graph.out_edge[position]]
                works[n_edges] = -math.expm1(-theta[n_edges])
                n_edges += 1
                if child < len(ones):  # children of a node are in ascending order
                    net_cost[j] -= theta[n_edges - 1]
                    visible_end[j] = n_edges
        ptr[j + 1] = n_edges
    return Local(
        hidden[:n],
        local_clamp,
        local_cost,
        net_cost,
        len(ones),
        leak,
        ptr,
        visible_end,
        slot,
        theta,
        works,
        offset,
        isolated,
    )


@njit(cache=True, nogil=True)
def allocate_walker(local):
    """A walker with nothing on, its sums not filled in yet."""
    n_slots = len(local.leak)
    state = np.zeros(len(local.hidden), dtype=np.uint8)
    return Walker(state, np.empty(n_slots), np.empty(n_slots), np.empty(n_slots))


@njit(cache=True, nogil=True)
def enter_state(local, walker):
    """Fill what depends on the state of a walker; return its log p(h, x)."""
    leak, ptr, slot, theta, n_ones = local.leak, local.ptr, local.slot, local.theta, local.n_ones
    state, sums, odds, off = walker.state, walker.sums, walker.odds, walker.off
    for place in range(len(leak)):
        sums[place] = leak[place]
    for j in range(len(state)):
        if state[j]:
            for edge in range(ptr[j], ptr[j + 1]):
                sums[slot[edge]] += theta[edge]
    value = local.offset
    for place in range(len(leak)):
        odds[place] = log_expm1(sums[place])
        off[place] = math.exp(-odds[place])
    for place in range(n_ones):
        value += odds[place]
    for j in range(len(state)):
        if state[j]:
            value += odds[n_ones + j] - local.cost[j]
    return value


@njit(cache=True, nogil=True)
def gain_on(local, walker, j):
    """Log-odds of node j given all others: log p(h, x) with j on minus that with j off.

    Equation T19, with T36 where many children are concerned.
    """
    n_ones, ptr, slot, theta = local.n_ones, local.ptr, local.slot, local.theta
    state, sums, odds, off = walker.state, walker.sums, walker.odds, walker.off
    end = local.visible_end[j]
    sign = -1.0 if state[j] else 1.0
    if state[j]:
        gain = odds[n_ones + j] - local.cost[j]
        for edge in range(ptr[j], end):
            child = slot[edge]
            # Never below the leak, whatever the rounding.
            without = max(sums[child] - theta[edge], local.leak[child])
            gain += odds[child] - log_expm1(without)
    else:
        # Switching on multiplies the probability of an active child by 1 + works * off, with
        # off = 1 / (exp(B) - 1): one logarithm for many children, where most of the time goes.
        # theta of these edges cancels against the cost, hence ``net_cost``. Equation T36.
        works = local.works
        gain, factor = odds[n_ones + j] - local.net_cost[j], 1.0
        for edge in range(ptr[j], end):
            factor *= 1.0 + works[edge] * off[slot[edge]]
            if factor > 1e7:  # off is below 1e301: one more factor cannot overflow
                gain += math.log(factor)
                factor = 1.0
        gain += math.log(factor)
    # Hidden children may be off, and then they only cost: that is in ``cost`` already.
    for edge in range(end, ptr[j + 1]):
        child = slot[edge]
        if state[child - n_ones]:
            other = max(sums[child] + sign * theta[edge], local.leak[child])
            gain += sign * (log_expm1(other) - odds[child])
    return gain


@njit(cache=True, nogil=True)
def flip_node(local, walker, j):
    """Switch node j, and bring the sums of its children up to date."""
    leak, ptr, slot, theta = local.leak, local.ptr, local.slot, local.theta
    state, sums, odds, off = walker.state, walker.sums, walker.odds, walker.off
    sign = -1.0 if state[j] else 1.0
    state[j] = 1 - state[j]
    for edge in range(ptr[j], ptr[j + 1]):
        child = slot[edge]
        sums[child] = max(sums[child] + sign * theta[edge], leak[child])
        odds[child] = log_expm1(sums[child])
        off[child] = math.exp(-odds[child])


@njit(cache=True, nogil=True)
def uniform_of(key):
    """A number strictly between 0 and 1: U of equation T18."""
    return (np.float64(mix(key) >> uint64(11)) + 0.5) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True)
def logistic_of(odds):
    """Probability from log-odds, without overflow."""
    return 1.0 / (1.0 + math.exp(-min(max(odds, -700.0), 700.0)))
