"""What a sceptic would run on the same rows: independent columns, a tree, a mixture."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import minimum_spanning_tree

from noisyor.data.observations import Observations

Rows = npt.NDArray[np.float64]


def chow_liu(train: Observations, rows: Observations, smoothing: float = 0.1) -> Rows:
    """Log-probability of rows by the best tree over the columns (Chow and Liu 1968)."""
    X, weight = train.to_csr().astype(np.float64), train.row_weights
    n, d = train.total_weight + 4.0 * smoothing, train.n_visible
    both = np.asarray((X.multiply(weight[:, None])).T @ X.toarray()) + smoothing
    one = np.asarray(X.T @ weight) + 2.0 * smoothing
    np.fill_diagonal(both, one)
    joint = np.empty((2, 2, d, d))  # probability of (column i, column j)
    joint[1, 1], joint[1, 0], joint[0, 1] = both, one[:, None] - both, one[None, :] - both
    joint[0, 0] = n - joint[1, 1] - joint[1, 0] - joint[0, 1]
    joint = np.maximum(joint, 1e-12) / n
    p = np.stack([1.0 - one / n, one / n])
    information = np.zeros((d, d))
    for a in range(2):
        for b in range(2):
            independent = np.outer(p[a], p[b])
            information += joint[a, b] * np.log(joint[a, b] / independent)
    # The sparse solver reads zero as "no edge": shift, which changes no tree.
    tree = minimum_spanning_tree(-(information + 1.0)).tocoo()
    result = np.zeros(rows.n_rows)
    data = rows.to_csr().toarray().astype(np.int64)
    order, parent = _rooted(d, tree.row, tree.col)
    for i in order:
        if parent[i] < 0:
            result += np.log(p[data[:, i], i])
        else:
            j = parent[i]
            result += np.log(joint[data[:, i], data[:, j], i, j] / p[data[:, j], j])
    return result


def _rooted(d: int, left: Rows, right: Rows) -> tuple[list[int], npt.NDArray[np.int64]]:
    """Columns from the root down, and the parent of each, -1 for the root."""
    near: list[list[int]] = [[] for _ in range(d)]
    for a, b in zip(left, right, strict=True):
        near[a].append(b)
        near[b].append(a)
    parent, order, seen = np.full(d, -1), [0], {0}
    for i in order:
        for j in near[i]:
            if j not in seen:
                seen.add(j)
                parent[j] = i
                order.append(j)
    return order, parent
