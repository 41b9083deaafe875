"""log p(h, x) of states, and the sum of its gradient over rows without atomic additions.

Equations T4, T5, T20 and T49 of docs/theory.md. With B_i the total parameter of node i,
``g(b) = log(exp(b) - 1)`` and all sums over what is on, a line has

    log p(h, x) = - total leak - sum_k total_k + sum_i g(B_i) + sum of B_i over what is missing

and its derivative by an edge is ``z_k (z_i / (1 - exp(-B_i)) - 1)``, z_i being 1 - exp(-B_i) for
what is missing. First a thread for each line writes the fractions, then a thread for each hidden
node adds up those of its children, line after line: nobody else writes there, and the order is
fixed. The host takes off the -1 and the total leak, which are the same for all lines, and adds up
blocks of rows in the fixed tree.
"""

from typing import Any

import numpy as np
import warp as wp

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor._util.csr import pointers
from noisyor.engines.contract import Evidence, GradientSum
from noisyor.engines.reduction import ROWS_OF_BLOCK, TreeSum, tree_sum_of_blocks
from noisyor.engines.warp.device import Cleared, by_place, launch, structure, to_device
from noisyor.engines.warp.layout import Graph, Prepared, Rows, rows_on_device
from noisyor.engines.warp.scalar import place

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
    """``1 - exp(-b)`` for b > 0 without cancellation.

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
    """Total parameter of a node: its leak and the edges from parents that are on."""
    total = lines.leak[node]
    for edge in range(graph.ptr[node], graph.ptr[node + 1]):
        if lines.states[place(graph.parent[edge], graph.n_hidden, line, lines.lines)] == _ON:
            total += graph.theta[edge]
    return total


@wp.func
def _on(graph: Graph, lines: Lines, node: int, share: wp.float64, line: int):
    """What a node that is on adds to the value; its slope is written."""
    total = node_sum(graph, lines, node, line)
    works = one_minus_exp(total)
    if lines.with_slope != 0:
        n_nodes = graph.n_visible + graph.n_hidden
        lines.slope[place(node, n_nodes, line, lines.lines)] = share / works
    return total + wp.log(works)


@wp.kernel(enable_backward=False)
def evaluate(graph: Graph, rows: Rows, lines: Lines):
    """The value and the slopes of one line, but for what is the same in all."""
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
            lines.slope[place(node, n_nodes, line, lines.lines)] = share
    for k in range(graph.n_hidden):
        if lines.states[place(k, graph.n_hidden, line, lines.lines)] == _ON:
            value += _on(graph, lines, graph.n_visible + k, share, line) - graph.total[k]
    lines.value[line] = value


@wp.kernel(enable_backward=False)
def add_edges(graph: Graph, lines: Lines, sums: Sums):
    """Sums of a hidden node and its edges, over the lines of one block."""
    block = wp.tid() // graph.n_hidden
    k = wp.tid() % graph.n_hidden
    n_nodes = graph.n_visible + graph.n_hidden
    begin = block * sums.n_edges
    own = block * n_nodes + graph.n_visible + k
    times_on = wp.float64(0.0)
    end = wp.min((block + 1) * sums.of_block, lines.lines)
    for line in range(block * sums.of_block, end):
        if lines.states[place(k, graph.n_hidden, line, lines.lines)] == _ON:
            times_on += lines.share[(lines.first + line) // lines.n_samples]
            slope = lines.slope[place(graph.n_visible + k, n_nodes, line, lines.lines)]
            sums.by_node[own] = sums.by_node[own] + slope
            for edge in range(sums.out_ptr[k], sums.out_ptr[k + 1]):
                slope = lines.slope[place(sums.out_child[edge], n_nodes, line, lines.lines)]
                if slope != _ZERO:
                    sums.by_edge[begin + edge] = sums.by_edge[begin + edge] + slope
    at = block * graph.n_hidden + k
    sums.times_on[at] = sums.times_on[at] + times_on


@wp.kernel(enable_backward=False)
def add_visibles(graph: Graph, lines: Lines, sums: Sums):
    """Sums of a visible, for its leak, over the lines of one block in which it is not off."""
    block = wp.tid() // graph.n_visible
    node = wp.tid() % graph.n_visible
    n_nodes = graph.n_visible + graph.n_hidden
    own = block * n_nodes + node
    for visit in range(sums.visit_ptr[wp.tid()], sums.visit_ptr[wp.tid() + 1]):
        begin = sums.visit_row[visit] * lines.n_samples - lines.first
        end = wp.min(begin + lines.n_samples, lines.lines)
        for line in range(wp.max(begin, 0), end):
            slope = lines.slope[place(node, n_nodes, line, lines.lines)]
            sums.by_node[own] = sums.by_node[own] + slope


# ---- the host


class StatesOfRows:
    """States (n_rows * n_samples, n_hidden) of rows that have one or several lines each."""

    def __init__(self, prepared: Prepared, evidence: Evidence, states: BinaryArray) -> None:
        self.prepared, self.evidence, self.states = prepared, evidence, states
        self.samples = len(states) // max(evidence.n_rows, 1)
        weight = evidence.weight if len(evidence.weight) else np.ones(evidence.n_rows)
        self.weight, self.value = weight, np.empty(len(states))

    @property
    def bytes_of_line(self) -> int:
        """Memory on the device that a line needs."""
        return 8 * self.prepared.network.n_nodes + self.prepared.network.n_hidden + 8

    @property
    def bytes_of_block(self) -> int:
        """Memory on the device that the gradient of a block of rows needs."""
        network = self.prepared.network
        of_sums = 8 * (network.n_edges + network.n_nodes + network.n_hidden)
        return of_sums + ROWS_OF_BLOCK * self.samples * self.bytes_of_line

    def log_joint(self, begin: int, end: int) -> None:
        """Fill ``value`` (lines,) of some lines."""
        self._evaluate(begin, end, with_slope=False)
        self.value[begin:end] -= self.prepared.total_leak

    def gradient(self, blocks_at_once: int, lines_at_once: int, n_threads: int) -> GradientSum:
        """The sum over rows. Neither the blocks nor the lines of a launch change its bits."""
        n_blocks = max(1, -(-self.evidence.n_rows // ROWS_OF_BLOCK))
        if blocks_at_once == 1:
            parts = tree_sum_of_blocks(
                lambda number: self._blocks(number, number + 1, lines_at_once)[0],
                n_blocks,
                n_threads,
            )
        else:
            total = TreeSum()
            for number in range(0, n_blocks, blocks_at_once):
                last = min(number + blocks_at_once, n_blocks)
                for block in self._blocks(number, last, lines_at_once):
                    total.add(block)
            parts = total.result()
        value, gradient = parts
        return GradientSum(float(value[0]), gradient, self.evidence.total_weight)

    def _evaluate(self, begin: int, end: int, with_slope: bool) -> Any:
        """Values of some lines, in one launch; their slopes stay on the device."""
        prepared, n_lines, first = self.prepared, end - begin, begin // self.samples
        rows = np.arange(first, (end - 1) // self.samples + 1)
        lines = structure(
            Lines,
            prepared.device,
            lines=n_lines,
            n_samples=self.samples,
            first=begin - first * self.samples,
            with_slope=int(with_slope),
            leak=prepared.leak_on_device,
            share=self.weight[rows] / self.samples,
            states=by_place(self.states[begin:end], prepared.device),
            value=n_lines,
            slope=Cleared(n_lines * prepared.network.n_nodes if with_slope else 0),
        )
        known = rows_on_device(prepared, self.evidence, rows)
        launch(evaluate, n_lines, [prepared.graph, known, lines], prepared.device)
        self.value[begin:end] = lines.value.numpy()
        return lines

    def _blocks(self, first: int, last: int, lines_at_once: int) -> list[list[FloatArray]]:
        """Value and gradient of each of some blocks of rows.

        All of them in one launch, or a single one in several.
        """
        prepared, samples, count = self.prepared, self.samples, last - first
        network, device = prepared.network, prepared.device
        of_block, (out_ptr, out_child) = ROWS_OF_BLOCK * samples, prepared.outgoing
        sums = structure(
            Sums,
            device,
            of_block=of_block,
            n_edges=network.n_edges,
            out_ptr=out_ptr,
            out_child=out_child,
            by_edge=Cleared(count * network.n_edges),
            times_on=Cleared(count * network.n_hidden),
            by_node=Cleared(count * network.n_nodes),
        )
        end = min(last * of_block, len(self.states))
        step = lines_at_once if count == 1 else end - first * of_block
        for begin in range(first * of_block, end, step):
            lines = self._evaluate(begin, min(begin + step, end), with_slope=True)
            sums.visit_ptr, sums.visit_row = self._visits(begin, min(begin + step, end), count)
            arguments = [prepared.graph, lines, sums]
            launch(add_edges, count * network.n_hidden, arguments, device)
            launch(add_visibles, count * network.n_visible, arguments, device)
        by_edge, times_on, by_node = (
            array.numpy().reshape(count, -1)
            for array in (sums.by_edge, sums.times_on, sums.by_node)
        )
        return [
            self._block(first + number, by_edge[number], times_on[number], by_node[number])
            for number in range(count)
        ]

    def _visits(self, begin: int, end: int, n_blocks: int) -> tuple[Any, Any]:
        """Rows of a launch by block and visible that is on or missing in them, see `Sums`."""
        evidence, n_visible = self.evidence, self.prepared.network.n_visible
        first, last = begin // self.samples, (end - 1) // self.samples + 1
        lists = (
            (evidence.ptr, evidence.columns),
            (evidence.missing_ptr, evidence.missing_columns),
        )
        columns = np.concatenate([entries[ptr[first] : ptr[last]] for ptr, entries in lists])
        rows = np.concatenate(
            [np.repeat(np.arange(last - first), np.diff(ptr[first : last + 1])) for ptr, _ in lists]
        )
        block = rows // ROWS_OF_BLOCK if n_blocks > 1 else np.zeros_like(rows)
        key = block * n_visible + columns
        order = np.lexsort((rows, key))
        ptr = pointers(np.bincount(key, minlength=n_blocks * n_visible))
        device = self.prepared.device
        return to_device(ptr, wp.int32, device), to_device(rows[order], wp.int32, device)

    def _block(
        self, number: int, by_edge: FloatArray, times_on: FloatArray, by_node: FloatArray
    ) -> list[FloatArray]:
        """Value (1,) and gradient (n_params,) of a block, with what all its lines have alike."""
        prepared, network = self.prepared, self.prepared.network
        rows = slice(number * ROWS_OF_BLOCK, (number + 1) * ROWS_OF_BLOCK)
        weight, (_, out) = self.weight[rows], network.outgoing
        share = np.repeat(weight / self.samples, self.samples)
        begin = rows.start * self.samples
        total, of_lines = weight.sum(), self.value[begin : begin + len(share)]
        value = (share * of_lines).sum(keepdims=True) - total * prepared.total_leak
        of_edges = by_edge - times_on[network.parent[out]]
        gradient = np.bincount(network.param[out], of_edges, network.n_params)
        gradient += np.bincount(network.leak_param, by_node - total, network.n_params)
        return [value, gradient]
