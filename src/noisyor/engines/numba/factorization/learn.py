"""Messages of joint max-product: states and features inferred together.

Equations T44 and T45 of docs/theory.md.
An image (a row of a matrix) is the OR of features stamped at positions; feature f at a position
draws pixel (a, b) of its window if the activation and that pixel of the feature are both on. One
AND of two unknowns for every image, position, feature and pixel of the window. Boolean matrix
factorization is the case of one position, and windows of one line that are as wide as the image.

All messages are log-odds. With u and v what the two inputs of an AND hear from elsewhere, and c
the evidence on the pixel,

    t   = min(u + v, u, v)                                            AND to its OR
    s   = min(c + sum of the other [t]_+, [-largest other t]_+)       OR to the AND
    u'  = [v + s]_+ - [v]_+          v' = [u + s]_+ - [u]_+           AND to its inputs

Only u' and v' are kept, damped. Lanes are eight neighbouring columns of a feature: largest and
second largest t of a pixel are found lane by lane. Padding lanes have v = NEVER, which makes their
t NEVER and their u' zero, so they need no other care. A pixel without evidence has c = 0, and then
s is zero as well: either another input is positive, or none is, and both make it so.

A damped message that tends to zero would halve until it is denormal, and arithmetic on denormal
numbers is many times slower. So all messages tend to a tiny number more than they should.
"""

from typing import NamedTuple

import numpy as np
from numba import float32

from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.float32x8 import (
    LANES,
    add,
    largest,
    largest_magnitude,
    load,
    multiply,
    reduce_max,
    reduce_sum,
    smallest,
    splat,
    store,
    subtract,
    where_equal,
)
from noisyor.engines.numba.graph import NEVER

TINY = np.float32(1e-30)
"""Added to every message: not felt by any other number, and far from denormal."""


class Layout(NamedTuple):
    """Sizes of a problem.

    Features have ``height`` lines of ``n_blocks`` times eight columns and lie at ``rows`` x
    ``columns`` positions. Lines of pixels are ``stride`` floats apart, so that a feature at the
    last position still ends within its line.

    Arrays of states are ordered (position, feature), of features (block, line, feature,
    lane), of messages (block, position, line, feature, to activation or feature, lane).
    """

    n_components: int
    height: int
    n_blocks: int
    rows: int
    columns: int
    stride: int


@njit(cache=True, nogil=True)
def and_down(left, right):
    """From an AND to its output: ``min(left + right, left, right)``."""
    return smallest(add(left, right), smallest(left, right))


@njit(cache=True, nogil=True)
def and_up(other, output):
    """From an AND to an input: ``[other + output]_+ - [other]_+`` without cancellation."""
    # [o + s]_+ - [o]_+ written out subtracts two large numbers when o is large and positive.
    below = smallest(other, splat(float32(0.0)))
    return largest(add(below, output), subtract(below, other))


@njit(cache=True, nogil=True)
def or_up(down, peak, need, need_of_peak, support):
    """From an OR to the input that sent ``down``; see `or_terms` for the rest."""
    most = where_equal(down, peak, need_of_peak, need)
    return smallest(most, subtract(support, largest(down, splat(float32(0.0)))))


@njit(cache=True, nogil=True)
def or_terms(best, second, positive, evidence, pixel):
    """What the inputs of eight ORs have in common: ``need``, ``need_of_peak``, ``support``.

    An input that holds the maximum sees the runner-up; with a tie both are the same number.
    """
    zero = splat(float32(0.0))
    need = largest(zero, subtract(zero, load(best, pixel)))
    need_of_peak = largest(zero, subtract(zero, load(second, pixel)))
    return need, need_of_peak, add(load(evidence, pixel), load(positive, pixel))


@njit(cache=True, nogil=True)
def clear_pixels(best, second, positive):
    """No input has been seen yet."""
    never, zero = splat(NEVER), splat(float32(0.0))
    for pixel in range(0, len(best), LANES):
        store(best, pixel, never)
        store(second, pixel, never)
        store(positive, pixel, zero)


