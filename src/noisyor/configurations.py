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

_KNOWN = 1e300
"""Log-odds of a node that is known to be on."""

_SMOOTHING = 0.5
"""Chains start with every node on and off with at least this probability over the number of nodes.

So half a node is off its place at the start: more would be lost in weights, fewer not be explored.
"""

_SWAPS, _MOST_SWAPS = 4, 32
"""Attempts in each sweep to exchange causes: for each cause that is on, and at most."""

_AFTER_NODES = np.uint64(2**32)
"""Keys of sweeps begin where those of nodes end."""


class Options(NamedTuple):
    """How far to explore.

    ``n_expansions`` configurations have all their single flips added to the set; ``n_chains``
    chains, or 0 for none, make ``n_steps`` sweeps to the posterior and ``n_stay`` more there.
    """

    n_expansions: int
    n_chains: int
    n_steps: int
    n_stay: int
    seed: int


class Output(NamedTuple):
    """Results of `explore_rows`.

    ``log_sum`` (n_rows,) log of the sum of p(h, x) over the set; ``size`` (n_rows,) its number of
    configurations of the nodes that interact; ``log_evidence`` (n_rows,) estimate of log p(x) from
    set and chains and ``log_error`` its standard error, ``log_sum`` and zero without chains;
    ``probability`` and ``error`` (n_rows, n_hidden) of each node and its standard error, or
    (0, n_hidden) if not wanted.
    """

    log_sum: npt.NDArray[np.float64]
    size: npt.NDArray[np.int64]
    log_evidence: npt.NDArray[np.float64]
    log_error: npt.NDArray[np.float64]
    probability: npt.NDArray[np.float64]
    error: npt.NDArray[np.float64]


class _Set(NamedTuple):
    """Distinct configurations of a row.

    Entry e has log p(h, x) ``value[e]`` and the name ``names[e]``, the exclusive or of the ``keys``
    (n,) of the nodes that are on; ``table`` finds entries by name. If ``origin[e] < 0`` the entry
    is the start ``-1 - origin[e]``, else it is ``expanded[origin[e]]`` with ``flipped[e]`` flipped.
    """

    value: npt.NDArray[np.float64]
    names: npt.NDArray[np.uint64]
    origin: npt.NDArray[np.int32]
    flipped: npt.NDArray[np.int32]
    table: npt.NDArray[np.int32]
    keys: npt.NDArray[np.uint64]
    start: npt.NDArray[np.uint8]
    expanded: npt.NDArray[np.uint8]


class _Local(NamedTuple):
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


class _Walker(NamedTuple):
    """A configuration that changes node by node.

    ``state`` (n,); by slot: ``sums``, the total parameter B, ``odds`` = log(exp(B) - 1) and ``off``
    = 1 / (exp(B) - 1).
    """

    state: npt.NDArray[np.uint8]
    sums: npt.NDArray[np.float64]
    odds: npt.NDArray[np.float64]
    off: npt.NDArray[np.float64]


