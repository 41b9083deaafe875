"""Bipartite networks as matrices: the layout in which whole sets and runs of causes are drawn.

Where no hidden node has parents and most edges exist, edges need no lists: column c of a matrix
(n_visible, width) holds the edges of one hidden node. Columns come in *parts*, each a multiple of
eight wide: the nodes of a set of alternatives, or a run of independent nodes. Parts are in the
order in which they are drawn, by their first node. Columns that only fill up a part, and edges
that do not exist, have theta = 0, and the former are never on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray, LongArray
from noisyor.engines.numba.float64x8 import WIDTH
from noisyor.engines.numba.graph import TINY, log_expm1
from noisyor.engines.numba.sampling.alternatives import IMPOSSIBLE
from noisyor.model.network import Network

_FILLED = 0.25
"""A network is laid out as a matrix if at least this share of the matrix are edges."""


class Columns(NamedTuple):
    """Which column is which hidden node.

    ``node`` (width,) hidden node of a column, -1 if it only fills up; ``column`` (n_hidden,) the
    reverse. Part p is the columns ``part_ptr[p]:part_ptr[p + 1]``; ``is_set`` (n_parts,) whether
    it is a set of alternatives.
    """

    n_visible: int
    n_hidden: int
    width: int
    node: npt.NDArray[np.int32]
    column: npt.NDArray[np.int32]
    part_ptr: npt.NDArray[np.int64]
    is_set: npt.NDArray[np.uint8]


class Matrices(NamedTuple):
    """Parameters by column: equations T3 and T4 of docs/theory.md.

    ``theta`` and ``works`` = 1 - exp(-theta) (n_visible * width,), row after row. By column:
    ``total``, sum of theta over the visibles, and ``log_odds`` of the prior. By visible: ``leak``
    and ``leak_works``.
    """

    theta: npt.NDArray[np.float64]
    works: npt.NDArray[np.float64]
    total: npt.NDArray[np.float64]
    log_odds: npt.NDArray[np.float64]
    leak: npt.NDArray[np.float64]
    leak_works: npt.NDArray[np.float64]


class Dense(NamedTuple):
    """The layout of a graph: its columns, and ``place`` (n_edges,), entry of each edge."""

    columns: Columns
    place: LongArray


def dense_of(network: Network) -> Dense | None:
    """The layout of a network's graph, None if it does not have one; shared by `with_theta`."""
    if "numba_dense" not in network.engine_cache:
        network.engine_cache["numba_dense"] = _lay_out(network)
    result: Dense | None = network.engine_cache["numba_dense"]
    return result


def _lay_out(network: Network) -> Dense | None:
    if network.child_ptr[network.n_visible] < network.n_edges:
        return None
    sets, n_hidden = network.sets, network.n_hidden
    first = sets.member[sets.ptr[:-1]]  # where a set takes its turn
    parts: list[LongArray] = []
    is_set: list[bool] = []
    free = np.flatnonzero(sets.number < 0)
    for number in np.argsort(first, kind="stable").tolist():
        before = free[free < first[number]]
        if len(before):
            parts.append(before)
            is_set.append(False)
        free = free[len(before) :]
        parts.append(sets.member[sets.ptr[number] : sets.ptr[number + 1]])
        is_set.append(True)
    if len(free):
        parts.append(free)
        is_set.append(False)
    sizes = np.array([-(-len(part) // WIDTH) * WIDTH for part in parts])
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    width = int(ptr[-1])
    if network.n_edges < _FILLED * network.n_visible * width:
        return None
    node, column = np.full(width, -1, dtype=np.int32), np.empty(n_hidden, dtype=np.int32)
    for part, begin in zip(parts, ptr[:-1], strict=True):
        column[part] = begin + np.arange(len(part))
    node[column] = np.arange(n_hidden)
    columns = Columns(
        network.n_visible,
        n_hidden,
        width,
        node,
        column,
        ptr.astype(np.int64),
        np.array(is_set, dtype=np.uint8),
    )
    place = network.edge_child.astype(np.int64) * width + column[network.parent]
    return Dense(columns, place)


def matrices_of(network: Network, dense: Dense) -> Matrices:
    """The parameters of a network in its layout."""
    n_visible, columns = network.n_visible, dense.columns
    value = np.maximum(network.theta, TINY)
    theta = aligned(n_visible * columns.width)
    theta[dense.place] = value[network.param]
    works = aligned(n_visible * columns.width)
    np.negative(np.expm1(-theta, out=works), out=works)
    leak = value[network.leak_param]
    log_odds = np.full(columns.width, IMPOSSIBLE)
    log_odds[columns.column] = log_expm1(leak[n_visible:])
    total = theta.reshape(n_visible, columns.width).sum(axis=0)
    leak = leak[:n_visible]
    return Matrices(theta, works, total, log_odds, leak, -np.expm1(-leak))


def aligned(size: int) -> FloatArray:
    """Zeros that begin where a vector of eight does, so that no load crosses two lines."""
    room = np.zeros(size + WIDTH)
    shift = -(room.ctypes.data // 8) % WIDTH
    return room[shift : shift + size]
