"""Annealed chains for what lies outside a set of configurations; whole rows of both.

Equations T40 to T43 of docs/theory.md.
"""

import math

import numpy as np
from numba import uint64

from noisyor.engines.contract import FREE
from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.sampling.configuration_set import (
    grow_set,
    mean_of_set,
    name_of,
    place_of,
    weigh,
)
from noisyor.engines.numba.sampling.walker import (
    allocate_walker,
    enter_state,
    flip_node,
    gain_on,
    localize,
    logistic_of,
    uniform_of,
)
from noisyor.engines.numba.scalar import combine

_SMOOTHING = 0.5
"""Chains start with every node on and off with at least this probability over the number of nodes.

So half a node is in an unlikely state at the start, on average: with more of them the weights of
the chains would differ too much, with fewer the chains would not explore.
"""

_SWAPS, _MOST_SWAPS = 4, 32
"""Attempts in each sweep to exchange causes: for each cause that is on, and at most."""

_AFTER_NODES = np.uint64(2**32)
"""Keys of sweeps begin where those of nodes end, so that no two draws share a key."""


@njit(cache=True, nogil=True)
def _anneal(local, found, mean, log_sum, key, options, weight, outside, on):
    """Annealed importance sampling of what lies outside a set, equation T41.

    A chain starts from independent nodes with nearly their probabilities ``mean`` (n,) under the
    set, and passes to p(h, x) by Gibbs sweeps of rising inverse temperature. Fills for every chain
    ``weight``, relative to the set's sum, ``outside``, the share of its visits there, and ``on``
    (n_chains, n), the share there with each node on.
    """
    n, hidden, clamp, n_steps = len(local.hidden), local.hidden, local.clamp, options.n_steps
    least = _SMOOTHING / max(n, 1)
    first, up_to, first_odds, log_off = np.empty(n), np.zeros(n + 1), np.zeros(n), 0.0
    for j in range(n):
        # Away from 0 and 1: a start that rules a state out would give weights without a bound.
        first[j] = min(max(mean[j], least), 1.0 - least)
        if clamp[j] == FREE:
            first_odds[j] = math.log(first[j] / (1.0 - first[j]))
            log_off += math.log1p(-first[j])
            up_to[j + 1] = first[j]
        up_to[j + 1] += up_to[j]
    walker = allocate_walker(local)
    state = walker.state
    for chain in range(options.n_chains):
        chain_key = combine(key, uint64(chain))
        for j in range(n):
            state[j] = clamp[j]
            if clamp[j] == FREE:
                state[j] = uniform_of(combine(chain_key, uint64(hidden[j]))) < first[j]
        log_weight = 0.0
        for step in range(n_steps):
            log_q = log_off
            for j in range(n):
                if state[j]:
                    log_q += first_odds[j]
            # Sums are computed afresh at every step, so that rounding of thousands of flips cannot
            # add up.
            log_weight += (enter_state(local, walker) - log_q) / n_steps
            # After the last term of the weight no sweep is needed: what follows is at b = 1 anyway.
            if step < n_steps - 1:
                step_key = combine(chain_key, uint64(step) + _AFTER_NODES)
                heat = (step + 1) / n_steps
                _swap(local, walker, up_to, first_odds, heat, step_key)
                _sweep(local, walker, first_odds, heat, step_key)
        outside[chain] = 0.0
        for j in range(n):
            on[chain, j] = 0.0
        for step in range(n_steps, n_steps + options.n_stay):
            enter_state(local, walker)
            step_key = combine(chain_key, uint64(step) + _AFTER_NODES)
            _swap(local, walker, up_to, first_odds, 1.0, step_key)
            share = _visit(local, found, walker, step_key, on[chain])
            outside[chain] += share / options.n_stay
        for j in range(n):
            on[chain, j] /= options.n_stay
        # Relative to the set's sum, or the exponential would underflow for rows of many visibles.
        weight[chain] = math.exp(min(log_weight - log_sum, 700.0))


@njit(cache=True, nogil=True)
def _combine(local, found, options, weight, outside, on, mean, error):
    """Set and chains together: replace ``mean`` (n,), fill ``error``; return log total and error.

    Equation T43, everything relative to the sum over the set. Errors are those of the mean over
    chains to first order. Unless the set is complete, one visit outside that just did not happen
    is added to them.
    """
    n_chains, n = on.shape
    n_free = 0
    for j in range(n):
        n_free += local.clamp[j] == FREE
    complete = len(found.value) == 2.0**n_free
    # If no chain ever left the set the spread is zero, but the truth need not be.
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
    """Mean and its standard error."""
    mean, squares = 0.0, 0.0
    for value in values:
        mean += value / len(values)
    for value in values:
        squares += (value - mean) ** 2
    return mean, math.sqrt(squares / (len(values) * (len(values) - 1)))


