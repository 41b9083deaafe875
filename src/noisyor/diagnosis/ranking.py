"""Explanations in words: likely causes with probabilities, what each explains, and what if.

Probabilities are exact where the causes that matter can be enumerated, otherwise estimated by
sampling; every result says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray, LongArray
from noisyor.data.columns import near
from noisyor.data.observations import Observations
from noisyor.diagnosis.attribution import shares_of_findings
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.exact import MAX_HIDDEN, hidden_configurations, log_joint_table
from noisyor.inference.explain import explain
from noisyor.inference.marginals import marginals
from noisyor.inference.max_product import MaxProduct
from noisyor.network.forward import prior_marginals
from noisyor.network.graph import Network
from noisyor.network.labels import hidden_label, visible_label
from noisyor.network.subnetwork import Subnetwork, relevant_subnetwork

__all__ = [
    "Cause",
    "Change",
    "Differential",
    "Explained",
    "differential",
    "find_visible",
    "what_if",
]

Method = Literal["auto", "exact", "chains", "samples"]
Evidence = Literal["present", "absent", "unknown"]

_MOST_ENUMERATED = 14
_MOST_CELLS = 4_000_000
_WEIGHTED_STATES = 200
_SHARE_SAMPLES = 24
_FAINT = 0.05
_MOVED = 0.01


@dataclass(frozen=True)
class Explained:
    """A finding that is present, and how much of it is due to a cause when that cause is on."""

    index: int
    name: str
    share: float


@dataclass(frozen=True)
class Cause:
    """A cause of a row.

    ``probability`` given the row; ``error`` its standard error, 0 if exact, None if not known;
    ``base`` probability when nothing is observed; ``in_best`` whether
    it belongs to the most likely explanation; ``explains`` the findings, the largest share first.
    """

    index: int
    name: str
    probability: float
    error: float | None
    base: float
    in_best: bool
    explains: tuple[Explained, ...]


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
    """

    causes: tuple[Cause, ...]
    best: tuple[int, ...]
    log_joint: float
    unexplained: tuple[str, ...]
    method: str
    exact: bool
    probability: FloatArray


@dataclass(frozen=True)
class Move:
    """A cause whose probability changes; ``away`` names a cause that explains it away, or is ""."""

    index: int
    name: str
    before: float
    after: float
    away: str


@dataclass(frozen=True)
class Change:
    """What happens to the causes if one finding were known otherwise."""

    finding: str
    before: Evidence
    after: Evidence
    moves: tuple[Move, ...]


