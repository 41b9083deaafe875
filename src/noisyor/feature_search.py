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

from noisyor.cover import Cover, Matrix, Rates, _price, _rates, _weights
from noisyor.engines.numba.cover import improve_rows
from noisyor.engines.threads import resolve_threads, run_blocks
from noisyor.errors import InvalidDataError, InvalidNetworkError, InvalidSettingError
from noisyor.inference.joint import JointMaxProduct, deconvolve
from noisyor.inference.settings import check_seed, is_whole
from noisyor.network import FloatArray, Network, theta_from_failure, theta_from_probability
from noisyor.observations import Observations
from noisyor.progress import progress_bar
from noisyor.structure import activation_shape

__all__ = ["FoundFeatures", "search_features", "start_from_features"]

BinaryArray = npt.NDArray[np.uint8]


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
_ROUNDS = 30

_MOST_PRODUCTS = 2**25
"""Placements x pixels of a feature in a joint run, over all images and features; beyond, each run
sees a sample of the images."""

_MOST_PIXELS = 2**23
"""Pixels of the images that are searched; beyond, a sample of them is."""

_OFF_FAILURE = 0.999
"""Failure probability of a pixel that a feature does not have: training may still grow it."""

_UNUSED_PRIOR = 1e-4
"""Prior probability of a feature that nothing was found for."""

_PRIOR_ROWS = 2.0
"""Weight of the overall failure rate beside a pixel's own count."""


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
    n_threads: int | None = None,
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
    n_threads : default all cores. The result does not depend on it.
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
        resolve_threads(n_threads),
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


def start_from_features(network: Network, found: FoundFeatures) -> Network:
    """A convolutional network whose features are those found; fixed parameters keep their value.

    Parameters
    ----------
    network : from `convolutional`, with at least as many features as were found and the same
        placements; the others are switched off.
    found : result of `search_features`.
    """
    theta = np.array(network.theta)
    for name, value in (
        ("failure", theta_from_failure(_filled(found.failure, network, _OFF_FAILURE))),
        ("prior", theta_from_probability(_filled(found.prior, network, _UNUSED_PRIOR))),
        ("noise", theta_from_probability(np.full(network.n_visible, found.rates.spurious))),
    ):
        index = network.group(name)
        theta[index] = value if index.shape == value.shape else value.mean()
    return network.with_theta(np.where(network.free, theta, network.theta))


def _filled(found: FloatArray, network: Network, rest: float) -> FloatArray:
    """The values found, followed by a constant for the features of the network beyond them."""
    n_features = len(network.group("failure"))
    if len(found) > n_features:
        raise InvalidNetworkError(
            f"{len(found)} features were found, but the network has {n_features}"
        )
    missing = np.full((n_features - len(found), *found.shape[1:]), rest)
    return np.concatenate([found, missing])


class _Plane(NamedTuple):
    """What all drawings of the same images share.

    ``matrix`` the pixels, (n_images, n_pixels); ``image``, ``window`` (height, width); ``border``
    whether placements may hang over. Placements are always numbered as in a network where they
    may; those that may not be are never on.
    """

    matrix: Matrix
    image: tuple[int, int]
    window: tuple[int, int]
    border: bool
    n_threads: int

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

    def draw(self, features: BinaryArray, placements: BinaryArray) -> _Drawing:
        """A drawing with its counts and rates worked out."""
        counts = self.counts(features, placements)
        return _Drawing(self, features, placements, counts, _rates(self.matrix, counts))


@dataclass(frozen=True, eq=False)
class _Drawing:
    """Features (n, height, width), their placements (n_images, n, rows, columns), and the counts.

    ``counts`` (n_images, n_pixels) says how many placements draw each pixel.
    """

    plane: _Plane
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

    def keep(self, features: npt.ArrayLike) -> _Drawing:
        """The drawing with some of its features only, in this order."""
        chosen = np.asarray(features, dtype=np.intp)
        return self.plane.draw(self.features[chosen], self.placements[:, chosen])

    def without(self, feature: int) -> _Drawing:
        """The drawing without one of its features."""
        return self.keep(np.delete(np.arange(len(self.features)), feature))

    def beside(self, other: _Drawing) -> _Drawing:
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
        failure = np.full(self.features.shape, _OFF_FAILURE)
        for f, a, b in zip(*np.nonzero(self.features), strict=True):
            placed = self.placements[:, f, *self.plane.seen_by(a, b)] > 0
            failed = (placed & zero).sum() + _PRIOR_ROWS * self.rates.missed
            failure[f, a, b] = failed / ((placed & alone).sum() + _PRIOR_ROWS)
        return np.asarray(np.clip(failure, 1e-5, _OFF_FAILURE))

    def prior(self) -> FloatArray:
        """Probability of each feature at a place, from counts, (n,)."""
        states = self.cover().states
        return np.asarray((states.sum(0) + 1.0) / (len(states) + 2.0))

    def cover(self) -> Cover:
        """The same as a cover whose rows are the places: so features cost by all their pixels."""
        by_feature = (len(self.features), -1) if len(self.features) else (0, 1)
        states = self.placements[:, :, *self.plane.inside].swapaxes(0, 1).reshape(by_feature)
        return Cover(states.T, self.features.reshape(by_feature), self.counts, self.rates)


