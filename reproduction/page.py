"""The page that sets all runs beside the paper's numbers, one table per table of the paper.

``python -m reproduction page`` writes it from the recorded runs. What a run does not state is
shown as not recorded.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reproduction import NAMES, experiment
from reproduction.comparison import Entry, entries, is_reproduction, judged
from reproduction.extras import extra_paragraphs
from reproduction.judgement import (
    EFFECT_OF_SHARE,
    LIMIT,
    TOO_FEW,
    chance_beyond_limit,
    runs_needed,
)
from reproduction.page_text import (
    DIFFERENCES,
    INTRODUCTION,
    SECTIONS,
    wrapped,
)
from reproduction.paper import CITATION, PaperCell, paper_cells
from reproduction.protocol import Choice, Experiment, paper_method
from reproduction.provenance_table import provenance_table
from reproduction.record import find_runs, with_mp_phase
from reproduction.terminal import (
    LABELS,
    difference,
    how,
    number,
    of_paper,
    seeds,
    with_error,
)

__all__ = ["document"]

Run = dict[str, Any]

_HEAD = (
    "| case | method, steps | how | start | seeds | metric | ours | trivial | paper | diff. "
    "| verdict |"
)
_RULE = "| --- | --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: | --- |"


def document(results: Path) -> str:
    """The page, as Markdown, from all runs found in a folder."""
    runs = find_runs(results)
    tables = {name: entries(experiment(name), _of(runs, name)) for name in NAMES}
    introduction = INTRODUCTION.format(
        citation=CITATION,
        brackets=_brackets([line for lines in tables.values() for line in lines]),
        limit=f"{LIMIT:g}",
        of_ten=runs_needed(10),
        of_fifty=runs_needed(50),
        of_shares=runs_needed(50, EFFECT_OF_SHARE),
    )
    parts = [introduction, _verdicts(tables), DIFFERENCES]
    for name, lines in tables.items():
        title, about = SECTIONS[name]
        own = _of(runs, name)
        parts += [f"## {title}", wrapped(about), *extra_paragraphs(name, own, lines, results)]
        parts.append(_section(experiment(name), own, lines))
    parts.append(provenance_table(runs))
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _of(runs: Sequence[Run], name: str) -> list[Run]:
    return [run for run in runs if run["experiment"] == name]


_ENOUGH_FOR_A_SPREAD = 5


def _brackets(lines: Sequence[Entry]) -> str:
    """What the paper's brackets are taken for, and how our standard deviations compare."""
    ratios = [
        line.ours.error * math.sqrt(line.ours.n_runs) / line.paper.printed
        for line in lines
        if line.paper is not None
        and line.paper.n_runs == 10
        and line.paper.printed
        and line.group.method != "pmp"  # next to no errors, and so no spread
        and line.ours.n_runs >= _ENOUGH_FOR_A_SPREAD
    ]
    text = "Otherwise it does not say what its brackets are; they are read as standard errors."
    if ratios:
        text += (
            f" Where we have {_ENOUGH_FOR_A_SPREAD} runs or more, of all kinds but *pmp*, the "
            f"standard deviation of ours is {np.median(ratios):.1f} times the bracket (median of "
            f"{len(ratios)} numbers); the paper averages over ten runs, whose root is 3.2."
        )
    return textwrap.fill(
        text, 99, initial_indent="* ", subsequent_indent="  ", break_on_hyphens=False
    )


