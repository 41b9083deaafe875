"""Search for the features that binary images are made of: many starts, the best of each kept.

Joint max-product over features and placements (`deconvolve`) draws the images almost without error,
but one run in a few has split a feature, drawn it twice at different places of its window, or
missed one. So every run is refined by single flips of placements and pixels, pruned by description
length, and combined with the best drawing so far, as in `factor_search`; the description length is
that of `cover`, with pixels of a feature shared by all its placements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor._util.progress import progress_bar
from noisyor._util.validation import check_seed, is_whole
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.joint_max_product import JointMaxProduct, deconvolve
from noisyor.network.layout import activation_shape
from noisyor.search.objectives import Matrix, Rates
from noisyor.search.placements import Drawing, Plane, prune_drawing, to_corner
from noisyor.search.restarts import best_of_starts, sample_rows

__all__ = ["FoundFeatures", "search_features"]


class _Start(NamedTuple):
    """A run of joint max-product: its prior of a placement, and of a wrong pixel."""

    activation_probability: float
    flip_probability: float


_STARTS = (
    _Start(0.01, 1e-3),
    _Start(1e-75, 1e-100),
    _Start(0.01, 0.02),
    _Start(1e-4, 1e-3),
    _Start(0.01, 0.1),
)

_ITERATIONS = 100

_MOST_PRODUCTS = 2**25
"""Placements x pixels of a feature in a joint run, over all images and features; beyond, each run
sees a sample of the images."""

_MOST_PIXELS = 2**23
"""Pixels of the images that are searched; beyond, a sample of them is."""


@dataclass(frozen=True, eq=False)
class FoundFeatures:
    """What a search found.

    ``features`` uint8 (n_found, height, width), most frequent first; ``activations`` uint8
    (n_searched, n_found, rows, columns) placements in the images ``images`` (n_searched,) that were
    searched; ``failure`` (n_found, height, width) and ``prior`` (n_found,) probabilities from
    counts; ``rates`` of errors; ``scores`` of the best drawing after each start; ``errors`` pixels
    of those images it gets wrong; ``border`` whether placements may hang over the border.
    """

    features: BinaryArray
    activations: BinaryArray
    failure: FloatArray
    prior: FloatArray
    rates: Rates
    scores: tuple[float, ...]
    errors: int
    images: npt.NDArray[np.int64]
    border: bool


def search_features(
    images: Any,
    n_features: int,
    feature_shape: tuple[int, int],
    *,
    border: bool = True,
    starts: int = 6,
    patience: int = 3,
    seed: int = 0,
    engine: EngineLike = "auto",
    progress: bool | None = False,
) -> FoundFeatures:
    """Find small shapes that, stamped into place, make up binary images.

    Parameters
    ----------
    images : (n_images, height, width) or any other form of images that `Observations.of` takes; NaN
        is unobserved.
    n_features : number of features at most; features that the images do not pay for are not kept.
    feature_shape : (height, width) of a feature's window; a smaller feature lies in its top left.
    border : let features hang over the border of the image, see `activation_shape`.
    starts : runs of joint max-product at most.
    patience : stop after so many runs in a row that added nothing.
    seed : of the noise and of the sample of images, if there are more than some million pixels.
    engine : as in `explain`.
    progress : show a progress bar; None shows it on a terminal only.
    """
    observations = Observations.of(images)
    if len(observations.shape) != 2:
        raise InvalidDataError(
            f"images have a height and a width, got observations of shape {observations.shape}"
        )
    for name, value in (("starts", starts), ("patience", patience), ("n_features", n_features)):
        if not is_whole(value) or value < 1:
            raise InvalidSettingError(f"{name} must be at least 1, got {value!r}")
    search = _Search(
        observations,
        n_features,
        feature_shape,
        border,
        check_seed(seed),
        engine,
    )
    with progress_bar(starts, "search", "starts", progress) as bar:
        best, scores = search.run(starts, patience, bar)
    order = np.argsort(-best.placements.sum((0, 2, 3), dtype=np.int64), kind="stable")
    best = best.keep(order)
    return FoundFeatures(
        features=best.features,
        activations=best.placements[:, :, *search.plane.inside],
        failure=best.failure(),
        prior=best.prior(),
        rates=best.rates,
        scores=tuple(scores),
        errors=best.errors(),
        images=search.chosen,
        border=border,
    )


class _Search:
    """The searched images, and the starts."""

    def __init__(
        self,
        observations: Observations,
        n_features: int,
        window: tuple[int, int],
        border: bool,
        seed: int,
        engine: EngineLike,
    ) -> None:
        image = (observations.shape[0], observations.shape[1])
        activation_shape(image, window, border)  # says so if the features do not fit
        self.chosen, observations = sample_rows(observations, _MOST_PIXELS, seed)
        self.dense = observations.to_dense()
        matrix = Matrix(self.dense > 0, ~np.isnan(self.dense))  # NaN > 0 is False
        self.plane = Plane(matrix, image, (window[0], window[1]), border, engine)
        self.most, self.seed = n_features, seed

    def run(self, starts: int, patience: int, bar: Any) -> tuple[Drawing, list[float]]:
        """Best drawing, and its score after each start."""

        def improve(best: Drawing, number: int) -> Drawing:
            bar.update(1)
            bar.set_postfix(features=len(best.features), errors=best.errors())
            new = self._start(number)
            both = prune_drawing(to_corner(best.beside(new)), self.most)
            return max((best, new, both), key=Drawing.score)

        best, scores = best_of_starts(self._start(0), improve, Drawing.score, starts, patience)
        return to_corner(best), scores

    def _start(self, number: int) -> Drawing:
        """A refined and pruned drawing from one run of joint max-product."""
        plane, start = self.plane, _STARTS[number % len(_STARTS)]
        margin = self._margin(number)
        padded = np.full(
            (len(self.chosen), *(plane.image[k] + 2 * margin[k] for k in (0, 1))),
            np.nan,
            dtype=np.float32,
        )
        inner = tuple(slice(margin[k], margin[k] + plane.image[k]) for k in (0, 1))
        padded[:, *inner] = self.dense.reshape(-1, *plane.image)
        places = activation_shape((padded.shape[1], padded.shape[2]), plane.window)
        affordable = _MOST_PRODUCTS // (self.most * int(np.prod(places) * np.prod(plane.window)))
        chosen = np.arange(len(padded))
        if affordable < len(chosen):  # each start sees images of its own
            order = np.random.default_rng((self.seed, number)).permutation(len(chosen))
            chosen = np.sort(order[: max(1, affordable)])
        found = deconvolve(
            padded[chosen],
            self.most,
            plane.window,
            JointMaxProduct(iterations=_ITERATIONS),
            activation_probability=start.activation_probability,
            flip_probability=start.flip_probability,
            seed=self.seed + 1_000_003 * number,
            engine=plane.engine,
        )
        placements = np.zeros((len(padded), self.most, *plane.positions), dtype=np.uint8)
        first = [plane.window[k] - 1 - margin[k] for k in (0, 1)]
        rows, columns = (slice(first[k], first[k] + places[k]) for k in (0, 1))
        placements[chosen, :, rows, columns] = found.activations
        return prune_drawing(to_corner(plane.draw(found.features, placements)), self.most)

    def _margin(self, number: int) -> tuple[int, int]:
        """Unobserved pixels around the images: a few for features smaller than their window, in
        some runs more for features that the border cuts off.
        """
        if not self.plane.border:
            return 0, 0
        height, width = self.plane.window
        if number % 3 == 2:
            return height // 2, width // 2
        return (height + 4) // 6, (width + 4) // 6
