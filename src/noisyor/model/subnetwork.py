"""Barren-node removal: the part of a network that matters for a row.

A node that is not observed and has nothing observed below it says nothing about other nodes, so it
can be left out. A handful of findings in a network of thousands leaves little to work on. Of a set
of alternatives, nodes that are left out are summed out: the priors of the others change for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisyor._util.arrays import BoolArray, LongArray
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError
from noisyor.model.graph import Network

__all__ = ["Subnetwork", "relevant_subnetwork"]


class Subnetwork(NamedTuple):
    """A part of a network and of a row, and where its nodes are in the whole.

    ``network`` and ``row`` are the part; its visible nodes are ``visible`` and its hidden nodes
    ``hidden`` of the whole, both as rising indices.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(2, 1, failure_probability=[[0.1, 0.5]])
    >>> row = nor.Observations.from_evidence(2, present=[0])
    >>> part = nor.model.relevant_subnetwork(network, row)
    >>> part.network.n_visible, part.visible.tolist()
    (1, [0])
    """

    network: Network
    row: Observations
    visible: LongArray
    hidden: LongArray


def relevant_subnetwork(network: Network, row: Observations) -> Subnetwork:
    """The observed visible nodes of one row, and all hidden nodes above them.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.from_edges(3, 2, [(0, 0), (0, 1), (1, 2)])
    >>> part = nor.model.relevant_subnetwork(network, nor.Observations.from_evidence(3, [1]))
    >>> part.visible.tolist(), part.hidden.tolist()
    ([1], [0])
    """
    observed = np.ones(row.n_visible, dtype=np.bool_)
    observed[row.missing_columns[row.missing_ptr[0] : row.missing_ptr[1]]] = False
    visible, hidden = np.flatnonzero(observed), _above(network, observed)
    if not len(hidden):
        raise InvalidDataError("nothing was observed that any cause could explain")
    if len(visible) == network.n_visible and len(hidden) == network.n_hidden:
        return Subnetwork(network, row, visible, hidden)
    present = np.searchsorted(visible, row.columns[row.ptr[0] : row.ptr[1]])
    part = Observations.from_indices([present], len(visible), row_ids=row.row_ids)
    return Subnetwork(_part(network, visible, hidden), part, visible, hidden)


def _above(network: Network, observed: BoolArray) -> LongArray:
    """Hidden nodes with an observed visible below them."""
    reached = np.zeros(network.n_nodes, dtype=np.bool_)
    reached[: network.n_visible] = observed
    while True:  # one level upwards a round
        above = np.unique(network.parent[reached[network.edge_child]]) + network.n_visible
        if reached[above].all():
            return np.flatnonzero(reached[network.n_visible :])
        reached[above] = True


def _part(network: Network, visible: LongArray, hidden: LongArray) -> Network:
    """The network of some visible nodes and all hidden nodes above them."""
    nodes = np.concatenate([visible, network.n_visible + hidden])
    new_number = np.full(network.n_hidden, -1, dtype=np.int64)
    new_number[hidden] = np.arange(len(hidden))
    edges = np.concatenate(
        [np.arange(network.child_ptr[i], network.child_ptr[i + 1]) for i in nodes]
    )
    counts = np.diff(network.child_ptr)[nodes]
    leak_param, theta, free = network.leak_param[nodes], network.theta, network.free
    if network.sets:
        # Priors get entries of their own, behind the others: what is tied may change differently.
        leak = theta[network.leak_param[network.n_visible :]]
        priors = network.sets.without(leak, new_number < 0)[hidden]
        leak_param = np.r_[leak_param[: len(visible)], len(theta) + np.arange(len(hidden))]
        theta = np.r_[theta, priors]
        free = np.r_[free, free[network.leak_param[network.n_visible + hidden]]]
    # Only the parameters that are used: a few findings of a large network have few.
    used, number = np.unique(np.r_[network.param[edges], leak_param], return_inverse=True)
    return Network(
        n_visible=len(visible),
        n_hidden=len(hidden),
        child_ptr=np.concatenate([[0], np.cumsum(counts)]),
        parent=new_number[network.parent[edges]].astype(np.int32),
        param=number[: len(edges)].astype(np.int32),
        leak_param=number[len(edges) :].astype(np.int32),
        theta=theta[used],
        free=free[used],
        alternatives=network.sets.of_some(hidden),
    )
