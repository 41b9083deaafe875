"""Networks and rows as arrays on a device; what depends on the graph alone is kept with it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import warp as wp

from noisyor._util.arrays import AnyArray, FloatArray, LongArray
from noisyor._util.csr import Rows as Ragged
from noisyor._util.numerics import log_expm1
from noisyor.engines.contract import Evidence
from noisyor.engines.warp.device import to_device
from noisyor.engines.warp.graph import Graph, Rows
from noisyor.network.graph import Network

_TINY = 1e-300
"""Stands for a parameter of zero, so that no logarithm is infinite."""


class Prepared:
    """A network on a device; arrays are made when they are first needed."""

    def __init__(self, network: Network, device: str) -> None:
        self.network, self.device = network, device

    @cached_property
    def n_parents(self) -> LongArray:
        """Number of parents of each node, shape (n_nodes,)."""
        return np.diff(self.network.child_ptr)

    @cached_property
    def theta(self) -> FloatArray:
        """Parameter of each edge, shape (n_edges,)."""
        return np.maximum(self.network.theta, _TINY)[self.network.param]

    @cached_property
    def leak(self) -> FloatArray:
        """Parameter of each node's leak, shape (n_nodes,)."""
        return np.maximum(self.network.theta, _TINY)[self.network.leak_param]

    @cached_property
    def log_odds(self) -> FloatArray:
        """``log(exp(theta) - 1)`` of each edge, shape (n_edges,)."""
        return log_expm1(np.maximum(self.network.theta, _TINY))[self.network.param]

    @cached_property
    def graph(self) -> Any:
        """What kernels see: the structure and its parameters."""
        network, device, graph = self.network, self.device, Graph()
        graph.n_visible, graph.n_hidden = network.n_visible, network.n_hidden
        graph.n_sets = network.sets.n_sets
        for name, array in self._structure.items():
            setattr(graph, name, array)
        graph.theta = to_device(self.theta, wp.float64, device)
        graph.weight = to_device(self.theta, wp.float32, device)
        graph.log_odds = to_device(self.log_odds, wp.float32, device)
        graph.leak = to_device(log_expm1(self.leak), wp.float32, device)
        graph.total = to_device(self.over_children(self.theta), wp.float64, device)
        return graph

    @cached_property
    def leak_on_device(self) -> Any:
        """`leak`, for log p(h, x)."""
        return to_device(self.leak, wp.float64, self.device)

    @cached_property
    def outgoing(self) -> tuple[Any, Any]:
        """Where the edges of each parent begin (n_hidden + 1,), and their children (n_edges,)."""
        ptr, edges = self.network.outgoing
        children = self.network.edge_child[edges]
        return to_device(ptr, wp.int32, self.device), to_device(children, wp.int32, self.device)

    @cached_property
    def total_leak(self) -> float:
        """``-log p(every node is off)``: equations T4 and T50."""
        visible, hidden = np.split(self.leak, [self.network.n_visible])
        return float(visible.sum() - self.network.sets.log_all_off(hidden))

    @cached_property
    def leak_slope(self) -> FloatArray:
        """Derivative of `total_leak` by each leak, (n_nodes,): 1 but for alternatives."""
        sets, slope = self.network.sets, np.ones(self.network.n_nodes)
        log_off = sets.log_normalizer(self.leak[self.network.n_visible :])
        nodes = self.network.n_visible + sets.member
        slope[nodes] = np.exp(self.leak[nodes] - log_off[sets.number[sets.member]])
        return slope

    @property
    def _structure(self) -> dict[str, Any]:
        """What does not depend on parameters, shared by `Network.with_theta`."""
        network, name = self.network, f"warp on {self.device}"
        if name not in network.engine_cache:
            arrays: dict[str, AnyArray] = {
                "ptr": network.child_ptr,
                "parent": network.parent,
                "set_ptr": network.sets.ptr,
                "set_member": network.sets.member,
            }
            network.engine_cache[name] = {
                key: to_device(array, wp.int32, self.device) for key, array in arrays.items()
            }
        found: dict[str, Any] = network.engine_cache[name]
        return found

    def over_children(self, by_edge: FloatArray) -> FloatArray:
        """Sum of numbers by edge over the children of each hidden node, shape (n_hidden,)."""
        sums = np.bincount(self.network.parent, by_edge, self.network.n_hidden)
        return np.asarray(sums, dtype=np.float64)


def rows_on_device(prepared: Prepared, evidence: Evidence, numbers: LongArray) -> Any:
    """Some rows of a batch, in this order, as kernels see them."""
    rows, device = Rows(), prepared.device
    ones = Ragged(evidence.ptr, evidence.columns).take(numbers)
    missing = Ragged(evidence.missing_ptr, evidence.missing_columns).take(numbers)
    clamp = evidence.clamp[numbers] if len(evidence.clamp) > 1 else evidence.clamp
    rows.clamps = len(clamp)
    rows.ptr = to_device(ones.ptr, wp.int32, device)
    rows.columns = to_device(ones.columns, wp.int32, device)
    rows.missing_ptr = to_device(missing.ptr, wp.int32, device)
    rows.missing_columns = to_device(missing.columns, wp.int32, device)
    rows.ids = to_device(evidence.row_ids[numbers], wp.int64, device)
    rows.clamp = to_device(clamp.ravel(), wp.uint8, device)
    return rows
