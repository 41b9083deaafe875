"""The paper's layered network, whose structure is learned from co-occurrences.

Variables that occur together more often than by chance are close. Layer by layer from the bottom,
average linkage groups the variables of a layer into clusters; every cluster becomes a hidden node
of the next layer and a parent of the variables that are closest to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from noisyor._util.arrays import FloatArray, LongArray, pointers
from noisyor._util.validation import check_count
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.model.builders import assemble, renumbered
from noisyor.model.network import Network

MAX_COLUMNS = 20_000
"""Columns that can be clustered: average linkage needs all distances twice, 1.6 GB each."""

_BLOCK_ENTRIES = 4_000_000  # dense scratch of a block of rows: 32 MB


def layered(
    X: Any,
    n_layers: int = 3,
    *,
    n_parents: int = 5,
    shrink: int = 3,
    failure_probability: npt.ArrayLike = 0.9,
    prior_probability: npt.ArrayLike = 0.1,
    noise_probability: npt.ArrayLike = 0.01,
    fixed: str | Sequence[str] = (),
    visible_names: Sequence[str] | None = None,
) -> Network:
    """Build layers of hidden nodes from the co-occurrences in binary data.

    The distance of two variables is ``exp(-lift)``, where lift is the number of rows that contain
    both over the number expected if they were independent; it is 1 for a pair that never occurs
    together. A layer of ``d`` nodes gets ``d // shrink`` parents, its clusters under average
    linkage. A node's parents are the `n_parents` clusters of smallest mean distance, nearest
    first, followed by its own cluster if that is not among them. The distance of two clusters is
    the mean over the pairs of their children.

    The same `X` gives the same network for any order of its rows: of clusters at equal distance,
    the one with the lower number comes first, and clusters are numbered by their smallest member.
    Equal distances are common (all pairs that never occur together); which of them average linkage
    merges first is SciPy's choice.

    Parameters
    ----------
    X : binary data (n_rows, n_visible) in any form that `Observations.of` takes. Missing values
        count as 0. Use the training part only.
    n_layers : layers including the visible one, at least 2: the result has ``n_layers - 1``
        hidden layers. The paper uses 3 for 100 words (100/33/11) and 5 for 10,000
        (10,000/3,333/1,111/370/123).
    n_parents : parents of a node, not counting its own cluster.
    shrink : ratio of the sizes of two successive layers.
    failure_probability : scalar or (n_edges,).
    prior_probability : scalar or (n_hidden,).
    noise_probability : scalar or (n_visible,).
    fixed, visible_names : as in `bipartite`.

    Returns
    -------
    Network with one parameter for each edge and each leak: groups ``"failure"`` (n_edges,), in
    edge order, ``"prior"`` (n_hidden,) and ``"noise"`` (n_visible,). Hidden nodes are numbered from
    the lowest layer up.

    Notes
    -----
    Time and memory grow with ``n_visible**2``: 10,000 variables take 15 seconds and 1.5 GB.

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> X = np.repeat(np.eye(4, dtype=int), [3, 3, 3, 3], axis=1)  # 4 rows, 12 columns
    >>> nor.layered(X, n_layers=2, n_parents=1).n_hidden
    4
    """
    check_count("n_layers", n_layers, 2)
    check_count("n_parents", n_parents)
    check_count("shrink", shrink, 2)
    rows, _ = Observations.of(X).unique_rows()
    data = rows.to_csr().astype(np.int32)  # wide enough to count rows in
    sizes = layer_sizes(data.shape[1], n_layers, shrink)

    counts: list[LongArray] = []
    parents: list[LongArray] = []
    distance, diagonal = cooccurrence_distance(data, rows.weights), np.zeros(sizes[0])
    for n_below, n_clusters in itertools.pairwise(sizes):
        # Clustering copies its input, so the full matrix is made after it, in its place.
        labels = _clusters(distance, n_below, n_clusters)
        distance = squareform(distance, checks=False)
        np.fill_diagonal(distance, diagonal)
        count, parent = _nearest_clusters(distance, labels, n_clusters, n_parents)
        distance, diagonal = _between_clusters(distance, count, parent, n_clusters)
        counts.append(count)
        parents.append(parent)

    first = np.cumsum([0, *sizes[1:]])  # number of the first hidden node of each layer
    n_hidden = int(first[-1])
    degree = np.concatenate([*counts, np.zeros(sizes[-1], dtype=np.int64)])
    parent = np.concatenate([p + start for p, start in zip(parents, first, strict=False)])
    edges = np.arange(len(parent))
    return assemble(
        (failure_probability, prior_probability, noise_probability),
        child_ptr=pointers(degree),
        parent=parent,
        failure=edges,
        edge_failure=edges,
        hidden_prior=np.arange(n_hidden),
        visible_noise=np.arange(sizes[0]),
        fixed=fixed,
        visible_names=visible_names,
    )


def layer_sizes(n_visible: int, n_layers: int, shrink: int = 3) -> list[int]:
    """Return the sizes of the layers, the visible one first, (n_layers,)."""
    sizes = [n_visible]
    while len(sizes) < n_layers and sizes[-1] >= shrink:
        sizes.append(sizes[-1] // shrink)
    if len(sizes) < n_layers:
        raise InvalidSettingError(
            f"{n_visible} variables are too few for n_layers={n_layers} with shrink={shrink}: "
            f"layers of {sizes} nodes are possible, so n_layers is at most {len(sizes)}"
        )
    return sizes


def cooccurrence_distance(data: sp.csr_array, weights: FloatArray | None = None) -> FloatArray:
    """Compute the distances ``exp(-lift)`` of all pairs of columns, in SciPy's condensed order.

    Parameters
    ----------
    data : (n_rows, n_visible) sparse, every stored entry a 1.
    weights : (n_rows,) of the rows; None if all are 1.

    Returns
    -------
    (n_visible * (n_visible - 1) / 2,) distances of the pairs (0, 1), (0, 2), ..., (1, 2), ...
    """
    n_rows, n_visible = data.shape
    if n_visible > MAX_COLUMNS:
        raise InvalidDataError(
            f"{n_visible:,} columns have {n_visible**2 // 2:,} pairs, and a distance is kept for "
            f"each; at most {MAX_COLUMNS:,} columns are possible, so leave out the rarest"
        )
    by_column = data.T.tocsr()
    if weights is not None:
        n_rows = weights.sum()
        by_column.data = weights[by_column.indices]
    occurrences = by_column.sum(axis=1) + 1e-8  # no division by 0 for a column of zeros
    result = np.empty(n_visible * (n_visible - 1) // 2)
    filled = 0
    for rows in _blocks(n_visible):
        together = (by_column[rows] @ data[:, rows.start :]).toarray().astype(np.float64)
        expected = occurrences[rows, None] * occurrences[None, rows.start :]
        block = np.exp(-(n_rows * together / expected))
        for k, row in enumerate(block):
            pairs = row[k + 1 :]
            result[filled : filled + len(pairs)] = pairs
            filled += len(pairs)
    return result


def _clusters(pairs: FloatArray, n_nodes: int, n_clusters: int) -> LongArray:
    """Return the cluster of each node by average linkage, numbered by smallest member.

    It applies exactly the first merges, because cutting the tree at a height would lose clusters if
    several merges have the same height.
    """
    merges = linkage(pairs, method="average")[: n_nodes - n_clusters, :2].astype(np.int64)
    root = np.arange(n_nodes + len(merges))
    for k in range(len(merges) - 1, -1, -1):
        root[merges[k]] = root[n_nodes + k]
    return renumbered(root[:n_nodes])


def _nearest_clusters(
    distance: FloatArray, labels: LongArray, n_clusters: int, n_parents: int
) -> tuple[LongArray, LongArray]:
    """Return the number of parents of each node, and the parents node after node."""
    n_nodes = len(labels)
    members = sp.csr_array(
        (np.ones(n_nodes), (labels, np.arange(n_nodes))), shape=(n_clusters, n_nodes)
    )
    cluster_size = np.bincount(labels, minlength=n_clusters)
    n_nearest = min(n_parents, n_clusters)
    parent = np.empty((n_nodes, n_nearest + 1), dtype=np.int64)
    parent[:, -1] = labels
    for nodes in _blocks(n_nodes):
        total = members @ np.ascontiguousarray(distance[:, nodes])  # distance is symmetric
        mean = np.ascontiguousarray(total.T) / cluster_size
        for k in range(n_nearest):  # argmin takes the first of equals, as a stable sort would
            nearest = mean.argmin(axis=1)
            parent[nodes, k] = nearest
            mean[np.arange(len(mean)), nearest] = np.inf
    used = np.ones(parent.shape, dtype=np.bool_)
    used[:, -1] = ~(parent[:, :-1] == labels[:, None]).any(axis=1)
    return used.sum(axis=1), parent[used]


def _between_clusters(
    distance: FloatArray, count: LongArray, parent: LongArray, n_clusters: int
) -> tuple[FloatArray, FloatArray]:
    """Return mean distances between children of two clusters: condensed pairs, and diagonal."""
    shape = (len(count), n_clusters)
    edges = sp.csr_array((np.ones(len(parent)), parent, pointers(count)), shape=shape)
    children = edges.T.tocsr()
    n_children = np.diff(children.indptr)
    total = children @ (children @ distance).T
    mean = total / (n_children[:, None] * n_children[None, :])
    return squareform(mean, checks=False), mean.diagonal().copy()


def _blocks(n_nodes: int) -> list[slice]:
    step = max(1, _BLOCK_ENTRIES // n_nodes)
    return [slice(start, min(start + step, n_nodes)) for start in range(0, n_nodes, step)]
