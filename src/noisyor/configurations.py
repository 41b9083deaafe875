"""Compiled loops over hidden configurations of single rows: sets that grow, chains that cool.

Both loops see a row through a `_Local` model, which keeps the hidden nodes that interact and, of
their edges, those into visibles that are on and into other hidden nodes. A hidden node without any
such edge is *isolated*: given the row it is independent of all others, so it is summed out in
closed form. In a network of twelve thousand diseases all but some hundred are isolated.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit, uint64

from noisyor.engines.numba.arithmetic import combine, log_expm1, mix
from noisyor.engines.numba.cache import forget_stale_kernels
from noisyor.engines.numba.selection import UNOBSERVED

_ON = 1e300
"""Log-odds of a node that is known to be on."""


class Grown(NamedTuple):
    """Results of `grow_rows`.

    ``log_sum`` (n_rows,) log of the sum of p(h, x) over the set; ``size`` (n_rows,) its number of
    configurations of the nodes that are not isolated; ``probability`` (n_rows, n_hidden) of each
    node under the weights of the set, or (0, n_hidden) if not wanted; ``draws``
    (n_rows * n_draws, n_hidden) uint8, configurations drawn by their weights.
    """

    log_sum: npt.NDArray[np.float64]
    size: npt.NDArray[np.int64]
    probability: npt.NDArray[np.float64]
    draws: npt.NDArray[np.uint8]


class Annealed(NamedTuple):
    """Results of `anneal_rows`.

    ``log_weight`` (n_rows, n_chains), whose exponentials average to p(x); ``probability`` and
    ``error`` (n_rows, n_hidden) of each node and its standard error, or (0, n_hidden).
    """

    log_weight: npt.NDArray[np.float64]
    probability: npt.NDArray[np.float64]
    error: npt.NDArray[np.float64]


class Cooling(NamedTuple):
    """Chains of ``n_steps`` sweeps from start to target and ``n_stay`` more at the target."""

    n_chains: int
    n_steps: int
    n_stay: int
    seed: int


class _Local(NamedTuple):
    """One row as seen by the nodes that interact.

    ``hidden`` (n,) their numbers; ``clamp`` (n,) evidence on them; ``cost`` (n,) of being on.
    Children are numbered by slots: active visibles first, then the n nodes; ``leak`` (slots,).
    Edges of node j are ``ptr[j]:ptr[j + 1]`` of ``slot`` and ``theta``. ``offset`` is the part of
    log p(h, x) that does not depend on the nodes, isolated ones summed out; ``isolated``
    (n_hidden,) log-odds of the isolated nodes, NaN for the others.
    """

    hidden: npt.NDArray[np.int32]
    clamp: npt.NDArray[np.uint8]
    cost: npt.NDArray[np.float64]
    n_ones: int
    leak: npt.NDArray[np.float64]
    ptr: npt.NDArray[np.int64]
    slot: npt.NDArray[np.int32]
    theta: npt.NDArray[np.float64]
    offset: float
    isolated: npt.NDArray[np.float64]


@njit(cache=True, nogil=True)
def _localise(graph, parameters, rows, row):
    n_visible, n_hidden = graph.n_visible, graph.n_hidden
    ones = rows.columns[rows.ptr[row] : rows.ptr[row + 1]]
    missing = rows.missing_columns[rows.missing_ptr[row] : rows.missing_ptr[row + 1]]
    slot_of = np.full(n_visible + n_hidden, -1, dtype=np.int32)
    for place in range(len(ones)):
        slot_of[ones[place]] = place
    cost = parameters.total.copy()
    offset = -parameters.total_leak
    for i in missing:
        offset += parameters.leak[i]
        for edge in range(graph.ptr[i], graph.ptr[i] + graph.n_parents[i]):
            cost[graph.parent[edge]] -= parameters.theta[edge]

    hidden = np.empty(n_hidden, dtype=np.int32)
    clamp = np.full(n_hidden, UNOBSERVED, dtype=np.uint8)
    if rows.clamp.shape[0] > 0:
        clamp[:] = rows.clamp[min(row, rows.clamp.shape[0] - 1)]
    isolated = np.full(n_hidden, np.nan)
    n, n_edges = 0, 0
    for k in range(n_hidden):
        node = n_visible + k
        edges = 0
        for position in range(graph.out_ptr[k], graph.out_ptr[k + 1]):
            child = graph.out_child[position]
            if child >= n_visible or slot_of[child] >= 0:
                edges += 1
        if edges == 0 and graph.n_parents[node] == 0:
            if clamp[k] == UNOBSERVED:
                odds = log_expm1(parameters.leak[node]) - cost[k]
                offset += max(odds, 0.0) + math.log1p(math.exp(-abs(odds)))
                isolated[k] = odds
                continue
            if clamp[k] == 0:
                isolated[k] = -_ON
                continue
            offset += log_expm1(parameters.leak[node]) - cost[k]
            isolated[k] = _ON
            continue
        slot_of[node] = len(ones) + n
        hidden[n] = k
        n += 1
        n_edges += edges

    leak = np.empty(len(ones) + n)
    for place in range(len(ones)):
        leak[place] = parameters.leak[ones[place]]
    ptr = np.zeros(n + 1, dtype=np.int64)
    slot = np.empty(n_edges, dtype=np.int32)
    theta = np.empty(n_edges)
    local_cost = np.empty(n)
    local_clamp = np.empty(n, dtype=np.uint8)
    n_edges = 0
    for j in range(n):
        k = hidden[j]
        leak[len(ones) + j] = parameters.leak[n_visible + k]
        local_cost[j], local_clamp[j] = cost[k], clamp[k]
        for position in range(graph.out_ptr[k], graph.out_ptr[k + 1]):
            child = slot_of[graph.out_child[position]]
            if child >= 0:
                slot[n_edges] = child
                theta[n_edges] = parameters.theta[graph.out_edge[position]]
                n_edges += 1
        ptr[j + 1] = n_edges
    return _Local(
        hidden[:n], local_clamp, local_cost, len(ones), leak, ptr, slot, theta, offset, isolated
    )


@njit(cache=True, nogil=True)
def _enter(local, state, sums, odds):
    """Fill total parameters and log-odds of all slots for a state; return its log p(h, x)."""
    leak, ptr, slot, theta, n_ones = local.leak, local.ptr, local.slot, local.theta, local.n_ones
    sums[:] = leak
    for j in range(len(state)):
        if state[j]:
            for edge in range(ptr[j], ptr[j + 1]):
                sums[slot[edge]] += theta[edge]
    value = local.offset
    for place in range(len(sums)):
        odds[place] = log_expm1(sums[place])
    for place in range(n_ones):
        value += odds[place]
    for j in range(len(state)):
        if state[j]:
            value += odds[n_ones + j] - local.cost[j]
    return value


@njit(cache=True, nogil=True)
def _gain(n_ones, leak, ptr, slot, theta, cost, state, sums, odds, j):
    """What flipping node j adds to log p(h, x)."""
    sign = -1.0 if state[j] else 1.0
    gain = sign * (odds[n_ones + j] - cost[j])
    for edge in range(ptr[j], ptr[j + 1]):
        child = slot[edge]
        if child < n_ones or state[child - n_ones]:
            # Never below the leak, whatever the rounding.
            gain += log_expm1(max(sums[child] + sign * theta[edge], leak[child])) - odds[child]
    return gain


@njit(cache=True, nogil=True)
def _flip(leak, ptr, slot, theta, state, sums, odds, j):
    sign = -1.0 if state[j] else 1.0
    state[j] = 1 - state[j]
    for edge in range(ptr[j], ptr[j + 1]):
        child = slot[edge]
        sums[child] = max(sums[child] + sign * theta[edge], leak[child])
        odds[child] = log_expm1(sums[child])


@njit(cache=True, nogil=True)
def _uniform(key):
    """A number strictly between 0 and 1."""
    return (np.float64(mix(key) >> uint64(11)) + 0.5) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True)
def _logistic(odds):
    return 1.0 / (1.0 + math.exp(-min(max(odds, -700.0), 700.0)))


# ---- sets


@njit(cache=True, nogil=True)
def grow_rows(graph, parameters, rows, starts, n_expansions, seed, output, begin, end):
    """Sums over sets of configurations for rows ``begin`` to ``end``.

    The set of a row holds its ``starts`` (n_rows * n_starts, n_hidden) and all single flips of the
    ``n_expansions`` most likely configurations found so far, taken one after another. Sets for
    more expansions contain those for fewer.
    """
    n_starts = len(starts) // len(output.log_sum)
    n_draws = len(output.draws) // len(output.log_sum)
    for row in range(begin, end):
        local = _localise(graph, parameters, rows, row)
        n = len(local.hidden)
        capacity = n_starts + n_expansions * n
        value, names = np.empty(capacity), np.empty(capacity, dtype=np.uint64)
        # A start s has origin -1 - s; any other entry is expansion number `origin`, node flipped.
        origin, flipped = np.empty((2, capacity), dtype=np.int32)
        waiting = np.ones(capacity, dtype=np.bool_)
        n_slots = 16
        while n_slots < 2 * capacity:
            n_slots *= 2
        table = np.zeros(n_slots, dtype=np.int32)
        keys = np.empty(n, dtype=np.uint64)
        for j in range(n):
            keys[j] = mix(uint64(local.hidden[j]) + uint64(0x5851F42D4C957F2D))
        sums, odds = np.empty((2, len(local.leak)))
        start, expanded = np.empty((n_starts, n), np.uint8), np.empty((n_expansions, n), np.uint8)
        leak, ptr, slot, theta = local.leak, local.ptr, local.slot, local.theta
        cost, n_ones, clamp = local.cost, local.n_ones, local.clamp

        size = 0
        for s in range(n_starts):
            name = uint64(0)
            for j in range(n):
                start[s, j] = starts[row * n_starts + s, local.hidden[j]]
                if clamp[j] != UNOBSERVED:
                    start[s, j] = clamp[j]
                if start[s, j]:
                    name ^= keys[j]
            if _is_new(table, names, name, size):
                value[size] = _enter(local, start[s], sums, odds)
                names[size], origin[size], flipped[size] = name, -1 - s, -1
                size += 1
        for e in range(n_expansions):
            best = -1
            for entry in range(size):
                if waiting[entry] and (best < 0 or value[entry] > value[best]):
                    best = entry
            if best < 0:
                break
            waiting[best] = False
            state = expanded[e]
            _recall(origin[best], flipped[best], start, expanded, state)
            base = _enter(local, state, sums, odds)
            for j in range(n):
                if clamp[j] == UNOBSERVED and _is_new(table, names, names[best] ^ keys[j], size):
                    gain = _gain(n_ones, leak, ptr, slot, theta, cost, state, sums, odds, j)
                    value[size] = base + gain
                    names[size], origin[size], flipped[size] = names[best] ^ keys[j], e, j
                    size += 1

        top = value[:size].max()
        weight = np.exp(value[:size] - top)
        output.log_sum[row] = top + math.log(weight.sum())
        output.size[row] = size
        if output.probability.shape[0] > 0:
            _set_probability(
                local, weight, origin, flipped, start, expanded, output.probability[row]
            )
        if n_draws > 0:
            key = combine(combine(uint64(seed), uint64(0x64726177)), uint64(rows.row_ids[row]))
            draws = output.draws[row * n_draws : (row + 1) * n_draws]
            _draw(local, weight, origin, flipped, start, expanded, key, draws)


@njit(cache=True, nogil=True)
def _is_new(table, names, name, size):
    """Enter a configuration of this name as number ``size`` unless one is there.

    Names are 64 bits. Two configurations of one name would count once: the sum stays a bound.
    """
    mask = uint64(len(table) - 1)
    place = mix(name) & mask
    while table[place]:
        if names[table[place] - 1] == name:
            return False
        place = (place + uint64(1)) & mask
    table[place] = size + 1
    return True


@njit(cache=True, nogil=True)
def _recall(origin, flipped, start, expanded, state):
    """Write the configuration of an entry to ``state``."""
    if origin < 0:
        state[:] = start[-1 - origin]
    else:
        state[:] = expanded[origin]
        state[flipped] = 1 - state[flipped]


@njit(cache=True, nogil=True)
def _set_probability(local, weight, origin, flipped, start, expanded, probability):
    """Probability of each node under the weights, in time linear in entries, not their length."""
    n, total = len(local.hidden), weight.sum()
    of_start, of_expanded = np.zeros(len(start)), np.zeros(len(expanded))
    mean = np.zeros(n)
    for entry in range(len(weight)):
        if origin[entry] < 0:
            of_start[-1 - origin[entry]] += weight[entry]
        else:
            of_expanded[origin[entry]] += weight[entry]
            j = flipped[entry]
            mean[j] += weight[entry] * (1.0 - 2.0 * expanded[origin[entry], j])
    for s in range(len(start)):
        if of_start[s] > 0.0:
            mean += of_start[s] * start[s]
    for e in range(len(expanded)):
        if of_expanded[e] > 0.0:
            mean += of_expanded[e] * expanded[e]
    for k in range(len(probability)):
        probability[k] = _logistic(local.isolated[k])
    for j in range(n):
        probability[local.hidden[j]] = min(max(mean[j] / total, 0.0), 1.0)


@njit(cache=True, nogil=True)
def _draw(local, weight, origin, flipped, start, expanded, key, draws):
    """Configurations at equal distances along the weights, from a random first place."""
    total, passed, entry = weight.sum(), weight[0], 0
    first = _uniform(key)
    state = np.empty(len(local.hidden), dtype=np.uint8)
    for d in range(len(draws)):
        while passed < (first + d) / len(draws) * total and entry < len(weight) - 1:
            entry += 1
            passed += weight[entry]
        _recall(origin[entry], flipped[entry], start, expanded, state)
        draw_key = combine(key, uint64(d))
        for k in range(len(draws[d])):
            on = local.isolated[k] > -_ON and _uniform(combine(draw_key, uint64(k))) < _logistic(
                local.isolated[k]
            )
            draws[d, k] = on
        for j in range(len(state)):
            draws[d, local.hidden[j]] = state[j]


# ---- chains


@njit(cache=True, nogil=True)
def anneal_rows(graph, parameters, rows, first, cooling, output, begin, end):
    """Annealed importance sampling of rows ``begin`` to ``end``.

    A chain starts from independent nodes that are on with probability ``first`` (n_rows, n_hidden),
    strictly between 0 and 1, and passes to p(h, x) by ``n_steps`` Gibbs sweeps of rising inverse
    temperature.
    """
    n_chains, n_steps, n_stay = cooling.n_chains, cooling.n_steps, cooling.n_stay
    run_key = combine(uint64(cooling.seed), uint64(0x616E6E65))
    for row in range(begin, end):
        local = _localise(graph, parameters, rows, row)
        n = len(local.hidden)
        hidden, clamp = local.hidden, local.clamp
        sums, odds = np.empty((2, len(local.leak)))
        start_odds, log_off = np.zeros(n), 0.0
        for j in range(n):
            if clamp[j] == UNOBSERVED:
                start_odds[j] = math.log(first[row, hidden[j]] / (1.0 - first[row, hidden[j]]))
                log_off += math.log1p(-first[row, hidden[j]])
        state = np.empty(n, dtype=np.uint8)
        mean = np.zeros((n_chains, n))
        row_key = combine(run_key, uint64(rows.row_ids[row]))
        for chain in range(n_chains):
            key = combine(row_key, uint64(chain))
            for j in range(n):
                state[j] = clamp[j]
                if clamp[j] == UNOBSERVED:
                    state[j] = _uniform(combine(key, uint64(hidden[j]))) < first[row, hidden[j]]
            log_weight = 0.0
            for step in range(1, n_steps + n_stay + 1):
                log_p = _enter(local, state, sums, odds)
                if step <= n_steps:
                    log_q = log_off
                    for j in range(n):
                        log_q += start_odds[j] * state[j]
                    log_weight += (log_p - log_q) / n_steps
                heat = min(step / n_steps, 1.0)
                if n_stay > 0 or step < n_steps:
                    _sweep(
                        local,
                        state,
                        sums,
                        odds,
                        start_odds,
                        heat,
                        combine(key, uint64(n_steps + step)),
                        mean[chain],
                        1.0 / n_stay if step > n_steps else 0.0,
                    )
            output.log_weight[row, chain] = log_weight
        if output.probability.shape[0] > 0:
            _chain_probability(
                local,
                output.log_weight[row],
                mean,
                output.probability[row],
                output.error[row],
            )


@njit(cache=True, nogil=True)
def _sweep(local, state, sums, odds, start_odds, heat, key, mean, share):
    """Draw every free node from its conditional; add ``share`` of its probability to ``mean``."""
    leak, ptr, slot, theta = local.leak, local.ptr, local.slot, local.theta
    cost, n_ones, clamp, hidden = local.cost, local.n_ones, local.clamp, local.hidden
    for j in range(len(state)):
        if clamp[j] != UNOBSERVED:
            mean[j] += share * clamp[j]
            continue
        gain = _gain(n_ones, leak, ptr, slot, theta, cost, state, sums, odds, j)
        if state[j]:
            gain = -gain
        probability = _logistic(heat * gain + (1.0 - heat) * start_odds[j])
        mean[j] += share * probability
        on = _uniform(combine(key, uint64(hidden[j]))) < probability
        if on != state[j]:
            _flip(leak, ptr, slot, theta, state, sums, odds, j)


@njit(cache=True, nogil=True)
def _chain_probability(local, log_weight, mean, probability, error):
    """Self-normalised mean over chains, and its standard error to first order."""
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    for k in range(len(probability)):
        probability[k], error[k] = _logistic(local.isolated[k]), 0.0
    for j in range(len(local.hidden)):
        k = local.hidden[j]
        probability[k] = min((weight * mean[:, j]).sum(), 1.0)
        spread = 0.0
        for chain in range(len(weight)):
            spread += (weight[chain] * (mean[chain, j] - probability[k])) ** 2
        error[k] = math.sqrt(spread)


forget_stale_kernels(grow_rows)
