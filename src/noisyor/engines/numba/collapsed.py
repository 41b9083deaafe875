"""Max-product by the collapsed schedule: messages of a noisy-OR factor in one step.

Equations T9, T11 to T14 and T17 of docs/theory.md. Every message is a log-odds number. The message
from the factor of child i to parent k is kept as ``excess = v + theta >= 0``, so that a child that
is off (v = -theta) has excess zero and need not be visited: its effect is the constant -theta, part
of the parent's total. With B the belief of the parent, ``a = log(exp(theta) - 1)`` and b the
log-odds that the child receives from elsewhere,

    t_e      = a_e + min(B_k - excess_e, 0)
    excess_e = max(0, a_e + min(b + P - [t_e]_+, [-M_{-e}]_+)),    P = sum [t]_+ , leak included

where M_{-e} is the largest t of the other edges and the leak. A child that is on has infinite b,
which leaves ``[-M_{-e}]_+`` and needs no P. The edge that holds the maximum sees the runner-up;
with a tie both are the same number. Comparing values finds that edge without remembering its index.

Padding is inert: its log-odds are ``NEVER``, so it never holds the largest t, adds nothing to P and
keeps an excess of zero.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import float32, uint64

from noisyor.engines.contract import FREE, TIE, MaxProductOptions, NoiseKey
from noisyor.engines.numba.active_set import Work, lay_out
from noisyor.engines.numba.arguments import unpack
from noisyor.engines.numba.cache import inner, njit
from noisyor.engines.numba.graph import NEVER, Graph, Parameters, Rows
from noisyor.engines.numba.log_joint import hidden_totals
from noisyor.engines.numba.scalar import combine, logistic_noise, maximum, minimum
from noisyor.engines.numba.simd import (
    LANES,
    absolute,
    gather,
    largest,
    load,
    reduce_max,
    reduce_sum,
    reduce_top_two,
    scatter_add,
    smallest,
    splat,
    store,
    where_equal,
)


class Output(NamedTuple):
    """`noisyor.engines.contract.MaxProductResult` for kernels; beliefs only if wanted."""

    states: npt.NDArray[np.uint8]
    beliefs: npt.NDArray[np.float32]
    iterations: npt.NDArray[np.int32]
    residual: npt.NDArray[np.float32]
    with_beliefs: bool


class Call(NamedTuple):
    """Arguments and results of a call of max-product, which all threads share."""

    rows: Rows
    options: MaxProductOptions
    key: NoiseKey
    output: Output


@njit("max-product")
def infer_collapsed(graph_address, parameters_address, call_address, work_address, begin, end):
    """Fill the output for rows ``begin`` to ``end``."""
    graph, parameters = unpack(graph_address, Graph), unpack(parameters_address, Parameters)
    call, work = unpack(call_address, Call), unpack(work_address, Work)
    rows, options = call.rows, call.options
    run_key = combine(uint64(call.key.seed), uint64(call.key.step))
    for row in range(begin, end):
        # Blocks hold copies of parameters, so they are filled once per row and used for all
        # samples.
        size = lay_out(graph, parameters, work, rows, row, options)
        hidden_totals(graph, parameters, rows, row, work.total)
        # The keys of equation T18: ids, not positions, so that a row has the same noise in any
        # batch.
        row_key = combine(run_key, uint64(rows.row_ids[row]))
        for draw in range(row * options.n_samples, (row + 1) * options.n_samples):
            key = combine(row_key, uint64(draw - row * options.n_samples))
            _start(graph, parameters, work, size, options, key)
            iterations, residual = _iterate(graph, parameters, work, size, options)
            call.output.iterations[draw] = iterations
            call.output.residual[draw] = residual
            decode(graph, work, size.hidden, call.output, draw)


@inner()
def decode(graph, work, n_active, output, draw):
    """Write the states of a draw: on where the belief exceeds ``TIE``, equation T11.

    Nodes that took no part are off.
    """
    offset = draw * graph.n_hidden
    for k in range(graph.n_hidden):
        output.states[offset + k] = 0
    for index in range(n_active):
        k = work.hidden[index]
        output.states[offset + k] = work.belief[k] > float32(TIE)
    if output.with_beliefs:
        for k in range(graph.n_hidden):
            output.beliefs[offset + k] = NEVER
        for index in range(n_active):
            k = work.hidden[index]
            output.beliefs[offset + k] = work.belief[k]


@inner(inline="always")
def _start(graph, parameters, work, size, options, key):
    """Set messages to zero (excess = theta), with prior log-odds and noise.

    The start of equation T14; noise by equation T17.
    """
    for index in range(size.hidden):
        k = work.hidden[index]
        unary = -work.total[k]
        if options.temperature > 0.0:
            unary += options.temperature * logistic_noise(combine(key, uint64(k)))
        work.unary[k] = unary
        node = graph.n_visible + k
        work.to_child[k] = 0.0 if graph.n_parents[node] > 0 else parameters.leak_log_odds[node]
    blocks, incoming = work.blocks, work.incoming
    # In blocks of children that are on in an aligned graph, all lanes of a slot have one parent.
    aligned = blocks.start[size.on_blocks if graph.aligned else 0]
    for cell in range(0, blocks.start[size.blocks], LANES):
        value = load(blocks.weight, cell)
        store(blocks.excess, cell, value)
        if cell < aligned:
            # A scatter would add to one parent eight times in a row.
            incoming[blocks.parent[cell]] += reduce_sum(value)
        else:
            scatter_add(incoming, blocks.parent, cell, value)
    for child in range(size.wide):
        node = work.wide[child]
        start, first = graph.ptr[node], graph.first[node]
        for offset in range(0, graph.ptr[node + 1] - start, LANES):
            # Padding has a weight of 0, so what it adds to the spare entries is 0 as well.
            value = load(parameters.weight, start + offset)
            store(work.excess, work.offset[child] + offset, value)
            add_to_parents(incoming, first, offset, graph.parent, start, value)
    _collect(work, size.hidden)


@inner()
def _collect(work, n_active):
    """Compute beliefs from the incoming messages, and clear these: equation T12.

    ``unary`` holds -T_k and the noise.
    """
    for index in range(n_active):
        k = work.hidden[index]
        if work.clamp[k] == FREE:
            work.belief[k] = work.unary[k] + work.to_child[k] + work.incoming[k]
        else:
            work.belief[k] = -NEVER if work.clamp[k] == 1 else NEVER
        work.incoming[k] = 0.0


@inner(inline="always")
def _iterate(graph, parameters, work, size, options):
    """Update all messages in parallel until the largest residual is below ``tolerance``.

    Beliefs are computed once per iteration, after all factors, so the order of the children matters
    for rounding only. Returns the number of iterations and the last change.
    """
    step, tolerance = float32(options.step), float32(options.tolerance)
    blocks, belief, to_child = work.blocks, work.belief, work.to_child
    residual, iteration, first = float32(0.0), 0, np.int64(graph.first[0])
    while iteration < options.max_iterations:
        iteration += 1
        residual = float32(0.0)
        if graph.aligned:
            for index in range(size.on_blocks):
                change = _update_block(belief, work.lanes, blocks, index, first, False, step)
                residual = maximum(residual, change)
            # What all blocks sent to a parent lies side by side in eight lanes until here.
            sum_lanes(work, size.hidden)
        else:
            for index in range(size.on_blocks):
                change = _update_block(belief, work.incoming, blocks, index, -1, False, step)
                residual = maximum(residual, change)
        for index in range(size.on_blocks, size.blocks):
            collect_back(work, index)
            change = _update_block(belief, work.incoming, blocks, index, -1, True, step)
            residual = maximum(residual, maximum(change, send_back(work, index, step)))
        for index in range(size.wide_on):
            change, _ = _update_child(graph, parameters, work, index, False, float32(0.0), step)
            residual = maximum(residual, change)
        for index in range(size.wide_on, size.wide):
            k = work.wide[index] - graph.n_visible
            back = belief[k] - to_child[k]
            change, message = _update_child(graph, parameters, work, index, True, back, step)
            residual = maximum(residual, maximum(change, send(to_child, k, message, step)))
        _collect(work, size.hidden)
        if residual < tolerance:
            break
    return iteration, residual


@inner(forceinline=True)
def _update_block(belief, incoming, blocks, index, first, free, step):
    """Update a block of children; return the largest residual.

    ``free``, a constant of the call: the children are not observed. ``blocks.back`` (8,) then holds
    the log-odds that each has from elsewhere, and is overwritten with the messages to them.

    ``first`` is -1, or all children of the block have the parents ``first``, ``first + 1``, and so
    on. ``incoming`` then has eight sums for each hidden node, one per lane, which `sum_lanes` adds
    up once per iteration instead of once per block.
    """
    start, end, lane = blocks.start[index], blocks.start[index + 1], index * LANES
    excess, log_odds, parent = blocks.excess, blocks.log_odds, blocks.parent
    zero = splat(float32(0.0))
    best = load(blocks.leak, lane)  # the leak is simply the first candidate of its lane
    second = splat(NEVER)
    positive = largest(best, zero)
    k = first
    for cell in range(start, end, LANES):
        parents = parents_of_lanes(belief, first, k, parent, cell)
        down = load(log_odds, cell) + smallest(parents - load(excess, cell), zero)
        store(blocks.scratch, cell - start, down)
        if free:
            positive = positive + largest(down, zero)
        # Largest and second largest so far, lane by lane. A conditional would not vectorize.
        second = largest(second, smallest(best, down))
        best = largest(best, down)
        k += 1
    need = largest(zero, zero - best)
    need_of_peak = largest(zero, zero - second)
    support = positive
    if free:
        # P of all edges; that of edge e alone is taken off again below, as b + P - [t_e]_+.
        support = load(blocks.back, 0) + positive
        store(blocks.back, 0, positive + smallest(zero, best))
    rate = splat(step)
    change = zero
    k = first
    for cell in range(start, end, LANES):
        down = load(blocks.scratch, cell - start)
        missing = where_equal(down, best, need_of_peak, need)
        if free:
            missing = smallest(missing, support - largest(down, zero))
        old = load(excess, cell)
        difference = largest(zero, load(log_odds, cell) + missing) - old
        change = largest(change, absolute(difference))
        new = old + rate * difference
        store(excess, cell, new)
        add_to_lanes(incoming, first, k, parent, cell, new)
        k += 1
    return reduce_max(change)


@inner()
def sum_lanes(work, n_active):
    """Add the sums of the lanes to ``incoming`` and clear the lanes."""
    zero = splat(float32(0.0))
    for index in range(n_active):
        k = work.hidden[index]
        work.incoming[k] += reduce_sum(load(work.lanes, LANES * k))
        store(work.lanes, LANES * k, zero)


@inner(forceinline=True)
def collect_back(work, index):
    """Fill ``blocks.back`` with the log-odds that each child of a block has from elsewhere."""
    for lane in range(LANES):
        k = work.blocks.child[index * LANES + lane]
        work.blocks.back[lane] = work.belief[k] - work.to_child[k] if k >= 0 else float32(0.0)


@inner(forceinline=True)
def send_back(work, index, step):
    """Send the messages in ``blocks.back`` to the children; return the largest change."""
    change = float32(0.0)
    for lane in range(LANES):
        k = work.blocks.child[index * LANES + lane]
        if k >= 0:
            change = maximum(change, send(work.to_child, k, work.blocks.back[lane], step))
    return change


@inner(forceinline=True)
def send(to_child, k, message, step):
    """Damp a message to a hidden child, equation T13; return its residual."""
    difference = message - to_child[k]
    to_child[k] += step * difference
    return abs(difference)


@inner(forceinline=True)
def parents_of_eight(belief, first, offset, parent, start):
    """Return the beliefs of the parents of eight edges of a wide child, from edge ``offset`` on.

    Consecutive parents are one load. It may read past the last parent into the next ones or the
    eight spare entries; padding makes these values harmless.
    """
    if first >= 0:
        return load(belief, first + offset)
    return gather(belief, parent, start + offset)


@inner(forceinline=True)
def add_to_parents(incoming, first, offset, parent, start, value):
    """Add eight messages to the sums of the same parents as in `parents_of_eight`."""
    if first >= 0:
        store(incoming, first + offset, load(incoming, first + offset) + value)
    else:
        scatter_add(incoming, parent, start + offset, value)


@inner(forceinline=True)
def parents_of_lanes(belief, first, k, parent, cell):
    """Return the beliefs of the parents of a slot: k in all lanes, if ``first`` is not -1."""
    return splat(belief[k]) if first >= 0 else gather(belief, parent, cell)


@inner(forceinline=True)
def add_to_lanes(incoming, first, k, parent, cell, value):
    """Add eight messages to the sums of the same parents as in `parents_of_lanes`."""
    if first >= 0:
        store(incoming, LANES * k, load(incoming, LANES * k) + value)
    else:
        scatter_add(incoming, parent, cell, value)


@inner(forceinline=True)
def with_leak(best, second, leak):
    """Return the largest and second largest t, with the leak among the candidates.

    The leak is kept out of the vectors: one number per child would take a lane of its own.
    """
    if leak > best:
        return leak, best
    return best, maximum(second, leak)


@inner(forceinline=True)
def _update_child(graph, parameters, work, index, free, back, step):
    """Update a wide child; return the largest residual, and the message d to the child.

    ``free``, a constant of the call: the child is not observed and has the log-odds ``back`` from
    elsewhere.
    """
    node = work.wide[index]
    start, size, first = graph.ptr[node], graph.ptr[node + 1] - graph.ptr[node], graph.first[node]
    belief, incoming, scratch = work.belief, work.incoming, work.scratch
    offset = work.offset[index]
    zero = splat(float32(0.0))
    best = splat(NEVER)
    second = best
    positive = zero
    for edge in range(0, size, LANES):
        parents = parents_of_eight(belief, first, edge, graph.parent, start)
        gap = smallest(parents - load(work.excess, offset + edge), zero)
        down = load(parameters.log_odds, start + edge) + gap
        store(scratch, edge, down)
        if free:
            positive = positive + largest(down, zero)
        second = largest(second, smallest(best, down))
        best = largest(best, down)
    top, runner_up = reduce_top_two(best, second)
    leak = parameters.leak_log_odds[node]
    top, runner_up = with_leak(top, runner_up, leak)
    total = reduce_sum(positive) + maximum(float32(0.0), leak)

    peak = splat(top)
    need = splat(maximum(float32(0.0), -top))
    need_of_peak = splat(maximum(float32(0.0), -runner_up))
    support = splat(back + total)
    rate = splat(step)
    change = zero
    for edge in range(0, size, LANES):
        down = load(scratch, edge)
        missing = where_equal(down, peak, need_of_peak, need)
        if free:
            missing = smallest(missing, support - largest(down, zero))
        old = load(work.excess, offset + edge)
        # Padding: NEVER + missing is negative, so an excess of 0 is wanted and 0 is what it has.
        difference = largest(zero, load(parameters.log_odds, start + edge) + missing) - old
        change = largest(change, absolute(difference))
        new = old + rate * difference
        store(work.excess, offset + edge, new)
        add_to_parents(incoming, first, edge, graph.parent, start, new)
    return reduce_max(change), total + minimum(float32(0.0), top)
