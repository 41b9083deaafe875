"""What reading a file gives, and how it is built: blocks of rows become `Observations`.

What is not 0, 1 or missing is reported with its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisyor._util.arrays import BinaryArray
from noisyor._util.csr import Rows
from noisyor.data.checks import checked_names
from noisyor.data.observations import Observations
from noisyor.data.readers import read, reader_for
from noisyor.errors import InvalidDataError
from noisyor.tables.cells import MISSING, Truth, number_hint

__all__ = ["MOST_COLUMNS", "RowBuilder", "Table", "check_columns", "weighted_table"]

MOST_COLUMNS = 5_000_000
"""More are taken for damage: parameters are kept for every column."""


@dataclass(frozen=True, eq=False)
class Table:
    """Content of a file.

    Attributes
    ----------
    observations : the rows, with names of the columns if the file has any.
    row_names : (n_rows,) or None.
    format : a key of ``FORMATS``; `read_table` fills it in.
    documents : whether the columns are words of texts.
    ignored : columns, or occurrences of items, that the model does not have.

    Examples
    --------
    >>> import noisyor as nor
    >>> with open("shopping.basket", "w") as file:
    ...     _ = file.write("bread,milk\\nmilk\\n")
    >>> table = nor.read_table("shopping.basket")
    >>> table.format, table.documents, table.observations.n_rows
    ('baskets', False, 2)
    """

    observations: Observations
    row_names: tuple[str, ...] | None = None
    format: str = ""
    documents: bool = False
    ignored: int = 0


def weighted_table(
    where: object,
    observations: Observations,
    row_names: Sequence[str] | None,
    weights: Sequence[float] | None,
) -> Table:
    """The rows that were read, with weights if there are any; rows of weight 0 are left out."""
    if weights is None:
        return Table(observations, None if row_names is None else tuple(row_names))
    counted = np.flatnonzero(np.asarray(weights) > 0)
    if not len(counted):
        raise InvalidDataError(f"{where}: all rows have weight 0, none is left")
    kept = observations if len(counted) == observations.n_rows else observations.take(counted)
    names = None if row_names is None else tuple(row_names[row] for row in counted.tolist())
    return Table(kept.with_weights(np.asarray(weights)[counted]), names)


class RowBuilder:
    """Collects rows block by block, so that a dense file is never in memory as a whole.

    Parameters
    ----------
    where : the file, for errors.
    names : (n_columns,) names of the columns, or None.
    above : numbers larger than this are 1, all others 0; if None only 0 and 1 are accepted.
    truth : numbers that stand for 1, 0 and missing, see `Truth.parse`.
    """

    def __init__(
        self,
        where: object,
        names: Sequence[str] | None = None,
        above: float | None = None,
        truth: str | None = None,
    ) -> None:
        self._where, self._above = where, above
        self._truth = None if truth is None else Truth.parse(truth)
        self._ones: list[Rows] = []
        self._missing: list[Rows] = []
        self._width = 0
        self.n_rows = 0
        try:
            self._names = None if names is None else checked_names(names, len(names))
        except InvalidDataError as error:
            raise InvalidDataError(f"{where}: {error}") from error

    def add(self, block: Any) -> None:
        """Rows of numbers, (n, ...) or a sparse matrix (n, n_columns); NaN is missing."""
        if self._above is not None:
            block = _binarized(block, self._above)
        elif self._truth is not None:
            block = _recoded(block, self._truth)
        reader = reader_for(block)
        try:
            ones, missing = read(reader._replace(names=self._names), self.n_rows, hint=number_hint)
        except InvalidDataError as error:
            raise InvalidDataError(f"{self._where}, {error}") from error
        self._append(ones, missing, reader.n_visible)

    def add_codes(self, codes: BinaryArray) -> None:
        """Rows (n, n_columns) of 0, 1 and `MISSING`, which are not checked."""
        n_rows, width = codes.shape
        ones, missing = (
            Rows.from_keys(np.flatnonzero(codes == code), n_rows, width) for code in (1, MISSING)
        )
        self._append(ones, missing, width)

    def finish(self, shape: tuple[int, ...] = ()) -> Observations:
        """All rows, numbered from 0; ``shape`` is that of one row if they are images."""
        if not self.n_rows:
            raise InvalidDataError(f"{self._where} holds no rows")
        return Observations(
            self._width,
            *Rows.joined(self._ones),
            *Rows.joined(self._missing),
            row_ids=np.arange(self.n_rows),
            column_names=self._names,
            shape=shape,
        )

    def _append(self, ones: Rows, missing: Rows, width: int) -> None:
        check_columns(width, self._where)
        self._ones.append(ones)
        self._missing.append(missing)
        self._width = width
        self.n_rows += ones.n_rows


def _binarized(block: Any, above: float) -> Any:
    """The same with 1 for numbers larger than the threshold and 0 for others; NaN stays."""
    if hasattr(block, "tocsr"):
        if above < 0:
            raise InvalidDataError("with a threshold below 0 a sparse matrix is all 1")
        result = block.copy()
        result.data = np.where(np.isnan(block.data), block.data, block.data > above)
        return result
    ones = block > above
    return np.where(np.isnan(block), np.nan, ones) if block.dtype.kind == "f" else ones


def _recoded(block: Any, truth: Truth) -> Any:
    """The same in 0, 1 and NaN; what a sparse matrix does not store stays 0."""
    if hasattr(block, "tocsr"):
        result = block.astype(np.float64)
        result.data = truth.recoded(result.data)
        return result
    return truth.recoded(block)


def check_columns(n_columns: int, where: object) -> None:
    """There are columns, and no more than a model can have."""
    if not 1 <= n_columns <= MOST_COLUMNS:
        raise InvalidDataError(f"{where}: {n_columns} columns, expected 1 to {MOST_COLUMNS:,}")
