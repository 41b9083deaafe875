"""Cells of text tables: what counts as 0, 1 and missing."""

from __future__ import annotations

import math

from noisyor.tables.row_builder import MISSING

__all__ = ["Cells"]

_CODES = {
    **dict.fromkeys(("0", "0.0", "false", "no"), 0),
    **dict.fromkeys(("1", "1.0", "true", "yes"), 1),
    **dict.fromkeys(("", "na", "n/a", "nan", "null", "none", "?"), MISSING),
}
_MOST_KEPT = 100_000


class Cells(dict[str, int]):
    """Code of a cell: 0, 1 or `MISSING`; what is no such value is a ValueError.

    Parameters
    ----------
    above : numbers larger than this are 1, all others 0; if None only 0 and 1 are accepted.
    """

    def __init__(self, above: float | None = None) -> None:
        super().__init__({} if above is not None else {"0": 0, "1": 1, "": MISSING})
        self._above = above

    def __missing__(self, cell: str) -> int:
        code = self._code(cell.strip().lower())
        if len(self) < _MOST_KEPT:  # numbers with a threshold may all differ
            self[cell] = code
        return code

    def is_value(self, cell: str) -> bool:
        """Whether the cell is 0 or 1."""
        try:
            return self[cell] != MISSING
        except ValueError:
            return False

    def _code(self, text: str) -> int:
        if self._above is None:
            if text in _CODES:
                return _CODES[text]
            number = float(text)
            if number in (0.0, 1.0):
                return int(number)
            raise ValueError(text)
        if _CODES.get(text) == MISSING:
            return MISSING
        number = float(_CODES.get(text, text))
        return MISSING if math.isnan(number) else int(number > self._above)
