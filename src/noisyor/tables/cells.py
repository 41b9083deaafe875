"""Values of cells: words for 0, 1 and missing, and hints about other values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from noisyor._util.arrays import AnyArray
from noisyor.errors import InvalidSettingError

MISSING = 2
"""Code of a missing entry in blocks of codes."""

_CODES = {
    **dict.fromkeys(("0", "0.0", "false", "no"), 0),
    **dict.fromkeys(("1", "1.0", "true", "yes"), 1),
    **dict.fromkeys(("", "na", "n/a", "nan", "null", "none", "?"), MISSING),
}
_MAX_CACHED = 100_000

# What hints recognize: pairs of words for 1 and 0, marks beside blanks, codes of missing entries.
_PAIRS = (
    *(("y", "n"), ("t", "f"), ("+", "-"), ("on", "off"), ("present", "absent"), ("j", "n")),
    *(("positive", "negative"), ("pos", "neg"), ("won", "nowin"), ("p", "a"), ("x", "o")),
)
_MARKS = ("x", "✓", "✔", "*", "•", "●", "+")
_CODES_OF_MISSING = (9.0, 88.0, 99.0, 888.0, 999.0, 9999.0)
_MAX_CODES = 12
_MAX_LISTED = 200
_TRUTH = re.compile(r"ReadOptions\(truth='([^']*)'\)")


def parse_truth(text: str) -> dict[str, int]:
    """Parse ``ONES/ZEROS`` or ``ONES/ZEROS/MISSING``, lists of words, to the code of each word.

    The usual words for missing are added, unless the text gives them another meaning.
    """
    groups = [{_word(word) for word in part.split(",")} for part in text.split("/")]
    if len(groups) == 3 and groups[2] == {""}:
        groups.pop()
    n_words = sum(map(len, groups))
    if len(groups) not in (2, 3) or "" in groups[0] or len(set().union(*groups)) < n_words:
        raise InvalidSettingError(
            "truth is the words for 1 and those for 0, such as y/n, T/F, 2/1 or 1/0/-999 (the "
            f"third is missing); x/ says that a blank is 0; got {text!r}"
        )
    codes = {word: code for word, code in _CODES.items() if code == MISSING}
    for words, code in zip(groups, (1, 0, MISSING), strict=False):
        codes |= dict.fromkeys(words, code)
    return codes


def _word(text: str) -> str:
    return text.strip().lower()


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


class Cells(dict[str, int]):
    """Map the text of a cell to 0, 1 or `MISSING`; other texts raise a ValueError.

    Parameters
    ----------
    above : numbers larger than this are 1, all others 0; if None only 0 and 1 are accepted.
    truth : words of the file, see `parse_truth`; if None those for 0 and 1 are the usual ones.
    """

    def __init__(self, above: float | None = None, truth: str | None = None) -> None:
        super().__init__()
        self.above = above
        self._codes = _CODES if truth is None else parse_truth(truth)
        pairs = ((_number(word), code) for word, code in self._codes.items())
        self._numbers = {n: code for n, code in pairs if n is not None and not math.isnan(n)}

    def __missing__(self, cell: str) -> int:
        code = self._code(_word(cell))
        if len(self) < _MAX_CACHED:  # numbers with a threshold may all differ
            self[cell] = code
        return code

    def is_known(self, cell: str) -> bool:
        """Return whether a cell is 0, 1 or missing."""
        try:
            self[cell]
        except ValueError:
            return False
        return True

    def is_value(self, cell: str) -> bool:
        """Return whether a cell is 0, 1 or the file's own word for missing."""
        return _CODES.get(_word(cell)) != MISSING and self.is_known(cell)

    def recode(self, numbers: AnyArray) -> AnyArray:
        """Return numbers of any shape as 0, 1 and NaN; numbers without a meaning stay unchanged."""
        if self.above is not None:
            ones = numbers > self.above
            return np.where(np.isnan(numbers), np.nan, ones) if numbers.dtype.kind == "f" else ones
        if self._codes is _CODES:
            return numbers
        values = np.asarray(numbers, dtype=np.float64)
        result = values.copy()
        for number, code in self._numbers.items():
            result[values == number] = np.nan if code == MISSING else code
        if self._codes[""] == 0:
            result[np.isnan(values)] = 0.0
        return result

    def _code(self, text: str) -> int:
        if self.above is None:
            if text in self._codes:
                return self._codes[text]
            number = float(text)
            if number in self._numbers:
                return self._numbers[number]
            raise ValueError(text)
        if _CODES.get(text) == MISSING:
            return MISSING
        number = float(_CODES.get(text, text))
        return MISSING if math.isnan(number) else int(number > self.above)


# ---- hints for other values


def _drop_option(*names: str) -> str:
    return f"ReadOptions(drop={names!r})"


def role_hint(name: str) -> str:
    """Return a hint about a column that does not hold 0 and 1."""
    return (
        f"if this column names the rows, give ReadOptions(id_column={name!r}); "
        f"if it does not matter, {_drop_option(name)}"
    )


def number_hint(value: float, columns: Sequence[str] = ()) -> str:
    """Return a hint about a number that is neither 0 nor 1.

    ``columns`` are the names of all columns that hold such numbers, if they have names.
    """
    if value < 0 or value in _CODES_OF_MISSING[3:]:
        hint = f"if {value:g} says that it is missing, give ReadOptions(truth='1/0/{value:g}')"
    else:
        hint = "ReadOptions(above=0) turns numbers into 0 and 1"
    return columns_hint(dict.fromkeys(columns, hint)) if columns else hint


