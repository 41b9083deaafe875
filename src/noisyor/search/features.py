"""Search for the features that binary images are made of: many restarts, the best of each kept.

Joint max-product over features and placements (`pmp_deconvolve`) draws the images almost without
error, but some runs split a feature, find it twice at different positions of its window, or miss
one. So every run is refined by single flips of placements and pixels, pruned by description length,
and combined with the best cover so far, as in `factors`; the description length is that of `cover`,
with the pixels of a feature shared by all its placements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, FloatArray, IntArray
from noisyor._util.progress import Progress, TimeUpError, progress_bar
from noisyor._util.validation import COUNT
from noisyor.data.observations import Observations
from noisyor.engines.context import CheckpointStore, Context, Stored
from noisyor.engines.contract import EngineLike, Factors
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError
from noisyor.inference.joint import JointMaxProduct, pmp_deconvolve
from noisyor.model.layout import state_shape
from noisyor.search.cover import (
    PRIOR_ROWS,
    Cover,
    ErrorRates,
    Matrix,
    bit_cost,
    coverage_gain,
    draw_rows,
    error_rates,
    is_worthwhile,
    sample_rows,
)


class _Start(NamedTuple):
    """A run of joint max-product: its prior of a placement, and of a wrong pixel."""

    state_probability: float
    flip_probability: float


_STARTS = (
    _Start(0.01, 1e-3),
    _Start(1e-75, 1e-100),
    _Start(0.01, 0.02),
    _Start(1e-4, 1e-3),
    _Start(0.01, 0.1),
)

_ITERATIONS = 100

_MAX_PRODUCTS = 2**25
"""Placements x pixels of a feature, over all images and features: above this many, each joint run
sees a random subset of the images."""

_MAX_PIXELS = 2**23
"""Above this many pixels, a random subset of the images is searched."""

_MAX_PLACEMENTS = 2**21
"""Above this many placements, over all images and features, a random subset of the images is
searched."""


@dataclass(frozen=True, eq=False)
class FoundFeatures:
    """What a search found.

    Attributes
    ----------
    features : uint8 (n_components, height, width), most frequent first.
    states : uint8 (n_searched, n_components, rows, columns), placements in those images.
    failure : (n_components, height, width) failure probabilities, from counts.
    prior : (n_components,) probabilities of a feature at a place, from counts.
    rates : error rates.
    scores : scores of the best cover after each restart.
    errors : number of pixels of the searched images that the cover gets wrong.
    images : (n_searched,) numbers of the searched images.
    border : whether features may hang over the border.
    """

    features: BinaryArray
    states: BinaryArray
    failure: FloatArray
    prior: FloatArray
    rates: ErrorRates
    scores: tuple[float, ...]
    errors: int
    images: npt.NDArray[np.int64]
    border: bool


def search_features(
    images: Any,
    n_components: int,
    feature_shape: tuple[int, int],
    *,
    border: bool = True,
    n_restarts: int = 6,
    patience: int = 3,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: Progress = False,
    time_limit: float | None = None,
    store: CheckpointStore | None = None,
) -> FoundFeatures:
    """Find small shapes whose union at various positions forms binary images.

    Parameters
    ----------
    images : (n_images, height, width) or any other form of images that `Observations.of` takes; NaN
        is unobserved. Images are drawn in proportion to their weights.
    n_components : number of features at most; only those supported by the images (MDL) are kept.
    feature_shape : (height, width) of a feature's window; a smaller feature lies in its top left.
    border : let features hang over the border of the image, see `state_shape`.
    n_restarts : runs of joint max-product at most.
    patience : stop after this number of restarts in a row without an improvement.
    seed : seed of the noise, and of the sample of images if there are many millions of pixels or
        positions.
    engine : as in `explain`.
    progress, time_limit, store : as in `search_factors`.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> images = np.zeros((12, 5, 5))
    >>> for number, image in enumerate(images):
    ...     image[number % 4 : number % 4 + 2, number % 3 : number % 3 + 2] = 1
    >>> found = nor.search.search_features(images, 1, (2, 2), n_restarts=1)
    >>> found.features.tolist(), found.errors
    ([[[1, 1], [1, 1]]], 0)
    """
    observations = Observations.of(images)
    if len(observations.shape) != 2:
        raise InvalidDataError(
            f"images have a height and a width, got observations of shape {observations.shape}"
        )
    COUNT.check("n_restarts", n_restarts)
    COUNT.check("patience", patience)
    COUNT.check("n_components", n_components)
    context = Context.of(engine, seed, progress, time_limit, store)
    search = _Search(observations, n_components, feature_shape, border, context)
    with progress_bar(n_restarts, "search", "restarts", context.job) as bar:
        best, scores = search.run(n_restarts, patience, bar)
    best = anchor_top_left(best)
    order = np.argsort(-best.placements.sum((0, 2, 3), dtype=np.int64), kind="stable")
    best = best.keep(order)
    return FoundFeatures(
        features=best.patches,
        states=best.placements[:, :, *search.problem.inside],
        failure=best.failure(),
        prior=best.prior(),
        rates=best.rates,
        scores=tuple(scores),
        errors=best.errors(),
        images=search.chosen,
        border=border,
    )


def _searched(
    observations: Observations, n_placements: int, seed: int
) -> tuple[npt.NDArray[np.int64], Observations]:
    """Return indices of the images to search, and the images; each has ``n_placements``.

    Images rarely repeat, so the search uses no weights: an image of weight w is used w times.
    """
    weights = observations.weights
    most = min(_MAX_PIXELS // observations.n_visible, _MAX_PLACEMENTS // n_placements)
    if weights is None:
        return sample_rows(observations, most * observations.n_visible, seed)
    count = max(len(weights), round(observations.total_weight))
    count = max(1, min(count, most))
    numbers = draw_rows(weights, count, np.random.default_rng(seed))
    drawn = observations.with_weights(None).take(numbers)
    return numbers, Observations.of(drawn, row_ids=np.arange(count))


class _Search:
    """The searched images, and the restarts."""

    def __init__(
        self,
        observations: Observations,
        max_components: int,
        window: tuple[int, int],
        border: bool,
        context: Context,
    ) -> None:
        image = (observations.shape[0], observations.shape[1])
        places = state_shape(image, window, border)  # says so if the features do not fit
        self.chosen, observations = _searched(
            observations, max_components * places[0] * places[1], context.seed
        )
        self.dense = observations.to_dense()
        matrix = Matrix(self.dense > 0, ~np.isnan(self.dense))  # NaN > 0 is False
        self.problem = ImageProblem(matrix, image, (window[0], window[1]), border, context.engine)
        self.max_components, self.context = max_components, context
        self._draft = self.problem.cover(
            np.zeros((0, *self.problem.window), dtype=np.uint8),
            np.zeros((len(self.chosen), 0, *self.problem.positions), dtype=np.uint8),
        )
        """The result if the time limit ends before the first restart."""

    def run(self, n_restarts: int, patience: int, bar: Any) -> tuple[PatchCover, list[float]]:
        """Return the best cover, and its score after each restart."""
        best, scores = None, list[float]()
        kept = self.context.store.load("restarts")
        if kept is not None:
            best, scores = self._cover_in(kept), list(kept.numbers("scores"))
        try:
            while len(scores) < n_restarts and is_worthwhile(scores, patience):
                if best is not None:
                    bar.update(1)
                    bar.set_postfix(features=len(best.patches), errors=best.errors())
                new = self._start(len(scores))
                if best is not None:
                    joined = anchor_top_left(best.concatenate(new))
                    both = prune_patches(joined, self.max_components)
                    new = max((best, new, both), key=PatchCover.score)
                best = new
                scores.append(best.score())
                found = {"patches": best.patches, "placements": best.placements}
                self.context.store.save("restarts", {**found, "scores": np.array(scores)})
        except TimeUpError:
            best = best or self._draft
        assert best is not None
        return best, scores

    def _cover_in(self, kept: Stored) -> PatchCover:
        patches = kept.bits("patches", (None, *self.problem.window))
        shape = (len(self.chosen), len(patches), *self.problem.positions)
        return self.problem.cover(patches, kept.bits("placements", shape))

    def _start(self, number: int) -> PatchCover:
        """Return a refined and pruned cover from one run of joint max-product."""
        problem, start = self.problem, _STARTS[number % len(_STARTS)]
        margin = self._margin(number)
        padded = np.full(
            (len(self.chosen), *(problem.image[k] + 2 * margin[k] for k in (0, 1))),
            np.nan,
            dtype=np.float32,
        )
        inner = tuple(slice(margin[k], margin[k] + problem.image[k]) for k in (0, 1))
        padded[:, *inner] = self.dense.reshape(-1, *problem.image)
        places = state_shape((padded.shape[1], padded.shape[2]), problem.window)
        products = self.max_components * int(np.prod(places) * np.prod(problem.window))
        affordable = _MAX_PRODUCTS // products
        chosen = np.arange(len(padded))
        if affordable < len(chosen):  # each start sees images of its own
            order = np.random.default_rng((self.context.seed, number)).permutation(len(chosen))
            chosen = np.sort(order[: max(1, affordable)])
        found = pmp_deconvolve(
            padded[chosen],
            self.max_components,
            problem.window,
            JointMaxProduct(iterations=_ITERATIONS),
            state_probability=start.state_probability,
            flip_probability=start.flip_probability,
            seed=self.context.seed + 1_000_003 * number,
            engine=problem.engine,
            progress=self.context.job,
        )
        shape = (len(padded), self.max_components, *problem.positions)
        placements = np.zeros(shape, dtype=np.uint8)
        first = [problem.window[k] - 1 - margin[k] for k in (0, 1)]
        rows, columns = (slice(first[k], first[k] + places[k]) for k in (0, 1))
        placements[chosen, :, rows, columns] = found.states
        cover = problem.cover(found.features, placements)
        if not len(self._draft.patches):
            self._draft = cover
        return prune_patches(anchor_top_left(cover), self.max_components)

    def _margin(self, number: int) -> tuple[int, int]:
        """Unobserved pixels around the images: a few for features smaller than their window, in
        some runs more for features that the border cuts off.
        """
        if not self.problem.border:
            return 0, 0
        height, width = self.problem.window
        if number % 3 == 2:
            return height // 2, width // 2
        return (height + 4) // 6, (width + 4) // 6


_ROUNDS = 30

_FEW, _GLANCE = 8, 2
"""With more patches than the first number, covers without one patch are compared after this many
rounds of refinement."""

OFF_FAILURE = 0.999
"""Failure probability of a pixel that is not in a patch: below 1, so that training can change
it."""


class ImageProblem(NamedTuple):
    """What all covers of the same images share.

    ``matrix`` the pixels, (n_images, n_pixels); ``image``, ``window`` (height, width); ``border``
    whether patches may hang over the border. Placements that hang over the border are always
    numbered, but are never on if they are not allowed.
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
        """Return the placements whose pixel (a, b) lies in the image, in the image's order."""
        (height, width), (rows, columns) = self.image, self.window
        top, left = rows - 1 - a, columns - 1 - b
        return slice(top, top + height), slice(left, left + width)

    def cover(self, patches: BinaryArray, placements: BinaryArray) -> PatchCover:
        """Build a cover, with its counts and rates; shapes as in `PatchCover`."""
        images = np.zeros((len(placements), *self.image), dtype=np.int32)
        for f, a, b in zip(*np.nonzero(patches), strict=True):
            images += placements[:, f, *self.seen_by(a, b)]
        counts = images.reshape(len(placements), -1)
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
        """Return minus the description length of images, placements and patches, in nats."""
        return self.as_cover().score(self.problem.matrix)

    def errors(self) -> int:
        """Count the observed pixels that are wrong."""
        return int(self.as_cover().errors(self.problem.matrix))

    def keep(self, patches: npt.ArrayLike) -> PatchCover:
        """Return the cover with some of its patches only, in this order."""
        chosen = np.asarray(patches, dtype=np.intp)
        return self.problem.cover(self.patches[chosen], self.placements[:, chosen])

    def without(self, patch: int) -> PatchCover:
        """Return the cover without one of its patches."""
        return self.keep(np.delete(np.arange(len(self.patches)), patch))

    def concatenate(self, other: PatchCover) -> PatchCover:
        """Return a cover of the patches of both."""
        return self.problem.cover(
            np.concatenate([self.patches, other.patches]),
            np.concatenate([self.placements, other.placements], axis=1),
        )

    def failure(self) -> FloatArray:
        """Return failure probabilities of the pixels, from counts where each is drawn alone."""
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
        """Return the probability of each patch at a position, from counts, (n,)."""
        states = self.as_cover().states
        return np.asarray((states.sum(0) + 1.0) / (len(states) + 2.0))

    def as_cover(self) -> Cover:
        """Return a cover whose rows are the positions, so that a patch costs by all its pixels."""
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
    """Return placements and counts after one pass over all images, and the number of flips."""
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
    """Return the pixels of each placement: ``pixel[ptr[k]:ptr[k + 1]]`` those of ``node[k]``.

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
    """Flip pixels of all patches in one pass; ``patches`` and ``counts`` change."""
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
    """Move every patch to the top left of its window, and shift its placements accordingly."""
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
