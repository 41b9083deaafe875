"""Features of images: what they look like, where they lie in images, what they get wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray
from noisyor.model.graph import Network
from noisyor.model.layout import ConvolutionalLayout
from noisyor.report.quality import ExplainedRows
from noisyor.report.residuals import EXPLAINED, EXTRA, MISSED, UNKNOWN, cells
from noisyor.report.svg import Layer, Stamp, pixel_image, shaded_image, stamped_image

__all__ = ["feature_entries", "feature_rate", "feature_uses", "image_entries"]

MAX_FEATURES = 60
_MAX_IMAGES = 24
_MAX_PIXELS = 150_000


def feature_rate(network: Network, layout: ConvolutionalLayout) -> FloatArray:
    """Expected number of times that each feature lies in an image, (n_components,)."""
    prior = network.prior_probability.reshape(layout.n_components, -1)
    return np.asarray(prior.sum(axis=1))


def feature_uses(explained: ExplainedRows, layout: ConvolutionalLayout) -> npt.NDArray[np.int64]:
    """How often each feature lies in the images explained, (n_components,)."""
    counts = np.asarray(explained.states.sum(axis=0)).ravel().astype(np.int64)
    return np.asarray(counts.reshape(layout.n_components, -1).sum(axis=1))


def feature_entries(
    network: Network, layout: ConvolutionalLayout, uses: npt.NDArray[np.int64] | None
) -> list[dict[str, Any]]:
    """One entry per feature shown: picture, size, how often it is expected and found."""
    success = 1.0 - network.failure_probability
    rate = feature_rate(network, layout)
    return [
        {
            "number": number,
            "colour": number % 8,
            "picture": shaded_image(
                success[number],
                f"feature {number} as grey levels: {int((success[number] > 0.5).sum())} "
                "pixels more likely on than off",
                grid=True,
            ),
            "pixels": int((success[number] > 0.5).sum()),
            "rate": float(rate[number]),
            "uses": None if uses is None else int(uses[number]),
        }
        for number in range(min(layout.n_components, MAX_FEATURES))
    ]


def image_entries(
    network: Network, layout: ConvolutionalLayout, explained: ExplainedRows
) -> list[dict[str, Any]]:
    """Images with the features laid on them, and with the pixels that come out wrong."""
    height, width = network.visible_shape
    n_images = len(explained.number)
    n_shown = min(n_images, max(1, min(_MAX_IMAGES, _MAX_PIXELS // (height * width))))
    chosen = np.unique(np.linspace(0, n_images - 1, n_shown).round().astype(np.int64))
    codes = cells(network, explained, chosen).reshape(-1, height, width)
    shapes = np.asarray(1.0 - network.failure_probability > 0.5)
    entries = []
    for row, code in zip(chosen.tolist(), codes, strict=True):
        image = (code == EXPLAINED) | (code == MISSED)
        active = explained.states[[row]].indices
        stamps = _stamps(active, layout, shapes, (height, width))
        missed, extra = int((code == MISSED).sum()), int((code == EXTRA).sum())
        number = int(explained.number[row])
        placed = ", ".join(str(stamp.feature) for stamp in stamps) or "none"
        entries.append(
            {
                "number": number,
                "causes": len(stamps),
                "missed": missed,
                "extra": extra,
                "features": sorted({stamp.feature for stamp in stamps}),
                "placed": stamped_image(
                    image, stamps, f"image {number} with the features laid on it: {placed}"
                ),
                "residual": pixel_image(
                    [
                        Layer("ink", code == EXPLAINED),
                        Layer("missed", code == MISSED),
                        Layer("extra", code == EXTRA),
                        Layer("unknown", code == UNKNOWN),
                    ],
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
) -> list[Stamp]:
    height, width = shapes.shape[1:]
    stamps = []
    for hidden in active.tolist():
        feature, row, column = layout.placement(hidden)
        # Drawn on a canvas with room on all sides, then cut to the image.
        canvas = np.zeros((image_shape[0] + 2 * height, image_shape[1] + 2 * width), np.bool_)
        top, left = row + height, column + width
        canvas[top : top + height, left : left + width] = shapes[feature]
        stamps.append(Stamp(feature, canvas[height:-height, width:-width]))
    return stamps
