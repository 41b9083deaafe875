"""The network and the rows in the layout of this engine, which works on one row at a time.

`Segments` sums over the edges of each child, all children of a row at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import AnyArray, BinaryArray, FloatArray, LongArray, pointers
from noisyor.engines.contract import FREE, Evidence
from noisyor.model.network import Network

_TINY = 1e-300
"""Replaces a parameter of zero: an impossible event then costs some hundred nats, and no infinity
enters the arithmetic."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A network with its parameters by edge, ``theta``, and by node, ``leak``."""

    network: Network

    @cached_property
    def theta(self) -> FloatArray:
        """Parameter of each edge, shape (n_edges,)."""
        return np.maximum(self.network.theta, _TINY)[self.network.param]

    @cached_property
    def leak(self) -> FloatArray:
        """Parameter of each node's leak, shape (n_nodes,)."""
        return np.maximum(self.network.theta, _TINY)[self.network.leak_param]

    @cached_property
    def n_parents(self) -> LongArray:
        """Number of parents of each node, shape (n_nodes,)."""
        return np.diff(self.network.child_ptr)

    def edges_into(self, nodes: LongArray) -> LongArray:
        """Return the indices of the edges into some nodes, node after node."""
        ptr = self.network.child_ptr
        return np.concatenate(
            [np.zeros(0, dtype=np.int64), *(np.arange(ptr[i], ptr[i + 1]) for i in nodes)]
        )

    def parents_of(self, node: int) -> list[int]:
        """Return the hidden indices of the parents of a node, in the order of its edges."""
        ptr = self.network.child_ptr
        return [int(k) for k in self.network.parent[ptr[node] : ptr[node + 1]]]


@dataclass(frozen=True)
class Row:
    """The evidence of one row.

    ``index`` within the batch; ``id`` keys its noise; ``weight`` rows that it stands for;
    ``visible`` (n_visible,) and ``hidden`` (n_hidden,) of 0, 1 and ``FREE``: a visible is free if
    it was not observed, a hidden node unless it is clamped.
    """

    index: int
    id: int
    weight: float
    visible: BinaryArray
    hidden: BinaryArray

    @property
    def ones(self) -> LongArray:
        """Visibles that are on, in ascending order."""
        return np.flatnonzero(self.visible == 1)

    @property
    def missing(self) -> LongArray:
        """Visibles that were not observed, in ascending order."""
        return np.flatnonzero(self.visible == FREE)


def rows_of(
    prepared: Prepared, evidence: Evidence, begin: int = 0, end: int | None = None
) -> Iterator[Row]:
    """Yield rows ``begin`` to ``end`` of a batch, or all of them."""
    network, clamp = prepared.network, evidence.clamp
    for row in range(begin, evidence.n_rows if end is None else end):
        visible = np.zeros(network.n_visible, dtype=np.uint8)
        visible[evidence.columns[evidence.ptr[row] : evidence.ptr[row + 1]]] = 1
        missing = slice(evidence.missing_ptr[row], evidence.missing_ptr[row + 1])
        visible[evidence.missing_columns[missing]] = FREE
        hidden = np.full(network.n_hidden, FREE, dtype=np.uint8)
        if len(clamp):
            hidden[:] = clamp[min(row, len(clamp) - 1)]
        weight = float(evidence.weight[row]) if len(evidence.weight) else 1.0
        yield Row(row, int(evidence.row_ids[row]), weight, visible, hidden)


def taking_part(prepared: Prepared, row: Row, ancestors_only: bool) -> LongArray:
    """Return the hidden nodes that take part in the inference of a row; the others are off.

    These are all hidden nodes, or those that are clamped on and the ancestors of all nodes that are
    on.
    """
    n_visible, n_hidden = prepared.network.n_visible, prepared.network.n_hidden
    if not ancestors_only:
        return np.arange(n_hidden)
    found: dict[int, None] = {}  # a set that keeps its order
    for node in row.ones.tolist():
        found.update(dict.fromkeys(prepared.parents_of(node)))
    found.update(dict.fromkeys(np.flatnonzero(row.hidden == 1).tolist()))
    queue = list(found)
    for k in queue:
        new = [parent for parent in prepared.parents_of(n_visible + k) if parent not in found]
        found.update(dict.fromkeys(new))
        queue.extend(new)
    return np.array(queue, dtype=np.int64)


def sums_at(index: AnyArray, values: AnyArray, size: int) -> FloatArray:
    """Sum the values that have the same index, (size,)."""
    return np.asarray(np.bincount(index, values, size), dtype=np.float64)


class Segments:
    """Runs of consecutive entries, one after another: the edges into one child are one run.

    ``lengths`` (n_runs,) are all positive. Arrays are over entries or over runs.
    """

    def __init__(self, lengths: npt.ArrayLike) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self.start = pointers(self.lengths)[:-1]

    def sum(self, values: AnyArray) -> FloatArray:
        """Return the sum over each run, (n_runs,)."""
        return np.add.reduceat(np.asarray(values, dtype=np.float64), self.start)

    def max(self, values: FloatArray) -> FloatArray:
        """Return the largest of each run, (n_runs,)."""
        return np.maximum.reduceat(values, self.start)

    def spread(self, by_run: AnyArray) -> AnyArray:
        """Return the value of its run for every entry."""
        return np.repeat(by_run, self.lengths)

    def max_of_others(self, values: FloatArray) -> FloatArray:
        """Return for every entry the largest other entry of its run; minus infinity without one."""
        best = self.max(values)
        at_best = values == self.spread(best)
        second = self.max(np.where(at_best, -np.inf, values))
        second = np.where(self.sum(at_best) > 1, best, second)
        return np.where(at_best, self.spread(second), self.spread(best))
