"""The page that sets all results beside the paper's, one table per table of the paper.

Written by ``noisyor reproduce-report``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noisyor.experiments import NAMES, experiment
from noisyor.experiments.protocol import Choice, Experiment, paper_method
from noisyor.experiments.records import find_runs, with_mp_phase
from noisyor.experiments.results.comparison import Entry, entries
from noisyor.experiments.results.paper import CITATION, PaperCell, paper_cells
from noisyor.experiments.results.terminal import LABELS, number, with_spread

__all__ = ["document"]

_SECTIONS = {
    "tiny20": (
        "tiny20",
        "Test Elbo (main text), Elbo^MP and Elbo^VI (appendix). Splits differ in how hard their "
        "test rows are: independent words have -15.73 on average over splits 0 to 9, with a "
        "standard deviation of 0.09, and -15.95 on split 0. With few runs, compare gains over the "
        "trivial column; see [topics beyond the paper](beyond_topics.md).",
    ),
    "text": (
        "Text data",
        "Test Elbo (main text), both bounds and update times (appendix). The start decides: at a "
        "rate of 0.0003 a parameter moves by 1.2 at most in 4,000 updates. From paper-3 the noise "
        "of a word can rise to 0.73, from paper-4 to 0.85, and in IMDB some words are in nearly "
        "every review; rare words have time enough to fall to their frequency from either. Local "
        "mean field has its best Elbo^VI from paper-3 (-428.91; paper-4 -430.04, paper-2 -430.97), "
        "and only from there does rounding its posterior lose 21 nats, as in the paper (11 from "
        "paper-2; 218 from paper-4, whose causes start half on). The paper does not say "
        "after how many updates its max-product column was taken, nor by which bound its start was "
        "chosen. By Elbo^MP, which max-product trains, it is paper-1, and after 4,000 updates from "
        "there Elbo^VI is 1.2 nats above Elbo^MP, as in the paper; from paper-2 it is 2.3, from "
        "paper-4 3.3. With the messages in the order of the authors' software (*mp-two-stage*) "
        "both bounds stay 0.2 nats (0.05 %) below the paper's. That is what 40 further updates "
        "gain: from 3,600 to 4,000 Elbo^MP rises by 0.6 nats for every hundred. Our graph also "
        "has 91,311 edges and the paper's 91,234. Compare the trivial column: trained this way "
        "neither the paper's model nor ours explains IMDB much better than independent words do. "
        "Ours beyond the paper does, see [topics](beyond_topics.md).",
    ),
    "bmf": (
        "Boolean matrix factorisation",
        "Test Elbo, reconstruction error, update times. *mp-two-stage* is max-product with the "
        "messages in the order of the authors' software, *mp* our default, which overfits here: "
        "see [order of the messages](message_schedules.md). *vi* after 100 updates is there for "
        "its update time. At n=100, r=60 mean field overfits: its test Elbo is -55 after 1,500 "
        "updates from any start and falls from there on. The paper's numbers by mean field look "
        "like those of software with phantom causes, which lower the printed bound and keep "
        "causes on; with them we get 9.2 % wrong entries there, see [mean field](mean_field.md).",
    ),
    "overparam": ("Overparametrisation", "Recovered causes of eight, and runs that found all."),
    "deconvolution": ("Blind deconvolution", "Reconstruction, features, Elbo, update times."),
}
"""Title of each section and what its reader should know."""

_HEAD = (
    "| case | method | steps | start | runs | metric | ours | trivial | paper | diff. | verdict |"
)
_RULE = "| --- | --- | ---: | --- | ---: | --- | ---: | ---: | ---: | ---: | --- |"

_INTRODUCTION = """\
# Reproduction of the paper

Generated from the files in `results/` by `noisyor reproduce-report`; do not edit. The paper:
{citation}

* *ours* and *paper* are mean (spread). The spread is the standard deviation over runs; for
  recovered causes it is the 95 % confidence interval of the mean, as in the paper.
