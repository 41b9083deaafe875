"""Blocks of rows become `Observations`; what is not 0, 1 or missing is reported with its place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import AnyArray
from noisyor.data.observations import Observations
from noisyor.data.readers import checked_names
from noisyor.errors import InvalidDataError

__all__ = ["MOST_COLUMNS", "Gathering", "check_columns", "named"]

MOST_COLUMNS = 5_000_000
"""More are taken for damage: parameters are kept for every column."""


class Gathering:
    """Collects rows block by block, so that a dense file never stands in memory whole."""

    def __init__(
        self, where: object, names: Sequence[str] | None = None, above: float | None = None
    ) -> None:
        self._where, self._names, self._above = where, names, above
        self._parts: list[Observations] = []
        self.n_rows = 0

    def add(self, block: AnyArray) -> None:
        """Rows (n, ...) of numbers; NaN is missing."""
        values = block.reshape(len(block), -1)
        if values.dtype.kind not in "biuf":
            raise InvalidDataError(
                f"{self._where}: expected numbers, got values of type {values.dtype}"
            )
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
        if self._above is not None:
            ones = values > self._above
        else:
            ones = values == 1
            bad = ~(ones | missing | (values == 0))
            if bad.any():
                row, column = (int(k) for k in np.argwhere(bad)[0])
                raise InvalidDataError(
                    f"{self._where}, row {self.n_rows + row}, column {self._column(column)}: "
                    f"expected 0, 1 or missing, got {values[row, column]:.12g}; "
                    "a threshold (--above 0, say) turns numbers into 0 and 1"
                )
        self.add_masks(ones, missing)

    def add_masks(self, ones: npt.NDArray[np.bool_], missing: npt.NDArray[np.bool_]) -> None:
        """Rows from two masks (n, columns): where they are 1, and where they are not known."""
        check_columns(ones.shape[1], self._where)
        if len(ones):
            self._parts.append(Observations.of(ones, missing=missing if missing.any() else None))
            self.n_rows += len(ones)

    def finish(self, shape: tuple[int, ...] = ()) -> Observations:
        """All rows, numbered from 0, with their names and the shape of one."""
        if not self._parts:
            raise InvalidDataError(f"{self._where} holds no rows")
        whole = Observations.concatenate(self._parts, row_ids=np.arange(self.n_rows))
        return named(whole, self._names, self._where, shape)

    def _column(self, column: int) -> str:
        return str(column) if self._names is None else repr(self._names[column])


def named(
    data: Observations,
    names: Sequence[str] | None,
    where: object,
    shape: tuple[int, ...] = (),
) -> Observations:
    """The same rows with names of the columns and the shape of a row."""
    try:
        checked = checked_names(names, data.n_visible)
    except InvalidDataError as error:
        raise InvalidDataError(f"{where}: {error}") from error
    return Observations(
        data.n_visible,
        data.ptr,
        data.columns,
        data.missing_ptr,
        data.missing_columns,
        data.row_ids,
        checked,
        shape,
    )


def check_columns(n_columns: int, where: object) -> None:
    """There are columns, and no more than a model can have."""
    if not 1 <= n_columns <= MOST_COLUMNS:
        raise InvalidDataError(f"{where}: {n_columns} columns, expected 1 to {MOST_COLUMNS:,}")
