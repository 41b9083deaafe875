"""The page that sets all runs beside the paper's numbers, one table per table of the paper.

Written by ``noisyor reproduce-report`` from the files of the runs: what they do not say is shown as
not recorded.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noisyor.experiments import NAMES, experiment
from noisyor.experiments.protocol import Choice, Experiment, paper_method
from noisyor.experiments.records import find_runs, with_mp_phase
from noisyor.experiments.results.comparison import Entry, entries, is_reproduction
from noisyor.experiments.results.deconvolution_figures import spare_features
from noisyor.experiments.results.judgement import (
    EFFECT_OF_SHARE,
    LIMIT,
    TOO_FEW,
    chance_beyond_limit,
    runs_needed,
    stat,
)
from noisyor.experiments.results.noise_table import noise_table
from noisyor.experiments.results.page_text import (
    DIFFERENCES,
    INTRODUCTION,
    NOISES,
    SECTIONS,
)
from noisyor.experiments.results.paper import CITATION, PaperCell, edges_in_paper, paper_cells
from noisyor.experiments.results.provenance_table import provenance_table
from noisyor.experiments.results.terminal import (
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
        parts += [f"## {title}", _wrapped(about), *_extra(name, runs, lines, results)]
        parts.append(_section(experiment(name), _of(runs, name), lines))
    parts.append(provenance_table(runs))
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _of(runs: Sequence[Run], name: str) -> list[Run]:
    return [run for run in runs if run["experiment"] == name]


def _wrapped(paragraph: str) -> str:
    return textwrap.fill(paragraph, 100, break_long_words=False, break_on_hyphens=False)


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
    """How many numbers have which verdict."""
    kinds = ("match", "better", "worse", TOO_FEW)
    rows = [
        f"| numbers of the paper | {' | '.join(kinds)} | no run by its protocol |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    verdicts: Counter[str | None] = Counter()
    for name, lines in tables.items():
        found = Counter(line.comparison.verdict for line in lines)
        verdicts += found
        judged = {line.paper for line in lines if line.comparison.verdict}
        none = sum(
            cell not in judged for cell in paper_cells(name) if cell.metric != "update_median"
        )
        counts = [str(found[kind]) for kind in kinds]
        rows.append(f"| {SECTIONS[name][0]} | {' | '.join(counts)} | {none} |")
    total = sum(verdicts[kind] for kind in kinds if kind != TOO_FEW)
    chance = _wrapped(
        f"Of {total} verdicts about {chance_beyond_limit() * total:.0f} would be *better* or "
        f"*worse* by chance alone if nothing differed: of all numbers "
        f"{100 * chance_beyond_limit():.1f} % are more than {LIMIT:g} standard errors apart."
    )
    return "## Verdicts\n\n" + "\n".join(rows) + "\n\n" + chance


# ---- what a section has besides its table


def _extra(name: str, runs: Sequence[Run], lines: Sequence[Entry], results: Path) -> list[str]:
    own = _of(runs, name)
    if name == "tiny20":
        return [_paired(own)]
    if name == "text":
        return [_edges(own)]
    if name == "bmf":
        reference = _joint_reference(results / "joint_factorization.json")
        return [*_noises(name, lines), reference]
    if name == "overparam":
        return _noises(name, lines)
    if name == "deconvolution":
        return [_spare(own)]
    return []


def _paired(runs: Sequence[Run]) -> str:
    """Hybrid less mean field on the same splits, from the same start and with the same stop."""
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    for run in runs:
        if run["part"] == "test" and run["steps"] == 1500:
            key = (run["tolerance"], run["init"], run["seed"])
            found.setdefault(key, {})[run["method"]] = run["metrics"]["test_elbo"]
    rows = []
    for hybrid in ("hybrid-two-stage", "hybrid"):
        for other in ("vi", "local-vi"):
            for tolerance in dict.fromkeys(key[0] for key in found):
                gains = [
                    bounds[hybrid] - bounds[other]
                    for key, bounds in found.items()
                    if key[0] == tolerance and {hybrid, other} <= set(bounds)
                ]
                if gains:
                    rows.append(_paired_row(hybrid, other, tolerance, gains))
    if not rows:
        return "Whether hybrid beats mean field is open: no split was run with both."
    head = [
        "Whether the hybrid beats mean field, on the same splits and from the same start. The "
        f"answer is open with fewer than {runs_needed(10)} splits, and where the difference is "
        f"within {LIMIT:g} standard errors:",
        "",
        "| | stop | splits | difference (standard error) | answer |",
        "| --- | --- | ---: | ---: | --- |",
    ]
    return "\n".join([_wrapped(head[0]), *head[1:], *rows])


def _paired_row(hybrid: str, other: str, tolerance: float | None, gains: list[float]) -> str:
    mean, error, n = stat(gains)
    answer = "open"
    if n >= runs_needed(10) and abs(mean) > LIMIT * error:
        answer = "better" if mean > 0 else "worse"
    stop = "none" if tolerance is None else f"{tolerance:g}"
    value = f"{mean:+.3f} ({number(error, 3)})"
    return f"| {hybrid} less {other} | {stop} | {n} | {value} | {answer} |"


def _edges(runs: Sequence[Run]) -> str:
    """Edges of our graphs beside the paper's."""
    found = {
        run["case"]: int(run["metrics"]["n_edges"]) for run in runs if "n_edges" in run["metrics"]
    }
    parts = [
        f"{case} {count:,} (paper {edges_in_paper(case):,})"
        for case, count in sorted(found.items())
        if edges_in_paper(case)
    ]
    return _wrapped(f"Edges of the graph: {'; '.join(parts)}.") if parts else ""


def _noises(name: str, lines: Sequence[Entry]) -> list[str]:
    """The table of noises at the start, and what it says."""
    about = experiment(name)
    table = noise_table(lines, about.noises, about.main_metric)
    return [_wrapped(NOISES[name]), table] if table else []


def _joint_reference(path: Path) -> str:
    """Joint max-product in the paper's order, which `noisyor reproduce` does not have."""
    if not path.is_file():
        return ""
    case = json.loads(path.read_text())["cases"].get("bmf n=100 r=20, two-stage schedule")
    errors = [run["test_re_pct"] for run in case["runs"]]
    mean, error, n = stat(errors)
    cell = next(c for c in paper_cells("bmf") if (c.method, c.case) == ("pmp", "100,20"))
    return _wrapped(
        f"Joint max-product (*pmp*) in the paper's order, by a NumPy reference at 100,20: "
        f"{with_error(mean, error)} % of the entries are wrong over {n} seeds, and the paper has "
        f"{of_paper(cell)} (`results/joint_factorization.json`). *pmp* in the table is collapsed: "
        "another algorithm, so it has no verdict, whatever its numbers."
    )


def _spare(runs: Sequence[Run]) -> str:
    """Whether the feature that matches nothing has the lowest prior, as the paper says."""
    found = spare_features([run for run in runs if run["part"] == "test"])
    if not found:
        return ""
    lowest = sum(spare.is_lowest for spare in found)
    return _wrapped(
        "The paper says that the spare fifth feature always has the lowest prior. That is so in "
        f"{lowest} of our {len(found)} max-product runs, of all kinds."
    )


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
    rules = [f"best on {rule}" for rule in group.chosen] if group.n_starts > 1 else []
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
