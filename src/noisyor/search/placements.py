"""Features stamped into binary images: what they draw, and moves that shorten its description.

The counterpart of `cover` for images: a drawing is judged by the same description length, with
wrong pixels, placements and pixels of features all at a price.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, FloatArray, IntArray
from noisyor.engines.contract import EngineLike, Factors
from noisyor.engines.registry import get_engine
from noisyor.network.layout import activation_shape
from noisyor.search.cover import PRIOR_ROWS, Cover
from noisyor.search.objectives import Matrix, Rates, price_of, rates_of, weights_of

__all__ = ["OFF_FAILURE", "Drawing", "Plane", "prune_drawing", "refine_drawing", "to_corner"]

_ROUNDS = 30

OFF_FAILURE = 0.999
"""Failure probability of a pixel that a feature does not have: training may still grow it."""


class Plane(NamedTuple):
    """What all drawings of the same images share.

    ``matrix`` the pixels, (n_images, n_pixels); ``image``, ``window`` (height, width); ``border``
    whether placements may hang over. Placements are always numbered as in a network where they
    may; those that may not be are never on.
    """

    matrix: Matrix
    image: tuple[int, int]
    window: tuple[int, int]
    border: bool
    engine: EngineLike

    @property
    def positions(self) -> tuple[int, int]:
        """Rows and columns of placements, those that hang over the border included."""
        return activation_shape(self.image, self.window, border=True)

    @property
    def inside(self) -> tuple[slice, slice]:
        """Placements that are allowed."""
        if self.border:
            return slice(None), slice(None)
        (height, width), (a, b) = self.image, self.window
        return slice(a - 1, height), slice(b - 1, width)

    def seen_by(self, a: int, b: int) -> tuple[slice, slice]:
        """Placements whose pixel (a, b) lies in the image, as a block in the image's order."""
        (height, width), (rows, columns) = self.image, self.window
        top, left = rows - 1 - a, columns - 1 - b
        return slice(top, top + height), slice(left, left + width)

    def counts(self, features: BinaryArray, placements: BinaryArray) -> npt.NDArray[np.int32]:
        """How often each pixel is drawn, (n_images, n_pixels)."""
        counts = np.zeros((len(placements), *self.image), dtype=np.int32)
        for f, a, b in zip(*np.nonzero(features), strict=True):
            counts += placements[:, f, *self.seen_by(a, b)]
        return counts.reshape(len(placements), -1)

    def draw(self, features: BinaryArray, placements: BinaryArray) -> Drawing:
        """A drawing with its counts and rates worked out."""
        counts = self.counts(features, placements)
        return Drawing(self, features, placements, counts, rates_of(self.matrix, counts))


@dataclass(frozen=True, eq=False)
class Drawing:
    """Features (n, height, width), their placements (n_images, n, rows, columns), and the counts.

    ``counts`` (n_images, n_pixels) says how many placements draw each pixel.
    """

    plane: Plane
    features: BinaryArray
    placements: BinaryArray
    counts: npt.NDArray[np.int32]
    rates: Rates

    def score(self) -> float:
        """Minus the description length of images, placements and features, in nats."""
        return self.cover().score(self.plane.matrix)

    def errors(self) -> int:
        """Number of observed pixels that are drawn wrong."""
        return self.cover().errors(self.plane.matrix)

    def keep(self, features: npt.ArrayLike) -> Drawing:
        """The drawing with some of its features only, in this order."""
        chosen = np.asarray(features, dtype=np.intp)
        return self.plane.draw(self.features[chosen], self.placements[:, chosen])

    def without(self, feature: int) -> Drawing:
        """The drawing without one of its features."""
        return self.keep(np.delete(np.arange(len(self.features)), feature))

    def beside(self, other: Drawing) -> Drawing:
        """The features of both drawings."""
        return self.plane.draw(
            np.concatenate([self.features, other.features]),
            np.concatenate([self.placements, other.placements], axis=1),
        )

    def failure(self) -> FloatArray:
        """Failure probability of each pixel of the features, from where it alone is drawn."""
        matrix, shape = self.plane.matrix, (-1, *self.plane.image)
        alone = (matrix.observed & (self.counts == 1)).reshape(shape)
        zero = alone & ~matrix.ones.reshape(shape)
        failure = np.full(self.features.shape, OFF_FAILURE)
        for f, a, b in zip(*np.nonzero(self.features), strict=True):
            placed = self.placements[:, f, *self.plane.seen_by(a, b)] > 0
            failed = (placed & zero).sum() + PRIOR_ROWS * self.rates.missed
            failure[f, a, b] = failed / ((placed & alone).sum() + PRIOR_ROWS)
        return np.asarray(np.clip(failure, 1e-5, OFF_FAILURE))

    def prior(self) -> FloatArray:
        """Probability of each feature at a place, from counts, (n,)."""
        states = self.cover().states
        return np.asarray((states.sum(0) + 1.0) / (len(states) + 2.0))

    def cover(self) -> Cover:
        """The same as a cover whose rows are the places: so features cost by all their pixels."""
        by_feature = (len(self.features), -1) if len(self.features) else (0, 1)
        states = self.placements[:, :, *self.plane.inside].swapaxes(0, 1).reshape(by_feature)
        return Cover(states.T, self.features.reshape(by_feature), self.counts, self.rates)


