"""Who explains what: the shares of present findings that are due to each cause."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BoolArray, FloatArray, LongArray
from noisyor.network.graph import Network

__all__ = ["shares_of_findings"]


def shares_of_findings(
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
