"""Format numbers and tables, for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from reproduction.comparison import LIMIT, Entry, Group, order
from reproduction.paper import PaperCell

__all__ = ["LABELS", "difference", "how", "number", "of_paper", "seeds", "table_text", "with_error"]

LABELS = {
    "test_elbo": "test Elbo",
    "test_elbo_mp": "test Elbo^MP",
    "test_elbo_vi": "test Elbo^VI",
    "test_re_pct": "test RE, %",
    "test_re_pct_mode": "test RE at mode, %",
    "features_iou": "features IOU",
    "recovered": "parameters recovered",
    "full_recovery_pct": "full recovery, %",
}
"""Names of the metrics in tables."""

_HEAD = ("", "ours", "trivial", "paper", "difference", "verdict")
_WIDTHS = (22, 18, 10, 18, 11, 14)


def number(value: float | None, digits: int = 2) -> str:
    """Format a number, a dash if there is none."""
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def with_error(mean: float, error: float) -> str:
    """Format a mean with its standard error in brackets."""
    return f"{mean:.2f} ({number(error)})"


def of_paper(cell: PaperCell | None) -> str:
    """Format a number of the paper with its standard error."""
    return "–" if cell is None else with_error(cell.mean, cell.error)


def how(group: Group) -> str:
    """Describe order of messages, noise and tolerance of a group, as its runs state them."""
    settings = group.runs[0]["settings"]
    phases = [settings[name] for name in ("pmp", "mp", "vi") if name in settings]
    stops = dict.fromkeys("none" if not s["tolerance"] else f"{s['tolerance']:g}" for s in phases)
    parts = [order(group.runs[0]), None if group.noise == "none" else group.noise]
    parts.append("stop " + " then ".join(stops))
    if group.damping is not None:
        parts.append(f"damping {group.damping:g}")
    return ", ".join(part for part in parts if part)


def seeds(found: Sequence[int]) -> str:
    """Format seeds as ranges, such as ``0-2, 5``."""
    ranges: list[list[int]] = []
    for seed in found:
        if ranges and seed == ranges[-1][-1] + 1:
            ranges[-1].append(seed)
        else:
            ranges.append([seed])
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in ranges)


def table_text(entries: Sequence[Entry]) -> str:
    """Format all lines as a table of at most 100 columns, with a heading for every group."""
    blocks = []
    for group, lines in groupby(entries, lambda line: line.group):
        blocks.append(
            "\n".join(
                [
                    f"{group.method} on {group.case}, {group.steps} steps, {group.init}; "
                    f"{how(group)}; seeds {seeds(group.seeds)}",
                    _row(_HEAD),
                    *(_row(_cells(line)) for line in lines),
                ]
            )
        )
    if not blocks:
        return "No finished runs."
    return "\n\n".join(blocks) + "\n\n" + _EXPLANATION


_EXPLANATION = f"""\
ours, paper: mean (standard error). difference: in standard errors of it, positive is better, or p
of an exact test for shares; up to {LIMIT:g} is a match if the runs suffice to find a difference.
Only runs by the paper's protocol get a verdict, from the start that is best on test as in the
paper."""


def _cells(line: Entry) -> tuple[str, ...]:
    return (
        LABELS[line.metric],
        with_error(line.ours.mean, line.ours.error),
        number(line.trivial),
        of_paper(line.paper),
        difference(line),
        line.comparison.verdict or "–",
    )


def difference(line: Entry) -> str:
    """Format the difference from the paper in standard errors with its sign, or the exact p."""
    found, p = line.comparison.difference, line.comparison.p
    if p is not None:
        return f"p = {p:.2g}"
    return "–" if found is None else f"{found:+.1f}"


def _row(cells: Sequence[str]) -> str:
    others = zip(cells[1:], _WIDTHS[1:], strict=True)
    right = "".join(f"{cell:>{width}}" for cell, width in others)
    return f"  {cells[0]:{_WIDTHS[0]}}{right}".rstrip()
