"""The memory that a thread works in during max-product, kept between calls.

A minibatch of small rows is inferred in less time than its memory takes to allocate.
"""

from collections import deque
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor.engines.contract import FREE, Evidence
from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.float32x8 import LANES
from noisyor.engines.numba.graph import Graph
from noisyor.engines.numba.max_product.blocks import Blocks
from noisyor.engines.numba.pool import borrowed


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


class Stages(NamedTuple):
    """Memory of one thread beside `Work`; empty unless the schedule is wanted.

    Per message of a wide child, at the places of ``Work.excess``: ``down`` and ``to_edge`` (from
    the OR to the edge). Per wide child: ``top`` and ``second`` largest of its downs, and the sum of
    their ``positive`` parts. The same per cell and lane of ``Work.blocks``: ``cell_down``,
    ``cell_to_edge``, ``lane_top``, ``lane_second``, ``lane_positive``. Per hidden node: ``noise``,
    the message ``from_set`` of its set of alternatives, ``without_set`` its belief before that, and
    ``rest`` of all its children and of those that are off in the row, (2, n_hidden); ``rest_of``
    each padded edge.
    """

    down: npt.NDArray[np.float32]
    to_edge: npt.NDArray[np.float32]
    top: npt.NDArray[np.float32]
    second: npt.NDArray[np.float32]
    positive: npt.NDArray[np.float32]
    cell_down: npt.NDArray[np.float32]
    cell_to_edge: npt.NDArray[np.float32]
    lane_top: npt.NDArray[np.float32]
    lane_second: npt.NDArray[np.float32]
    lane_positive: npt.NDArray[np.float32]
    noise: npt.NDArray[np.float32]
    from_set: npt.NDArray[np.float32]
    without_set: npt.NDArray[np.float32]
    rest: npt.NDArray[np.float64]
    rest_of: npt.NDArray[np.float64]


class Workspace(NamedTuple):
    """What a thread needs; ``stages`` are empty where the schedule never asked for them."""

    work: Work
    stages: Stages


def workspace(
    graph: Graph,
    idle: deque[Workspace],
    evidence: Evidence,
    rows: tuple[int, int],
    *,
    maximize_missing: bool,
    two_stage: bool = False,
) -> AbstractContextManager[Workspace]:
    """Memory for the largest of ``rows``, from the first up to the last.

    ``idle`` is what was used before with the same graph, whatever its parameters.
    """
    n_edges, n_children = _needed(graph, evidence, maximize_missing, rows)

    def fits(space: Workspace) -> bool:
        work, stages = space
        enough = len(work.excess) >= n_edges and len(work.narrow) >= n_children
        return enough and (len(stages.noise) > 0 or not two_stage)

    def make() -> Workspace:
        work = _allocate(graph, n_edges, n_children)
        return Workspace(work, _allocate_stages(graph, work) if two_stage else NO_STAGES)

    return borrowed(idle, fits, make)


def _needed(
    graph: Graph, evidence: Evidence, maximize_missing: bool, rows: tuple[int, int]
) -> tuple[int, int]:
    """Most padded edges and most children of any row."""
    edges, children = _largest_row(graph.ptr, evidence.ptr, evidence.columns, *rows)
    if maximize_missing:
        more_edges, more_children = _largest_row(
            graph.ptr, evidence.missing_ptr, evidence.missing_columns, *rows
        )
        edges, children = edges + more_edges, children + more_children
    between_hidden = int(graph.ptr[-1] - graph.ptr[graph.n_visible])
    return edges + between_hidden, children + graph.hidden_children


def _allocate(graph: Graph, n_edges: int, n_children: int) -> Work:
    n_hidden, n_nodes = graph.n_hidden, graph.n_visible + graph.n_hidden
    # Eight spare entries: vectors that begin at the last hidden node, and padding, end there.
    spare = n_hidden + LANES
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
        excess=np.zeros(n_edges, dtype=np.float32),
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


def _allocate_stages(graph: Graph, work: Work) -> Stages:
    """Memory for the rows that ``work`` is for."""
    return _empty(
        len(work.excess),
        len(work.wide),
        len(work.blocks.excess),
        len(work.blocks.leak),
        graph.n_hidden,
        len(graph.parent),
    )


def _empty(messages: int, wide: int, cells: int, lanes: int, hidden: int, edges: int) -> Stages:
    return Stages(
        down=np.empty(messages, dtype=np.float32),
        to_edge=np.empty(messages, dtype=np.float32),
        top=np.empty(wide, dtype=np.float32),
        second=np.empty(wide, dtype=np.float32),
        positive=np.empty(wide, dtype=np.float32),
        cell_down=np.empty(cells, dtype=np.float32),
        cell_to_edge=np.empty(cells, dtype=np.float32),
        lane_top=np.empty(lanes, dtype=np.float32),
        lane_second=np.empty(lanes, dtype=np.float32),
        lane_positive=np.empty(lanes, dtype=np.float32),
        noise=np.empty(hidden, dtype=np.float32),
        from_set=np.empty(hidden, dtype=np.float32),
        without_set=np.empty(hidden, dtype=np.float32),
        rest=np.empty((2, hidden)),
        rest_of=np.empty(edges),
    )


NO_STAGES = _empty(0, 0, 0, 0, 0, 0)
"""For the other schedule, which needs none."""
