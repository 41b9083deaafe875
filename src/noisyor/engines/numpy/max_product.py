"""Max-product, one row at a time, all factors at once; every message is a log-odds number.

The factor of a child is one small factor per edge and an OR. With B the beliefs of the parents, v
the messages that they have from this child, a = log(exp(theta) - 1) and b the message that the
child gets from elsewhere (infinite if it is known),

    t_e = a_e + min(B - v - theta, 0)                                edge to OR; a_0 for the leak
    s_e = min(b + sum of the other [t]_+, [-largest other t]_+)      OR to edge
    v_e = max(-theta_e, f(theta_e) + s_e)                            edge to parent
    d   = sum of [t]_+ + min(largest t, 0)                           OR to child

There are two schedules with the same fixed points. Collapsed: all four messages are computed from
one another in one iteration, and v and d are damped. Two-stage, as in the authors' software: each
message is computed from the messages of the iteration before, all start at zero, also those of
leaks, and all are damped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from noisyor._util.arrays import FloatArray, SingleArray, log_expm1, log_one_minus_exp
from noisyor.engines.contract import (
    FREE,
    NEVER,
    TIE,
    Evidence,
    MaxProductOptions,
    MaxProductResult,
    NoiseKey,
)
from noisyor.engines.noise import combine, logistic
from noisyor.engines.numpy.rows import Prepared, Row, Segments, rows_of, sums_at, taking_part

_LOWEST = -1e6
"""Replaces minus infinity, the messages of an OR that is off, so that averages stay finite."""


def max_product(
    prepared: Prepared,
    evidence: Evidence,
    options: MaxProductOptions,
    key: NoiseKey,
    *,
    with_beliefs: bool = False,
) -> MaxProductResult:
    """Pass messages and decode the states of every row."""
    n_hidden, draws = prepared.network.n_hidden, evidence.n_rows * options.n_samples
    result = MaxProductResult.empty(draws, n_hidden, with_beliefs)
    for draw, messages in _messages(prepared, evidence, options, key):
        result.iterations[draw], result.residual[draw] = messages.run()
        beliefs = messages.beliefs()[prepared.network.n_visible :]
        result.states[draw] = beliefs > TIE
        if with_beliefs:
            result.beliefs[draw] = beliefs
    return result


def edge_messages(
    prepared: Prepared, evidence: Evidence, options: MaxProductOptions, key: NoiseKey
) -> SingleArray:
    """Return the last message of every edge to its parent, (draws, n_edges).

    Messages of children that are unobserved are NaN.
    """
    draws = evidence.n_rows * options.n_samples
    result = np.full((draws, prepared.network.n_edges), np.nan, dtype=np.float32)
    for draw, messages in _messages(prepared, evidence, options, key):
        messages.run()
        result[draw, messages.edge_index] = messages.up
    return result


def _messages(
    prepared: Prepared, evidence: Evidence, options: MaxProductOptions, key: NoiseKey
) -> Iterator[tuple[int, _Messages]]:
    """Yield the messages of every draw before the first iteration."""
    n_hidden = prepared.network.n_hidden
    kind = _TwoStage if options.two_stage else _Collapsed
    for row in rows_of(prepared, evidence):
        row_key = combine(combine(key.seed, key.step), row.id)
        for sample in range(options.n_samples):
            noise = np.zeros(n_hidden)
            if options.temperature > 0:
                keys = combine(combine(row_key, sample), np.arange(n_hidden))
                noise = options.temperature * logistic(keys)
            yield row.index * options.n_samples + sample, kind(prepared, row, options, noise)


def or_messages(
    inputs: FloatArray, leak: FloatArray, from_output: FloatArray, edges: Segments
) -> tuple[FloatArray, FloatArray]:
    """Return the messages of ORs to their inputs (n_edges,) and to their outputs (n_ors,).

    ``inputs`` (n_edges,) and ``leak`` (n_ors,) are the messages to the OR from its inputs and the
    leak, ``from_output`` (n_ors,) the messages from its output.
    """
    positive = np.maximum(inputs, 0.0)
    total = edges.sum(positive) + np.maximum(leak, 0.0)
    others = np.maximum(edges.max_of_others(inputs), edges.spread(leak))
    support = edges.spread(from_output + total) - positive
    to_inputs = np.minimum(support, np.maximum(-others, 0.0))
    return to_inputs, total + np.minimum(np.maximum(edges.max(inputs), leak), 0.0)


class _Messages(ABC):
    """All messages of one row and one sample.

    By node: ``known`` +inf for on, -inf for off, 0 for free; ``to_child`` message d, and ``heard``,
    the nodes for which it matters. By edge of the factors: ``up`` message v, ``is_off`` whether
    the child is. A visible that is summed out has no factor.
    """

    def __init__(
        self, prepared: Prepared, row: Row, options: MaxProductOptions, noise: FloatArray
    ) -> None:
        network = prepared.network
        self.options, self.n_visible = options, network.n_visible
        hidden = np.zeros(network.n_hidden, dtype=np.uint8)  # what takes no part is off
        active = taking_part(prepared, row, options.ancestors_only)
        hidden[active] = row.hidden[active]
        state = np.concatenate([row.visible, hidden])
        self.known = np.where(state == FREE, 0.0, np.where(state == 1, np.inf, -np.inf))
        has_factor = prepared.n_parents > 0
        has_factor[: self.n_visible] &= row.visible != FREE
        self.child = np.flatnonzero(has_factor)
        self.edges = Segments(prepared.n_parents[self.child])
        self.edge_index = prepared.edges_into(self.child)
        self.parent = network.parent[self.edge_index] + self.n_visible
        self.theta = prepared.theta[self.edge_index]
        self.log_works = log_one_minus_exp(self.theta)  # f(theta)
        self.leak = log_expm1(prepared.leak)
        self.noise = np.concatenate([np.zeros(self.n_visible), noise])
        self.up = np.zeros(len(self.edge_index))
        self.to_child = np.zeros(network.n_nodes)
        self.heard = np.zeros(0, dtype=np.int64)
        self.is_off = self.edges.spread(self.known[self.child] == -np.inf)

    def beliefs(self) -> FloatArray:
        """Return the log-odds of every node, (n_nodes,)."""
        heard = self.noise + self.to_child + sums_at(self.parent, self.up, len(self.known))
        return np.where(np.isinf(self.known), np.copysign(NEVER, self.known), heard)

    def down(self, beliefs: FloatArray) -> FloatArray:
        """Return the messages of the edges to their ORs."""
        from_parents = beliefs[self.parent] - self.up
        return self.log_works + np.minimum(from_parents, self.theta)

    def from_children(self, beliefs: FloatArray) -> FloatArray:
        """Return the messages of the children to their ORs."""
        heard = np.where(np.arange(len(beliefs)) < self.n_visible, 0.0, beliefs - self.to_child)
        return np.where(np.isinf(self.known), self.known, heard)[self.child]

    def to_parents(self, to_edge: FloatArray) -> FloatArray:
        """Return the messages of the edges to their parents."""
        return np.maximum(-self.theta, self.log_works + to_edge)

    def damp(self, old: FloatArray, new: FloatArray) -> FloatArray:
        """Average the old message with the new one."""
        return old + self.options.step * (new - old)

    def run(self) -> tuple[int, float]:
        """Iterate until the messages converge; return the number of iterations and the residual."""
        residual = 0.0
        for iteration in range(self.options.max_iterations):
            residual = self.update()
            if max(residual, self.still_to_come()) < self.options.tolerance:
                return iteration + 1, residual
        return self.options.max_iterations, residual

    @abstractmethod
    def update(self) -> float:
        """Run one iteration; return the largest residual of a message."""

    def still_to_come(self) -> float:
        """Return the part of the residual that no stored message shows yet."""
        return 0.0


class _Collapsed(_Messages):
    """Messages pass through a whole factor within one iteration."""

    def __init__(
        self, prepared: Prepared, row: Row, options: MaxProductOptions, noise: FloatArray
    ) -> None:
        super().__init__(prepared, row, options, noise)
        # What never changes: messages of children that are off, and of nodes without parents.
        self.up[self.is_off] = -self.theta[self.is_off]
        self.to_child = np.where(prepared.n_parents == 0, self.leak, 0.0)
        self.heard = self.n_visible + np.flatnonzero(self.known[self.n_visible :] == 0.0)

    def update(self) -> float:
        beliefs, to_child = self.beliefs(), self.to_child.copy()
        to_edge, to_child[self.child] = or_messages(
            self.down(beliefs), self.leak[self.child], self.from_children(beliefs), self.edges
        )
        up = self.to_parents(to_edge)
        residual = max(_largest(up - self.up), _largest((to_child - self.to_child)[self.heard]))
        self.up, self.to_child = self.damp(self.up, up), self.damp(self.to_child, to_child)
        return residual


class _TwoStage(_Messages):
    """Every message is stored, starts at zero and is damped, those inside a factor too.

    ``from_edge`` t and ``to_edge`` s by edge; ``from_leak`` t of the leak by node; ``decay`` the
    remaining relative distance of the messages of leaks to their limit.
    """

    def __init__(
        self, prepared: Prepared, row: Row, options: MaxProductOptions, noise: FloatArray
    ) -> None:
        super().__init__(prepared, row, options, noise)
        self.from_edge, self.to_edge = np.zeros((2, len(self.up)))
        self.from_leak = np.zeros(len(self.leak))
        self.decay = 1.0
        self.heard = self.n_visible + np.flatnonzero(self.known[self.n_visible :] != -np.inf)

    def update(self) -> float:
        beliefs, to_child = self.beliefs(), self.from_leak.copy()
        to_edge, to_child[self.child] = or_messages(
            self.from_edge, self.from_leak[self.child], self.from_children(beliefs), self.edges
        )
        wanted = {
            "from_edge": self.down(beliefs),
            "to_edge": np.maximum(to_edge, _LOWEST),
            "up": self.to_parents(self.to_edge),
            "to_child": to_child,
            "from_leak": self.leak,
        }
        seen = ~self.is_off  # what is off, and leaks, need no watching: see `still_to_come`
        residual = _largest((to_child - self.to_child)[self.heard])
        for name in ("from_edge", "to_edge", "up"):
            residual = max(residual, _largest((wanted[name] - getattr(self, name))[seen]))
        for name, new in wanted.items():
            setattr(self, name, self.damp(getattr(self, name), new))
        self.decay *= 1.0 - self.options.step
        return residual

    def still_to_come(self) -> float:
        return self.decay


def _largest(change: FloatArray) -> float:
    return float(np.abs(change).max(initial=0.0))