@njit(cache=True, nogil=True)
def _collect(layout, blocks, u, v, messages, best, second, positive):
    """Largest, second largest and positive part of t for the pixels of some blocks."""
    n_components, height, _, rows, columns, stride = layout
    first, last = blocks
    zero = splat(float32(0.0))
    cell = 2 * LANES * first * rows * columns * height * n_components
    for block in range(first, last):
        for i in range(rows):
            for j in range(columns):
                activation = (i * columns + j) * n_components
                for a in range(height):
                    feature = (block * height + a) * n_components * LANES
                    pixel = (i + a) * stride + j + block * LANES
                    top, next_top = load(best, pixel), load(second, pixel)
                    total = load(positive, pixel)
                    for f in range(n_components):
                        left = subtract(splat(u[activation + f]), load(messages, cell))
                        right = subtract(load(v, feature + f * LANES), load(messages, cell + LANES))
                        down = and_down(left, right)
                        total = add(total, largest(down, zero))
                        next_top = largest(next_top, smallest(top, down))
                        top = largest(top, down)
                        cell += 2 * LANES
                    store(best, pixel, top)
                    store(second, pixel, next_top)
                    store(positive, pixel, total)


@njit(cache=True, nogil=True)
def _answer(
    layout, blocks, u, v, messages, evidence, best, second, positive, lanes, incoming, step
):
    """New messages of some blocks; return the largest change asked for, lane by lane.

    t is computed a second time rather than stored: messages are most of the memory traffic.
    What arrives at the states is added to ``lanes``, at the features to ``incoming``.
    """
    n_components, height, _, rows, columns, stride = layout
    first, last = blocks
    zero = splat(float32(0.0))
    never, tiny = splat(NEVER), splat(TINY)
    rate = splat(step)
    change = zero
    cell = 2 * LANES * first * rows * columns * height * n_components
    for block in range(first, last):
        for i in range(rows):
            for j in range(columns):
                activation = (i * columns + j) * n_components
                for a in range(height):
                    feature = (block * height + a) * n_components * LANES
                    pixel = (i + a) * stride + j + block * LANES
                    peak = load(best, pixel)
                    need, need_of_peak, support = or_terms(best, second, positive, evidence, pixel)
                    for f in range(n_components):
                        belief = load(v, feature + f * LANES)
                        old_u, old_v = load(messages, cell), load(messages, cell + LANES)
                        left = subtract(splat(u[activation + f]), old_u)
                        right = subtract(belief, old_v)
                        down = and_down(left, right)
                        output = or_up(down, peak, need, need_of_peak, support)
                        # Tends to tiny instead of zero, so that it never becomes denormal.
                        to_u = subtract(add(and_up(right, output), tiny), old_u)
                        to_v = subtract(add(and_up(left, output), tiny), old_v)
                        change = largest_magnitude(change, to_u)
                        # Padding lanes of a feature get messages like others; they must not keep
                        # the loop going.
                        real = where_equal(belief, never, zero, to_v)
                        change = largest_magnitude(change, real)
                        new_u = add(old_u, multiply(rate, to_u))
                        new_v = add(old_v, multiply(rate, to_v))
                        store(messages, cell, new_u)
                        store(messages, cell + LANES, new_v)
                        # Lanes of an activation are summed at the end: no reduction in here.
                        place = (activation + f) * LANES
                        store(lanes, place, add(load(lanes, place), new_u))
                        place = feature + f * LANES
                        store(incoming, place, add(load(incoming, place), new_v))
                        cell += 2 * LANES
    return change


@njit(cache=True, nogil=True)
def update_image(
    layout, unary, u, v, messages, evidence, best, second, positive, lanes, incoming, step
):
    """One iteration for one image; return the largest change that a message asked for.

    ``unary`` and ``u`` (n_positions * n_components,) of its states, ``u`` their beliefs, which
    are replaced by the new ones; ``v`` beliefs of the features; ``evidence`` per pixel. Messages
    to the features are added to ``incoming``. ``best``, ``second``, ``positive`` per pixel and
    ``lanes`` (8 per activation) are scratch space.
    """
    zero = splat(float32(0.0))
    clear_pixels(best, second, positive)
    for k in range(len(u)):
        store(lanes, k * LANES, zero)
    change = zero
    # With a single column of positions the blocks of a feature have no pixel in common.
    # Then a block can be collected and answered while its messages are still in cache.
    width = 1 if layout.columns == 1 else layout.n_blocks
    for first in range(0, layout.n_blocks, width):
        blocks = (first, first + width)
        _collect(layout, blocks, u, v, messages, best, second, positive)
        change = largest(
            change,
            _answer(
                layout,
                blocks,
                u,
                v,
                messages,
                evidence,
                best,
                second,
                positive,
                lanes,
                incoming,
                step,
            ),
        )
    for k in range(len(u)):
        u[k] = unary[k] + reduce_sum(load(lanes, k * LANES))
    return reduce_max(change)
