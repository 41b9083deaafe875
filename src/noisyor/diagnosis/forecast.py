"""Probabilities of findings, given what is believed of the causes.

Some causes are known by likely configurations with weights; the others follow from these, layer by
layer. Given all causes, findings are independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from noisyor._util.arrays import BoolArray, FloatArray, IntArray, LongArray
from noisyor._util.numerics import entropy_bits
from noisyor.diagnosis.belief import Belief
from noisyor.model.forward import edge_matrix
from noisyor.model.graph import Network

__all__ = ["Edges", "Forecast", "forecast"]

_LEAST_STATES, _MOST_CELLS = 32, 8_000_000
_TINY = 1e-300
_DENSE = 0.2  # share of edges from which a product of dense matrices is faster


@dataclass(frozen=True, eq=False)
class Forecast:
    """Findings under weighted configurations of the causes.

    ``hidden`` (n_known,) the causes that are known by ``states`` (n, n_known) of ``weights`` (n,);
    ``total`` (n, n_visible) minus the log-probability of each finding to be off under each.
    """

    hidden: LongArray
    states: FloatArray
    weights: FloatArray
    total: FloatArray

    @cached_property
    def off(self) -> FloatArray:
        """(n, n_visible) probability of each finding to be off under each configuration."""
        return np.asarray(np.exp(-self.total))

    @cached_property
    def chance(self) -> FloatArray:
        """(n_visible,) probability of each finding."""
        return np.asarray(1.0 - self.weights @ self.off)

    @cached_property
    def gain(self) -> FloatArray:
        """(n_visible,) information about the causes in each answer, in bits."""
        # The logarithm of ``off`` is known: it is the total.
        on = 1.0 - self.off
        within = self.off * self.total - on * np.log(np.maximum(on, _TINY))
        gain = entropy_bits(self.chance) - self.weights @ within / np.log(2.0)
        return np.asarray(np.maximum(gain, 0.0))

    def causes_after(self, findings: LongArray, present: bool) -> FloatArray:
        """(n_findings, n_known) probability of the causes after each answer."""
        likely = self.off[:, findings]
        weight = self.weights[:, None] * (1.0 - likely if present else likely)
        total = weight.sum(axis=0)[:, None]
        now = np.broadcast_to(self.weights @ self.states, (len(findings), len(self.hidden)))
        after = np.divide(weight.T @ self.states, total, out=now.copy(), where=total > 0)
        return np.asarray(after)


def forecast(network: Network, edges: Edges, hidden: LongArray, belief: Belief) -> Forecast:
    """Findings when some causes are known by their configurations, and the others follow from them.

    The probabilities of the others given the known ones go from layer to layer, as in
    `prior_marginals`: others with a common unknown parent are taken as independent. Of very many
    configurations of a large network the likeliest are enough.
    """
    known = np.zeros(network.n_hidden, dtype=np.bool_)
    known[hidden] = True
    most = max(_LEAST_STATES, _MOST_CELLS // max(1, int((~known[network.parent]).sum())))
    chosen = np.argsort(-belief.weights, kind="stable")[:most]
    states, weights = belief.states[chosen], belief.weights[chosen] / belief.weights[chosen].sum()
    q = np.zeros((len(states), network.n_hidden))
    q[:, hidden] = states
    varies = np.zeros(network.n_hidden, dtype=np.bool_)  # not known, nor the same everywhere
    _roots(network, q, known, varies)
    for level in range(1, network.n_layers):
        nodes = np.flatnonzero(~known & (network.hidden_levels == level))
        total = edges.total(network.n_visible + nodes, q, known, varies)
        q[:, nodes] = -np.expm1(-total)
        varies[nodes] = True
    total = edges.total(np.arange(network.n_visible), q, known, varies)
    return Forecast(hidden, states.astype(np.float64), weights, total)


def _roots(network: Network, q: FloatArray, known: BoolArray, varies: BoolArray) -> None:
    """Fill in causes that are not known and have no parents; alternatives exclude each other."""
    prior, sets = network.prior_probability, network.sets
    free = ~known & (network.hidden_levels == 0)
    q[:, free] = prior[free]
    for members in np.split(sets.member, sets.ptr[1:-1]) if sets else []:
        given, rest = members[known[members]], members[~known[members]]
        if len(given) and len(rest):
            none = 1.0 - q[:, given].sum(axis=1)
            left = max(1.0 - prior[given].sum(), np.finfo(float).tiny)
            q[:, rest] = none[:, None] * prior[rest] / left
            varies[rest] = True


class Edges(NamedTuple):
    """Edges of a network: theta (n_nodes, n_hidden), dense if many, probabilities, and leaks.

    ``number`` (n_hidden,) the set of alternatives of each hidden node, -1 for none.
    """

    theta: sp.csr_array | FloatArray
    probability: sp.csr_array
    leak: FloatArray
    number: IntArray

    @classmethod
    def of(cls, network: Network) -> Edges:
        """Those of a network."""
        theta = edge_matrix(network)
        is_dense = theta.nnz > _DENSE * np.prod(theta.shape)
        return cls(
            theta.toarray() if is_dense else theta,
            edge_matrix(network, probability=True),
            network.theta[network.leak_param],
            network.sets.number,
        )

    def total(
        self, nodes: LongArray, q: FloatArray, known: BoolArray, varies: BoolArray
    ) -> FloatArray:
        """(n, n_nodes) minus the log-probability of nodes to be off under each configuration.

        A parent that is on with probability q fails to switch a child on with 1 - q p. Only of
        parents that are not known, and differ between configurations, is that taken edge by edge.
        """
        columns = np.flatnonzero(known)
        total = self.leak[nodes] + (self.theta[nodes][:, columns] @ q[:, columns].T).T
        if known.all():
            return np.asarray(total)
        chance = self.probability[nodes]
        apart = ~known & (self.number < 0)
        constant = chance.copy()
        constant.data = _theta(constant.data * np.where(apart & ~varies, q[0], 0.0)[chance.indices])
        total = total + np.asarray(constant.sum(axis=1)).ravel()
        if (apart & varies).any():
            columns = np.flatnonzero(apart & varies)
            part = chance[:, columns].tocsr()
            fails = _theta(q[:, columns[part.indices]] * part.data)  # (n, n_edges)
            shape = (len(nodes), len(part.data))
            into = sp.csr_array((np.ones(shape[1]), np.arange(shape[1]), part.indptr), shape=shape)
            total = total + (into @ fails.T).T
        for one in np.unique(self.number[~known & (self.number >= 0)]).tolist():
            # No two of a set act, so that their probabilities add up.
            members = np.flatnonzero(~known & (self.number == one))
            total = total + _theta((chance[:, members] @ q[:, members].T).T)
        return np.asarray(total)


def _theta(probability: FloatArray) -> FloatArray:
    """Parameters of probabilities; those of certainty are large instead of infinite."""
    return np.asarray(-np.log1p(-np.minimum(probability, 1.0 - 1e-15)))
