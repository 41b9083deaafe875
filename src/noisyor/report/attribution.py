"""Which cause explains which observation, given the causes that are on in each row.

An active node is put down to the active parent that pushes it hardest, or to its leak if that is
stronger than every active parent. Going up from parent to parent gives the chain of causes of a
word in a document.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray, LongArray
from noisyor.data.observations import Observations
from noisyor.network.graph import Network

__all__ = ["Attribution", "attribute"]

_BLOCK_EDGES = 4_000_000
NOBODY = -1


class Attribution(NamedTuple):
    """Chains of causes, one entry per active visible and cause in its chain.

    ``row``, ``visible``, ``cause`` (n_entries,), sorted by row and visible; ``direct`` tells
    whether the cause is the visible's own parent, not one further up. ``unexplained`` (n_rows,)
    counts the active visibles of each row that are left to noise.
    """

    row: LongArray
    visible: LongArray
    cause: LongArray
    direct: np.ndarray[Any, np.dtype[np.bool_]]
    unexplained: LongArray

    @property
    def share(self) -> float:
        """Share of the active visibles that have a cause, NaN if none is active."""
        caused, total = int(self.direct.sum()), int(self.direct.sum() + self.unexplained.sum())
        return caused / total if total else float("nan")


def attribute(network: Network, observations: Observations, states: Any) -> Attribution:
    """Chains of causes of all active visibles.

    Parameters
    ----------
    network : the network.
    observations : (n_rows, n_visible).
    states : sparse (n_rows, n_hidden), the causes that are on.
    """
    on = states.tocsr()
    on.sort_indices()
    n_hidden = network.n_hidden
    rows_of_states = np.repeat(np.arange(on.shape[0]), np.diff(on.indptr))
    keys = rows_of_states * n_hidden + on.indices  # ascending: rows, then causes
    above = _strongest(network, rows_of_states, network.n_visible + on.indices, keys)

    ones = observations.to_csr()
    row = np.repeat(np.arange(ones.shape[0]), np.diff(ones.indptr))
    visible = ones.indices.astype(np.int64)
    place = _strongest(network, row, visible, keys)
    unexplained = np.bincount(row[place == NOBODY], minlength=ones.shape[0])

    parts = []
    direct = True
    kept = place != NOBODY
    while kept.any():
        row, visible, place = row[kept], visible[kept], place[kept]
        cause = on.indices[place].astype(np.int64)
        parts.append((row, visible, cause, np.full(len(row), direct)))
        place, direct = above[place], False
        kept = place != NOBODY
    if not parts:
        empty = np.empty(0, dtype=np.int64)
        return Attribution(empty, empty, empty, np.empty(0, dtype=np.bool_), unexplained)
    row, visible, cause, own = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((visible, row))
    return Attribution(row[order], visible[order], cause[order], own[order], unexplained)


def _strongest(network: Network, row: LongArray, node: Any, keys: LongArray) -> LongArray:
    """For each active node the place in ``keys`` of its strongest active parent, or NOBODY."""
    result = np.full(len(row), NOBODY, dtype=np.int64)
    if not len(keys) or not len(row):
        return result
    begin, end = network.child_ptr[node], network.child_ptr[node + 1]
    ends = np.cumsum(end - begin)
    first = 0
    while first < len(row):
        budget = (ends[first - 1] if first else 0) + _BLOCK_EDGES
        last = max(first + 1, int(np.searchsorted(ends, budget, side="right")))
        block = slice(first, last)
        result[block] = _strongest_in_block(
            network, row[block], node[block], begin[block], end[block], keys
        )
        first = last
    return result


def _strongest_in_block(
    network: Network, row: LongArray, node: Any, begin: LongArray, end: LongArray, keys: LongArray
) -> LongArray:
    counts = end - begin
    entry = np.repeat(np.arange(len(row)), counts)
    offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    edge = np.repeat(begin, counts) + offset
    wanted = row[entry] * network.n_hidden + network.parent[edge]
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    active = keys[place] == wanted
    entry, edge, place = entry[active], edge[active], place[active]
    theta: FloatArray = network.theta[network.param[edge]]
    order = np.lexsort((theta, entry))
    entry, theta, place = entry[order], theta[order], place[order]
    strongest = np.flatnonzero(np.r_[entry[1:] != entry[:-1], True]) if len(entry) else entry
    leak = network.theta[network.leak_param[node[entry[strongest]]]]
    chosen = strongest[theta[strongest] > leak]
    result = np.full(len(row), NOBODY, dtype=np.int64)
    result[entry[chosen]] = place[chosen]
    return result
