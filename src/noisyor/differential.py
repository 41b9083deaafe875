"""Explanations in words: likely causes with probabilities, what each explains, and what if.

Probabilities are exact where the causes that matter can be enumerated, otherwise estimated by
sampling; every result says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.explanation import explain
from noisyor.inference.exact import hidden_configurations, log_joint_table
from noisyor.inference.max_product import MaxProduct
from noisyor.marginalization import marginals
from noisyor.naming import hidden_label, visible_label
from noisyor.network import BoolArray, FloatArray, LongArray, Network
from noisyor.observations import Observations
from noisyor.tables.columns import near

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
    ``base`` probability when nothing is observed and its own causes are off; ``in_best`` whether
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
    causes : by falling probability; where it is exact, only causes that what was observed bears on.
    best : indices of the causes in the single most likely explanation.
    log_joint : its ``log p(causes, row)``.
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
    n_threads: int | None = None,
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
    seed, n_threads : as in `explain`.
    """
    if row.n_rows != 1:
        raise InvalidDataError(f"a differential is of one row, got {row.n_rows}")
    relevant = _relevant(network, row)
    error: FloatArray | None
    if _enumerable(relevant, row) if method == "auto" else method == "exact":
        probability, states, weights = _enumerated(network, row, relevant)
        error = np.zeros(network.n_hidden)
        words = f"exact: all {2 ** len(relevant):,} combinations of {len(relevant)} causes"
        best, ranked = states[0], relevant
    else:
        common: dict[str, Any] = {"n_samples": n_samples, "seed": seed, "n_threads": n_threads}
        if method == "samples":
            found = marginals(network, row, "samples", **common)
            words = f"estimated: {n_samples} perturb-and-max-product samples"
        else:
            found = marginals(network, row, **common)
            words = f"estimated: {n_samples} sampling chains, with standard errors"
        probability, error = found.probability[0], found.error[0]
        sampler = MaxProduct(temperature=1.0, n_samples=_SHARE_SAMPLES)
        drawn = explain(network, row, sampler, seed=seed, n_threads=n_threads)
        states = [drawn.active(0, s).astype(np.int64) for s in range(_SHARE_SAMPLES)]
        weights = np.full(_SHARE_SAMPLES, 1.0 / _SHARE_SAMPLES)
        ranked = np.arange(network.n_hidden)
    mode = explain(network, row, n_threads=n_threads)
    exact = words.startswith("exact")
    if not exact:
        best = mode.active(0).astype(np.int64)
        states, weights = [*states, best], np.append(weights, 1.0 / _SHARE_SAMPLES)
    log_joint = float(mode.log_joint[0])
    shares, leaked = _shares(network, _present(row), states, weights)
    order = ranked[np.argsort(-probability[ranked], kind="stable")[:top]]
    chosen = set(best.tolist())
    causes = tuple(
        Cause(
            index=int(k),
            name=hidden_label(network, int(k)),
            probability=float(probability[k]),
            error=None if np.isnan(error[k]) else float(error[k]),
            base=float(network.prior_probability[k]),
            in_best=int(k) in chosen,
            explains=_explained(network, shares.get(int(k), {})),
        )
        for k in order
    )
    unexplained = tuple(visible_label(network, i) for i, share in leaked.items() if share > 0.5)
    return Differential(
        causes, tuple(sorted(chosen)), log_joint, unexplained, words, exact, probability
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


# ---- enumeration of the causes above what was observed


def _observed(row: Observations) -> BoolArray:
    observed = np.ones(row.n_visible, dtype=np.bool_)
    observed[row.missing_columns[row.missing_ptr[0] : row.missing_ptr[1]]] = False
    return observed


def _relevant(network: Network, row: Observations) -> LongArray:
    """Causes above an observed visible; what is observed says nothing new about any other one."""
    reached = np.zeros(network.n_nodes, dtype=np.bool_)
    reached[: network.n_visible] = _observed(row)
    while True:  # one level upwards a round
        above = np.unique(network.parent[reached[network.edge_child]]) + network.n_visible
        if reached[above].all():
            return np.flatnonzero(reached[network.n_visible :])
        reached[above] = True


def _enumerable(relevant: LongArray, row: Observations) -> bool:
    cells = (len(relevant) + int(_observed(row).sum())) * 2 ** min(len(relevant), 40)
    return len(relevant) <= _MOST_ENUMERATED and cells <= _MOST_CELLS


def _enumerated(
    network: Network, row: Observations, relevant: LongArray
) -> tuple[FloatArray, list[LongArray], FloatArray]:
    """Probability of every cause, and the most likely configurations with their weights."""
    if len(relevant) == 0:
        raise InvalidDataError("nothing was observed that any cause could explain")
    observed = np.flatnonzero(_observed(row))
    part = _part(network, observed, relevant)
    states = hidden_configurations(part.n_hidden)
    values = row.to_dense().astype(np.float64)[:, observed]
    log_p = log_joint_table(part, states, values)[0]
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    probability = _unobserved_probability(network, relevant, weight @ states)
    likely = np.argsort(-weight, kind="stable")[:_WEIGHTED_STATES]
    kept = [relevant[np.flatnonzero(states[s])] for s in likely]
    return probability, kept, weight[likely] / weight[likely].sum()


def _unobserved_probability(
    network: Network, relevant: LongArray, of_relevant: FloatArray
) -> FloatArray:
    """Fill in the causes that nothing observed bears on, which are not ranked.

    Without causes of their own they keep their prior; below others, those are taken as independent.
    """
    probability = np.zeros(network.n_hidden)
    probability[relevant] = of_relevant
    known = np.zeros(network.n_hidden, dtype=np.bool_)
    known[relevant] = True
    for k in np.argsort(network.hidden_levels, kind="stable"):
        if not known[k]:
            node = network.n_visible + int(k)
            edges = slice(network.child_ptr[node], network.child_ptr[node + 1])
            on = probability[network.parent[edges]]
            failing = 1 - on + on * np.exp(-network.theta[network.param[edges]])
            probability[k] = 1 - np.exp(-network.theta[network.leak_param[node]]) * failing.prod()
    return probability


def _part(network: Network, visibles: LongArray, hidden: LongArray) -> Network:
    """The network of some visibles and all causes above them."""
    if len(hidden) > 20:
        raise InvalidSettingError(
            f"{len(hidden)} causes bear on what was observed, at most 20 can be enumerated; "
            "take another method"
        )
    nodes = np.concatenate([visibles, network.n_visible + hidden])
    new_number = np.full(network.n_hidden, -1, dtype=np.int64)
    new_number[hidden] = np.arange(len(hidden))
    edges = np.concatenate(
        [np.arange(network.child_ptr[i], network.child_ptr[i + 1]) for i in nodes]
    )
    counts = np.diff(network.child_ptr)[nodes]
    return Network(
        n_visible=len(visibles),
        n_hidden=len(hidden),
        child_ptr=np.concatenate([[0], np.cumsum(counts)]),
        parent=new_number[network.parent[edges]].astype(np.int32),
        param=network.param[edges],
        leak_param=network.leak_param[nodes],
        theta=network.theta,
        free=network.free,
    )


# ---- who explains what


def _shares(
    network: Network,
    present: npt.NDArray[np.int32],
    states: Sequence[LongArray],
    weights: FloatArray,
) -> tuple[dict[int, dict[int, float]], dict[int, float]]:
    """For each cause the share of each present finding due to it, given that it is on.

    Within a configuration an active node is due to its active parents and its leak in proportion
    to theta; the share of a hidden node is passed on to its own parents too. Also returned: the
    share of each finding that is due to its leak.
    """
    total: dict[int, dict[int, float]] = {}
    on_weight: dict[int, float] = {}
    leaked = {int(i): 0.0 for i in present}
    all_weight = float(sum(weights))
    for active, weight in zip(states, weights, strict=True):
        on = np.zeros(network.n_hidden, dtype=np.bool_)
        on[active] = True
        for k in active.tolist():
            on_weight[k] = on_weight.get(k, 0.0) + float(weight)
        upwards = {k: _due(network, network.n_visible + k, on) for k in active.tolist()}
        bottom_up = sorted(active.tolist(), key=lambda k: -network.hidden_levels[k])
        for i in leaked:
            direct, leak = _due(network, i, on)
            leaked[i] += leak * float(weight) / all_weight
            share = dict(direct)
            for k in bottom_up:
                if k in share:
                    for parent, part in upwards[k][0]:
                        share[parent] = share.get(parent, 0.0) + share[k] * part
            for k, value in share.items():
                of_cause = total.setdefault(k, {})
                of_cause[i] = of_cause.get(i, 0.0) + value * float(weight)
    for k, of_cause in total.items():
        for i in of_cause:
            of_cause[i] /= on_weight[k]
    return total, leaked


def _due(network: Network, node: int, on: BoolArray) -> tuple[list[tuple[int, float]], float]:
    """Shares of an active node due to its active parents, and to its leak."""
    edges = slice(network.child_ptr[node], network.child_ptr[node + 1])
    parents = network.parent[edges]
    acting = on[parents]
    theta = network.theta[network.param[edges]][acting]
    leak = float(network.theta[network.leak_param[node]])
    whole = leak + float(theta.sum())
    if whole <= 0:
        return [], 1.0
    pairs = zip(parents[acting].tolist(), (theta / whole).tolist(), strict=True)
    return list(pairs), leak / whole


def _explained(network: Network, shares: dict[int, float]) -> tuple[Explained, ...]:
    ranked = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        Explained(i, visible_label(network, i), share) for i, share in ranked if share >= _FAINT
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
