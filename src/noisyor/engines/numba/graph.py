"""A network laid out for the kernels: edges of a child padded to whole vectors of eight.

Padding edges are inert: their log-odds are so low that they never carry a message. They point at a
spare hidden slot behind the real ones and at a spare parameter behind the real ones, so kernels
treat them like any other edge and throw the spare entries away.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.float32x8 import LANES
from noisyor.model.network import Network

NEVER = np.float32(-1e30)
"""Log-odds of something that cannot be; finite, so that differences stay finite."""


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
    ``set_of`` (n_hidden,) set of alternatives of a hidden node, -1 for none; the nodes of set s are
    ``set_member[set_ptr[s]:set_ptr[s + 1]]``, in ascending order.
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
    set_of: npt.NDArray[np.int32]
    set_ptr: npt.NDArray[np.int64]
    set_member: npt.NDArray[np.int32]


class Parameters(NamedTuple):
    """The parameters, spread over the padded edges: equations T3 and T4 of docs/theory.md.

    ``theta`` (padded edges,) float64 with 0 on padding, ``leak`` (n_nodes,) float64; ``weight``
    and ``log_odds`` (padded edges,) float32: theta and log(exp(theta) - 1); ``leak_log_odds``
    (n_nodes,) float32. ``total`` (n_hidden,): sum of theta over all children of a hidden node.
    ``total_leak``: -log p(every node is off): sum of the leaks, and of the normalisers of sets of
    alternatives in place of the leaks of their nodes (T50); ``leak_slope`` (n_nodes,): its
    derivative, 1 but for alternatives.
    """

    theta: npt.NDArray[np.float64]
    leak: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float32]
    log_odds: npt.NDArray[np.float32]
    leak_log_odds: npt.NDArray[np.float32]
    total: npt.NDArray[np.float64]
    total_leak: float
    leak_slope: npt.NDArray[np.float64]


def graph_of(network: Network) -> Graph:
    """The padded layout of a network's graph; built once, shared by `Network.with_theta`."""
    cached = network.engine_cache.get("numba")
    if cached is None:
        cached = network.engine_cache["numba"] = _pad(network)
    return cached


def _pad(network: Network) -> Graph:
    count = np.diff(network.child_ptr).astype(np.int32)
    padded = -(-count.astype(np.int64) // LANES) * LANES  # rounded up
    ptr = np.zeros(network.n_nodes + 1, dtype=np.int64)
    np.cumsum(padded, out=ptr[1:])
    within = np.arange(network.n_edges) - network.child_ptr[network.edge_child]
    place = ptr[network.edge_child] + within
    # One past the last hidden node and one past the last parameter: the spare entries.
    parent = np.full(ptr[-1], network.n_hidden, dtype=np.int32)
    parent[place] = network.parent
    param = np.full(ptr[-1], network.n_params, dtype=np.int32)
    param[place] = network.param

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
    # Copies throughout: arrays of a network from a memory map are read-only, which is another type
    # to the compiler, and kernels would be compiled once more.
    return Graph(
        network.n_visible,
        network.n_hidden,
        ptr,
        count,
        first,
        parent,
        param,
        np.array(network.leak_param),
        np.array(out_ptr),
        place[out],
        np.array(network.edge_child[out]),
        aligned,
        int(in_blocks.max(initial=0)),
        int(padded.max()),
        int(np.count_nonzero(of_hidden)),
        np.array(network.sets.number),
        np.array(network.sets.ptr),
        network.sets.member.astype(np.int32),
    )


def parameters_of(graph: Graph, theta: npt.NDArray[np.float64]) -> Parameters:
    """Spread parameters, shape (n_params,), over the edges of a graph.

    A parameter of zero counts as the smallest positive one: what is impossible then costs some
    hundred nats, and no infinity enters the messages.
    """
    theta = np.maximum(theta, TINY)
    n_edges, n_nodes = len(graph.parent), len(graph.leak_param)
    parameters = Parameters(
        theta=np.empty(n_edges),
        leak=np.empty(n_nodes),
        weight=np.empty(n_edges, dtype=np.float32),
        log_odds=np.empty(n_edges, dtype=np.float32),
        leak_log_odds=np.empty(n_nodes, dtype=np.float32),
        total=np.zeros(graph.n_hidden),
        total_leak=0.0,
        leak_slope=np.empty(0),
    )
    _spread(graph.parent, graph.param, graph.leak_param, theta, log_expm1(theta), parameters)
    total_leak, leak_slope = _priors(graph, parameters.leak)
    return parameters._replace(total_leak=total_leak, leak_slope=leak_slope)


def _priors(graph: Graph, leak: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
    """``total_leak`` and ``leak_slope``, from the leak of each node: equation T50."""
    slope = np.ones(len(leak))
    if not len(graph.set_member):
        return float(leak.sum()), slope
    member = graph.n_visible + graph.set_member
    odds, start = log_expm1(leak[member]), graph.set_ptr[:-1]
    top = np.maximum(np.maximum.reduceat(odds, start), 0.0)
    spread = np.repeat(top, np.diff(graph.set_ptr))
    normalizer = top + np.log(np.exp(-top) + np.add.reduceat(np.exp(odds - spread), start))
    slope[member] = np.exp(leak[member] - np.repeat(normalizer, np.diff(graph.set_ptr)))
    independent = np.ones(len(leak), dtype=np.bool_)
    independent[member] = False
    return float(leak[independent].sum() + normalizer.sum()), slope


def log_expm1(theta: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """``log(exp(theta) - 1)`` of an array: NumPy's vectorised counterpart of the scalar kernel.

    Exact to rounding relative to ``max(1, |result|)`` for any theta > 0.
    """
    return theta + np.log(-np.expm1(-theta))


@njit(cache=True, nogil=True)
def _spread(parent, param, leak_param, theta, odds, parameters):
    """Fill ``parameters`` from values and log-odds (n_params,); T_k of equation T4 is ``total``."""
    spread, weight, log_odds = parameters.theta, parameters.weight, parameters.log_odds
    total, n_params = parameters.total, len(theta)
    for edge in range(len(parent)):
        entry = param[edge]
        if entry < n_params:
            spread[edge] = theta[entry]
            weight[edge] = theta[entry]
            log_odds[edge] = odds[entry]
            total[parent[edge]] += theta[entry]
        else:  # padding
            spread[edge] = 0.0
            weight[edge] = 0.0
            log_odds[edge] = NEVER
    for node in range(len(leak_param)):
        entry = leak_param[node]
        parameters.leak[node] = theta[entry]
        parameters.leak_log_odds[node] = odds[entry]
