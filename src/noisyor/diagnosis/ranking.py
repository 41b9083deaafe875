"""Ranked causes of one row: with probabilities, and with what each of them explains.

Probabilities are exact where the causes that matter can be enumerated, otherwise estimated by
sampling; every result says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from noisyor._util.arrays import BinaryArray, FloatArray, LongArray
from noisyor._util.validation import check_choice
from noisyor.data.observations import Observations
from noisyor.diagnosis.attribution import attribute_findings
from noisyor.diagnosis.findings import present_findings
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.evidence import find_starts
from noisyor.inference.exact import (
    MAX_HIDDEN,
    check_possible,
    configurations_of,
    log_joint_table,
    n_configurations,
)
from noisyor.inference.marginals import marginals
from noisyor.network.forward import prior_marginals
from noisyor.network.graph import Network
from noisyor.network.labels import hidden_label, visible_label
from noisyor.network.subnetwork import Subnetwork, relevant_subnetwork

__all__ = ["Cause", "Differential", "ExplainedFinding", "RankingMethod", "differential"]

RankingMethod = Literal["auto", "exact", "chains", "samples"]
_METHODS: tuple[RankingMethod, ...] = ("auto", "exact", "chains", "samples")

_WORDS = {
    "chains": "sampling chains, with standard errors",
    "samples": "perturb-and-max-product samples",
}
_MAX_ENUMERATED = 14
_MAX_CELLS = 4_000_000
_WEIGHTED_STATES = 200
_START_SAMPLES = 16  # explanations from which chains start, and by which findings are attributed
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
        ``"samples"`` are those of `marginals`; ``"auto"`` enumerates where that is cheap and
        runs chains elsewhere.
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
    check_choice("method", method, _METHODS)
    part = relevant_subnetwork(network, row)
    if _enumerable(part) if method == "auto" else method == "exact":
        belief = _enumerated(part)
    else:
        belief = _sampled(part, method, n_samples, seed, engine)
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


# ---- two ways to the probabilities


class _Belief(NamedTuple):
    """What is known of the hidden nodes of a part: probabilities, and weighted configurations.

    ``best`` (n_hidden,) is the most likely configuration, ``log_joint`` its log p(h, x);
    ``states`` (n, n_hidden) are likely ones, with ``weights`` (n,) that add up to one.
    """

    probability: FloatArray
    error: FloatArray
    best: BinaryArray
    log_joint: float
    states: BinaryArray
    weights: FloatArray
    words: str
    exact: bool


def _enumerable(part: Subnetwork) -> bool:
    n_states = n_configurations(part.network)
    return n_states <= 2**_MAX_ENUMERATED and part.network.n_nodes * n_states <= _MAX_CELLS


def _enumerated(part: Subnetwork) -> _Belief:
    """Exact probabilities, and the most likely configurations."""
    n_hidden, n_states = len(part.hidden), n_configurations(part.network)
    if n_states > 2**MAX_HIDDEN:
        raise InvalidSettingError(
            f"{n_hidden} causes bear on what was observed, at most {MAX_HIDDEN} can be enumerated; "
            "take another method"
        )
    states = configurations_of(part.network)
    values = part.row.to_dense().astype(np.float64)
    log_p = log_joint_table(part.network, states, values)[0]
    check_possible(log_p.max(keepdims=True))
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    likely = np.argsort(-weight, kind="stable")[:_WEIGHTED_STATES]
    return _Belief(
        probability=weight @ states,
        error=np.zeros(n_hidden),
        best=states[likely[0]].astype(np.uint8),
        log_joint=float(log_p[likely[0]]),
        states=states[likely].astype(np.uint8),
        weights=weight[likely] / weight[likely].sum(),
        words=f"exact: all {n_states:,} combinations of {n_hidden} cause{'s' * (n_hidden > 1)}",
        exact=True,
    )


def _sampled(
    part: Subnetwork, method: RankingMethod, n_samples: int, seed: int, engine: EngineLike
) -> _Belief:
    """Estimated probabilities, and perturb-and-max-product samples of equal weight.

    Max-product runs twice, for the mode and for the samples. Chains start from both.
    """
    by_samples = method == "samples"
    n_drawn = n_samples if by_samples else _START_SAMPLES
    starts = find_starts(part.network, part.row, n_drawn, seed=seed, engine=engine)
    found = marginals(
        part.network,
        part.row,
        "samples" if by_samples else "chains",
        n_samples=n_samples,
        starts=starts,
        seed=seed,
        engine=engine,
    )
    states = starts.states()
    return _Belief(
        probability=found.probability[0],
        error=found.error[0],
        best=states[0],
        log_joint=float(starts.mode.log_joint[0]),
        states=states[1:],
        weights=np.full(n_drawn, 1.0 / n_drawn),
        words=f"estimated: {n_samples} {_WORDS[found.method]}",
        exact=False,
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


def _shares(part: Subnetwork, belief: _Belief) -> _Shares:
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