* *diff.* is the difference in units of the combined spread (for recovered causes: of the combined
  standard error, where our runs never count as steadier than the paper's fifty), positive where
  ours is better. A single run is taken to spread as the paper's do. Up to 2 either way is a
  *match*.
* *start* is the initialisation and how it was chosen. *validation*: nine tenths of the training
  rows were trained on, from every start and for the first seeds; the start with the largest mean
  bound on the other tenth was chosen, and the numbers shown are from runs on all training rows.
  *best on test* is the paper's rule. Where only one rule is shown, the runs for the other do not
  exist yet.
* *trivial* explains nothing: no cause is ever on. With fixed noise every 1 is noise of probability
  0.01; with learned noise every word occurs by itself, as often as in training.
* Update times are medians on the hardware below; the paper's are of one P100 GPU.
"""


def document(results: Path) -> str:
    """The page, as Markdown, from all runs found in a folder."""
    runs = find_runs(results)
    parts = [_INTRODUCTION.format(citation=CITATION), _hardware(runs)]
    for name in NAMES:
        title, about = _SECTIONS[name]
        own = [run for run in runs if run["experiment"] == name]
        parts += [f"## {title}", _wrapped(about), _section(experiment(name), own)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _wrapped(paragraph: str) -> str:
    return textwrap.fill(paragraph, 100, break_long_words=False, break_on_hyphens=False)


def _hardware(runs: Sequence[dict[str, Any]]) -> str:
    lines = ["## Hardware and time"]
    machines: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in runs:
        about = run["environment"]
        key = (about.get("cpu"), about.get("cpu_count"), about.get("threads"), about.get("noisyor"))
        machines.setdefault(key, []).append(run)
    if not machines:
        return "\n\n".join([*lines, "No runs yet."])
    table = ["| processor | cores | threads per run | noisyor | runs | hours |"]
    table.append("| --- | ---: | ---: | --- | ---: | ---: |")
    for (cpu, cores, threads, version), group in machines.items():
        seconds = sum(
            run["seconds"]["total"] + run["seconds"].get("validation_total", 0.0) for run in group
        )
        table.append(
            f"| {cpu} | {cores} | {threads} | {version} | {len(group)} | {seconds / 3600:.2f} |"
        )
    return "\n\n".join([*lines, "\n".join(table)])


def _section(about: Experiment, runs: Sequence[dict[str, Any]]) -> str:
    lines = entries(about, runs)
    table = [_HEAD, _RULE, *(_line(about, line) for line in lines)]
    shown = {line.paper for line in lines}
    parts = ["\n".join(table)] if lines else ["No runs yet."]
    parts.append(_missing(about, runs))
    without = [cell for cell in paper_cells(about.name) if cell not in shown]
    if without:
        parts.append(_not_reproduced(without))
    return "\n\n".join(part for part in parts if part)


def _line(about: Experiment, line: Entry) -> str:
    paper, comparison = line.paper, line.comparison
    label = LABELS[line.metric]
    case = line.case
    if case in about.substitutes:
        case += f" (in place of {about.substitutes[case]}, not judged)"
    if line.metric == "update_median" and paper is not None:
        difference, verdict = f"{paper.mean / line.ours.mean:.3g} x", ""
    else:
        difference = "–" if comparison.difference is None else f"{comparison.difference:+.1f}"
        verdict = "–" if comparison.verdict is None else f"**{comparison.verdict}**"
    cells = [
        case,
        line.method,
        f"{line.steps:,}",
        f"{line.init} ({line.rule})",
        str(line.ours.n_runs),
        label,
        with_spread(line.ours.mean, line.ours.spread, line.metric),
        number(line.trivial),
        "–" if paper is None else with_spread(paper.mean, paper.spread, line.metric),
        difference,
        verdict,
    ]
    return "| " + " | ".join(cells) + " |"


def _missing(about: Experiment, runs: Sequence[dict[str, Any]]) -> str:
    """Runs of the paper's protocol that have not been done, one line per method and case.

    The paper has one schedule of messages: a run by either of ours counts.
    """
    done: dict[tuple[str, str], set[tuple[str, int]]] = {}
    for run in with_mp_phase(runs):
        if run["part"] == "test" and run["steps"] == about.steps(run["method"]):
            key = (paper_method(run["method"]), run["case"])
            done.setdefault(key, set()).add((run["init"], run["seed"]))
    lines = []
    for method in dict.fromkeys(paper_method(name) for name in about.methods):
        wanted = about.expected_seeds * len(about.inits(method))
        cases = about.cases(Choice())
        none = [case for case in cases if (method, case) not in done]
        if len(none) == len(cases):
            lines.append(f"* {method}: all {wanted * len(cases)} runs")
            continue
        for case in cases:
            number_done = len(done.get((method, case), ()))
            if number_done < wanted:
                lines.append(f"* {method} on {case}: {wanted - number_done} of {wanted} runs")
    if not lines:
        return ""
    return "Missing from the paper's protocol (starts x seeds):\n\n" + "\n".join(lines)


def _not_reproduced(cells: Sequence[PaperCell]) -> str:
    rows = ["| case | method | steps | metric | paper |", "| --- | --- | ---: | --- | ---: |"]
    for cell in cells:
        value = with_spread(cell.mean, cell.spread, cell.metric)
        steps = "–" if cell.steps is None else f"{cell.steps:,}"
        label = LABELS[cell.metric]
        rows.append(f"| {cell.case} | {cell.method} | {steps} | {label} | {value} |")
    return (
        f"<details><summary>The paper's numbers without a counterpart here ({len(cells)})"
        "</summary>\n\n" + "\n".join(rows) + "\n\n</details>"
    )
