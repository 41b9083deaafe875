"""Where circles lie on a map: near what is alike, and never on top of each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray, LongArray

__all__ = ["Circles", "inside", "neighbourhoods", "placed"]

_ROUNDS = 400
_GAP = 0.04  # of the mean radius, between circles


class Circles(NamedTuple):
    """Centres ``x`` and ``y`` and radii, each (n,)."""

    x: FloatArray
    y: FloatArray
    radius: FloatArray

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, width and height of all circles."""
        left, top = (self.x - self.radius).min(), (self.y - self.radius).min()
        right, bottom = (self.x + self.radius).max(), (self.y + self.radius).max()
        return float(left), float(top), float(right - left), float(bottom - top)


def placed(radius: FloatArray, similarity: npt.NDArray[np.float64], aspect: float) -> Circles:
    """Circles side by side, alike ones near each other.

    Parameters
    ----------
    radius : (n,) their sizes.
    similarity : (n, n) from 0 to 1, symmetric.
    aspect : width of the map over its height, about.

    The start is the plane that shows the distances best (classical scaling). Then circles are drawn
    to the middle, and to what they are alike, and pushed out of each other.
    """
    n = len(radius)
    if n == 1:
        return Circles(np.zeros(1), np.zeros(1), radius)
    spread = float(np.sqrt((radius**2).sum()))
    place = _plane(similarity) * spread * 1.5
    stretch = np.array([np.sqrt(aspect), 1.0 / np.sqrt(aspect)])
    place = place * stretch
    gap = _GAP * float(radius.mean())
    reach = radius[:, None] + radius[None, :] + gap
    pull = similarity - np.diag(np.diag(similarity))
    pull = pull / np.maximum(pull.sum(axis=1, keepdims=True), 1e-9)
    for number in range(_ROUNDS):
        calm = 1.0 - number / _ROUNDS
        place = place - 0.03 * calm * place / stretch**2
        place = place + 0.03 * calm * (pull @ place - place * (pull.sum(axis=1) > 0)[:, None])
        place = _apart(place, reach)
    for _ in range(_ROUNDS):  # until nothing overlaps
        moved = _apart(place, reach)
        if np.abs(moved - place).max() < 1e-3 * gap:
            break
        place = moved
    return Circles(place[:, 0], place[:, 1], radius)


def inside(parts: Circles, margin: float) -> tuple[Circles, float]:
    """The same circles around the origin, and the radius of a circle that holds them."""
    x, y, radius = parts
    centre = np.array([(x * radius**2).sum(), (y * radius**2).sum()]) / (radius**2).sum()
    for _ in range(200):  # towards the farthest until all are about as far
        far = np.hypot(x - centre[0], y - centre[1]) + radius
        k = int(np.argmax(far))
        step = np.array([x[k], y[k]]) - centre
        centre = centre + 0.05 * step
    far = np.hypot(x - centre[0], y - centre[1]) + radius
    return Circles(x - centre[0], y - centre[1], radius), float(far.max() + margin)


def _plane(similarity: npt.NDArray[np.float64]) -> FloatArray:
    """(n, 2) places between -1 and 1 whose distances are about one minus the similarity."""
    n = len(similarity)
    distance = 1.0 - similarity
    np.fill_diagonal(distance, 0.0)
    middle = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * middle @ distance**2 @ middle)
    place = vectors[:, -2:][:, ::-1] * np.sqrt(np.maximum(values[-2:][::-1], 0.0))
    # Signs of eigenvectors are arbitrary: the first that counts is positive.
    signs = np.sign(place[np.abs(place).argmax(axis=0), np.arange(place.shape[1])])
    place = place * np.where(signs == 0, 1.0, signs)
    # What is alike in nothing would lie in one point.
    angle = 2.399963 * np.arange(n)
    place = (
        place
        + 0.05
        * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        * (np.sqrt(np.arange(n) + 0.5) / np.sqrt(n))[:, None]
    )
    return np.asarray(place / max(1e-9, float(np.abs(place).max())))


def _apart(place: FloatArray, reach: FloatArray) -> FloatArray:
    """Push overlapping circles apart, each by half of what is missing."""
    difference = place[:, None, :] - place[None, :, :]
    distance = np.sqrt((difference**2).sum(axis=2)) + 1e-9
    missing = np.maximum(reach - distance, 0.0)
    np.fill_diagonal(missing, 0.0)
    push = 0.5 * (missing / distance)[:, :, None] * difference
    return np.asarray(place + push.sum(axis=1))


def neighbourhoods(similarity: npt.NDArray[np.float64], most: int) -> LongArray:
    """(n,) numbers of groups of what is alike, the largest group first, at most so many."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    n = len(similarity)
    if n < 3:
        return np.arange(n)
    distance = np.clip(1.0 - (similarity + similarity.T) / 2, 0.0, None)
    np.fill_diagonal(distance, 0.0)
    label = fcluster(linkage(squareform(distance, checks=False), "average"), most, "maxclust")
    _, number, count = np.unique(label, return_inverse=True, return_counts=True)
    rank = np.empty(len(count), dtype=np.int64)
    rank[np.argsort(-count, kind="stable")] = np.arange(len(count))
    return np.asarray(rank[number])
