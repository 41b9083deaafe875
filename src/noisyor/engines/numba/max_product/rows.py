"""Max-product inference of whole rows: the loop, decoding, and polishing of what was decoded.

Equations T11 to T14, T17 and T51 of docs/theory.md. Children that are off send the constant -theta
to their parents. It is part of each parent's total, so only the edges into active visibles and
between hidden nodes are ever visited.
"""

import numpy as np
from numba import float32, uint64

from noisyor.engines.contract import FREE
from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.float32x8 import LANES
from noisyor.engines.numba.graph import NEVER
from noisyor.engines.numba.log_joint import (
    hidden_totals,
    list_on,
    node_sums,
    polish_row,
)
from noisyor.engines.numba.max_product.active_set import select
from noisyor.engines.numba.max_product.blocks import (
    fill_blocks,
    start_blocks,
    sum_lanes,
    update_aligned_block,
    update_free_block,
    update_on_block,
)
from noisyor.engines.numba.max_product.messages import (
    send,
    start_child,
    update_free_child,
    update_on_child,
)
from noisyor.engines.numba.max_product.sets import exclude, leave_out
from noisyor.engines.numba.max_product.two_stage import fill_rest, run_two_stage
from noisyor.engines.numba.scalar import combine, logistic_noise


@njit(cache=True, nogil=True)
def infer_rows(graph, parameters, rows, options, noise, output, work, stages, begin, end):
    """Fill ``output`` for rows ``begin`` to ``end``; ``work``, ``stages``: this thread's memory."""
    blocks = work.blocks
    run_key = combine(uint64(noise.seed), uint64(noise.step))
    if options.two_stage:
        fill_rest(graph, parameters, options.step, stages)
    for row in range(begin, end):
        ones = rows.columns[rows.ptr[row] : rows.ptr[row + 1]]
        missing = rows.missing_columns[rows.missing_ptr[row] : rows.missing_ptr[row + 1]]
        _read_clamp(rows.clamp, row, work.clamp)
        selection = select(
            graph, work, ones, missing, options.ancestors_only, options.maximize_missing
        )
        narrow = work.narrow
        # Blocks hold copies of parameters, so they are filled once per row and used for all
        # samples.
        on_blocks = fill_blocks(blocks, 0, narrow[: selection.narrow_on], graph, parameters)
        n_blocks = fill_blocks(
            blocks, on_blocks, narrow[selection.narrow_on : selection.narrow], graph, parameters
        )
        hidden = work.hidden[: selection.hidden]
        hidden_totals(graph, parameters, missing, work.total)
        leave_out(work.belief, graph.set_member)
        # The keys of equation T18: ids, not positions, so that a row has the same noise in any
        # batch.
        row_key = combine(run_key, uint64(rows.row_ids[row]))
        for sample in range(options.n_samples):
            line = row * options.n_samples + sample
            key = combine(row_key, uint64(sample))
            if options.two_stage:
                iterations, residual = run_two_stage(
                    graph,
                    parameters,
                    work,
                    stages,
                    missing,
                    selection,
                    on_blocks,
                    n_blocks,
                    options,
                    key,
                )
            else:
                _start(
                    graph,
                    parameters,
                    work,
                    hidden,
                    selection.wide,
                    on_blocks,
                    n_blocks,
                    options,
                    key,
                )
                iterations, residual = _iterate(
                    graph, parameters, work, hidden, selection, on_blocks, n_blocks, options
                )
            output.iterations[line] = iterations
            output.residual[line] = residual
            _decode(work.belief, hidden, output.states[line])
            if output.beliefs.shape[0] > 0:
                _copy_beliefs(work.belief, hidden, output.beliefs[line])


