"""Hints how to read columns that do not hold 0 and 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from noisyor.tables.options import CODES, MISSING, folded

_CODES_OF_MISSING = (9.0, 88.0, 99.0, 888.0, 999.0, 9999.0)
_MAX_LISTED = 200


class Hint(NamedTuple):
    """What to do about a column; ``truth`` are the words for 1, 0 and missing that it suggests."""

    text: str
    truth: tuple[str, ...] = ()


def role_hint(name: str) -> Hint:
    """Return a hint about a column that does not hold 0 and 1."""
    return Hint(
        f"if this column names the rows, give ReadOptions(id_column={name!r}); "
        f"if it does not matter, {_drop_option(name)}"
    )


def number_hint(value: float, columns: Sequence[str] = ()) -> str:
    """Return a hint about a number that is neither 0 nor 1.

    ``columns`` are the names of all columns that hold such numbers, if they have names.
    """
    hint = Hint("ReadOptions(above=0) turns counts into 0 and 1, another threshold other numbers")
    if (value < 0 and value.is_integer()) or value in _CODES_OF_MISSING[3:]:
        hint = _missing_hint(value)
    return columns_hint(dict.fromkeys(columns, hint)) if columns else hint.text


def cell_hint(name: str, values: Sequence[str]) -> Hint:
    """Return a hint how to read a column from its name and some of its cells."""
    known = [cell.strip() for cell in values if CODES.get(folded(cell)) != MISSING]
    distinct = list(dict.fromkeys(known))
    try:
        return _hint_of_numbers(name, len(known), [float(word) for word in distinct])
    except ValueError:
        pass  # some are words
    ordered = sorted(distinct, key=_meaning)
    strange = [word for word in distinct if folded(word) not in CODES]
    if all(map(_is_plain, distinct)):
        if len(distinct) == 1 and len(known) < len(values):
            return _words_hint(distinct[0], "")
        if len(distinct) == 2 and (len(known) > 4 or max(map(len, distinct)) == 1):
            return _words_hint(*ordered)
        if len(distinct) == 3 and len(strange) == 1:
            truth = (*(word for word in ordered if word != strange[0]), strange[0])
            option = f"ReadOptions(truth='{'/'.join(truth)}')"
            text = f"correct {strange[0]!r}, or if it says that the entry is missing, give {option}"
            return Hint(text, truth)
    if len(known) > 2 * len(distinct) and len(distinct) > 2:
        few = ", ".join(map(repr, distinct[:3]))
        return Hint(
            f"it has {len(distinct)} different words ({few} ...): make a 0/1 column of each; "
            f"{_drop_option(name)} leaves the column out"
        )
    return role_hint(name)


def _hint_of_numbers(name: str, n_cells: int, numbers: list[float]) -> Hint:
    """Return the hint for a column of these distinct numbers."""
    odd = [number for number in numbers if number not in (0.0, 1.0)]
    whole = all(number.is_integer() for number in numbers)
    in_turn = all(after == before + 1 for before, after in pairwise(numbers))
    if whole and len(numbers) == n_cells > 2 and (in_turn or n_cells > 19):
        return role_hint(name)
    if len(numbers) == 2 and set(numbers) & {1.0} and set(numbers) & {-1.0, 2.0}:
        return _words_hint(f"{max(numbers):g}", f"{min(numbers):g}")
    if len(odd) == 1 and (odd[0] < 0 or odd[0] in _CODES_OF_MISSING):
        return _missing_hint(odd[0])
    if min(numbers) > 0:
        middle = f"{(min(numbers) + max(numbers)) / 2:g}"
        return Hint(f"ReadOptions(above={middle}) makes numbers above {middle} 1 and the others 0")
    return Hint("ReadOptions(above=0) turns numbers into 0 and 1")


def columns_hint(hints: Mapping[str, Hint], n_columns: int | None = None) -> str:
    """Combine the hints of all columns that do not hold 0 and 1, given by name, into one text.

    Columns with the same remedy share it. All columns that cannot be read as 0 and 1 are listed in
    one option to paste, unless they are all of the ``n_columns`` columns.
    """
    if len(hints) == 1:
        return next(iter(hints.values())).text
    # One option serves all columns, which may have the same words in another order.
    pairs = {frozenset(hint.truth): hint.truth for hint in hints.values() if len(hint.truth) == 2}
    ones, zeros = (dict.fromkeys(words[k] for words in pairs.values()) for k in (0, 1))
    common = _words_hint(",".join(ones), ",".join(zeros))
    is_clear = not ones.keys() & zeros.keys()
    shared: dict[str, list[str]] = {}
    for name, hint in hints.items():
        text = common.text if is_clear and len(hint.truth) == 2 else hint.text
        if repr(name) not in text:
            shared.setdefault(text, []).append(name)
    parts = []
    for text, names in list(shared.items())[:3]:
        few = ", ".join(map(repr, names[:3])) + " ..." * (len(names) > 3)
        parts.append(f"for {len(names)} column{'s' * (len(names) > 1)} ({few}): {text}")
    rest = [name for name, hint in hints.items() if not hint.truth]
    if rest and len(rest) != n_columns:
        first = f"the first {_MAX_LISTED} of " if len(rest) > _MAX_LISTED else ""
        is_one = len(rest) == 1
        count, them = ("1 column does", "it") if is_one else (f"{len(rest)} columns do", "them")
        option = _drop_option(*rest[:_MAX_LISTED])
        parts.append(f"{first}{count} not hold 0 and 1, {option} leaves {them} out")
    named = next((name for name in rest if hints[name] == role_hint(name)), None)
    if named is not None:
        parts.append(f"if {named!r} names the rows, give ReadOptions(id_column={named!r})")
    return "; ".join(parts) or (
        "no column holds 0 and 1: make a 0/1 column of each value, or turn numbers above a "
        "threshold into 1 with ReadOptions(above=...)"
    )


def _words_hint(one: str, zero: str) -> Hint:
    """Return the hint for two words of which either may stand for 1."""
    other = f", in the other case ReadOptions(truth='{zero}/{one}')" if zero else ""
    text = (
        f"if {one} stands for 1 and {zero or 'a blank'} for 0, give "
        f"ReadOptions(truth='{one}/{zero}'){other}"
    )
    return Hint(text, (one, zero))


def _missing_hint(value: float) -> Hint:
    text = f"if {value:g} says that it is missing, give ReadOptions(truth='1/0/{value:g}')"
    return Hint(text, ("1", "0", f"{value:g}"))


def _drop_option(*names: str) -> str:
    return f"ReadOptions(drop={names!r})"


def _is_plain(word: str) -> bool:
    """Return whether a word can be given in an option, and fits into a line."""
    return len(word) <= 40 and word.isprintable() and not set(word) & set("/,'")


def _meaning(word: str) -> int:
    """Return a key that sorts words from those that may mean 1 to those that may mean 0."""
    return {1: 0, 0: 2}.get(CODES.get(folded(word), MISSING), 1)
