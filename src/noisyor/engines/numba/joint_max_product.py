"""Joint max-product: states and features inferred together, or the states of given features.

Equations T44 and T45 of docs/theory.md. An image (a row of a matrix) is the OR of features stamped
at positions; feature f at a position draws pixel (a, b) of its window if the activation and that
pixel of the feature are both on. There is one AND of two unknowns for every image, position,
feature and pixel of the window. Boolean matrix factorization is the case of one position, and
windows of one line that are as wide as the image.

All messages are log-odds. With u and v the messages that the two inputs of an AND get from
elsewhere, and c the evidence on the pixel,

    t   = min(u + v, u, v)                                            AND to its OR
    s   = min(c + sum of the other [t]_+, [-largest other t]_+)       OR to the AND
    u'  = [v + s]_+ - [v]_+          v' = [u + s]_+ - [u]_+           AND to its inputs

Only u' and v' are kept, damped. Lanes are eight neighboring columns of a feature: largest and
second largest t of a pixel are found lane by lane. Padding lanes have v = NEVER, which makes their
t NEVER and their u' zero, so they need no special case. A pixel without evidence has c = 0, and
then s is zero as well: either another input is positive, or none is, and both make it so.

With given features an AND with a pixel that is off has no effect, so eight columns of a line
without any pixel on are skipped; the others have t = u and u' = s, and v is 0 where the pixel is on
and NEVER where it is off. Images are then independent, and all iterations of an image run while its
messages are in cache.

The two-stage schedule keeps t and s as well, and updates and damps all four messages of an AND in
parallel. Given features are then unaries of plus and minus `CLAMPED`.

A damped message that tends to zero would halve until it is denormal, and arithmetic on denormal
numbers is many times slower. So a tiny number is added to every message.

Images are processed in chunks whose number depends only on the number of images. Each chunk adds up
its messages to the features, and the chunks are added in order: the bits are the same for any
number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import float32

from noisyor._util.arrays import BoolArray, SingleArray, pointers
from noisyor.engines.contract import JointOptions, JointResult, JointUnaries
from noisyor.engines.numba.arguments import (
    Packed,
    Workspace,
    advance,
    aligned_zeros,
    arrays,
    launch,
    pack,
    unpack,
)
from noisyor.engines.numba.cache import inner, njit
from noisyor.engines.numba.graph import NEVER
from noisyor.engines.numba.scalar import maximum
from noisyor.engines.numba.simd import (
    LANES,
    absolute,
    largest,
    load,
    reduce_max,
    reduce_sum,
    smallest,
    splat,
    store,
    where_equal,
)
from noisyor.engines.threads import run_blocks

_MAX_CHUNKS = 16
"""Largest number of partial sums of the messages to the features."""

_MIN_ANDS_PER_THREAD = 40_000
"""Number of ANDs per iteration for which another thread pays off."""

CLAMPED = np.float32(1e6)
"""Log-odds of a given feature in the two-stage schedule."""

TINY = np.float32(1e-30)
"""Added to every message: too small to change other numbers, and far from denormal."""


class Layout(NamedTuple):
    """Sizes of a problem.

    Features have ``height`` lines of ``n_blocks`` times eight columns and lie at ``rows`` x
    ``columns`` positions. Lines of pixels are ``stride`` floats apart, so that a feature at the
    last position still ends within its line. ``n_states`` and ``n_pixels`` of an image, the latter
    padded.

    Arrays of states are ordered (position, feature), of features (block, line, feature,
    lane), of messages (block, position, line, feature, to activation or feature, lane). Line a of
    block b has the features ``feature[ptr[c]:ptr[c + 1]]`` with ``c = b * height + a``: all of
    them, or if they are given those with a pixel on.
    """

    ptr: npt.NDArray[np.int64]
    feature: npt.NDArray[np.int64]
    n_components: int
    height: int
    n_blocks: int
    rows: int
    columns: int
    stride: int
    n_states: int
    n_pixels: int


class Images(NamedTuple):
    """Arrays by image: ``unary`` and beliefs ``u`` of states (n_states,), ``pixels``
    (n_pixels,)."""

    layout: Layout
    n_images: int
    unary: npt.NDArray[np.float32]
    u: npt.NDArray[np.float32]
    pixels: npt.NDArray[np.float32]


class Scratch(Workspace):
    """Memory of one thread: eight ``lanes`` for each activation, ``messages`` of an image."""

    per_pixel = arrays(float32="best second positive")
    lanes_of_states = arrays(float32="lanes")
    per_message = arrays(float32="messages")


def _allocate(layout: Layout, n_messages: int = 0) -> Packed[Scratch]:
    lanes = layout.n_states * LANES
    return pack(Scratch(per_pixel=layout.n_pixels, lanes_of_states=lanes, per_message=n_messages))


# ---- messages that both problems share


@inner(forceinline=True)
def and_down(left, right):
    """Return the message of an AND to its output: ``min(left + right, left, right)``."""
    return smallest(left + right, smallest(left, right))


@inner(forceinline=True)
def and_up(other, output):
    """Return the message of an AND to an input: ``[other + output]_+ - [other]_+``."""
    # [o + s]_+ - [o]_+ written out subtracts two large numbers when o is large and positive.
    below = smallest(other, splat(float32(0.0)))
    return largest(below + output, below - other)


@inner(forceinline=True)
def _or_up(down, peak, need, need_of_peak, support):
    """Return the message of an OR to the input that sent ``down``; arguments of `_or_terms`."""
    most = where_equal(down, peak, need_of_peak, need)
    return smallest(most, support - largest(down, splat(float32(0.0))))


@inner(forceinline=True)
def _or_terms(scratch, evidence, pixel):
    """Return the terms that all inputs of eight ORs share: ``need``, ``need_of_peak``, ``support``.

    An input that holds the maximum sees the runner-up; with a tie both are the same number.
    """
    zero = splat(float32(0.0))
    need = largest(zero, zero - load(scratch.best, pixel))
    need_of_peak = largest(zero, zero - load(scratch.second, pixel))
    return need, need_of_peak, load(evidence, pixel) + load(scratch.positive, pixel)


@inner()
def _clear(layout, scratch):
    """Clear the largest inputs of all pixels and the messages to all states."""
    never, zero = splat(NEVER), splat(float32(0.0))
    for pixel in range(0, layout.n_pixels, LANES):
        store(scratch.best, pixel, never)
        store(scratch.second, pixel, never)
        store(scratch.positive, pixel, zero)
    for k in range(layout.n_states):
        store(scratch.lanes, k * LANES, zero)


@inner()
def _sum_lanes(layout, scratch, unary, u):
    """Compute the beliefs of the states of an image from the messages in its lanes."""
    for k in range(layout.n_states):
        u[k] = unary[k] + reduce_sum(load(scratch.lanes, k * LANES))


def _messages_with(schedule):
    """Return the two passes over the ANDs for one schedule, so that only it is compiled."""
    two_stage, given = schedule == "two-stage", schedule == "given"
    width_of_cell = {"given": 1, "collapsed": 2, "two-stage": 4}[schedule] * LANES

    @inner()
    def collect(layout, scratch, first, last, u, v, messages):
        """Find the largest, second largest and positive part of t for the pixels of some blocks."""
        n_components, height, columns = layout.n_components, layout.height, layout.columns
        ptr, zero = layout.ptr, splat(float32(0.0))
        cell = width_of_cell * layout.rows * columns * ptr[first * height]
        for block in range(first, last):
            for i in range(layout.rows):
                for j in range(columns):
                    activation = (i * columns + j) * n_components
                    for a in range(height):
                        line = block * height + a
                        pixel = (i + a) * layout.stride + j + block * LANES
                        top, next_top = load(scratch.best, pixel), load(scratch.second, pixel)
                        total = load(scratch.positive, pixel)
                        for entry in range(ptr[line], ptr[line + 1]):
                            if two_stage:
                                down = load(messages, cell + 2 * LANES)
                            else:
                                belief = u[activation + layout.feature[entry]]
                                left, right = (
                                    splat(belief) - load(messages, cell),
                                    load(v, entry * LANES),
                                )
                                if given:
                                    down = left + right
                                else:
                                    down = and_down(left, right - load(messages, cell + LANES))
                            total = total + largest(down, zero)
                            next_top = largest(next_top, smallest(top, down))
                            top = largest(top, down)
                            cell += width_of_cell
                        store(scratch.best, pixel, top)
                        store(scratch.second, pixel, next_top)
                        store(scratch.positive, pixel, total)

    @inner()
    def answer(layout, scratch, first, last, u, v, messages, evidence, incoming, step):
        """Compute the messages of some blocks; return the largest residual of each lane.

        The collapsed schedule computes t a second time rather than storing it: messages are most of
        the memory traffic. Messages to the states are added to ``lanes``, messages to the features
        to ``incoming``, which is not used if features are given.
        """
        n_components, height, columns = layout.n_components, layout.height, layout.columns
        lanes, zero, change = scratch.lanes, splat(float32(0.0)), splat(float32(0.0))
        never, tiny, rate, ptr = splat(NEVER), splat(TINY), splat(step), layout.ptr
        cell = width_of_cell * layout.rows * columns * ptr[first * height]
        for block in range(first, last):
            for i in range(layout.rows):
                for j in range(columns):
                    activation = (i * columns + j) * n_components
                    for a in range(height):
                        line = block * height + a
                        pixel = (i + a) * layout.stride + j + block * LANES
                        peak = load(scratch.best, pixel)
                        need, need_of_peak, support = _or_terms(scratch, evidence, pixel)
                        for entry in range(ptr[line], ptr[line + 1]):
                            k, feature = activation + layout.feature[entry], entry * LANES
                            belief, old_u = load(v, feature), load(messages, cell)
                            left = splat(u[k]) - old_u
                            # Messages tend to tiny instead of zero, so that none becomes denormal.
                            if given:
                                output = _or_up(left + belief, peak, need, need_of_peak, support)
                                # Where the pixel is off nothing is said.
                                to_u = where_equal(belief, zero, output + tiny, tiny) - old_u
                                change = largest(change, absolute(to_u))
                            else:
                                old_v = load(messages, cell + LANES)
                                right = belief - old_v
                                t = and_down(left, right)
                                if two_stage:
                                    new_t, t = t, load(messages, cell + 2 * LANES)
                                    output = load(messages, cell + 3 * LANES)
                                    to_t = new_t + tiny - t
                                    wanted = _or_up(t, peak, need, need_of_peak, support)
                                    to_output = wanted + tiny - output
                                else:
                                    output = _or_up(t, peak, need, need_of_peak, support)
                                to_u = and_up(right, output) + tiny - old_u
                                to_v = and_up(left, output) + tiny - old_v
                                # Padding lanes of a feature get messages like others; they must not
                                # keep the loop going.
                                if two_stage:
                                    asked = largest(absolute(to_u), absolute(to_v))
                                    asked = largest(asked, absolute(to_output))
                                    asked = largest(asked, absolute(to_t))
                                    real = where_equal(belief, never, zero, asked)
                                    change = largest(change, real)
                                    store(messages, cell + 2 * LANES, t + rate * to_t)
                                    store(messages, cell + 3 * LANES, output + rate * to_output)
                                else:
                                    change = largest(change, absolute(to_u))
                                    real = where_equal(belief, never, zero, to_v)
                                    change = largest(change, absolute(real))
                                new_v = old_v + rate * to_v
                                store(messages, cell + LANES, new_v)
                                store(incoming, feature, load(incoming, feature) + new_v)
                            new_u = old_u + rate * to_u
                            store(messages, cell, new_u)
                            # Lanes of an activation are summed at the end: no reduction in here.
                            store(lanes, k * LANES, load(lanes, k * LANES) + new_u)
                            cell += width_of_cell
        return change

    return collect, answer


# ---- states and features together


class Problem(NamedTuple):
    """Inference of states and features together.

    ``v`` beliefs of the features; ``messages`` (n_images, n_messages). By chunk of ``chunk_size``
    images: messages to the features, ``partial`` (n_chunks, n_features), and ``changes``, the
    largest residual of a message. ``step`` is one minus the damping. The two-stage schedule has
    four messages for each AND, the collapsed one two.
    """

    images: Images
    n_features: int
    v: npt.NDArray[np.float32]
    n_messages: int
    messages: npt.NDArray[np.float32]
    chunk_size: int
    partial: npt.NDArray[np.float32]
    changes: npt.NDArray[np.float32]
    step: float


def learn(
    unaries: JointUnaries, options: JointOptions, progress: Callable[[int], object], n_threads: int
) -> JointResult:
    """Infer states and features together."""
    images, two_stage = _arranged(unaries), options.two_stage
    layout, n_images = images.layout, images.n_images
    features = unaries.features
    if two_stage:
        features = np.clip(features, -CLAMPED, CLAMPED).astype(np.float32)
    unary_v = _features_to_kernel(features, NEVER)
    cells = layout.rows * layout.columns * len(layout.feature)
    chunk_size = -(-n_images // _MAX_CHUNKS)
    n_chunks = -(-n_images // chunk_size)
    n_messages = cells * (4 if two_stage else 2) * LANES
    messages = aligned_zeros(n_images * n_messages, np.float32)
    if two_stage:  # t of padding lanes takes part in no OR, from the first iteration on
        lines = (layout.n_blocks, -1, layout.height, layout.n_components)
        t = messages.reshape(n_images, *lines, 4, LANES)[..., 2, :]
        padding = unary_v.reshape(layout.n_blocks, 1, layout.height, layout.n_components, LANES)
        np.copyto(t, NEVER, where=padding == NEVER)
    problem = Problem(
        images=images,
        n_features=len(unary_v),
        v=unary_v.copy(),
        n_messages=n_messages,
        messages=messages,
        step=1.0 - options.damping,
        chunk_size=chunk_size,
        partial=np.empty((n_chunks, len(unary_v)), dtype=np.float32),
        changes=np.empty(n_chunks, dtype=np.float32),
    )
    packed, kernel = pack(problem), update_chunks_two_stage if two_stage else update_chunks

    def block(begin: int, end: int) -> None:
        scratch = _allocate(layout)
        launch(kernel, (packed, scratch), begin, end)

    smallest_block = -(-_MIN_ANDS_PER_THREAD // (cells * LANES * chunk_size))
    done, residual = 0, 0.0
    while done < options.iterations:
        run_blocks(block, n_chunks, n_threads, smallest_block, blocks_per_thread=8)
        problem.v[:] = unary_v
        for part in problem.partial:
            np.add(problem.v, part, out=problem.v)
        done += 1
        residual = float(problem.changes.max())
        progress(1)
        if residual < options.tolerance:
            break
    return JointResult(
        _states_from_kernel(images.u, unaries),
        _features_from_kernel(problem.v, unaries.features.shape),
        done,
        residual,
    )


@njit("joint max-product")
def update_chunks(problem_address, scratch_address, begin, end):
    """Run one iteration of the collapsed schedule for chunks ``begin`` to ``end``."""
    _update_collapsed(problem_address, scratch_address, begin, end)


@njit("joint max-product, two-stage")
def update_chunks_two_stage(problem_address, scratch_address, begin, end):
    """Run one iteration of the two-stage schedule for chunks ``begin`` to ``end``."""
    _update_two_stage(problem_address, scratch_address, begin, end)


def _update_with(schedule):
    """Return the function that updates chunks by one schedule."""
    collect, answer = _messages_with(schedule)

    @inner()
    def update(problem_address, scratch_address, begin, end):
        problem, scratch = unpack(problem_address, Problem), unpack(scratch_address, Scratch)
        images, layout = problem.images, problem.images.layout
        step = float32(problem.step)
        for index in range(begin, end):
            incoming = advance(problem.partial, index * problem.n_features)
            for k in range(problem.n_features):
                incoming[k] = 0.0
            change = float32(0.0)
            last = (index + 1) * problem.chunk_size
            last = last if last < images.n_images else images.n_images
            for n in range(index * problem.chunk_size, last):
                u = advance(images.u, n * layout.n_states)
                messages = advance(problem.messages, n * problem.n_messages)
                evidence = advance(images.pixels, n * layout.n_pixels)
                _clear(layout, scratch)
                asked = splat(float32(0.0))
                # With a single column of positions the blocks of a feature have no pixel in common.
                # Then a block can be collected and answered while its messages are still in cache.
                width = 1 if layout.columns == 1 else layout.n_blocks
                for first in range(0, layout.n_blocks, width):
                    collect(layout, scratch, first, first + width, u, problem.v, messages)
                    changes = answer(
                        layout, scratch, first, first + width, u, problem.v, messages, evidence,
                        incoming, step,
                    )  # fmt: skip
                    asked = largest(asked, changes)
                _sum_lanes(layout, scratch, advance(images.unary, n * layout.n_states), u)
                change = maximum(change, reduce_max(asked))
            problem.changes[index] = change

    return update


_update_collapsed = _update_with("collapsed")
_update_two_stage = _update_with("two-stage")


# ---- states of given features


class GivenFeatures(NamedTuple):
    """Inference of the states, with given features.

    ``off`` has eight lanes for each entry of `Layout.feature`, 0 where the pixel is on and NEVER
    where it is off. ``iterations`` and ``residual`` of each image.
    """

    images: Images
    off: npt.NDArray[np.float32]
    n_messages: int
    step: float
    tolerance: float
    max_iterations: int
    iterations: npt.NDArray[np.int64]
    residual: npt.NDArray[np.float32]


def infer(
    unaries: JointUnaries, options: JointOptions, progress: Callable[[int], object], n_threads: int
) -> JointResult:
    """Infer the states alone; ``unaries.features`` are plus or minus infinity."""
    on = _features_to_kernel((unaries.features > 0).astype(np.float32), np.float32(0.0))
    lanes = on.reshape(-1, unaries.features.shape[1], len(unaries.features), LANES) > 0
    drawn = np.asarray(lanes.any(axis=3))
    images = _arranged(unaries, drawn)
    layout, n_images = images.layout, images.n_images
    problem = GivenFeatures(
        images=images,
        off=np.where(lanes[drawn], np.float32(0.0), NEVER).ravel(),
        n_messages=len(layout.feature) * layout.rows * layout.columns * LANES,
        step=1.0 - options.damping,
        tolerance=options.tolerance,
        max_iterations=options.iterations,
        iterations=np.empty(n_images, dtype=np.int64),
        residual=np.empty(n_images, dtype=np.float32),
    )
    packed = pack(problem)

    def block(begin: int, end: int) -> None:
        scratch = _allocate(layout, problem.n_messages)
        launch(infer_images, (packed, scratch), begin, end)
        progress(end - begin)

    run_blocks(block, n_images, n_threads, blocks_per_thread=8)
    return JointResult(
        _states_from_kernel(images.u, unaries),
        unaries.features,
        int(problem.iterations.max()),
        float(problem.residual.max()),
    )


_collect_given, _answer_given = _messages_with("given")


@njit("max-product with given features")
def infer_images(problem_address, scratch_address, begin, end):
    """Run all iterations for images ``begin`` to ``end``; ``u`` gets the beliefs."""
    problem, scratch = unpack(problem_address, GivenFeatures), unpack(scratch_address, Scratch)
    images, layout = problem.images, problem.images.layout
    messages, lanes = scratch.messages, scratch.lanes
    step, tolerance = float32(problem.step), float32(problem.tolerance)
    for n in range(begin, end):
        u = advance(images.u, n * layout.n_states)  # unaries, as no message has arrived yet
        unary = advance(images.unary, n * layout.n_states)
        evidence = advance(images.pixels, n * layout.n_pixels)
        for k in range(problem.n_messages):
            messages[k] = 0.0
        change, done = float32(0.0), 0
        while done < problem.max_iterations:
            _clear(layout, scratch)
            _collect_given(layout, scratch, 0, layout.n_blocks, u, problem.off, messages)
            changes = _answer_given(
                layout, scratch, 0, layout.n_blocks, u, problem.off, messages, evidence, lanes, step
            )
            change = reduce_max(changes)
            _sum_lanes(layout, scratch, unary, u)
            done += 1
            if change < tolerance:
                break
        problem.iterations[n] = done
        problem.residual[n] = change


# ---- arrays in the order of the kernels


def _arranged(unaries: JointUnaries, drawn: BoolArray | None = None) -> Images:
    """Pad the pixels, order the unary terms by position and feature, and set the start to them.

    ``drawn`` (blocks, lines, features) says which features have a pixel on; None stands for all.
    """
    n_images, n_components, rows, columns = unaries.states.shape
    _, feature_height, feature_width = unaries.features.shape
    _, height, width = unaries.pixels.shape
    n_blocks = -(-feature_width // LANES)
    stride = columns - 1 + n_blocks * LANES
    n_pixels = -(-height * stride // LANES) * LANES
    pixels = np.zeros((n_images, n_pixels), dtype=np.float32)
    lines = pixels[:, : height * stride].reshape(n_images, height, stride)
    lines[:, :, :width] = unaries.pixels
    unary = np.ascontiguousarray(
        unaries.states.transpose(0, 2, 3, 1).reshape(n_images, -1), dtype=np.float32
    )
    if drawn is None:
        drawn = np.ones((n_blocks, feature_height, n_components), dtype=np.bool_)
    by_line = drawn.reshape(-1, n_components)
    layout = Layout(
        pointers(by_line.sum(axis=1)),
        np.nonzero(by_line)[1].astype(np.int64),
        n_components,
        feature_height,
        n_blocks,
        rows,
        columns,
        stride,
        rows * columns * n_components,
        n_pixels,
    )
    return Images(layout, n_images, unary, unary.copy(), pixels)


def _states_from_kernel(u: SingleArray, unaries: JointUnaries) -> SingleArray:
    n_images, n_components, rows, columns = unaries.states.shape
    arranged = u.reshape(n_images, rows, columns, n_components).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(arranged)


def _features_to_kernel(features: SingleArray, padding: np.float32) -> SingleArray:
    """Rearrange (feature, line, column) to (block, line, feature, lane), flat."""
    n_components, height, width = features.shape
    n_blocks = -(-width // LANES)
    padded = np.full((n_components, height, n_blocks * LANES), padding, dtype=np.float32)
    padded[:, :, :width] = features
    arranged = padded.reshape(n_components, height, n_blocks, LANES).transpose(2, 1, 0, 3)
    return np.ascontiguousarray(arranged).ravel()


def _features_from_kernel(v: SingleArray, shape: tuple[int, ...]) -> SingleArray:
    """Invert `_features_to_kernel`."""
    n_components, height, width = shape
    arranged = v.reshape(-1, height, n_components, LANES).transpose(2, 1, 0, 3)
    return np.ascontiguousarray(arranged.reshape(n_components, height, -1)[:, :, :width])
