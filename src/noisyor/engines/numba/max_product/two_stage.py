"""The paper's order of messages: every message inside a noisy-OR factor is stored and damped.

Equations T15, T16 and T51 of docs/theory.md. The collapsed schedule (`rows`) computes the messages
of a factor from one another and damps only what leaves it. Here, as in the authors' software, a
factor is one small factor per edge and an OR: all of their messages change at once, each from the
messages of the iteration before, and all start at zero log-odds, those of leaks included. Same
fixed points, three times the memory and more iterations; on a graph with loops it often ends at
another fixed point. Per edge, with the names of `messages`,

    down    t <- a + min(B - excess, 0)          OR      s <- min(b + P - [t]_+, [-M]_+)
    up      excess <- max(0, a + s)

Children that are off still need no visit: after n iterations their excess is a known multiple of
``rest = (1 - step) theta + step [a]_+``.
"""

from numba import float32, uint64

from noisyor.engines.contract import FREE
from noisyor.engines.numba import float32x8 as simd
from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.graph import NEVER
from noisyor.engines.numba.max_product.blocks import sum_lanes
from noisyor.engines.numba.max_product.messages import send
from noisyor.engines.numba.max_product.sets import send_to_members
from noisyor.engines.numba.max_product.two_stage_messages import (
    message_to_children,
    start_blocks,
    support_of_free,
    support_of_on,
    update_block,
    update_child,
)
from noisyor.engines.numba.scalar import combine, logistic_noise


@njit(cache=True, nogil=True)
def fill_rest(graph, parameters, step, stages):
    """``rest`` of every edge, and of all children of a hidden node; ``step`` is 1 - damping."""
    parent, theta, log_odds = graph.parent, parameters.theta, parameters.log_odds
    of_node, of_edge = stages.rest[0], stages.rest_of
    of_node[:] = 0.0
    for edge in range(len(parent)):
        of_edge[edge] = (1.0 - step) * theta[edge] + float32(step) * max(log_odds[edge], float32(0))
        if parent[edge] < graph.n_hidden:  # others are padding
            of_node[parent[edge]] += of_edge[edge]


@njit(cache=True, nogil=True)
def run_two_stage(
    graph, parameters, work, stages, missing, selection, on_blocks, n_blocks, options, key
):
    """Leave the beliefs of one row in ``work.belief``; return iterations and the last change."""
    n_visible, step = graph.n_visible, float32(options.step)
    hidden = work.hidden[: selection.hidden]
    _start(graph, parameters, work, stages, missing, selection, n_blocks, options, key)

    belief, incoming, to_child, clamp = work.belief, work.incoming, work.to_child, work.clamp
    lanes, wide, places, excess = work.lanes, work.wide, work.place, work.excess
    down, to_edge = stages.down, stages.to_edge
    top, second, positive = stages.top, stages.second, stages.positive
    cell_down, cell_to_edge = stages.cell_down, stages.cell_to_edge
    lane_top, lane_second = stages.lane_top, stages.lane_second
    lane_positive = stages.lane_positive
    blocks = work.blocks
    cells, cell_log_odds, cell_parent = blocks.excess, blocks.log_odds, blocks.parent
    lane_leak, lane_child, starts, back = blocks.leak, blocks.child, blocks.start, blocks.back
    noise, rest = stages.noise, stages.rest[1]
    from_set, without_set = stages.from_set, stages.without_set
    set_ptr, set_member = graph.set_ptr, graph.set_member
    total = parameters.total if options.maximize_missing else work.total
    ptr, first, parent, n_parents = graph.ptr, graph.first, graph.parent, graph.n_parents
    log_odds, leaks = parameters.log_odds, parameters.leak_log_odds
    aligned, n_wide_on, n_wide = graph.aligned, selection.wide_on, selection.wide
    way = 1.0  # delta^n of equation T16: what the message of a leak still lacks
    residual = float32(0.0)
    for iteration in range(options.max_iterations):
        # Share of its final value that the message of every leak has reached, equation T16.
        grown = float32(1.0 - way)
        residual = float32(0.0)
        for number in range(n_blocks):
            start, end, place = starts[number], starts[number + 1], number * simd.LANES
            if start == end:  # no child of the block has parents
                continue
            is_on = number < on_blocks
            leak = simd.multiply(simd.splat(grown), simd.load(lane_leak, place))
            if is_on:
                support = support_of_on(cell_log_odds, start)
            else:
                for lane in range(simd.LANES):
                    k = lane_child[place + lane]
                    back[lane] = belief[k] - to_child[k] if k >= 0 else float32(0.0)
                support = support_of_free(back, lane_positive, place, leak)
                simd.store(back, 0, message_to_children(lane_top, lane_positive, place, leak))
            if aligned and is_on:
                change = update_block(
                    belief, lanes, first[0], cell_parent, cell_down, cell_to_edge, cells,
                    cell_log_odds, start, end, lane_top, lane_second, lane_positive, place, leak,
                    support, True, step,
                )  # fmt: skip
            else:
                change = update_block(
                    belief, incoming, -1, cell_parent, cell_down, cell_to_edge, cells,
                    cell_log_odds, start, end, lane_top, lane_second, lane_positive, place, leak,
                    support, False, step,
                )  # fmt: skip
            residual = max(residual, change)
            if not is_on:
                for lane in range(simd.LANES):
                    k = lane_child[place + lane]
                    if k >= 0:
                        residual = max(residual, send(to_child, k, back[lane], step))
        if aligned:
            sum_lanes(lanes, incoming, hidden)
        for number in range(n_wide):
            node = wide[number]
            k = node - n_visible
            is_on = number < n_wide_on
            from_elsewhere = float32(0.0)
            if not is_on and k >= 0:
                from_elsewhere = belief[k] - to_child[k]
            change, message = update_child(
                belief, incoming, down, to_edge, excess, log_odds, parent, top, second, positive,
                number, first[node], ptr[node], ptr[node + 1] - ptr[node], places[number],
                grown * leaks[node], from_elsewhere, is_on, step,
            )  # fmt: skip
            residual = max(residual, change)
            if k >= 0 and not is_on:
                residual = max(residual, send(to_child, k, message, step))
        for k in hidden:
            node = n_visible + k
            # Nodes without parents are no children of the row; their prior arrives damped all the
            # same.
            if n_parents[node] == 0:
                residual = max(residual, send(to_child, k, grown * leaks[node], step))
        change = send_to_members(belief, from_set, without_set, set_ptr, set_member, step)
        residual = max(residual, change)
        # Children that are off: delta^(n-1) rest of equation T16, summed over the children of k.
        fading = float32((1.0 - options.step) ** iteration)
        for k in hidden:
            arrived = incoming[k] + (fading * rest[k] - total[k])
            belief[k] = _clamped(clamp[k], noise[k] + to_child[k] + from_set[k] + arrived)
            incoming[k] = 0.0
        way *= 1.0 - options.step
        # Constant messages also need time to arrive; without ``way`` a row could stop before they
        # do.
        if max(residual, way) < options.tolerance:
            return iteration + 1, residual
    return options.max_iterations, residual


