"""Score results: reconstruction errors, and the recovery of known features.

Images are binary stacks (n_images, height, width); features are (n_components, height, width).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from noisyor._util.arrays import BinaryArray, BoolArray, FloatArray, LongArray, dense_of
from noisyor.errors import InvalidDataError, InvalidNetworkError
from noisyor.model.forward import binary_array, boolean_convolution, boolean_product
from noisyor.model.network import Network

__all__ = [
    "factorization_error",
    "features_iou",
    "match_features",
    "reconstruct_images",
    "reconstruction_error",
    "threshold_features",
]


class FeatureMatch(NamedTuple):
    """Pairs of true and learned features.

    ``learned`` (n_true,) index of the learned feature, -1 if none is left; ``iou`` (n_true,)
    intersection over union of the pair, 0 if none is left.
    """

    learned: LongArray
    iou: FloatArray


def threshold_features(theta: npt.ArrayLike) -> BinaryArray:
    """Return the pixels that a feature is more likely to switch on than not, ``theta > log 2``.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.metrics.threshold_features([[0.1, 0.7], [2.0, 0.6]]).tolist()
    [[0, 1], [1, 0]]
    """
    likely: BoolArray = np.asarray(theta, dtype=np.float64) > np.log(2.0)
    return likely.astype(np.uint8)


def reconstruct_images(network: Network, states: Any) -> BinaryArray:
    """Draw the images that the hidden states of a convolutional network describe.

    Parameters
    ----------
    network : built by `noisyor.convolutional`, with or without border.
    states : binary (n_images, n_hidden), dense or SciPy sparse, such as ``Posterior.states``.

    Returns
    -------
    uint8 (n_images, height, width).

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.convolutional((2, 3), 1, (2, 2), failure_probability=0.1)
    >>> nor.metrics.reconstruct_images(network, [[0, 1]]).tolist()
    [[[0, 1, 1], [0, 1, 1]]]
    """
    layout = network.layout
    if layout is None:
        raise InvalidNetworkError("only a network built by `convolutional` draws images")
    dense = dense_of(states)
    if dense.ndim != 2 or dense.shape[1] != network.n_hidden:
        raise InvalidDataError(
            f"states have shape (n_images, {network.n_hidden}) for this network, got {dense.shape}"
        )
    placed = dense.reshape(-1, layout.n_components, *layout.state_shape)
    features = threshold_features(network.theta_of("failure"))
    return boolean_convolution(placed, features, layout.border)


def reconstruction_error(X_reconstructed: npt.ArrayLike, X: npt.ArrayLike) -> float:
    """Return the share of entries that differ, in percent; both binary and of the same shape.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.metrics.reconstruction_error([[1, 0], [0, 0]], [[1, 1], [0, 0]])
    25.0
    """
    reconstructed, given = binary_array("X_reconstructed", X_reconstructed), binary_array("X", X)
    if reconstructed.shape != given.shape:
        raise InvalidDataError(
            f"X_reconstructed has shape {reconstructed.shape}, but X has shape {given.shape}"
        )
    if not given.size:
        raise InvalidDataError(f"X has no entries, its shape is {given.shape}")
    return 100.0 * float((reconstructed != given).mean())


def factorization_error(network: Network, states: Any, X: npt.ArrayLike) -> float:
    """Return the reconstruction error of a Boolean matrix factorization, in percent.

    Parameters
    ----------
    network : built by `noisyor.bipartite`; its factor is ``theta >= log 2``, where a cause is at
        least as likely to switch a visible on as not.
    states : binary (n, n_hidden), dense or SciPy sparse: the inferred hidden states.
    X : binary (n, n_visible).

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(2, 1, failure_probability=[[0.1, 0.1]])
    >>> nor.metrics.factorization_error(network, [[1], [0]], [[1, 1], [0, 1]])
    25.0
    """
    theta = network.theta_of("failure")
    if theta.shape != (network.n_hidden, network.n_visible):
        raise InvalidNetworkError(
            "only a bipartite network is a factorization; this one has parameters 'failure' of "
            f"shape {theta.shape}, {network.n_hidden} hidden and {network.n_visible} visible nodes"
        )
    dense = dense_of(states)
    return reconstruction_error(boolean_product(dense, theta >= np.log(2.0)), X)


def features_iou(learned_binary: npt.ArrayLike, true: npt.ArrayLike) -> float:
    """Return the mean intersection over union of true features with their learned matches.

    See `match_features` for the arguments; true features without a partner count as 0.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.metrics.features_iou([[[1, 1], [0, 1]]], [[[1, 1], [1, 1]]])
    0.75
    """
    return float(match_features(learned_binary, true).iou.mean())


def match_features(learned_binary: npt.ArrayLike, true: npt.ArrayLike) -> FeatureMatch:
    """Match true with learned features so that the total intersection over union is largest.

    The overlap of a pair is the best over all positions of the true feature's window inside the
    learned feature, since shifted features draw the same images.

    Parameters
    ----------
    learned_binary : binary (n_learned, height, width), see `threshold_features`.
    true : binary (n_true, true_height, true_width), none larger than the learned, none empty.

    Examples
    --------
    >>> import noisyor as nor
    >>> learned = [[[0, 1, 1]], [[1, 0, 0]]]
    >>> match = nor.metrics.match_features(learned, [[[1, 0]], [[1, 1]]])
    >>> match.learned.tolist(), match.iou.tolist()
    ([1, 0], [1.0, 1.0])
    """
    learned, targets = (
        binary_array("learned_binary", learned_binary, 3),
        binary_array("true", true, 3),
    )
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
    match = FeatureMatch(np.full(len(targets), -1), np.zeros(len(targets)))
    match.learned[chosen] = partner
    match.iou[chosen] = best[chosen, partner]
    return match
