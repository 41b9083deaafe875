"""Max-product in plain NumPy, one row and one factor after another: what engines must match.

Two schedules. ``"two-stage"``: all factor-to-variable messages are updated at once from those of
the previous iteration and all are damped, the schedule of the paper's software. ``"collapsed"``:
within one iteration messages pass through a whole noisy-OR factor and only what is stored is
damped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray
from noisyor._util.numerics import log_one_minus_exp
from noisyor.model.network import Network


@dataclass(frozen=True, eq=False)
class ReferenceResult:
    """Messages and beliefs of one row.

    ``beliefs`` (n_hidden,) log-odds; ``to_parent`` (n_edges,) messages v; ``to_child`` (n_nodes,)
    messages d; ``states`` (n_hidden,) the decoded bits; ``residual`` the last largest change.
    """

    beliefs: FloatArray
    to_parent: FloatArray
    to_child: FloatArray
    states: npt.NDArray[np.uint8]
    residual: float


def factor_messages(
    theta: FloatArray, leak: float, from_parents: FloatArray, from_child: float
) -> tuple[FloatArray, float]:
    """Messages of one noisy-OR factor to its parents, shape (n_parents,), and to its child.

    ``from_child`` may be infinite: +inf for a child that is on, -inf for one that is off.
    """
    down = _down(theta, from_parents)
    leak_down = float(leak + log_one_minus_exp(np.asarray(leak)))
    to_or, to_child = _or_messages(np.append(down, leak_down), from_child)
    return _up(theta, to_or[:-1]), to_child


def max_product_row(
    network: Network,
    x: npt.ArrayLike,
    *,
    unary: npt.ArrayLike = 0.0,
    schedule: Literal["collapsed", "two-stage"] = "collapsed",
    iterations: int = 100,
    damping: float = 0.5,
    maximize_missing: bool = False,
) -> ReferenceResult:
    """Run a fixed number of iterations on one row.

    ``x`` (n_visible,) of 0, 1 or NaN; ``unary`` (n_hidden,) noise on the hidden nodes.
    """
    run = _Run(network, np.asarray(x, dtype=np.float64), unary, 1.0 - damping, maximize_missing)
    if schedule == "collapsed":
        run.start_at_constants()
    else:
        run.to_child[:] = 0.0
    residual = np.inf
    for _ in range(iterations):
        residual = run.collapsed() if schedule == "collapsed" else run.two_stage()
    beliefs = run.beliefs()[network.n_visible :]
    return ReferenceResult(
        beliefs, run.up, run.to_child, (beliefs > 0).astype(np.uint8), float(residual)
    )


class _Run:
    """All messages of one row."""

    def __init__(
        self,
        network: Network,
        x: FloatArray,
        unary: npt.ArrayLike,
        step: float,
        maximize_missing: bool,
    ) -> None:
        self.network, self.step = network, step
        self.theta = network.theta[network.param]
        self.leak = network.theta[network.leak_param]
        self.leak_down = self.leak + log_one_minus_exp(self.leak)
        self.unary = np.zeros(network.n_nodes)
        self.unary[network.n_visible :] = unary
        self.evidence = np.where(x == 1, np.inf, np.where(x == 0, -np.inf, 0.0))
        parents = np.diff(network.child_ptr)
        # A visible that is summed out has no factor at all.
        self.nodes = np.arange(network.n_nodes)
        if not maximize_missing:
            self.nodes = self.nodes[np.append(~np.isnan(x), np.ones(network.n_hidden, bool))]
        self.up = np.zeros(network.n_edges)
        self.to_child = np.where(parents == 0, self.leak_down, 0.0)
        # The two-stage schedule also stores and damps the messages inside the factors.
        self.down = np.zeros(network.n_edges)
        self.damped_leak = np.zeros(network.n_nodes)
        self.to_edge = np.zeros(network.n_edges)

    def start_at_constants(self) -> None:
        """Messages of visibles that are off never change: begin with them."""
        edges = np.append(self.evidence, np.zeros(self.network.n_hidden))[self.network.edge_child]
        self.up[edges == -np.inf] = -self.theta[edges == -np.inf]

    def beliefs(self) -> FloatArray:
        beliefs = self.unary + self.to_child
        arrived = np.bincount(self.network.parent, weights=self.up, minlength=self.network.n_hidden)
        beliefs[self.network.n_visible :] += arrived
        return beliefs

    def _edges(self, node: int) -> slice:
        return slice(self.network.child_ptr[node], self.network.child_ptr[node + 1])

    def _from_child(self, node: int, beliefs: FloatArray) -> float:
        if node < self.network.n_visible:
            return float(self.evidence[node])
        return float(beliefs[node] - self.to_child[node])

    def collapsed(self) -> float:
        beliefs = self.beliefs()
        new_up, new_child = self.up.copy(), self.to_child.copy()
        for node in self.nodes.tolist():
            edges = self._edges(node)
            if edges.start == edges.stop:
                continue
            parents = self.network.parent[edges] + self.network.n_visible
            new_up[edges], new_child[node] = factor_messages(
                self.theta[edges],
                self.leak[node],
                beliefs[parents] - self.up[edges],
                self._from_child(node, beliefs),
            )
        # Nobody hears what a visible is told.
        told = np.abs(new_child - self.to_child)[self.network.n_visible :]
        change = max(np.abs(new_up - self.up).max(), told.max())
        self.up += self.step * (new_up - self.up)
        self.to_child += self.step * (new_child - self.to_child)
        return float(change)

    def two_stage(self) -> float:
        beliefs = self.beliefs()
        down, to_edge, up = self.down.copy(), self.to_edge.copy(), self.up.copy()
        to_child, leak_down = self.to_child.copy(), self.leak_down
        for node in self.nodes.tolist():
            edges = self._edges(node)
            parents = self.network.parent[edges] + self.network.n_visible
            down[edges] = _down(self.theta[edges], beliefs[parents] - self.up[edges])
            messages, to_child[node] = _or_messages(
                np.append(self.down[edges], self.damped_leak[node]),
                self._from_child(node, beliefs),
            )
            to_edge[edges] = np.maximum(messages[:-1], -1e6)  # keeps -inf evidence out of averages
            up[edges] = _up(self.theta[edges], self.to_edge[edges])
        change = 0.0
        for name, new in [
            ("down", down),
            ("damped_leak", leak_down),
            ("to_edge", to_edge),
            ("up", up),
            ("to_child", to_child),
        ]:
            old = getattr(self, name)
            change = max(change, float(np.abs(new - old).max(initial=0.0)))
            setattr(self, name, old + self.step * (new - old))
        return change


def _down(theta: FloatArray, from_parents: FloatArray) -> FloatArray:
    return log_one_minus_exp(theta) + np.minimum(from_parents, theta)


def _up(theta: FloatArray, from_or: FloatArray) -> FloatArray:
    return np.maximum(-theta, log_one_minus_exp(theta) + from_or)


def _or_messages(inputs: FloatArray, from_child: float) -> tuple[FloatArray, float]:
    """Messages of a deterministic OR to each input and to its output."""
    positive = np.maximum(inputs, 0.0)
    total = positive.sum()
    top = int(inputs.argmax())
    others = np.full(len(inputs), inputs[top])
    others[top] = np.delete(inputs, top).max(initial=-np.inf)
    need = np.maximum(-others, 0.0)
    return np.minimum(from_child + (total - positive), need), float(total + min(0.0, inputs[top]))
