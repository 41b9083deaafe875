"""What the mean-field kernels work on: tables of the network, and the memory of a thread.

A row has the visibles that are on, the hidden nodes that may be on, and the edges into both; what
is off is in the totals of `Tables` and is never visited. Hidden nodes are numbered anew, children
before parents, so that a sweep over them is one pass upwards. Kernels work on pointers, see
`pointers`; the named tuples here hold the arrays.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor.engines.contract import FREE
from noisyor.engines.numba.graph import Graph
from noisyor.engines.numba.mean_field.factor import BATCH_SETTLING, Children, Edges, Groups, Scratch
from noisyor.engines.numba.simd import LANES

NARROW = 32
"""Children with more parents than this never share a group."""


class Tables(NamedTuple):
    """What inference needs to know of the parameters.

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


class Hidden(NamedTuple):
    """Hidden nodes of a row in the order of a sweep.

    ``node`` hidden number; ``child`` number among the children or -1; ``free`` whether q is
    inferred; ``run`` end of each level. ``q`` probability, with spare entries that are 0; ``fixed``
    log-odds apart from edges into nodes that may be on or from them, ``base`` the same with the
    edges into active visibles, ``below`` what hidden children add, ``odds`` all together, then the
    new q. ``place`` (n_hidden,) is the number within the row, or -1; ``clamp`` (n_hidden,) the
    evidence.
    """

    node: npt.NDArray[np.int32]
    child: npt.NDArray[np.int32]
    free: npt.NDArray[np.uint8]
    run: npt.NDArray[np.int32]
    q: npt.NDArray[np.float64]
    fixed: npt.NDArray[np.float64]
    base: npt.NDArray[np.float64]
    below: npt.NDArray[np.float64]
    odds: npt.NDArray[np.float64]
    place: npt.NDArray[np.int32]
    clamp: npt.NDArray[np.uint8]


class Work(NamedTuple):
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
    """Numbers of hidden nodes, levels, children, groups, slots and edges of a row.

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
    edges: int


class Memory(NamedTuple):
    """(q, r) of every row, to start from and to keep.

    Row r has ``value[ptr[r]:ptr[r + 1]]``: q of its hidden nodes in the order of a sweep, then r of
    the edges into its hidden nodes, then of those into its active visibles. ``filled``: whether
    there is something to start from; ``kept``: whether the end is to be kept.
    """

    ptr: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]
    filled: bool
    kept: bool


def allocate(graph: Graph, most_edges: int, most_ones: int) -> Work:
    """Memory for rows with at most so many active visibles and edges into them."""
    n_hidden = graph.n_hidden
    n_edges = most_edges + int(graph.n_parents[graph.n_visible :].sum())
    n_children, n = most_ones + n_hidden, n_hidden + LANES
    # A wide child leaves less than eight slots of its group unused; the shared groups together
    # less than four times the largest one, as children are sorted by their number of parents.
    n_slots = n_edges + LANES * n_children + 4 * LANES * NARROW
    size = max(int(graph.n_parents.max(initial=0)) + LANES, BATCH_SETTLING)
    lanes = LANES * n_children
    floats, numbers, short = np.ones, _numbers, _short_numbers
    return Work(
        Edges(
            theta=floats(n_slots),
            r=floats(n_slots),
            weight=floats(n_slots),
            q=floats(n_slots),
            link=short(n_slots),
        ),
        Groups(
            begin=numbers(n_children + 1),
            wide=np.zeros(n_children, dtype=np.uint8),
            solved=np.zeros(n_children, dtype=np.uint8),
            used=floats(lanes),
            size=floats(lanes),
            floor=floats(lanes),
            slope=floats(lanes),
            importance=floats(lanes),
            active=floats(lanes),
            best=floats(lanes),
            total=floats(lanes),
            member=numbers(lanes),
        ),
        Scratch(
            value=floats(size),
            worth=floats(size),
            step=floats(size),
            before=floats(size),
            todo=numbers(size),
        ),
        Children(
            node=short(n_children),
            start=numbers(n_children),
            stride=numbers(n_children),
            lane=numbers(n_children),
            ordered=numbers(n_children),
            bucket=numbers(NARROW + 2),
        ),
        Hidden(
            node=short(n_hidden),
            child=short(n_hidden),
            free=np.zeros(n_hidden, dtype=np.uint8),
            run=short(n_hidden),
            q=floats(n),
            fixed=floats(n),
            base=floats(n),
            below=floats(n),
            odds=floats(n),
            place=short(n_hidden),
            clamp=np.full(n_hidden, FREE, dtype=np.uint8),
        ),
        most_edges,
        most_ones,
    )


def _numbers(size: int) -> npt.NDArray[np.int64]:
    return np.zeros(size, dtype=np.int64)


def _short_numbers(size: int) -> npt.NDArray[np.int32]:
    return np.zeros(size, dtype=np.int32)