def _refine(drawing: _Drawing, rounds: int = _ROUNDS) -> _Drawing:
    """Flip placements, then pixels of features, in turn, while the score rises."""
    for _ in range(rounds if len(drawing.features) else 0):
        placements, features = drawing.placements.copy(), drawing.features.copy()
        counts = drawing.counts.copy()
        flips = _improve_placements(drawing, placements, counts)
        flips += _improve_features(drawing, features, placements, counts)
        if not flips:
            break
        drawing = drawing.plane.draw(features, placements)
    return drawing


def _improve_placements(
    drawing: _Drawing, placements: BinaryArray, counts: npt.NDArray[np.int32]
) -> int:
    """One pass over all images; ``placements`` and ``counts`` change."""
    plane = drawing.plane
    weights = _weights(plane.matrix, drawing.rates)
    ptr, pixel, node = _drawn_by(plane, drawing.features)
    n_images = len(placements)
    states = np.ascontiguousarray(placements.reshape(n_images, -1)[:, node])
    prices = np.repeat(_price(drawing.cover().states), np.prod(plane.positions))[node]
    flips: list[int] = []

    def work(begin: int, end: int) -> None:
        flips.append(improve_rows(weights, counts, states, ptr, pixel, prices, begin, end))

    run_blocks(work, n_images, plane.n_threads)
    placements.reshape(n_images, -1)[:, node] = states
    return sum(flips)


def _drawn_by(
    plane: _Plane, features: BinaryArray
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
    drawing: _Drawing,
    features: BinaryArray,
    placements: BinaryArray,
    counts: npt.NDArray[np.int32],
) -> int:
    """One pass over the pixels of all features; ``features`` and ``counts`` change."""
    plane = drawing.plane
    weights = _weights(plane.matrix, drawing.rates).reshape(-1, *plane.image)
    images = counts.reshape(-1, *plane.image)
    flips = 0
    for f, price in enumerate(_price(features.reshape(len(features), -1).T)):
        for a, b in np.ndindex(*plane.window):
            on = features[f, a, b]
            placed = placements[:, f, *plane.seen_by(a, b)]
            gain = weights[(placed > 0) & (images == on)].sum(dtype=np.float64) - price
            if (gain > 0) != bool(on):
                features[f, a, b] = 1 - on
                images += placed * np.int32(1 - 2 * int(on))
                flips += 1
    return flips


def _prune(drawing: _Drawing, most: int) -> _Drawing:
    """Drop features until at most ``most`` are left and the score falls without any of them."""
    drawing = _refine(drawing)
    while len(drawing.features) > most:
        rests = [drawing.without(f) for f in range(len(drawing.features))]
        drawing = _refine(max(rests, key=_Drawing.score), rounds=3)
    drawing = _refine(drawing)
    while len(drawing.features):
        rests = [_refine(drawing.without(f)) for f in range(len(drawing.features))]
        best = max(rests, key=_Drawing.score)
        if best.score() < drawing.score():
            break
        drawing = best
    return drawing


def _to_corner(drawing: _Drawing) -> _Drawing:
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


class _Search:
    """The searched images, and the starts."""

    def __init__(
        self,
        observations: Observations,
        n_features: int,
        window: tuple[int, int],
        border: bool,
        seed: int,
        n_threads: int,
    ) -> None:
        image = (observations.shape[0], observations.shape[1])
        activation_shape(image, window, border)  # says so if the features do not fit
        self.chosen = np.arange(observations.n_rows, dtype=np.int64)
        most = max(1, _MOST_PIXELS // observations.n_visible)
        if observations.n_rows > most:
            order = np.random.default_rng(seed).permutation(observations.n_rows)
            self.chosen = np.sort(order[:most]).astype(np.int64)
            observations = observations.take(self.chosen)
        self.dense = observations.to_dense()
        matrix = Matrix(self.dense > 0, ~np.isnan(self.dense))  # NaN > 0 is False
        self.plane = _Plane(matrix, image, (window[0], window[1]), border, n_threads)
        self.most, self.seed = n_features, seed

    def run(self, starts: int, patience: int, bar: Any) -> tuple[_Drawing, list[float]]:
        """Best drawing, and its score after each start."""
        best = self._start(0)
        scores, stale = [best.score()], 0
        for number in range(1, starts):
            bar.update(1)
            bar.set_postfix(features=len(best.features), errors=best.errors())
            new = self._start(number)
            both = _prune(_to_corner(best.beside(new)), self.most)
            best = max((best, new, both), key=_Drawing.score)
            scores.append(best.score())
            stale = 0 if scores[-1] > scores[-2] + 1e-6 else stale + 1
            if stale >= patience:
                break
        return _to_corner(best), scores

    def _start(self, number: int) -> _Drawing:
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
            n_threads=plane.n_threads,
        )
        placements = np.zeros((len(padded), self.most, *plane.positions), dtype=np.uint8)
        first = [plane.window[k] - 1 - margin[k] for k in (0, 1)]
        rows, columns = (slice(first[k], first[k] + places[k]) for k in (0, 1))
        placements[chosen, :, rows, columns] = found.activations
        return _prune(_to_corner(plane.draw(found.features, placements)), self.most)

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
