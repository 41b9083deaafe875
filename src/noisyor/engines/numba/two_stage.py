"""Max-product by the two-stage schedule: the paper's order of messages.

Equations T15 and T16 of docs/theory.md. The collapsed schedule computes the messages of a noisy-OR
factor from one another and damps only what leaves it. Here, as in the authors' software, a factor
is one small factor per edge and an OR: all of their messages are stored and damped, all change at
once, each from the messages of the iteration before, and all start at zero log-odds, those of leaks
included. The schedule has the same fixed points, takes three times the memory and more iterations,
and on a graph with loops it often ends at another fixed point. Per edge, with the names of
`collapsed`,

    down    t <- a + min(B - excess, 0)          OR      s <- min(b + P - [t]_+, [-M]_+)
    up      excess <- max(0, a + s)

Children that are off still need no visit: after n iterations their excess is a known multiple of
``off_excess = (1 - step) theta + step [a]_+``.

An inert cell of a block has the log-odds ``NEVER``. A lane is inert, without a child or a parent,
if its first cell is.
"""

from collections import deque
from contextlib import AbstractContextManager

import numpy as np
from numba import float32, uint64

from noisyor.engines.contract import FREE
from noisyor.engines.numba.active_set import Work, lay_out
from noisyor.engines.numba.arguments import Packed, Workspace, arrays, borrowed, pack, unpack
from noisyor.engines.numba.cache import inner, njit
from noisyor.engines.numba.collapsed import (
    Call,
    add_to_lanes,
    add_to_parents,
    collect_back,
    decode,
    parents_of_eight,
    parents_of_lanes,
    send,
    send_back,
    sum_lanes,
    with_leak,
)
from noisyor.engines.numba.graph import NEVER, Graph, Parameters
from noisyor.engines.numba.log_joint import hidden_totals
from noisyor.engines.numba.scalar import combine, logistic_noise, maximum, minimum
from noisyor.engines.numba.simd import (
    LANES,
    absolute,
    largest,
    load,
    reduce_max,
    reduce_sum,
    reduce_top_two,
    smallest,
    splat,
    store,
    where_equal,
)


class Stages(Workspace):
    """Memory of one thread beside `Work`."""

    # By message of a wide child, at the offsets of ``Work.excess``; ``to_edge`` is from the OR.
    per_edge = arrays(float32="down to_edge")
    # By wide child: the largest and second largest down, and the sum of the positive parts.
    per_child = arrays(float32="top second positive")
    # The same by cell and lane of ``Work.blocks``.
    per_cell = arrays(float32="cell_down cell_to_edge")
    per_lane = arrays(float32="lane_top lane_second lane_positive")
    # Sums of ``off_excess`` over all children of a hidden node, and over those that are off in the
    # row.
    per_hidden = arrays(float32="noise", float64="all_off off_excess")
    per_padded_edge = arrays(float64="edge_off_excess")
    n_edges: int


def stages_of(
    graph: Packed[Graph], idle: deque[Packed[Stages]], work: Work
) -> AbstractContextManager[Packed[Stages]]:
    """Return memory for the rows of ``work``; ``idle`` holds memory of earlier calls."""
    messages, cells = len(work.excess), len(work.blocks.excess)
    wide, lanes = len(work.wide), len(work.blocks.leak)

    def fits(space: Packed[Stages]) -> bool:
        kept = space.values
        enough = len(kept.down) >= messages and len(kept.cell_down) >= cells
        return enough and len(kept.top) >= wide and len(kept.lane_top) >= lanes

    def make() -> Packed[Stages]:
        n_edges = len(graph.values.parent)
        return pack(
            Stages(
                per_edge=messages,
                per_child=wide,
                per_cell=cells,
                per_lane=lanes,
                per_hidden=graph.values.n_hidden,
                per_padded_edge=n_edges,
                n_edges=n_edges,
            )
        )

    return borrowed(idle, fits, make)