@njit(cache=True, nogil=True)
def _localise(graph, parameters, rows, row):
    n_visible, n_hidden = graph.n_visible, graph.n_hidden
    ones = rows.columns[rows.ptr[row] : rows.ptr[row + 1]]
    missing = rows.missing_columns[rows.missing_ptr[row] : rows.missing_ptr[row + 1]]
    slot_of = np.empty(n_visible + n_hidden, dtype=np.int32)
    for node in range(n_visible + n_hidden):
        slot_of[node] = -1
    for place in range(len(ones)):
        slot_of[ones[place]] = place
    cost, isolated = np.empty(n_hidden), np.empty(n_hidden)
    clamp, n_clamps = np.empty(n_hidden, dtype=np.uint8), rows.clamp.shape[0]
    for k in range(n_hidden):
        cost[k], isolated[k], clamp[k] = parameters.total[k], np.nan, UNOBSERVED
        if n_clamps > 0:
            clamp[k] = rows.clamp[min(row, n_clamps - 1), k]
    offset = -parameters.total_leak
    for i in missing:
        offset += parameters.leak[i]
        for edge in range(graph.ptr[i], graph.ptr[i] + graph.n_parents[i]):
            cost[graph.parent[edge]] -= parameters.theta[edge]

    hidden = np.empty(n_hidden, dtype=np.int32)
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
                isolated[k] = -_KNOWN
                continue
            offset += log_expm1(parameters.leak[node]) - cost[k]
            isolated[k] = _KNOWN
            continue
        slot_of[node] = len(ones) + n
        hidden[n] = k
        n += 1
        n_edges += edges

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
    return _Local(
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
def _allocate(local):
    n_slots = len(local.leak)
    state = np.zeros(len(local.hidden), dtype=np.uint8)
    return _Walker(state, np.empty(n_slots), np.empty(n_slots), np.empty(n_slots))


@njit(cache=True, nogil=True)
def _enter(local, walker):
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
def _gain_on(local, walker, j):
    """What node j being on instead of off adds to log p(h, x)."""
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
        works = local.works
        gain, factor = odds[n_ones + j] - local.net_cost[j], 1.0
        for edge in range(ptr[j], end):
            factor *= 1.0 + works[edge] * off[slot[edge]]
            if factor > 1e7:  # off is below 1e301
                gain += math.log(factor)
                factor = 1.0
        gain += math.log(factor)
    for edge in range(end, ptr[j + 1]):
        child = slot[edge]
        if state[child - n_ones]:
            other = max(sums[child] + sign * theta[edge], local.leak[child])
            gain += sign * (log_expm1(other) - odds[child])
    return gain


@njit(cache=True, nogil=True)
def _flip(local, walker, j):
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
def _uniform(key):
    """A number strictly between 0 and 1."""
    return (np.float64(mix(key) >> uint64(11)) + 0.5) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True)
def _logistic(odds):
    return 1.0 / (1.0 + math.exp(-min(max(odds, -700.0), 700.0)))


# ---- sets


@njit(cache=True, nogil=True)
def _grow(local, starts, first_start, n_starts, n_expansions):
    """The set of one row; its starts are ``n_starts`` lines of ``starts``.

    If anything is expanded then, first of all and not counted, the configuration in which nothing
    is on: its flips are all explanations by a single cause.
    """
    n = len(local.hidden)
    n_given = n_starts
    if n_expansions > 0:
        n_starts, n_expansions = n_starts + 1, n_expansions + 1
    capacity = n_starts + n_expansions * n
    n_slots = 16
    while n_slots < 2 * capacity:
        n_slots *= 2
    value, names = np.empty(capacity), np.empty(capacity, dtype=np.uint64)
    origin, flipped = np.empty(capacity, dtype=np.int32), np.empty(capacity, dtype=np.int32)
    done = np.zeros(capacity, dtype=np.bool_)
    table, keys = np.zeros(n_slots, dtype=np.int32), np.empty(n, dtype=np.uint64)
    start, expanded = np.empty((n_starts, n), np.uint8), np.empty((n_expansions, n), np.uint8)
    walker, clamp = _allocate(local), local.clamp
    state = walker.state
    for j in range(n):
        keys[j] = mix(uint64(local.hidden[j]) + uint64(0x5851F42D4C957F2D))

    size, empty = 0, -1
    for s in range(n_starts):
        for j in range(n):
            free = clamp[j] == UNOBSERVED
            given = starts[first_start + s, local.hidden[j]] if s < n_given else np.uint8(0)
            start[s, j] = given if free else clamp[j]
        name = _name(keys, start[s])
        place = _place(table, names, name)
        if table[place] == 0:
            _copy(start[s], state)
            value[size] = _enter(local, walker)
            names[size], origin[size], flipped[size] = name, -1 - s, -1
            size += 1
            table[place] = size
        empty = table[place] - 1
    for e in range(n_expansions):
        best = empty if e == 0 else -1
        for entry in range(size if e > 0 else 0):
            if not done[entry] and (best < 0 or value[entry] > value[best]):
                best = entry
        if best < 0:
            break
        done[best] = True
        _recall(origin[best], flipped[best], start, expanded, state)
        _copy(state, expanded[e])
        base = _enter(local, walker)
        for j in range(n):
            name = names[best] ^ keys[j]
            place = _place(table, names, name)
            if clamp[j] == UNOBSERVED and table[place] == 0:
                gain = _gain_on(local, walker, j)
                value[size] = base - gain if state[j] else base + gain
                names[size], origin[size], flipped[size] = name, e, j
                size += 1
                table[place] = size
    return _Set(
        value[:size], names[:size], origin[:size], flipped[:size], table, keys, start, expanded
    )


