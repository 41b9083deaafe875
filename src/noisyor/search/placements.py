"""Patches placed in binary images: what they draw, and moves that shorten its description.

The counterpart of `cover` and `moves` for images. A cover is judged by the same description length:
wrong pixels, placements and pixels of patches all cost something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, FloatArray, IntArray
from noisyor.engines.contract import EngineLike, Factors
from noisyor.engines.registry import get_engine
from noisyor.model.layout import state_shape
from noisyor.search.cover import (
    PRIOR_ROWS,
    Cover,
    ErrorRates,
    Matrix,
    bit_cost,
    coverage_gain,
    error_rates,
)

__all__ = [
    "OFF_FAILURE",
    "ImageProblem",
    "PatchCover",
    "anchor_top_left",
    "prune_patches",
    "refine_patches",
]

_ROUNDS = 30

_FEW, _GLANCE = 8, 2
"""Of more patches than the first number, so many rounds tell which is missed least."""

OFF_FAILURE = 0.999
"""Failure probability of a pixel that a patch does not have: training may still grow it."""


class ImageProblem(NamedTuple):
    """What all covers of the same images share.

    ``matrix`` the pixels, (n_images, n_pixels); ``image``, ``window`` (height, width); ``border``
    whether patches may hang over the border. Placements are always numbered as if they might; those
    that are not allowed are never on.

    >>> pixels = np.array([[[1, 1, 0], [0, 0, 0]]]) > 0
    >>> matrix = Matrix(pixels.reshape(1, 6), np.ones((1, 6)) > 0)
    >>> problem = ImageProblem(matrix, image=(2, 3), window=(1, 2), border=True, engine="auto")
    >>> problem.positions
    (2, 4)
    >>> placements = np.zeros((1, 1, 2, 4), dtype=np.uint8)
    >>> placements[0, 0, 0, 1] = 1
    >>> problem.cover(np.ones((1, 1, 2), dtype=np.uint8), placements).errors()
    0
    """

    matrix: Matrix
    image: tuple[int, int]
    window: tuple[int, int]
    border: bool
    engine: EngineLike

    @property
    def positions(self) -> tuple[int, int]:
        """Rows and columns of placements, those that hang over the border included."""
        return state_shape(self.image, self.window, border=True)

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

    def counts(self, patches: BinaryArray, placements: BinaryArray) -> IntArray:
        """How often each pixel is drawn, (n_images, n_pixels)."""
        counts = np.zeros((len(placements), *self.image), dtype=np.int32)
        for f, a, b in zip(*np.nonzero(patches), strict=True):
            counts += placements[:, f, *self.seen_by(a, b)]
        return counts.reshape(len(placements), -1)

    def cover(self, patches: BinaryArray, placements: BinaryArray) -> PatchCover:
        """A cover with its counts and rates worked out; shapes as in `PatchCover`."""
        counts = self.counts(patches, placements)
        return PatchCover(self, patches, placements, counts, error_rates(self.matrix, counts))


@dataclass(frozen=True, eq=False)
class PatchCover:
    """Patches (n, height, width), their placements (n_images, n, rows, columns), and the counts.

    ``counts`` (n_images, n_pixels) says how many placements draw each pixel.
    """

    problem: ImageProblem
    patches: BinaryArray
    placements: BinaryArray
    counts: IntArray
    rates: ErrorRates

    def score(self) -> float:
        """Minus the description length of images, placements and patches, in nats."""
        return self.as_cover().score(self.problem.matrix)

    def errors(self) -> int:
        """Number of observed pixels that are drawn wrong."""
        return int(self.as_cover().errors(self.problem.matrix))

    def keep(self, patches: npt.ArrayLike) -> PatchCover:
        """The cover with some of its patches only, in this order."""
        chosen = np.asarray(patches, dtype=np.intp)
        return self.problem.cover(self.patches[chosen], self.placements[:, chosen])

    def without(self, patch: int) -> PatchCover:
        """The cover without one of its patches."""
        return self.keep(np.delete(np.arange(len(self.patches)), patch))

    def concatenate(self, other: PatchCover) -> PatchCover:
        """The patches of both covers."""
        return self.problem.cover(
            np.concatenate([self.patches, other.patches]),
            np.concatenate([self.placements, other.placements], axis=1),
        )

    def failure(self) -> FloatArray:
        """Failure probability of each pixel of the patches, from where it alone is drawn."""
        matrix, shape = self.problem.matrix, (-1, *self.problem.image)
        alone = (matrix.observed & (self.counts == 1)).reshape(shape)
        zero = alone & ~matrix.ones.reshape(shape)
        failure = np.full(self.patches.shape, OFF_FAILURE)
        for f, a, b in zip(*np.nonzero(self.patches), strict=True):
            placed = self.placements[:, f, *self.problem.seen_by(a, b)] > 0
            failed = (placed & zero).sum() + PRIOR_ROWS * self.rates.false_negative
            failure[f, a, b] = failed / ((placed & alone).sum() + PRIOR_ROWS)
        return np.asarray(np.clip(failure, 1e-5, OFF_FAILURE))

    def prior(self) -> FloatArray:
        """Probability of each patch at a place, from counts, (n,)."""
        states = self.as_cover().states
        return np.asarray((states.sum(0) + 1.0) / (len(states) + 2.0))

    def as_cover(self) -> Cover:
        """The same as a cover whose rows are the places: so patches cost by all their pixels."""
        by_patch = (len(self.patches), -1) if len(self.patches) else (0, 1)
        states = self.placements[:, :, *self.problem.inside].swapaxes(0, 1).reshape(by_patch)
        return Cover(states.T, self.patches.reshape(by_patch), self.counts, self.rates)


def refine_patches(cover: PatchCover, rounds: int = _ROUNDS) -> PatchCover:
    """Flip placements, then pixels of patches, in turn, while the score rises."""
    for _ in range(rounds if len(cover.patches) else 0):
        patches = cover.patches.copy()
        placements, counts, flips = _improve_placements(cover)
        flips += _improve_patches(cover, patches, placements, counts)
        if not flips:
            break
        cover = cover.problem.cover(patches, placements)
    return cover


def _improve_placements(cover: PatchCover) -> tuple[BinaryArray, IntArray, int]:
    """Placements and counts after one pass over all images, and the number of flips."""
    problem, placements = cover.problem, cover.placements.copy()
    weights = coverage_gain(problem.matrix, cover.rates)
    ptr, pixel, node = _drawn_by(problem, cover.patches)
    n_images = len(placements)
    states = np.ascontiguousarray(placements.reshape(n_images, -1)[:, node])
    costs = np.repeat(bit_cost(cover.as_cover().states), np.prod(problem.positions))[node]
    flipper = get_engine(problem.engine, "cover_memberships")
    result = flipper.cover_memberships(weights, Factors(ptr, pixel), states, cover.counts, costs)
    placements.reshape(n_images, -1)[:, node] = result.states
    return placements, result.counts, result.flips


def _drawn_by(
    problem: ImageProblem, patches: BinaryArray
) -> tuple[npt.NDArray[np.int64], IntArray, npt.NDArray[np.int64]]:
    """Pixels that each placement draws: ``pixel[ptr[k]:ptr[k + 1]]`` those of ``node[k]``.

    Only placements that are allowed and draw something are listed.
    """
    rows, columns = problem.positions
    numbers = np.arange(len(patches) * rows * columns).reshape(-1, rows, columns)
    allowed = np.zeros((rows, columns), dtype=np.bool_)
    allowed[problem.inside] = True
    drawn = np.arange(problem.image[0] * problem.image[1]).reshape(problem.image)
    nodes, pixels = [], []
    for f, a, b in zip(*np.nonzero(patches), strict=True):
        where = problem.seen_by(a, b)
        nodes.append(numbers[f][where][allowed[where]])
        pixels.append(drawn[allowed[where]])
    all_nodes = np.concatenate(nodes) if nodes else np.zeros(0, np.int64)
    all_pixels = np.concatenate(pixels) if pixels else np.zeros(0, np.int64)
    order = np.argsort(all_nodes, kind="stable")
    node, size = np.unique(all_nodes, return_counts=True)
    ptr = np.concatenate([[0], np.cumsum(size)])
    return ptr, all_pixels[order].astype(np.int32), node


def _improve_patches(
    cover: PatchCover,
    patches: BinaryArray,
    placements: BinaryArray,
    counts: IntArray,
) -> int:
    """One pass over the pixels of all patches; ``patches`` and ``counts`` change."""
    problem = cover.problem
    (height, width), (rows, columns) = problem.image, problem.window
    weights = coverage_gain(problem.matrix, cover.rates).reshape(-1, *problem.image)
    images = counts.reshape(-1, *problem.image)
    flips = 0
    for f, cost in enumerate(bit_cost(patches.reshape(len(patches), -1).T)):
        # Placements are few: only the pixels that they draw are looked at.
        placed = np.flatnonzero(placements[:, f].reshape(-1).view(np.bool_))
        image, row, column = np.unravel_index(placed, placements[:, f].shape)
        for a, b in np.ndindex(*problem.window):
            on = patches[f, a, b]
            y, x = row - (rows - 1) + a, column - (columns - 1) + b
            inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
            drawn = image[inside], y[inside], x[inside]
            alone = images[drawn] == on
            gain = weights[drawn][alone].sum(dtype=np.float64) - cost
            if (gain > 0) != bool(on):
                patches[f, a, b] = 1 - on
                images[drawn] += np.int32(1 - 2 * int(on))
                flips += 1
    return flips


def prune_patches(cover: PatchCover, max_components: int) -> PatchCover:
    """Drop patches until at most ``max_components`` are left, all of them supported by the data.

    A patch is supported if the score falls without it.
    """
    cover = refine_patches(cover)
    while len(cover.patches) > max_components:
        rests = [cover.without(f) for f in range(len(cover.patches))]
        cover = refine_patches(max(rests, key=PatchCover.score), rounds=3)
    cover = refine_patches(cover)
    while len(cover.patches):
        rounds = _ROUNDS if len(cover.patches) <= _FEW else _GLANCE
        rests = [refine_patches(cover.without(f), rounds) for f in range(len(cover.patches))]
        best = refine_patches(max(rests, key=PatchCover.score))
        if best.score() < cover.score():
            break
        cover = best
    return cover


def anchor_top_left(cover: PatchCover) -> PatchCover:
    """Every patch moved to the top left of its window, its placements along with it."""
    problem = cover.problem
    if not problem.border:  # elsewhere in its window, a patch reaches other places
        return cover
    patches, placements = np.zeros_like(cover.patches), np.zeros_like(cover.placements)
    height, width = problem.window
    rows, columns = problem.positions
    for f, patch in enumerate(cover.patches):
        if patch.any():
            a, b = (int(np.flatnonzero(patch.any(axis=axis))[0]) for axis in (1, 0))
            patches[f, : height - a, : width - b] = patch[a:, b:]
            placements[:, f, a:, b:] = cover.placements[:, f, : rows - a, : columns - b]
    return problem.cover(patches, placements)