@njit("two-stage max-product")
def infer_two_stage(
    graph_address, parameters_address, call_address, work_address, stages_address, begin, end
):
    """Fill the output for rows ``begin`` to ``end``."""
    graph, parameters = unpack(graph_address, Graph), unpack(parameters_address, Parameters)
    call, work = unpack(call_address, Call), unpack(work_address, Work)
    rows, options, stages = call.rows, call.options, unpack(stages_address, Stages)
    run_key = combine(uint64(call.key.seed), uint64(call.key.step))
    _fill_off_excess(graph, parameters, options.step, stages)
    for row in range(begin, end):
        size = lay_out(graph, parameters, work, rows, row, options)
        hidden_totals(graph, parameters, rows, row, work.total)
        row_key = combine(run_key, uint64(rows.row_ids[row]))
        for draw in range(row * options.n_samples, (row + 1) * options.n_samples):
            key = combine(row_key, uint64(draw - row * options.n_samples))
            _start(graph, parameters, work, stages, rows, row, size, options, key)
            iterations, residual = _iterate(graph, parameters, work, stages, size, options)
            call.output.iterations[draw] = iterations
            call.output.residual[draw] = residual
            decode(graph, work, size.hidden, call.output, draw)


@inner(inline="always")
def _fill_off_excess(graph, parameters, step, stages):
    """Compute ``off_excess`` of every edge, and its sum over the children of a hidden node."""
    for k in range(graph.n_hidden):
        stages.all_off[k] = 0.0
    for edge in range(stages.n_edges):
        positive = float32(step) * maximum(parameters.log_odds[edge], float32(0))
        value = (1.0 - step) * parameters.theta[edge] + positive
        stages.edge_off_excess[edge] = value
        if graph.parent[edge] < graph.n_hidden:  # others are padding
            stages.all_off[graph.parent[edge]] += value


@inner(inline="always")
def _start(graph, parameters, work, stages, rows, row, size, options, key):
    """Set all messages to zero, so that the belief is the noise; sum ``off_excess``.

    The start of equation T16.
    """
    for index in range(size.hidden):
        k = work.hidden[index]
        stages.off_excess[k] = stages.all_off[k]
        stages.noise[k] = 0.0
        if options.temperature > 0.0:
            stages.noise[k] = options.temperature * logistic_noise(combine(key, uint64(k)))
        work.belief[k] = _clamped(work.clamp[k], stages.noise[k])
        work.to_child[k] = 0.0
        work.incoming[k] = 0.0
    # ``off_excess`` starts with all children of a parent; those with messages of their own come
    # off, and so do visibles that are summed out, which have no factor.
    _take_off(graph, stages, work.narrow, 0, work.counts[0])
    _take_off(graph, stages, work.wide, 0, work.counts[1])
    first, last = rows.missing_ptr[row], rows.missing_ptr[row + 1]
    _take_off(graph, stages, rows.missing_columns, first, last)
    blocks, zero, never = work.blocks, splat(float32(0.0)), splat(NEVER)
    for block in range(size.blocks):
        start, end, lane = blocks.start[block], blocks.start[block + 1], block * LANES
        store(stages.lane_top, lane, never)
        store(stages.lane_second, lane, never)
        store(stages.lane_positive, lane, zero)
        for cell in range(start, end, LANES):
            # An inert cell must not look like a message of zero log-odds, which could be largest.
            value = where_equal(load(blocks.log_odds, cell), never, never, zero)
            store(stages.cell_down, cell, value)
            store(stages.cell_to_edge, cell, zero)
            store(blocks.excess, cell, load(blocks.weight, cell))
            if cell == start:
                store(stages.lane_top, lane, value)
            elif cell == start + LANES:
                store(stages.lane_second, lane, value)
    for child in range(size.wide):
        node, offset = work.wide[child], work.offset[child]
        for edge in range(graph.ptr[node + 1] - graph.ptr[node]):
            # Padding must not look like a message of zero log-odds either.
            stages.down[offset + edge] = 0.0 if edge < graph.n_parents[node] else NEVER
            stages.to_edge[offset + edge] = 0.0
            work.excess[offset + edge] = parameters.weight[graph.ptr[node] + edge]
        stages.top[child] = stages.second[child] = 0.0  # a wide child has many parents
        stages.positive[child] = 0.0


@inner()
def _take_off(graph, stages, nodes, first, last):
    """Subtract the part of each node from the ``off_excess`` of its parents."""
    for position in range(first, last):
        node = nodes[position]
        for edge in range(graph.ptr[node], graph.ptr[node] + graph.n_parents[node]):
            stages.off_excess[graph.parent[edge]] -= stages.edge_off_excess[edge]


@inner(forceinline=True)
def _clamped(evidence, belief):
    """Return the belief, or that of a node that is known to be on or off."""
    if evidence == FREE:
        return float32(belief)
    return -NEVER if evidence == 1 else NEVER


