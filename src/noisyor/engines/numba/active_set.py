"""The part of a row that max-product works on, and the memory of a thread for it.

Children that are off send the constant -theta to their parents, which is part of each parent's
total. So only the hidden nodes that may be on take part, with the edges into the children that are
on or hidden. Children with many parents ("wide") are updated one by one, eight edges at a
time. A child with five parents does not fill a vector, and its reductions across lanes take longer
than its update, so children with few parents ("narrow") are laid out in blocks of eight: cell
(slot, lane) of a block is the slot-th edge of the lane-th child, and the largest edge of each child
is found lane by lane. Missing cells are inert edges.

In an aligned graph a slot has the same parent in all lanes, so nothing needs to be gathered, and
blocks are best for children of any width.
"""

from collections import deque
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np

from noisyor.engines.contract import FREE
from noisyor.engines.numba.arguments import Packed, Workspace, advance, arrays, borrowed, pack
from noisyor.engines.numba.cache import inner, small_code
from noisyor.engines.numba.graph import NARROW, NEVER, Graph, Rows, read_clamps
from noisyor.engines.numba.simd import LANES

_ON, _FREE = np.int64(1), np.int64(FREE)
"""Evidence as variables: with constants, the compiler would compile a function for each."""


class Blocks(Workspace):
    """Blocks of one row. Cells of block b are ``start[b]:start[b + 1]``, eight per slot."""

    bounds = arrays(int64="start")
    per_cell = arrays(int32="parent", float32="log_odds weight excess")
    # ``child`` is a hidden index, or -1 for visibles and lanes without a child.
    per_lane = arrays(int32="child", float32="leak")
    # Scratch of one block: the first edge and number of edges of each lane; its cells.
    lanes_of_block = arrays(int(LANES), int64="edge n_edges", float32="back")
    cells_of_block = arrays(float32="scratch")


class Work(Workspace):
    """Memory of one thread, reused for all its rows."""

    # ``hidden`` lists the nodes that take part, ``on`` those that are on.
    per_hidden = arrays(float32="to_child", uint8="clamp", float64="total", int32="hidden on")
    # Eight entries more than hidden nodes: vectors that begin at the last one, and padding, end
    # there. ``incoming`` is the sum of excesses.
    padded_hidden = arrays(float32="belief incoming unary")
    # ``incoming`` of an aligned graph before its lanes are summed: eight for each hidden node.
    lanes_of_hidden = arrays(float32="lanes")
    per_node = arrays(uint8="state", float64="sums")
    # Children with few and with many parents, first those that are on, then the free ones, and how
    # many of each kind are listed.
    per_child = arrays(int32="narrow wide")
    kinds = arrays(2, int64="counts")
    # Where the messages of each wide child begin in ``excess``.
    child_bounds = arrays(int64="offset")
    per_edge = arrays(float32="excess")
    edges_of_child = arrays(float32="scratch")
    blocks: Blocks


class Selection(NamedTuple):
    """Numbers of nodes of a row that take part: entries of the lists in `Work`, and blocks."""

    hidden: int
    wide_on: int
    wide: int
    on_blocks: int
    blocks: int


# ---- which nodes take part


@inner()
def select(graph, work, rows, row, ancestors_only):
    """Fill ``work.clamp`` and the lists of ``work`` for one row.

    Returns the numbers of hidden nodes, of narrow children that are on, of all narrow ones, of wide
    children that are on, and of all wide ones.
    """
    small_code()
    read_clamps(graph.n_hidden, rows, row, work.clamp)
    for k in range(graph.n_hidden):
        work.hidden[k] = k
    n_active, ones = graph.n_hidden, rows.ptr[row]
    if ancestors_only:
        active, n_ones = advance(rows.columns, ones), rows.ptr[row + 1] - ones
        n_active = list_ancestors(graph, active, n_ones, work.clamp, work.state, work.hidden)
    # Children that are on come first in both lists: their update is the simpler one, and the loop
    # needs to know only where they end.
    work.counts[0] = work.counts[1] = 0
    _add_children(graph, work, rows.columns, ones, rows.ptr[row + 1], n_active, _ON)
    narrow_on, wide_on = work.counts[0], work.counts[1]
    _add_children(graph, work, rows.columns, ones, ones, n_active, _FREE)
    return n_active, narrow_on, work.counts[0], wide_on, work.counts[1]


@inner()
def list_ancestors(graph, ones, n_ones, clamp, marked, listed):
    """List the ancestors of active visibles and of hidden nodes that are known to be on.

    All other hidden nodes are taken as off. ``marked`` (n_hidden,) becomes 1 for the nodes in
    ``listed``, else 0. Returns the number of listed nodes.
    """
    small_code()
    for k in range(graph.n_hidden):
        marked[k] = 0
    count, done = np.int64(0), 0
    for index in range(n_ones):
        count = _add_parents(graph, np.int64(ones[index]), marked, listed, count)
    for k in range(graph.n_hidden):
        if clamp[k] == 1 and marked[k] == 0:
            marked[k] = 1
            listed[count] = k
            count += 1
    # Breadth first: the list is its own queue.
    while done < count:
        node = np.int64(graph.n_visible + listed[done])
        count = _add_parents(graph, node, marked, listed, count)
        done += 1
    return count


@inner()
def _add_parents(graph, node, marked, listed, count):
    """Append the parents of a node that are not listed yet; return the length of the list."""
    small_code()
    start = graph.ptr[node]
    for edge in range(start, start + graph.n_parents[node]):
        k = graph.parent[edge]
        if marked[k] == 0:
            marked[k] = 1
            listed[count] = k
            count += 1
    return count


