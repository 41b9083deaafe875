"""Joint max-product with given features: the states of each image alone.

Equation T45 of docs/theory.md with v known. Images are then independent, and all iterations of an
image run while its messages are in cache. An AND with a pixel that is off in the feature says
nothing, so eight columns of a line without any pixel on are left out. In the notation of `learn`
the others have t = u and u' = s.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import float32

from noisyor.engines.numba import float32x8 as simd
from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.factorization.learn import TINY, Layout, clear_pixels, or_terms, or_up
from noisyor.engines.numba.graph import NEVER


class Active(NamedTuple):
    """The parts of features that matter.

    ``feature[ptr[c]:ptr[c + 1]]`` have a pixel on in line a of block b, ``c = b * height + a``;
    ``off`` has eight lanes for each of these, 0 where the pixel is on and NEVER where it is off.
    """

    ptr: npt.NDArray[np.int64]
    feature: npt.NDArray[np.int64]
    off: npt.NDArray[np.float32]


def list_active(layout: Layout, on: npt.NDArray[np.float32]) -> Active:
    """The parts of the features ``on``, in the order of the kernels, that have a pixel on."""
    lanes = on.reshape(layout.n_blocks * layout.height, layout.n_components, simd.LANES) > 0
    line, feature = np.nonzero(lanes.any(axis=2))
    ptr = np.searchsorted(line, np.arange(len(lanes) + 1))
    off = np.where(lanes[line, feature], np.float32(0.0), NEVER)
    return Active(ptr.astype(np.int64), feature.astype(np.int64), off.ravel())


@njit(cache=True, nogil=True)
def infer_images(layout, active, unary, u, pixels, iterations, step, tolerance, rounds, residual):
    """All iterations for some images; ``u`` (n_images, position * feature) gets the beliefs."""
    best = np.empty(pixels.shape[1], dtype=np.float32)
    second = np.empty_like(best)
    positive = np.empty_like(best)
    lanes = np.empty(u.shape[1] * simd.LANES, dtype=np.float32)
    messages = np.empty(
        len(active.feature) * layout.rows * layout.columns * simd.LANES, dtype=np.float32
    )
    for n in range(len(u)):
        messages[:] = 0.0  # u holds the unaries: beliefs before any message has arrived
        change = np.float32(0.0)
        done = 0
        while done < iterations:
            clear_pixels(best, second, positive)
            _collect(layout, active, u[n], messages, best, second, positive)
            change = _answer(
                layout, active, u[n], messages, pixels[n], best, second, positive, lanes, step
            )
            for k in range(u.shape[1]):
                u[n, k] = unary[n, k] + simd.reduce_sum(simd.load(lanes, k * simd.LANES))
            done += 1
            if change < tolerance:
                break
        rounds[n] = done
        residual[n] = change


@njit(cache=True, nogil=True)
def _collect(layout, active, u, messages, best, second, positive):
    n_components, height, n_blocks, rows, columns, stride = layout
    ptr, feature, off = active
    zero = simd.splat(float32(0.0))
    cell = 0
    for block in range(n_blocks):
        for i in range(rows):
            for j in range(columns):
                activation = (i * columns + j) * n_components
                for a in range(height):
                    pixel = (i + a) * stride + j + block * simd.LANES
                    top, next_top = simd.load(best, pixel), simd.load(second, pixel)
                    total = simd.load(positive, pixel)
                    for entry in range(ptr[block * height + a], ptr[block * height + a + 1]):
                        belief = simd.splat(u[activation + feature[entry]])
                        heard = simd.subtract(belief, simd.load(messages, cell))
                        # off is 0 or NEVER: added, it switches lanes of pixels that are off out of
                        # the OR.
                        down = simd.add(heard, simd.load(off, entry * simd.LANES))
                        total = simd.add(total, simd.largest(down, zero))
                        next_top = simd.largest(next_top, simd.smallest(top, down))
                        top = simd.largest(top, down)
                        cell += simd.LANES
                    simd.store(best, pixel, top)
                    simd.store(second, pixel, next_top)
                    simd.store(positive, pixel, total)


@njit(cache=True, nogil=True)
def _answer(layout, active, u, messages, evidence, best, second, positive, lanes, step):
    n_components, height, n_blocks, rows, columns, stride = layout
    ptr, feature, off = active
    zero, tiny = simd.splat(float32(0.0)), simd.splat(TINY)
    rate = simd.splat(step)
    change = zero
    for k in range(len(u)):
        simd.store(lanes, k * simd.LANES, zero)
    cell = 0
    for block in range(n_blocks):
        for i in range(rows):
            for j in range(columns):
                activation = (i * columns + j) * n_components
                for a in range(height):
                    pixel = (i + a) * stride + j + block * simd.LANES
                    peak = simd.load(best, pixel)
                    need, need_of_peak, support = or_terms(best, second, positive, evidence, pixel)
                    for entry in range(ptr[block * height + a], ptr[block * height + a + 1]):
                        k = activation + feature[entry]
                        old = simd.load(messages, cell)
                        hidden = simd.load(off, entry * simd.LANES)
                        down = simd.add(simd.subtract(simd.splat(u[k]), old), hidden)
                        output = or_up(down, peak, need, need_of_peak, support)
                        # Where the pixel is off nothing is said; tiny keeps both kinds out of the
                        # denormals.
                        wanted = simd.where_equal(hidden, zero, simd.add(output, tiny), tiny)
                        difference = simd.subtract(wanted, old)
                        change = simd.largest_magnitude(change, difference)
                        new = simd.add(old, simd.multiply(rate, difference))
                        simd.store(messages, cell, new)
                        simd.store(
                            lanes, k * simd.LANES, simd.add(simd.load(lanes, k * simd.LANES), new)
                        )
                        cell += simd.LANES
    return simd.reduce_max(change)
