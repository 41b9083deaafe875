"""Rows in blocks, so that memory stays bounded and progress can be shown."""

from __future__ import annotations

from collections.abc import Iterator

from noisyor._util.arrays import BinaryArray
from noisyor._util.progress import progress_bar
from noisyor.data.observations import Observations

BLOCK_BYTES = 32 * 2**20
"""Size of the dense arrays of one block."""


def row_blocks(
    observations: Observations,
    clamp: BinaryArray | None,
    row_bytes: int,
    progress: bool | None,
    *,
    task: str = "explain",
    max_rows: int | None = None,
) -> Iterator[tuple[Observations, BinaryArray | None]]:
    """Consecutive blocks of rows that take ``row_bytes`` each, and the evidence on hidden nodes.

    ``clamp`` (n_rows or 1, n_hidden) or None. A progress bar named ``task`` counts the rows of the
    blocks that the caller has done with.
    """
    size = max(1, BLOCK_BYTES // max(1, row_bytes))
    size = size if max_rows is None else min(size, max_rows)
    with progress_bar(observations.n_rows, task, "rows", progress) as bar:
        for begin in range(0, observations.n_rows, size):
            where = slice(begin, min(begin + size, observations.n_rows))
            fixed = clamp if clamp is None or len(clamp) == 1 else clamp[where]
            yield observations.take(where), fixed
            bar.update(where.stop - where.start)
