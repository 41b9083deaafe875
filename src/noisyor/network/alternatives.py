"""Sets of alternatives: hidden nodes of which at most one is on.

A noisy-OR cannot say "one of these". A set of alternatives can: its nodes have the priors of
independent causes, given that no two of them are on. With the odds ``o_k = exp(theta_k) - 1`` of
each prior, node k of set S is the one that is on with probability ``o_k / (1 + sum of o over S)``,
and none is with probability ``1 / (1 + sum of o over S)``. A set of one node is an ordinary cause,
and a set of K nodes that are parents of everything is a mixture of K + 1 products of Bernoullis.

The parameters stay free of each other: every ``theta >= 0`` is allowed, and of the log joint
probability only the normaliser of the priors changes (equation T50 of docs/theory.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisyor._util.arrays import BinaryArray, BoolArray, FloatArray, IntArray, LongArray
from noisyor.errors import InvalidDataError, InvalidNetworkError

__all__ = ["Sets", "check_alternatives"]


@dataclass(frozen=True, eq=False)
class Sets:
    """Sets of alternatives, numbered from 0; independent nodes are in none.

    ``number`` (n_hidden,) set of each hidden node, -1 for none; nodes of set s are
    ``member[ptr[s]:ptr[s + 1]]``, in ascending order.
    """

    number: IntArray
    ptr: LongArray
    member: LongArray

    @classmethod
    def of(cls, number: IntArray) -> Sets:
        """From the number of each node's set, shape (n_hidden,)."""
        order = np.argsort(number, kind="stable")
        member = order[np.count_nonzero(number < 0) :]
        n_sets = int(number.max(initial=-1)) + 1
        return cls(number, np.searchsorted(number[member], np.arange(n_sets + 1)), member)

    @property
    def n_sets(self) -> int:
        """Number of sets."""
        return len(self.ptr) - 1

    def __bool__(self) -> bool:
        return self.n_sets > 0

    def broken(self, states: BinaryArray | BoolArray) -> BoolArray:
        """Whether two nodes of a set are on, shape (...), for states of shape (..., n_hidden)."""
        if not self:
            return np.zeros(states.shape[:-1], dtype=np.bool_)
        members = states[..., self.member].astype(np.int64)
        return np.asarray((np.add.reduceat(members, self.ptr[:-1], axis=-1) > 1).any(axis=-1))

    def check_states(self, states: BinaryArray | BoolArray, what: str) -> None:
        """Refuse states (n_rows, n_hidden) of which a row has two nodes of a set on."""
        broken = np.flatnonzero(self.broken(states))
        if broken.size:
            on = [k for k in np.flatnonzero(states[broken[0]] == 1) if self.number[k] >= 0]
            raise InvalidDataError(
                f"of a set of alternatives at most one node is on, but {what} of row {broken[0]} "
                f"have several among hidden nodes {[int(k) for k in on[:10]]}"
            )

    def complete(self, evidence: BinaryArray) -> BinaryArray:
        """Evidence (n_rows, n_hidden), 1 on and 0 off, with the others of a node that is on off."""
        on = evidence == 1
        self.check_states(on, "evidence")
        if not self or not on.any():
            return evidence
        of_set = np.logical_or.reduceat(on[:, self.member], self.ptr[:-1], axis=1)
        result = evidence.copy()
        result[:, self.member] = np.where(
            of_set[:, self.number[self.member]] & ~on[:, self.member], 0, evidence[:, self.member]
        )
        return result

    def log_normalizer(self, theta: FloatArray) -> FloatArray:
        """``-log p(none is on)`` of every set, from the leaks (n_hidden,): shape (n_sets,).

        ``log(1 + sum of odds)``, where independent nodes would have the sum of ``theta``.
        """
        if not self:
            return np.zeros(0)
        odds = np.maximum(theta[self.member], np.finfo(float).tiny)
        odds = odds + np.log(-np.expm1(-odds))
        top = np.maximum(np.maximum.reduceat(odds, self.ptr[:-1]), 0.0)
        scaled = np.exp(odds - np.repeat(top, np.diff(self.ptr)))
        return np.asarray(top + np.log(np.exp(-top) + np.add.reduceat(scaled, self.ptr[:-1])))

    def prior_probability(self, theta: FloatArray) -> FloatArray:
        """Probability of every hidden node when its parents are off, from the leaks (n_hidden,)."""
        result = -np.expm1(-theta)
        if self:
            inside = self.member
            log_off = self.log_normalizer(theta)[self.number[inside]]
            # odds times p(none): exp(theta - log_off) - exp(-log_off), without overflow.
            result[inside] = np.exp(theta[inside] - log_off) * result[inside]
        return np.asarray(result)


def check_alternatives(sets: Sets, n_parents: LongArray) -> None:
    """Refuse sets that are not numbered 0, 1, ..., and members with parents (n_hidden,)."""
    if sets.number.min(initial=0) < -1 or (np.diff(sets.ptr) == 0).any():
        raise InvalidNetworkError(
            "sets of alternatives are numbered 0, 1, ... without gaps, and -1 is none; got "
            f"{np.unique(sets.number)[:10].tolist()}"
        )
    below = sets.member[n_parents[sets.member] > 0]
    if below.size:
        raise InvalidNetworkError(
            f"alternatives have no parents, but hidden node {int(below[0])} has "
            f"{int(n_parents[below[0]])}"
        )
