"""Annealed importance sampling: sets of likely configurations, and chains outside them.

Equations T40 to T43 of docs/theory.md. A set of distinct configurations of a row grows by the
single flips of its likeliest members; its sum is a lower bound of p(x). Chains from independent
nodes to the posterior estimate the probability outside the set. Configurations are stored as a
start or an expanded member and the bit that was flipped, so a set takes memory by entry and not by
entry times nodes.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import int64, uint64

from noisyor.engines.contract import FREE, AnnealingOptions, AnnealingResult, NoiseKey
from noisyor.engines.numba.arguments import Workspace, advance, arrays, unpack
from noisyor.engines.numba.cache import inner, njit, small_code
from noisyor.engines.numba.gibbs import (
    RowModel,
    build_row_model,
    enter_state,
    flip_node,
    gain_on,
)
from noisyor.engines.numba.graph import Graph, Parameters, Rows
from noisyor.engines.numba.scalar import combine, logistic_of, maximum, minimum, mix, uniform_of

_SMOOTHING = 0.5
"""Chains start with every node on and off with at least this probability over the number of nodes.

On average, half a node is in an unlikely state at the start. With more, the weights of the chains
would vary too much; with fewer, the chains would explore too little.
"""

_SWAPS, _MAX_SWAPS = 4, 32
"""Attempted swaps of causes in each sweep: per cause that is on, and in all."""

_AFTER_NODES = np.uint64(2**32)
"""Keys of sweeps begin where those of nodes end, so that no two draws share a key."""


class Annealing(NamedTuple):
    """A call: ``works`` (padded edges,) is 1 - exp(-theta); ``starts`` (n_rows * n_starts,
    n_hidden).
    """

    rows: Rows
    key: NoiseKey
    options: AnnealingOptions
    works: npt.NDArray[np.float64]
    starts: npt.NDArray[np.uint8]
    n_starts: int
    result: AnnealingResult
    with_probability: bool


class ConfigurationSet(Workspace):
    """Distinct configurations of a row.

    An entry with ``origin[e] < 0`` is the start ``-1 - origin[e]``, others are
    ``expanded[origin[e]]`` with ``flipped[e]`` flipped.
    """

    # Number of entries, and of slots of ``table``, which finds entries by name.
    counts = arrays(2, int64="sizes")
    slots = arrays(int32="table")
    # By entry: log p(h, x), share of the set, whether it is expanded, and its name, the exclusive
    # or of the keys of the nodes that are on.
    per_entry = arrays(float64="value weight", uint64="names", int32="origin flipped", uint8="done")
    per_node = arrays(uint64="keys", float64="mean")
    # Configurations of starts and expansions, and the weights of each.
    start_bits = arrays(uint8="start")
    per_start = arrays(float64="of_start")
    expanded_bits = arrays(uint8="expanded")
    per_expansion = arrays(float64="of_expanded")


class Chains(Workspace):
    """Chains of a row, and their starting probabilities."""

    # The weight relative to the set's sum, the share of visits outside the set, and scratch.
    per_chain = arrays(float64="weight outside values")
    # (n_chains, n): the share of visits outside the set with each node on.
    per_chain_node = arrays(float64="on")
    # Probability and log-odds at the start, error of the probability, scratch: nodes that are on.
    per_node = arrays(float64="first first_odds error", int32="listed")
    # Sums of ``first`` over free nodes.
    bounds = arrays(float64="up_to")


class Memory(Workspace):
    """Memory of one thread, for rows in which all nodes interact.

    The operating system provides only the part that is touched.
    """

    model: RowModel
    found: ConfigurationSet
    chains: Chains


def allocate(model: RowModel, n_hidden: int, n_starts: int, options: AnnealingOptions) -> Memory:
    """Allocate memory for rows with ``n_starts`` starts each."""
    n_expansions, n_chains = options.n_expansions, options.n_chains
    if n_expansions > 0:
        n_starts, n_expansions = n_starts + 1, n_expansions + 1
    capacity = n_starts + n_expansions * n_hidden
    found = ConfigurationSet(
        slots=max(16, 4 * capacity),
        per_entry=capacity,
        per_node=n_hidden,
        start_bits=n_starts * n_hidden,
        per_start=n_starts,
        expanded_bits=n_expansions * n_hidden,
        per_expansion=n_expansions,
    )
    chains = Chains(
        per_chain=n_chains,
        per_chain_node=n_chains * n_hidden,
        per_node=n_hidden,
        bounds=n_hidden + 1,
    )
    return Memory(model=model, found=found, chains=chains)


@njit("annealed importance sampling")
def annealed_importance_sampling(
    graph_address, parameters_address, call_address, memory_address, begin, end
):
    """Fill the result for rows ``begin`` to ``end``.

    The set of a row holds its starts and all single flips of the most likely configurations found
    so far, taken one after another. Sets for more expansions contain those for fewer.
    """
    graph, parameters = unpack(graph_address, Graph), unpack(parameters_address, Parameters)
    call, memory = unpack(call_address, Annealing), unpack(memory_address, Memory)
    model, found, chains = memory.model, memory.found, memory.chains
    options, result, n_hidden = call.options, call.result, graph.n_hidden
    for row in range(begin, end):
        key = combine(uint64(call.key.seed), uint64(call.rows.row_ids[row]))
        build_row_model(graph, parameters, call.works, call.rows, row, model)
        n = model.sizes[0]
        starts = advance(call.starts, row * call.n_starts * n_hidden)
        _grow_set(model, found, starts, n_hidden, call.n_starts, options.n_expansions)
        log_sum = _weigh_set(model, found, call.n_starts, options.n_expansions)
        result.log_sum[row] = log_sum
        result.size[row] = found.sizes[0]
        result.log_evidence[row] = log_sum
        result.log_error[row] = 0.0
        for j in range(n):
            chains.error[j] = 0.0
        if options.n_chains > 0:
            _run_chains(model, found, chains, log_sum, key, options)
            log_total, log_error = _combine_chains(model, found, chains, options)
            result.log_evidence[row] += log_total
            result.log_error[row] = log_error
        if call.with_probability:
            probability = advance(result.probability, row * n_hidden)
            error = advance(result.error, row * n_hidden)
            for k in range(n_hidden):
                probability[k] = logistic_of(model.isolated[k])
                error[k] = 0.0
            for j in range(n):
                probability[model.hidden[j]] = found.mean[j]
                error[model.hidden[j]] = chains.error[j]


# ---- sets of configurations


@inner()
def _name_of(keys, state, n):
    """Return the name of a configuration: the keys of its nodes that are on, combined."""
    name = uint64(0)
    for j in range(n):
        if state[j]:
            name ^= keys[j]
    return name


@inner()
def _slot_of(found, name):
    """Find the slot of the table that holds the entry of this name, or the empty slot for it.

    Names have 64 bits. Two configurations with the same name count once, so the sum stays a lower
    bound.
    """
    mask = uint64(found.sizes[1] - 1)
    slot = mix(name) & mask
    while found.table[slot] and found.names[found.table[slot] - 1] != name:
        slot = (slot + uint64(1)) & mask
    return slot


@inner()
def _add_entry(found, slot, name, value, origin, flipped):
    """Append a configuration to the set."""
    size = found.sizes[0]
    found.value[size] = value
    found.names[size] = name
    found.origin[size] = origin
    found.flipped[size] = flipped
    found.done[size] = 0
    found.sizes[0] = size + 1
    found.table[slot] = size + 1


@inner()
def _grow_set(model, found, starts, n_hidden, n_given, n_expansions):
    """Grow the set of one row from ``starts`` (n_given, n_hidden).

    If there are expansions, the configuration in which nothing is on is expanded first and not
    counted: its flips are all explanations by a single cause.
    """
    small_code()
    n, state, n_starts = model.sizes[0], model.chain.state, n_given
    if n_expansions > 0:
        n_starts, n_expansions = n_starts + 1, n_expansions + 1
    n_slots = 16
    # A table of a power of two, at most half full: probing stays short, and a mask is a remainder.
    while n_slots < 2 * (n_starts + n_expansions * n):
        n_slots *= 2
    for slot in range(n_slots):
        found.table[slot] = 0
    found.sizes[0], found.sizes[1] = 0, n_slots
    for j in range(n):
        # Keys as in Zobrist hashing: flipping a node is one exclusive or.
        found.keys[j] = mix(uint64(model.hidden[j]) + uint64(0x5851F42D4C957F2D))

    empty = int64(-1)
    for s in range(n_starts):
        start = advance(found.start, s * n)
        for j in range(n):
            start[j] = model.clamp[j]
            if model.clamp[j] == FREE:
                start[j] = starts[s * n_hidden + model.hidden[j]] if s < n_given else 0
            state[j] = start[j]
        name = _name_of(found.keys, start, n)
        slot = _slot_of(found, name)
        if found.table[slot] == 0:
            _add_entry(found, slot, name, enter_state(model), -1 - s, int64(-1))
        empty = int64(found.table[slot] - 1)
    for e in range(n_expansions):
        best = empty if e == 0 else int64(-1)
        for entry in range(found.sizes[0] if e > 0 else 0):
            if not found.done[entry] and (best < 0 or found.value[entry] > found.value[best]):
                best = entry
        if best < 0:
            break
        found.done[best] = 1
        _expand(model, found, best, e)


@inner()
def _expand(model, found, best, e):
    """Add all single flips of entry ``best`` to the set, as expansion ``e``."""
    n, state, origin = model.sizes[0], model.chain.state, int64(found.origin[best])
    expanded = advance(found.expanded, e * n)
    if origin < 0:
        source = advance(found.start, (-1 - origin) * n)
    else:
        source = advance(found.expanded, origin * n)
    for j in range(n):
        state[j] = source[j]
    if origin >= 0:
        state[found.flipped[best]] = 1 - state[found.flipped[best]]
    for j in range(n):
        expanded[j] = state[j]
    base = enter_state(model)
    for j in range(n):
        name = found.names[best] ^ found.keys[j]
        slot = _slot_of(found, name)
        if model.clamp[j] == FREE and found.table[slot] == 0:
            gain = gain_on(model, j)
            _add_entry(found, slot, name, base - gain if state[j] else base + gain, e, j)


@inner()
def _weigh_set(model, found, n_starts, n_expansions):
    """Fill ``weight`` and ``mean`` of the set; return the log of its sum.

    The time of the mean is proportional to the number of entries, not to entries times nodes.
    """
    small_code()
    n, size, top, total = model.sizes[0], found.sizes[0], -np.inf, 0.0
    for entry in range(size):
        # The largest first, so that no exponential overflows.
        top = maximum(top, found.value[entry])
    for entry in range(size):
        found.weight[entry] = math.exp(found.value[entry] - top)
        total += found.weight[entry]
    if n_expansions > 0:
        n_starts, n_expansions = n_starts + 1, n_expansions + 1
    for s in range(n_starts):
        found.of_start[s] = 0.0
    for e in range(n_expansions):
        found.of_expanded[e] = 0.0
    for j in range(n):
        found.mean[j] = 0.0
    for entry in range(size):
        weight = found.weight[entry] / total
        found.weight[entry] = weight
        origin = found.origin[entry]
        if origin < 0:
            found.of_start[-1 - origin] += weight
        else:
            found.of_expanded[origin] += weight
            j = found.flipped[entry]
            # An entry differs from its origin in one bit: correct for it here, and add the origins
            # with their total weights below.
            found.mean[j] += weight * (1.0 - 2.0 * found.expanded[origin * n + j])
    for s in range(n_starts):
        if found.of_start[s] > 0.0:
            for j in range(n):
                found.mean[j] += found.of_start[s] * found.start[s * n + j]
    for e in range(n_expansions):
        if found.of_expanded[e] > 0.0:
            for j in range(n):
                found.mean[j] += found.of_expanded[e] * found.expanded[e * n + j]
    for j in range(n):
        # Corrections may leave a probability outside by rounding.
        found.mean[j] = minimum(maximum(found.mean[j], 0.0), 1.0)
    return top + math.log(total)


# ---- chains


@inner()
def _run_chains(model, found, chains, log_sum, key, options):
    """Sample configurations outside a set by annealed importance sampling, equation T41.

    A chain starts from nodes that are independent of each other, with nearly their probabilities
    under the set of configurations, and passes to p(h, x) by Gibbs sweeps of rising inverse
    temperature.
    """
    small_code()
    n, hidden, clamp, state = model.sizes[0], model.hidden, model.clamp, model.chain.state
    n_steps, first_odds = options.n_steps, chains.first_odds
    log_off = _fill_first(model, found, chains)
    for chain in range(options.n_chains):
        chain_key = combine(key, uint64(chain))
        for j in range(n):
            state[j] = clamp[j]
            if clamp[j] == FREE:
                state[j] = uniform_of(combine(chain_key, uint64(hidden[j]))) < chains.first[j]
        log_weight = 0.0
        on, outside = advance(chains.on, chain * n), 0.0
        for j in range(n):
            on[j] = 0.0
        for step in range(n_steps + options.n_stay):
            # Sums are computed afresh at every step, so that rounding of thousands of flips cannot
            # add up.
            log_p = enter_state(model)
            step_key = combine(chain_key, uint64(step) + _AFTER_NODES)
            if step >= n_steps:
                _swap(model, chains, 1.0, step_key)
                outside += _visit(model, found, step_key, on) / options.n_stay
                continue
            log_q = log_off
            for j in range(n):
                if state[j]:
                    log_q += first_odds[j]
            log_weight += (log_p - log_q) / n_steps
            # After the last term of the weight no sweep is needed: what follows is at b = 1 anyway.
            if step < n_steps - 1:
                heat = (step + 1) / n_steps
                _swap(model, chains, heat, step_key)
                for j in range(n):
                    if clamp[j] == FREE:
                        odds = heat * gain_on(model, j) + (1.0 - heat) * first_odds[j]
                        draw = uniform_of(combine(step_key, uint64(hidden[j])))
                        if (draw < logistic_of(odds)) != state[j]:
                            flip_node(model, j)
        chains.outside[chain] = outside
        for j in range(n):
            on[j] /= options.n_stay
        # Relative to the set's sum, or the exponential would underflow for rows of many visibles.
        chains.weight[chain] = math.exp(minimum(log_weight - log_sum, 700.0))


@inner()
def _fill_first(model, found, chains):
    """Fill the starting probabilities; return log q_0 of the state with all free nodes off."""
    n, log_off = model.sizes[0], 0.0
    least = _SMOOTHING / (n if n > 0 else 1)
    chains.up_to[0] = 0.0
    for j in range(n):
        # Away from 0 and 1: a start that rules a state out would give weights without a bound.
        first = minimum(maximum(found.mean[j], least), 1.0 - least)
        chains.first[j] = first
        chains.first_odds[j] = 0.0
        chains.up_to[j + 1] = chains.up_to[j]
        if model.clamp[j] == FREE:
            chains.first_odds[j] = math.log(first / (1.0 - first))
            log_off += math.log1p(-first)
            chains.up_to[j + 1] += first
    return log_off


@inner()
def _swap(model, chains, heat, key):
    """Replace one free node that is on by another one, in Metropolis steps: equation T42.

    If one of two competing causes is on, single flips can exchange them only through a state with
    both or none on. The new node is drawn by its probability at the start, ``up_to`` (n + 1,)
    summed.
    """
    small_code()
    n, state, clamp, up_to = model.sizes[0], model.chain.state, model.clamp, chains.up_to
    on, n_on = chains.listed, 0
    for j in range(n):
        if state[j] and clamp[j] == FREE:
            on[n_on] = j
            n_on += 1
    # The number of attempts depends on how many nodes are on, and a swap does not change that.
    attempts = _SWAPS * n_on if _SWAPS * n_on < _MAX_SWAPS else _MAX_SWAPS
    for attempt in range(attempts):
        attempt_key = combine(key, uint64(attempt) + _AFTER_NODES)
        index = int(uniform_of(attempt_key) * n_on)
        index = index if index < n_on else n_on - 1
        wanted = uniform_of(combine(attempt_key, uint64(0))) * up_to[n]
        new = _interval_of(up_to, n, wanted)
        old = int64(on[index])
        if state[new] or clamp[new] != FREE:
            continue
        # The gain of the new node depends on the old one being off: flip it first, and back if the
        # swap is refused.
        change = -heat * gain_on(model, old)
        flip_node(model, old)
        change += heat * gain_on(model, new)
        change += (1.0 - heat) * (chains.first_odds[new] - chains.first_odds[old])
        back = math.log((up_to[old + 1] - up_to[old]) / (up_to[new + 1] - up_to[new]))
        if math.log(uniform_of(combine(attempt_key, uint64(1)))) < change + back:
            flip_node(model, new)
            on[index] = new
        else:
            flip_node(model, old)


@inner()
def _interval_of(up_to, n, wanted):
    """Return the last j < n with ``up_to[j] <= wanted``."""
    low, high = 0, n + 1
    while low < high:
        middle = (low + high) // 2
        if up_to[middle] <= wanted:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low <= n else n - 1


@inner()
def _visit(model, found, key, on):
    """Make a sweep at the target and count visits outside the set, for equation T43.

    Adds to ``on`` (n,) the conditional probability that a node is on and the configuration outside;
    returns the mean over nodes of the probability of being outside.
    """
    small_code()
    n, clamp, hidden, state = model.sizes[0], model.clamp, model.hidden, model.chain.state
    keys, table = found.keys, found.table
    # The name of the configuration follows each flip by one exclusive or: looking up whether a
    # neighbor is in the set costs no more than a hash.
    name = _name_of(keys, state, n)
    inside = table[_slot_of(found, name)] > 0
    outside, n_free = 0.0, 0
    for j in range(n):
        if clamp[j] != FREE:
            continue
        # Both states of j are counted by their probabilities, not the one that is drawn below.
        probability = logistic_of(gain_on(model, j))
        other_inside = table[_slot_of(found, name ^ keys[j])] > 0
        on_inside, off_inside = (inside, other_inside) if state[j] else (other_inside, inside)
        if not on_inside:
            on[j] += probability
            outside += probability
        if not off_inside:
            outside += 1.0 - probability
        n_free += 1
        if (uniform_of(combine(key, uint64(hidden[j]))) < probability) != state[j]:
            flip_node(model, j)
            name ^= keys[j]
            inside = other_inside
    outside /= n_free if n_free > 0 else 1
    for j in range(n):
        if clamp[j] == 1:
            on[j] += outside
    return outside


@inner()
def _combine_chains(model, found, chains, options):
    """Combine set and chains: replace ``mean``, fill ``error``; return log total and error.

    Equation T43, everything relative to the sum over the set. Errors are those of the mean over
    chains to first order. Unless the set is complete, the weight of one more visit outside is
    added to them.
    """
    small_code()
    n, n_chains, values = model.sizes[0], options.n_chains, chains.values
    n_free = 0.0
    for j in range(n):
        if model.clamp[j] == FREE:
            n_free += 1.0
    complete = found.sizes[0] == 2.0**n_free
    # If no chain ever left the set the spread is zero, but the truth need not be.
    visit = 0.0 if complete else 1.0 / (n_chains * options.n_stay)
    for chain in range(n_chains):
        values[chain] = chains.weight[chain] * chains.outside[chain]
    average, spread = _mean_and_error(values, n_chains)
    total = 1.0 + average
    for j in range(n):
        for chain in range(n_chains):
            values[chain] = chains.weight[chain] * chains.on[chain * n + j]
        mean = minimum((found.mean[j] + _mean_and_error(values, n_chains)[0]) / total, 1.0)
        found.mean[j] = mean
        for chain in range(n_chains):
            away = chains.on[chain * n + j] - mean * chains.outside[chain]
            values[chain] = chains.weight[chain] * away
        rare = math.sqrt(mean * (1.0 - mean)) * visit
        chains.error[j] = math.hypot(_mean_and_error(values, n_chains)[1] / total, rare)
    return math.log(total), math.hypot(spread / total, visit)


@inner()
def _mean_and_error(values, count):
    """Return the mean and its standard error."""
    mean, squares = 0.0, 0.0
    for index in range(count):
        mean += values[index] / count
    for index in range(count):
        squares += (values[index] - mean) ** 2
    return mean, math.sqrt(squares / (count * (count - 1)))