def refine_drawing(drawing: Drawing, rounds: int = _ROUNDS) -> Drawing:
    """Flip placements, then pixels of features, in turn, while the score rises."""
    for _ in range(rounds if len(drawing.features) else 0):
        features = drawing.features.copy()
        placements, counts, flips = _improve_placements(drawing)
        flips += _improve_features(drawing, features, placements, counts)
        if not flips:
            break
        drawing = drawing.plane.draw(features, placements)
    return drawing


def _improve_placements(drawing: Drawing) -> tuple[BinaryArray, IntArray, int]:
    """Placements and counts after one pass over all images, and the number of flips."""
    plane, placements = drawing.plane, drawing.placements.copy()
    weights = weights_of(plane.matrix, drawing.rates)
    ptr, pixel, node = _drawn_by(plane, drawing.features)
    n_images = len(placements)
    states = np.ascontiguousarray(placements.reshape(n_images, -1)[:, node])
    prices = np.repeat(price_of(drawing.cover().states), np.prod(plane.positions))[node]
    flipper = get_engine(plane.engine, "cover_memberships")
    result = flipper.cover_memberships(weights, Factors(ptr, pixel), states, drawing.counts, prices)
    placements.reshape(n_images, -1)[:, node] = result.states
    return placements, result.counts, result.flips


def _drawn_by(
    plane: Plane, features: BinaryArray
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Pixels that each placement draws: ``pixel[ptr[k]:ptr[k + 1]]`` those of ``node[k]``.

    Only placements that are allowed and draw something are listed.
    """
    rows, columns = plane.positions
    numbers = np.arange(len(features) * rows * columns).reshape(-1, rows, columns)
    allowed = np.zeros((rows, columns), dtype=np.bool_)
    allowed[plane.inside] = True
    drawn = np.arange(plane.image[0] * plane.image[1]).reshape(plane.image)
    nodes, pixels = [], []
    for f, a, b in zip(*np.nonzero(features), strict=True):
        where = plane.seen_by(a, b)
        nodes.append(numbers[f][where][allowed[where]])
        pixels.append(drawn[allowed[where]])
    all_nodes = np.concatenate(nodes) if nodes else np.zeros(0, np.int64)
    all_pixels = np.concatenate(pixels) if pixels else np.zeros(0, np.int64)
    order = np.argsort(all_nodes, kind="stable")
    node, size = np.unique(all_nodes, return_counts=True)
    ptr = np.concatenate([[0], np.cumsum(size)])
    return ptr, all_pixels[order].astype(np.int32), node


def _improve_features(
    drawing: Drawing,
    features: BinaryArray,
    placements: BinaryArray,
    counts: npt.NDArray[np.int32],
) -> int:
    """One pass over the pixels of all features; ``features`` and ``counts`` change."""
    plane = drawing.plane
    weights = weights_of(plane.matrix, drawing.rates).reshape(-1, *plane.image)
    images = counts.reshape(-1, *plane.image)
    flips = 0
    for f, price in enumerate(price_of(features.reshape(len(features), -1).T)):
        for a, b in np.ndindex(*plane.window):
            on = features[f, a, b]
            placed = placements[:, f, *plane.seen_by(a, b)]
            gain = weights[(placed > 0) & (images == on)].sum(dtype=np.float64) - price
            if (gain > 0) != bool(on):
                features[f, a, b] = 1 - on
                images += placed * np.int32(1 - 2 * int(on))
                flips += 1
    return flips


def prune_drawing(drawing: Drawing, most: int) -> Drawing:
    """Drop features until at most ``most`` are left and the score falls without any of them."""
    drawing = refine_drawing(drawing)
    while len(drawing.features) > most:
        rests = [drawing.without(f) for f in range(len(drawing.features))]
        drawing = refine_drawing(max(rests, key=Drawing.score), rounds=3)
    drawing = refine_drawing(drawing)
    while len(drawing.features):
        rests = [refine_drawing(drawing.without(f)) for f in range(len(drawing.features))]
        best = max(rests, key=Drawing.score)
        if best.score() < drawing.score():
            break
        drawing = best
    return drawing


def to_corner(drawing: Drawing) -> Drawing:
    """Every feature moved to the top left of its window, its placements along with it."""
    plane = drawing.plane
    if not plane.border:  # elsewhere in its window, a feature reaches other places
        return drawing
    features, placements = np.zeros_like(drawing.features), np.zeros_like(drawing.placements)
    height, width = plane.window
    rows, columns = plane.positions
    for f, feature in enumerate(drawing.features):
        if feature.any():
            a, b = (int(np.flatnonzero(feature.any(axis=axis))[0]) for axis in (1, 0))
            features[f, : height - a, : width - b] = feature[a:, b:]
            placements[:, f, a:, b:] = drawing.placements[:, f, : rows - a, : columns - b]
    return plane.draw(features, placements)
