"""Sums over blocks of rows in a fixed balanced binary tree over the numbers of the blocks.

Block 0 is added to block 1, block 2 to block 3, then pairs to pairs; an odd one out moves up a
level. So the sum over blocks ``m * 2**j`` up to ``(m + 1) * 2**j`` is a node of the tree on any
thread, and the bits of the total do not depend on the assignment of blocks to threads. The same
holds for sums over chunks that are computed on different machines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from noisyor._util.arrays import FloatArray, LongArray
from noisyor.engines.threads import run_blocks

ROWS_OF_BLOCK = 512
"""Rows whose gradients, or successes of a Gibbs sweep, are added one after another."""

MEAN_FIELD_ROWS, MEAN_FIELD_PARTS = 256, 16
"""Rows of a block of mean-field inference, and the parts in which threads take a whole block."""

_SMALL_BLOCK_ROWS, _SMALL_BLOCK_PARTS = 64, 8
"""A block of fewer rows than this is split into at most this many parts."""

_MAX_SPANS = 64
"""Partial sums in memory at once, each over a run of blocks."""

Parts = Sequence[FloatArray]


def mean_field_parts(n_rows: int) -> LongArray:
    """Return the first rows of the parts of a batch, and its end.

    Whole blocks have a power of two of parts, so that a block is a node of the tree.
    """
    bounds: list[int] = []
    for begin in range(0, n_rows, MEAN_FIELD_ROWS):
        size = min(MEAN_FIELD_ROWS, n_rows - begin)
        n_parts = min(size, MEAN_FIELD_PARTS if size >= _SMALL_BLOCK_ROWS else _SMALL_BLOCK_PARTS)
        bounds.extend(begin + size * part // n_parts for part in range(n_parts))
    return np.array([*bounds, n_rows], dtype=np.int64)


class TreeSum:
    """A running sum of parts over the fixed tree; holds a logarithmic number of partial sums."""

    def __init__(self) -> None:
        self._levels: list[tuple[int, list[FloatArray]]] = []  # sizes strictly fall

    def add(self, parts: Parts) -> None:
        """Add the arrays of the next block; they are taken over and may be changed."""
        size, total = 1, list(parts)
        while self._levels and self._levels[-1][0] == size:
            _, left = self._levels.pop()
            for mine, theirs in zip(left, total, strict=True):
                mine += theirs
            size, total = 2 * size, left
        self._levels.append((size, total))

    def result(self) -> list[FloatArray]:
        """Return the sum of all parts; there must be at least one."""
        _, total = self._levels[-1]
        for _, left in reversed(self._levels[:-1]):
            for mine, theirs in zip(left, total, strict=True):
                mine += theirs
            total = left
        return total


def tree_sum(parts: Sequence[Parts]) -> list[FloatArray]:
    """Sum the arrays of all blocks in the order of the tree."""
    total = TreeSum()
    for part in parts:
        total.add([array.copy() for array in part])
    return total.result()


def tree_sum_of_blocks(
    compute: Callable[[int], Parts], n_blocks: int, n_threads: int
) -> list[FloatArray]:
    """Sum ``compute(number)`` over all blocks, computed on threads.

    ``compute`` returns fresh arrays, the same shapes for every block. The result has the same bits
    for any number of threads.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> nor.engines.tree_sum_of_blocks(lambda block: [np.full(2, block)], 5, n_threads=2)
    [array([10, 10])]
    """
    span = 1
    while span * _MAX_SPANS < n_blocks:
        span *= 2  # a power of two: each span is a node of the tree
    n_spans = -(-n_blocks // span)
    sums: list[Parts] = [()] * n_spans

    def work(begin: int, end: int) -> None:
        for index in range(begin, end):
            total = TreeSum()
            for block in range(index * span, min((index + 1) * span, n_blocks)):
                total.add(compute(block))
            sums[index] = total.result()

    run_blocks(work, n_spans, n_threads, blocks_per_thread=n_spans)
    total = TreeSum()
    for part in sums:
        total.add(part)
    return total.result()
