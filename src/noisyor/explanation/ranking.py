"""Rank the causes of one row by posterior probability, and list the findings that each explains.

Only causes above something observed matter, so the row is reduced to a subnetwork first. Its
posterior is enumerated if that is cheap, and otherwise estimated by sampling; every result states
the method. Observed and unobserved visible nodes are called findings: a finding is present, absent
or unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor._util.validation import check_choice, check_count, check_seed
from noisyor.data.columns import suggest
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike, Evidence, NoiseKey
from noisyor.engines.registry import Runner
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.explanation.attribution import attribute_findings
from noisyor.inference.exact import (
    MAX_HIDDEN,
    check_possible,
    hidden_configurations,
    log_joint_table,
)
from noisyor.inference.sampling import chain_settings, explore_configurations, find_starts
from noisyor.model.forward import prior_marginals
from noisyor.model.names import hidden_label, visible_label
from noisyor.model.network import FittedModel, Network, Subnetwork, network_of, relevant_subnetwork

FindingState = Literal["present", "absent", "unknown"]
RankingMethod = Literal["auto", "exact", "chains", "sweeps"]

_MAX_ENUMERATED_CAUSES = 14
_MAX_TABLE_CELLS = 4_000_000
_MAX_WEIGHTED_STATES = 200
_N_STARTS = 16  # explanations that chains start from, and that findings are attributed by
_BURN_IN_SWEEPS = 4
_N_KEPT_SWEEPS, _THINNING = 4, 2  # consecutive sweeps are strongly correlated
_WEIGHT_OF_BEST = 0.01  # so that causes of the best explanation always explain something
_MIN_SHARE = 0.05  # smaller shares of a finding are not listed


@dataclass(frozen=True)
class ExplainedFinding:
    """A present finding, and the share of it that is due to a cause when that cause is on."""

    index: int
    name: str
    share: float


@dataclass(frozen=True)
class Cause:
    """A cause of a row.

    Attributes
    ----------
    index, name : hidden node.
    probability : posterior given the row.
    error : standard error of the probability, 0 if exact, None if unknown.
    base : probability when nothing is observed.
    in_best : whether the cause belongs to the most likely explanation.
    explains : present findings, the largest share first.
    """

    index: int
    name: str
    probability: float
    error: float | None
    base: float
    in_best: bool
    explains: tuple[ExplainedFinding, ...]


@dataclass(frozen=True, eq=False)
class CauseRanking:
    """The ranked causes of one row.

    Attributes
    ----------
    causes : ancestors of observed nodes, the most probable first.
    best : indices of the causes in the single most likely explanation.
    log_joint : ``log p(best, row)``, with all other causes summed out.
    unexplained : names of present findings that are mostly due to noise.
    method : description of how the probabilities were computed.
    exact : whether the probabilities are exact.
    probability : (n_hidden,) posterior of every cause.
    """

    causes: tuple[Cause, ...]
    best: tuple[int, ...]
    log_joint: float
    unexplained: tuple[str, ...]
    method: str
    exact: bool
    probability: FloatArray


def rank_causes(
    network: Network | FittedModel,
    row: Any,
    *,
    top: int = 10,
    method: RankingMethod = "auto",
    n_samples: int = 64,
    seed: int = 0,
    engine: EngineLike = "auto",
) -> CauseRanking:
    """Rank the causes of one row, the most likely first.

    Parameters
    ----------
    network : a `Network` or a fitted estimator.
    row : one row in any form that `Observations.of` takes, such as one of `named_evidence`;
        unobserved visible nodes are summed out. If nothing was observed that a cause could
        explain, causes are ranked by their prior.
    top : number of causes to describe.
    method : ``"exact"`` enumerates the causes above what was observed; ``"chains"`` runs the chains
        of `marginals`; ``"sweeps"`` are Gibbs sweeps, the fastest and least accurate; ``"auto"``
        enumerates if that is cheap and runs chains otherwise.
    n_samples : number of chains.
    seed, engine : as in `explain`.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     2, 2, failure_probability=[[0.1, 0.99], [0.1, 0.1]], prior_probability=[0.2, 0.05])
    >>> result = nor.explanation.rank_causes(network, nor.Observations.from_evidence(2, [0], [1]))
    >>> [(cause.name, round(cause.probability, 2)) for cause in result.causes]
    [('cause 0', 0.94), ('cause 1', 0.03)]
    """
    network = network_of(network)
    row = one_row(network, row)
    if not has_causes(network, row):
        return _prior_ranking(network, row, top)
    part = relevant_subnetwork(network, row)
    posterior = cause_posterior(part, method, n_samples, seed, engine)
    return describe_causes(network, part, posterior, top=top)


def _prior_ranking(network: Network, row: Observations, top: int) -> CauseRanking:
    """Rank causes by their prior, when nothing was observed that they could explain."""
    base = prior_marginals(network)
    return CauseRanking(
        causes=tuple(
            Cause(k, hidden_label(network, k), float(base[k]), 0.0, float(base[k]), False, ())
            for k in np.argsort(-base, kind="stable")[:top].tolist()
        ),
        best=(),
        log_joint=0.0,
        unexplained=tuple(visible_label(network, i) for i in row.columns.tolist()),
        method="nothing known that a cause could explain: prior probabilities",
        exact=network.n_layers == 1,
        probability=base,
    )


# ---- findings by name, and their state in a row


def one_row(network: Network, row: Any) -> Observations:
    """Return a row as `Observations` (1, n_visible)."""
    found = network.rows_of(row)
    if found.n_rows != 1:
        raise InvalidDataError(f"expected one row at a time, got {found.n_rows}")
    return found


def find_visible(network: Network, finding: str | int) -> int:
    """Return the index of a visible node given by name or number.

    Names are matched without case if that is unambiguous. Nodes without names are found as
    ``"column 3"``, or ``"pixel 2,5"`` in an image.

    Raises
    ------
    InvalidDataError : there is no such node; the message lists similar names.
    """
    if not isinstance(finding, str):
        return network.visible_index(finding)
    names = [visible_label(network, i) for i in range(network.n_visible)]
    if finding in names:
        return names.index(finding)
    folded = [i for i, name in enumerate(names) if name.casefold() == finding.casefold()]
    if len(folded) == 1:
        return folded[0]
    number = finding.removeprefix("column ")
    if number.isdecimal() and int(number) < network.n_visible:
        return int(number)
    if network.visible_names is None:
        raise InvalidDataError(
            f"no finding {finding!r}: the columns of this model have no names, give their numbers "
            f"0 to {network.n_visible - 1}"
        )
    raise InvalidDataError(f"no finding {finding!r} in this model{suggest(finding, names)}")


def named_evidence(
    network: Network | FittedModel, present: Iterable[str | int], absent: Iterable[str | int] = ()
) -> Observations:
    """Build a row of findings given by name or index; all other findings are unknown.

    Parameters
    ----------
    network : a network or a fitted estimator; its columns give the names.
    present, absent : names or indices of findings. Case does not matter.

    Returns
    -------
    Observations (1, n_visible).

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(3, 1, visible_names=["fever", "cough", "rash"])
    >>> nor.explanation.named_evidence(network, ["Fever"], ["rash"]).to_dense().tolist()
    [[1.0, nan, 0.0]]
    """
    for findings in (present, absent):
        if isinstance(findings, str | dict):
            raise InvalidDataError(f"findings are a list of names, got {findings!r}")
    network = network_of(network)
    on, off = ({find_visible(network, one): None for one in given} for given in (present, absent))
    both = [visible_label(network, i) for i in on if i in off]
    if both:
        raise InvalidDataError(f"{both[0]!r} is both present and absent")
    return Observations.from_evidence(network.n_visible, on, off)


def present_findings(row: Observations) -> npt.NDArray[np.int32]:
    """Return the indices of the visible nodes that are on in one row."""
    return row.columns[row.ptr[0] : row.ptr[1]]


def state_of_finding(row: Observations, finding: int) -> FindingState:
    """Return whether a finding is present, absent or unknown in one row."""
    value = row.to_dense()[0, finding]
    return "unknown" if np.isnan(value) else "present" if value else "absent"


def has_causes(network: Network, row: Observations) -> bool:
    """Return whether an observed node of the only row has a parent."""
    n_parents = np.diff(network.child_ptr[: network.n_visible + 1])
    n_parents[row.missing_columns[row.missing_ptr[0] : row.missing_ptr[1]]] = 0
    return bool(n_parents.any())


def with_finding(row: Observations, finding: int, state: FindingState) -> Observations:
    """Return the row with the state of one finding replaced."""
    values = row.to_dense()
    values[0, finding] = {"present": 1.0, "absent": 0.0, "unknown": np.nan}[state]
    return Observations.of(values, row_ids=row.row_ids)


# ---- the posterior of the causes


class CausePosterior(NamedTuple):
    """Posterior of the hidden nodes of a subnetwork.

    ``probability`` and ``error`` (n_hidden,), NaN where there is none; ``best`` (n_hidden,) is the
    most likely configuration and ``log_joint`` its log p(h, x); ``states`` (n, n_hidden) are likely
    configurations with ``weights`` (n,) that sum to one.
    """

    probability: FloatArray
    error: FloatArray
    best: BinaryArray
    log_joint: float
    states: BinaryArray
    weights: FloatArray
    method: str
    exact: bool


def cause_posterior(
    part: Subnetwork, method: RankingMethod, n_samples: int, seed: int, engine: EngineLike
) -> CausePosterior:
    """Compute the posterior of the hidden nodes of a subnetwork; see `rank_causes` for methods."""
    check_choice("method", method, get_args(RankingMethod))
    if is_enumerable(part) if method == "auto" else method == "exact":
        return _enumerate(part)
    if method == "sweeps":
        return _sweep(part, n_samples, seed, engine)
    return _run_chains(part, n_samples, seed, engine)


def is_enumerable(part: Subnetwork, max_cells: int = _MAX_TABLE_CELLS) -> bool:
    """Return whether the table of all configurations is small, at most ``max_cells`` entries."""
    n_states = 1 << part.network.n_hidden
    return n_states <= 2**_MAX_ENUMERATED_CAUSES and part.network.n_nodes * n_states <= max_cells


def _enumerate(part: Subnetwork) -> CausePosterior:
    """Compute exact probabilities, and keep the most likely configurations."""
    n_hidden, n_states = len(part.hidden), 1 << part.network.n_hidden
    if n_states > 2**MAX_HIDDEN:
        raise InvalidSettingError(
            f"{n_hidden} causes are related to the findings, at most {MAX_HIDDEN} can be "
            "enumerated; choose another method"
        )
    states = hidden_configurations(part.network.n_hidden)
    values = part.row.to_dense().astype(np.float64)
    log_p = log_joint_table(part.network, states, values)[0]
    check_possible(log_p.max(keepdims=True))
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    likely = np.argsort(-weight, kind="stable")[:_MAX_WEIGHTED_STATES]
    return CausePosterior(
        probability=weight @ states,
        error=np.zeros(n_hidden),
        best=states[likely[0]].astype(np.uint8),
        log_joint=float(log_p[likely[0]]),
        states=states[likely].astype(np.uint8),
        weights=weight[likely] / weight[likely].sum(),
        method=f"exact: all {n_states:,} combinations of {n_hidden} cause{'s' * (n_hidden > 1)}",
        exact=True,
    )


def _run_chains(part: Subnetwork, n_chains: int, seed: int, engine: EngineLike) -> CausePosterior:
    """Estimate probabilities by chains, and draw perturb-and-max-product samples of equal weight.

    Max-product runs twice, for the mode and for the samples. Chains start from both.
    """
    check_count("n_samples", n_chains, 2)
    mode, states = find_starts(part.network, part.row, _N_STARTS, seed=seed, engine=engine)
    found = explore_configurations(
        part.network,
        part.row,
        n_expansions=n_chains,
        **chain_settings(n_chains),
        with_probability=True,
        starts=states,
        seed=seed,
        engine=engine,
    )
    return CausePosterior(
        probability=found.probability[0],
        error=found.error[0],
        best=states[0],
        log_joint=float(mode.log_joint[0]),
        states=states[1:],
        weights=np.full(_N_STARTS, 1.0 / _N_STARTS),
        method=f"estimated: {n_chains} sampling chains, with standard errors",
        exact=False,
    )


def _sweep(part: Subnetwork, n_chains: int, seed: int, engine: EngineLike) -> CausePosterior:
    """Run Gibbs sweeps of chains that start from perturb-and-max-product samples.

    Errors come from the spread of the independent chains. The errors do not include a mode that all
    chains missed.
    """
    check_count("n_samples", n_chains, 2)
    network, key = part.network, check_seed(seed)
    n_starts = min(n_chains, _N_STARTS)
    mode, first = find_starts(network, part.row, n_starts, seed=seed, engine=engine)
    states = np.ascontiguousarray(first[1 + np.arange(n_chains) % n_starts])
    rows = Observations.of(part.row.take([0] * n_chains), row_ids=np.arange(n_chains))
    evidence = Evidence.of(network, rows)
    sweeper, prepared = Runner(engine, network).on("gibbs_sweep")
    kept = []
    for number in range(_BURN_IN_SWEEPS + _THINNING * _N_KEPT_SWEEPS):
        states = sweeper.gibbs_sweep(prepared, evidence, states, NoiseKey(key, number)).states
        if number >= _BURN_IN_SWEEPS and (number - _BURN_IN_SWEEPS + 1) % _THINNING == 0:
            kept.append(states)
    drawn = np.stack(kept)
    of_chain = drawn.mean(axis=0)  # (n_chains, n_hidden)
    distinct, count = np.unique(drawn.reshape(-1, drawn.shape[2]), axis=0, return_counts=True)
    return CausePosterior(
        probability=of_chain.mean(axis=0),
        error=of_chain.std(axis=0, ddof=1) / np.sqrt(n_chains),
        best=first[0],
        log_joint=float(mode.log_joint[0]),
        states=distinct,
        weights=count / count.sum(),
        method=f"estimated: {_N_KEPT_SWEEPS} sweeps of {n_chains} chains, with standard errors",
        exact=False,
    )


# ---- causes in words


def describe_causes(
    network: Network, part: Subnetwork, posterior: CausePosterior, *, top: int = 10
) -> CauseRanking:
    """Rank the causes of a subnetwork by their posterior, with names and explained findings."""
    shares, leak = _average_shares(part, posterior)
    present = part.visible[present_findings(part.row)].tolist()
    names = [visible_label(network, i) for i in present]
    best = part.hidden[np.flatnonzero(posterior.best)].tolist()
    base = prior_marginals(network)
    causes = []
    for k in np.argsort(-posterior.probability, kind="stable")[:top].tolist():
        index, own = int(part.hidden[k]), shares[[k]].toarray()[0]
        order = np.argsort(-own, kind="stable")
        causes.append(
            Cause(
                index=index,
                name=hidden_label(network, index),
                probability=float(posterior.probability[k]),
                error=None if np.isnan(posterior.error[k]) else float(posterior.error[k]),
                base=float(base[index]),
                in_best=index in best,
                explains=tuple(
                    ExplainedFinding(present[i], names[i], float(own[i]))
                    for i in order.tolist()
                    if own[i] >= _MIN_SHARE
                ),
            )
        )
    return CauseRanking(
        causes=tuple(causes),
        best=tuple(best),
        log_joint=posterior.log_joint,
        unexplained=tuple(name for name, share in zip(names, leak, strict=True) if share > 0.5),
        method=posterior.method,
        exact=posterior.exact,
        probability=prior_marginals(network, part.hidden, posterior.probability),
    )


def _average_shares(part: Subnetwork, posterior: CausePosterior) -> tuple[sp.csr_array, FloatArray]:
    """Return the shares of the present findings, averaged over the configurations of a posterior.

    Sparse (n_hidden, n_present), due to each hidden node when it is on; and (n_present,), due to
    noise.
    """
    states = np.concatenate([posterior.states, posterior.best[None]])
    weights = np.append(posterior.weights, _WEIGHT_OF_BEST)
    found = attribute_findings(part.network, part.row.take([0] * len(states)), states)
    n_present = len(present_findings(part.row))
    finding = np.tile(np.arange(n_present), len(states))  # of each cell, row by row
    average = sp.csr_array(
        (weights[found.row], (finding, np.arange(len(finding)))), shape=(n_present, len(finding))
    )
    total = (average @ found.shares()).T.tocsr()
    on = np.maximum(weights @ states, np.finfo(np.float64).tiny)  # weights may underflow to 0
    total.data /= np.repeat(on, np.diff(total.indptr))
    return total, average @ found.leak / weights.sum()
