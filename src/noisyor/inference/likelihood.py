"""The number to judge a network by: ``log p`` of rows, with its error and a bound beside it.

Exact where the hidden states can be enumerated. Elsewhere an estimate from a set of explanations
and a few chains, so cheap that ten thousand rows take seconds; `estimate_evidence` takes longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from noisyor._util.arrays import FloatArray
from noisyor._util.validation import check_seed
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.inference.evidence import EvidenceEstimate, explore_configurations
from noisyor.inference.exact import (
    configurations_of,
    log_joint_table,
    log_p_by_states,
    states_can_be_summed,
)
from noisyor.inference.posterior import row_blocks
from noisyor.inference.weighted import content_ids, few_configurations
from noisyor.model.graph import Network

_EFFORT: dict[str, Any] = {"n_samples": 8, "n_expansions": 16, "n_chains": 8, "n_steps": 16}
_EFFORT_IF_LARGE: dict[str, Any] = {"n_samples": 4, "n_expansions": 8, "n_chains": 4, "n_steps": 16}
_LARGE = 5000
"""Edges from which a network is large: one to three milliseconds a row below, a dozen above."""


@dataclass(frozen=True, eq=False)
class LogProbability(EvidenceEstimate):
    """``log p`` of rows, in nats; exact, or an estimate.

    ``per_row``, ``mean`` and ``standard_error`` as in `Score`, ``error`` and ``mean_error`` as in
    `EvidenceEstimate`, zero if exact; ``bound`` (n_rows,) what a set of explanations guarantees;
    ``exact`` whether all hidden states were enumerated.

    Examples
    --------
    >>> import numpy as np
    >>> from noisyor.inference import LogProbability
    >>> one = LogProbability(np.array([-2.0]), np.zeros(1), np.array([-2.5]), False)
    >>> one.mean, one.bound_mean
    (-2.0, -2.5)
    """

    bound: FloatArray
    exact: bool

    @property
    def bound_mean(self) -> float:
        """Mean of the bound over rows."""
        return float(np.average(self.bound, weights=self.weights))


def log_probability(
    network: Network,
    X: Any,
    *,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> LogProbability:
    """``log p`` of every row: exact if the hidden states are few, else an estimate.

    Rows that are the same get the same value, whatever rows are beside them. Unobserved visibles
    are summed out.

    Parameters
    ----------
    network : the network.
    X : rows in any form that `Observations.of` takes.
    seed : key of the samples; those of a row depend on the seed and on what the row holds.
    engine : as in `explain`.
    progress : show a progress bar; None shows it on a terminal only.

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     3, 2, failure_probability=[[0.1, 0.1, 1.0], [1.0, 1.0, 0.1]], prior_probability=0.3
    ... )
    >>> found = nor.inference.log_probability(network, np.array([[1, 1, 0], [0, 0, 1]]))
    >>> found.exact, found.per_row.round(2)
    (True, array([-1.74, -1.66]))
    """
    seed = check_seed(seed)
    observations = Observations.of(X, n_visible=network.n_visible)
    rows, numbers = observations.unique_rows()
    if states_can_be_summed(network) or few_configurations(network):
        summed = states_can_be_summed(network)
        value = log_p_by_states(network, rows) if summed else _enumerated(network, rows, progress)
        value = value[numbers]
        error, bound, exact = np.zeros(len(value)), value, True
    else:
        found = explore_configurations(
            network,
            Observations.of(rows.with_weights(None), row_ids=content_ids(rows)),
            **(_EFFORT if network.n_edges < _LARGE else _EFFORT_IF_LARGE),
            seed=seed,
            engine=engine,
            progress=progress,
        )
        parts = (found.log_evidence, found.log_error, found.log_sum)
        value, error, bound = (part[numbers] for part in parts)
        exact = False
    return LogProbability(value, error, bound, exact, weights=observations.weights)


def _enumerated(network: Network, rows: Observations, progress: bool | None) -> FloatArray:
    states = configurations_of(network)
    parts = [
        logsumexp(log_joint_table(network, states, some.to_dense().astype(np.float64)), axis=1)
        for some, _ in row_blocks(rows, None, 8 * len(states), progress, task="enumerate")
    ]
    return np.concatenate(parts)
