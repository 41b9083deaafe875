"""A factorised matrix: what is explained, missed and covered too much, cell by cell."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import LongArray
from noisyor.model.forward import visible_probability
from noisyor.model.graph import Network
from noisyor.report.explorer import visible_names
from noisyor.report.health import success_matrix
from noisyor.report.quality import ExplainedRows

__all__ = ["Residuals", "matrix_data", "residuals"]

OFF, EXPLAINED, MISSED, EXTRA, UNKNOWN = range(5)
"""Codes of a cell: rightly off, rightly on, on without a cause, off in spite of one, unobserved."""

_MAX_ROWS = 400
_MAX_COLUMNS = 250
_BLOCK_CELLS = 4_000_000


class Residuals(NamedTuple):
    """Numbers of cells of each code, (5,), and the same for every column, (5, n_visible)."""

    total: LongArray
    columns: LongArray

    @property
    def recall(self) -> float:
        """Share of the ones that the causes explain."""
        ones = self.total[EXPLAINED] + self.total[MISSED]
        return float(self.total[EXPLAINED] / ones) if ones else float("nan")

    @property
    def wrong(self) -> float:
        """Share of the observed cells that the causes get wrong."""
        seen = self.total[:UNKNOWN].sum()
        return float((self.total[MISSED] + self.total[EXTRA]) / seen) if seen else float("nan")


def residuals(network: Network, explained: ExplainedRows) -> Residuals:
    """Compare the rows with what their causes make more likely on than off."""
    columns = np.zeros((5, network.n_visible), dtype=np.int64)
    block = max(1, _BLOCK_CELLS // network.n_visible)
    for start in range(0, len(explained.number), block):
        codes = cells(network, explained, np.arange(start, min(start + block, len(explained.elbo))))
        for code in range(5):
            columns[code] += (codes == code).sum(axis=0)
    return Residuals(columns.sum(axis=1), columns)


def cells(network: Network, explained: ExplainedRows, rows: LongArray) -> npt.NDArray[np.uint8]:
    """Codes of the cells of some rows, (n, n_visible)."""
    drawn = visible_probability(network, explained.states[rows]) >= 0.5
    given = explained.observations.take(rows).to_dense()
    codes = np.where(given == 1, np.where(drawn, EXPLAINED, MISSED), np.where(drawn, EXTRA, OFF))
    codes[np.isnan(given)] = UNKNOWN
    return codes.astype(np.uint8)


def matrix_data(
    network: Network, explained: ExplainedRows, row_names: tuple[str, ...] | None
) -> dict[str, Any]:
    """The matrix as JSON: codes as digits row by row, the order by causes, who is on where.

    Rows beyond 400 are left out evenly, of the columns the 250 most often on are kept.
    """
    n_rows = len(explained.number)
    rows = np.unique(np.linspace(0, n_rows - 1, min(n_rows, _MAX_ROWS)).round().astype(np.int64))
    counts = explained.observations.column_counts()
    columns = np.sort(np.argsort(-counts, kind="stable")[:_MAX_COLUMNS])
    codes = cells(network, explained, rows)[:, columns]
    states = explained.states[rows].toarray().astype(np.bool_)
    success = success_matrix(network)[:, columns].toarray()
    causes = np.argsort(-states.sum(axis=0), kind="stable")  # the busiest first
    names = visible_names(network)
    number = explained.number[rows]
    row_labels = [row_names[i] if row_names is not None else f"row {i}" for i in number.tolist()]
    return {
        "cells": "".join(map(str, codes.ravel().tolist())),
        "rows": row_labels,
        "columns": [names[i] for i in columns.tolist()],
        "column": columns.tolist(),
        "row_order": _row_order(states[:, causes]).tolist(),
        "column_order": _column_order(success[causes]).tolist(),
        "on": [np.flatnonzero(line).tolist() for line in states],
        "all_rows": explained.n_rows,
        "all_columns": network.n_visible,
    }


def _row_order(states: npt.NDArray[np.bool_]) -> LongArray:
    """Rows with the first cause first, among them those with the second, and so on."""
    keys = [~states[:, k] for k in range(states.shape[1] - 1, -1, -1)]
    return np.lexsort(keys) if keys else np.arange(len(states))


def _column_order(success: npt.NDArray[np.float64]) -> LongArray:
    """Columns by the cause that switches them on most surely; those without one last."""
    owner = success.argmax(axis=0)
    best = success.max(axis=0)
    owner[best < 0.1] = len(success)
    return np.lexsort((-best, owner))
