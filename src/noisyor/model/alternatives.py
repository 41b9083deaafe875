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
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, BoolArray, FloatArray, IntArray, LongArray
from noisyor.errors import InvalidDataError, InvalidNetworkError
from noisyor.model.parameters import theta_from_odds, theta_from_probability

__all__ = ["Sets", "as_numbers", "check_parents"]


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

    def rivals(self, node: int) -> list[int]:
        """The other nodes of a node's set."""
        if self.number[node] < 0:
            return []
        begin, end = self.ptr[self.number[node]], self.ptr[self.number[node] + 1]
        return [int(k) for k in self.member[begin:end] if k != node]

    def __bool__(self) -> bool:
        return self.n_sets > 0

    def broken(self, states: BinaryArray | BoolArray) -> BoolArray:
        """Whether two nodes of a set are on, shape (...), for states of shape (..., n_hidden)."""
        if not self:
            return np.zeros(states.shape[:-1], dtype=np.bool_)
        members = states[..., self.member].astype(np.int64)
        return np.asarray((np.add.reduceat(members, self.ptr[:-1], axis=-1) > 1).any(axis=-1))

    def of_some(self, hidden: LongArray) -> IntArray:
        """Number of the set of some hidden nodes, numbered anew from 0, shape (len(hidden),)."""
        kept = self.number[hidden]
        return np.where(kept < 0, -1, np.searchsorted(np.unique(kept[kept >= 0]), kept))

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

    def log_all_off(self, theta: FloatArray) -> float:
        """Log-probability that every hidden node is off, from the leaks (n_hidden,)."""
        return -float(theta[self.number < 0].sum() + self.log_normalizer(theta).sum())

    def prior_probability(self, theta: FloatArray) -> FloatArray:
        """Probability of every hidden node when its parents are off, from the leaks (n_hidden,)."""
        result = -np.expm1(-theta)
        if self:
            inside = self.member
            log_off = self.log_normalizer(theta)[self.number[inside]]
            # odds times p(none): exp(theta - log_off) - exp(-log_off), without overflow.
            result[inside] = np.exp(theta[inside] - log_off) * result[inside]
        return np.asarray(result)

    def given(self, prior: FloatArray, known: LongArray, probability: FloatArray) -> FloatArray:
        """Priors (n_hidden,) with some nodes at other probabilities, and what that leaves others.

        Alternatives that are not among the ``known`` keep their odds against "none of the set",
        and with it share what the known ones leave over.
        """
        result = prior.copy()
        result[known] = probability
        if self:
            is_known = np.zeros(len(prior), dtype=np.bool_)
            is_known[known] = True
            rest = [
                1.0 - np.add.reduceat(np.where(is_known, p, 0.0)[self.member], self.ptr[:-1])
                for p in (prior, result)
            ]
            share = np.maximum(rest[1], 0.0) / np.maximum(rest[0], np.finfo(float).tiny)
            others = self.member[~is_known[self.member]]
            result[others] *= share[self.number[others]]
        return result

    def theta_from_prior(self, probability: FloatArray) -> FloatArray:
        """Leaks (n_hidden,) that give every hidden node this probability when its parents are off.

        The inverse of `prior_probability`: theta of node k of a set S is ``log(1 + o_k)`` with
        ``o_k = p_k / (1 - sum of p over S)``.
        """
        result = theta_from_probability(probability)
        if self:
            inside = probability[self.member]
            none = 1.0 - np.add.reduceat(inside, self.ptr[:-1])
            full = np.flatnonzero(none <= 0)
            if full.size:
                raise InvalidNetworkError(
                    "the prior probabilities of a set of alternatives add up to less than 1, the "
                    f"rest is for none of them; those of set {full[0]} add up to "
                    f"{1.0 - none[full[0]]:g}"
                )
            result[self.member] = theta_from_odds(inside / none[self.number[self.member]])
        return result

    def without(self, theta: FloatArray, summed_out: BoolArray) -> FloatArray:
        """Leaks (n_hidden,) of the others when some nodes (n_hidden,) of sets are summed out.

        "None of the others" then holds two cases, so the odds of the others are divided by
        ``1 + sum of o over the nodes that are summed out``.
        """
        result = np.array(theta)
        odds = np.where(summed_out, np.expm1(theta), 0.0)[self.member]
        if odds.any():
            divisor = 1.0 + np.add.reduceat(odds, self.ptr[:-1])[self.number[self.member]]
            changed = self.member[divisor > 1.0]
            result[changed] = np.log1p(np.expm1(theta[changed]) / divisor[divisor > 1.0])
        return result


def as_numbers(alternatives: npt.ArrayLike | None, n_hidden: int) -> IntArray:
    """Number of the set of every hidden node, -1 for none; None says that there are no sets."""
    if alternatives is None:
        return np.full(n_hidden, -1, dtype=np.int32)
    given = np.asarray(alternatives)
    if given.shape != (n_hidden,) or not np.issubdtype(given.dtype, np.integer):
        raise InvalidNetworkError(
            f"alternatives has one whole number for each of {n_hidden} hidden nodes, got "
            f"{given.dtype} of shape {given.shape}"
        )
    used = np.unique(given[given >= 0])
    if given.min() < -1 or not np.array_equal(used, np.arange(len(used))):
        raise InvalidNetworkError(
            "sets of alternatives are numbered 0, 1, ... without gaps, and -1 is none; got "
            f"{np.unique(given)[:10].tolist()}"
        )
    return given.astype(np.int32)


def check_parents(sets: Sets, n_parents: LongArray) -> None:
    """Refuse alternatives with parents; ``n_parents`` (n_hidden,)."""
    below = sets.member[n_parents[sets.member] > 0]
    if below.size:
        raise InvalidNetworkError(
            f"alternatives have no parents, but hidden node {int(below[0])} has "
            f"{int(n_parents[below[0]])}"
        )