@njit(cache=True, nogil=True)
def polish_rows(graph, parameters, rows, states, options, work, begin, end):
    """Flip single bits of ``states`` (lines, n_hidden) of rows ``begin`` to ``end`` in place.

    The nodes that may flip are those that took part in message passing, in the same order.
    """
    n_rows = len(rows.ptr) - 1
    samples = len(states) // n_rows
    set_turn = np.empty(len(graph.set_ptr) - 1, dtype=np.int32)
    for row in range(begin, end):
        ones = rows.columns[rows.ptr[row] : rows.ptr[row + 1]]
        missing = rows.missing_columns[rows.missing_ptr[row] : rows.missing_ptr[row + 1]]
        _read_clamp(rows.clamp, row, work.clamp)
        selection = select(
            graph, work, ones, missing, options.ancestors_only, options.maximize_missing
        )
        hidden = work.hidden[: selection.hidden]
        hidden_totals(graph, parameters, missing, work.total)
        for line in range(row * samples, (row + 1) * samples):
            state = states[line]
            n_on = list_on(state, work.on)
            node_sums(graph, parameters, state, work.on[:n_on], ones, hidden, work.sums)
            polish_row(graph, parameters, state, ones, hidden, work, set_turn, options.sweeps)


@njit(cache=True, nogil=True, forceinline=True)
def _read_clamp(clamps, row, clamp):
    """Evidence on the hidden nodes of a row; without any, all are free."""
    last = clamps.shape[0] - 1
    for k in range(len(clamp)):
        clamp[k] = FREE if last < 0 else clamps[min(row, last), k]


@njit(cache=True, nogil=True, forceinline=True)
def _decode(belief, hidden, state):
    """On where the belief is positive; an exact tie and nodes that took no part are off.

    Ties are real: without noise, uniform parameters give them. Equation T11. Of a set of
    alternatives at most one belief is positive, so at most one is on.
    """
    for k in range(len(state)):
        state[k] = 0
    for k in hidden:
        state[k] = belief[k] > 0.0


@njit(cache=True, nogil=True, forceinline=True)
def _copy_beliefs(belief, hidden, beliefs):
    for k in range(len(beliefs)):
        beliefs[k] = NEVER
    for k in hidden:
        beliefs[k] = belief[k]


@njit(cache=True, nogil=True, forceinline=True)
def _start(graph, parameters, work, hidden, n_wide, on_blocks, n_blocks, options, key):
    """Messages at zero (excess = theta), prior log-odds on nodes without parents, fresh noise.

    The start of equation T14; noise by equation T17.
    """
    # A visible that is summed out sends no message; one that is inferred is a child like others.
    total = parameters.total if options.maximize_missing else work.total
    unaries, to_child, incoming = work.unary, work.to_child, work.incoming
    n_parents, leak_log_odds = graph.n_parents, parameters.leak_log_odds
    for k in hidden:
        unary = -total[k]
        if options.temperature > 0.0:
            unary += options.temperature * logistic_noise(combine(key, uint64(k)))
        unaries[k] = unary
        node = graph.n_visible + k
        to_child[k] = 0.0 if n_parents[node] > 0 else leak_log_odds[node]
    start_blocks(work.blocks, on_blocks if graph.aligned else 0, n_blocks, incoming)
    ptr, first, parent, weight = graph.ptr, graph.first, graph.parent, parameters.weight
    excess, wide, places = work.excess, work.wide, work.place
    for number in range(n_wide):
        node = wide[number]
        size = ptr[node + 1] - ptr[node]
        start_child(incoming, excess, weight, parent, first[node], ptr[node], places[number], size)
    _collect(work.belief, unaries, to_child, incoming, work.clamp, hidden)
    exclude(work.belief, graph.set_ptr, graph.set_member)


@njit(cache=True, nogil=True, forceinline=True)
def _collect(belief, unary, to_child, incoming, clamp, hidden):
    """Beliefs from the messages that have come in, which are then cleared: equation T12.

    ``unary`` holds -T_k and the noise.
    """
    for k in hidden:
        if clamp[k] == FREE:
            belief[k] = unary[k] + to_child[k] + incoming[k]
        else:
            belief[k] = -NEVER if clamp[k] == 1 else NEVER
        incoming[k] = 0.0


