"""Nodes that take part in max-product, their costs and noise, and decoding."""

import warp as wp

from noisyor.engines.contract import FREE as FREE_STATE
from noisyor.engines.warp.scalar import NEVER, combine, logistic, offset
from noisyor.engines.warp.structures import Graph, Options, Output, Rows, Work

ZERO = wp.constant(wp.float32(0.0))
OFF = wp.constant(wp.uint8(0))
ON = wp.constant(wp.uint8(1))
FREE = wp.constant(wp.uint8(FREE_STATE))
_UNSEEN = wp.constant(wp.uint8(3))


@wp.struct
class Selection:
    """How many nodes take part: hidden ones, children that are on, and all children.

    ``first`` and ``end`` of the row's ones, ``first_missing`` and ``end_missing`` of what was not
    observed.
    """

    hidden: int
    on: int
    children: int
    first: int
    end: int
    first_missing: int
    end_missing: int


@wp.func
def select(graph: Graph, rows: Rows, options: Options, work: Work, row: int, line: int):
    """Fill the lists of ``work`` for one line; what takes no part is known to be off."""
    found = Selection()
    found.first = rows.ptr[row]
    found.end = rows.ptr[row + 1]
    found.first_missing = rows.missing_ptr[row]
    found.end_missing = rows.missing_ptr[row + 1]
    n_hidden = graph.n_hidden
    lines = work.lines
    clamp_row = wp.min(row, rows.clamps - 1) * n_hidden
    found.hidden = n_hidden
    for k in range(n_hidden):
        state = FREE
        if rows.clamps > 0:
            state = rows.clamp[clamp_row + k]
        at = offset(k, n_hidden, line, lines)
        work.known[at] = state
        work.belief[at] = NEVER
        work.hidden[at] = k
    if options.ancestors_only != 0:
        found.hidden = _ancestors(graph, rows, options, work, found, clamp_row, line)

    count = int(0)
    for entry in range(found.first, found.end):
        work.children[offset(count, work.most_children, line, lines)] = rows.columns[entry]
        count += 1
    count = _add_hidden(graph, work, found.hidden, line, ON, count)
    # Children that are on come first: their update is the simpler one.
    found.on = count
    count = _add_hidden(graph, work, found.hidden, line, FREE, count)
    found.children = count
    return found


@wp.func
def _add_hidden(graph: Graph, work: Work, n_hidden: int, line: int, state: wp.uint8, count: int):
    """Append the hidden children that are in a state; return the new length of the list."""
    total = count
    for j in range(n_hidden):
        k = work.hidden[offset(j, graph.n_hidden, line, work.lines)]
        node = graph.n_visible + k
        known = work.known[offset(k, graph.n_hidden, line, work.lines)]
        if known == state and graph.ptr[node + 1] > graph.ptr[node]:
            work.children[offset(total, work.most_children, line, work.lines)] = node
            total += 1
    return total


@wp.func
def _ancestors(
    graph: Graph,
    rows: Rows,
    options: Options,
    work: Work,
    entries: Selection,
    clamp_row: int,
    line: int,
):
    """List the ancestors of the active visibles and of hidden nodes that are known to be on.

    All others are taken to be off: nothing that is on needs them.
    """
    n_hidden = graph.n_hidden
    count = int(0)
    for k in range(n_hidden):
        work.known[offset(k, n_hidden, line, work.lines)] = _UNSEEN
    for entry in range(entries.first, entries.end):
        count = _add_parents(graph, rows, work, rows.columns[entry], clamp_row, line, count)
    if rows.clamps > 0:
        for k in range(n_hidden):
            if rows.clamp[clamp_row + k] == ON:
                count = _add(graph, rows, work, k, clamp_row, line, count)
    done = int(0)
    while done < count:  # breadth first: the list is its own queue
        k = work.hidden[offset(done, n_hidden, line, work.lines)]
        count = _add_parents(graph, rows, work, graph.n_visible + k, clamp_row, line, count)
        done += 1
    for k in range(n_hidden):
        at = offset(k, n_hidden, line, work.lines)
        if work.known[at] == _UNSEEN:
            work.known[at] = OFF
    return count


@wp.func
def _add_parents(
    graph: Graph, rows: Rows, work: Work, node: int, clamp_row: int, line: int, count: int
):
    """Append the parents of a node that are not in the list yet; return its new length."""
    total = count
    for edge in range(graph.ptr[node], graph.ptr[node + 1]):
        total = _add(graph, rows, work, graph.parent[edge], clamp_row, line, total)
    return total


@wp.func
def _add(graph: Graph, rows: Rows, work: Work, k: int, clamp_row: int, line: int, count: int):
    """Append a hidden node unless it is in the list; its known state tells."""
    at = offset(k, graph.n_hidden, line, work.lines)
    if work.known[at] != _UNSEEN:
        return count
    state = FREE
    if rows.clamps > 0:
        state = rows.clamp[clamp_row + k]
    work.known[at] = state
    work.hidden[offset(count, graph.n_hidden, line, work.lines)] = k
    return count + 1


# ---- costs, noise and decoding


@wp.func
def key_of(rows: Rows, options: Options, row: int, sample: int) -> wp.uint64:
    """Return the key of a line, equation T18: by row id, so that no batch changes the noise."""
    return combine(combine(options.key, wp.uint64(rows.ids[row])), wp.uint64(sample))


@wp.func
def noise_of(options: Options, key: wp.uint64, k: int) -> wp.float64:
    """Return the perturbation of a hidden node: equations T17 and T18."""
    noise = wp.float64(0.0)
    if options.temperature > noise:
        noise = options.temperature * logistic(combine(key, wp.uint64(k)))
    return noise


@wp.func
def observed_totals(
    graph: Graph, rows: Rows, options: Options, work: Work, found: Selection, line: int
):
    """Compute T_k of equation T5: the totals of all children that are not missing."""
    for k in range(graph.n_hidden):
        work.total[offset(k, graph.n_hidden, line, work.lines)] = graph.total[k]
    for entry in range(found.first_missing, found.end_missing):
        node = rows.missing_columns[entry]
        for edge in range(graph.ptr[node], graph.ptr[node + 1]):
            at = offset(graph.parent[edge], graph.n_hidden, line, work.lines)
            work.total[at] = work.total[at] - graph.theta[edge]


@wp.func
def unless_known(known: wp.uint8, belief: wp.float32) -> wp.float32:
    """Return the belief, or that of a node that is known to be on or off."""
    result = belief
    if known == ON:
        result = -NEVER
    elif known != FREE:
        result = NEVER
    return result


@wp.func
def decode(graph: Graph, work: Work, output: Output, line: int):
    """Switch nodes on where the belief is positive: equation T11.

    Ties are real, uniform parameters give them, and are off.
    """
    for k in range(graph.n_hidden):
        at = offset(k, graph.n_hidden, line, work.lines)
        belief = work.belief[at]
        output.states[at] = wp.uint8(belief > ZERO)
        if output.with_beliefs != 0:
            output.beliefs[at] = belief
