"""Which nodes of a row take part in max-product."""

from typing import NamedTuple

from noisyor.engines.contract import FREE
from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.graph import NARROW


class Selection(NamedTuple):
    """How many nodes of a row take part: entries of the lists in `Work`."""

    hidden: int
    narrow_on: int
    narrow: int
    wide_on: int
    wide: int


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
