"""What was found, in one plain sentence and a second one."""

from __future__ import annotations

from typing import NamedTuple

from noisyor.report.words import Words, count

__all__ = ["Found", "sentences"]


class Found(NamedTuple):
    """What the sentences are about.

    ``n_working`` of ``n_causes`` causes do something; ``share`` of what is on is put down to
    them, or None without data; ``n_rows`` rows, or None; ``commonest`` cause by name, or None if
    none is on, and ``often`` how often it is on; ``layers`` of causes; ``things`` that are on,
    such as "words".
    """

    n_causes: int
    n_working: int
    share: float | None
    n_rows: int | None
    commonest: str | None
    often: float
    layers: int
    things: str


def sentences(found: Found, words: Words, per_row: bool = True) -> tuple[str, str]:
    """The one sentence, and one on the cause that is on most often ("" if none is).

    With ``per_row`` ``often`` is a share of the rows, otherwise times per row.
    """
    causes = count(found.n_working, words.cause, words.causes)
    if found.layers > 1:
        causes += f" in {found.layers} layers"
    if found.n_working == 0:
        first = f"None of {count(found.n_causes, words.cause, words.causes)} does anything here."
        return first, ""
    if words.cause == "kind" and found.n_rows is not None:
        rows = count(found.n_rows, words.row, words.rows)
        first = f"Each of {rows} is one of {causes}."
        often = f"the most common, “{found.commonest}”, is {percent(found.often)} of {words.rows}"
        return first, "" if found.commonest is None else f"{often[0].upper()}{often[1:]}."
    explain = "accounts for" if found.n_working == 1 else "account for"
    if found.share is None or found.share != found.share or found.n_rows is None:
        first = f"{causes} behind the {found.things} of a {words.row}."
    else:
        rows = count(found.n_rows, words.row, words.rows)
        first = f"{causes} {explain} {percent(found.share)} of the {found.things} in {rows}."
    if found.commonest is None:
        return first, ""
    if per_row:
        verb = "is on in" if found.n_rows is not None else "is expected in"
        often = f"{verb} {percent(found.often)} of {words.rows}"
    else:
        often = f"lies {found.often:.2g} times per {words.row}"
    return first, f"The most common, “{found.commonest}”, {often}."


def percent(share: float) -> str:
    """A share in percent, without digits that say nothing."""
    value = 100 * share
    if 0 < value < 0.1:
        return "under 0.1\u00a0%"
    if 99.5 <= value < 100:
        return "over 99\u00a0%"
    return f"{value:.1f}\u00a0%" if value < 9.95 else f"{value:.0f}\u00a0%"
