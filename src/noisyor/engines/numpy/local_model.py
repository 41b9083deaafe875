"""One row as the hidden nodes see it that interact, and configurations of them, flip by flip.

A hidden node without parents, without hidden children and without active visible children is
*isolated*: given the row it is independent of all others, so it is summed out in closed form. That
is not so of alternatives, which depend on each other.
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
    log p(h, x) has besides the nodes that interact, isolated ones summed out. ``sets``: the places
    in ``hidden`` of the nodes of every set of alternatives.
    """

    prepared: Prepared
    ones: LongArray
    hidden: LongArray
    clamp: BinaryArray
    cost: FloatArray
    edges: list[LongArray]
    isolated: FloatArray
    offset: float
    sets: list[LongArray]

    @property
    def units(self) -> list[LongArray]:
        """What is drawn at once, in order: sets of alternatives, each other node on its own."""
        inside = {int(j) for members in self.sets for j in members}
        alone = [np.array([j]) for j in range(len(self.hidden)) if j not in inside]
        return sorted([*self.sets, *alone], key=lambda members: int(members[0]))

    @property
    def free_units(self) -> list[LongArray]:
        """Those of the units that are not known, in order."""
        return [members for members in self.units if self.is_free[members].any()]

    def is_set(self, members: LongArray) -> bool:
        """Whether a unit is a set of alternatives."""
        return bool(self.prepared.network.sets.number[self.hidden[members[0]]] >= 0)

    def key_of(self, members: LongArray) -> int:
        """The hidden node whose number keys the draws of a unit: its first one."""
        return int(self.hidden[members[0]])

    def switched(self, state: BinaryArray, j: int) -> BinaryArray:
        """States (n,) with node j flipped; if it comes on, other alternatives go off."""
        result = state.copy()
        for members in self.sets:
            if j in members:
                result[members] = 0
        result[j] = 1 - state[j]
        return result

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
        sets = network.sets
        alone &= sets.number < 0

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
            float(summed[alone].sum() - prepared.leak[counts].sum() - prepared.log_allowed),
            np.split(np.searchsorted(hidden, sets.member), sets.ptr[1:-1]) if sets else [],
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

    def shares(
        self, members: LongArray, heat: float = 1.0, cold: npt.ArrayLike = 0.0
    ) -> FloatArray:
        """Probabilities that none of n alternatives is on, and each of them: (1 + n,).

        Given all else; switches off what was on. ``heat`` below 1 mixes log-odds with ``cold``
        (n,). An alternative that is known to be on has all of it, one known to be off nothing.
        """
        for j in members[self.state[members] == 1].tolist():
            self.flip(j)
        clamp = self.model.clamp[members]
        if (clamp == 1).any():
            return np.concatenate([[0.0], clamp == 1])
        gains = heat * np.array([self.gain(j) for j in members.tolist()])
        gains += (1.0 - heat) * np.asarray(cold)
        odds = np.concatenate([[0.0], np.where(clamp == FREE, gains, -np.inf)])
        weight = np.exp(odds - odds.max())
        return np.asarray(weight / weight.sum())

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


def choose(shares: FloatArray, wanted: float) -> int:
    """Which of the intervals of probabilities (n,), one after another, holds ``wanted``."""
    place = int(np.searchsorted(np.cumsum(shares), wanted, "right"))
    return min(place, int(np.flatnonzero(shares)[-1]))  # rounding may leave a gap at the end