@njit(cache=True, nogil=True, forceinline=True)
def _iterate(graph, parameters, work, hidden, selection, on_blocks, n_blocks, options):
    """Flooding until no message wants to change by ``tolerance``; return count and last change.

    Beliefs are computed once per iteration, after all factors: so the updates are parallel, and the
    order of the children matters for rounding only.
    """
    step, tolerance = float32(options.step), float32(options.tolerance)
    n_wide_on, n_wide = selection.wide_on, selection.wide
    # Fields become local names once per row, and functions take arrays: handing a tuple of arrays
    # to a function counts references to all of them, which would dominate small rows.
    blocks, aligned, n_visible = work.blocks, graph.aligned, graph.n_visible
    belief, incoming, to_child = work.belief, work.incoming, work.to_child
    unary, clamp, lanes = work.unary, work.clamp, work.lanes
    ptr, first, parent = graph.ptr, graph.first, graph.parent
    log_odds, leak = parameters.log_odds, parameters.leak_log_odds
    excess, scratch, wide, places = work.excess, work.scratch, work.wide, work.place
    cells, cell_log_odds, cell_parent = blocks.excess, blocks.log_odds, blocks.parent
    lane_leak, lane_child, starts = blocks.leak, blocks.child, blocks.start
    cell_scratch, back = blocks.scratch, blocks.back
    set_ptr, set_member = graph.set_ptr, graph.set_member
    residual = float32(0.0)
    for iteration in range(options.max_iterations):
        residual = float32(0.0)
        if aligned:
            for number in range(on_blocks):
                change = update_aligned_block(
                    belief,
                    lanes,
                    cells,
                    cell_log_odds,
                    first[0],
                    starts[number],
                    starts[number + 1],
                    lane_leak,
                    number * LANES,
                    step,
                    cell_scratch,
                )
                residual = max(residual, change)
            # What all blocks sent to a parent lies side by side in eight lanes until here.
            sum_lanes(lanes, incoming, hidden)
        else:
            for number in range(on_blocks):
                change = update_on_block(
                    belief,
                    incoming,
                    cells,
                    cell_log_odds,
                    cell_parent,
                    starts[number],
                    starts[number + 1],
                    lane_leak,
                    number * LANES,
                    step,
                    cell_scratch,
                )
                residual = max(residual, change)
        for number in range(on_blocks, n_blocks):
            change = _update_free_block(
                belief,
                incoming,
                to_child,
                cells,
                cell_log_odds,
                cell_parent,
                starts[number],
                starts[number + 1],
                lane_leak,
                lane_child,
                number * LANES,
                step,
                cell_scratch,
                back,
            )
            residual = max(residual, change)
        for number in range(n_wide):
            node = wide[number]
            start = ptr[node]
            size = ptr[node + 1] - start
            if number < n_wide_on:
                change = update_on_child(
                    belief,
                    incoming,
                    excess,
                    log_odds,
                    parent,
                    first[node],
                    start,
                    places[number],
                    size,
                    leak[node],
                    step,
                    scratch,
                )
            else:
                # Negative for an unobserved visible that is inferred: nothing reaches it from
                # below.
                k = node - n_visible
                back_to_child = belief[k] - to_child[k] if k >= 0 else float32(0.0)
                change, message = update_free_child(
                    belief, incoming, excess, log_odds, parent, first[node], start, places[number],
                    size, leak[node], step, scratch, back_to_child,
                )  # fmt: skip
                if k >= 0:
                    change = max(change, send(to_child, k, message, step))
            residual = max(residual, change)
        _collect(belief, unary, to_child, incoming, clamp, hidden)
        exclude(belief, set_ptr, set_member)
        if residual < tolerance:
            return iteration + 1, residual
    return options.max_iterations, residual


@njit(cache=True, nogil=True, forceinline=True)
def _update_free_block(
    belief,
    incoming,
    to_child,
    excess,
    log_odds,
    parent,
    start,
    end,
    leak,
    child,
    place,
    step,
    scratch,
    back,
):
    """A block of free children: collect what each has from elsewhere, update, tell each child."""
    for lane in range(LANES):
        k = child[place + lane]
        back[lane] = belief[k] - to_child[k] if k >= 0 else float32(0.0)
    change = update_free_block(
        belief, incoming, excess, log_odds, parent, start, end, leak, place, step, scratch, back
    )
    for lane in range(LANES):
        k = child[place + lane]
        if k >= 0:
            change = max(change, send(to_child, k, back[lane], step))
    return change
