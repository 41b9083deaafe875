"""Predict the unknown findings of a row, and choose the finding to ask for next.

Given the causes, findings are independent. Weighted configurations of the causes therefore give
the posterior predictive probability of every finding, the information that its answer would bring
about the causes, and the posterior of the causes after either answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from noisyor._util.arrays import BoolArray, FloatArray, LongArray, entropy_bits
from noisyor._util.validation import check_count
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.explanation.ranking import (
    CausePosterior,
    CauseRanking,
    RankingMethod,
    cause_posterior,
    describe_causes,
    has_causes,
    is_enumerable,
    one_row,
    rank_causes,
)
from noisyor.model.forward import edge_matrix, prior_marginals, sample
from noisyor.model.names import hidden_label, visible_label
from noisyor.model.network import FittedModel, Network, Subnetwork, network_of, relevant_subnetwork

_QUICK_TABLE_CELLS = 600_000  # enumerating this many takes a few tens of milliseconds
_N_PRIOR_DRAWS = 256
_MIN_GAIN = 1e-4  # bits; findings that tell less are not asked for
_MIN_CONFIGURATIONS, _MAX_CELLS = 32, 8_000_000
_MIN_PROBABILITY = 1e-300
_DENSE = 0.2  # share of edges above which a product of dense matrices is faster


@dataclass(frozen=True)
class LikelyFinding:
    """An unknown finding, with its probability given the row and when nothing is known."""

    index: int
    name: str
    probability: float
    base: float


@dataclass(frozen=True)
class Question:
    """A finding to ask for.

    Attributes
    ----------
    index, name : visible node.
    gain : expected information about the causes in the answer, in bits.
    probability : that the finding is present.
    if_present, if_absent : the cause whose probability would change most, and that probability.
    """

    index: int
    name: str
    gain: float
    probability: float
    if_present: tuple[str, float]
    if_absent: tuple[str, float]


@dataclass(frozen=True, eq=False)
class NextQuestion:
    """Questions to ask about a row, and what is known before they are answered.

    Attributes
    ----------
    ranking : ranked causes. If nothing is observed, all causes by their prior probability.
    likely : unknown findings, the most probable first.
    questions : findings to ask for, the most informative first.
    visible : (n_visible,) probability of every finding; 0 or 1 for known ones.
    """

    ranking: CauseRanking
    likely: tuple[LikelyFinding, ...]
    questions: tuple[Question, ...]
    visible: FloatArray


def next_question(
    network: Network | FittedModel,
    row: Any,
    *,
    top: int = 10,
    method: RankingMethod | None = None,
    n_samples: int = 48,
    seed: int = 0,
    engine: EngineLike = "auto",
) -> NextQuestion:
    """Choose the findings whose answers are most informative about the causes of one row.

    Causes are enumerated if that takes milliseconds, and sampled by Gibbs sweeps otherwise. For
    many rows of one network use `Interview`.

    Parameters
    ----------
    network : a `Network` or a fitted estimator.
    row : one row in any form that `Observations.of` takes; its unknown findings are candidates. It
        may be empty.
    top : number of causes, likely findings and questions.
    method : as in `rank_causes`; None for the fast choice.
    n_samples : number of chains or samples.
    seed, engine : as in `explain`.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     3, 2, failure_probability=[[0.1, 0.2, 1.0], [1.0, 0.2, 0.1]], prior_probability=0.3)
    >>> row = nor.Observations.from_evidence(3, present=[1])
    >>> found = nor.explanation.next_question(network, row)
    >>> [(finding.name, round(finding.probability, 2)) for finding in found.likely]
    [('column 0', 0.54), ('column 2', 0.54)]
    >>> found.questions[0].name
    'column 0'
    """
    interview = Interview(network, n_samples=n_samples, seed=seed, engine=engine)
    return interview.next_question(row, top=top, method=method)


class Interview:
    """Questions about many rows of one network; results that do not depend on the row are cached.

    Parameters
    ----------
    network, n_samples, seed, engine : as in `next_question`.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(2, 1, failure_probability=[[0.1, 0.5]])
    >>> interview = nor.explanation.Interview(network)
    >>> interview.next_question(nor.Observations.from_evidence(2, present=[0])).likely[0].name
    'column 1'
    """

    def __init__(
        self,
        network: Network | FittedModel,
        *,
        n_samples: int = 48,
        seed: int = 0,
        engine: EngineLike = "auto",
    ) -> None:
        self.network = network = network_of(network)
        self._n_samples, self._seed, self._engine = n_samples, seed, engine
        self._edges = _Edges.of(network)

    @cached_property
    def base(self) -> FloatArray:
        """(n_visible,) probability of every finding when nothing is known."""
        nothing, no_states = np.zeros(0, dtype=np.int64), np.zeros((1, 0), np.uint8)
        found = _posterior_predictive(self.network, self._edges, nothing, no_states, np.ones(1))
        return found.probability

    def next_question(
        self, row: Any, *, top: int = 10, method: RankingMethod | None = None
    ) -> NextQuestion:
        """Choose the findings to ask for next; see the function `next_question`."""
        check_count("top", top)
        network, row = self.network, one_row(self.network, row)
        unknown = np.zeros(network.n_visible, dtype=np.bool_)
        unknown[row.missing_columns] = True
        if has_causes(network, row):
            part, posterior = self._posterior(row, method)
            ranking = describe_causes(network, part, posterior, top=top)
            predictive = _posterior_predictive(
                network, self._edges, part.hidden, posterior.states, posterior.weights
            )
            visible = np.where(unknown, predictive.probability, 0.0)
        else:
            ranking = rank_causes(network, row, top=top)
            # Questions need configurations with weights; draws from the prior serve.
            states = sample(network, _N_PRIOR_DRAWS, seed=self._seed).hidden.toarray()
            weights = np.full(_N_PRIOR_DRAWS, 1.0 / _N_PRIOR_DRAWS)
            every = np.arange(network.n_hidden)
            predictive = _posterior_predictive(network, self._edges, every, states, weights)
            visible = np.where(unknown, self.base, 0.0)
        visible[row.columns] = 1.0
        order = np.flatnonzero(unknown)
        order = order[np.argsort(-visible[order], kind="stable")[:top]]
        return NextQuestion(
            ranking=ranking,
            likely=tuple(
                LikelyFinding(i, visible_label(network, i), float(visible[i]), float(self.base[i]))
                for i in order.tolist()
            ),
            questions=_questions(network, predictive, unknown, top),
            visible=visible,
        )

    def cause_probability(self, row: Observations) -> FloatArray:
        """Return the (n_hidden,) posterior of every cause, without predictions and questions."""
        if not has_causes(self.network, row):
            return prior_marginals(self.network)
        part, posterior = self._posterior(row, None)
        return prior_marginals(self.network, part.hidden, posterior.probability)

    def _posterior(
        self, row: Observations, method: RankingMethod | None
    ) -> tuple[Subnetwork, CausePosterior]:
        part = relevant_subnetwork(self.network, row)
        if method is None:
            method = "exact" if is_enumerable(part, _QUICK_TABLE_CELLS) else "sweeps"
        return part, cause_posterior(part, method, self._n_samples, self._seed, self._engine)


def _questions(
    network: Network, predictive: _Predictive, unknown: BoolArray, top: int
) -> tuple[Question, ...]:
    gain = np.where(unknown, predictive.gain, 0.0)
    order = np.argsort(-gain, kind="stable")[:top]
    order = order[gain[order] >= _MIN_GAIN]
    before, questions = predictive.weights @ predictive.states, []
    for i in order.tolist():
        most_changed = []
        for present in (True, False):
            after = predictive.causes_after(i, present)
            k = int(np.argmax(np.abs(after - before)))
            name = hidden_label(network, int(predictive.hidden[k]))
            most_changed.append((name, float(after[k])))
        name, chance = visible_label(network, i), float(predictive.probability[i])
        questions.append(Question(i, name, float(gain[i]), chance, *most_changed))
    return tuple(questions)


# ---- the posterior predictive distribution


@dataclass(frozen=True, eq=False)
class _Predictive:
    """Findings under weighted configurations of the causes.

    ``hidden`` (n_known,) the causes given by ``states`` (n, n_known) of ``weights`` (n,);
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
    def probability(self) -> FloatArray:
        """(n_visible,) probability of each finding."""
        return np.asarray(1.0 - self.weights @ self.off)

    @cached_property
    def gain(self) -> FloatArray:
        """(n_visible,) mutual information of each finding and the causes, in bits."""
        # The logarithm of ``off`` is minus the total, which is at hand.
        on = 1.0 - self.off
        within = self.off * self.total - on * np.log(np.maximum(on, _MIN_PROBABILITY))
        gain = entropy_bits(self.probability) - self.weights @ within / np.log(2.0)
        return np.asarray(np.maximum(gain, 0.0))

    def causes_after(self, finding: int, present: bool) -> FloatArray:
        """Return the (n_known,) probability of the causes after an answer."""
        off = self.off[:, finding]
        weight = self.weights * (1.0 - off if present else off)
        total = weight.sum()
        return np.asarray((weight / total if total > 0 else self.weights) @ self.states)


