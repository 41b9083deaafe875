"""A network and a batch of rows, laid out for the kernels.

The edges of a child are padded to whole vectors of eight.

Padding edges are inert: their log-odds are so low that they never carry a message. They point at a
spare hidden slot behind the real ones and at a spare parameter behind the real ones, so kernels
treat them like any other edge and ignore the spare entries.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor.engines.contract import FREE, Evidence
from noisyor.engines.numba.arguments import Packed, pack, unpack
from noisyor.engines.numba.cache import inner, njit
from noisyor.engines.numba.simd import LANES
from noisyor.model.network import Network

NEVER = np.float32(-1e30)
"""Log-odds of an impossible event; finite, so that differences stay finite."""


TINY = 1e-300
"""Stands for a parameter of zero, so that no logarithm is infinite."""

NARROW = 16
"""A child with at most this many parents is updated together with seven others.

In an aligned graph, see `Graph`, every child is.
"""


class Graph(NamedTuple):
    """The structure, shared by all parameter values.

    ``ptr`` (n_nodes + 1,) offsets of the padded edges of each child, multiples of eight.
    ``n_parents`` (n_nodes,) true number of parents. ``first`` (n_nodes,) first parent if the
    parents are consecutive numbers, else -1: such a child needs no gather. ``parent`` and
    ``param`` (padded edges,). ``out_ptr``, ``out_edge``, ``out_child``: edges grouped by parent.
    ``aligned``: no hidden node has parents and all visibles have the same consecutive ones, as in
    a dense bipartite network. ``block_parents``: most parents of a child that goes into a block;
    ``widest``: most padded edges of any child; ``hidden_children``: hidden nodes with parents.
    """

    n_visible: int
    n_hidden: int
    ptr: npt.NDArray[np.int64]
    n_parents: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]
    parent: npt.NDArray[np.int32]
    param: npt.NDArray[np.int32]
    leak_param: npt.NDArray[np.int32]
    out_ptr: npt.NDArray[np.int64]
    out_edge: npt.NDArray[np.int64]
    out_child: npt.NDArray[np.int32]
    aligned: bool
    block_parents: int
    widest: int
    hidden_children: int


class Parameters(NamedTuple):
    """The parameters, spread over the padded edges: equations T3 and T4 of docs/theory.md.

    ``theta`` (padded edges,) float64 with 0 on padding, ``leak`` (n_nodes,) float64; ``weight``
    and ``log_odds`` (padded edges,) float32: theta and log(exp(theta) - 1); ``leak_log_odds``
    (n_nodes,) float32. ``total`` (n_hidden,): sum of theta over all children of a hidden node.
    ``total_leak``: -log p(every node is off), the sum of the leaks.
    """

    theta: npt.NDArray[np.float64]
    leak: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float32]
    log_odds: npt.NDArray[np.float32]
    leak_log_odds: npt.NDArray[np.float32]
    total: npt.NDArray[np.float64]
    total_leak: float


class Rows(NamedTuple):
    """A batch of rows: `noisyor.engines.contract.Evidence` for kernels.

    ``n_clamps`` is the number of lines of ``clamp``: one for each row, one for all, or none;
    ``weighted`` whether ``weight`` has an entry for each row.
    """

    n_rows: int
    ptr: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int32]
    missing_ptr: npt.NDArray[np.int64]
    missing_columns: npt.NDArray[np.int32]
    row_ids: npt.NDArray[np.int64]
    n_clamps: int
    clamp: npt.NDArray[np.uint8]
    weighted: bool
    weight: npt.NDArray[np.float64]


def rows_of(evidence: Evidence) -> Rows:
    """Return the rows of a batch in the types that kernels expect."""
    return Rows(
        evidence.n_rows,
        np.ascontiguousarray(evidence.ptr, dtype=np.int64),
        np.ascontiguousarray(evidence.columns, dtype=np.int32),
        np.ascontiguousarray(evidence.missing_ptr, dtype=np.int64),
        np.ascontiguousarray(evidence.missing_columns, dtype=np.int32),
        np.ascontiguousarray(evidence.row_ids, dtype=np.int64),
        len(evidence.clamp),
        np.ascontiguousarray(evidence.clamp, dtype=np.uint8),
        len(evidence.weight) > 0,
        np.ascontiguousarray(evidence.weight, dtype=np.float64),
    )


@inner()
def read_clamps(n_hidden, rows, row, clamp):
    """Copy the evidence on the hidden nodes of a row; a single line of clamps is for all rows."""
    clamps = row * n_hidden if rows.n_clamps > 1 else 0
    for k in range(n_hidden):
        clamp[k] = rows.clamp[clamps + k] if rows.n_clamps > 0 else FREE


def graph_of(network: Network) -> Packed[Graph]:
    """Return the padded layout of a graph; built once, shared by `Network.with_theta`."""
    cached: Packed[Graph] | None = network.engine_cache.get("numba")
    if cached is None:
        cached = network.engine_cache["numba"] = pack(_pad(network))
    return cached


def _pad(network: Network) -> Graph:
    count = np.diff(network.child_ptr).astype(np.int32)
    padded = -(-count.astype(np.int64) // LANES) * LANES  # rounded up
    ptr = np.zeros(network.n_nodes + 1, dtype=np.int64)
    np.cumsum(padded, out=ptr[1:])
    within = np.arange(network.n_edges) - network.child_ptr[network.edge_child]
    offset = ptr[network.edge_child] + within
    # One past the last hidden node and one past the last parameter: the spare entries.
    parent = np.full(ptr[-1], network.n_hidden, dtype=np.int32)
    parent[offset] = network.parent
    param = np.full(ptr[-1], network.n_params, dtype=np.int32)
    param[offset] = network.param

    # Parents that are consecutive numbers can be loaded at once instead of gathered.
    first = np.full(network.n_nodes, -1, dtype=np.int32)
    has_parents = np.flatnonzero(count)
    first[has_parents] = network.parent[network.child_ptr[has_parents]]
    consecutive = network.parent == first[network.edge_child] + within
    first[np.unique(network.edge_child[~consecutive])] = -1

    out_ptr, out = network.outgoing
    of_visible, of_hidden = count[: network.n_visible], count[network.n_visible :]
    common = first[: network.n_visible]
    aligned = bool(
        not of_hidden.any() and common[0] >= 0 and np.ptp(common) == 0 and np.ptp(of_visible) == 0
    )
    # Wide children go into blocks too if all lanes of a slot then have the same parent.
    in_blocks = count if aligned else count[count <= NARROW]
    return Graph(
        network.n_visible,
        network.n_hidden,
        ptr,
        count,
        first,
        parent,
        param,
        np.ascontiguousarray(network.leak_param, dtype=np.int32),
        np.ascontiguousarray(out_ptr, dtype=np.int64),
        offset[out],
        np.ascontiguousarray(network.edge_child[out], dtype=np.int32),
        aligned,
        int(in_blocks.max(initial=0)),
        int(padded.max()),
        int(np.count_nonzero(of_hidden)),
    )


class _Spread(NamedTuple):
    """Values and log-odds (n_params,) of the parameters, their target arrays, and sizes."""

    theta: npt.NDArray[np.float64]
    log_odds: npt.NDArray[np.float64]
    n_params: int
    n_edges: int
    n_nodes: int
    target: Parameters


def parameters_of(graph: Packed[Graph], theta: npt.NDArray[np.float64]) -> Packed[Parameters]:
    """Spread parameters, shape (n_params,), over the edges of a graph.

    A parameter of zero is replaced by a tiny one: an impossible event then costs some hundred nats,
    and no infinity enters the messages.
    """
    theta = np.maximum(theta, TINY)
    leak = theta[graph.values.leak_param]
    n_edges, n_nodes = len(graph.values.parent), len(leak)
    parameters = Parameters(
        theta=np.empty(n_edges),
        leak=leak,
        weight=np.empty(n_edges, dtype=np.float32),
        log_odds=np.empty(n_edges, dtype=np.float32),
        leak_log_odds=np.empty(n_nodes, dtype=np.float32),
        total=np.zeros(graph.values.n_hidden),
        total_leak=float(leak.sum()),
    )
    odds = log_expm1(theta)
    values = pack(_Spread(theta, odds, len(theta), n_edges, n_nodes, parameters))
    _spread(graph.address, values.address)
    return pack(parameters)


def log_expm1(theta: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return ``log(exp(theta) - 1)`` of an array: the NumPy counterpart of the scalar kernel.

    Exact to rounding relative to ``max(1, |result|)`` for any theta > 0.
    """
    return theta + np.log(-np.expm1(-theta))


@njit()
def _spread(graph_address, values_address):
    """Fill `Parameters`; T_k of equation T4 is ``total``."""
    graph, values = unpack(graph_address, Graph), unpack(values_address, _Spread)
    target = values.target
    for edge in range(values.n_edges):
        entry = graph.param[edge]
        if entry < values.n_params:
            value = values.theta[entry]
            target.theta[edge] = value
            target.weight[edge] = value
            target.log_odds[edge] = values.log_odds[entry]
            target.total[graph.parent[edge]] += value
        else:  # padding
            target.theta[edge] = 0.0
            target.weight[edge] = 0.0
            target.log_odds[edge] = NEVER
    for node in range(values.n_nodes):
        target.leak_log_odds[node] = values.log_odds[graph.leak_param[node]]
