"""Joint max-product: states and features of images together, all ANDs at once.

An image is the OR of features at positions; a patch draws a pixel of its window if its activation
there and that pixel of the patch are both on: one AND of two unknowns. All messages are log-odds.
With u and v the messages that the two inputs of an AND get from elsewhere, and c the evidence on
the pixel,

    t   = min(u + v, u, v)                                            AND to its OR
    s   = min(c + sum of the other [t]_+, [-largest other t]_+)       OR to the AND
    u'  = [v + s]_+ - [v]_+          v' = [u + s]_+ - [u]_+           AND to its inputs
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray, LongArray
from noisyor.engines.contract import JointOptions, JointResult, JointUnaries
from noisyor.engines.numpy.max_product import or_messages
from noisyor.engines.numpy.rows import Segments, sums_at

Progress = Callable[[int], object] | None

CLAMPED = 1e6
"""Log-odds of a given feature in the two-stage schedule."""


class Ands(NamedTuple):
    """Flat indices of the activation, the patch pixel and the image pixel of every AND.

    They are sorted by image pixel, so that the ANDs of one pixel, which is one OR, are consecutive.
    """

    activation: LongArray
    patch: LongArray
    pixel: LongArray

    def taken(self, which: npt.NDArray[np.bool_]) -> Ands:
        """Return some of the ANDs."""
        return Ands(*(index[which] for index in self))

    def by_pixel(self) -> tuple[LongArray, Segments]:
        """Return the pixels that any AND may draw, and the run of ANDs of each."""
        pixels, lengths = np.unique(self.pixel, return_counts=True)
        return pixels, Segments(lengths)


class JointBeliefs(NamedTuple):
    """Log-odds of states and features, iterations, and the largest residual."""

    states: FloatArray
    features: FloatArray
    iterations: int
    residual: float


def joint_max_product(
    unaries: JointUnaries, options: JointOptions, progress: Progress = None
) -> JointResult:
    """Infer states and features together, or each image alone if the features are given."""
    parts = [unaries]
    if not options.two_stage and np.isinf(unaries.features).all():
        images = zip(unaries.pixels, unaries.states, strict=True)
        parts = [JointUnaries(x[None], u[None], unaries.features) for x, u in images]
    found = [infer_jointly(*part, **options._asdict(), progress=progress) for part in parts]
    return JointResult(
        np.concatenate([part.states for part in found]).astype(np.float32),
        found[0].features.astype(np.float32),
        max(part.iterations for part in found),
        max(part.residual for part in found),
    )


def list_ands(states: tuple[int, ...], features: tuple[int, ...]) -> Ands:
    """List the ANDs of states (n, patch, row, column) and features (patch, line, column)."""
    n, f, i, j = np.indices(states, sparse=True)
    lines, columns = states[2] + features[1] - 1, states[3] + features[2] - 1
    found = []
    for a, b in np.ndindex(features[1:]):
        u = ((n * states[1] + f) * states[2] + i) * states[3] + j
        v = np.broadcast_to((f * features[1] + a) * features[2] + b, u.shape)
        x = np.broadcast_to((n * lines + i + a) * columns + j + b, u.shape)
        found.append(np.stack([u.ravel(), v.ravel(), x.ravel()]))
    listed = np.concatenate(found, axis=1)
    return Ands(*listed[:, np.argsort(listed[2], kind="stable")])


def to_and_output(u: FloatArray, v: FloatArray) -> FloatArray:
    """Return the messages of ANDs to their outputs."""
    return np.minimum(u + v, np.minimum(u, v))


def to_and_input(other: FloatArray, output: FloatArray) -> FloatArray:
    """Return the messages of ANDs to an input: ``[other + output]_+ - [other]_+``."""
    below = np.minimum(other, 0.0)
    return np.maximum(below + output, below - other)


def to_or_inputs(t: FloatArray, evidence: FloatArray, ors: Segments) -> FloatArray:
    """Return the messages of ORs to their inputs; ``evidence`` (n_ors,) on their outputs."""
    return or_messages(t, np.full(len(evidence), -np.inf), evidence, ors)[0]


def infer_jointly(
    pixels: npt.ArrayLike,
    states: npt.ArrayLike,
    features: npt.ArrayLike,
    iterations: int,
    damping: float = 0.5,
    tolerance: float = 0.0,
    two_stage: bool = False,
    *,
    progress: Progress = None,
) -> JointBeliefs:
    """Infer the beliefs of states and features.

    Parameters
    ----------
    pixels, states, features : log-odds of shapes (n_images, height, width),
        (n_images, n_components, rows, columns) and (n_components, lines, columns). Given features
        are plus and minus infinity.
    two_stage : update all factors in parallel and damp all messages, as in the paper's
        experiments; infinite log-odds of given features are then those of `CLAMPED`. Otherwise a
        message passes through AND and OR and back in one iteration and is damped on arrival.
    progress : called with 1 after every iteration, or at the end if the features are given.
    """
    unary_u, unary_v = np.asarray(states, dtype=float), np.asarray(features, dtype=float)
    if two_stage:
        unary_v = np.clip(unary_v, -CLAMPED, CLAMPED)
    ands, given = list_ands(unary_u.shape, unary_v.shape), bool(np.isinf(unary_v).all())
    if given:  # an AND with a pixel that is off is off; one with a pixel that is on has t = u
        ands = ands.taken(unary_v.ravel()[ands.patch] > 0)
    drawn, ors = ands.by_pixel()
    evidence = np.asarray(pixels, dtype=float).ravel()[drawn]
    to_u, to_v, to_output, to_input = np.zeros((4, len(ands.pixel)))
    u, v, done, residual = unary_u.ravel(), unary_v.ravel(), 0, 0.0
    while done < iterations:
        from_u, from_v = u[ands.activation] - to_u, v[ands.patch] - to_v
        if not two_stage:
            to_output = to_and_output(from_u, from_v)
            to_input = to_or_inputs(to_output, evidence, ors)
        wanted_u, wanted_v = to_and_input(from_v, to_input), to_and_input(from_u, to_input)
        changes = [wanted_u - to_u] if given else [wanted_u - to_u, wanted_v - to_v]
        if two_stage:
            changes.append(to_or_inputs(to_output, evidence, ors) - to_input)
            changes.append(to_and_output(from_u, from_v) - to_output)
            to_input = to_input + (1.0 - damping) * changes[2]
            to_output = to_output + (1.0 - damping) * changes[3]
        residual = float(max(abs(change).max(initial=0.0) for change in changes))
        to_u = damping * to_u + (1.0 - damping) * wanted_u
        to_v = damping * to_v + (1.0 - damping) * wanted_v
        u = unary_u.ravel() + sums_at(ands.activation, to_u, unary_u.size)
        v = unary_v.ravel() + sums_at(ands.patch, to_v, unary_v.size)
        done += 1
        if progress is not None and not given:
            progress(1)
        if residual < tolerance:
            break
    if progress is not None and given:
        progress(1)
    return JointBeliefs(u.reshape(unary_u.shape), v.reshape(unary_v.shape), done, residual)
