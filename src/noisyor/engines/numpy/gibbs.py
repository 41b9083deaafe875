"""Gibbs sweeps over the hidden nodes of rows, with expected successes and trials of parameters.

A hidden node without parents, without hidden children and without active visible children is
*isolated*: given the row it is independent of all others, so it is summed out in closed form. A
`RowModel` holds the nodes of a row that interact, and a `ChainState` one configuration of them that
changes flip by flip; `annealing` builds on both.

Successes and trials use the probability that a node is on, not the draw: a draw of 0 or 1 would
only add noise, and an edge whose few failures were not drawn by chance would be estimated as
certain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import (
    BinaryArray,
    BoolArray,
    FloatArray,
    IntArray,
    LongArray,
    log_expm1,
    logistic_function,
)
from noisyor.engines.contract import FREE, Evidence, GibbsResult, NoiseKey
from noisyor.engines.noise import combine, uniform
from noisyor.engines.numpy.rows import Prepared, Row, rows_of, sums_at
from noisyor.engines.reduction import ROWS_OF_BLOCK, tree_sum_of_blocks

_KNOWN = 700.0
"""Log-odds of a node that is known to be on, and the largest of any node."""


@dataclass(frozen=True, eq=False)
class RowModel:
    """The nodes of a row that interact, and their edges to nodes that are on or may be on.

    Nodes are numbered as in the network. ``hidden`` (n,): those that interact; ``clamp`` (n,) of 0,
    1 and ``FREE``; ``cost`` (n_hidden,): sum of theta over the hidden and observed children.
    ``edges[j]``: numbers of the edges of ``hidden[j]`` into active visibles and hidden nodes.
    ``isolated`` (n_hidden,): log-odds of isolated nodes, NaN for others; ``offset``: the part of
    log p(h, x) without the nodes that interact, with isolated nodes summed out.
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
    def of(prepared: Prepared, row: Row) -> RowModel:
        """Find the nodes of a row that interact, and sum the others out."""
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
        return RowModel(
            prepared,
            row.ones,
            hidden,
            row.hidden[hidden],
            cost,
            [edges[k] for k in hidden],
            isolated,
            float(summed[alone].sum() - prepared.leak[counts].sum()),
        )


class ChainState:
    """A configuration of a row model that changes node by node.

    ``state`` (n,) of its nodes; ``on`` and ``sums`` (n_nodes,): whether a node of the network is
    on, and its total parameter.
    """

    def __init__(self, model: RowModel, state: npt.ArrayLike) -> None:
        network = model.prepared.network
        self.model, self.state = model, np.array(state, dtype=np.uint8)
        self.nodes = network.n_visible + model.hidden
        self.on = np.zeros(network.n_nodes, dtype=np.bool_)
        self.on[model.ones] = True
        self.on[self.nodes] = self.state == 1
        self.refresh()

    def refresh(self) -> None:
        """Compute the sums from scratch, so that rounding errors do not accumulate."""
        self.sums = self.model.prepared.leak.copy()
        for j in np.flatnonzero(self.state):
            self._add(int(j), 1.0)

    def log_joint(self) -> float:
        """Return ``log p(h, x)``, isolated nodes summed out."""
        on, model = self.nodes[self.state == 1], self.model
        value = log_expm1(self.sums[model.ones]).sum() + log_expm1(self.sums[on]).sum()
        return float(model.offset + value - model.cost[model.hidden[self.state == 1]].sum())

    def children(self, j: int) -> tuple[IntArray, LongArray, FloatArray, FloatArray]:
        """Return active children of node j, their edges, and their sums without and with it."""
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
        """Return the gain in log p(h, x) from switching node j on."""
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


# ---- sweeps


def gibbs_sweep(
    prepared: Prepared, evidence: Evidence, states: BinaryArray, key: NoiseKey
) -> GibbsResult:
    """Draw every hidden node of every row once, given all others; clamped nodes stay.

    Node k of a row is on if ``uniform(combine(combine(combine(seed, row id), step), k))`` is below
    its probability. Isolated nodes come first, then the others in ascending order.
    """
    new_states, n_params = states.copy(), prepared.network.n_params

    def block(index: int) -> list[FloatArray]:
        successes, trials = np.zeros((2, n_params))
        begin, end = index * ROWS_OF_BLOCK, min((index + 1) * ROWS_OF_BLOCK, evidence.n_rows)
        for row in rows_of(prepared, evidence, begin, end):
            keys = combine(combine(key.seed, row.id), key.step)
            draws = uniform(combine(keys, np.arange(prepared.network.n_hidden)))
            of_row = _sweep(prepared, row, new_states[row.index], draws)
            successes += row.weight * of_row[0]
            trials += row.weight * of_row[1]
        return [successes, trials]

    n_blocks = max(1, -(-evidence.n_rows // ROWS_OF_BLOCK))
    successes, trials = tree_sum_of_blocks(block, n_blocks, 1)
    return GibbsResult(new_states, successes, trials)


def _sweep(
    prepared: Prepared, row: Row, state: BinaryArray, draws: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Draw ``state`` (n_hidden,) anew, in place; return successes and trials of the row."""
    network, n_visible = prepared.network, prepared.network.n_visible
    model, successes = RowModel.of(prepared, row), np.zeros(network.n_params)
    state[row.hidden != FREE] = row.hidden[row.hidden != FREE]
    alone = ~np.isnan(model.isolated)
    probability = logistic_function(model.isolated)  # of the others: below
    state[alone] = draws[alone] < probability[alone]
    np.add.at(successes, network.leak_param[n_visible:][alone], probability[alone])

    chain = ChainState(model, state[model.hidden])
    for j, k in enumerate(model.hidden.tolist()):
        p = float(logistic_function(chain.gain(j)))
        if not model.is_free[j]:
            p = float(model.clamp[j])
        probability[k], node = p, n_visible + k
        own = _share(prepared.leak[node], chain.sums[node])
        successes[network.leak_param[node]] += p * float(own)
        _, edges, _, with_it = chain.children(j)
        np.add.at(successes, network.param[edges], p * _share(prepared.theta[edges], with_it))
        if (draws[k] < p) != chain.state[j]:
            chain.flip(j)
    state[model.hidden] = chain.state
    noise = _share(prepared.leak[row.ones], chain.sums[row.ones])
    np.add.at(successes, network.leak_param[row.ones], noise)

    seen = np.concatenate([row.visible != FREE, np.ones(network.n_hidden, dtype=np.bool_)])
    of_edge = seen[network.edge_child] * probability[network.parent]
    trials = sums_at(network.leak_param, seen, network.n_params)
    trials += sums_at(network.param, of_edge, network.n_params)
    return successes, trials


def _share(theta: npt.ArrayLike, total: npt.ArrayLike) -> FloatArray:
    """Return the probability that an edge worked, given that its node is on."""
    return np.asarray(np.expm1(-np.asarray(theta)) / np.expm1(-np.maximum(total, theta)))