@njit(cache=True, nogil=True)
def _name(keys, state):
    name = uint64(0)
    for j in range(len(state)):
        if state[j]:
            name ^= keys[j]
    return name


@njit(cache=True, nogil=True)
def _place(table, names, name):
    """Where the table has an entry of this name, plus one, or the empty place for it.

    Names are 64 bits. Two configurations of one name would count once: the sum stays a bound.
    """
    mask = uint64(len(table) - 1)
    place = mix(name) & mask
    while table[place] and names[table[place] - 1] != name:
        place = (place + uint64(1)) & mask
    return place


@njit(cache=True, nogil=True)
def _copy(source, target):
    # Assigning a slice would compile error messages, which takes longer than all the rest.
    for j in range(len(target)):
        target[j] = source[j]


@njit(cache=True, nogil=True)
def _recall(origin, flipped, start, expanded, state):
    """Write the configuration of an entry to ``state``."""
    if origin < 0:
        _copy(start[-1 - origin], state)
    else:
        _copy(expanded[origin], state)
        state[flipped] = 1 - state[flipped]


@njit(cache=True, nogil=True)
def _mean(found, weight):
    """Weighted mean of the configurations, in time linear in entries, not in their length."""
    start, expanded, origin, flipped = found.start, found.expanded, found.origin, found.flipped
    of_start, of_expanded = np.zeros(len(start)), np.zeros(len(expanded))
    mean = np.zeros(start.shape[1])
    for entry in range(len(weight)):
        if origin[entry] < 0:
            of_start[-1 - origin[entry]] += weight[entry]
        else:
            of_expanded[origin[entry]] += weight[entry]
            j = flipped[entry]
            mean[j] += weight[entry] * (1.0 - 2.0 * expanded[origin[entry], j])
    for s in range(len(start)):
        if of_start[s] > 0.0:
            for j in range(len(mean)):
                mean[j] += of_start[s] * start[s, j]
    for e in range(len(expanded)):
        if of_expanded[e] > 0.0:
            for j in range(len(mean)):
                mean[j] += of_expanded[e] * expanded[e, j]
    for j in range(len(mean)):
        mean[j] = min(max(mean[j], 0.0), 1.0)
    return mean


# ---- chains


@njit(cache=True, nogil=True)
def _anneal(local, found, mean, log_sum, key, options, weight, outside, on):
    """Annealed importance sampling of what lies outside a set.

    A chain starts from independent nodes with nearly their probabilities ``mean`` (n,) under the
    set, and passes to p(h, x) by Gibbs sweeps of rising inverse temperature. Fills for every chain
    ``weight``, relative to the set's sum, ``outside``, the share of its visits there, and ``on``
    (n_chains, n), the share there with each node on.
    """
    n, hidden, clamp, n_steps = len(local.hidden), local.hidden, local.clamp, options.n_steps
    least = _SMOOTHING / max(n, 1)
    first, up_to, first_odds, log_off = np.empty(n), np.zeros(n + 1), np.zeros(n), 0.0
    for j in range(n):
        first[j] = min(max(mean[j], least), 1.0 - least)
        if clamp[j] == UNOBSERVED:
            first_odds[j] = math.log(first[j] / (1.0 - first[j]))
            log_off += math.log1p(-first[j])
            up_to[j + 1] = first[j]
        up_to[j + 1] += up_to[j]
    walker = _allocate(local)
    state = walker.state
    for chain in range(options.n_chains):
        chain_key = combine(key, uint64(chain))
        for j in range(n):
            state[j] = clamp[j]
            if clamp[j] == UNOBSERVED:
                state[j] = _uniform(combine(chain_key, uint64(hidden[j]))) < first[j]
        log_weight = 0.0
        for step in range(n_steps):
            log_q = log_off
            for j in range(n):
                if state[j]:
                    log_q += first_odds[j]
            log_weight += (_enter(local, walker) - log_q) / n_steps
            if step < n_steps - 1:
                step_key = combine(chain_key, uint64(step) + _AFTER_NODES)
                heat = (step + 1) / n_steps
                _swap(local, walker, up_to, first_odds, heat, step_key)
                _sweep(local, walker, first_odds, heat, step_key)
        outside[chain] = 0.0
        for j in range(n):
            on[chain, j] = 0.0
        for step in range(n_steps, n_steps + options.n_stay):
            _enter(local, walker)
            step_key = combine(chain_key, uint64(step) + _AFTER_NODES)
            _swap(local, walker, up_to, first_odds, 1.0, step_key)
            share = _visit(local, found, walker, step_key, on[chain])
            outside[chain] += share / options.n_stay
        for j in range(n):
            on[chain, j] /= options.n_stay
        weight[chain] = math.exp(min(log_weight - log_sum, 700.0))


