"""Find causes without an effect, and causes with nearly the same effects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from noisyor._util.arrays import FloatArray, LongArray
from noisyor.model.forward import edge_matrix
from noisyor.model.network import Network
from noisyor.report.inputs import percent

WEAK = 0.05
"""An edge with a smaller success probability than this is ignored."""

RARE = 1e-3
"""A cause that is on less often than this counts as never on."""

ALIKE = 0.97
"""Smallest cosine similarity of the edges of two causes that count as duplicates."""

_COMPARED = 100


def find_dead(
    strength: FloatArray,
    rate: FloatArray,
    uses: npt.NDArray[Any] | None,
    n_rows: int | None,
    rows: str,
) -> dict[int, str]:
    """Return the causes that switch nothing on, or are never on themselves, each with the reason.

    Parameters
    ----------
    strength : (n,) largest success probability of the edges of each cause.
    rate : (n,) how often it is on according to the model.
    uses : (n,) in how many rows it is on, or None without data.
    n_rows : number of rows that were explained, or None without data.
    rows : the word for rows.
    """
    faults: dict[int, str] = {}
    for number, (strong, often) in enumerate(zip(strength, rate, strict=True)):
        if strong < WEAK:
            reason = f"switches nothing on: its strongest effect succeeds in {percent(strong)}"
        elif uses is not None and uses[number] == 0:
            reason = f"on in none of {n_rows:,} {rows}, expected in {percent(often)}"
        elif uses is None and often < RARE:
            reason = f"almost never on: expected in {percent(often)} of {rows}"
        else:
            continue
        faults[number] = reason
    return faults


def find_duplicates(success: Any, skip: Iterable[int]) -> list[list[int]]:
    """Return groups of causes with nearly the same effects.

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
    block = max(1, 2_000_000 // matrix.shape[0])
    starts = range(0, matrix.shape[0], block)
    return _groups(sp.vstack([unit[k : k + block] @ unit.T >= ALIKE for k in starts]))


def similar_features(success: FloatArray, skip: Iterable[int]) -> list[list[int]]:
    """Return groups of similar features (n, height, width), also if shifted in their windows."""
    n, height, width = success.shape
    norm = np.sqrt((success**2).sum(axis=(1, 2)))
    best = np.zeros((n, n))
    padded = np.pad(success, ((0, 0), (height - 1, height - 1), (width - 1, width - 1)))
    flat = success.reshape(n, -1)
    for y in range(2 * height - 1):
        for x in range(2 * width - 1):
            window = padded[:, y : y + height, x : x + width].reshape(n, -1)
            best = np.maximum(best, flat @ window.T)
    alike = best >= ALIKE * np.maximum(np.outer(norm, norm), 1e-12)
    alike[list(skip)] = alike[:, list(skip)] = False
    return _groups(alike)


def _groups(alike: Any) -> list[list[int]]:
    """Return the connected groups of two or more causes, from a matrix of similar pairs (n, n)."""
    _, label = connected_components(alike, directed=False)
    groups = [np.flatnonzero(label == k).tolist() for k in np.flatnonzero(np.bincount(label) > 1)]
    return sorted(groups)


def success_matrix(network: Network) -> Any:
    """Return the success probability of every edge, sparse (n_hidden, n_nodes)."""
    return edge_matrix(network, probability=True).T.tocsr()


def rank_within(group: npt.NDArray[Any], value: FloatArray) -> LongArray:
    """Return the rank of each entry within its group, 0 for the largest value."""
    order = np.lexsort((-value, group))
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - np.searchsorted(group[order], group[order])
    return rank