def _posterior_predictive(
    network: Network, edges: _Edges, hidden: LongArray, states: np.ndarray, weights: FloatArray
) -> _Predictive:
    """Predict all findings from weighted configurations of the causes ``hidden``.

    The probabilities of the other causes follow from these layer by layer, as in
    `prior_marginals`: causes with a common unknown parent are taken as independent. If there are
    very many configurations of a large network, only the likeliest are used.
    """
    known = np.zeros(network.n_hidden, dtype=np.bool_)
    known[hidden] = True
    n_unknown_edges = int((~known[network.parent]).sum())
    n_used = max(_MIN_CONFIGURATIONS, _MAX_CELLS // max(1, n_unknown_edges))
    used = np.argsort(-weights, kind="stable")[:n_used]
    states, weights = states[used], weights[used] / weights[used].sum()
    q = np.zeros((len(states), network.n_hidden))
    q[:, hidden] = states
    roots = ~known & (network.hidden_levels == 0)
    q[:, roots] = network.prior_probability[roots]
    varies = np.zeros(network.n_hidden, dtype=np.bool_)  # differs between configurations
    for level in range(1, network.n_layers):
        nodes = np.flatnonzero(~known & (network.hidden_levels == level))
        total = edges.total(network.n_visible + nodes, q, known, varies)
        q[:, nodes] = -np.expm1(-total)
        varies[nodes] = True
    total = edges.total(np.arange(network.n_visible), q, known, varies)
    return _Predictive(hidden, states.astype(np.float64), weights, total)


class _Edges(NamedTuple):
    """Edges of a network: theta (n_nodes, n_hidden), dense if many, probabilities, and leaks."""

    theta: sp.csr_array | FloatArray
    probability: sp.csr_array
    leak: FloatArray

    @classmethod
    def of(cls, network: Network) -> _Edges:
        theta = edge_matrix(network)
        is_dense = theta.nnz > _DENSE * np.prod(theta.shape)
        return cls(
            theta.toarray() if is_dense else theta,
            edge_matrix(network, probability=True),
            network.theta[network.leak_param],
        )

    def total(
        self, nodes: LongArray, q: FloatArray, known: BoolArray, varies: BoolArray
    ) -> FloatArray:
        """Return the (n, n_nodes) minus log-probability of nodes to be off.

        A parent that is on with probability q fails to switch a child on with probability 1 - q p.
        This is computed edge by edge for every configuration only for unknown parents that differ
        between configurations.
        """
        columns = np.flatnonzero(known)
        total = self.leak[nodes] + (self.theta[nodes][:, columns] @ q[:, columns].T).T
        if known.all():
            return np.asarray(total)
        chance = self.probability[nodes]
        constant = chance.copy()
        fixed = np.where(~known & ~varies, q[0], 0.0)
        constant.data = _theta_of(constant.data * fixed[chance.indices])
        total = total + np.asarray(constant.sum(axis=1)).ravel()
        if (~known & varies).any():
            columns = np.flatnonzero(~known & varies)
            part = chance[:, columns].tocsr()
            fails = _theta_of(q[:, columns[part.indices]] * part.data)  # (n, n_edges)
            shape = (len(nodes), len(part.data))
            into = sp.csr_array((np.ones(shape[1]), np.arange(shape[1]), part.indptr), shape=shape)
            total = total + (into @ fails.T).T
        return np.asarray(total)


def _theta_of(probability: FloatArray) -> FloatArray:
    """Convert probabilities to parameters; a probability of 1 gets a large finite value."""
    return np.asarray(-np.log1p(-np.minimum(probability, 1.0 - 1e-15)))
