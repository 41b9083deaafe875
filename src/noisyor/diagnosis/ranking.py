"""Ranked causes of one row: with probabilities, and with what each of them explains.

Probabilities are exact where the causes that matter can be enumerated, otherwise estimated by
sampling; every result says which.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from noisyor._util.arrays import FloatArray, LongArray
from noisyor.data.observations import Observations
from noisyor.diagnosis.attribution import attribute_findings
from noisyor.diagnosis.belief import Belief, RankingMethod, believe
from noisyor.diagnosis.findings import find_visibles, present_findings
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidDataError
from noisyor.model.forward import prior_marginals
from noisyor.model.graph import Network
from noisyor.model.labels import hidden_label, visible_label
from noisyor.model.subnetwork import Subnetwork, relevant_subnetwork

__all__ = ["Cause", "Differential", "ExplainedFinding", "diagnose", "differential", "rank_causes"]

_WEIGHT_OF_BEST = 0.01  # so that causes of the best explanation always have something to explain
_FAINT = 0.05


@dataclass(frozen=True)
class ExplainedFinding:
    """A finding that is present, and how much of it is due to a cause when that cause is on.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(2, 1, failure_probability=[[0.1, 0.5]])
    >>> row = nor.Observations.from_evidence(2, present=[0])
    >>> cause = nor.diagnosis.differential(network, row).causes[0]
    >>> [(item.name, item.share > 0.9) for item in cause.explains]
    [('column 0', True)]
    """

    index: int
    name: str
    share: float


@dataclass(frozen=True)
class Cause:
    """A cause of a row.

    ``probability`` given the row; ``error`` its standard error, 0 if exact, None if not known;
    ``base`` probability when nothing is observed; ``in_best`` whether it belongs to the most likely
    explanation; ``explains`` the findings, the largest share first.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(2, 1, failure_probability=[[0.1, 0.5]])
    >>> row = nor.Observations.from_evidence(2, present=[0])
    >>> cause = nor.diagnosis.differential(network, row).causes[0]
    >>> cause.name, round(cause.base, 2), round(cause.probability, 2)
    ('cause 0', 0.1, 0.91)
    """

    index: int
    name: str
    probability: float
    error: float | None
    base: float
    in_best: bool
    explains: tuple[ExplainedFinding, ...]


@dataclass(frozen=True, eq=False)
class Differential:
    """The causes of one row.

    Attributes
    ----------
    causes : those above something observed, by falling probability.
    best : indices of the causes in the single most likely explanation.
    log_joint : its ``log p(causes, row)``, causes above nothing observed summed out.
    unexplained : names of findings that are present and mostly due to no cause.
    method : how the probabilities were found, in words.
    exact : whether they are exact.
    probability : (n_hidden,) of every cause.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(2, 1, failure_probability=[[0.1, 0.5]])
    >>> row = nor.Observations.from_evidence(2, present=[0])
    >>> result = nor.diagnosis.differential(network, row)
    >>> result.best, result.method
    ((0,), 'exact: all 2 combinations of 1 cause')
    """

    causes: tuple[Cause, ...]
    best: tuple[int, ...]
    log_joint: float
    unexplained: tuple[str, ...]
    method: str
    exact: bool
    probability: FloatArray


def differential(
    network: Network,
    row: Observations,
    *,
    top: int = 10,
    method: RankingMethod = "auto",
    n_samples: int = 64,
    seed: int = 0,
    engine: EngineLike = "auto",
) -> Differential:
    """Causes of one row, the most likely first.

    Parameters
    ----------
    network : the network.
    row : one row; unobserved visibles are summed out.
    top : number of causes to describe.
    method : ``"exact"`` enumerates the causes above what was observed; ``"chains"`` and
        ``"samples"`` are those of `marginals`; ``"sweeps"`` are Gibbs sweeps, the fastest and least
        accurate; ``"auto"`` enumerates where that is cheap and runs chains elsewhere.
    n_samples : chains or samples.
    seed, engine : as in `explain`.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     2, 2, failure_probability=[[0.1, 0.99], [0.1, 0.1]], prior_probability=[0.2, 0.05])
    >>> result = nor.diagnosis.differential(network, nor.Observations.from_evidence(2, [0], [1]))
    >>> [(cause.name, round(cause.probability, 2)) for cause in result.causes]
    [('cause 0', 0.94), ('cause 1', 0.03)]
    """
    if row.n_rows != 1:
        raise InvalidDataError(f"a differential is of one row, got {row.n_rows}")
    part = relevant_subnetwork(network, row)
    return rank_causes(network, part, believe(part, method, n_samples, seed, engine), top=top)


def diagnose(
    network: Network,
    present: Iterable[str | int],
    absent: Iterable[str | int] = (),
    *,
    top: int = 10,
    n_samples: int = 32,
    seed: int = 0,
    engine: EngineLike = "auto",
) -> Differential:
    """Rank the causes of findings given by name; all other findings are unknown.

    Parameters
    ----------
    network : causes and findings.
    present, absent : findings by name or number. An unknown name raises `InvalidDataError` with
        the most similar ones.
    top : number of causes to describe.
    n_samples : sampling chains.
    seed : key of the samples.
    engine : as in `explain`.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.from_edges(
    ...     2, 2, [("flu", "fever"), ("cold", "cough")], failure_probability=0.1,
    ...     visible_names=["fever", "cough"], hidden_names=["flu", "cold"])
    >>> result = nor.diagnosis.diagnose(network, present=["Fever"], absent=["cough"])
    >>> [(cause.name, round(cause.probability, 2)) for cause in result.causes]
    [('flu', 0.91), ('cold', 0.01)]
    """
    row = Observations.from_evidence(
        network.n_visible, find_visibles(network, present), find_visibles(network, absent)
    )
    return differential(network, row, top=top, n_samples=n_samples, seed=seed, engine=engine)


def rank_causes(
    network: Network, part: Subnetwork, belief: Belief, *, top: int = 10
) -> Differential:
    """The causes of the row of a part of a network, from what is believed of them."""
    shares = _shares(part, belief)
    best = part.hidden[np.flatnonzero(belief.best)].tolist()
    base = prior_marginals(network)
    causes = tuple(
        Cause(
            index=int(part.hidden[k]),
            name=hidden_label(network, int(part.hidden[k])),
            probability=float(belief.probability[k]),
            error=None if np.isnan(belief.error[k]) else float(belief.error[k]),
            base=float(base[part.hidden[k]]),
            in_best=int(part.hidden[k]) in best,
            explains=_explained(network, shares, int(k)),
        )
        for k in np.argsort(-belief.probability, kind="stable")[:top]
    )
    return Differential(
        causes=causes,
        best=tuple(best),
        log_joint=belief.log_joint,
        unexplained=tuple(
            visible_label(network, i)
            for i, share in zip(shares.visible.tolist(), shares.leak, strict=True)
            if share > 0.5
        ),
        method=belief.words,
        exact=belief.exact,
        probability=prior_marginals(network, part.hidden, belief.probability),
    )


# ---- who explains what


class _Shares(NamedTuple):
    """Shares of the present findings, averaged over the configurations of a belief.

    ``visible`` (n_present,) of the whole network; ``of_hidden`` sparse (n_hidden, n_present) due to
    each hidden node of the part when it is on; ``leak`` (n_present,) due to noise.
    """

    visible: LongArray
    of_hidden: sp.csr_array
    leak: FloatArray


def _shares(part: Subnetwork, belief: Belief) -> _Shares:
    states = np.concatenate([belief.states, belief.best[None]])
    weights = np.append(belief.weights, _WEIGHT_OF_BEST)
    found = attribute_findings(part.network, part.row.take([0] * len(states)), states)
    present = present_findings(part.row)
    finding = np.tile(np.arange(len(present)), len(states))  # of each cell, row by row
    average = sp.csr_array(
        (weights[found.row], (finding, np.arange(len(finding)))),
        shape=(len(present), len(finding)),
    )
    total = (average @ found.shares()).T.tocsr()
    on = np.maximum(weights @ states, np.finfo(np.float64).tiny)  # weights may underflow to 0
    total.data /= np.repeat(on, np.diff(total.indptr))
    return _Shares(part.visible[present], total, average @ found.leak / weights.sum())


def _explained(network: Network, shares: _Shares, hidden: int) -> tuple[ExplainedFinding, ...]:
    part = slice(*shares.of_hidden.indptr[hidden : hidden + 2])
    visible, share = shares.visible[shares.of_hidden.indices[part]], shares.of_hidden.data[part]
    return tuple(
        ExplainedFinding(int(visible[i]), visible_label(network, int(visible[i])), float(share[i]))
        for i in np.lexsort((visible, -share))
        if share[i] >= _FAINT
    )
