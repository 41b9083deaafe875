"""A mixture of Bernoulli products, and one round of learning it.

A class k has a share and a probability for every column; given the class, columns are independent.
Rows come in blocks that threads share, and whose responsibilities fit into a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor.data.observations import Observations
from noisyor.engines.threads import one_blas_thread, resolve_threads, run_blocks

__all__ = ["SUREST", "BernoulliMixture", "Block", "blocks_of"]

_OF_SHARE = 2.0
"""Pseudo-rows in the share of a class, at most."""

_BLOCK, _FEWEST_ROWS = 2**17, 0.25
"""Rows times classes of a block: their responsibilities fit into a cache. Sums over a block have a
cell for every class and column, so it has at least so many rows for each column."""

_DENSE = 0.03
"""Share of ones from which products of dense matrices are faster than those of sparse ones."""

_SINGLE = 2**17
"""Rows times classes from which responsibilities have seven digits: twice as fast, and they are
averages of many rows. Log-probabilities that are handed out always have sixteen."""

SUREST = 1.0 - 1e-6
"""Largest probability that a class may give a column, and one less the smallest."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, eq=False)
class BernoulliMixture:
    """A mixture of products of Bernoullis.

    Attributes
    ----------
    share : (n_classes,) probability of each class.
    probability : (n_classes, n_visible) probability of each column given the class.
    smoothing, rounds : pseudo-rows of every class, and rounds, that it was learned with.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> mixture = nor.search.BernoulliMixture(np.array([1.0]), np.array([[0.5, 0.25]]))
    >>> np.exp(mixture.log_probability(np.array([[1, 0]]))).round(3)
    array([0.375])
    """

    share: FloatArray
    probability: FloatArray
    smoothing: float = 0.0
    rounds: int = 0

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.share)

    def log_probability(self, X: Any) -> FloatArray:
        """Log-probability of every row (n_rows,); unobserved entries are summed out."""
        rows = Observations.of(X, n_visible=self.probability.shape[1])
        return self.log_p_of(blocks_of(rows, self.n_classes))

    def classes(self, X: Any) -> FloatArray:
        """Probability of every class (n_rows, n_classes), given each row."""
        rows = Observations.of(X, n_visible=self.probability.shape[1])
        blocks, logs = blocks_of(rows, self.n_classes), self._logs(np.float64)
        return np.concatenate(_for_each(lambda block: _posterior(logs, block)[0], blocks))

    def log_p_of(self, blocks: Sequence[Block]) -> FloatArray:
        """Log-probability of the rows of blocks, see `blocks_of`."""
        if not blocks:
            return np.empty(0)
        logs = self._logs(blocks[0].ones.dtype)
        return np.concatenate(_for_each(lambda block: _posterior(logs, block)[1], blocks))

    def _logs(self, dtype: Any) -> _Logs:
        log_on, log_off = np.log(self.probability), np.log1p(-self.probability)
        return _Logs(
            np.ascontiguousarray((log_on - log_off).T, dtype=dtype),
            np.ascontiguousarray(log_off.T, dtype=dtype),
            (log_off.sum(axis=1) + np.log(self.share)).astype(dtype),
        )

    def improved(
        self, blocks: Sequence[Block], base: FloatArray, smoothing: float
    ) -> tuple[BernoulliMixture, float]:
        """After one round of expectation-maximisation, and log p of the rows before it."""
        logs = self._logs(blocks[0].ones.dtype)

        def expected(block: Block) -> tuple[float, FloatArray, FloatArray, FloatArray | None]:
            belongs, log_p = _posterior(logs, block)
            belongs *= block.weight[:, None].astype(belongs.dtype)
            gaps = None if block.missing is None else block.missing.T @ belongs
            size = belongs.sum(axis=0, dtype=np.float64)
            return float(log_p @ block.weight), size, block.ones.T @ belongs, gaps

        value, size = 0.0, np.zeros(self.n_classes)
        on, seen = np.zeros_like(self.probability), np.zeros_like(self.probability)
        for of_value, of_size, of_on, gaps in _for_each(expected, blocks):
            value += of_value
            size += of_size
            on += of_on.T
            if gaps is not None:
                seen -= gaps.T
        seen += size[:, None]
        # Rows differ in how much is on before anything else, and so do the pseudo-rows of classes:
        # their odds are those of the average, times the root of how much fuller the rows are.
        fuller = ((on.sum(axis=1) + base.sum()) / (seen @ base + base.sum()))[:, None] ** 0.5
        average = fuller * base / (1.0 - base + fuller * base)
        probability = (on + smoothing * average) / (seen + smoothing)
        share = size + min(smoothing, _OF_SHARE)
        share /= share.sum()
        probability = np.clip(probability, 1.0 - SUREST, SUREST)
        return BernoulliMixture(share, probability, smoothing, self.rounds + 1), value


class _Logs(NamedTuple):
    """Log odds of columns and log of their absence (n_visible, n_classes); log p of all absent."""

    odds: FloatArray
    off: FloatArray
    all_off: FloatArray


class Block(NamedTuple):
    """Rows: ``ones`` and ``missing`` (n, n_visible), sparse, dense or None; ``weight`` (n,)."""

    ones: Any
    missing: Any
    weight: FloatArray


def _posterior(logs: _Logs, block: Block) -> tuple[FloatArray, FloatArray]:
    """Probability of every class (n, n_classes) given the rows, and log p of the rows (n,)."""
    joint = np.asarray(block.ones @ logs.odds)
    joint += logs.all_off
    if block.missing is not None:
        joint -= block.missing @ logs.off
    top = joint.max(axis=1, keepdims=True)
    joint -= top
    np.exp(joint, out=joint)
    total = joint.sum(axis=1, keepdims=True)
    joint /= total
    return joint, (top.astype(np.float64) + np.log(total))[:, 0]


def _for_each(function: Callable[[Block], _Value], blocks: Sequence[Block]) -> list[_Value]:
    """What a function says of every block, in their order; threads share the blocks."""
    found: list[Any] = [None] * len(blocks)

    def some(begin: int, end: int) -> None:
        for number in range(begin, end):
            found[number] = function(blocks[number])

    with one_blas_thread():
        run_blocks(some, len(blocks), resolve_threads(None), first_piece=1)
    return found


def blocks_of(rows: Observations, n_classes: int, *, rough: bool = False) -> list[Block]:
    """Rows in blocks whose responsibilities fit into memory; ``rough`` ones have seven digits."""
    step, blocks = max(1, _BLOCK // n_classes, int(_FEWEST_ROWS * rows.n_visible)), []
    dtype = np.float32 if rough and rows.n_rows * n_classes >= _SINGLE else np.float64
    for begin in range(0, rows.n_rows, step):
        part = rows.take(slice(begin, begin + step))
        ones = part.to_csr().astype(dtype)
        if part.n_active > _DENSE * part.n_rows * part.n_visible:
            ones = ones.toarray()
        missing = part.missing_csr().astype(dtype) if part.n_missing else None
        blocks.append(Block(ones, missing, part.row_weights))
    return blocks
