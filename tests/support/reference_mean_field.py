"""Mean-field inference in plain NumPy, row by row: what no user calls and engines must match.

Nothing is folded: every node takes part, on or off, with its own term of the bound. Sweeps can be
run one node after the other or one level at a time. (q, r) are arrays over all hidden nodes and all
edges of the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray, IntArray
from noisyor._util.numerics import log_one_minus_exp
from noisyor.model.network import Network

Q_FLOOR = 1e-5
R_FLOOR = 1e-5
_TINY = 1e-280


def r_floor(n_parents: int) -> float:
    """Smallest Jensen weight of a child with this many parents."""
    return min(R_FLOOR, 0.1 / n_parents)


def ancestors(network: Network, x: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """The hidden nodes of the local model of a row: ancestors of what is on, shape (n_hidden,)."""
    found = np.zeros(network.n_hidden, dtype=np.bool_)
    todo = np.flatnonzero(np.asarray(x, dtype=np.float64) == 1).tolist()
    while todo:
        for k in network.parent[_edges(network, todo.pop())].tolist():
            if not found[k]:
                found[k] = True
                todo.append(network.n_visible + k)
    return found


def sweep_order(network: Network) -> IntArray:
    """Hidden nodes from the visibles upwards, by number within a level, shape (n_hidden,)."""
    return np.lexsort((np.arange(network.n_hidden), -network.hidden_levels)).astype(np.int32)


@dataclass(frozen=True, eq=False)
class MeanFieldRow:
    """One row of data under one network: the bound as a function of (q, r), and its updates.

    ``x`` (n_visible,) of 0, 1 or NaN; ``free`` (n_hidden,) which q are inferred.
    """

    network: Network
    x: FloatArray
    free: npt.NDArray[np.bool_]

    @staticmethod
    def of(network: Network, x: npt.ArrayLike, local: bool = False) -> MeanFieldRow:
        """A row without evidence on hidden nodes, all of them free or only the local ones."""
        values = np.asarray(x, dtype=np.float64)
        free = ancestors(network, values) if local else np.ones(network.n_hidden, dtype=np.bool_)
        return MeanFieldRow(network, values, free)

    def start(self) -> tuple[FloatArray, FloatArray]:
        """The published start: q = 1/2 where it is inferred, else 0; r proportional to theta."""
        network = self.network
        r = np.zeros(network.n_edges)
        for node in range(network.n_nodes):
            edges = _edges(network, node)
            if edges.start < edges.stop:
                r[edges] = project(network.theta[network.param[edges]], r[edges])
        return np.where(self.free, 0.5, 0.0), r

    def all_q(self, q: FloatArray) -> FloatArray:
        """Probability of every node to be on, shape (n_nodes,)."""
        return np.concatenate([self.x, q])

    def bound(self, q: FloatArray, r: FloatArray) -> float:
        """Elbo^VI: sum of the nodes' terms and the entropy of q."""
        network, q_all, value = self.network, self.all_q(q), 0.0
        for node in range(network.n_nodes):
            if np.isnan(q_all[node]):
                continue
            edges = _edges(network, node)
            theta, leak = (
                network.theta[network.param[edges]],
                network.theta[network.leak_param[node]],
            )
            q_parents = q[network.parent[edges]]
            f_leak = float(log_one_minus_exp(np.asarray(leak)))
            on = f_leak + q_parents @ (r[edges] * self._phi(node, r))
            value += float(q_all[node] * on - (1 - q_all[node]) * (leak + q_parents @ theta))
        for p in (q, 1 - q):
            inside = p[p > 0]
            value -= float(inside @ np.log(inside))
        return float(value)

    def _phi(self, node: int, r: FloatArray) -> FloatArray:
        """``f(u) - f(leak)`` of the edges of a node."""
        edges = _edges(self.network, node)
        theta = self.network.theta[self.network.param[edges]]
        leak = np.asarray(self.network.theta[self.network.leak_param[node]])
        return np.asarray(log_one_minus_exp(leak + theta / r[edges]) - log_one_minus_exp(leak))

    def log_odds(self, node: int, q: FloatArray, r: FloatArray) -> float:
        """Slope of the bound, entropy apart, in q of a hidden node."""
        network, q_all = self.network, self.all_q(q)
        i = network.n_visible + node
        edges = _edges(network, i)
        leak = network.theta[network.leak_param[i]]
        value = leak + float(log_one_minus_exp(np.asarray(leak)))
        theta = network.theta[network.param[edges]]
        value += q[network.parent[edges]] @ (theta + r[edges] * self._phi(i, r))
        for edge in np.flatnonzero(network.parent == node).tolist():
            child = int(network.edge_child[edge])
            if np.isnan(q_all[child]):
                continue
            phi = self._phi(child, r)[edge - network.child_ptr[child]]
            value += q_all[child] * r[edge] * phi
            value -= (1 - q_all[child]) * network.theta[network.param[edge]]
        return float(value)

    def sweep(
        self, q: FloatArray, r: FloatArray, how: Literal["sequential", "parallel"] = "sequential"
    ) -> FloatArray:
        """New q after one sweep, node after node or level by level."""
        q = q.copy()
        order = sweep_order(self.network)
        levels = self.network.hidden_levels[order]
        if how == "sequential":
            batches = [np.array([k]) for k in order]
        else:
            batches = [order[levels == level] for level in np.unique(levels)[::-1]]
        for batch in batches:
            odds = np.array([self.log_odds(int(k), q, r) for k in batch])
            new = np.maximum(_logistic(odds), Q_FLOOR)
            q[batch] = np.where(self.free[batch], new, q[batch])
        return q

    def update_r(self, q: FloatArray, r: FloatArray) -> FloatArray:
        """New r after one published step for every node."""
        network, r = self.network, r.copy()
        for node in range(network.n_nodes):
            edges = _edges(network, node)
            if edges.start == edges.stop:
                continue
            theta, q_parents = network.theta[network.param[edges]], q[network.parent[edges]]
            leak = network.theta[network.leak_param[node]]
            slope = _slope(leak + theta / r[edges])
            score = q_parents * (r[edges] * self._phi(node, r) - theta * slope)
            r[edges] = project(np.maximum(score, 0.0), r[edges])
        return r

    def gradient(self, q: FloatArray, r: FloatArray) -> FloatArray:
        """Derivative of the bound with respect to theta, (q, r) held fixed, shape (n_params,)."""
        network, q_all = self.network, self.all_q(q)
        result = np.zeros(network.n_params)
        for node in range(network.n_nodes):
            if np.isnan(q_all[node]):
                continue
            edges, leak = _edges(network, node), network.theta[network.leak_param[node]]
            theta, q_parents = network.theta[network.param[edges]], q[network.parent[edges]]
            u = leak + theta / r[edges]
            change = q_parents * (q_all[node] / -np.expm1(-u) - 1)
            np.add.at(result, network.param[edges], change)
            slope = _slope(leak)
            of_leak = slope + (q_parents * r[edges]) @ (_slope(u) - slope)
            result[network.leak_param[node]] += q_all[node] * of_leak - (1 - q_all[node])
        return result

    def run(
        self, outer: int = 10, inner: int = 10, r_iterations: int = 10
    ) -> tuple[FloatArray, FloatArray]:
        """(q, r) after the published schedule."""
        q, r = self.start()
        for _ in range(outer):
            for _ in range(inner):
                q = self.sweep(q, r)
            for _ in range(r_iterations):
                r = self.update_r(q, r)
        return q, r


def project(scores: FloatArray, old: FloatArray) -> FloatArray:
    """Weights proportional to scores, none below the floor, sum one; the old ones if all vanish."""
    total = scores.sum()
    if not total > _TINY:
        return old
    floor = r_floor(len(scores))
    low = scores < floor * total
    while True:
        scale = (1 - floor * low.sum()) / scores[~low].sum()
        now = scores * scale < floor
        if (now | low).sum() == low.sum():
            return np.where(low, floor, scores * scale)
        low = now | low


def _edges(network: Network, node: int) -> slice:
    return slice(int(network.child_ptr[node]), int(network.child_ptr[node + 1]))


def _slope(b: npt.ArrayLike) -> FloatArray:
    """``f'(b) = 1 / (exp(b) - 1)``, without overflow."""
    rest = np.exp(-np.asarray(b, dtype=np.float64))
    return np.asarray(rest / -np.expm1(-np.asarray(b, dtype=np.float64)))


def _logistic(a: FloatArray) -> FloatArray:
    rest = np.exp(-np.abs(a))
    return np.where(a < 0, rest / (1 + rest), 1 / (1 + rest))