def differential(
    network: Network,
    row: Observations,
    *,
    top: int = 10,
    method: Method = "auto",
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
    """
    if row.n_rows != 1:
        raise InvalidDataError(f"a differential is of one row, got {row.n_rows}")
    part = relevant_subnetwork(network, row)
    if _enumerable(part) if method == "auto" else method == "exact":
        belief = _enumerated(part)
    else:
        belief = _sampled(part, method, n_samples, seed, engine)
    mode = explain(part.network, part.row, engine=engine)
    best = belief.states[0] if belief.exact else mode.active(0).astype(np.int64)
    shares, leaked = shares_of_findings(
        part.network, _present(part.row), [*belief.states, best], np.append(belief.weights, 0.01)
    )
    chosen = set(part.hidden[best].tolist())
    base = prior_marginals(network)
    causes = tuple(
        Cause(
            index=int(part.hidden[k]),
            name=hidden_label(network, int(part.hidden[k])),
            probability=float(belief.probability[k]),
            error=None if np.isnan(belief.error[k]) else float(belief.error[k]),
            base=float(base[part.hidden[k]]),
            in_best=int(part.hidden[k]) in chosen,
            explains=_explained(network, part, shares.get(int(k), {})),
        )
        for k in np.argsort(-belief.probability, kind="stable")[:top]
    )
    return Differential(
        causes=causes,
        best=tuple(sorted(chosen)),
        log_joint=float(mode.log_joint[0]),
        unexplained=tuple(
            visible_label(network, int(part.visible[i]))
            for i, share in leaked.items()
            if share > 0.5
        ),
        method=belief.words,
        exact=belief.exact,
        probability=prior_marginals(network, part.hidden, belief.probability),
    )


def what_if(
    network: Network,
    row: Observations,
    finding: int,
    *,
    before: Differential | None = None,
    most: int = 8,
    **options: object,
) -> list[Change]:
    """What the causes of a row would be if one finding were known otherwise.

    A finding that is not known is supposed present and absent; one that is known is forgotten, and
    supposed the other way round.

    Parameters
    ----------
    network, row : as in `differential`.
    finding : index of a visible.
    before : the differential of the row, if it is at hand.
    most : number of causes to list.
    options : as of `differential`.
    """
    if before is None:
        before = differential(network, row, **options)  # type: ignore[arg-type]
    now = evidence_of(row, finding)
    every: tuple[Evidence, ...] = ("unknown", "present", "absent")
    others = [evidence for evidence in every if evidence != now]
    changes = []
    for after in others:
        other = differential(network, _with(row, finding, after), **options)  # type: ignore[arg-type]
        rivals = after == "present"  # a finding that is forgotten explains nothing away
        moves = _moves(network, row, before.probability, other.probability, most, rivals)
        changes.append(Change(visible_label(network, finding), now, after, moves))
    return changes


def find_visible(network: Network, text: str) -> int:
    """Index of a visible from its name, in any case if that is not ambiguous, or its number."""
    names = network.visible_names
    if names is not None:
        if text in names:
            return names.index(text)
        folded = [k for k, name in enumerate(names) if name.casefold() == text.casefold()]
        if len(folded) == 1:
            return folded[0]
    number = text.removeprefix("column ")
    if number.isdecimal() and int(number) < network.n_visible:
        return int(number)
    if names is None:
        raise InvalidDataError(
            f"no finding {text!r}: the columns of this model have no names, give their numbers "
            f"0 to {network.n_visible - 1}"
        )
    raise InvalidDataError(f"no finding {text!r} in this model{near(text, names)}")


def evidence_of(row: Observations, finding: int) -> Evidence:
    """What is known of a finding in one row."""
    if finding in _present(row):
        return "present"
    hidden = row.missing_columns[row.missing_ptr[0] : row.missing_ptr[1]]
    return "unknown" if finding in hidden else "absent"


def _present(row: Observations) -> npt.NDArray[np.int32]:
    return row.columns[row.ptr[0] : row.ptr[1]]


def _with(row: Observations, finding: int, evidence: Evidence) -> Observations:
    """The row with one finding known otherwise."""
    ones = {int(k) for k in _present(row)} - {finding}
    missing = {int(k) for k in row.missing_columns[row.missing_ptr[0] : row.missing_ptr[1]]}
    missing -= {finding}
    if evidence == "present":
        ones |= {finding}
    elif evidence == "unknown":
        missing |= {finding}
    return Observations.from_indices(
        [sorted(ones)], row.n_visible, missing=[sorted(missing)], row_ids=row.row_ids
    )


# ---- two ways to the probabilities


class _Belief(NamedTuple):
    """What is known of the causes of a part: probabilities, and configurations with weights."""

    probability: FloatArray
    error: FloatArray
    states: list[LongArray]
    weights: FloatArray
    words: str
    exact: bool


def _enumerable(part: Subnetwork) -> bool:
    n_causes = len(part.hidden)
    return n_causes <= _MOST_ENUMERATED and part.network.n_nodes * 2**n_causes <= _MOST_CELLS


def _enumerated(part: Subnetwork) -> _Belief:
    """Exact probabilities; the most likely configurations, the first of them the best."""
    n_causes = len(part.hidden)
    if n_causes > MAX_HIDDEN:
        raise InvalidSettingError(
            f"{n_causes} causes bear on what was observed, at most {MAX_HIDDEN} can be enumerated; "
            "take another method"
        )
    states = hidden_configurations(n_causes)
    values = part.row.to_dense().astype(np.float64)
    log_p = log_joint_table(part.network, states, values)[0]
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    likely = np.argsort(-weight, kind="stable")[:_WEIGHTED_STATES]
    return _Belief(
        probability=weight @ states,
        error=np.zeros(n_causes),
        states=[np.flatnonzero(states[s]) for s in likely],
        weights=weight[likely] / weight[likely].sum(),
        words=f"exact: all {2**n_causes:,} combinations of {n_causes} causes",
        exact=True,
    )


def _sampled(
    part: Subnetwork, method: Method, n_samples: int, seed: int, engine: EngineLike
) -> _Belief:
    """Estimated probabilities; perturb-and-max-product samples of equal weight."""
    common: dict[str, Any] = {"n_samples": n_samples, "seed": seed, "engine": engine}
    if method == "samples":
        found = marginals(part.network, part.row, "samples", **common)
        words = f"estimated: {n_samples} perturb-and-max-product samples"
    else:
        found = marginals(part.network, part.row, **common)
        words = f"estimated: {n_samples} sampling chains, with standard errors"
    sampler = MaxProduct(temperature=1.0, n_samples=_SHARE_SAMPLES)
    drawn = explain(part.network, part.row, sampler, seed=seed, engine=engine)
    return _Belief(
        probability=found.probability[0],
        error=found.error[0],
        states=[drawn.active(0, s).astype(np.int64) for s in range(_SHARE_SAMPLES)],
        weights=np.full(_SHARE_SAMPLES, 1.0 / _SHARE_SAMPLES),
        words=words,
        exact=False,
    )


# ---- in words


def _explained(
    network: Network, part: Subnetwork, shares: dict[int, float]
) -> tuple[Explained, ...]:
    ranked = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        Explained(i, visible_label(network, i), share)
        for i, share in ((int(part.visible[k]), share) for k, share in ranked)
        if share >= _FAINT
    )


def _moves(
    network: Network,
    row: Observations,
    before: FloatArray,
    after: FloatArray,
    most: int,
    rivalry: bool,
) -> tuple[Move, ...]:
    moved = after - before
    order = np.argsort(-np.abs(moved), kind="stable")[:most]
    order = order[np.abs(moved[order]) >= _MOVED]
    reach = {int(k): _findings_below(network, row, int(k)) for k in order}
    result = []
    for k in order.tolist():
        away = ""
        if rivalry and moved[k] < 0:
            rivals = [j for j in order.tolist() if moved[j] > 0 and reach[j] & reach[k]]
            away = hidden_label(network, rivals[0]) if rivals else ""
        result.append(Move(k, hidden_label(network, k), float(before[k]), float(after[k]), away))
    return tuple(result)


def _findings_below(network: Network, row: Observations, cause: int) -> set[int]:
    """Present findings that a cause can bring about, through at most a few nodes in between."""
    present = {int(i) for i in _present(row)}
    ptr, edges = network.outgoing
    found: set[int] = set()
    waiting, seen = [cause], {cause}
    while waiting:
        k = waiting.pop()
        for edge in edges[ptr[k] : ptr[k + 1]].tolist():
            if network.theta[network.param[edge]] < _FAINT:
                continue
            child = int(network.edge_child[edge])
            if child in present:
                found.add(child)
            elif child >= network.n_visible and child - network.n_visible not in seen:
                seen.add(child - network.n_visible)
                waiting.append(child - network.n_visible)
    return found
