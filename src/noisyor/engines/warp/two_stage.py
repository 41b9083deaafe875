"""The paper's order of messages, one thread for each row and sample.

Equations T15 and T16 of docs/theory.md. Every message inside a factor is stored and damped,
each is computed from those of the iteration before, and all start at zero log-odds, those of leaks
included. Per edge, with the names of `collapsed`,

    down    t <- a + min(B - excess, 0)          OR      s <- min(b + P - [t]_+, [-M]_+)
    up      excess <- max(0, a + s)

Children that are off need no visit: after n iterations their excess is a known multiple of
``off_excess = (1 - step) theta + step [a]_+``.
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
from noisyor.engines.warp.structures import Graph, Options, Output, Rows, Stages, Work

_ONE = wp.constant(wp.float64(1.0))


@wp.kernel(enable_backward=False)
def infer_two_stage(
    graph: Graph,
    rows: Rows,
    options: Options,
    work: Work,
    stages: Stages,
    output: Output,
    first: int,
):
    """Pass messages by the two-stage schedule, as `collapsed.infer` does by the other."""
    line = wp.tid()
    row = (first + line) // options.n_samples
    sample = (first + line) % options.n_samples
    found = select(graph, rows, options, work, row, line)
    observed_totals(graph, rows, options, work, found, line)
    _start(graph, rows, options, work, stages, found, key_of(rows, options, row, sample), line)
    residual = wp.float32(0.0)
    decay = wp.float64(1.0)  # delta^n of equation T16: what the message of a leak still lacks
    iterations = int(0)
    running = bool(True)
    while running and iterations < options.max_iterations:
        # Share of its final value that the message of every leak has reached, equation T16.
        ramp = wp.float32(_ONE - decay)
        residual = _update(graph, options, work, stages, found, ramp, line)
        _collect(graph, work, stages, found, decay, line)
        decay = decay * (_ONE - wp.float64(options.step))
        iterations += 1
        # Constant messages also need time to arrive; without ``decay`` a line could stop before.
        running = larger(residual, wp.float32(decay)) >= options.tolerance
    output.iterations[line] = iterations
    output.residual[line] = residual
    decode(graph, work, output, line)


@wp.func
def _start(
    graph: Graph,
    rows: Rows,
    options: Options,
    work: Work,
    stages: Stages,
    found: Selection,
    key: wp.uint64,
    line: int,
):
    """Set all messages to zero, so that the belief is the noise, and find ``off_excess``."""
    for j in range(found.hidden):
        k = work.hidden[offset(j, graph.n_hidden, line, work.lines)]
        at = offset(k, graph.n_hidden, line, work.lines)
        noise = wp.float32(noise_of(options, key, k))
        work.unary[at] = noise
        work.belief[at] = unless_known(work.known[at], noise)
        work.to_child[at] = ZERO
        work.incoming[at] = ZERO
        stages.off_excess[at] = stages.of_children[k]
    slot = int(0)
    for number in range(found.children):
        node = work.children[offset(number, work.most_children, line, work.lines)]
        _take_off(graph, options, work, stages, node, line)
        for edge in range(graph.ptr[node], graph.ptr[node + 1]):
            at = offset(slot, work.most_edges, line, work.lines)
            work.down[at] = ZERO
            stages.to_edge[at] = ZERO
            work.excess[at] = graph.weight[edge]
            slot += 1
        n_parents = graph.ptr[node + 1] - graph.ptr[node]
        at = offset(number, work.most_children, line, work.lines)
        stages.top[at] = wp.where(n_parents > 0, ZERO, NEVER)
        stages.second[at] = wp.where(n_parents > 1, ZERO, NEVER)
        stages.positive[at] = ZERO
    # A visible that is summed out has no factor; one that is inferred is among the children.
    if options.maximize_missing == 0:
        for entry in range(found.first_missing, found.end_missing):
            _take_off(graph, options, work, stages, rows.missing_columns[entry], line)


@wp.func
def _take_off(graph: Graph, options: Options, work: Work, stages: Stages, node: int, line: int):
    """Take a child that is not off from ``off_excess``, which starts with all children."""
    step = wp.float64(options.step)
    for edge in range(graph.ptr[node], graph.ptr[node + 1]):
        at = offset(graph.parent[edge], graph.n_hidden, line, work.lines)
        odds = wp.float64(larger(graph.log_odds[edge], ZERO))
        stages.off_excess[at] = stages.off_excess[at] - (
            (_ONE - step) * graph.theta[edge] + step * odds
        )


@wp.func
def _collect(
    graph: Graph,
    work: Work,
    stages: Stages,
    found: Selection,
    previous_decay: wp.float64,
    line: int,
):
    """Compute beliefs from the messages that have come in, and clear these.

    Children that are off send delta^(n-1) ``off_excess`` of equation T16; ``previous_decay`` is
    that power of delta.
    """
    for j in range(found.hidden):
        k = work.hidden[offset(j, graph.n_hidden, line, work.lines)]
        at = offset(k, graph.n_hidden, line, work.lines)
        constant = wp.float32(previous_decay * stages.off_excess[at] - work.total[at])
        arrived = work.unary[at] + work.to_child[at]
        belief = arrived + (work.incoming[at] + constant)
        work.belief[at] = unless_known(work.known[at], belief)
        work.incoming[at] = ZERO


@wp.func
def _send(work: Work, at: int, message: wp.float32, step: wp.float32):
    """Send a damped message to a hidden child, equation T13; return the change it asked for."""
    asked = message - work.to_child[at]
    work.to_child[at] = work.to_child[at] + step * asked
    return wp.abs(asked)


@wp.func
def _update(
    graph: Graph,
    options: Options,
    work: Work,
    stages: Stages,
    found: Selection,
    ramp: wp.float32,
    line: int,
):
    """Update all messages of all children; return the largest change that one asked for."""
    residual = wp.float32(0.0)
    slot = int(0)
    for number in range(found.children):
        node = work.children[offset(number, work.most_children, line, work.lines)]
        begin = graph.ptr[node]
        end = graph.ptr[node + 1]
        k = node - graph.n_visible
        child = offset(k, graph.n_hidden, line, work.lines)
        mine = offset(number, work.most_children, line, work.lines)
        leak = ramp * graph.leak[node]
        # The two largest once the leak is among the candidates.
        best = larger(stages.top[mine], leak)
        second = larger(stages.second[mine], smaller(stages.top[mine], leak))
        positive = stages.positive[mine] + larger(leak, ZERO)
        # A child that is on supports its edges without limit; large and finite: nothing is NaN.
        support = -NEVER
        if number >= found.on:
            support = positive
            if k >= 0:
                support = work.belief[child] - work.to_child[child] + positive
        change = _update_child(
            graph.parent,
            graph.log_odds,
            work.belief,
            work.incoming,
            work.excess,
            work.down,
            stages.to_edge,
            stages.top,
            stages.second,
            stages.positive,
            begin,
            end,
            slot,
            mine,
            best,
            second,
            support,
            graph.n_hidden,
            work.most_edges,
            options.step,
            line,
            work.lines,
        )
        residual = larger(residual, change)
        if k >= 0:
            message = positive + smaller(best, ZERO)
            residual = larger(residual, _send(work, child, message, options.step))
        slot += end - begin
    # Nodes without parents are no children of the row; their prior arrives damped all the same.
    for j in range(found.hidden):
        k = work.hidden[offset(j, graph.n_hidden, line, work.lines)]
        node = graph.n_visible + k
        if graph.ptr[node + 1] == graph.ptr[node]:
            at = offset(k, graph.n_hidden, line, work.lines)
            change = _send(work, at, ramp * graph.leak[node], options.step)
            residual = larger(residual, change)
    return residual


@wp.func
def _update_child(
    parents: wp.array(dtype=wp.int32),
    log_odds: wp.array(dtype=wp.float32),
    beliefs: wp.array(dtype=wp.float32),
    incoming: wp.array(dtype=wp.float32),
    excess: wp.array(dtype=wp.float32),
    down: wp.array(dtype=wp.float32),
    to_edge: wp.array(dtype=wp.float32),
    top: wp.array(dtype=wp.float32),
    second: wp.array(dtype=wp.float32),
    positive: wp.array(dtype=wp.float32),
    begin: int,
    end: int,
    slot: int,
    mine: int,
    best: wp.float32,
    runner_up: wp.float32,
    support: wp.float32,
    n_hidden: int,
    most_edges: int,
    step: wp.float32,
    line: int,
    lines: int,
):
    """Update all messages of one child's factor; return the largest change asked for.

    Equation T15 in excess form. ``best`` and ``runner_up`` belong to the t of the iteration before,
    ``support`` is b + P; what is stored at ``mine`` is gathered on the decay for the next one.
    """
    need = larger(-best, ZERO)
    need_of_best = larger(-runner_up, ZERO)
    change = wp.float32(0.0)
    new_best = NEVER
    new_second = NEVER
    new_positive = wp.float32(0.0)
    edge = int(begin)
    while edge < end:
        at = offset(slot + edge - begin, most_edges, line, lines)
        parent = offset(int_at(parents, edge), n_hidden, line, lines)
        odds = single_at(log_odds, edge)
        old = single_at(down, at)
        old_need = single_at(to_edge, at)
        old_excess = single_at(excess, at)
        missing = wp.where(old == best, need_of_best, need)
        missing = smaller(missing, support - larger(old, ZERO))

        # Never below NEVER, which the belief of a parent that is off alone may reach.
        wanted = odds + smaller(single_at(beliefs, parent) - old_excess, ZERO)
        asked = larger(wanted, NEVER) - old
        change = larger(change, wp.abs(asked))
        new = old + step * asked
        put(down, at, new)
        new_second = larger(new_second, smaller(new_best, new))
        new_best = larger(new_best, new)
        new_positive += larger(new, ZERO)

        asked = missing - old_need
        change = larger(change, wp.abs(asked))
        put(to_edge, at, old_need + step * asked)

        asked = larger(odds + old_need, ZERO) - old_excess
        change = larger(change, wp.abs(asked))
        sent = old_excess + step * asked
        put(excess, at, sent)
        put(incoming, parent, single_at(incoming, parent) + sent)
        edge += 1
    top[mine] = new_best
    second[mine] = new_second
    positive[mine] = new_positive
    return change