@njit(cache=True, nogil=True)
def _combine(local, found, options, weight, outside, on, mean, error):
    """Set and chains together: replace ``mean`` (n,), fill ``error``; return log total and error.

    Errors are those of the mean over chains to first order. Unless the set is complete, one visit
    outside that just did not happen is added to them.
    """
    n_chains, n = on.shape
    n_free = 0
    for j in range(n):
        n_free += local.clamp[j] == UNOBSERVED
    complete = len(found.value) == 2.0**n_free
    visit = 0.0 if complete else 1.0 / (n_chains * options.n_stay)
    values = np.empty(n_chains)
    for chain in range(n_chains):
        values[chain] = weight[chain] * outside[chain]
    average, spread = _mean_and_error(values)
    total = 1.0 + average
    for j in range(n):
        for chain in range(n_chains):
            values[chain] = weight[chain] * on[chain, j]
        mean[j] = min((mean[j] + _mean_and_error(values)[0]) / total, 1.0)
        for chain in range(n_chains):
            values[chain] = weight[chain] * (on[chain, j] - mean[j] * outside[chain])
        rare = math.sqrt(mean[j] * (1.0 - mean[j])) * visit
        error[j] = math.hypot(_mean_and_error(values)[1] / total, rare)
    return math.log(total), math.hypot(spread / total, visit)


@njit(cache=True, nogil=True)
def _mean_and_error(values):
    mean, squares = 0.0, 0.0
    for value in values:
        mean += value / len(values)
    for value in values:
        squares += (value - mean) ** 2
    return mean, math.sqrt(squares / (len(values) * (len(values) - 1)))


@njit(cache=True, nogil=True)
def _swap(local, walker, up_to, first_odds, heat, key):
    """Metropolis steps that replace one free node that is on by another one.

    One of two rival causes is on and the other off: single flips would have to pass through both
    or none. The new node is drawn by its probability at the start, ``up_to`` (n + 1,) summed.
    """
    state, clamp = walker.state, local.clamp
    on = np.empty(len(state), dtype=np.int32)
    n_on = 0
    for j in range(len(state)):
        if state[j] and clamp[j] == UNOBSERVED:
            on[n_on] = j
            n_on += 1
    for attempt in range(min(_SWAPS * n_on, _MOST_SWAPS)):
        attempt_key = combine(key, uint64(attempt) + _AFTER_NODES)
        place = min(int(_uniform(attempt_key) * n_on), n_on - 1)
        wanted = _uniform(combine(attempt_key, uint64(0))) * up_to[-1]
        new = min(np.searchsorted(up_to, wanted, "right") - 1, len(state) - 1)
        old = on[place]
        if state[new] or clamp[new] != UNOBSERVED:
            continue
        change = -heat * _gain_on(local, walker, old)
        _flip(local, walker, old)
        change += heat * _gain_on(local, walker, new)
        change += (1.0 - heat) * (first_odds[new] - first_odds[old])
        back = math.log((up_to[old + 1] - up_to[old]) / (up_to[new + 1] - up_to[new]))
        if math.log(_uniform(combine(attempt_key, uint64(1)))) < change + back:
            _flip(local, walker, new)
            on[place] = new
        else:
            _flip(local, walker, old)