@inner()
def _add_children(graph, work, columns, begin, end, n_active, evidence):
    """Append visibles, and the hidden nodes with parents and this evidence, to the children.

    Narrow and wide children are listed separately; wide children also get space for messages.
    """
    small_code()
    n_visible, n_parents, counts = graph.n_visible, graph.n_parents, work.counts
    for index in range(end - begin + n_active):
        if index < end - begin:
            node = np.int64(columns[begin + index])
        else:
            k = work.hidden[index - (end - begin)]
            node = n_visible + k
            if work.clamp[k] != evidence or n_parents[node] == 0:
                continue
        if graph.aligned or n_parents[node] <= NARROW:
            work.narrow[counts[0]] = node
            counts[0] += 1
        else:
            work.wide[counts[1]] = node
            size = graph.ptr[node + 1] - graph.ptr[node]
            work.offset[counts[1] + 1] = work.offset[counts[1]] + size
            counts[1] += 1


# ---- blocks of eight children


@inner()
def lay_out(graph, parameters, work, rows, row, options):
    """Select the nodes of a row and fill the blocks of its narrow children."""
    small_code()
    n_active, narrow_on, narrow, wide_on, wide = select(
        graph, work, rows, row, options.ancestors_only
    )
    blocks, n_blocks, first = work.blocks, 0, 0
    on_blocks = (narrow_on + LANES - 1) // LANES
    while first < narrow:
        # Children that are on do not share a block with the others.
        last = narrow_on if first < narrow_on else narrow
        last = first + LANES if first + LANES < last else last
        _fill_block(graph, parameters, blocks, work.narrow, first, last, n_blocks)
        n_blocks += 1
        first = last
    return Selection(n_active, wide_on, wide, on_blocks, n_blocks)


@inner(inline="always")
def _fill_block(graph, parameters, blocks, nodes, first, last, index):
    """Copy the parameters of ``nodes[first:last]``, at most eight, into the cells of a block.

    This is done once per row, so that the loop over iterations reads memory front to back.
    """
    offset = index * LANES
    slots = np.int64(0)
    for lane in range(LANES):
        # The last block may have fewer than eight children: lanes without a child have no edges
        # and a leak that never acts.
        blocks.edge[lane] = blocks.n_edges[lane] = 0
        blocks.leak[offset + lane] = NEVER
        blocks.child[offset + lane] = -1
        if first + lane < last:
            node = nodes[first + lane]
            blocks.edge[lane] = graph.ptr[node]
            blocks.n_edges[lane] = graph.n_parents[node]
            blocks.leak[offset + lane] = parameters.leak_log_odds[node]
            if node >= graph.n_visible:
                blocks.child[offset + lane] = node - graph.n_visible
            if blocks.n_edges[lane] > slots:
                slots = blocks.n_edges[lane]
    cell = blocks.start[index]
    for slot in range(slots):
        for lane in range(LANES):
            if slot < blocks.n_edges[lane]:
                edge = blocks.edge[lane] + slot
                blocks.parent[cell] = graph.parent[edge]
                blocks.log_odds[cell] = parameters.log_odds[edge]
                blocks.weight[cell] = parameters.weight[edge]
            else:
                # An inert edge. Each lane has a spare parent of its own behind the real ones, so
                # that stores to padding do not wait for each other.
                blocks.parent[cell] = graph.n_hidden + lane
                blocks.log_odds[cell] = NEVER
                blocks.weight[cell] = 0.0
            cell += 1
    blocks.start[index + 1] = cell


# ---- memory, kept between calls: a minibatch of small rows is inferred before it is allocated


def workspace(
    graph: Packed[Graph], idle: deque[Packed[Work]], rows: Rows, begin: int, end: int
) -> AbstractContextManager[Packed[Work]]:
    """Return memory for the largest of the rows ``begin`` to ``end``.

    ``idle`` holds memory that earlier calls used with the same graph, whatever its parameters.
    """
    n_edges, n_children = largest_row(graph.values, rows, begin, end)

    def fits(space: Packed[Work]) -> bool:
        return bool(len(space.values.excess) >= n_edges and len(space.values.narrow) >= n_children)

    return borrowed(idle, fits, lambda: pack(_allocate(graph.values, n_edges, n_children)))


def largest_row(graph: Graph, rows: Rows, begin: int, end: int) -> tuple[int, int]:
    """Bound the padded edges and the children of any of the rows ``begin`` to ``end``.

    The bound on edges is loose, because memory that is never touched is not allocated.
    """
    most = int(np.diff(rows.ptr[begin : end + 1]).max())
    of_visible = min(most * graph.widest, int(graph.ptr[graph.n_visible]))
    of_hidden = int(graph.ptr[-1] - graph.ptr[graph.n_visible])
    return of_visible + of_hidden, most + graph.hidden_children


def _allocate(graph: Graph, n_edges: int, n_children: int) -> Work:
    n_hidden, spare, n_blocks = graph.n_hidden, graph.n_hidden + LANES, n_children // LANES + 2
    return Work(
        per_hidden=n_hidden,
        padded_hidden=spare,
        lanes_of_hidden=LANES * spare if graph.aligned else 0,
        per_node=graph.n_visible + n_hidden,
        per_child=n_children,
        child_bounds=n_children + 1,
        per_edge=n_edges,
        edges_of_child=graph.widest,
        blocks=Blocks(
            bounds=n_blocks + 1,
            per_cell=n_blocks * LANES * graph.block_parents,
            per_lane=n_blocks * LANES,
            cells_of_block=LANES * graph.block_parents,
        ),
    )