def columns_hint(hints: Mapping[str, str]) -> str:
    """Combine the hints of all columns that do not hold 0 and 1, given by name, into one text.

    Columns with the same remedy share it. All columns that cannot be read as 0 and 1 are listed in
    one option to paste.
    """
    if len(hints) == 1:
        return next(iter(hints.values()))
    shared: dict[str, list[str]] = {}
    for name, hint in hints.items():
        if repr(name) not in hint:
            shared.setdefault(hint, []).append(name)
    parts = []
    for hint, names in list(shared.items())[:3]:
        few = ", ".join(map(repr, names[:3])) + " ..." * (len(names) > 3)
        parts.append(f"for {len(names)} column{'s' * (len(names) > 1)} ({few}): {hint}")
    words = [found[1] for hint in hints.values() if (found := _TRUTH.search(hint))]
    if len(set(words)) > 1 and all(text.count("/") == 1 for text in words):
        both = zip(*(text.split("/") for text in dict.fromkeys(words)), strict=True)
        ones, zeros = (list(dict.fromkeys(part)) for part in both)
        if not set(ones) & set(zeros):
            parts.append(
                f"all words in one: ReadOptions(truth='{','.join(ones)}/{','.join(zeros)}')"
            )
    rest = [name for name, hint in hints.items() if not _TRUTH.search(hint)]
    if rest:
        first = f"the first {_MAX_LISTED} of " if len(rest) > _MAX_LISTED else ""
        count = "1 column does" if len(rest) == 1 else f"{len(rest)} columns do"
        them = "it" if len(rest) == 1 else "them"
        option = _drop_option(*rest[:_MAX_LISTED])
        parts.append(f"{first}{count} not hold 0 and 1, {option} leaves {them} out")
    named = next((name for name in rest if "id_column=" in hints[name]), None)
    if named is not None:
        parts.append(f"if {named!r} names the rows, give ReadOptions(id_column={named!r})")
    return "; ".join(parts)


def cell_hint(name: str, values: Sequence[str], usual: bool) -> str:
    """Return a hint how to read a column whose cells are not 0 and 1.

    Parameters
    ----------
    name : name of the column.
    values : some of its cells.
    usual : whether the cells before these were 0, 1 or missing.
    """
    known = [cell.strip() for cell in values if _CODES.get(_word(cell)) != MISSING]
    distinct = list(dict.fromkeys(known))
    numbers = [number for number in map(_number, distinct) if number is not None]
    drop = f"{_drop_option(name)} leaves the column out"
    if numbers and len(numbers) == len(distinct):
        return _hint_of_numbers(name, len(known), numbers, usual, drop)
    as_written = {word.lower(): word for word in distinct}
    lower = set(as_written)
    if len(lower) == 1 and lower <= set(_MARKS) and len(known) < len(values):
        mark = distinct[0]
        return f"ReadOptions(truth='{mark}/') says that {mark!r} is 1 and a blank is 0"
    for pair in _PAIRS:
        if lower == set(pair) or (len(known) < 3 and lower <= set(pair)):
            upper = distinct[0].isupper()
            yes, no = (as_written.get(word, word.upper() if upper else word) for word in pair)
            return f"ReadOptions(truth='{yes}/{no}') says that {yes!r} is 1 and {no!r} is 0"
    if len(distinct) == 2 and len(known) > 4 and not any(set(word) & set("/,'") for word in lower):
        one, zero = distinct
        return (
            f"if {one!r} stands for 1 and {zero!r} for 0, give "
            f"ReadOptions(truth='{one}/{zero}'), in the other case "
            f"ReadOptions(truth='{zero}/{one}'); if it does not matter, {drop}"
        )
    if len(known) > 2 * len(distinct) and len(distinct) > 2:
        few = ", ".join(map(repr, distinct[:3]))
        return (
            f"it has {len(distinct)} different words ({few} ...): make a 0/1 column of each; {drop}"
        )
    return role_hint(name)


def _hint_of_numbers(name: str, n_cells: int, numbers: list[float], usual: bool, drop: str) -> str:
    """Return the hint for a column of these distinct numbers."""
    odd = sorted(number for number in numbers if number not in (0.0, 1.0))
    whole = all(number.is_integer() for number in numbers)
    in_turn = all(after == before + 1 for before, after in pairwise(numbers))
    if whole and len(numbers) == n_cells > 2 and (in_turn or n_cells > 19):
        return role_hint(name)
    if len(odd) == 1 and (odd[0] < 0 or odd[0] in _CODES_OF_MISSING):
        return f"if {odd[0]:g} says that it is missing, give ReadOptions(truth='1/0/{odd[0]:g}')"
    if set(numbers) == {1.0, 2.0} and not (usual and 0.0 in numbers):
        return (
            "if 2 stands for 1 and 1 for 0, give ReadOptions(truth='2/1'), in the other case "
            "ReadOptions(truth='1/2')"
        )
    if len(odd) > _MAX_CODES and 0.0 not in numbers:
        return f"it has numbers from {odd[0]:g} to {odd[-1]:g}, none of them 0: {drop}"
    return "ReadOptions(above=0) turns numbers into 0 and 1"
