"""Features of images: what they look like, where they lie in images, what they get wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray
from noisyor.network.graph import Network
from noisyor.report.inputs import Positions
from noisyor.report.quality import Explained
from noisyor.report.residuals import EXPLAINED, EXTRA, MISSED, UNKNOWN, cells
from noisyor.report.svg import Layer, Stamp, pixel_image, shaded_image, stamped_image

__all__ = ["feature_entries", "feature_rate", "feature_uses", "image_entries"]

MOST_FEATURES = 60
_MOST_IMAGES = 24
_MOST_PIXELS = 150_000


def feature_rate(network: Network, positions: Positions) -> FloatArray:
    """Expected number of times that each feature lies in an image, (n_features,)."""
    prior = network.prior_probability.reshape(positions.n_features, -1)
    return np.asarray(prior.sum(axis=1))


def feature_uses(explained: Explained, positions: Positions) -> npt.NDArray[np.int64]:
    """How often each feature lies in the images explained, (n_features,)."""
    counts = np.asarray(explained.states.sum(axis=0)).ravel().astype(np.int64)
    return np.asarray(counts.reshape(positions.n_features, -1).sum(axis=1))


def feature_entries(
    network: Network, positions: Positions, uses: npt.NDArray[np.int64] | None
) -> list[dict[str, Any]]:
    """One entry per feature shown: picture, size, how often it is expected and found."""
    success = 1.0 - network.failure_probability
    rate = feature_rate(network, positions)
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
        for number in range(min(positions.n_features, MOST_FEATURES))
    ]


def image_entries(
    network: Network, positions: Positions, explained: Explained
) -> list[dict[str, Any]]:
    """Images with the features laid on them, and with the pixels that come out wrong."""
    height, width = network.visible_shape
    n_images = len(explained.number)
    most = max(1, min(_MOST_IMAGES, _MOST_PIXELS // (height * width)))
    chosen = np.unique(np.linspace(0, n_images - 1, min(n_images, most)).round().astype(np.int64))
    codes = cells(network, explained, chosen).reshape(-1, height, width)
    shapes = np.asarray(1.0 - network.failure_probability > 0.5)
    entries = []
    for row, code in zip(chosen.tolist(), codes, strict=True):
        image = (code == EXPLAINED) | (code == MISSED)
        active = explained.states[[row]].indices
        stamps = _stamps(active, positions, shapes, (height, width))
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
    positions: Positions,
    shapes: npt.NDArray[np.bool_],
    image_shape: tuple[int, int],
) -> list[Stamp]:
    height, width = shapes.shape[1:]
    shift = (height - 1, width - 1) if positions.border else (0, 0)
    stamps = []
    for hidden in active.tolist():
        feature, place = divmod(hidden, positions.rows * positions.columns)
        y, x = divmod(place, positions.columns)
        # Drawn on a canvas with room on all sides, then cut to the image.
        canvas = np.zeros((image_shape[0] + 2 * height, image_shape[1] + 2 * width), np.bool_)
        top, left = y - shift[0] + height, x - shift[1] + width
        canvas[top : top + height, left : left + width] = shapes[feature]
        stamps.append(Stamp(feature, canvas[height:-height, width:-width]))
    return stamps
