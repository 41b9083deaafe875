"""The Jensen weights r of noisy-OR factors: what the edges are worth under them, and their updates.

For one child the weights maximise the concave ``F(r) = sum_k q_k r_k phi(theta_k / r_k)`` on the
simplex, with ``phi(s) = f(leak + s) - f(leak)``. Its gradient ``G_k = q_k (phi(s) - s phi'(s))``
depends on its own weight alone. Children are independent of each other; all are worked on at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisyor._util.arrays import BoolArray, FloatArray
from noisyor.engines.numpy.segments import Segments

R_FLOOR = 1e-5
"""Smallest Jensen weight: what is smaller could not grow back within a few iterations."""

_TINY = 1e-280
_LEAST_SLOPE = 1e-100

_ROUNDING, _SMALL_CHANGE = 1e-14, 1e-4
"""Differences of F that mean nothing; relative changes of q that r need not follow."""

_SHRINK, _GROW, _CLOSE, _BISECTIONS = -0.9, 4.0, 1e-4, 40
"""Relative change of a weight in one Newton step at most, how well the new ones sum to one, and
how often their level is adjusted."""


@dataclass(frozen=True, eq=False)
class Factors:
    """Children and the edges into them: ``theta`` (n_edges,), ``slope`` f'(leak) (n_children,)."""

    edges: Segments
    theta: FloatArray
    slope: FloatArray

    @staticmethod
    def of(edges: Segments, theta: FloatArray, leak: FloatArray) -> Factors:
        """Factors of children with leaks (n_children,)."""
        return Factors(edges, theta, slope_of(leak))

    @property
    def floor(self) -> FloatArray:
        """Smallest weight by child: the floors of one child never add up to more than a tenth."""
        return np.minimum(R_FLOOR, 0.1 / self.edges.lengths)

    def start(self) -> FloatArray:
        """Weights to begin with: proportional to theta, floored; equal if all vanish."""
        return self.project(self.theta, 1.0 / self.edges.spread(self.edges.lengths))

    def terms(self, r: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``phi(theta / r)`` and its derivative, by edge."""
        s, slope = self.theta / r, self.edges.spread(self.slope)
        works = -slope * np.expm1(-s)
        return np.log1p(works), slope * np.exp(-s) / (1.0 + works)

    def weights(self, r: FloatArray) -> FloatArray:
        """``A = theta + r phi``: what an active parent adds to the log-odds of the child."""
        return self.theta + r * self.terms(r)[0]

    def gradient(self, q: FloatArray, r: FloatArray) -> FloatArray:
        """G by edge; ``q`` (n_edges,) of the parents."""
        phi, derivative = self.terms(r)
        return np.maximum(q * (phi - self.theta / r * derivative), 0.0)

    def project(self, scores: FloatArray, old: FloatArray) -> FloatArray:
        """Weights proportional to scores, none below the floor; the old ones if all vanish.

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
        """``r_k <- r_k G_k / sum_j r_j G_j``, which never lowers F."""
        return self.project(r * self.gradient(q, r), r)

    def gap(self, q: FloatArray, r: FloatArray) -> FloatArray:
        """Upper bound by child on what other weights with the same floor could add to F.

        F is concave, so its linearisation at r bounds what is left.
        """
        gradient, floor = self.gradient(q, r), self.floor
        peak, total = self.edges.max(gradient), self.edges.sum(gradient)
        return peak - floor * (self.edges.lengths * peak - total) - self.edges.sum(r * gradient)

    def value(self, q: FloatArray, r: FloatArray) -> FloatArray:
        """F by child."""
        return self.edges.sum(q * r * self.terms(r)[0])

    def newton_step(self, q: FloatArray, r: FloatArray, of: BoolArray) -> FloatArray:
        """``r_k (1 + (G_k - level) / bend_k)`` with limited changes, then floored.

        ``bend = -r dG/dr``. The level makes the weights sum to one, floors included: the root of a
        falling, piecewise linear function, looked for where ``of`` (n_children,) is True.
        """
        _, derivative = self.terms(r)
        gradient, spread, floor = (
            self.gradient(q, r),
            self.edges.spread,
            self.edges.spread(self.floor),
        )
        bend = q * (self.theta / r) ** 2 * derivative * (1.0 + derivative)
        rate = 1.0 / np.maximum(bend, 1e-3 * gradient + 1e-200)
        bottom, top = np.zeros(len(of)), self.edges.max(gradient)
        level = self.edges.sum(r * gradient)
        for _ in range(_BISECTIONS):
            wanted = (gradient - spread(level)) * rate
            new = r * (1.0 + np.clip(wanted, _SHRINK, _GROW))
            excess = self.edges.sum(np.maximum(new, floor)) - 1.0
            far = of & (np.abs(excess) > _CLOSE)
            if not far.any():
                break
            inside = (wanted > _SHRINK) & (wanted < _GROW)
            rates = self.edges.sum(np.where(inside, r * rate, 0.0))
            bottom, top = np.where(excess > 0, level, bottom), np.where(excess > 0, top, level)
            by_slope = level + excess / np.maximum(rates, 1e-200)
            between = (by_slope > bottom) & (by_slope < top)
            level = np.where(far, np.where(between, by_slope, 0.5 * (bottom + top)), level)
        change = np.clip((gradient - spread(level)) * rate, _SHRINK, _GROW)
        return self.project(r * (1.0 + change), r)


class Solver:
    """Weights to convergence: remembers which children are solved, and for which q."""

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
        newton: bool,
    ) -> FloatArray:
        """Steps until no weights could raise ``importance * F`` by the tolerance, at most so many.

        ``importance`` (n_children,) is the probability that the child is on. Newton's steps are
        halved until they raise F; the published ones always do.
        """
        factors, edges, spread = self.factors, self.factors.edges, self.factors.edges.spread
        moved = edges.max(np.abs(q - self.q) - _SMALL_CHANGE * q) > 0.0
        active, self.q = ~self.solved | moved, q
        before, best = r, np.full(len(active), -1.0)
        for _ in range(iterations):
            if not active.any():
                break
            step = active
            if newton:
                value = factors.value(q, r)
                step = active & (value >= best - _ROUNDING)
                r = np.where(spread(active & ~step), 0.5 * (r + before), r)
                before, best = np.where(spread(step), r, before), np.where(step, value, best)
            done = step & (importance * factors.gap(q, r) <= tolerance)
            active, step = active & ~done, step & ~done
            new = factors.newton_step(q, r, step) if newton else factors.published_step(q, r)
            r = np.where(spread(step), new, r)
        if newton:  # the last step has not been checked
            worse = active & (factors.value(q, r) < best - _ROUNDING)
            r = np.where(spread(worse), before, r)
        self.solved = ~active
        return r


def slope_of(leak: FloatArray) -> FloatArray:
    """``f'(b) = 1 / (exp(b) - 1)`` by node, not quite zero."""
    return np.maximum(np.exp(-leak) / -np.expm1(-leak), _LEAST_SLOPE)
