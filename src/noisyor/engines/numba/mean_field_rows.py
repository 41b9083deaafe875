"""The layout of a row for mean-field inference: tables of the network, and memory of a thread.

A row has the visibles that are on, the hidden nodes that may be on, and the edges into both; nodes
that are off are part of the totals of `Tables` and are never visited. Hidden nodes are renumbered,
children before parents, so that a sweep over them is one pass upwards.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import int64

from noisyor.engines.contract import FREE
from noisyor.engines.numba.active_set import list_ancestors
from noisyor.engines.numba.arguments import Workspace, arrays
from noisyor.engines.numba.cache import inner, small_code
from noisyor.engines.numba.graph import Graph
from noisyor.engines.numba.jensen import (
    BATCH_SOLVING,
    Children,
    Edges,
    Groups,
    Scratch,
    floor_of,
    normalize,
)
from noisyor.engines.numba.simd import LANES, splat

NARROW = 32
"""Children with more parents than this never share a group."""


class Tables(NamedTuple):
    """The parameters, and values derived from them, for inference.

    By edge of the graph: ``theta``, and ``start``, the Jensen weight to begin with. By node:
    ``leak``, ``slope`` = f'(leak) = 1 / (exp(leak) - 1), ``log_odds`` = leak + f(leak). ``total``
    (n_hidden,): sum of theta over the children of a hidden node; ``total_leak`` over all nodes.
    ``order`` (n_hidden,): hidden nodes, children before parents, and their ``level``; nodes of one
    level are never connected.
    """

    theta: npt.NDArray[np.float64]
    start: npt.NDArray[np.float64]
    leak: npt.NDArray[np.float64]
    slope: npt.NDArray[np.float64]
    log_odds: npt.NDArray[np.float64]
    total: npt.NDArray[np.float64]
    total_leak: float
    order: npt.NDArray[np.int32]
    level: npt.NDArray[np.int32]


class Hidden(Workspace, floats=1.0):
    """Hidden nodes of a row in the order of a sweep.

    ``node`` hidden number; ``child`` number among the children or -1; ``free`` whether q is
    inferred; ``run`` end of each level. ``q`` probability, with spare entries that are 0; ``fixed``
    log-odds apart from edges into nodes that may be on or from them, ``base`` the same with the
    edges into active visibles, ``below`` what hidden children add, ``odds`` all together, then the
    new q. ``local`` is the number of a hidden node within the row, or -1; ``clamp`` its evidence.
    """

    per_hidden = arrays(int32="node child run local", uint8="free clamp")
    padded_hidden = arrays(float64="q fixed base below odds")


class Work(Workspace):
    """Memory of one thread, reused for all its rows.

    It suffices for rows with ``n_ones`` active visibles and ``n_edges`` edges into them.
    """

    edges: Edges
    groups: Groups
    scratch: Scratch
    children: Children
    hidden: Hidden
    n_edges: int
    n_ones: int


class Size(NamedTuple):
    """Numbers of hidden nodes, levels, children, groups and slots of a row.

    Hidden children, and their groups and slots, come before the others.
    """

    hidden: int
    runs: int
    hidden_children: int
    children: int
    hidden_groups: int
    groups: int
    hidden_slots: int
    slots: int


def allocate(graph: Graph, most_edges: int, most_ones: int) -> Work:
    """Allocate memory for rows of at most ``most_ones`` ones and ``most_edges`` edges into them."""
    n_hidden = graph.n_hidden
    n_edges = most_edges + int(graph.n_parents[graph.n_visible :].sum())
    n_children = most_ones + n_hidden
    # A wide child leaves less than eight slots of its group unused; the shared groups together
    # less than four times the largest one, as children are sorted by their number of parents.
    n_slots = n_edges + LANES * n_children + 4 * LANES * NARROW
    batch = max(int(graph.n_parents.max(initial=0)) + LANES, int(BATCH_SOLVING))
    lanes = LANES * n_children
    hidden = Hidden(per_hidden=n_hidden, padded_hidden=n_hidden + LANES)
    hidden.clamp.fill(FREE)
    return Work(
        edges=Edges(per_edge=n_slots),
        groups=Groups(bounds=n_children + 1, per_group=n_children, per_lane=lanes),
        scratch=Scratch(per_edge=batch),
        children=Children(per_child=n_children, per_size=NARROW + 2),
        hidden=hidden,
        n_edges=most_edges,
        n_ones=most_ones,
    )


# ---- the layout of a row


@inner()
def lay_out_hidden(graph, tables, work, ones, n_ones, local):
    """Lay out the hidden nodes of a row and the edges between them.

    With ``local`` only ancestors of nodes that are on take part, otherwise all hidden nodes.
    """
    small_code()
    hidden, children = work.hidden, work.children
    if local:  # the local model of equation T33
        list_ancestors(graph, ones, n_ones, hidden.clamp, hidden.local, hidden.node)
    else:
        for k in range(graph.n_hidden):
            hidden.local[k] = 1
    n_local, n_runs, level = int64(0), int64(0), -1
    for position in range(graph.n_hidden):
        k = tables.order[position]
        if hidden.local[k] == 0:
            hidden.local[k] = -1
            continue
        # A run is a level of the network, or what the row has of it; it is updated at once.
        if tables.level[position] != level:
            level = tables.level[position]
            n_runs += 1
        hidden.local[k] = n_local
        hidden.node[n_local] = k
        n_local += 1
        hidden.run[n_runs - 1] = n_local

    # Vectors of q may end in spare entries, and slots without an edge point at the first of them.
    for j in range(n_local, n_local + LANES):
        hidden.q[j] = 0.0
    n_children = int64(0)
    for j in range(n_local):
        k = hidden.node[j]
        hidden.free[j] = hidden.clamp[k] == FREE
        hidden.child[j] = -1
        # A node that is known to be off has no "on" term, so its edges have no weights.
        if graph.n_parents[graph.n_visible + k] > 0 and hidden.clamp[k] != 0:
            hidden.child[j] = n_children
            children.node[n_children] = graph.n_visible + k
            n_children += 1
    n_groups = _group(graph, tables, work, int64(0), n_children, int64(0), n_local)
    slots = work.groups.begin[n_groups]
    return Size(n_local, n_runs, n_children, n_children, n_groups, n_groups, slots, slots)


@inner()
def lay_out_visible(graph, tables, work, ones, n_ones, of_hidden):
    """Add the active visibles of a row and the edges into them."""
    small_code()
    first = of_hidden.hidden_children
    for c in range(n_ones):
        work.children.node[first + c] = ones[c]
    n_groups, spare = of_hidden.hidden_groups, of_hidden.hidden
    n_groups = _group(graph, tables, work, first, first + n_ones, n_groups, spare)
    return Size(
        of_hidden.hidden,
        of_hidden.runs,
        first,
        first + n_ones,
        of_hidden.hidden_groups,
        n_groups,
        of_hidden.hidden_slots,
        work.groups.begin[n_groups],
    )


@inner()
def _group(graph, tables, work, first, last, n_groups, spare):
    """Put children ``first`` to ``last`` into groups behind the first ``n_groups``.

    Children with equally many parents, or nearly so, share a group. Returns the number of groups.
    """
    small_code()
    node, ordered, bucket = work.children.node, work.children.ordered, work.children.bucket
    # A counting sort by the number of parents: children of equal size end up side by side.
    for size in range(NARROW + 2):
        bucket[size] = 0
    for c in range(first, last):
        bucket[min(graph.n_parents[node[c]], NARROW + 1)] += 1
    total = 0
    for size in range(NARROW + 1, -1, -1):  # the widest first, those without parents last
        bucket[size], total = total, total + bucket[size]
    for c in range(first, last):
        size = min(graph.n_parents[node[c]], NARROW + 1)
        ordered[bucket[size]] = c
        bucket[size] += 1

    position = 0
    while position < last - first:
        n_parents = int64(graph.n_parents[node[ordered[position]]])
        if n_parents == 0:
            break
        count = min(LANES, last - first - position)
        # Sharing a group costs as many slots as the widest child has parents, however few children
        # share it. With few of them it is cheaper to give each a group of its own.
        wide = n_parents > NARROW or count * (2 + (n_parents + 7) // LANES) < n_parents
        if wide:
            count = 1
        _open_group(work.edges, work.groups, n_groups, n_parents, wide, spare)
        for lane in range(count):
            _fill(graph, tables, work, n_groups, lane, ordered[position + lane])
        n_groups += 1
        position += count
    return n_groups


@inner()
def _open_group(edges, groups, index, n_parents, wide, spare):
    """Make an empty group with room for children of at most ``n_parents`` parents."""
    small_code()
    begin = groups.begin[index]
    end = begin + LANES * ((n_parents + 7) // LANES if wide else n_parents)
    groups.begin[index + 1] = end
    groups.wide[index] = wide
    for edge in range(begin, end):
        # Values that keep arithmetic on empty slots finite; q = 0 takes them out of every sum.
        edges.theta[edge] = 1.0
        edges.r[edge] = 1.0
        edges.link[edge] = spare  # an entry of q that is 0
    for lane in range(LANES * index, LANES * index + LANES):
        groups.used[lane] = 0.0
        groups.size[lane] = 1.0
        groups.floor[lane] = floor_of(1)
        groups.slope[lane] = 1.0
        groups.importance[lane] = 0.0
        groups.member[lane] = -1


@inner()
def _fill(graph, tables, work, index, lane, c):
    """Put child c into a lane of a group, or into all lanes of a wide one."""
    small_code()
    groups, children, edges, local = work.groups, work.children, work.edges, work.hidden.local
    node, wide = children.node[c], groups.wide[index]
    size, begin, start = graph.n_parents[node], graph.ptr[node], groups.begin[index] + lane
    stride = 1 if wide else LANES
    children.start[c] = start
    children.stride[c] = stride
    children.lane[c] = LANES * index + lane
    if size == 0:
        return
    for offset in range(lane, LANES if wide else lane + 1):
        entry = LANES * index + offset
        # Edges of a wide child fill the lanes in turn, so the first lanes may have one more.
        groups.used[entry] = (size - offset + 7) // LANES if wide else size
        groups.size[entry] = size
        groups.floor[entry] = floor_of(size)
        groups.slope[entry] = tables.slope[node]
        groups.importance[entry] = 1.0
        groups.member[entry] = c
    for offset in range(size):
        edges.theta[start + stride * offset] = tables.theta[begin + offset]
        edges.r[start + stride * offset] = tables.start[begin + offset]
        edges.link[start + stride * offset] = local[graph.parent[begin + offset]]


# ---- where to start from


@inner()
def start(graph, tables, work, size):
    """Set the published start: q = 1/2, r proportional to theta; r of visibles is set already."""
    small_code()
    hidden, children, r = work.hidden, work.children, work.edges.r
    for index in range(size.groups):
        work.groups.solved[index] = 0
    for j in range(size.hidden):
        k = hidden.node[j]
        hidden.fixed[j] = tables.log_odds[graph.n_visible + k] - tables.total[k]
        hidden.q[j] = 0.5 if hidden.free[j] else float(hidden.clamp[k])
    for c in range(size.hidden_children):
        node = children.node[c]
        begin, stride, entry = children.start[c], children.stride[c], graph.ptr[node]
        for offset in range(graph.n_parents[node]):
            r[begin + stride * offset] = tables.start[entry + offset]


@inner()
def discount_missing(graph, tables, hidden, missing, n_missing):
    """Take unobserved visibles out of the totals (equation T5); return the sum of their leaks."""
    value = 0.0
    for index in range(n_missing):
        node = missing[index]
        value += tables.leak[node]
        for edge in range(graph.ptr[node], graph.ptr[node] + graph.n_parents[node]):
            j = hidden.local[graph.parent[edge]]
            if j >= 0:
                hidden.fixed[j] += tables.theta[edge]
    return value


@inner()
def set_importance(work, size):
    """Set the importance of hidden children to their probability: q_i of the gap, T32."""
    small_code()
    hidden, children, importance = work.hidden, work.children, work.groups.importance
    for j in range(size.hidden):
        c = hidden.child[j]
        if c >= 0:
            lane = children.lane[c]
            for offset in range(LANES if children.stride[c] == 1 else 1):
                importance[lane + offset] = hidden.q[j]


@inner()
def start_of_node(theta, begin, n_parents, start, work):
    """Compute the starting Jensen weights of a node: proportional to theta, floored."""
    small_code()
    groups, values, r = work.groups, work.scratch.value, work.edges.r
    groups.begin[0] = 0
    _open_group(work.edges, groups, int64(0), n_parents, n_parents > 0, int64(0))
    for lane in range(LANES):
        groups.used[lane] = (n_parents - lane + 7) // LANES
        groups.floor[lane] = floor_of(n_parents)
    total = 0.0
    for offset in range(groups.begin[1]):
        values[offset] = theta[begin + offset] if offset < n_parents else 0.0
        r[offset] = 1.0 / n_parents
        total += values[offset]
    normalize(values, 0, r, groups, 0, splat(1.0), splat(total))
    for offset in range(n_parents):
        start[begin + offset] = r[offset]
