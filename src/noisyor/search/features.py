"""Search for the features that binary images are made of: many restarts, the best of each kept.

Joint max-product over features and placements (`deconvolve`) draws the images almost without error,
but one run in a few has split a feature, drawn it twice at different places of its window, or
missed one. So every run is refined by single flips of placements and pixels, pruned by description
length, and combined with the best cover so far, as in `factors`; the description length is that of
`cover`, with the pixels of a feature shared by all its placements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import AnyArray, BinaryArray, FloatArray
from noisyor._util.progress import Job, Progress, TimeUpError, progress_bar
from noisyor._util.validation import COUNT, check_seed
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidDataError
from noisyor.inference.joint import JointMaxProduct, deconvolve
from noisyor.model.layout import state_shape
from noisyor.search.cover import ErrorRates, Matrix
from noisyor.search.placements import ImageProblem, PatchCover, anchor_top_left, prune_patches
from noisyor.search.restarts import (
    Keeper,
    Restarts,
    draw_rows,
    numbers_in,
    packed,
    sample_rows,
    unpacked,
)

__all__ = ["FoundFeatures", "search_features"]


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
"""The same for placements, over all images and features: every flip of one is tried many times."""


@dataclass(frozen=True, eq=False)
class FoundFeatures:
    """What a search found.

    Attributes
    ----------
    features : uint8 (n_components, height, width), most frequent first.
    states : uint8 (n_searched, n_components, rows, columns), placements in those images.
    failure : (n_components, height, width) failure probabilities, from counts.
    prior : (n_components,) probabilities of a feature at a place, from counts.
    rates : of errors.
    scores : of the best cover after each restart.
    errors : number of pixels of the searched images that the cover gets wrong.
    images : (n_searched,) numbers of the searched images.
    border : whether features may hang over the border.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> images = np.zeros((6, 3, 3))
    >>> images[:, 1, :2] = 1
    >>> found = nor.search.search_features(images, 1, (1, 2), border=False, n_restarts=1)
    >>> found.features.tolist(), found.states.shape
    ([[[1, 1]]], (6, 1, 3, 2))
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
    keeper: Keeper | None = None,
) -> FoundFeatures:
    """Find small shapes that, stamped into place, make up binary images.

    Parameters
    ----------
    images : (n_images, height, width) or any other form of images that `Observations.of` takes; NaN
        is unobserved. Images with weights are drawn as often as they say.
    n_components : number of features at most; only those supported by the images (MDL) are kept.
    feature_shape : (height, width) of a feature's window; a smaller feature lies in its top left.
    border : let features hang over the border of the image, see `state_shape`.
    n_restarts : runs of joint max-product at most.
    patience : stop after so many restarts in a row that added nothing.
    seed : of the noise and of the sample of images, if there are more than some million pixels or
        places for features.
    engine : as in `explain`.
    progress, keeper : as in `search_factors`.

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
    job = Job.of(progress, ["search"])
    search = _Search(
        observations, n_components, feature_shape, border, check_seed(seed), engine, job
    )
    best, restarts = None, Restarts(patience)
    kept = None if keeper is None else keeper.load("restarts")
    if kept is not None:
        best = search.cover_in(kept)
        restarts = Restarts(patience, numbers_in(kept, "scores"))
    try:
        with progress_bar(n_restarts, "search", "restarts", job) as bar:
            numbers = range(len(restarts.scores), n_restarts)
            for found in search.covers(numbers, best, bar) if restarts.worthwhile else ():
                best = found
                restarts.add(best.score())
                if keeper is not None:
                    scores = {"scores": np.array(restarts.scores)}
                    keeper.save("restarts", {**search.bits(best), **scores})
                if not restarts.worthwhile:
                    break
    except TimeUpError:
        best = search.draft() if best is None else best
    assert best is not None
    best = anchor_top_left(best)
    order = np.argsort(-best.placements.sum((0, 2, 3), dtype=np.int64), kind="stable")
    best = best.keep(order)
    return FoundFeatures(
        features=best.patches,
        states=best.placements[:, :, *search.problem.inside],
        failure=best.failure(),
        prior=best.prior(),
        rates=best.rates,
        scores=tuple(restarts.scores),
        errors=best.errors(),
        images=search.chosen,
        border=border,
    )


def _searched(
    observations: Observations, n_placements: int, seed: int
) -> tuple[npt.NDArray[np.int64], Observations]:
    """Numbers of the images that are searched, and those images; an image has ``n_placements``.

    Images rarely repeat, so the search knows no weights: an image of weight w is w images.
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
        seed: int,
        engine: EngineLike,
        job: Job,
    ) -> None:
        image = (observations.shape[0], observations.shape[1])
        places = state_shape(image, window, border)  # says so if the features do not fit
        self.chosen, observations = _searched(
            observations, max_components * places[0] * places[1], seed
        )
        self.dense = observations.to_dense()
        matrix = Matrix(self.dense > 0, ~np.isnan(self.dense))  # NaN > 0 is False
        self.problem = ImageProblem(matrix, image, (window[0], window[1]), border, engine)
        self.max_components, self.seed, self.job = max_components, seed, job
        self._first: PatchCover | None = None

    def covers(self, numbers: range, best: PatchCover | None, bar: Any) -> Iterator[PatchCover]:
        """The best cover so far after each restart, from the best of those before, if any."""
        for number in numbers:
            if best is None:
                best = self._start(number)
                yield best
                continue
            bar.update(1)
            bar.set_postfix(features=len(best.patches), errors=best.errors())
            new = self._start(number)
            joined = anchor_top_left(best.concatenate(new))
            both = prune_patches(joined, self.max_components)
            best = max((best, new, both), key=PatchCover.score)
            yield best

    def draft(self) -> PatchCover:
        """What there is before the first restart has ended."""
        if self._first is not None:
            return self._first
        return self.problem.cover(
            np.zeros((0, *self.problem.window), dtype=np.uint8),
            np.zeros((len(self.chosen), 0, *self.problem.positions), dtype=np.uint8),
        )

    def bits(self, cover: PatchCover) -> dict[str, AnyArray]:
        """A cover as arrays, for `cover_in`."""
        return {**packed("patches", cover.patches), **packed("placements", cover.placements)}

    def cover_in(self, kept: dict[str, AnyArray]) -> PatchCover:
        """The inverse of `bits`."""
        patches = unpacked(kept, "patches", (None, *self.problem.window))
        shape = (len(self.chosen), len(patches), *self.problem.positions)
        return self.problem.cover(patches, unpacked(kept, "placements", shape))

    def _start(self, number: int) -> PatchCover:
        """A refined and pruned cover from one run of joint max-product."""
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
            order = np.random.default_rng((self.seed, number)).permutation(len(chosen))
            chosen = np.sort(order[: max(1, affordable)])
        found = deconvolve(
            padded[chosen],
            self.max_components,
            problem.window,
            JointMaxProduct(iterations=_ITERATIONS),
            state_probability=start.state_probability,
            flip_probability=start.flip_probability,
            seed=self.seed + 1_000_003 * number,
            engine=problem.engine,
            progress=self.job,
        )
        shape = (len(padded), self.max_components, *problem.positions)
        placements = np.zeros(shape, dtype=np.uint8)
        first = [problem.window[k] - 1 - margin[k] for k in (0, 1)]
        rows, columns = (slice(first[k], first[k] + places[k]) for k in (0, 1))
        placements[chosen, :, rows, columns] = found.states
        cover = problem.cover(found.features, placements)
        self._first = self._first or cover
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
