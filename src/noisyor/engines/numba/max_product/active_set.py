"""Which nodes of a row take part in max-product, and the memory that a thread works in."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor.engines.contract import FREE, Evidence
from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.float32x8 import LANES
from noisyor.engines.numba.graph import NARROW, Graph
from noisyor.engines.numba.max_product.blocks import Blocks


class Work(NamedTuple):
    """Memory of one thread, reused for all its rows.

    Per hidden node: ``belief``, ``incoming`` (sum of excesses) and ``unary`` with eight spare
    entries, ``to_child``, ``clamp``, ``total``, and the lists ``hidden`` (those that take part) and
    ``on``. Per node: ``state``, ``sums``. ``narrow`` and ``wide`` list the children with few and
    with many parents, ``counts`` (2,) of them, first those that are on, then the free ones;
    ``place`` is where the messages of a wide child begin in ``excess``. ``lanes`` (8 per hidden
    node) is ``incoming`` of an aligned graph before the lanes are summed.
    """

    belief: npt.NDArray[np.float32]
    incoming: npt.NDArray[np.float32]
    unary: npt.NDArray[np.float32]
    to_child: npt.NDArray[np.float32]
    clamp: npt.NDArray[np.uint8]
    total: npt.NDArray[np.float64]
    hidden: npt.NDArray[np.int32]
    on: npt.NDArray[np.int32]
    state: npt.NDArray[np.uint8]
    sums: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]
    narrow: npt.NDArray[np.int32]
    wide: npt.NDArray[np.int32]
    place: npt.NDArray[np.int64]
    excess: npt.NDArray[np.float32]
    scratch: npt.NDArray[np.float32]
    lanes: npt.NDArray[np.float32]
    blocks: Blocks


class Selection(NamedTuple):
    """How many nodes of a row take part: entries of the lists in `Work`."""

    hidden: int
    narrow_on: int
    narrow: int
    wide_on: int
    wide: int


def allocate(
    graph: Graph, evidence: Evidence, maximize_missing: bool, begin: int, end: int
) -> Work:
    """Memory for the largest of rows ``begin`` to ``end``."""
    edges, children = _largest_row(graph.ptr, evidence.ptr, evidence.columns, begin, end)
    if maximize_missing:
        more_edges, more_children = _largest_row(
            graph.ptr, evidence.missing_ptr, evidence.missing_columns, begin, end
        )
        edges, children = edges + more_edges, children + more_children
    n_hidden, n_nodes = graph.n_hidden, graph.n_visible + graph.n_hidden
    # Eight spare entries: vectors that begin at the last hidden node, and padding, end there.
    spare, n_children = n_hidden + LANES, children + graph.hidden_children
    return Work(
        belief=np.zeros(spare, dtype=np.float32),
        incoming=np.zeros(spare, dtype=np.float32),
        unary=np.zeros(spare, dtype=np.float32),
        to_child=np.zeros(n_hidden, dtype=np.float32),
        clamp=np.full(n_hidden, FREE, dtype=np.uint8),
        total=np.zeros(n_hidden, dtype=np.float64),
        hidden=np.zeros(n_hidden, dtype=np.int32),
        on=np.zeros(n_hidden, dtype=np.int32),
        state=np.zeros(n_nodes, dtype=np.uint8),
        sums=np.zeros(n_nodes, dtype=np.float64),
        counts=np.zeros(2, dtype=np.int64),
        narrow=np.zeros(n_children, dtype=np.int32),
        wide=np.zeros(n_children, dtype=np.int32),
        place=np.zeros(n_children + 1, dtype=np.int64),
        excess=np.zeros(edges + graph.ptr[-1] - graph.ptr[graph.n_visible], dtype=np.float32),
        scratch=np.zeros(graph.widest, dtype=np.float32),
        lanes=np.zeros(LANES * spare if graph.aligned else 0, dtype=np.float32),
        blocks=_allocate_blocks(n_children if graph.block_parents else 0, graph.block_parents),
    )


def _allocate_blocks(n_children: int, most_parents: int) -> Blocks:
    """Room for the blocks of ``n_children`` with at most ``most_parents`` each."""
    n_blocks = n_children // LANES + 2
    cells = n_blocks * LANES * most_parents
    return Blocks(
        start=np.zeros(n_blocks + 1, dtype=np.int64),
        parent=np.zeros(cells, dtype=np.int32),
        log_odds=np.zeros(cells, dtype=np.float32),
        weight=np.zeros(cells, dtype=np.float32),
        excess=np.zeros(cells, dtype=np.float32),
        leak=np.zeros(n_blocks * LANES, dtype=np.float32),
        child=np.zeros(n_blocks * LANES, dtype=np.int32),
        edge=np.zeros(LANES, dtype=np.int64),
        n_edges=np.zeros(LANES, dtype=np.int64),
        back=np.zeros(LANES, dtype=np.float32),
        scratch=np.zeros(LANES * most_parents, dtype=np.float32),
    )


@njit(cache=True, nogil=True, forceinline=True)
def _largest_row(edge_ptr, ptr, columns, begin, end):
    """Most padded edges and most entries of any row."""
    most_edges, most_children = 0, 0
    for row in range(begin, end):
        edges = 0
        for position in range(ptr[row], ptr[row + 1]):
            node = columns[position]
            edges += edge_ptr[node + 1] - edge_ptr[node]
        most_edges = max(most_edges, edges)
        most_children = max(most_children, ptr[row + 1] - ptr[row])
    return most_edges, most_children


@njit(cache=True, nogil=True, forceinline=True)
def select(graph, work, ones, missing, ancestors_only, maximize_missing):
    """Fill the lists of ``work`` for one row; ``work.clamp`` holds its evidence."""
    n_visible = graph.n_visible
    if ancestors_only:
        n_active = _ancestors(graph, work, ones, missing, maximize_missing)
    else:
        n_active = graph.n_hidden
        for k in range(n_active):
            work.hidden[k] = k
    hidden, clamp, n_parents = work.hidden[:n_active], work.clamp, graph.n_parents

    counts = work.counts
    counts[0] = counts[1] = 0
    for i in ones:
        _add_child(graph, work, i)
    for k in hidden:
        if clamp[k] == 1 and n_parents[n_visible + k] > 0:
            _add_child(graph, work, n_visible + k)
    # Children that are on come first in both lists: their update is the simpler one, and the loop
    # needs to know only where they end.
    narrow_on, wide_on = counts[0], counts[1]
    if maximize_missing:
        for i in missing:
            _add_child(graph, work, i)
    for k in hidden:
        if clamp[k] == FREE and n_parents[n_visible + k] > 0:
            _add_child(graph, work, n_visible + k)
    return Selection(n_active, narrow_on, counts[0], wide_on, counts[1])


@njit(cache=True, nogil=True, forceinline=True)
def _ancestors(graph, work, ones, missing, maximize_missing):
    """List the ancestors of the active visibles and of hidden nodes that are known to be on.

    All others are taken to be off: nothing that is on needs them.
    """
    seen, hidden, clamp = work.state, work.hidden, work.clamp
    n_active = 0
    for k in range(graph.n_hidden):
        seen[k] = 0
    for i in ones:
        n_active = _add_parents(graph, seen, hidden, n_active, i)
    if maximize_missing:
        for i in missing:
            n_active = _add_parents(graph, seen, hidden, n_active, i)
    for k in range(graph.n_hidden):
        if clamp[k] == 1 and seen[k] == 0:
            seen[k] = 1
            hidden[n_active] = k
            n_active += 1
    done = 0
    # Breadth first: the list is its own queue.
    while done < n_active:
        n_active = _add_parents(graph, seen, hidden, n_active, graph.n_visible + hidden[done])
        done += 1
    return n_active


@njit(cache=True, nogil=True, forceinline=True)
def _add_parents(graph, seen, found, n_found, node):
    """Append the parents of a node that are not in the list yet; return its new length."""
    start, parent = graph.ptr[node], graph.parent
    for edge in range(start, start + graph.n_parents[node]):
        k = parent[edge]
        if seen[k] == 0:
            seen[k] = 1
            found[n_found] = k
            n_found += 1
    return n_found


@njit(cache=True, nogil=True, forceinline=True)
def _add_child(graph, work, node):
    """Append a node to the narrow or the wide children; wide ones also get room for messages."""
    counts = work.counts
    # In an aligned graph blocks need no gather, so they are best for children of any width.
    if graph.aligned or graph.n_parents[node] <= NARROW:
        work.narrow[counts[0]] = node
        counts[0] += 1
    else:
        wide, place = counts[1], work.place
        work.wide[wide] = node
        place[wide + 1] = place[wide] + graph.ptr[node + 1] - graph.ptr[node]
        counts[1] += 1
