"""One row as the hidden nodes see it that interact, and configurations of them, flip by flip.

A hidden node without parents, without hidden children and without active visible children is
*isolated*: given the row it is independent of all others, so it is summed out in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, BoolArray, FloatArray, IntArray, LongArray
from noisyor._util.numerics import log_expm1
from noisyor.engines.contract import FREE
from noisyor.engines.numpy.rows import Prepared, Row
from noisyor.engines.numpy.segments import sums_at

_KNOWN = 700.0
"""Log-odds of a node that is known to be on, and the largest of any node."""


@dataclass(frozen=True, eq=False)
class LocalModel:
    """The nodes of a row that interact, and what they do to the nodes that are on or may be.

    Nodes are numbered as in the network. ``hidden`` (n,): those that interact; ``clamp`` (n,) of 0,
    1 and ``FREE``; ``cost`` (n_hidden,): sum of theta over the hidden and observed children.
    ``edges[j]``: numbers of the edges of ``hidden[j]`` into active visibles and hidden nodes.
    ``isolated`` (n_hidden,): log-odds of isolated nodes, NaN for others; ``offset``: what
    log p(h, x) has besides the nodes that interact, isolated ones summed out.
    """

    prepared: Prepared
    ones: LongArray
    hidden: LongArray
    clamp: BinaryArray
    cost: FloatArray
    edges: list[LongArray]
    isolated: FloatArray
    offset: float

    @property
    def is_free(self) -> BoolArray:
        """Which of the nodes are not clamped, shape (n,)."""
        return np.asarray(self.clamp == FREE)

    @staticmethod
    def of(prepared: Prepared, row: Row) -> LocalModel:
        """The row as its nodes see it."""
        network, n_visible = prepared.network, prepared.network.n_visible
        counts = np.concatenate([row.visible != FREE, np.ones(network.n_hidden, dtype=np.bool_)])
        costs = np.where(counts[network.edge_child], prepared.theta, 0.0)
        cost = sums_at(network.parent, costs, network.n_hidden)
        inside = np.concatenate([row.visible == 1, np.ones(network.n_hidden, dtype=np.bool_)])
        ptr, order = network.outgoing
        outgoing = [order[ptr[k] : ptr[k + 1]] for k in range(network.n_hidden)]
        edges = [some[inside[network.edge_child[some]]] for some in outgoing]
        alone = np.array([not len(some) for some in edges]) & (prepared.n_parents[n_visible:] == 0)

        odds = log_expm1(prepared.leak[n_visible:]) - cost
        isolated = np.where(alone, odds, np.nan)
        summed = np.logaddexp(0.0, odds)  # what a node adds: here both states,
        summed = np.where(row.hidden == 1, odds, np.where(row.hidden == 0, 0.0, summed))
        isolated[alone & (row.hidden == 1)] = _KNOWN
        isolated[alone & (row.hidden == 0)] = -_KNOWN
        hidden = np.flatnonzero(~alone)
        return LocalModel(
            prepared,
            row.ones,
            hidden,
            row.hidden[hidden],
            cost,
            [edges[k] for k in hidden],
            isolated,
            float(summed[alone].sum() - prepared.leak[counts].sum()),
        )


class Walker:
    """A configuration of a local model that changes node by node.

    ``state`` (n,) of its nodes; ``on`` and ``sums`` (n_nodes,): whether a node of the network is
    on, and its total parameter.
    """

    def __init__(self, model: LocalModel, state: npt.ArrayLike) -> None:
        network = model.prepared.network
        self.model, self.state = model, np.array(state, dtype=np.uint8)
        self.nodes = network.n_visible + model.hidden
        self.on = np.zeros(network.n_nodes, dtype=np.bool_)
        self.on[model.ones] = True
        self.on[self.nodes] = self.state == 1
        self.refresh()

    def refresh(self) -> None:
        """Work out the sums anew, so that rounding does not build up."""
        self.sums = self.model.prepared.leak.copy()
        for j in np.flatnonzero(self.state):
            self._add(int(j), 1.0)

    def log_joint(self) -> float:
        """``log p(h, x)``, isolated nodes summed out."""
        on, model = self.nodes[self.state == 1], self.model
        value = log_expm1(self.sums[model.ones]).sum() + log_expm1(self.sums[on]).sum()
        return float(model.offset + value - model.cost[model.hidden[self.state == 1]].sum())

    def children(self, j: int) -> tuple[IntArray, LongArray, FloatArray, FloatArray]:
        """Children of node j that are on, their edges, and their sums without and with it."""
        model, network = self.model, self.model.prepared.network
        edges = model.edges[j]
        edges = edges[self.on[network.edge_child[edges]]]
        child, theta = network.edge_child[edges], model.prepared.theta[edges]
        without, with_it = self.sums[child], self.sums[child] + theta
        if self.state[j]:  # never below the leak, whatever the rounding
            without = np.maximum(self.sums[child] - theta, model.prepared.leak[child])
            with_it = self.sums[child]
        return child, edges, without, with_it

    def gain(self, j: int) -> float:
        """What node j being on instead of off adds to log p(h, x)."""
        _, _, without, with_it = self.children(j)
        own = log_expm1(self.sums[self.nodes[j]]) - self.model.cost[self.model.hidden[j]]
        return float(own + (log_expm1(with_it) - log_expm1(without)).sum())

    def flip(self, j: int) -> None:
        """Switch node j."""
        self._add(j, -1.0 if self.state[j] else 1.0)
        self.state[j] ^= 1
        self.on[self.nodes[j]] = self.state[j] == 1

    def _add(self, j: int, sign: float) -> None:
        prepared, edges = self.model.prepared, self.model.edges[j]
        child = prepared.network.edge_child[edges]
        new = self.sums[child] + sign * prepared.theta[edges]
        self.sums[child] = np.maximum(new, prepared.leak[child])
