"""What else is likely in a row, and what to ask next: findings that are not known yet.

Given the causes, findings are independent. So likely configurations of the causes, with weights,
give the probability of every finding, what its answer would tell about the causes, and what would
be believed after either answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisyor._util.arrays import BoolArray, FloatArray, LongArray
from noisyor._util.validation import check_count
from noisyor.data.observations import Observations
from noisyor.diagnosis.belief import Belief, RankingMethod, believe, enumerable
from noisyor.diagnosis.forecast import Edges, Forecast, forecast
from noisyor.diagnosis.ranking import Cause, Differential, rank_causes
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidDataError
from noisyor.model.forward import prior_marginals, sample
from noisyor.model.graph import Network
from noisyor.model.labels import hidden_label, visible_label
from noisyor.model.subnetwork import Subnetwork, relevant_subnetwork

__all__ = ["Interview", "Interviewer", "LikelyFinding", "Question", "interview"]

_QUICK_CELLS = 600_000  # of a table of all configurations: it takes a few tens of milliseconds
_PRIOR_DRAWS = 256
_LEAST_GAIN = 1e-4


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
    n_samples: int = 48,
    seed: int = 0,
    engine: EngineLike = "auto",
) -> Interview:
    """Causes of one row, what else is likely in it, and what to ask next.

    Made to answer at once: causes are enumerated where that takes milliseconds, and drawn by Gibbs
    sweeps elsewhere. For many rows of one network see `Interviewer`.

    Parameters
    ----------
    network : the network.
    row : one row; what is not observed is asked for. It may be empty.
    top : number of causes, likely findings and questions.
    method : as in `differential`; None for the fast choice.
    n_samples : chains or samples.
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
    asking = Interviewer(network, n_samples=n_samples, seed=seed, engine=engine)
    return asking.ask(row, top=top, method=method)


class Interviewer:
    """Interviews of one network; what does not depend on the row is computed once.

    Parameters
    ----------
    network, n_samples, seed, engine : as in `interview`.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(2, 1, failure_probability=[[0.1, 0.5]])
    >>> asking = nor.diagnosis.Interviewer(network)
    >>> asking.ask(nor.Observations.from_evidence(2, present=[0])).likely[0].name
    'column 1'
    """

    def __init__(
        self,
        network: Network,
        *,
        n_samples: int = 48,
        seed: int = 0,
        engine: EngineLike = "auto",
    ) -> None:
        self.network = network
        self._n_samples, self._seed, self._engine = n_samples, seed, engine
        self._edges = Edges.of(network)

    @cached_property
    def base(self) -> FloatArray:
        """(n_visible,) probability of every finding when nothing is known."""
        nothing = Belief(
            *(np.zeros(0), np.zeros(0), np.zeros(0, np.uint8), 0.0),
            *(np.zeros((1, 0), np.uint8), np.ones(1), "", self.network.n_layers == 1),
        )
        return forecast(self.network, self._edges, np.zeros(0, dtype=np.int64), nothing).chance

    def ask(
        self, row: Observations, *, top: int = 10, method: RankingMethod | None = None
    ) -> Interview:
        """An interview of one row; see `interview`."""
        check_count("top", top)
        network, unknown = self.network, self._unknown(row)
        if _has_causes(network, ~unknown):
            part, belief = self._believe(row, method)
            ranked = rank_causes(network, part, belief, top=top)
            ahead = forecast(network, self._edges, part.hidden, belief)
            chance = np.where(unknown, ahead.chance, 0.0)
        else:
            ranked = _before(network, row, top)
            prior = _prior(network, self._seed)
            ahead = forecast(network, self._edges, np.arange(network.n_hidden), prior)
            chance = np.where(unknown, self.base, 0.0)
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
                LikelyFinding(i, visible_label(network, i), float(chance[i]), float(self.base[i]))
                for i in order.tolist()
            ),
            questions=_questions(network, ahead, unknown, top),
            probability=ranked.probability,
            visible=chance,
        )

    def probability(self, row: Observations) -> FloatArray:
        """(n_hidden,) probability of every cause: that of an interview, without the rest of it."""
        if not _has_causes(self.network, ~self._unknown(row)):
            return prior_marginals(self.network)
        part, belief = self._believe(row, None)
        return prior_marginals(self.network, part.hidden, belief.probability)

    def _believe(
        self, row: Observations, method: RankingMethod | None
    ) -> tuple[Subnetwork, Belief]:
        part = relevant_subnetwork(self.network, row)
        if method is None:
            method = "exact" if enumerable(part, _QUICK_CELLS) else "sweeps"
        return part, believe(part, method, self._n_samples, self._seed, self._engine)

    def _unknown(self, row: Observations) -> BoolArray:
        if row.n_rows != 1:
            raise InvalidDataError(f"an interview is about one row, got {row.n_rows}")
        unknown = np.zeros(self.network.n_visible, dtype=np.bool_)
        unknown[row.missing_columns] = True
        return unknown


# ---- before anything is known


def _has_causes(network: Network, observed: BoolArray) -> bool:
    """Whether something observed has a parent."""
    n_parents = np.diff(network.child_ptr[: network.n_visible + 1])
    return bool((observed & (n_parents > 0)).any())


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


# ---- questions


def _questions(
    network: Network, ahead: Forecast, unknown: BoolArray, top: int
) -> tuple[Question, ...]:
    gain = np.where(unknown, ahead.gain, 0.0)
    order = np.argsort(-gain, kind="stable")[:top]
    order = order[gain[order] >= _LEAST_GAIN]
    if_present, if_absent = (_leaders(network, ahead, order, present) for present in (True, False))
    return tuple(
        Question(i, visible_label(network, i), float(gain[i]), float(ahead.chance[i]), one, other)
        for i, one, other in zip(order.tolist(), if_present, if_absent, strict=True)
    )


def _leaders(
    network: Network, ahead: Forecast, findings: LongArray, present: bool
) -> list[tuple[str, float]]:
    """The cause that each answer changes most, and its probability then."""
    if not len(findings):
        return []
    before = ahead.weights @ ahead.states
    after = ahead.causes_after(findings, present)
    most = np.argmax(np.abs(after - before), axis=1)
    return [
        (hidden_label(network, int(ahead.hidden[k])), float(chances[k]))
        for k, chances in zip(most.tolist(), after, strict=True)
    ]
