"""Mean-field inference, one row at a time: coordinate ascent on (q, r), the bound, its gradient.

With the weights A of the edges, f(b) = log(1 - exp(-b)), T_k the sum of theta over the children of
k that are hidden or observed, and sums over nodes that may be on, the bound of a row is

    - sum of leaks + sum_k { Ent(q_k) - q_k T_k } + sum_i q_i { leak_i + f(leak_i) + sum_e q_k A_e }

As a function of one q it is linear plus the entropy, so its maximizer is the logistic function of
the slope. No term contains two nodes of one level, so these are updated together.

For one child the Jensen weights r maximize the concave ``F(r) = sum_k q_k r_k phi(theta_k / r_k)``
on the simplex, with ``phi(s) = f(leak + s) - f(leak)``. Its gradient
``G_k = q_k (phi(s) - s phi'(s))`` depends on its own weight alone. Children are independent of each
other; all are worked on at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisyor._util.arrays import FloatArray, log_expm1, logistic_function
from noisyor.engines.contract import FREE, Evidence, GradientSum, MeanFieldOptions, MeanFieldResult
from noisyor.engines.numpy.rows import Prepared, Row, Segments, rows_of, sums_at, taking_part
from noisyor.engines.reduction import mean_field_parts, tree_sum_of_blocks

Q_FLOOR = 1e-5
"""Smallest probability of a hidden node that is inferred."""

_MAX_STILL_CHANGE, _MAX_NEARLY_STILL_CHANGE = 1e-14, 1e-4
"""Largest change of any q in a sweep that ends the sweeps of a round. The second number is for
rounds that continue until the bound has converged; the next round corrects the rest."""


R_FLOOR = 1e-5
"""Smallest Jensen weight: a smaller weight could not grow back within a few iterations."""

_TINY = 1e-280
_MIN_SLOPE = 1e-100

_SMALL_CHANGE = 1e-4
"""Relative change of q that r need not follow."""


def mean_field(
    prepared: Prepared, evidence: Evidence, options: MeanFieldOptions, *, with_q: bool = False
) -> MeanFieldResult:
    """Maximize the bound of every row by coordinate ascent on (q, r)."""
    result = MeanFieldResult.empty(evidence.n_rows, prepared.network.n_hidden, with_q)
    for row in rows_of(prepared, evidence):
        model = RowAscent(prepared, row, options.local)
        found = model.ascend(options)
        result.rounds[row.index], result.elbo[row.index], result.gain[row.index] = found
        if with_q:
            result.q[row.index] = model.q
    return result


def mean_field_gradient(
    prepared: Prepared, evidence: Evidence, options: MeanFieldOptions
) -> GradientSum:
    """Sum the bound and its gradient over rows."""
    bounds = mean_field_parts(evidence.n_rows)

    def part(index: int) -> list[FloatArray]:
        value, gradient = np.zeros(1), np.zeros(prepared.network.n_params)
        for row in rows_of(prepared, evidence, bounds[index], bounds[index + 1]):
            model = RowAscent(prepared, row, options.local)
            _, elbo, _ = model.ascend(options)
            value += row.weight * elbo
            gradient += row.weight * model.gradient()
        return [value, gradient]

    value, gradient = tree_sum_of_blocks(part, len(bounds) - 1, 1)
    return GradientSum(float(value[0]), gradient, evidence.total_weight)


class RowAscent:
    """One row: the nodes and edges that may be on, and the present (q, r).

    ``q`` (n_hidden,); ``hidden``: the nodes that take part, children before parents; ``child``: the
    nodes that may be on and have parents, hidden ones first; by edge into these: ``r``, ``parent``.
    """

    def __init__(self, prepared: Prepared, row: Row, local: bool) -> None:
        network = prepared.network
        self.prepared, self.row = prepared, row
        active = taking_part(prepared, row, local)
        self.levels = -network.hidden_levels
        self.hidden = active[np.lexsort((active, self.levels[active]))]
        self.free = self.hidden[row.hidden[self.hidden] == FREE]
        may_be_on = self.hidden[row.hidden[self.hidden] != 0] + network.n_visible
        child = np.concatenate([may_be_on, row.ones])
        self.child = child[prepared.n_parents[child] > 0]
        self.connected = bool((self.child >= network.n_visible).any())
        numbers = prepared.edges_into(self.child)
        self.numbers, self.parent = numbers, network.parent[numbers]
        edges = Segments(prepared.n_parents[self.child])
        self.factors = Factors.of(edges, prepared.theta[numbers], prepared.leak[self.child])
        self.solver = Solver(self.factors)

        self.seen = np.concatenate([row.visible != FREE, np.ones(network.n_hidden, dtype=np.bool_)])
        costs = np.where(self.seen[network.edge_child], prepared.theta, 0.0)
        total = sums_at(network.parent, costs, network.n_hidden)
        odds = log_expm1(prepared.leak)
        self.fixed = odds[network.n_visible :] - total
        self.constant = float(odds[row.ones].sum() - prepared.leak[self.seen].sum())

        self.q = np.zeros(network.n_hidden)
        self.q[self.hidden] = row.hidden[self.hidden]
        self.q[self.free] = 0.5
        self.r = self.factors.start()

    def q_of_children(self) -> FloatArray:
        """Return the probability that each child is on, 1 for visibles."""
        ones = np.ones(self.prepared.network.n_visible)
        return np.asarray(np.concatenate([ones, self.q])[self.child])

    def ascend(self, options: MeanFieldOptions) -> tuple[int, float, float]:
        """Run the schedule from the present (q, r); return rounds, the bound and its last gain."""
        watch = options.tolerance >= 0.0
        still = _MAX_NEARLY_STILL_CHANGE if watch else _MAX_STILL_CHANGE
        value, gain = -np.inf, np.inf
        for index in range(options.outer):
            last = index == options.outer - 1
            if last and not watch:  # so that the gain of the last round is known
                value = self.bound()
            for _ in range(options.inner):
                change = self.sweep()
                if not self.connected or change <= still:
                    break  # hidden nodes that are not connected need one sweep
            self.update_r(options)
            if watch or last:
                new = self.bound()
                gain, value = new - value, new
                if watch and gain < options.tolerance:
                    return index + 1, value, gain
        return options.outer, self.bound() if options.outer == 0 else value, gain

    def slopes(self, weights: FloatArray) -> FloatArray:
        """Return the derivative of the bound, without the entropy, by every q."""
        network, q_child = self.prepared.network, self.factors.edges.spread(self.q_of_children())
        from_children = sums_at(self.parent, q_child * weights, network.n_hidden)
        by_child = self.factors.edges.sum(self.q[self.parent] * weights)
        from_parents = np.zeros(network.n_nodes)
        from_parents[self.child] = by_child
        return self.fixed + from_children + from_parents[network.n_visible :]

    def sweep(self) -> float:
        """Update every free q once, children before parents; return the largest change."""
        weights, before = self.factors.weights(self.r), self.q.copy()
        for level in np.unique(self.levels[self.free]):
            batch = self.free[self.levels[self.free] == level]
            odds = self.slopes(weights)[batch]
            self.q[batch] = np.maximum(logistic_function(odds), Q_FLOOR)
        return float(np.abs(self.q - before).max())

    def update_r(self, options: MeanFieldOptions) -> None:
        """Make the published steps on r, or steps until the weights of each child converge."""
        q = self.q[self.parent]
        if options.r_tolerance < 0.0:
            for _ in range(options.r_iterations):
                self.r = self.factors.published_step(q, self.r)
        else:
            steps, tolerance = options.r_iterations, options.r_tolerance
            self.r = self.solver.solve(q, self.r, self.q_of_children(), steps, tolerance)

    def bound(self) -> float:
        """Return the bound of the row at the present (q, r)."""
        q = self.q[self.hidden]
        weights = self.factors.weights(self.r)
        pairs = self.factors.edges.spread(self.q_of_children()) * self.q[self.parent] * weights
        return float(self.constant + q @ self.fixed[self.hidden] + pairs.sum() + _entropy(q).sum())

    def gradient(self) -> FloatArray:
        """Return the derivative of the bound by the parameters, (q, r) held fixed, (n_params,).

        With u = leak + theta / r it is ``q_k (q_i / (1 - exp(-u)) - 1)`` for an edge and
        ``q_i {1 + f'(leak) + sum_k q_k r_k (f'(u_k) - f'(leak))} - 1`` for a leak.
        """
        network, factors, spread = self.prepared.network, self.factors, self.factors.edges.spread
        q_all = np.concatenate([self.row.visible == 1, self.q])
        q_parent, (_, derivative) = self.q[self.parent], factors.terms(self.r)
        of_edge = np.where(self.seen[network.edge_child], -self.q[network.parent], 0.0)
        of_edge[self.numbers] += spread(self.q_of_children()) * q_parent * (1.0 + derivative)
        of_leak = 1.0 + slope_of(self.prepared.leak)
        more = q_parent * self.r * (derivative - spread(factors.slope))
        of_leak[self.child] += factors.edges.sum(more)
        of_leak = q_all * of_leak - self.seen
        return sums_at(network.param, of_edge, network.n_params) + sums_at(
            network.leak_param, of_leak, network.n_params
        )


def _entropy(q: FloatArray) -> FloatArray:
    """Return ``-q log q - (1 - q) log(1 - q)``, 0 at both ends."""
    inside = np.clip(q, 1e-300, None), np.clip(1.0 - q, 1e-300, None)
    return -q * np.log(inside[0]) - (1.0 - q) * np.log(inside[1])


# ---- the Jensen weights of noisy-OR factors


@dataclass(frozen=True, eq=False)
class Factors:
    """Children and the edges into them: ``theta`` (n_edges,), ``slope`` f'(leak) (n_children,)."""

    edges: Segments
    theta: FloatArray
    slope: FloatArray

    @staticmethod
    def of(edges: Segments, theta: FloatArray, leak: FloatArray) -> Factors:
        """Build the factors of children with leaks (n_children,)."""
        return Factors(edges, theta, slope_of(leak))

    @property
    def floor(self) -> FloatArray:
        """Smallest weight by child: the floors of one child never add up to more than a tenth."""
        return np.minimum(R_FLOOR, 0.1 / self.edges.lengths)

    def start(self) -> FloatArray:
        """Return initial weights: proportional to theta, floored; equal if all vanish."""
        return self.project(self.theta, 1.0 / self.edges.spread(self.edges.lengths))

    def terms(self, r: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``phi(theta / r)`` and its derivative, by edge."""
        s, slope = self.theta / r, self.edges.spread(self.slope)
        works = -slope * np.expm1(-s)
        return np.log1p(works), slope * np.exp(-s) / (1.0 + works)

    def weights(self, r: FloatArray) -> FloatArray:
        """Return ``A = theta + r phi``: what an active parent adds to the child's log-odds."""
        return self.theta + r * self.terms(r)[0]

    def gradient(self, q: FloatArray, r: FloatArray) -> FloatArray:
        """Return G by edge; ``q`` (n_edges,) of the parents."""
        phi, derivative = self.terms(r)
        return np.maximum(q * (phi - self.theta / r * derivative), 0.0)

    def project(self, scores: FloatArray, old: FloatArray) -> FloatArray:
        """Return weights proportional to scores, none below the floor; the old ones if all vanish.

        Weights below the floor are raised to it and only the others are scaled, until none falls
        below: then the published step with this floor cannot lower the bound.
        """
        spread, floor, total = self.edges.spread, self.floor, self.edges.sum(scores)
        low = scores < spread(floor * total)
        while True:
            room = 1.0 - floor * self.edges.sum(low)
            rest = np.maximum(self.edges.sum(np.where(low, 0.0, scores)), _TINY)
            new = scores * spread(room / rest)
            now = low | (new < spread(floor))
            if (now == low).all():
                break
            low = now
        return np.where(spread(total > _TINY), np.where(low, spread(floor), new), old)

    def published_step(self, q: FloatArray, r: FloatArray) -> FloatArray:
        """Make the step ``r_k <- r_k G_k / sum_j r_j G_j``, which never lowers F."""
        return self.project(r * self.gradient(q, r), r)

    def gap(self, q: FloatArray, r: FloatArray) -> FloatArray:
        """Bound, for each child, the gain in F from other weights with the same floor.

        F is concave, so its linearization at r bounds the remaining gain.
        """
        gradient, floor = self.gradient(q, r), self.floor
        peak, total = self.edges.max(gradient), self.edges.sum(gradient)
        return peak - floor * (self.edges.lengths * peak - total) - self.edges.sum(r * gradient)


class Solver:
    """Solve for the weights; store which children are solved, and for which q."""

    def __init__(self, factors: Factors) -> None:
        self.factors = factors
        self.solved = np.zeros(len(factors.slope), dtype=np.bool_)
        self.q = np.zeros(len(factors.theta))

    def solve(
        self,
        q: FloatArray,
        r: FloatArray,
        importance: FloatArray,
        iterations: int,
        tolerance: float,
    ) -> FloatArray:
        """Make steps until no weights could raise ``importance * F`` by the tolerance.

        ``importance`` (n_children,) is the probability that the child is on.
        """
        factors, edges = self.factors, self.factors.edges
        moved = edges.max(np.abs(q - self.q) - _SMALL_CHANGE * q) > 0.0
        active, self.q = ~self.solved | moved, q
        for _ in range(iterations):
            active = active & (importance * factors.gap(q, r) > tolerance)
            if not active.any():
                break
            r = np.where(edges.spread(active), factors.published_step(q, r), r)
        self.solved = ~active
        return r


def slope_of(leak: FloatArray) -> FloatArray:
    """Return ``f'(b) = 1 / (exp(b) - 1)`` by node, at least a tiny number."""
    return np.maximum(np.exp(-leak) / -np.expm1(-leak), _MIN_SLOPE)
