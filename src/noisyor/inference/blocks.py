"""Inference of many rows in blocks, so that memory stays bounded and progress can be shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from noisyor._util.arrays import BinaryArray
from noisyor._util.progress import progress_bar
from noisyor.data.observations import Observations
from noisyor.inference.posterior import Posterior, concatenate

BLOCK_BYTES = 32 * 2**20
"""Size of the dense arrays of one block."""


def row_blocks(
    observations: Observations, clamp: BinaryArray | None, size: int
) -> Iterator[tuple[slice, Observations, BinaryArray | None]]:
    """Consecutive blocks of ``size`` rows: where they are, the rows, the evidence on hidden nodes.

    ``clamp`` (n_rows or 1, n_hidden) or None.
    """
    for begin in range(0, observations.n_rows, size):
        where = slice(begin, min(begin + size, observations.n_rows))
        shared = clamp is None or len(clamp) == 1
        yield where, observations.take(where), clamp if clamp is None or shared else clamp[where]


def in_blocks(
    infer: Callable[[Observations, BinaryArray | None], Posterior],
    observations: Observations,
    clamp: BinaryArray | None,
    row_bytes: int,
    progress: bool | None,
) -> Posterior:
    """One posterior from ``infer(rows, clamp)`` of blocks of rows that take ``row_bytes`` each."""
    size = max(1, BLOCK_BYTES // max(1, row_bytes))
    parts = []
    with progress_bar(observations.n_rows, "explain", "rows", progress) as bar:
        for where, rows, fixed in row_blocks(observations, clamp, size):
            parts.append(infer(rows, fixed))
            bar.update(where.stop - where.start)
    return concatenate(parts)
