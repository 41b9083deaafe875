"""What both schedules of max-product begin and end with: costs, noise, decoding."""

import warp as wp

from noisyor.engines.warp.active_set import FREE, ON, Selection
from noisyor.engines.warp.graph import Graph, Options, Output, Rows, Work
from noisyor.engines.warp.scalar import NEVER, combine, logistic, place

ZERO = wp.constant(wp.float32(0.0))


@wp.func
def key_of(rows: Rows, options: Options, row: int, sample: int) -> wp.uint64:
    """The key of a line, equation T18: ids, not positions, so that no batch changes the noise."""
    return combine(combine(options.key, wp.uint64(rows.ids[row])), wp.uint64(sample))


@wp.func
def noise_of(options: Options, key: wp.uint64, k: int) -> wp.float64:
    """The perturbation of a hidden node: equations T17 and T18."""
    noise = wp.float64(0.0)
    if options.temperature > noise:
        noise = options.temperature * logistic(combine(key, wp.uint64(k)))
    return noise


@wp.func
def observed_totals(
    graph: Graph, rows: Rows, options: Options, work: Work, found: Selection, line: int
):
    """T_k of equation T5: the totals of all children without those that were not observed.

    A visible that is summed out costs nothing; one that is inferred is a child like others.
    """
    for k in range(graph.n_hidden):
        work.total[place(k, graph.n_hidden, line, work.lines)] = graph.total[k]
    if options.maximize_missing == 0:
        for entry in range(found.first_missing, found.end_missing):
            node = rows.missing_columns[entry]
            for edge in range(graph.ptr[node], graph.ptr[node + 1]):
                at = place(graph.parent[edge], graph.n_hidden, line, work.lines)
                work.total[at] = work.total[at] - graph.theta[edge]


@wp.func
def unless_known(known: wp.uint8, belief: wp.float32) -> wp.float32:
    """The belief, or that of a node that is known to be on or off."""
    result = belief
    if known == ON:
        result = -NEVER
    elif known != FREE:
        result = NEVER
    return result


@wp.func
def decode(graph: Graph, work: Work, output: Output, line: int):
    """On where the belief is positive: equation T11.

    Ties are real, uniform parameters give them, and are off. Of a set of alternatives at most one
    belief is positive.
    """
    for k in range(graph.n_hidden):
        at = place(k, graph.n_hidden, line, work.lines)
        belief = work.belief[at]
        output.states[at] = wp.uint8(belief > ZERO)
        if output.with_beliefs != 0:
            output.beliefs[at] = belief
