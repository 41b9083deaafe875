"""What each cause of a network is worth: what its rows lose if it can never be on."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor.engines.numba.selection import UNOBSERVED
from noisyor.engines.threads import resolve_threads
from noisyor.inference.max_product import MaxProduct
from noisyor.network import FloatArray, Network
from noisyor.objective import log_joint
from noisyor.observations import Observations
from noisyor.searching import sample_rows

__all__ = ["best_causes", "worth_of_causes"]

_MOST_ENTRIES = 2**17
"""Entries of the rows by which causes are compared; beyond, a sample of rows is."""

_DOUBTFUL = 2
"""Causes looked at closely for each one that has to go."""


def worth_of_causes(network: Network, X: Any, *, n_threads: int | None = None) -> FloatArray:
    """How far the mean bound falls without each cause if the others stay as they are.

    The others might take over, so a cause is worth at most this. Shape (n_hidden,).

    Parameters
    ----------
    network : any network.
    X : observations in any form that `Observations.of` takes.
    """
    rows = Observations.of(X, n_visible=network.n_visible)
    posterior = MaxProduct().posterior(network, rows, n_threads=resolve_threads(n_threads))
    states = np.asarray(posterior.states.toarray(), dtype=np.uint8)
    worth = np.zeros(network.n_hidden)
    for cause in range(network.n_hidden):
        on = np.flatnonzero(states[:, cause])
        if len(on):
            without = states[on]
            without[:, cause] = 0
            lost = posterior.log_joint[on] - log_joint(network, without, rows.take(on), n_threads)
            worth[cause] = lost.sum() / rows.n_rows
    return worth


def best_causes(
    network: Network, X: Any, most: int, *, seed: int = 0, n_threads: int | None = None
) -> npt.NDArray[np.int64]:
    """The ``most`` causes without which the bound falls most, in ascending order.

    The least by `worth_of_causes` are looked at again: for these the others may take over.
    """
    excess = network.n_hidden - most
    if excess <= 0:
        return np.arange(network.n_hidden)
    _, rows = sample_rows(Observations.of(X, n_visible=network.n_visible), _MOST_ENTRIES, seed)
    order = np.argsort(worth_of_causes(network, rows, n_threads=n_threads), kind="stable")
    doubtful = order[: _DOUBTFUL * excess + 2]
    method, threads = MaxProduct(), resolve_threads(n_threads)
    left = np.empty(len(doubtful))
    for i, cause in enumerate(doubtful):
        clamp = np.full((1, network.n_hidden), UNOBSERVED, dtype=np.uint8)
        clamp[0, cause] = 0
        posterior = method.posterior(network, rows, clamp=clamp, n_threads=threads)
        left[i] = posterior.log_joint.sum()
    dropped = doubtful[np.argsort(-left, kind="stable")[:excess]]
    return np.setdiff1d(np.arange(network.n_hidden), dropped)
