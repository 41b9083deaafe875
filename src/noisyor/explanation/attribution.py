"""Attribute active visible nodes to the hidden nodes that explain them.

In a configuration of hidden states an active node is due to its active parents and to its leak in
proportion to theta: with parents of theta 2 and 1 and a leak of theta 1, half of it is due to the
first parent. The share of a hidden node is passed on to its own parents in the same way.
Explanations of one row and reports of many rows both use this definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from noisyor._util.arrays import BoolArray, FloatArray, LongArray, csr_of
from noisyor.errors import InvalidDataError
from noisyor.model.forward import edge_matrix
from noisyor.model.network import FittedModel, Network, network_of

_BLOCK_EDGES = 4_000_000
_NONE = -1


class Chains(NamedTuple):
    """The hidden nodes that explain each cell, one entry per cell and hidden node.

    ``row``, ``visible``, ``hidden`` (n_entries,), sorted by row and visible; ``direct`` says
    whether the hidden node is a parent of the visible node rather than a further ancestor.
    ``unexplained`` (n_rows,) counts the active visible nodes of each row that are due to noise.
    """

    row: LongArray
    visible: LongArray
    hidden: LongArray
    direct: BoolArray
    unexplained: LongArray

    @property
    def explained_share(self) -> float:
        """Share of the active visible nodes that have a cause; NaN if none is active."""
        caused = int(self.direct.sum())
        total = caused + int(self.unexplained.sum())
        return caused / total if total else float("nan")


@dataclass(frozen=True, eq=False)
class Attribution:
    """Shares of all active visible nodes (cells), and of the active hidden nodes above them.

    Attributes
    ----------
    row, visible : (n_cells,) where each cell is, sorted.
    leak : (n_cells,) share of the cell that is due to noise.
    own : sparse (n_cells, n_active) share that is due to each parent, by its own edge.
    active_hidden : (n_active,) the hidden nodes that are on, row by row.
    active_leak : (n_active,) share of each of them that is due to its own leak.
    above : sparse (n_active, n_active) share that is due to each of its parents.
    n_rows, n_hidden : numbers of rows and of hidden nodes.
    """

    row: LongArray
    visible: LongArray
    leak: FloatArray
    own: sp.csr_array
    active_hidden: LongArray
    active_leak: FloatArray
    above: sp.csr_array
    n_rows: int
    n_hidden: int

    def shares(self) -> sp.csr_array:
        """Return the share of each cell due to each hidden node, directly or through others.

        Sparse (n_cells, n_hidden). The share of a hidden node includes what its hidden children
        explain, so only shares within one layer, with those of the leaks, add up to one.
        """
        total, passed = self.own, self.own @ self.above
        while passed.nnz:
            total = total + passed
            passed = passed @ self.above
        # The active nodes of a cell are those of its row, so none of them meets another here.
        return sp.csr_array(
            (total.data, self.active_hidden[total.indices], total.indptr),
            shape=(len(self.row), self.n_hidden),
        )

    def chains(self) -> Chains:
        """Return the cause of each cell, the cause of that cause, and so on to the roots.

        The cause of a node is the parent with the largest share, unless the share of the leak is
        at least as large. Among equal shares the parent with the lower index is taken.
        """
        cause, further = _largest(self.own, self.leak), _largest(self.above, self.active_leak)
        unexplained = np.bincount(self.row[cause == _NONE], minlength=self.n_rows)
        cell, parts = np.flatnonzero(cause != _NONE), []
        direct = True
        while len(cell):
            active = cause[cell]
            parts.append((cell, self.active_hidden[active], np.full(len(cell), direct)))
            cause[cell], direct = further[active], False
            cell = cell[cause[cell] != _NONE]
        if not parts:
            empty = np.empty(0, dtype=np.int64)
            return Chains(empty, empty, empty, np.empty(0, dtype=np.bool_), unexplained)
        cells, hidden, own = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(cells, kind="stable")
        cells = cells[order]
        return Chains(self.row[cells], self.visible[cells], hidden[order], own[order], unexplained)


def attribute_findings(network: Network | FittedModel, X: Any, states: Any) -> Attribution:
    """Attribute all active visible nodes, given the hidden states of each row.

    Parameters
    ----------
    network : a `Network` or a fitted estimator.
    X : (n_rows, n_visible) in any form that `Observations.of` takes.
    states : (n_rows, n_hidden) of 0 and 1, dense or SciPy sparse, such as ``Posterior.states``.
    """
    network = network_of(network)
    ones = network.rows_of(X).to_csr()
    on = csr_of(states) if sp.issparse(states) else sp.csr_array(np.asarray(states))
    if on.shape != (ones.shape[0], network.n_hidden):
        raise InvalidDataError(
            f"states have shape ({ones.shape[0]}, {network.n_hidden}) for these rows, "
            f"got {on.shape}"
        )
    on = on.astype(np.int64)
    on.eliminate_zeros()
    on.sort_indices()
    on.data = np.arange(1, on.nnz + 1)
    active_row = np.repeat(np.arange(on.shape[0]), np.diff(on.indptr))
    active_hidden = on.indices.astype(np.int64)
    above, active_leak = _due(network, active_row, network.n_visible + active_hidden, on)
    row = np.repeat(np.arange(ones.shape[0]), np.diff(ones.indptr))
    visible = ones.indices.astype(np.int64)
    own, leak = _due(network, row, visible, on)
    return Attribution(
        row=row,
        visible=visible,
        leak=leak,
        own=own,
        active_hidden=active_hidden,
        active_leak=active_leak,
        above=above,
        n_rows=ones.shape[0],
        n_hidden=network.n_hidden,
    )


def _due(
    network: Network, row: LongArray, node: LongArray, on: sp.csr_array
) -> tuple[sp.csr_array, FloatArray]:
    """Return the shares of active nodes due to active parents, sparse (n, n_active), and leaks.

    ``on`` sparse (n_rows, n_hidden) numbers the active hidden nodes from 1.
    """
    theta, blocks = edge_matrix(network), []
    # Dense networks have far more edges than active ones.
    step = max(1, _BLOCK_EDGES // max(1, int(np.diff(network.child_ptr).max())))
    for first in range(0, max(1, len(row)), step):
        edges, active = theta[node[first : first + step]], on[row[first : first + step]]
        found, number = edges * (active > 0), (edges > 0) * active
        found.sort_indices()
        number.sort_indices()
        blocks.append(
            sp.csr_array(
                (found.data, number.data - 1, found.indptr), shape=(found.shape[0], on.nnz)
            )
        )
    parts = sp.vstack(blocks, format="csr")
    leak = network.theta[network.leak_param[node]]
    whole = leak + np.asarray(parts.sum(axis=1)).ravel()
    # A node without any theta cannot be on; it is attributed to its leak.
    scale = np.divide(1.0, whole, out=np.zeros_like(whole), where=whole > 0)
    parts.data *= np.repeat(scale, np.diff(parts.indptr))
    return parts, np.where(whole > 0, leak * scale, 1.0)


def _largest(shares: sp.csr_array, leak: FloatArray) -> LongArray:
    """Return the column of the largest share of each row, or -1 if the leak's is as large."""
    result = np.full(shares.shape[0], _NONE, dtype=np.int64)
    entry = np.repeat(np.arange(shares.shape[0]), np.diff(shares.indptr))
    order = np.lexsort((-shares.indices, shares.data, entry))  # the last of each row is the largest
    last = np.flatnonzero(np.diff(entry[order], append=shares.shape[0]))
    best = order[last] if len(order) else order
    best = best[shares.data[best] > leak[entry[best]]]
    result[entry[best]] = shares.indices[best]
    return result
