"""Children with few parents, eight children at a time.

A child with five parents does not fill a vector, and its reductions across lanes take longer than
its update. So here a lane is a child: cell (slot, lane) of a block is the slot-th edge of the
lane-th child, and largest and second largest are found lane by lane without any reduction. Missing
cells are inert edges. The arithmetic is that of `messages`: equations T9 and T12 of docs/theory.md.

In an aligned graph a slot has the same parent in all lanes, so nothing needs to be gathered, and
the messages to a parent are added up lane by lane as well.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import float32

from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.float32x8 import (
    LANES,
    add,
    gather,
    largest,
    largest_magnitude,
    load,
    multiply,
    reduce_max,
    reduce_sum,
    scatter_add,
    smallest,
    splat,
    store,
    subtract,
    where_equal,
)
from noisyor.engines.numba.graph import NEVER


class Blocks(NamedTuple):
    """Blocks of one row. Cells of block b are ``start[b]:start[b + 1]``, eight per slot.

    ``parent``, ``log_odds``, ``weight``, ``excess`` per cell; ``leak`` and ``child`` per lane,
    ``child`` being the hidden index or -1. The rest is scratch space for one block: first ``edge``
    and ``n_edges`` of each lane, ``back`` (8,), and ``scratch`` for its cells.
    """

    start: npt.NDArray[np.int64]
    parent: npt.NDArray[np.int32]
    log_odds: npt.NDArray[np.float32]
    weight: npt.NDArray[np.float32]
    excess: npt.NDArray[np.float32]
    leak: npt.NDArray[np.float32]
    child: npt.NDArray[np.int32]
    edge: npt.NDArray[np.int64]
    n_edges: npt.NDArray[np.int64]
    back: npt.NDArray[np.float32]
    scratch: npt.NDArray[np.float32]


@njit(cache=True, nogil=True, forceinline=True)
def fill_blocks(blocks, n_blocks, nodes, graph, parameters):
    """Append blocks for the nodes; return the new number of blocks.

    Parameters are copied cell by cell, once per row, so that the loop over iterations reads
    memory front to back.
    """
    ptr, n_parents, parent = graph.ptr, graph.n_parents, graph.parent
    log_odds, weight, leak = parameters.log_odds, parameters.weight, parameters.leak_log_odds
    cell_parent, cell_log_odds, cell_weight = blocks.parent, blocks.log_odds, blocks.weight
    lane_leak, lane_child, starts = blocks.leak, blocks.child, blocks.start
    edges, counts = blocks.edge, blocks.n_edges
    n_visible, n_hidden = graph.n_visible, graph.n_hidden
    for first in range(0, len(nodes), LANES):
        place = n_blocks * LANES
        slots = 0
        for lane in range(LANES):
            if first + lane < len(nodes):
                node = nodes[first + lane]
                edges[lane], counts[lane] = ptr[node], n_parents[node]
                lane_leak[place + lane] = leak[node]
                lane_child[place + lane] = max(-1, node - n_visible)
                slots = max(slots, counts[lane])
            else:
                # The last block may have fewer than eight children: lanes without a child have no
                # edges and a leak that never acts.
                edges[lane] = counts[lane] = 0
                lane_leak[place + lane] = NEVER
                lane_child[place + lane] = -1
        cell = starts[n_blocks]
        for slot in range(slots):
            for lane in range(LANES):
                if slot < counts[lane]:
                    edge = edges[lane] + slot
                    cell_parent[cell] = parent[edge]
                    cell_log_odds[cell] = log_odds[edge]
                    cell_weight[cell] = weight[edge]
                else:
                    # An inert edge. Each lane has a spare parent of its own behind the real ones,
                    # so that stores to padding do not wait for each other.
                    cell_parent[cell] = n_hidden + lane
                    cell_log_odds[cell] = NEVER
                    cell_weight[cell] = 0.0
                cell += 1
        n_blocks += 1
        starts[n_blocks] = cell
    return n_blocks


@njit(cache=True, nogil=True, forceinline=True)
def start_blocks(blocks, n_aligned, n_blocks, incoming):
    """Messages of zero log-odds, excess = theta, added to ``incoming``: the start of equation T14.

    In the first ``n_aligned`` blocks all lanes of a slot have the parent of the first lane.
    """
    aligned = blocks.start[n_aligned]
    parent, weight, excess = blocks.parent, blocks.weight, blocks.excess
    for cell in range(0, blocks.start[n_blocks], LANES):
        value = load(weight, cell)
        store(excess, cell, value)
        if cell < aligned:
            # All lanes have one parent: a scatter would add to it eight times in a row.
            incoming[parent[cell]] += reduce_sum(value)
        else:
            scatter_add(incoming, parent, cell, value)


@njit(cache=True, nogil=True, forceinline=True)
def update_on_block(
    belief, incoming, excess, log_odds, parent, start, end, leak, place, step, scratch
):
    """Update a block of children that are all on; return the largest change asked for.

    `messages.update_on_child` with lanes and loops exchanged: no value crosses lanes before the
    last line.
    """
    zero = splat(float32(0.0))
    best = load(leak, place)  # the leak is simply the first candidate of its lane
    second = splat(NEVER)
    for cell in range(start, end, LANES):
        gap = smallest(subtract(gather(belief, parent, cell), load(excess, cell)), zero)
        down = add(load(log_odds, cell), gap)
        store(scratch, cell - start, down)
        second = largest(second, smallest(best, down))
        best = largest(best, down)
    need = largest(zero, subtract(zero, best))
    need_of_peak = largest(zero, subtract(zero, second))
    rate = splat(step)
    change = zero
    for cell in range(start, end, LANES):
        missing = where_equal(load(scratch, cell - start), best, need_of_peak, need)
        old = load(excess, cell)
        difference = subtract(largest(zero, add(load(log_odds, cell), missing)), old)
        change = largest_magnitude(change, difference)
        new = add(old, multiply(rate, difference))
        store(excess, cell, new)
        scatter_add(incoming, parent, cell, new)
    return reduce_max(change)


@njit(cache=True, nogil=True, forceinline=True)
def update_aligned_block(
    belief, lanes, excess, log_odds, first, start, end, leak, place, step, scratch
):
    """`update_on_block` for children whose parents are ``first``, ``first + 1``, and so on.

    ``lanes[8 * k:8 * k + 8]`` collects what arrives at hidden node k: eight sums side by side, one
    per lane, which `sum_lanes` adds up once per iteration instead of once per block.
    """
    zero = splat(float32(0.0))
    best = load(leak, place)
    second = splat(NEVER)
    k = first
    for cell in range(start, end, LANES):
        gap = smallest(subtract(splat(belief[k]), load(excess, cell)), zero)
        down = add(load(log_odds, cell), gap)
        store(scratch, cell - start, down)
        second = largest(second, smallest(best, down))
        best = largest(best, down)
        k += 1
    need = largest(zero, subtract(zero, best))
    need_of_peak = largest(zero, subtract(zero, second))
    rate = splat(step)
    change = zero
    k = first
    for cell in range(start, end, LANES):
        missing = where_equal(load(scratch, cell - start), best, need_of_peak, need)
        old = load(excess, cell)
        difference = subtract(largest(zero, add(load(log_odds, cell), missing)), old)
        change = largest_magnitude(change, difference)
        new = add(old, multiply(rate, difference))
        store(excess, cell, new)
        store(lanes, LANES * k, add(load(lanes, LANES * k), new))
        k += 1
    return reduce_max(change)


@njit(cache=True, nogil=True, forceinline=True)
def sum_lanes(lanes, incoming, hidden):
    """Add what the lanes collected to ``incoming`` and clear them."""
    zero = splat(float32(0.0))
    for k in hidden:
        incoming[k] += reduce_sum(load(lanes, LANES * k))
        store(lanes, LANES * k, zero)


@njit(cache=True, nogil=True, forceinline=True)
def update_free_block(
    belief, incoming, excess, log_odds, parent, start, end, leak, place, step, scratch, back
):
    """The same for children that are not observed: equations T9 and T12 with b finite.

    ``back`` (8,) holds the log-odds that each child has from elsewhere and is overwritten with the
    messages to the children.
    """
    zero = splat(float32(0.0))
    best = load(leak, place)
    second = splat(NEVER)
    positive = largest(best, zero)
    for cell in range(start, end, LANES):
        gap = smallest(subtract(gather(belief, parent, cell), load(excess, cell)), zero)
        down = add(load(log_odds, cell), gap)
        store(scratch, cell - start, down)
        positive = add(positive, largest(down, zero))
        second = largest(second, smallest(best, down))
        best = largest(best, down)
    need = largest(zero, subtract(zero, best))
    need_of_peak = largest(zero, subtract(zero, second))
    support = add(load(back, 0), positive)
    store(back, 0, add(positive, smallest(zero, best)))
    rate = splat(step)
    change = zero
    for cell in range(start, end, LANES):
        down = load(scratch, cell - start)
        missing = where_equal(down, best, need_of_peak, need)
        missing = smallest(missing, subtract(support, largest(down, zero)))
        old = load(excess, cell)
        difference = subtract(largest(zero, add(load(log_odds, cell), missing)), old)
        change = largest_magnitude(change, difference)
        new = add(old, multiply(rate, difference))
        store(excess, cell, new)
        scatter_add(incoming, parent, cell, new)
    return reduce_max(change)
