"""Structures that kernels take (network, rows, memory of a launch) and how they are filled."""

from functools import cached_property
from typing import Any

import numpy as np
import warp as wp

from noisyor._util.arrays import AnyArray, FloatArray, LongArray
from noisyor._util.csr import Rows as Ragged
from noisyor._util.numerics import log_expm1
from noisyor.engines.contract import Evidence
from noisyor.engines.warp.device import structure, to_device
from noisyor.model.graph import Network


@wp.struct
class Graph:
    """The structure and its parameters: equations T3 and T4 of docs/theory.md.

    ``ptr`` (n_nodes + 1,) offsets of the edges of each child; ``parent`` (n_edges,). ``theta``
    (n_edges,), in single precision ``weight``; ``log_odds`` (n_edges,): log(exp(theta) - 1), and
    ``leak`` (n_nodes,) that of the leaks. ``total`` (n_hidden,): sum of theta over all children of
    a hidden node.
    """

    n_visible: int
    n_hidden: int
    ptr: wp.array(dtype=wp.int32)
    parent: wp.array(dtype=wp.int32)
    theta: wp.array(dtype=wp.float64)
    weight: wp.array(dtype=wp.float32)
    log_odds: wp.array(dtype=wp.float32)
    leak: wp.array(dtype=wp.float32)
    total: wp.array(dtype=wp.float64)


@wp.struct
class Rows:
    """Rows of a launch, as in `noisyor.engines.contract.Evidence`, pointers from zero.

    ``clamps``: number of rows of ``clamp`` (clamps * n_hidden,): none, one for all, or one each.
    """

    clamps: int
    ptr: wp.array(dtype=wp.int32)
    columns: wp.array(dtype=wp.int32)
    missing_ptr: wp.array(dtype=wp.int32)
    missing_columns: wp.array(dtype=wp.int32)
    ids: wp.array(dtype=wp.int64)
    clamp: wp.array(dtype=wp.uint8)


@wp.struct
class Options:
    """The loop of max-product, and the key of the noise."""

    temperature: wp.float64
    max_iterations: int
    step: wp.float32
    tolerance: wp.float32
    n_samples: int
    ancestors_only: int
    maximize_missing: int
    key: wp.uint64


@wp.struct
class Work:
    """Memory of a launch: ``lines`` times so many entries of every kind, see `scalar.place`.

    Entries by hidden node: ``belief``, ``incoming`` (sum of excesses), ``unary``, ``to_child``,
    ``known`` (0, 1, or 2 if free) and the list ``hidden`` of those that take part; with missing
    entries ``total``. ``children``: a list of the ``most_children`` that send messages. ``excess``
    and ``down``: messages by edge into those, ``most_edges``, to the parent and from it.
    """

    lines: int
    most_children: int
    most_edges: int
    belief: wp.array(dtype=wp.float32)
    incoming: wp.array(dtype=wp.float32)
    unary: wp.array(dtype=wp.float32)
    to_child: wp.array(dtype=wp.float32)
    known: wp.array(dtype=wp.uint8)
    hidden: wp.array(dtype=wp.int32)
    total: wp.array(dtype=wp.float64)
    children: wp.array(dtype=wp.int32)
    excess: wp.array(dtype=wp.float32)
    down: wp.array(dtype=wp.float32)


@wp.struct
class Stages:
    """More memory of a launch, for the two-stage schedule; empty for the other.

    ``of_children`` (n_hidden,): sum over the children of a hidden node of (1 - step) theta + step
    [log_odds]_+, the same for all lines. By hidden node: ``off_excess``, that of the children that
    are off. By child in the list: ``top`` and ``second`` largest of its downs, and the sum of their
    ``positive`` parts. By edge: ``to_edge``, the message from the OR.
    """

    of_children: wp.array(dtype=wp.float64)
    off_excess: wp.array(dtype=wp.float64)
    top: wp.array(dtype=wp.float32)
    second: wp.array(dtype=wp.float32)
    positive: wp.array(dtype=wp.float32)
    to_edge: wp.array(dtype=wp.float32)


@wp.struct
class Output:
    """Results by line: ``states`` and ``beliefs`` by hidden node, if wanted."""

    with_beliefs: int
    states: wp.array(dtype=wp.uint8)
    beliefs: wp.array(dtype=wp.float32)
    iterations: wp.array(dtype=wp.int32)
    residual: wp.array(dtype=wp.float32)


# ---- filling them

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
            weight=self.theta,
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
    """Some rows of a batch, in this order, as kernels see them."""
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