@njit(cache=True, nogil=True)
def _swap(local, walker, up_to, first_odds, heat, key):
    """Metropolis steps that replace one free node that is on by another one, equation T42.

    One of two rival causes is on and the other off: single flips would have to pass through both
    or none. The new node is drawn by its probability at the start, ``up_to`` (n + 1,) summed.
    """
    state, clamp = walker.state, local.clamp
    on = np.empty(len(state), dtype=np.int32)
    n_on = 0
    for j in range(len(state)):
        if state[j] and clamp[j] == FREE:
            on[n_on] = j
            n_on += 1
    # The number of attempts depends on how many nodes are on, and a swap does not change that.
    for attempt in range(min(_SWAPS * n_on, _MOST_SWAPS)):
        attempt_key = combine(key, uint64(attempt) + _AFTER_NODES)
        place = min(int(uniform_of(attempt_key) * n_on), n_on - 1)
        wanted = uniform_of(combine(attempt_key, uint64(0))) * up_to[-1]
        new = min(np.searchsorted(up_to, wanted, "right") - 1, len(state) - 1)
        old = on[place]
        if state[new] or clamp[new] != FREE:
            continue
        # The gain of the new node depends on the old one being off: flip it first, and back if the
        # swap is refused.
        change = -heat * gain_on(local, walker, old)
        flip_node(local, walker, old)
        change += heat * gain_on(local, walker, new)
        change += (1.0 - heat) * (first_odds[new] - first_odds[old])
        back = math.log((up_to[old + 1] - up_to[old]) / (up_to[new + 1] - up_to[new]))
        if math.log(uniform_of(combine(attempt_key, uint64(1)))) < change + back:
            flip_node(local, walker, new)
            on[place] = new
        else:
            flip_node(local, walker, old)


@njit(cache=True, nogil=True)
def _sweep(local, walker, first_odds, heat, key):
    """Draw every free node from its conditional under pi_b of equation T41, b being ``heat``."""
    clamp, hidden, state = local.clamp, local.hidden, walker.state
    for j in range(len(state)):
        if clamp[j] == FREE:
            odds = heat * gain_on(local, walker, j) + (1.0 - heat) * first_odds[j]
            if (uniform_of(combine(key, uint64(hidden[j]))) < logistic_of(odds)) != state[j]:
                flip_node(local, walker, j)


@njit(cache=True, nogil=True)
def _visit(local, found, walker, key, on):
    """A sweep at the target that counts what lies outside the set, for equation T43.

    Adds to ``on`` (n,) the conditional probability that a node is on and the configuration
    outside; returns the mean over nodes of the probability to be outside.
    """
    clamp, hidden, state = local.clamp, local.hidden, walker.state
    table, names, keys = found.table, found.names, found.keys
    # The name of the configuration follows each flip by one exclusive or: looking up whether a
    # neighbour is in the set costs no more than a hash.
    name = name_of(keys, state)
    inside = table[place_of(table, names, name)] > 0
    outside, n_free = 0.0, 0
    for j in range(len(state)):
        if clamp[j] != FREE:
            continue
        # Both states of j are counted by their probabilities, not the one that is drawn below.
        probability = logistic_of(gain_on(local, walker, j))
        other_inside = table[place_of(table, names, name ^ keys[j])] > 0
        on_inside, off_inside = (inside, other_inside) if state[j] else (other_inside, inside)
        if not on_inside:
            on[j] += probability
            outside += probability
        if not off_inside:
            outside += 1.0 - probability
        n_free += 1
        if (uniform_of(combine(key, uint64(hidden[j]))) < probability) != state[j]:
            flip_node(local, walker, j)
            name ^= keys[j]
            inside = other_inside
    for j in range(len(state)):
        if clamp[j] == 1:
            on[j] += outside / max(n_free, 1)
    return outside / max(n_free, 1)


@njit(cache=True, nogil=True)
def explore_rows(graph, parameters, rows, starts, options, noise, output, begin, end):
    """Sets and chains of rows ``begin`` to ``end``.

    The set of a row holds its ``starts`` (n_rows * n_starts, n_hidden) and all single flips of the
    most likely configurations found so far, taken one after another. Sets for more expansions
    contain those for fewer.
    """
    n_rows = len(output.log_sum)
    n_starts = len(starts) // n_rows
    n_chains = options.n_chains
    for row in range(begin, end):
        key = combine(uint64(noise.seed), uint64(rows.row_ids[row]))
        local = localize(graph, parameters, rows, row)
        n = len(local.hidden)
        found = grow_set(local, starts, row * n_starts, n_starts, options.n_expansions)
        weight = np.empty(len(found.value))
        log_sum = weigh(found.value, weight)
        output.log_sum[row], output.size[row] = log_sum, len(weight)
        output.log_evidence[row], output.log_error[row] = log_sum, 0.0
        mean, error = mean_of_set(found, weight), np.zeros(n)
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
                output.probability[row, k] = logistic_of(local.isolated[k])
                output.error[row, k] = 0.0
            for j in range(n):
                output.probability[row, local.hidden[j]] = mean[j]
                output.error[row, local.hidden[j]] = error[j]
