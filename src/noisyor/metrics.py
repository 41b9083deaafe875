"""How good a result is: reconstruction, recovered features, and the trivial reference beside them.

Images are binary stacks (n_images, height, width); features (n_features, height, width).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from noisyor.errors import InvalidDataError, InvalidNetworkError, InvalidSettingError
from noisyor.network import BoolArray, FloatArray, LongArray, Network
from noisyor.structure import activation_shape

__all__ = [
    "FeatureMatch",
    "TrivialReference",
    "boolean_convolution",
    "features_iou",
    "match_features",
    "reconstruct_images",
    "reconstruction_error",
    "threshold_features",
    "trivial_reference",
]

BinaryArray = npt.NDArray[np.uint8]


class FeatureMatch(NamedTuple):
    """Which learned feature stands for which true one.

    ``learned`` (n_true,) index of the learned feature, -1 if none is left; ``iou`` (n_true,)
    intersection over union of the pair, 0 if none is left; ``offset`` (n_true, 2) row and column
    inside the learned feature where the true one lies.
    """

    learned: LongArray
    iou: FloatArray
    offset: LongArray


class TrivialReference(NamedTuple):
    """What explaining nothing would score: reconstruction error in percent and mean Elbo."""

    reconstruction_error: float
    elbo: float


def boolean_convolution(
    activations: npt.ArrayLike, features: npt.ArrayLike, border: bool = False
) -> BinaryArray:
    """Images in which features are stamped at the active positions, overlaps counted once.

    Parameters
    ----------
    activations : binary (n_images, n_features, rows, columns).
    features : binary (n_features, height, width).
    border : positions include those where the feature hangs over the border of the image, as in
        `noisyor.structure.activation_shape`.

    Returns
    -------
    uint8 (n_images, rows + height - 1, columns + width - 1), or with `border`
    (n_images, rows - height + 1, columns - width + 1).
    """
    stamped = _binary("activations", activations, 4)
    stamps = _binary("features", features, 3)
    n_images, n_features, rows, columns = stamped.shape
    if len(stamps) != n_features:
        raise InvalidDataError(
            f"activations are of {n_features} features, but there are {len(stamps)} features"
        )
    height, width = stamps.shape[1:]
    images = np.zeros((n_images, rows + height - 1, columns + width - 1), dtype=np.bool_)
    for f, a, b in zip(*np.nonzero(stamps), strict=True):
        images[:, a : a + rows, b : b + columns] |= stamped[:, f]
    if border:
        if rows < 2 * height - 1 or columns < 2 * width - 1:
            raise InvalidDataError(
                f"{rows} x {columns} positions are too few for features of {height} x {width} "
                "that hang over the border of an image"
            )
        images = images[:, height - 1 : rows, width - 1 : columns]
    return images.astype(np.uint8)


def threshold_features(theta: npt.ArrayLike) -> BinaryArray:
    """Pixels that a feature is more likely to switch on than not: ``theta > log 2``, uint8."""
    likely: BoolArray = np.asarray(theta, dtype=np.float64) > np.log(2.0)
    return likely.astype(np.uint8)


def reconstruct_images(network: Network, states: Any) -> BinaryArray:
    """Images that the causes of a convolutional network draw with its thresholded features.

    Parameters
    ----------
    network : built by `noisyor.convolutional`, with or without border.
    states : binary (n_images, n_hidden), dense or SciPy sparse, such as ``Posterior.states``.

    Returns
    -------
    uint8 (n_images, height, width).
    """
    features = threshold_features(network.theta_of("failure"))
    image_shape = network.visible_shape
    if features.ndim != 3 or len(image_shape) != 2:
        raise InvalidNetworkError(
            "only a convolutional network draws images; this one has parameters 'failure' of "
            f"shape {features.shape} and observations of shape {image_shape}"
        )
    border = not _fits(network, False)
    if border and not _fits(network, True):
        raise InvalidNetworkError(
            f"{network.n_hidden} hidden nodes are not the positions of features of shape "
            f"{features.shape} in images of shape {image_shape}"
        )
    dense = states.toarray() if sp.issparse(states) else np.asarray(states)
    if dense.ndim != 2 or dense.shape[1] != network.n_hidden:
        raise InvalidDataError(
            f"states have shape (n_images, {network.n_hidden}) for this network, got {dense.shape}"
        )
    positions = activation_shape(image_shape, features.shape[1:], border)
    return boolean_convolution(dense.reshape(-1, len(features), *positions), features, border)


def reconstruction_error(X_reconstructed: npt.ArrayLike, X: npt.ArrayLike) -> float:
    """Entries that differ, in percent. Both binary and of one shape."""
    reconstructed, given = _binary("X_reconstructed", X_reconstructed), _binary("X", X)
    if reconstructed.shape != given.shape:
        raise InvalidDataError(
            f"X_reconstructed has shape {reconstructed.shape}, but X has shape {given.shape}"
        )
    _not_empty(given)
    return 100.0 * float((reconstructed != given).mean())


def trivial_reference(X: npt.ArrayLike, noise: float = 0.01) -> TrivialReference:
    """Score of the all-zero reconstruction: every one in the data put down to noise.

    Parameters
    ----------
    X : binary, first axis the observations.
    noise : probability that a visible is on without a cause. Hidden causes cost nothing here.
    """
    if not 0.0 < noise < 1.0:
        raise InvalidSettingError(f"noise lies between 0 and 1, got {noise}")
    given = _binary("X", X)
    _not_empty(given)
    ones = int(given.sum())
    total = ones * np.log(noise) + (given.size - ones) * np.log1p(-noise)
    return TrivialReference(100.0 * ones / given.size, float(total / len(given)))


def features_iou(learned_binary: npt.ArrayLike, true: npt.ArrayLike) -> float:
    """Mean intersection over union of the true features with the learned ones matched to them.

    See `match_features` for the arguments; true features without a partner count as 0.
    """
    return float(match_features(learned_binary, true).iou.mean())


def match_features(learned_binary: npt.ArrayLike, true: npt.ArrayLike) -> FeatureMatch:
    """Pair true with learned features so that the total intersection over union is largest.

    The overlap of a pair is the best over all places of the true feature's window inside the
    learned feature, since shifted features draw the same images.

    Parameters
    ----------
    learned_binary : binary (n_learned, height, width), see `threshold_features`.
    true : binary (n_true, true_height, true_width), none larger than the learned, none empty.
    """
    learned, targets = _binary("learned_binary", learned_binary, 3), _binary("true", true, 3)
    height, width = targets.shape[1:]
    rows, columns = learned.shape[1] - height + 1, learned.shape[2] - width + 1
    if rows < 1 or columns < 1:
        raise InvalidDataError(
            f"learned features of shape {learned.shape[1:]} are smaller than the true ones of "
            f"shape {targets.shape[1:]}"
        )
    if not len(targets) or not targets.any(axis=(1, 2)).all():
        raise InvalidDataError("there must be true features, and none of them without a pixel")
    windows = np.lib.stride_tricks.sliding_window_view(learned, (height, width), axis=(1, 2))
    pairs = windows[None].reshape(1, len(learned), rows * columns, height, width)
    wanted = targets[:, None, None]
    iou = (pairs & wanted).sum(axis=(3, 4)) / (pairs | wanted).sum(axis=(3, 4))
    best = iou.max(axis=2)  # (n_true, n_learned)
    chosen, partner = linear_sum_assignment(best, maximize=True)
    match = FeatureMatch(
        np.full(len(targets), -1), np.zeros(len(targets)), np.zeros((len(targets), 2), np.int64)
    )
    match.learned[chosen] = partner
    match.iou[chosen] = best[chosen, partner]
    place = iou.argmax(axis=2)[chosen, partner]
    match.offset[chosen] = np.stack(np.divmod(place, columns), axis=1)
    return match


def _fits(network: Network, border: bool) -> bool:
    """Whether the hidden nodes are the positions of the features, with or without border."""
    n_features, *feature_shape = network.group("failure").shape
    try:
        rows, columns = activation_shape(
            (network.visible_shape[0], network.visible_shape[1]),
            (feature_shape[0], feature_shape[1]),
            border,
        )
    except InvalidNetworkError:
        return False
    return bool(n_features * rows * columns == network.n_hidden)


def _binary(name: str, values: npt.ArrayLike, ndim: int | None = None) -> BoolArray:
    array = np.asarray(values)
    if ndim is not None and array.ndim != ndim:
        raise InvalidDataError(f"{name} has {ndim} axes, got an array of shape {array.shape}")
    if array.dtype != np.bool_:
        if array.dtype.kind not in "iuf" or not ((array == 0) | (array == 1)).all():
            raise InvalidDataError(f"{name} is binary, got other values than 0 and 1")
        array = array.astype(np.bool_)
    return array


def _not_empty(array: BoolArray) -> None:
    if not array.size:
        raise InvalidDataError(f"X has no entries, its shape is {array.shape}")
