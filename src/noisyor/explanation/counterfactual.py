"""Counterfactuals: how the posterior of the causes shifts if one finding had another state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor._util.arrays import FloatArray
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.explanation.ranking import (
    CauseRanking,
    FindingState,
    RankingMethod,
    find_visible,
    one_row,
    present_findings,
    rank_causes,
    state_of_finding,
    with_finding,
)
from noisyor.model.forward import edge_matrix
from noisyor.model.names import hidden_label, visible_label
from noisyor.model.network import FittedModel, Network, network_of

_MAX_SHIFTS, _MIN_SHIFT = 8, 0.01
"""Largest number of shifts that are listed, and the smallest shift."""

_MIN_THETA = 0.05


@dataclass(frozen=True)
class CauseShift:
    """A cause whose probability shifts.

    ``explained_away_by`` is the name of the cause that explains it away, or "".
    """

    index: int
    name: str
    before: float
    after: float
    explained_away_by: str


@dataclass(frozen=True)
class Counterfactual:
    """The causes whose probabilities shift if one finding had another state."""

    finding: str
    before: FindingState
    after: FindingState
    shifts: tuple[CauseShift, ...]


def what_if(
    network: Network | FittedModel,
    row: Any,
    finding: str | int,
    *,
    before: CauseRanking | None = None,
    method: RankingMethod = "auto",
    n_samples: int = 64,
    seed: int = 0,
    engine: EngineLike = "auto",
) -> list[Counterfactual]:
    """Compute how the causes of a row would shift if one finding had another state.

    Each of the two other states among present, absent and unknown is tried.

    Parameters
    ----------
    network, row : as in `rank_causes`.
    finding : name or index of a visible node.
    before : ranking of the row, if it is already known.
    method, n_samples, seed, engine : as in `rank_causes`.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     2, 2, failure_probability=[[0.1, 0.99], [0.1, 0.1]], prior_probability=[0.2, 0.05])
    >>> row = nor.Observations.from_evidence(2, present=[0])
    >>> present, absent = nor.explanation.what_if(network, row, 1)
    >>> [(shift.name, shift.explained_away_by) for shift in present.shifts]
    [('cause 1', ''), ('cause 0', 'cause 1')]
    """
    network = network_of(network)
    row = one_row(network, row)

    def probability(one: Observations) -> FloatArray:
        return rank_causes(
            network, one, method=method, n_samples=n_samples, seed=seed, engine=engine
        ).probability

    known = probability(row) if before is None else before.probability
    index = find_visible(network, finding)
    now = state_of_finding(row, index)
    every: tuple[FindingState, ...] = ("unknown", "present", "absent")
    found = []
    for after in every:
        if after == now:
            continue
        other = probability(with_finding(row, index, after))
        rivalry = after == "present"  # only a present finding can explain causes away
        shifts = cause_shifts(network, row, known, other, rivalry)
        found.append(Counterfactual(visible_label(network, index), now, after, shifts))
    return found


def cause_shifts(
    network: Network,
    row: Observations,
    before: FloatArray,
    after: FloatArray,
    rivalry: bool = False,
) -> tuple[CauseShift, ...]:
    """List the causes whose probability (n_hidden,) shifts, the largest shift first.

    With ``rivalry``, a cause that falls is explained away by the cause that rises most and can
    cause one of the same present findings of the row.
    """
    change = after - before
    order = np.argsort(-np.abs(change), kind="stable")[:_MAX_SHIFTS]
    order = order[np.abs(change[order]) >= _MIN_SHIFT]
    reach = _reach(network, present_findings(row))
    result = []
    for k in order.tolist():
        rival = ""
        if rivalry and change[k] < 0:
            rivals = [j for j in order[change[order] > 0] if (reach[[j]] * reach[[k]]).nnz]
            rival = hidden_label(network, int(rivals[0])) if rivals else ""
        name = hidden_label(network, k)
        result.append(CauseShift(k, name, float(before[k]), float(after[k]), rival))
    return tuple(result)


def _reach(network: Network, findings: npt.NDArray[np.int32]) -> sp.csr_array:
    """Return which causes can switch which findings on, also through others, (n_hidden, n)."""
    edges = (edge_matrix(network) >= _MIN_THETA).astype(np.float64)
    reach = direct = edges[findings].T.tocsr()
    for _ in range(network.n_layers - 1):
        reach = direct + edges[network.n_visible :].T @ reach
    return reach
