"""Sets of distinct configurations of a row that grow by single flips of their likeliest members.

Equation T40 of docs/theory.md. Configurations are stored as a start or an expanded member and the
one bit that was flipped, so a set takes memory by entry and not by entry times nodes.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import uint64

from noisyor.engines.contract import FREE
from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.sampling.walker import allocate_walker, enter_state, gain_on
from noisyor.engines.numba.scalar import mix


class ConfigurationSet(NamedTuple):
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


@njit(cache=True, nogil=True)
def grow_set(local, starts, first_start, n_starts, n_expansions):
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
    # A table of a power of two, at most half full: probing stays short, and a mask is a remainder.
    while n_slots < 2 * capacity:
        n_slots *= 2
    value, names = np.empty(capacity), np.empty(capacity, dtype=np.uint64)
    origin, flipped = np.empty(capacity, dtype=np.int32), np.empty(capacity, dtype=np.int32)
    done = np.zeros(capacity, dtype=np.bool_)
    table, keys = np.zeros(n_slots, dtype=np.int32), np.empty(n, dtype=np.uint64)
    start, expanded = np.empty((n_starts, n), np.uint8), np.empty((n_expansions, n), np.uint8)
    walker, clamp = allocate_walker(local), local.clamp
    state = walker.state
    for j in range(n):
        # Keys as in Zobrist hashing: flipping a node is one exclusive or.
        keys[j] = mix(uint64(local.hidden[j]) + uint64(0x5851F42D4C957F2D))

    size, empty = 0, -1
    for s in range(n_starts):
        for j in range(n):
            free = clamp[j] == FREE
            given = starts[first_start + s, local.hidden[j]] if s < n_given else np.uint8(0)
            start[s, j] = given if free else clamp[j]
        name = name_of(keys, start[s])
        place = place_of(table, names, name)
        if table[place] == 0:
            copy_into(start[s], state)
            value[size] = enter_state(local, walker)
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
        recall_entry(origin[best], flipped[best], start, expanded, state)
        copy_into(state, expanded[e])
        base = enter_state(local, walker)
        for j in range(n):
            name = names[best] ^ keys[j]
            place = place_of(table, names, name)
            if clamp[j] == FREE and table[place] == 0:
                gain = gain_on(local, walker, j)
                value[size] = base - gain if state[j] else base + gain
                names[size], origin[size], flipped[size] = name, e, j
                size += 1
                table[place] = size
    return ConfigurationSet(
        value[:size], names[:size], origin[:size], flipped[:size], table, keys, start, expanded
    )


@njit(cache=True, nogil=True)
def name_of(keys, state):
    """Name of a configuration: the keys of its nodes that are on, combined."""
    name = uint64(0)
    for j in range(len(state)):
        if state[j]:
            name ^= keys[j]
    return name


@njit(cache=True, nogil=True)
def place_of(table, names, name):
    """Where the table has an entry of this name, plus one, or the empty place for it.

    Names are 64 bits. Two configurations of one name would count once: the sum stays a bound.
    """
    mask = uint64(len(table) - 1)
    place = mix(name) & mask
    while table[place] and names[table[place] - 1] != name:
        place = (place + uint64(1)) & mask
    return place


@njit(cache=True, nogil=True)
def copy_into(source, target):
    """Copy an array of the same length."""
    # Assigning a slice would compile error messages, which takes longer than all the rest.
    for j in range(len(target)):
        target[j] = source[j]


@njit(cache=True, nogil=True)
def recall_entry(origin, flipped, start, expanded, state):
    """Write the configuration of an entry to ``state``."""
    if origin < 0:
        copy_into(start[-1 - origin], state)
    else:
        copy_into(expanded[origin], state)
        state[flipped] = 1 - state[flipped]


@njit(cache=True, nogil=True)
def mean_of_set(found, weight):
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
            # An entry differs from its origin in one bit: correct for that one here, and add the
            # origins with their total weights below.
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
        # Corrections may leave a probability outside by rounding.
        mean[j] = min(max(mean[j], 0.0), 1.0)
    return mean


@njit(cache=True, nogil=True)
def weigh(value, weight):
    """Fill weights that sum to one from log-weights; return the log of the sum."""
    top, total = -np.inf, 0.0
    for entry in range(len(value)):
        # The largest first, so that no exponential overflows.
        top = max(top, value[entry])
    for entry in range(len(value)):
        weight[entry] = math.exp(value[entry] - top)
        total += weight[entry]
    for entry in range(len(value)):
        weight[entry] /= total
    return top + math.log(total)
