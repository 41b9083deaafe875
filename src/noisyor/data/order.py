"""An order of rows that are read in runs: blocks of consecutive rows, shuffled among each other."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from noisyor._util.arrays import LongArray

__all__ = ["BlockOrder"]


class BlockOrder:
    """Rows 0 .. n_rows - 1 with whole blocks shuffled; a shorter block at the end stays there.

    Parameters
    ----------
    n_rows : number of rows.
    block_rows : rows of a block; they stay together, in their order.
    seed : of the permutation; None leaves the rows as they are.

    >>> BlockOrder(7, 2, seed=3).pieces(1, 7)
    [(5, 6), (2, 4), (0, 2), (6, 7)]
    """

    def __init__(self, n_rows: int, block_rows: int, seed: int | None) -> None:
        self.n_rows, self.block_rows, self.seed = n_rows, block_rows, seed

    @cached_property
    def _blocks(self) -> LongArray:
        whole = self.n_rows // self.block_rows
        return np.append(np.random.default_rng(self.seed).permutation(whole), whole)

    def pieces(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Runs of row numbers, first and one past the last, at places ``begin`` to ``end``."""
        if self.seed is None:
            return [(begin, end)]
        found: list[tuple[int, int]] = []
        while begin < end:
            place, within = divmod(begin, self.block_rows)
            size = min(self.block_rows - within, end - begin)
            first = int(self._blocks[place]) * self.block_rows + within
            if found and found[-1][1] == first:
                found[-1] = (found[-1][0], first + size)
            else:
                found.append((first, first + size))
            begin += size
        return found

    def numbers(self) -> LongArray:
        """The number of the row at every place, (n_rows,)."""
        return np.concatenate([np.arange(*piece) for piece in self.pieces(0, self.n_rows)])