@njit(cache=True, nogil=True)
def _sweep(local, walker, first_odds, heat, key):
    """Draw every free node from its conditional between the start and the target."""
    clamp, hidden, state = local.clamp, local.hidden, walker.state
    for j in range(len(state)):
        if clamp[j] == UNOBSERVED:
            odds = heat * _gain_on(local, walker, j) + (1.0 - heat) * first_odds[j]
            if (_uniform(combine(key, uint64(hidden[j]))) < _logistic(odds)) != state[j]:
                _flip(local, walker, j)


@njit(cache=True, nogil=True)
def _visit(local, found, walker, key, on):
    """A sweep at the target that counts what lies outside the set.

    Adds to ``on`` (n,) the conditional probability that a node is on and the configuration
    outside; returns the mean over nodes of the probability to be outside.
    """
    clamp, hidden, state = local.clamp, local.hidden, walker.state
    table, names, keys = found.table, found.names, found.keys
    name = _name(keys, state)
    inside = table[_place(table, names, name)] > 0
    outside, n_free = 0.0, 0
    for j in range(len(state)):
        if clamp[j] != UNOBSERVED:
            continue
        probability = _logistic(_gain_on(local, walker, j))
        other_inside = table[_place(table, names, name ^ keys[j])] > 0
        on_inside, off_inside = (inside, other_inside) if state[j] else (other_inside, inside)
        if not on_inside:
            on[j] += probability
            outside += probability
        if not off_inside:
            outside += 1.0 - probability
        n_free += 1
        if (_uniform(combine(key, uint64(hidden[j]))) < probability) != state[j]:
            _flip(local, walker, j)
            name ^= keys[j]
            inside = other_inside
    for j in range(len(state)):
        if clamp[j] == 1:
            on[j] += outside / max(n_free, 1)
    return outside / max(n_free, 1)


# ---- rows


@njit(cache=True, nogil=True)
def explore_rows(graph, parameters, rows, starts, options, output, begin, end):
    """Sets and chains of rows ``begin`` to ``end``.

    The set of a row holds its ``starts`` (n_rows * n_starts, n_hidden) and all single flips of the
    most likely configurations found so far, taken one after another. Sets for more expansions
    contain those for fewer.
    """
    n_rows = len(output.log_sum)
    n_starts = len(starts) // n_rows
    n_chains = options.n_chains
    for row in range(begin, end):
        key = combine(uint64(options.seed), uint64(rows.row_ids[row]))
        local = _localise(graph, parameters, rows, row)
        n = len(local.hidden)
        found = _grow(local, starts, row * n_starts, n_starts, options.n_expansions)
        weight = np.empty(len(found.value))
        log_sum = _weigh(found.value, weight)
        output.log_sum[row], output.size[row] = log_sum, len(weight)
        output.log_evidence[row], output.log_error[row] = log_sum, 0.0
        mean, error = _mean(found, weight), np.zeros(n)
        if n_chains > 0:
            chain_weight, outside = np.empty(n_chains), np.empty(n_chains)
            on = np.empty((n_chains, n))
            _anneal(local, found, mean, log_sum, key, options, chain_weight, outside, on)
            log_total, log_error = _combine(
                local, found, options, chain_weight, outside, on, mean, error
            )
            output.log_evidence[row] += log_total
            output.log_error[row] = log_error
        if output.probability.shape[0] > 0:
            for k in range(graph.n_hidden):
                output.probability[row, k] = _logistic(local.isolated[k])
                output.error[row, k] = 0.0
            for j in range(n):
                output.probability[row, local.hidden[j]] = mean[j]
                output.error[row, local.hidden[j]] = error[j]


@njit(cache=True, nogil=True)
def _weigh(value, weight):
    """Fill weights that sum to one from log-weights; return the log of the sum."""
    top, total = -np.inf, 0.0
    for entry in range(len(value)):
        top = max(top, value[entry])
    for entry in range(len(value)):
        weight[entry] = math.exp(value[entry] - top)
        total += weight[entry]
    for entry in range(len(value)):
        weight[entry] /= total
    return top + math.log(total)


forget_stale_kernels(explore_rows)