@inner(inline="always")
def _iterate(graph, parameters, work, stages, size, options):
    """Compute the beliefs of one row; return the number of iterations and the last change."""
    step, first = float32(options.step), np.int64(graph.first[0])
    belief, to_child, blocks = work.belief, work.to_child, work.blocks
    decay = 1.0  # delta^n of equation T16: what the message of a leak still lacks
    residual, iteration = float32(0.0), 0
    while iteration < options.max_iterations:
        # Share of its final value that the message of every leak has reached, equation T16.
        ramp = float32(1.0 - decay)
        residual = float32(0.0)
        for block in range(size.blocks):
            start, lane = blocks.start[block], block * LANES
            if start == blocks.start[block + 1]:  # no child of the block has parents
                continue
            leak = splat(ramp) * load(blocks.leak, lane)
            if block < size.on_blocks:
                support = _support_of_on(blocks.log_odds, start)
            else:
                collect_back(work, block)
                # P, the leak included.
                total = load(stages.lane_positive, lane) + largest(splat(float32(0.0)), leak)
                support = load(blocks.back, 0) + total
                top = largest(load(stages.lane_top, lane), leak)
                store(blocks.back, 0, total + smallest(splat(float32(0.0)), top))
            if graph.aligned and block < size.on_blocks:
                change = _update_block(
                    belief, work.lanes, blocks, stages, block, first, leak, support, True, step
                )
            else:
                change = _update_block(
                    belief, work.incoming, blocks, stages, block, -1, leak, support, False, step
                )
            residual = maximum(residual, change)
            if block >= size.on_blocks:
                residual = maximum(residual, send_back(work, block, step))
        if graph.aligned:
            sum_lanes(work, size.hidden)
        for child in range(size.wide):
            k = work.wide[child] - graph.n_visible
            is_on = child < size.wide_on
            back = float32(0.0) if is_on else belief[k] - to_child[k]
            change, message = _update_child(
                graph, parameters, work, stages, child, ramp, back, is_on, step
            )
            residual = maximum(residual, change)
            if not is_on:
                residual = maximum(residual, send(to_child, k, message, step))
        for index in range(size.hidden):
            k = work.hidden[index]
            node = graph.n_visible + k
            # Nodes without parents are no children of the row; their prior arrives damped all the
            # same.
            if graph.n_parents[node] == 0:
                prior = ramp * parameters.leak_log_odds[node]
                residual = maximum(residual, send(to_child, k, prior, step))
        # Children that are off: delta^(n-1) off_excess of equation T16, over the children of k.
        previous_decay = float32((1.0 - options.step) ** iteration)
        for index in range(size.hidden):
            k = work.hidden[index]
            arrived = work.incoming[k] + (previous_decay * stages.off_excess[k] - work.total[k])
            belief[k] = _clamped(work.clamp[k], stages.noise[k] + to_child[k] + arrived)
            work.incoming[k] = 0.0
        decay *= 1.0 - options.step
        iteration += 1
        # Constant messages also need time to arrive; without ``decay`` a row could stop before they
        # do.
        if maximum(np.float64(residual), decay) < options.tolerance:
            break
    return iteration, residual


@inner(forceinline=True)
def _support_of_on(log_odds, start):
    """Return the support of the edges of children that are on: no limit.

    It is large and finite, so that nothing is NaN. Inert lanes have no support: their messages stay
    at zero.
    """
    return where_equal(load(log_odds, start), splat(NEVER), splat(float32(0.0)), splat(-NEVER))


@inner(forceinline=True)
def _edges(
    parents,
    odds,
    down,
    to_edge,
    excess,
    at,
    best,
    need_of_peak,
    need,
    support,
    all_on,
    rate,
    change,
):
    """Update three messages of eight edges, at offset ``at`` of their arrays.

    Equation T15 in excess form, each message from those of the iteration before. ``parents`` are
    the beliefs of the parents, ``best`` the largest down message of each child, ``need_of_peak``
    the message s to the edge with the largest one, ``need`` to the others. ``all_on``, a constant
    of the call: every child is on or inert, so that ``support`` is the limit whatever the edge
    itself gives. Returns the new down and excess, and the largest residual.
    """
    zero = splat(float32(0.0))
    old, old_need, old_excess = load(down, at), load(to_edge, at), load(excess, at)
    # Padding may lie beside a parent that is known to be off: its message must stay as it is.
    wanted = odds + smallest(parents - old_excess, zero)
    difference = largest(wanted, splat(NEVER)) - old
    change = largest(change, absolute(difference))
    new = old + rate * difference
    store(down, at, new)

    missing = where_equal(old, best, need_of_peak, need)
    limit = support if all_on else support - largest(old, zero)
    difference = smallest(missing, limit) - old_need
    change = largest(change, absolute(difference))
    store(to_edge, at, old_need + rate * difference)

    difference = largest(zero, odds + old_need) - old_excess
    change = largest(change, absolute(difference))
    new_excess = old_excess + rate * difference
    store(excess, at, new_excess)
    return new, new_excess, change


