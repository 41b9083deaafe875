"""Networks and rows as arrays on a device; what depends on the graph alone is kept with it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import warp as wp

from noisyor._util.arrays import AnyArray, FloatArray, LongArray, log_expm1
from noisyor._util.arrays import Rows as Ragged
from noisyor.engines.contract import Evidence
from noisyor.engines.warp.device import structure, to_device
from noisyor.engines.warp.structures import Graph, Rows
from noisyor.model.network import Network

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
        network = self.network
        return structure(
            Graph,
            self.device,
            n_visible=network.n_visible,
            n_hidden=network.n_hidden,
            **self._structure,
            theta=self.theta,
            log_odds=self.log_odds,
            leak=log_expm1(self.leak),
            total=self.over_children(self.theta),
        )

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
        """``-log p(every node is off)``: equation T4."""
        visible, hidden = np.split(self.leak, [self.network.n_visible])
        return float(visible.sum() + hidden.sum())

    @property
    def _structure(self) -> dict[str, Any]:
        """What does not depend on parameters, shared by `Network.with_theta`."""
        network, name = self.network, f"warp on {self.device}"
        if name not in network.engine_cache:
            arrays: dict[str, AnyArray] = {
                "ptr": network.child_ptr,
                "parent": network.parent,
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
    """Copy some rows of a batch, in this order, to the device."""
    ones = Ragged(evidence.ptr, evidence.columns).take(numbers)
    missing = Ragged(evidence.missing_ptr, evidence.missing_columns).take(numbers)
    clamp = evidence.clamp[numbers] if len(evidence.clamp) > 1 else evidence.clamp
    return structure(
        Rows,
        prepared.device,
        clamps=len(clamp),
        ptr=ones.ptr,
        columns=ones.columns,
        missing_ptr=missing.ptr,
        missing_columns=missing.columns,
        ids=evidence.row_ids[numbers],
        clamp=clamp.ravel(),
    )
