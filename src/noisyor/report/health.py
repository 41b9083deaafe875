"""Find causes that do nothing, or the same as another one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from noisyor._util.arrays import FloatArray, LongArray
from noisyor.model.forward import edge_matrix
from noisyor.model.network import Network

__all__ = [
    "Fault",
    "find_dead",
    "find_duplicates",
    "groups_of",
    "rank_within",
    "similar_features",
    "success_matrix",
]

WEAK = 0.05
"""An edge that succeeds less often than this counts as none."""

RARE = 1e-3
"""A cause that is on less often than this counts as never on."""

ALIKE = 0.97
"""Two causes whose edges have this cosine similarity count as one."""

_MAX_PAIRS = 200
_COMPARED = 100


class Fault(NamedTuple):
    """A cause (or feature) by number, and what is wrong with it in words."""

    cause: int
    reason: str


def find_dead(
    strength: FloatArray,
    rate: FloatArray,
    uses: npt.NDArray[Any] | None,
    n_rows: int | None,
    rows: str,
) -> list[Fault]:
    """Return the causes that switch nothing on, or are never on themselves.

    Parameters
    ----------
    strength : (n,) largest success probability of the edges of each cause.
    rate : (n,) how often it is on according to the model.
    uses : (n,) in how many rows it is on, or None without data.
    n_rows : number of rows that were explained, or None without data.
    rows : what rows are called.
    """
    faults = []
    for number, (strong, often) in enumerate(zip(strength, rate, strict=True)):
        if strong < WEAK:
            reason = f"switches nothing on: its strongest effect succeeds in {_percent(strong)}"
        elif uses is not None and uses[number] == 0:
            reason = f"on in none of {n_rows:,} {rows}, expected in {_percent(often)}"
        elif uses is None and often < RARE:
            reason = f"almost never on: expected in {_percent(often)} of {rows}"
        else:
            continue
        faults.append(Fault(number, reason))
    return faults


def _percent(share: float) -> str:
    return "under 0.01 %" if share < 1e-4 else f"{100 * share:.3g} %"


def find_duplicates(success: Any, skip: set[int]) -> list[tuple[int, int, float]]:
    """Return pairs of causes with nearly the same effects, the most similar first, 200 at most.

    The hundred strongest effects of each cause are compared.

    Parameters
    ----------
    success : sparse (n, n_children), success probabilities of the edges.
    skip : causes not to compare, such as dead ones.
    """
    matrix = sp.csr_array(success, copy=True)
    matrix.data[matrix.data < WEAK] = 0.0
    matrix.eliminate_zeros()
    cause = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    matrix.data[rank_within(cause, matrix.data) >= _COMPARED] = 0.0
    matrix.eliminate_zeros()
    norm = np.sqrt(np.asarray((matrix * matrix).sum(axis=1)).ravel())
    scale = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
    scale[list(skip)] = 0.0
    unit = sp.diags_array(scale) @ matrix
    found: list[tuple[int, int, float]] = []
    block = max(1, 2_000_000 // max(1, matrix.shape[0]))
    for start in range(0, matrix.shape[0], block):
        similar = sp.coo_array(unit[start : start + block] @ unit.T)
        first, second = similar.row + start, similar.col
        alike = (similar.data >= ALIKE) & (first < second)
        found += zip(
            first[alike].tolist(), second[alike].tolist(), similar.data[alike].tolist(), strict=True
        )
    return sorted(found, key=lambda pair: -pair[2])[:_MAX_PAIRS]


def similar_features(success: FloatArray, skip: set[int]) -> list[tuple[int, int, float]]:
    """Return pairs of similar features (n, height, width), also if shifted in their windows."""
    n, height, width = success.shape
    norm = np.sqrt((success**2).sum(axis=(1, 2)))
    best = np.zeros((n, n))
    padded = np.pad(success, ((0, 0), (height - 1, height - 1), (width - 1, width - 1)))
    flat = success.reshape(n, -1)
    for y in range(2 * height - 1):
        for x in range(2 * width - 1):
            window = padded[:, y : y + height, x : x + width].reshape(n, -1)
            best = np.maximum(best, flat @ window.T)
    best /= np.maximum(np.outer(norm, norm), 1e-12)
    return [
        (a, b, float(best[a, b]))
        for a in range(n)
        for b in range(a + 1, n)
        if best[a, b] >= ALIKE and not {a, b} & skip
    ]


def groups_of(pairs: list[tuple[int, int, float]], n: int) -> list[list[int]]:
    """Return connected groups of causes from pairs."""
    if not pairs:
        return []
    rows, columns = zip(*((a, b) for a, b, _ in pairs), strict=True)
    graph = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    _, label = connected_components(graph, directed=False)
    members: dict[int, list[int]] = {}
    for cause in sorted({*rows, *columns}):
        members.setdefault(int(label[cause]), []).append(int(cause))
    return list(members.values())


def success_matrix(network: Network) -> Any:
    """Return the success probability of every edge, sparse (n_hidden, n_nodes)."""
    return edge_matrix(network, probability=True).T.tocsr()


def rank_within(group: npt.NDArray[Any], value: FloatArray) -> LongArray:
    """Return the rank of each entry within its group, 0 for the largest value."""
    order = np.lexsort((-value, group))
    sizes = np.bincount(group)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - first
    return rank
