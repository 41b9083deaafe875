"""Cells that the inferred causes reconstruct, miss or over-cover, as a matrix and as images."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray, LongArray
from noisyor.model.forward import visible_probability
from noisyor.model.layout import ConvolutionalLayout
from noisyor.model.network import Network
from noisyor.report.charts import N_COLORS, pixel_image, shaded_image, stamped_image
from noisyor.report.fit_quality import ExplainedRows, spread
from noisyor.report.health import success_matrix
from noisyor.report.inputs import visible_names

OFF, RECONSTRUCTED, MISSED, EXTRA, UNKNOWN = range(5)
"""Codes of a cell: off as expected, on as expected, on but not likely, off but likely, missing."""

_MAX_ROWS, _MAX_COLUMNS = 400, 250
_BLOCK_CELLS = 4_000_000

MAX_FEATURES = 60
_MAX_IMAGES, _MAX_PIXELS = 24, 150_000


class Residuals(NamedTuple):
    """Number of cells of each code (5,), in all and for every column (5, n_visible)."""

    total: LongArray
    columns: LongArray

    @property
    def recall(self) -> float:
        """Share of the ones that are reconstructed."""
        ones = self.total[RECONSTRUCTED] + self.total[MISSED]
        return float(self.total[RECONSTRUCTED] / ones) if ones else float("nan")

    @property
    def wrong(self) -> float:
        """Share of the known cells that are wrong."""
        seen = self.total[:UNKNOWN].sum()
        return float((self.total[MISSED] + self.total[EXTRA]) / seen) if seen else float("nan")


def residuals(network: Network, explained: ExplainedRows) -> Residuals:
    """Count which cells the causes of their row make more likely on than off."""
    columns = np.zeros((5, network.n_visible), dtype=np.int64)
    block = max(1, _BLOCK_CELLS // network.n_visible)
    for start in range(0, len(explained.number), block):
        codes = cells(network, explained, np.arange(start, min(start + block, len(explained.elbo))))
        for code in range(5):
            columns[code] += (codes == code).sum(axis=0)
    return Residuals(columns.sum(axis=1), columns)


def cells(network: Network, explained: ExplainedRows, rows: LongArray) -> npt.NDArray[np.uint8]:
    """Return the codes of the cells of some rows, (n, n_visible)."""
    likely = visible_probability(network, explained.states[rows]) >= 0.5
    given = explained.observations.take(rows).to_dense()
    on, off = np.where(likely, RECONSTRUCTED, MISSED), np.where(likely, EXTRA, OFF)
    codes = np.where(given == 1, on, off)
    codes[np.isnan(given)] = UNKNOWN
    return codes.astype(np.uint8)


def worst_columns(network: Network, left: Residuals) -> list[dict[str, Any]]:
    """Return the ten columns with the most wrong cells."""
    names = visible_names(network)
    wrong = left.columns[MISSED] + left.columns[EXTRA]
    order = np.argsort(-wrong, kind="stable")[:10]
    return [
        {
            "name": names[i],
            "ones": int(left.columns[RECONSTRUCTED][i] + left.columns[MISSED][i]),
            "missed": int(left.columns[MISSED][i]),
            "extra": int(left.columns[EXTRA][i]),
        }
        for i in order.tolist()
        if wrong[i]
    ]


def matrix_data(
    network: Network, explained: ExplainedRows, row_names: tuple[str, ...] | None
) -> dict[str, Any]:
    """Return the matrix as JSON: codes as digits, its order by causes, and the causes of each row.

    At most 400 rows, spread evenly, and the 250 most frequent columns are kept.
    """
    rows = spread(len(explained.number), _MAX_ROWS)
    counts = explained.observations.column_counts()
    columns = np.sort(np.argsort(-counts, kind="stable")[:_MAX_COLUMNS])
    codes = cells(network, explained, rows)[:, columns]
    states = explained.states[rows].toarray().astype(np.bool_)
    success = success_matrix(network)[:, columns].toarray()
    causes = np.argsort(-states.sum(axis=0), kind="stable")  # the most frequent first
    names = visible_names(network)
    number = explained.number[rows]
    row_labels = [row_names[i] if row_names is not None else f"row {i}" for i in number.tolist()]
    return {
        "cells": "".join(map(str, codes.ravel().tolist())),
        "rows": row_labels,
        "columns": [names[i] for i in columns.tolist()],
        "column": columns.tolist(),
        # Rows with the first cause come first, among them those with the second, and so on.
        "row_order": np.lexsort(~states[:, causes[::-1]].T).tolist(),
        "column_order": _column_order(success[causes]).tolist(),
        "on": [np.flatnonzero(line).tolist() for line in states],
    }


def _column_order(success: FloatArray) -> LongArray:
    """Order columns by the cause with the highest success probability; others come last."""
    owner = success.argmax(axis=0)
    best = success.max(axis=0)
    owner[best < 0.1] = len(success)
    return np.lexsort((-best, owner))


def feature_rate(network: Network, layout: ConvolutionalLayout) -> FloatArray:
    """Return how many times each feature is expected in an image, (n_components,)."""
    prior = network.prior_probability.reshape(layout.n_components, -1)
    return np.asarray(prior.sum(axis=1))


def feature_uses(explained: ExplainedRows, layout: ConvolutionalLayout) -> LongArray:
    """Return how many times each feature was placed in the images explained, (n_components,)."""
    counts = np.asarray(explained.states.sum(axis=0)).ravel().astype(np.int64)
    return np.asarray(counts.reshape(layout.n_components, -1).sum(axis=1))


def feature_entries(
    network: Network, layout: ConvolutionalLayout, uses: LongArray | None
) -> list[dict[str, Any]]:
    """Return one entry per feature: picture, how often it is expected, and how often found."""
    success = 1.0 - network.failure_probability
    rate = feature_rate(network, layout)
    entries = []
    for number in range(min(layout.n_components, MAX_FEATURES)):
        pixels = int((success[number] > 0.5).sum())
        label = f"feature {number} as gray levels: {pixels} pixels more likely on than off"
        entries.append(
            {
                "number": number,
                "color": number % N_COLORS,
                "picture": shaded_image(success[number], label, grid=True),
                "rate": float(rate[number]),
                "uses": None if uses is None else int(uses[number]),
            }
        )
    return entries


def image_entries(
    network: Network, layout: ConvolutionalLayout, explained: ExplainedRows
) -> list[dict[str, Any]]:
    """Return images with the features placed on them, and with the wrong pixels."""
    height, width = network.visible_shape
    n_shown = max(1, min(_MAX_IMAGES, _MAX_PIXELS // (height * width)))
    chosen = spread(len(explained.number), n_shown)
    codes = cells(network, explained, chosen).reshape(-1, height, width)
    shapes = np.asarray(1.0 - network.failure_probability > 0.5)
    styles = {"ink": RECONSTRUCTED, "missed": MISSED, "extra": EXTRA, "unknown": UNKNOWN}
    entries = []
    for row, code in zip(chosen.tolist(), codes, strict=True):
        stamps = _stamps(explained.states[[row]].indices, layout, shapes, (height, width))
        missed, extra = int((code == MISSED).sum()), int((code == EXTRA).sum())
        number = int(explained.number[row])
        placed = ", ".join(str(feature) for feature, _ in stamps) or "none"
        entries.append(
            {
                "number": number,
                "causes": len(stamps),
                "missed": missed,
                "extra": extra,
                "features": sorted({feature for feature, _ in stamps}),
                "placed": stamped_image(
                    (code == RECONSTRUCTED) | (code == MISSED),
                    stamps,
                    f"image {number} with the features placed on it: {placed}",
                ),
                "residual": pixel_image(
                    {style: code == value for style, value in styles.items()},
                    f"residuals of image {number}: {missed} pixels missed, {extra} extra",
                ),
            }
        )
    return entries


def _stamps(
    active: npt.NDArray[Any],
    layout: ConvolutionalLayout,
    shapes: npt.NDArray[np.bool_],
    image_shape: tuple[int, int],
) -> list[tuple[int, npt.NDArray[np.bool_]]]:
    height, width = shapes.shape[1:]
    stamps = []
    for hidden in active.tolist():
        feature, row, column = layout.placement(hidden)
        # Drawn on a canvas with room on all sides, then cut to the image.
        canvas = np.zeros((image_shape[0] + 2 * height, image_shape[1] + 2 * width), np.bool_)
        top, left = row + height, column + width
        canvas[top : top + height, left : left + width] = shapes[feature]
        stamps.append((feature, canvas[height:-height, width:-width]))
    return stamps