@njit(cache=True, nogil=True, forceinline=True)
def _clamped(evidence, belief):
    """The belief, or that of a node that is known to be on or off."""
    if evidence == FREE:
        return float32(belief)
    return -NEVER if evidence == 1 else NEVER


@njit(cache=True, nogil=True, forceinline=True)
def _start(graph, parameters, work, stages, missing, selection, n_blocks, options, key):
    """All messages zero, so that the belief is the noise; ``rest`` of the children that are off."""
    blocks, rest, rest_of = work.blocks, stages.rest, stages.rest_of
    ptr, parent, n_parents = graph.ptr, graph.parent, graph.n_parents
    for k in work.hidden[: selection.hidden]:
        rest[1, k] = rest[0, k]
        stages.noise[k] = 0.0
        if options.temperature > 0.0:
            stages.noise[k] = options.temperature * logistic_noise(combine(key, uint64(k)))
        work.belief[k] = _clamped(work.clamp[k], stages.noise[k])
        work.to_child[k] = 0.0
        work.incoming[k] = 0.0
        stages.from_set[k] = 0.0
    # ``rest`` starts with all children of a parent; those with messages of their own come off, and
    # so do visibles that are summed out, which have no factor.
    _take_off(rest[1], rest_of, ptr, n_parents, parent, work.narrow[: selection.narrow])
    _take_off(rest[1], rest_of, ptr, n_parents, parent, work.wide[: selection.wide])
    if not options.maximize_missing:
        _take_off(rest[1], rest_of, ptr, n_parents, parent, missing)
    start_blocks(
        blocks.start, blocks.log_odds, blocks.weight, stages.cell_down, stages.cell_to_edge,
        blocks.excess, stages.lane_top, stages.lane_second, stages.lane_positive, n_blocks,
    )  # fmt: skip
    for number in range(selection.wide):
        node, place = work.wide[number], work.place[number]
        size = ptr[node + 1] - ptr[node]
        for offset in range(size):
            # Padding must not look like a message of zero log-odds, which could be the largest.
            stages.down[place + offset] = 0.0 if offset < n_parents[node] else NEVER
            stages.to_edge[place + offset] = 0.0
            work.excess[place + offset] = parameters.weight[ptr[node] + offset]
        stages.top[number] = stages.second[number] = 0.0  # a wide child has many parents
        stages.positive[number] = 0.0


@njit(cache=True, nogil=True, forceinline=True)
def _take_off(rest, rest_of, ptr, n_parents, parent, nodes):
    """Subtract the part of each node from the ``rest`` of its parents."""
    for node in nodes:
        for edge in range(ptr[node], ptr[node] + n_parents[node]):
            rest[parent[edge]] -= rest_of[edge]
