"""Max-product by the collapsed schedule, one thread for each row and sample.

Equations T8 to T14 and T17 of docs/theory.md. Every message is a log-odds number. The message
from the factor of child i to parent k is kept as ``excess = v + theta >= 0``, so that a child that
is off (v = -theta) has excess zero and need not be visited: its effect is part of the parent's
total. With B the belief of the parent, ``a = log(exp(theta) - 1)`` and b the log-odds that the
child receives from elsewhere,

    t_e      = a_e + min(B_k - excess_e, 0)
    excess_e = max(0, a_e + min(b + P - [t_e]_+, [-M_{-e}]_+)),    P = sum [t]_+ , leak included

where M_{-e} is the largest t of the other edges and the leak. A child that is on has infinite b.
"""

import warp as wp

from noisyor.engines.warp.scalar import NEVER, int_at, larger, offset, put, single_at, smaller
from noisyor.engines.warp.selection import (
    ZERO,
    Selection,
    decode,
    key_of,
    noise_of,
    observed_totals,
    select,
    unless_known,
)
from noisyor.engines.warp.structures import Graph, Options, Output, Rows, Work


@wp.kernel(enable_backward=False)
def infer(graph: Graph, rows: Rows, options: Options, work: Work, output: Output, first: int):
    """Pass messages until none asks for a change, and decode; ``first`` is the first line."""
    line = wp.tid()
    row = (first + line) // options.n_samples
    sample = (first + line) % options.n_samples
    found = select(graph, rows, options, work, row, line)
    _start(graph, rows, options, work, found, key_of(rows, options, row, sample), line)
    residual = wp.float32(0.0)
    iterations = int(0)
    running = bool(True)
    while running and iterations < options.max_iterations:
        residual = _update(graph, options, work, found, line)
        _collect(graph, work, found, line)
        iterations += 1
        running = residual >= options.tolerance
    output.iterations[line] = iterations
    output.residual[line] = residual
    decode(graph, work, output, line)


@wp.func
def _start(
    graph: Graph,
    rows: Rows,
    options: Options,
    work: Work,
    found: Selection,
    key: wp.uint64,
    line: int,
):
    """Set messages to zero (excess = theta), with prior log-odds and noise."""
    observed_totals(graph, rows, options, work, found, line)
    for j in range(found.hidden):
        k = work.hidden[offset(j, graph.n_hidden, line, work.lines)]
        at = offset(k, graph.n_hidden, line, work.lines)
        node = graph.n_visible + k
        work.unary[at] = wp.float32(noise_of(options, key, k) - work.total[at])
        work.incoming[at] = ZERO
        prior = ZERO
        if graph.ptr[node + 1] == graph.ptr[node]:
            prior = graph.leak[node]
        work.to_child[at] = prior
    slot = int(0)
    for number in range(found.children):
        node = work.children[offset(number, work.most_children, line, work.lines)]
        for edge in range(graph.ptr[node], graph.ptr[node + 1]):
            at = offset(graph.parent[edge], graph.n_hidden, line, work.lines)
            theta = wp.float32(graph.theta[edge])
            work.excess[offset(slot, work.most_edges, line, work.lines)] = theta
            work.incoming[at] = work.incoming[at] + theta
            slot += 1
    _collect(graph, work, found, line)


@wp.func
def _collect(graph: Graph, work: Work, found: Selection, line: int):
    """Compute beliefs from the messages that have come in, and clear these: equation T12."""
    for j in range(found.hidden):
        k = work.hidden[offset(j, graph.n_hidden, line, work.lines)]
        at = offset(k, graph.n_hidden, line, work.lines)
        belief = work.unary[at] + work.to_child[at] + work.incoming[at]
        work.belief[at] = unless_known(work.known[at], belief)
        work.incoming[at] = ZERO


@wp.func
def _update(graph: Graph, options: Options, work: Work, found: Selection, line: int):
    """Update all messages of all children; return the largest change that one asked for."""
    residual = wp.float32(0.0)
    slot = int(0)
    for number in range(found.children):
        node = work.children[offset(number, work.most_children, line, work.lines)]
        begin = graph.ptr[node]
        end = graph.ptr[node + 1]
        change = _update_child(
            graph.parent,
            graph.log_odds,
            work.belief,
            work.incoming,
            work.to_child,
            work.excess,
            work.down,
            begin,
            end,
            slot,
            graph.leak[node],
            number < found.on,
            node - graph.n_visible,
            graph.n_hidden,
            work.most_edges,
            options.step,
            line,
            work.lines,
        )
        residual = larger(residual, change)
        slot += end - begin
    return residual


@wp.func
def _update_child(
    parents: wp.array(dtype=wp.int32),
    log_odds: wp.array(dtype=wp.float32),
    beliefs: wp.array(dtype=wp.float32),
    incoming: wp.array(dtype=wp.float32),
    to_child: wp.array(dtype=wp.float32),
    excess: wp.array(dtype=wp.float32),
    down: wp.array(dtype=wp.float32),
    begin: int,
    end: int,
    slot: int,
    leak: wp.float32,
    is_on: bool,
    k: int,
    n_hidden: int,
    most_edges: int,
    step: wp.float32,
    line: int,
    lines: int,
):
    """Update the messages of one child's factor; return the largest change asked for.

    Its edges are ``begin`` to ``end``, its messages begin at ``slot``; ``k`` is the number of a
    hidden child, negative for a visible one. Arrays are arguments, not fields of a structure, which
    would be read from memory in every access.
    """
    best = leak
    second = NEVER
    edge = int(begin)
    while edge < end:
        belief = single_at(beliefs, offset(int_at(parents, edge), n_hidden, line, lines))
        at = offset(slot + edge - begin, most_edges, line, lines)
        t = single_at(log_odds, edge) + smaller(belief - single_at(excess, at), ZERO)
        put(down, at, t)
        second = larger(second, smaller(best, t))
        best = larger(best, t)
        edge += 1
    need = larger(-best, ZERO)
    need_of_best = larger(-second, ZERO)

    # A child that is on supports its edges without limit; large and finite, so nothing is NaN.
    support = -NEVER
    residual = wp.float32(0.0)
    if not is_on:
        positive = larger(leak, ZERO)
        edge = int(begin)
        while edge < end:
            at = offset(slot + edge - begin, most_edges, line, lines)
            positive += larger(single_at(down, at), ZERO)
            edge += 1
        support = positive
        if k >= 0:
            child = offset(k, n_hidden, line, lines)
            support = beliefs[child] - to_child[child] + positive
            asked = positive + smaller(best, ZERO) - to_child[child]
            to_child[child] = to_child[child] + step * asked
            residual = wp.abs(asked)

    # The edge that holds the maximum sees the runner-up; with a tie both are the same number.
    edge = int(begin)
    while edge < end:
        at = offset(slot + edge - begin, most_edges, line, lines)
        t = single_at(down, at)
        missing = wp.where(t == best, need_of_best, need)
        missing = smaller(missing, support - larger(t, ZERO))
        old = single_at(excess, at)
        asked = larger(single_at(log_odds, edge) + missing, ZERO) - old
        residual = larger(residual, wp.abs(asked))
        new = old + step * asked
        put(excess, at, new)
        parent = offset(int_at(parents, edge), n_hidden, line, lines)
        put(incoming, parent, single_at(incoming, parent) + new)
        edge += 1
    return residual
