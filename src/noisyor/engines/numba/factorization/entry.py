"""Joint max-product on many images: arrays in, arrays out, threads inside.

Images are processed in chunks whose number depends on nothing but the number of images. Each chunk
adds up its messages to the features, and the chunks are added in order: the bits are the same for
any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from noisyor._util.arrays import SingleArray
from noisyor.engines.contract import JointOptions, JointResult, JointUnaries
from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.factorization.infer import infer_images, list_active
from noisyor.engines.numba.factorization.learn import Layout, update_image
from noisyor.engines.numba.float32x8 import LANES
from noisyor.engines.numba.graph import NEVER
from noisyor.engines.threads import run_blocks

_CHUNKS = 16
"""Partial sums of the messages to the features, at most."""

_SMALLEST_WORK = 40_000
"""ANDs that are worth a thread of their own in one iteration."""


def layout_of(features: tuple[int, int, int], positions: tuple[int, int]) -> Layout:
    """Sizes of a problem with features (n, height, width) at rows x columns of positions."""
    n_components, height, width = features
    n_blocks = -(-width // LANES)
    return Layout(n_components, height, n_blocks, *positions, positions[1] - 1 + n_blocks * LANES)


def learn(
    unaries: JointUnaries,
    options: JointOptions,
    progress: Callable[[int], object],
    n_threads: int,
) -> JointResult:
    """Infer states and features together."""
    layout, pixels, unary = _arranged(unaries)
    unary_v = features_to_kernel(unaries.features, NEVER)
    n_images = len(pixels)
    cells = layout.n_blocks * layout.rows * layout.columns * layout.height * layout.n_components
    messages = _aligned_zeros(n_images * cells * 2 * LANES).reshape(n_images, -1)
    u, v = unary.copy(), unary_v.copy()
    size = -(-n_images // _CHUNKS)
    n_chunks = -(-n_images // size)
    partial = np.empty((n_chunks, len(v)), dtype=np.float32)
    changes = np.empty(n_chunks, dtype=np.float32)
    step = np.float32(1.0 - options.damping)

    def block(begin: int, end: int) -> None:
        for number in range(begin, end):
            rows = slice(number * size, (number + 1) * size)
            changes[number] = _update_images(
                layout, unary[rows], u[rows], v, messages[rows], pixels[rows], partial[number], step
            )

    smallest = -(-_SMALLEST_WORK // (cells * LANES * size))
    done, residual = 0, 0.0
    while done < options.iterations:
        run_blocks(block, n_chunks, n_threads, smallest, blocks_per_thread=8)
        _add_chunks(unary_v, partial, v)
        done += 1
        residual = float(changes.max())
        progress(1)
        if residual < options.tolerance:
            break
    return JointResult(
        _activations_from_kernel(u, unaries),
        features_from_kernel(v, unaries.features.shape),
        done,
        residual,
    )


def infer(
    unaries: JointUnaries,
    options: JointOptions,
    progress: Callable[[int], object],
    n_threads: int,
) -> JointResult:
    """Infer the states alone; ``unaries.features`` are plus or minus infinity."""
    layout, pixels, unary = _arranged(unaries)
    on = features_to_kernel((unaries.features > 0).astype(np.float32), np.float32(0.0))
    active = list_active(layout, on)
    u = unary.copy()
    rounds = np.empty(len(u), dtype=np.int64)
    residual = np.empty(len(u), dtype=np.float32)
    step = np.float32(1.0 - options.damping)

    def block(begin: int, end: int) -> None:
        rows = slice(begin, end)
        infer_images(
            layout,
            active,
            unary[rows],
            u[rows],
            pixels[rows],
            options.iterations,
            step,
            np.float32(options.tolerance),
            rounds[rows],
            residual[rows],
        )
        progress(end - begin)

    run_blocks(block, len(u), n_threads, blocks_per_thread=8)
    return JointResult(
        _activations_from_kernel(u, unaries),
        unaries.features,
        int(rounds.max()),
        float(residual.max()),
    )


@njit(cache=True, nogil=True)
def _update_images(layout, unary, u, v, messages, pixels, incoming, step):
    """One iteration for some images; their messages to the features are left in ``incoming``."""
    best = np.empty(pixels.shape[1], dtype=np.float32)
    second = np.empty_like(best)
    positive = np.empty_like(best)
    lanes = np.empty(u.shape[1] * LANES, dtype=np.float32)
    incoming[:] = 0.0
    change = np.float32(0.0)
    for n in range(len(u)):
        asked = update_image(
            layout,
            unary[n],
            u[n],
            v,
            messages[n],
            pixels[n],
            best,
            second,
            positive,
            lanes,
            incoming,
            step,
        )
        change = max(change, asked)
    return change


@njit(cache=True, nogil=True)
def _add_chunks(unary, partial, v):
    """``v = unary + partial[0] + partial[1] + ...`` in this order."""
    for k in range(len(v)):
        v[k] = unary[k]
    for number in range(len(partial)):
        for k in range(len(v)):
            v[k] += partial[number, k]


def _arranged(unaries: JointUnaries) -> tuple[Layout, SingleArray, SingleArray]:
    """The sizes, padded pixels (n_images, ...) and unaries (n_images, position * feature)."""
    n_images, _, rows, columns = unaries.states.shape
    layout = layout_of(unaries.features.shape, (rows, columns))
    _, height, width = unaries.pixels.shape
    length = -(-height * layout.stride // LANES) * LANES
    pixels = np.zeros((n_images, length), dtype=np.float32)
    lines = pixels[:, : height * layout.stride].reshape(n_images, height, layout.stride)
    lines[:, :, :width] = unaries.pixels
    unary = unaries.states.transpose(0, 2, 3, 1).reshape(n_images, -1)
    return layout, pixels, np.ascontiguousarray(unary)


def _activations_from_kernel(u: SingleArray, unaries: JointUnaries) -> SingleArray:
    n_images, n_components, rows, columns = unaries.states.shape
    arranged = u.reshape(n_images, rows, columns, n_components).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(arranged)


def features_to_kernel(features: SingleArray, padding: np.float32) -> SingleArray:
    """From (feature, line, column) to (block, line, feature, lane), flat."""
    n_components, height, width = features.shape
    n_blocks = -(-width // LANES)
    padded = np.full((n_components, height, n_blocks * LANES), padding, dtype=np.float32)
    padded[:, :, :width] = features
    arranged = padded.reshape(n_components, height, n_blocks, LANES).transpose(2, 1, 0, 3)
    return np.ascontiguousarray(arranged).ravel()


def features_from_kernel(v: SingleArray, shape: tuple[int, ...]) -> SingleArray:
    """The inverse of `features_to_kernel`."""
    n_components, height, width = shape
    arranged = v.reshape(-1, height, n_components, LANES).transpose(2, 1, 0, 3)
    return np.ascontiguousarray(arranged.reshape(n_components, height, -1)[:, :, :width])


def _aligned_zeros(size: int) -> SingleArray:
    """Zeros that start at a cache line: each pair of messages then lies in one."""
    raw = np.zeros(size + 16, dtype=np.float32)
    skip = -raw.ctypes.data % 64 // 4
    return raw[skip : skip + size]
