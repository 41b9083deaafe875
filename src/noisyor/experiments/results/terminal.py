"""The tables of an experiment for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from noisyor.experiments.results.comparison import Entry

__all__ = ["LABELS", "number", "table_text", "with_spread"]

LABELS = {
    "test_elbo": "test Elbo",
    "test_elbo_mp": "test Elbo^MP",
    "test_elbo_vi": "test Elbo^VI",
    "test_re_pct": "test RE, %",
    "test_re_pct_mode": "test RE at mode, %",
    "features_iou": "features IOU",
    "recovered": "parameters recovered",
    "full_recovery_pct": "full recovery, %",
    "update_median": "update, ms",
}
"""What the metrics are called in tables."""

_HEAD = ("", "ours", "trivial", "paper", "difference", "verdict")
_WIDTHS = (22, 18, 10, 18, 11, 8)


def number(value: float | None, digits: int = 2) -> str:
    """A number, or a dash."""
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def with_spread(mean: float, spread: float, metric: str) -> str:
    """Mean (spread), in milliseconds for times."""
    if metric == "update_median":
        digits = 1 if mean >= 1e-3 else 3
        return f"{1000 * mean:.{digits}f} ({number(1000 * spread, digits)})"
    return f"{mean:.2f} ({number(spread)})"


def table_text(entries: Sequence[Entry]) -> str:
    """All lines, with a heading for every method and case. At most 90 columns wide."""
    blocks = []
    for (case, method, steps, init, rule), group in groupby(
        entries, lambda line: (line.case, line.method, line.steps, line.init, line.rule)
    ):
        lines = list(group)
        runs = lines[0].ours.n_runs
        blocks.append(
            "\n".join(
                [
                    f"{method} on {case}, {steps} steps, {init} ({rule}), "
                    f"{runs} run{'s' if runs > 1 else ''}",
                    _row(_HEAD),
                    *(_row(_cells(line)) for line in lines),
                ]
            )
        )
    if not blocks:
        return "No finished runs."
    return "\n\n".join(blocks) + "\n\n" + _EXPLANATION


_EXPLANATION = """\
ours, paper: mean (spread over runs; recovery: 95 % interval). difference: in combined spreads,
positive is better; up to 2 is a match. The paper's update times are those of a P100 GPU."""


def _cells(line: Entry) -> tuple[str, ...]:
    paper, comparison = line.paper, line.comparison
    if line.metric == "update_median" and paper is not None:
        ratio = paper.mean / line.ours.mean if line.ours.mean else math.inf
        difference, verdict = f"{ratio:.3g} x", "faster" if ratio > 1 else "slower"
    else:
        difference = "–" if comparison.difference is None else f"{comparison.difference:+.1f}"
        verdict = comparison.verdict or "–"
    return (
        LABELS[line.metric],
        with_spread(line.ours.mean, line.ours.spread, line.metric),
        number(line.trivial),
        "–" if paper is None else with_spread(paper.mean, paper.spread, line.metric),
        difference,
        verdict,
    )


def _row(cells: Sequence[str]) -> str:
    others = zip(cells[1:], _WIDTHS[1:], strict=True)
    right = "".join(f"{cell:>{width}}" for cell, width in others)
    return f"  {cells[0]:{_WIDTHS[0]}}{right}".rstrip()
