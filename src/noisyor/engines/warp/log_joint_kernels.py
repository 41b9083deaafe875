"""Kernels of log p(h, x) and its gradient, without atomic additions.

Equations T4, T5, T20 and T49 of docs/theory.md. With B_i the total parameter of node i,
``g(b) = log(exp(b) - 1)`` and all sums over what is on, a line has

    log p(h, x) = - total leak - sum_k total_k + sum_i g(B_i) + sum of B_i over what is missing

and its derivative by an edge is ``z_k (z_i / (1 - exp(-B_i)) - 1)``, z_i being 1 - exp(-B_i) for
what is missing. First a thread for each line writes the fractions, then a thread for each hidden
node adds up those of its children, line after line: nobody else writes there, and the order is
fixed. `log_joint` takes off the -1 and the total leak, which are the same for all lines.
"""

import warp as wp

from noisyor.engines.warp.scalar import offset
from noisyor.engines.warp.structures import Graph, Rows

_ONE = wp.constant(wp.float64(1.0))
_ZERO = wp.constant(wp.float64(0.0))
_FAR = wp.constant(wp.float64(40.0))
_ON = wp.constant(wp.uint8(1))


@wp.struct
class Lines:
    """Lines of a launch, ``n_samples`` of each row, the first of which has number ``first``.

    ``leak`` (n_nodes,) parameters; ``share`` (n_rows,) weight of a row over its samples;
    ``states`` by hidden node; ``value`` (lines,), ``slope`` by node, cleared, if ``with_slope``.
    """

    lines: int
    n_samples: int
    first: int
    with_slope: int
    leak: wp.array(dtype=wp.float64)
    share: wp.array(dtype=wp.float64)
    states: wp.array(dtype=wp.uint8)
    value: wp.array(dtype=wp.float64)
    slope: wp.array(dtype=wp.float64)


@wp.struct
class Sums:
    """Sums over the lines of blocks, ``of_block`` lines each; every launch adds to them.

    ``by_edge`` (blocks * n_edges,) of slopes over the lines in which the parent is on, edges by
    parent: those of parent k are ``out_ptr[k]`` to ``out_ptr[k + 1]``, into ``out_child``;
    ``times_on`` (blocks * n_hidden,) of shares; ``by_node`` (blocks * n_nodes,) of slopes.
    Visible i is on or missing in rows ``visit_ptr[j]`` to ``visit_ptr[j + 1]`` of ``visit_row``
    of a block, with j the number of the block times n_visible plus i.
    """

    of_block: int
    n_edges: int
    out_ptr: wp.array(dtype=wp.int32)
    out_child: wp.array(dtype=wp.int32)
    visit_ptr: wp.array(dtype=wp.int32)
    visit_row: wp.array(dtype=wp.int32)
    by_edge: wp.array(dtype=wp.float64)
    times_on: wp.array(dtype=wp.float64)
    by_node: wp.array(dtype=wp.float64)


@wp.func
def one_minus_exp(b: wp.float64) -> wp.float64:
    """Return ``1 - exp(-b)`` for b > 0 without cancellation.

    There is no ``expm1`` to call. The rounding of the exponential is undone by its logarithm.
    """
    u = wp.exp(-b)
    result = _ONE
    if u == _ONE:
        result = b
    elif b < _FAR:
        result = (_ONE - u) * (b / -wp.log(u))
    return result


@wp.func
def node_sum(graph: Graph, lines: Lines, node: int, line: int):
    """Return the total parameter of a node: its leak and the edges from parents that are on."""
    total = lines.leak[node]
    for edge in range(graph.ptr[node], graph.ptr[node + 1]):
        if lines.states[offset(graph.parent[edge], graph.n_hidden, line, lines.lines)] == _ON:
            total += graph.theta[edge]
    return total


@wp.func
def _on(graph: Graph, lines: Lines, node: int, share: wp.float64, line: int):
    """Return what a node that is on adds to the value, and write its slope."""
    total = node_sum(graph, lines, node, line)
    works = one_minus_exp(total)
    if lines.with_slope != 0:
        n_nodes = graph.n_visible + graph.n_hidden
        lines.slope[offset(node, n_nodes, line, lines.lines)] = share / works
    return total + wp.log(works)


@wp.kernel(enable_backward=False)
def evaluate(graph: Graph, rows: Rows, lines: Lines):
    """Compute the value and the slopes of one line, without what is the same in all."""
    line = wp.tid()
    row = (lines.first + line) // lines.n_samples
    share = lines.share[row]
    value = wp.float64(0.0)
    for entry in range(rows.ptr[row], rows.ptr[row + 1]):
        value += _on(graph, lines, rows.columns[entry], share, line)
    for entry in range(rows.missing_ptr[row], rows.missing_ptr[row + 1]):
        node = rows.missing_columns[entry]
        value += node_sum(graph, lines, node, line)
        if lines.with_slope != 0:
            n_nodes = graph.n_visible + graph.n_hidden
            lines.slope[offset(node, n_nodes, line, lines.lines)] = share
    for k in range(graph.n_hidden):
        if lines.states[offset(k, graph.n_hidden, line, lines.lines)] == _ON:
            value += _on(graph, lines, graph.n_visible + k, share, line) - graph.total[k]
    lines.value[line] = value


@wp.kernel(enable_backward=False)
def add_edges(graph: Graph, lines: Lines, sums: Sums):
    """Sum over the lines of one block, for a hidden node and its edges."""
    block = wp.tid() // graph.n_hidden
    k = wp.tid() % graph.n_hidden
    n_nodes = graph.n_visible + graph.n_hidden
    begin = block * sums.n_edges
    own = block * n_nodes + graph.n_visible + k
    times_on = wp.float64(0.0)
    end = wp.min((block + 1) * sums.of_block, lines.lines)
    for line in range(block * sums.of_block, end):
        if lines.states[offset(k, graph.n_hidden, line, lines.lines)] == _ON:
            times_on += lines.share[(lines.first + line) // lines.n_samples]
            slope = lines.slope[offset(graph.n_visible + k, n_nodes, line, lines.lines)]
            sums.by_node[own] = sums.by_node[own] + slope
            for edge in range(sums.out_ptr[k], sums.out_ptr[k + 1]):
                slope = lines.slope[offset(sums.out_child[edge], n_nodes, line, lines.lines)]
                if slope != _ZERO:
                    sums.by_edge[begin + edge] = sums.by_edge[begin + edge] + slope
    at = block * graph.n_hidden + k
    sums.times_on[at] = sums.times_on[at] + times_on


@wp.kernel(enable_backward=False)
def add_visibles(graph: Graph, lines: Lines, sums: Sums):
    """Sum over the lines of one block in which a visible is not off, for its leak."""
    block = wp.tid() // graph.n_visible
    node = wp.tid() % graph.n_visible
    n_nodes = graph.n_visible + graph.n_hidden
    own = block * n_nodes + node
    for visit in range(sums.visit_ptr[wp.tid()], sums.visit_ptr[wp.tid() + 1]):
        begin = sums.visit_row[visit] * lines.n_samples - lines.first
        end = wp.min(begin + lines.n_samples, lines.lines)
        for line in range(wp.max(begin, 0), end):
            slope = lines.slope[offset(node, n_nodes, line, lines.lines)]
            sums.by_node[own] = sums.by_node[own] + slope
