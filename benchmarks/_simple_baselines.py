"""Simple baselines for Boolean factorization: thresholded NMF, a greedy algorithm, GreConD."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import NMF

Bits = npt.NDArray[np.float32]


def greedy_memberships(X: Bits, V: Bits, U: Bits | None = None) -> Bits:
    """Add to each row the factor that corrects most entries, until none corrects any."""
    U = np.zeros((len(X), len(V)), dtype=np.float32) if U is None else U.copy()
    for _ in range(len(V)):
        gain = np.where(U @ V > 0, 0.0, 2.0 * X - 1.0).astype(np.float32) @ V.T
        gain[U > 0] = 0
        best = gain.argmax(1)
        rows = np.flatnonzero(gain[np.arange(len(X)), best] > 0)
        if not len(rows):
            break
        U[rows, best[rows]] = 1
    return U


def thresholded_nmf(X: npt.ArrayLike, r: int, seed: int = 0) -> Bits:
    """Return factors (r, columns) of a non-negative factorization, rescaled and cut at one half."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = NMF(min(r, *np.shape(X)), init="nndsvda", max_iter=500, random_state=seed)
        W = model.fit_transform(np.asarray(X, dtype=float))
    scale = np.sqrt(np.maximum(model.components_.max(1), 1e-12) / np.maximum(W.max(0), 1e-12))
    return np.asarray(model.components_ / scale[:, None] >= 0.5, dtype=np.float32)


def alternating_greedy(X: npt.ArrayLike, r: int, seed: int = 0, rounds: int = 60) -> Bits:
    """Start from `thresholded_nmf`, alternate greedy updates, and replace the weakest factors."""
    X = np.asarray(X, dtype=np.float32)
    generator = np.random.default_rng(seed)

    def repair(U: Bits, V: Bits) -> tuple[Bits, Bits, float]:
        for _ in range(3):
            U = greedy_memberships(X, V)
            V = greedy_memberships(X.T.copy(), U.T.copy()).T.copy()
        U = greedy_memberships(X, V)
        return U, V, float(np.abs((U @ V > 0) - X).sum())

    V = thresholded_nmf(X, r, seed)
    best = repair(greedy_memberships(X, V), V)
    for _ in range(rounds):
        U, V, error = (np.array(best[0]), np.array(best[1]), best[2])
        if error == 0:
            break
        alone = np.where(U @ V == 1, 2.0 * X - 1.0, 0.0)
        worth = ((U.T @ alone) * V).sum(1)
        left = X * (U @ V == 0)
        for k in np.argsort(worth)[: generator.integers(1, max(2, r // 10) + 1)]:
            row = generator.choice(len(X), p=left.sum(1) / left.sum()) if left.sum() else 0
            U[:, k], V[k] = 0, left[row]
        new = repair(U, V)
        best = new if new[2] <= best[2] else best
    return best[1]


def counted_parameters(X: npt.ArrayLike, V: Bits) -> tuple[Bits, Bits]:
    """Count theta (factors, columns) and priors (factors,) of a noisy-OR from greedy memberships.

    The failure probability of an edge is counted in rows in which no other factor has the column.
    """
    X = np.asarray(X, dtype=np.float32)
    U = greedy_memberships(X, V)
    covered = U @ V
    theta = np.zeros_like(V)
    for k, factor in enumerate(V):
        alone = (U[:, k, None] > 0) & (covered - factor <= 0)
        rate = ((alone * X).sum(0) + 0.5) / (alone.sum(0) + 1.0)
        theta[k] = np.where(factor > 0, -np.log1p(-rate), 0.0)
    return theta, U.mean(0)


def grecond(X: npt.ArrayLike, r: int) -> Bits:
    """Return factors (at most r, columns) by GreConD of Belohlavek and Vychodil (2010).

    A factor is a closed set of columns of X: all columns that its rows have in common. It grows by
    the column with which it covers most uncovered ones, as long as the number increases.
    """
    X = np.asarray(X, dtype=np.float32)
    left = X.copy()
    factors: list[npt.NDArray[np.bool_]] = []
    while len(factors) < r and left.any():
        rows, factor, value = np.ones(len(X), dtype=bool), np.zeros(X.shape[1], dtype=bool), 0.0
        while True:
            having = X * rows[:, None]  # (rows, columns): rows of the factor grown by a column
            closed = having.sum(0)[:, None] == having.T @ X  # (columns, columns)
            gains = np.where(factor, 0.0, ((having.T @ left) * closed).sum(1))
            best = int(gains.argmax())
            if gains[best] <= value:
                break
            rows, factor, value = having[:, best] > 0, closed[best], gains[best]
        left[np.ix_(rows, factor)] = 0
        factors.append(factor)
    return np.array(factors, dtype=np.float32).reshape(-1, X.shape[1])


def errors(X: Any, V: Bits) -> float:
    """Return the percentage of wrong entries with these factors and greedy memberships."""
    X = np.asarray(X, dtype=np.float32)
    return 100.0 * float(np.mean((greedy_memberships(X, V) @ V > 0) != (X > 0)))