@inner(forceinline=True)
def _update_block(belief, incoming, blocks, stages, index, first, leak, support, all_on, step):
    """Update all messages of a block; return the largest residual.

    ``leak`` and ``support`` are vectors. ``lane_top``, ``lane_second`` and ``lane_positive`` belong
    to the t of the iteration before and are replaced by those of the new t. ``first`` and
    ``incoming`` as in `collapsed._update_block`; ``all_on`` as in `_edges`: then ``lane_positive``
    is not used.
    """
    zero, never, rate = splat(float32(0.0)), splat(NEVER), splat(step)
    lane = index * LANES
    old_top = load(stages.lane_top, lane)
    best = largest(old_top, leak)
    runner_up = largest(load(stages.lane_second, lane), smallest(old_top, leak))
    need = largest(zero, zero - best)
    need_of_peak = largest(zero, zero - runner_up)
    change, new_best, new_second, new_positive = zero, never, never, zero
    k = first
    for cell in range(blocks.start[index], blocks.start[index + 1], LANES):
        parents = parents_of_lanes(belief, first, k, blocks.parent, cell)
        new, new_excess, change = _edges(
            parents, load(blocks.log_odds, cell), stages.cell_down, stages.cell_to_edge,
            blocks.excess, cell, best, need_of_peak, need, support, all_on, rate, change,
        )  # fmt: skip
        new_second = largest(new_second, smallest(new_best, new))
        new_best = largest(new_best, new)
        if not all_on:
            new_positive = new_positive + largest(new, zero)
        add_to_lanes(incoming, first, k, blocks.parent, cell, new_excess)
        k += 1
    store(stages.lane_top, lane, new_best)
    store(stages.lane_second, lane, new_second)
    store(stages.lane_positive, lane, new_positive)
    return reduce_max(change)


@inner(inline="always")
def _update_child(graph, parameters, work, stages, index, ramp, back, is_on, step):
    """Update all messages of a wide child; return the largest change, and the message to it.

    ``top``, ``second`` and ``positive`` belong to the t of the iteration before; those of the new t
    are gathered on the way for the next one.
    """
    node = work.wide[index]
    start, size, first = graph.ptr[node], graph.ptr[node + 1] - graph.ptr[node], graph.first[node]
    leak = ramp * parameters.leak_log_odds[node]
    best, runner_up = with_leak(stages.top[index], stages.second[index], leak)
    sum_positive = stages.positive[index] + maximum(float32(0.0), leak)
    zero, never, rate, peak = splat(float32(0.0)), splat(NEVER), splat(step), splat(best)
    need = splat(maximum(float32(0.0), -best))
    need_of_peak = splat(maximum(float32(0.0), -runner_up))
    # A child that is on supports its edges without limit; large and finite, so that nothing is NaN.
    support = splat(-NEVER if is_on else back + sum_positive)
    change, new_best, new_second, new_positive = zero, never, never, zero
    for offset in range(0, size, LANES):
        parents = parents_of_eight(work.belief, first, offset, graph.parent, start)
        new, new_excess, change = _edges(
            parents, load(parameters.log_odds, start + offset), stages.down, stages.to_edge,
            work.excess, work.offset[index] + offset, peak, need_of_peak, need, support, False,
            rate, change,
        )  # fmt: skip
        new_second = largest(new_second, smallest(new_best, new))
        new_best = largest(new_best, new)
        new_positive = new_positive + largest(new, zero)
        add_to_parents(work.incoming, first, offset, graph.parent, start, new_excess)
    stages.top[index], stages.second[index] = reduce_top_two(new_best, new_second)
    stages.positive[index] = reduce_sum(new_positive)
    return reduce_max(change), sum_positive + minimum(float32(0.0), best)
