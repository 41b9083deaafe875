"""Joint max-product in plain NumPy, all ANDs in a list: slow, readable, what engines must match.

Equations T44 and T45 of docs/theory.md. Engines implement the collapsed schedule; the two-stage
schedule is that of the software that the paper compares itself with.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray, LongArray


class Ands(NamedTuple):
    """Flat indices of the activation, the feature pixel and the image pixel of every AND.

    In order of the image pixels; ``start`` is the first AND of each of them.
    """

    activation: LongArray
    feature: LongArray
    pixel: LongArray
    start: LongArray


class JointBeliefs(NamedTuple):
    """Log-odds of activations and features, and the largest change that a message asked for."""

    activations: FloatArray
    features: FloatArray
    residual: float


def list_ands(activations: tuple[int, int, int, int], features: tuple[int, int, int]) -> Ands:
    """The ANDs of activations (n, feature, row, column) and features (feature, line, column)."""
    n, f, i, j = np.indices(activations, sparse=True)
    lines, columns = activations[2] + features[1] - 1, activations[3] + features[2] - 1
    found = []
    for a, b in np.ndindex(features[1:]):
        u = ((n * activations[1] + f) * activations[2] + i) * activations[3] + j
        v = np.broadcast_to((f * features[1] + a) * features[2] + b, u.shape)
        x = np.broadcast_to((n * lines + i + a) * columns + j + b, u.shape)
        found.append(np.stack([u.ravel(), v.ravel(), x.ravel()]))
    listed = np.concatenate(found, axis=1)
    listed = listed[:, np.argsort(listed[2], kind="stable")]
    return Ands(listed[0], listed[1], listed[2], np.unique(listed[2], return_index=True)[1])


def to_and_output(u: FloatArray, v: FloatArray) -> FloatArray:
    """Message of ANDs to their outputs, equation T45."""
    return np.minimum(u + v, np.minimum(u, v))


def to_and_input(other: FloatArray, output: FloatArray) -> FloatArray:
    """Message of ANDs to an input: ``[other + output]_+ - [other]_+``, equation T45."""
    # In a form that does not subtract two large numbers.
    below = np.minimum(other, 0.0)
    return np.maximum(below + output, below - other)


def to_or_inputs(t: FloatArray, evidence: FloatArray, start: LongArray) -> FloatArray:
    """Messages of ORs to their inputs, equation T45; inputs of one OR follow one another."""
    counts = np.diff(np.append(start, len(t)))

    def spread(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        return np.repeat(values, counts)

    best = np.maximum.reduceat(t, start)
    # With a tie for the largest every input sees it among the others, so the second is the best.
    at_best = t == spread(best)
    second = np.maximum.reduceat(np.where(at_best, -np.inf, t), start)
    second = np.where(np.add.reduceat(at_best.astype(np.int64), start) > 1, best, second)
    largest_other = np.where(at_best, spread(second), spread(best))
    positive = np.maximum(t, 0.0)
    total = spread(evidence + np.add.reduceat(positive, start))
    messages: FloatArray = np.minimum(total - positive, np.maximum(-largest_other, 0.0))
    return messages


def joint_max_product(
    pixels: npt.ArrayLike,
    activations: npt.ArrayLike,
    features: npt.ArrayLike,
    *,
    iterations: int,
    damping: float = 0.5,
    schedule: Literal["collapsed", "two-stage"] = "collapsed",
) -> JointBeliefs:
    """Beliefs after some iterations.

    Parameters
    ----------
    pixels, activations, features : log-odds of shapes (n_images, height, width),
        (n_images, n_features, rows, columns) and (n_features, lines, columns).
    schedule : ``"collapsed"`` passes a message through AND and OR and back in one iteration and
        damps it on arrival; ``"two-stage"`` updates all factors in parallel and damps all messages.
    """
    unary_u, unary_v = np.asarray(activations, dtype=float), np.asarray(features, dtype=float)
    evidence = np.asarray(pixels, dtype=float).ravel()
    ands = list_ands(unary_u.shape, unary_v.shape)
    to_u, to_v, to_output, to_input = np.zeros((4, len(ands.pixel)))
    u, v = unary_u.ravel(), unary_v.ravel()
    residual = 0.0
    for _ in range(iterations):
        from_u, from_v = u[ands.activation] - to_u, v[ands.feature] - to_v
        if schedule == "collapsed":
            to_output = to_and_output(from_u, from_v)
            to_input = to_or_inputs(to_output, evidence, ands.start)
        wanted_u, wanted_v = to_and_input(from_v, to_input), to_and_input(from_u, to_input)
        if schedule == "two-stage":
            wanted_input = to_or_inputs(to_output, evidence, ands.start)
            to_input = damping * to_input + (1.0 - damping) * wanted_input
            to_output = damping * to_output + (1.0 - damping) * to_and_output(from_u, from_v)
        residual = float(max(abs(wanted_u - to_u).max(), abs(wanted_v - to_v).max()))
        to_u = damping * to_u + (1.0 - damping) * wanted_u
        to_v = damping * to_v + (1.0 - damping) * wanted_v
        u = unary_u.ravel() + np.bincount(ands.activation, to_u, unary_u.size)
        v = unary_v.ravel() + np.bincount(ands.feature, to_v, unary_v.size)
    return JointBeliefs(u.reshape(unary_u.shape), v.reshape(unary_v.shape), residual)