def _verdicts(tables: dict[str, list[Entry]]) -> str:
    """How many numbers have which verdict, each counted once."""
    kinds = ("match", "better", "worse", TOO_FEW)
    rows = [
        f"| numbers of the paper | {' | '.join(kinds)} | no run by its protocol |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    verdicts: Counter[str | None] = Counter()
    for name, lines in tables.items():
        of_cells = judged(lines)
        found = Counter(line.comparison.verdict for line in of_cells.values())
        verdicts += found
        none = sum(
            cell not in of_cells for cell in paper_cells(name) if cell.metric != "update_median"
        )
        counts = [str(found[kind]) for kind in kinds]
        rows.append(f"| {SECTIONS[name][0]} | {' | '.join(counts)} | {none} |")
    total = sum(verdicts[kind] for kind in kinds if kind != TOO_FEW)
    chance = wrapped(
        f"Of {total} verdicts about {chance_beyond_limit() * total:.0f} would be *better* or "
        f"*worse* by chance alone if nothing differed: of all numbers "
        f"{100 * chance_beyond_limit():.1f} % are more than {LIMIT:g} standard errors apart."
    )
    parts = ["## Verdicts", "\n".join(rows), chance, _apart_without_verdict(tables)]
    return "\n\n".join(part for part in parts if part)


def _apart_without_verdict(tables: dict[str, list[Entry]]) -> str:
    """Numbers that are beyond the limit, but have too few runs: no verdict must not hide them."""
    apart = [
        line
        for lines in tables.values()
        for line in judged(lines).values()
        if line.comparison.verdict == TOO_FEW and abs(line.comparison.difference or 0.0) > LIMIT
    ]
    if not apart:
        return ""
    rows = [
        "| case | method, steps | metric | runs | ours | paper | diff. |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for line in apart:
        cells = [
            line.group.case,
            f"{paper_method(line.group.method)}, {line.group.steps:,}",
            LABELS[line.metric],
            str(line.ours.n_runs),
            with_error(line.ours.mean, line.ours.error),
            of_paper(line.paper),
            difference(line),
        ]
        rows.append("| " + " | ".join(cells) + " |")
    behind = sum((line.comparison.difference or 0.0) < 0 for line in apart)
    text = (
        f"Without a verdict, as there are too few runs, yet more than {LIMIT:g} standard errors "
        f"apart ({len(apart)}, ours behind in {behind}):"
    )
    return wrapped(text) + "\n\n" + "\n".join(rows)


# ---- the table of an experiment


def _section(about: Experiment, runs: Sequence[Run], lines: Sequence[Entry]) -> str:
    ordered = sorted(lines, key=lambda line: _place(about, line))
    table = [_HEAD, _RULE, *(_line(about, line) for line in ordered)]
    parts = ["\n".join(table)] if lines else ["No runs yet."]
    parts.append(_missing(about, runs))
    shown = {line.paper for line in lines}
    without = [
        cell
        for cell in paper_cells(about.name)
        if cell not in shown and cell.metric != "update_median"
    ]
    if without:
        parts.append(_without_counterpart(without))
    return "\n\n".join(part for part in parts if part)


def _place(about: Experiment, line: Entry) -> tuple[Any, ...]:
    """Cases as the paper has them, and of each method the reproduction first."""
    cases = about.cases(Choice())
    group = line.group
    place = cases.index(group.case) if group.case in cases else len(cases)
    return place, group.case, paper_method(group.method), not group.reproduction


def _line(about: Experiment, line: Entry) -> str:
    group = line.group
    case = group.case
    if case in about.substitutes:
        case += f" (in place of {about.substitutes[case]})"
    removed = any("removed_in" in run.get("from_history", {}) for run in group.runs)
    cells = [
        case,
        f"{paper_method(group.method)}, {group.steps:,}",
        how(group),
        _start(about, line),
        seeds(group.seeds) + (" †" if removed else ""),
        LABELS[line.metric],
        with_error(line.ours.mean, line.ours.error),
        number(line.trivial),
        of_paper(line.paper),
        difference(line),
        _verdict(line),
    ]
    return "| " + " | ".join(cells) + " |"


def _start(about: Experiment, line: Entry) -> str:
    group = line.group
    if group.method == "pmp":
        return group.init
    rules = [
        f"best on {rule}"
        for rule in group.chosen
        if (group.n_compared if rule == "test" else group.n_starts) > 1
    ]
    if group.n_compared == 1 < group.n_starts and "test" in group.chosen:
        rules.append("alone with enough runs")
    rules.append(f"{group.n_starts} of {len(about.inits(group.method))} run")
    return f"{group.init} ({', '.join(rules)})"


def _verdict(line: Entry) -> str:
    if line.comparison.verdict:
        return f"**{line.comparison.verdict}**"
    if not line.group.reproduction:
        return "variant"
    return "–" if line.comparison.difference is None else "other start"


def _missing(about: Experiment, runs: Sequence[Run]) -> str:
    """Runs of the paper's protocol that have not been done, one line per method and case."""
    done: dict[tuple[str, str], set[tuple[str, int]]] = {}
    for run in with_mp_phase(runs):
        right = is_reproduction(about, run) and run["steps"] == about.steps(run["method"])
        if run["part"] == "test" and right:
            key = (paper_method(run["method"]), run["case"])
            done.setdefault(key, set()).add((run["init"], run["seed"]))
    lines = []
    cases = about.cases(Choice())
    for method in dict.fromkeys(paper_method(name) for name in about.methods):
        wanted = about.expected_seeds * len(about.inits(method))
        if all((method, case) not in done for case in cases):
            lines.append(f"* {method}: all {wanted * len(cases)} runs")
            continue
        for case in cases:
            left = wanted - len(done.get((method, case), ()))
            if left:
                lines.append(f"* {method} on {case}: {left} of {wanted} runs")
    if not lines:
        return ""
    return "Missing from the paper's protocol (starts x seeds):\n\n" + "\n".join(lines)


def _without_counterpart(cells: Sequence[PaperCell]) -> str:
    rows = ["| case | method | steps | metric | paper |", "| --- | --- | ---: | --- | ---: |"]
    for cell in cells:
        steps = "–" if cell.steps is None else f"{cell.steps:,}"
        label = LABELS[cell.metric]
        rows.append(f"| {cell.case} | {cell.method} | {steps} | {label} | {of_paper(cell)} |")
    return (
        f"<details><summary>The paper's numbers without a counterpart here ({len(cells)})"
        "</summary>\n\n" + "\n".join(rows) + "\n\n</details>"
    )
