"""What else is likely in a row, and what to ask next: findings that are not known yet.

Given the causes, findings are independent. So likely configurations of the causes, with weights,
give the probability of every finding, what its answer would tell about the causes, and what would
be believed after either answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from noisyor._util.arrays import BoolArray, FloatArray, LongArray
from noisyor._util.numerics import entropy_bits
from noisyor._util.validation import check_count
from noisyor.data.observations import Observations
from noisyor.diagnosis.belief import Belief, RankingMethod, believe, enumerable
from noisyor.diagnosis.ranking import Cause, Differential, rank_causes
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidDataError
from noisyor.network.forward import edge_matrix, prior_marginals, sample
from noisyor.network.graph import Network
from noisyor.network.labels import hidden_label, visible_label
from noisyor.network.subnetwork import relevant_subnetwork

__all__ = ["Interview", "LikelyFinding", "Question", "interview"]

_QUICK_CELLS = 600_000  # of a table of all configurations: it takes a few tens of milliseconds
_PRIOR_DRAWS = 256
_LEAST_GAIN = 1e-4
_LEAST_STATES, _MOST_CELLS = 32, 8_000_000
_DENSE = 0.2  # share of edges from which a product of dense matrices is faster


@dataclass(frozen=True)
class LikelyFinding:
    """A finding that is not known.

    ``probability`` that it is present, given the row; ``base`` when nothing is known.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(2, 1, failure_probability=[[0.1, 0.5]])
    >>> row = nor.Observations.from_evidence(2, present=[0])
    >>> finding = nor.diagnosis.interview(network, row).likely[0]
    >>> finding.name, finding.probability > finding.base
    ('column 1', True)
    """

    index: int
    name: str
    probability: float
    base: float


@dataclass(frozen=True)
class Question:
    """A finding that is worth asking for.

    Attributes
    ----------
    index, name : of the finding.
    gain : information about the causes that the answer is expected to bring, in bits.
    probability : that the finding is present.
    if_present, if_absent : the cause whose probability would change most, and that probability.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(2, 1, failure_probability=[[0.1, 0.5]])
    >>> question = nor.diagnosis.interview(network, nor.Observations.from_evidence(2)).questions[0]
    >>> question.name, question.if_present[0]
    ('column 0', 'cause 0')
    """

    index: int
    name: str
    gain: float
    probability: float
    if_present: tuple[str, float]
    if_absent: tuple[str, float]


@dataclass(frozen=True, eq=False)
class Interview:
    """What is known after some findings, and what is not.

    Attributes
    ----------
    causes : as in `Differential`; before anything was observed, all by how often they are on.
    best, unexplained, method, exact : as in `Differential`.
    likely : findings that are not known, the most probable first.
    questions : findings to ask for, the one that tells most first.
    probability : (n_hidden,) of every cause.
    visible : (n_visible,) probability of every finding, 0 or 1 of those that are known.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(2, 1, failure_probability=[[0.1, 0.5]])
    >>> found = nor.diagnosis.interview(network, nor.Observations.from_evidence(2, present=[0]))
    >>> [cause.name for cause in found.causes], [finding.name for finding in found.likely]
    (['cause 0'], ['column 1'])
    """

    causes: tuple[Cause, ...]
    best: tuple[int, ...]
    unexplained: tuple[str, ...]
    method: str
    exact: bool
    likely: tuple[LikelyFinding, ...]
    questions: tuple[Question, ...]
    probability: FloatArray
    visible: FloatArray


def interview(
    network: Network,
    row: Observations,
    *,
    top: int = 10,
    method: RankingMethod | None = None,
    n_samples: int = 32,
    base: FloatArray | None = None,
    seed: int = 0,
    engine: EngineLike = "auto",
) -> Interview:
    """Causes of one row, what else is likely in it, and what to ask next.

    Made to answer at once: causes are enumerated where that takes milliseconds, and drawn by Gibbs
    sweeps elsewhere.

    Parameters
    ----------
    network : the network.
    row : one row; what is not observed is asked for. It may be empty.
    top : number of causes, likely findings and questions.
    method : as in `differential`; None for the fast choice.
    n_samples : chains or samples.
    base : (n_visible,) probability of every finding when nothing is known, if it is at hand: that
        of an interview of an empty row.
    seed, engine : as in `explain`.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     3, 2, failure_probability=[[0.1, 0.2, 1.0], [1.0, 0.2, 0.1]], prior_probability=0.3)
    >>> row = nor.Observations.from_evidence(3, present=[1])
    >>> found = nor.diagnosis.interview(network, row)
    >>> [(finding.name, round(finding.probability, 2)) for finding in found.likely]
    [('column 0', 0.54), ('column 2', 0.54)]
    >>> found.questions[0].name
    'column 0'
    """
    check_count("top", top)
    if row.n_rows != 1:
        raise InvalidDataError(f"an interview is about one row, got {row.n_rows}")
    if base is None:
        base = _base(network)
    unknown = np.zeros(network.n_visible, dtype=np.bool_)
    unknown[row.missing_columns] = True
    if _has_causes(network, ~unknown):
        part = relevant_subnetwork(network, row)
        if method is None:
            method = "exact" if enumerable(part, _QUICK_CELLS) else "sweeps"
        belief = believe(part, method, n_samples, seed, engine)
        ranked = rank_causes(network, part, belief, top=top)
        ahead = _outlook(network, part.hidden, belief)
        chance = np.where(unknown, ahead.chance, 0.0)
    else:
        ranked = _before(network, row, top)
        ahead = _outlook(network, np.arange(network.n_hidden), _prior(network, seed))
        chance = np.where(unknown, base, 0.0)
    chance[row.columns] = 1.0
    order = np.flatnonzero(unknown)
    order = order[np.argsort(-chance[order], kind="stable")[:top]]
    return Interview(
        causes=ranked.causes,
        best=ranked.best,
        unexplained=ranked.unexplained,
        method=ranked.method,
        exact=ranked.exact,
        likely=tuple(
            LikelyFinding(i, visible_label(network, i), float(chance[i]), float(base[i]))
            for i in order.tolist()
        ),
        questions=_questions(network, ahead, unknown, top),
        probability=ranked.probability,
        visible=chance,
    )


# ---- before anything is known


def _has_causes(network: Network, observed: BoolArray) -> bool:
    """Whether something observed has a parent."""
    n_parents = np.diff(network.child_ptr[: network.n_visible + 1])
    return bool((observed & (n_parents > 0)).any())


def _base(network: Network) -> FloatArray:
    """(n_visible,) probability of every finding, all causes summed out."""
    nothing = Belief(
        *(np.zeros(0), np.zeros(0), np.zeros(0, np.uint8), 0.0),
        *(np.zeros((1, 0), np.uint8), np.ones(1), "", network.n_layers == 1),
    )
    return _outlook(network, np.zeros(0, dtype=np.int64), nothing).chance


def _prior(network: Network, seed: int) -> Belief:
    """Draws from the model as what is believed of all causes."""
    states = sample(network, _PRIOR_DRAWS, seed=seed).hidden.toarray()
    weights = np.full(_PRIOR_DRAWS, 1.0 / _PRIOR_DRAWS)
    nothing = np.zeros(network.n_hidden)
    mean = states.mean(axis=0)
    return Belief(mean, nothing, nothing.astype(np.uint8), 0.0, states, weights, "", False)


def _before(network: Network, row: Observations, top: int) -> Differential:
    """Causes by how often they are on, when nothing was observed that they could explain."""
    base = prior_marginals(network)
    return Differential(
        causes=tuple(
            Cause(k, hidden_label(network, k), float(base[k]), 0.0, float(base[k]), False, ())
            for k in np.argsort(-base, kind="stable")[:top].tolist()
        ),
        best=(),
        log_joint=0.0,
        unexplained=tuple(visible_label(network, i) for i in row.columns.tolist()),
        method="nothing known that a cause could explain: how often each is on",
        exact=network.n_layers == 1,
        probability=base,
    )


# ---- findings given causes


@dataclass(frozen=True, eq=False)
class _Outlook:
    """Findings under weighted configurations of the causes.

    ``hidden`` (n_known,) the causes that are known by ``states`` (n, n_known) of ``weights`` (n,);
    ``on`` (n, n_visible) probability of each finding under each of them.
    """

    hidden: LongArray
    states: FloatArray
    weights: FloatArray
    on: FloatArray

    @cached_property
    def chance(self) -> FloatArray:
        """(n_visible,) probability of each finding."""
        return np.asarray(self.weights @ self.on)

    @cached_property
    def gain(self) -> FloatArray:
        """(n_visible,) information about the causes in each answer, in bits."""
        return np.maximum(entropy_bits(self.chance) - self.weights @ entropy_bits(self.on), 0.0)

    def causes_after(self, finding: int, present: bool) -> FloatArray:
        """(n_known,) probability of the causes after an answer."""
        likely = self.on[:, finding] if present else 1.0 - self.on[:, finding]
        weight = self.weights * likely
        total = float(weight.sum())
        return np.asarray(weight @ self.states / total) if total > 0 else self.weights @ self.states


def _outlook(network: Network, hidden: LongArray, belief: Belief) -> _Outlook:
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
    edges = _Edges(edge_matrix(network), edge_matrix(network, probability=True), known)
    for level in range(1, network.n_layers):
        nodes = np.flatnonzero(~known & (network.hidden_levels == level))
        q[:, nodes] = _on(network, edges, network.n_visible + nodes, q, varies)
        varies[nodes] = True
    on = _on(network, edges, np.arange(network.n_visible), q, varies)
    return _Outlook(hidden, states.astype(np.float64), weights, on)


class _Edges(NamedTuple):
    """Theta and probabilities of the edges, (n_nodes, n_hidden), and which parents are known."""

    theta: sp.csr_array
    probability: sp.csr_array
    known: BoolArray


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


def _on(
    network: Network, edges: _Edges, nodes: LongArray, q: FloatArray, varies: BoolArray
) -> FloatArray:
    """(n, n_nodes) probability of nodes under each configuration.

    A parent that is on with probability q fails to switch a child on with 1 - q p. Only of parents
    that are not known, and differ between configurations, is that taken edge by edge.
    """
    chance, known = edges.probability[nodes], np.flatnonzero(edges.known)
    same = ~edges.known & ~varies
    constant = chance.copy()
    constant.data = _theta(constant.data * np.where(same, q[0], 0.0)[constant.indices])
    total = network.theta[network.leak_param[nodes]] + np.asarray(constant.sum(axis=1)).ravel()
    theta = edges.theta[nodes][:, known]
    if theta.nnz > _DENSE * np.prod(theta.shape):
        theta = theta.toarray()
    total = total + (theta @ q[:, known].T).T
    if varies.any():
        columns = np.flatnonzero(varies)
        part = chance[:, columns].tocsr()
        fails = _theta(q[:, columns[part.indices]] * part.data)  # (n, n_edges)
        shape = (len(nodes), len(part.data))
        into = sp.csr_array((np.ones(shape[1]), np.arange(shape[1]), part.indptr), shape=shape)
        total = total + (into @ fails.T).T
    return np.asarray(-np.expm1(-total))


def _theta(probability: FloatArray) -> FloatArray:
    """Parameters of probabilities; those of certainty are large instead of infinite."""
    return np.asarray(-np.log1p(-np.minimum(probability, 1.0 - 1e-15)))


# ---- questions


def _questions(
    network: Network, ahead: _Outlook, unknown: BoolArray, top: int
) -> tuple[Question, ...]:
    gain = np.where(unknown, ahead.gain, 0.0)
    order = np.argsort(-gain, kind="stable")[:top]
    return tuple(
        Question(
            index=i,
            name=visible_label(network, i),
            gain=float(gain[i]),
            probability=float(ahead.chance[i]),
            if_present=_leader(network, ahead, i, True),
            if_absent=_leader(network, ahead, i, False),
        )
        for i in order.tolist()
        if gain[i] >= _LEAST_GAIN
    )


def _leader(network: Network, ahead: _Outlook, finding: int, present: bool) -> tuple[str, float]:
    """The cause that an answer changes most, and its probability then."""
    before = ahead.weights @ ahead.states
    after = ahead.causes_after(finding, present)
    k = int(np.argmax(np.abs(after - before)))
    return hidden_label(network, int(ahead.hidden[k])), float(after[k])
