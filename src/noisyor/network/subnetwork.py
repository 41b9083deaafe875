"""The part of a network that concerns a row: what was observed, and the causes above it.

What is not observed and has nothing observed below it says nothing about other nodes, so it can be
left out. A handful of findings in a network of thousands leaves little to work on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisyor._util.arrays import BoolArray, FloatArray, LongArray
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError
from noisyor.network.graph import Network

__all__ = ["Concerned", "concerned_by", "forwards"]


class Concerned(NamedTuple):
    """A part of a network and of a row, and where its nodes are in the whole.

    ``network`` and ``row`` are the part; its visibles are ``visibles`` and its causes ``causes`` of
    the whole.
    """

    network: Network
    row: Observations
    visibles: LongArray
    causes: LongArray


def concerned_by(network: Network, row: Observations) -> Concerned:
    """The observed visibles of one row and all causes above them."""
    observed = np.ones(row.n_visible, dtype=np.bool_)
    observed[row.missing_columns[row.missing_ptr[0] : row.missing_ptr[1]]] = False
    visibles, causes = np.flatnonzero(observed), _above(network, observed)
    if not len(causes):
        raise InvalidDataError("nothing was observed that any cause could explain")
    if len(visibles) == network.n_visible and len(causes) == network.n_hidden:
        return Concerned(network, row, visibles, causes)
    present = np.searchsorted(visibles, row.columns[row.ptr[0] : row.ptr[1]])
    part = Observations.from_indices([present], len(visibles), row_ids=row.row_ids)
    return Concerned(_part(network, visibles, causes), part, visibles, causes)


def forwards(network: Network, known: LongArray, of_known: FloatArray) -> FloatArray:
    """Probability of every cause from those of some, or of none, that nothing observed bears on.

    Without causes of its own a cause keeps its prior; below others, those are taken as independent.
    """
    probability = network.prior_probability
    probability[known] = of_known
    waiting = np.diff(network.child_ptr)[network.n_visible :] > 0
    waiting[known] = False
    below = np.flatnonzero(waiting)
    for k in below[np.argsort(network.hidden_levels[below], kind="stable")]:
        node = network.n_visible + int(k)
        edges = slice(network.child_ptr[node], network.child_ptr[node + 1])
        on = probability[network.parent[edges]]
        failing = 1 - on + on * np.exp(-network.theta[network.param[edges]])
        probability[k] = 1 - np.exp(-network.theta[network.leak_param[node]]) * failing.prod()
    return probability


def _above(network: Network, observed: BoolArray) -> LongArray:
    """Causes with an observed visible below them."""
    reached = np.zeros(network.n_nodes, dtype=np.bool_)
    reached[: network.n_visible] = observed
    while True:  # one level upwards a round
        above = np.unique(network.parent[reached[network.edge_child]]) + network.n_visible
        if reached[above].all():
            return np.flatnonzero(reached[network.n_visible :])
        reached[above] = True


def _part(network: Network, visibles: LongArray, hidden: LongArray) -> Network:
    """The network of some visibles and all causes above them."""
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
