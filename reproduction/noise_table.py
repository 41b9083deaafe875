"""Which noise at the start the paper's runs had: ours by each kind beside its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from reproduction.comparison import Entry
from reproduction.terminal import number, of_paper, seeds

__all__ = ["noise_table"]

_METHOD = "mp-two-stage"


def noise_table(lines: Sequence[Entry], noises: Sequence[str], metric: str) -> str:
    """A metric by noise, of cases that were run with several, from the best start of each.

    Parameters
    ----------
    lines : of an experiment, see `reproduction.comparison.entries`.
    noises : the kinds, in the order of the columns.
    metric : of the lines.
    """
    found: dict[str, dict[str, Entry]] = {}
    for line in lines:
        group = line.group
        best = (group.method, line.metric) == (_METHOD, metric) and "test" in group.chosen
        if best and line.paper is not None and group.damping is None and group.tolerance is None:
            found.setdefault(group.case, {})[group.noise] = line
    rows = [
        f"| {case} | {' | '.join(_cell(of_case.get(noise)) for noise in noises)} "
        f"| {of_paper(next(iter(of_case.values())).paper)} |"
        for case, of_case in found.items()
        if len(of_case) > 1
    ]
    if not rows:
        return ""
    head = [f"| | {' | '.join(noises)} | paper |", "| --- |" + " --- |" * len(noises) + " ---: |"]
    return "\n".join([*head, *rows])


def _cell(line: Entry | None) -> str:
    """Mean, standard errors from the paper, and what it was chosen from."""
    if line is None:
        return "–"
    group = line.group
    starts = f"{group.n_starts} start{'s' * (group.n_starts > 1)}"
    return (
        f"{number(line.ours.mean)} ({line.comparison.difference:+.1f}), {group.init} of {starts}, "
        f"seeds {seeds(group.seeds)}"
    )
