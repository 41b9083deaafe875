"""What a section of the page says besides its table: comparisons that one line cannot make."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reproduction import experiment
from reproduction.comparison import Entry, order
from reproduction.deconvolution_figures import spare_features
from reproduction.judgement import LIMIT, runs_needed, stat
from reproduction.noise_table import noise_table
from reproduction.page_text import NOISES, SECOND_START, wrapped
from reproduction.paper import edges_in_paper, paper_cells
from reproduction.protocol import paper_method
from reproduction.record import with_mp_phase
from reproduction.terminal import number, of_paper, seeds, with_error

__all__ = ["extra_paragraphs"]

Run = dict[str, Any]

_MAIN_START = "paper-3"
"""The start of tiny20 that all splits were run from."""


def extra_paragraphs(
    name: str, runs: Sequence[Run], lines: Sequence[Entry], results: Path
) -> list[str]:
    """Paragraphs and small tables of the section of an experiment.

    Parameters
    ----------
    name : of the experiment.
    runs : its records.
    lines : of its table.
    results : folder that also has the files of benchmarks.
    """
    if name == "tiny20":
        return [
            _paired(runs),
            _modes(results / "tiny20_modes.json"),
            _graphs(results / "tiny20_graph.json"),
            _other_starts(runs),
        ]
    if name == "text":
        return [_edges(runs)]
    if name == "bmf":
        reference = _joint_reference(results / "joint_factorization.json")
        return [*_noises(name, lines), reference]
    if name == "overparam":
        return [_second_start(lines), *_noises(name, lines)]
    if name == "deconvolution":
        return [_spare(runs)]
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
    return "\n".join([wrapped(head[0]), *head[1:], *rows])


def _paired_row(hybrid: str, other: str, tolerance: float | None, gains: list[float]) -> str:
    mean, error, n = stat(gains)
    answer = "open"
    if n >= runs_needed(10) and abs(mean) > LIMIT * error:
        answer = "better" if mean > 0 else "worse"
    stop = "none" if tolerance is None else f"{tolerance:g}"
    value = f"{mean:+.3f} ({number(error, 3)})"
    return f"| {hybrid} less {other} | {stop} | {n} | {value} | {answer} |"


def _modes(path: Path) -> str:
    """Whether the hybrid's Elbo^MP depends on how the mode is found."""
    if not path.is_file():
        return ""
    networks = json.loads(path.read_text())["networks"].values()
    found = [
        network["log_joint"]
        for network in networks
        if (network["method"], network["init"]) == ("hybrid-two-stage", "paper-3")
    ]
    at_q, collapsed, two_stage, polished = (
        float(np.mean([each[way] for each in found]))
        for way in ("q >= 0.5", "collapsed", "two-stage", "polished")
    )
    (cell,) = (
        cell
        for cell in paper_cells("tiny20")
        if (cell.method, cell.metric) == ("hybrid", "test_elbo_mp")
    )
    return wrapped(
        "How the mode is found does not explain the Elbo^MP of the hybrid: over "
        f"{len(found)} splits it is {number(at_q)} at q >= 0.5, {number(two_stage)} and "
        f"{number(collapsed)} at what max-product finds (two-stage, collapsed), and "
        f"{number(polished)} after single flips that raise it; the paper has {of_paper(cell)} "
        "(`python benchmarks/tiny20_modes.py`, `results/tiny20_modes.json`)."
    )


def _graphs(path: Path) -> str:
    """Whether it depends on the rows that the graph is made from."""
    if not path.is_file():
        return ""
    splits = json.loads(path.read_text())["splits"]

    def mean(rows: str, bound: str) -> str:
        return number(float(np.mean([split[rows]["vi"][bound] for split in splits.values()])))

    return wrapped(
        "Nor does the graph explain it: made from all rows, as by the authors' software, the "
        f"Elbo^MP is {mean('all rows', 'elbo_mp')} and the Elbo^VI {mean('all rows', 'elbo_vi')} "
        f"on splits {seeds(sorted(map(int, splits)))}, where the graph of the training rows has "
        f"{mean('training rows', 'elbo_mp')} and {mean('training rows', 'elbo_vi')} (`python "
        "benchmarks/tiny20_graph.py`, `results/tiny20_graph.json`). It is unexplained."
    )


def _other_starts(runs: Sequence[Run]) -> str:
    """What other starts gave on the splits that they were run on, less `_MAIN_START` there."""
    found: dict[tuple[str, str], dict[int, dict[str, float]]] = {}
    for run in with_mp_phase(runs):
        if run["part"] == "test" and order(run) == "two-stage":
            own = found.setdefault((paper_method(run["method"]), run["init"]), {})
            own[run["seed"]] = run["metrics"]
    rows, ahead = [], []
    for (method, init), of_start in found.items():
        main = found.get((method, _MAIN_START), {})
        common = sorted(set(of_start) & set(main))
        if init != _MAIN_START and common:
            gains = [
                float(np.mean([of_start[seed][name] - main[seed][name] for seed in common]))
                for name in ("test_elbo", "test_elbo_mp")
            ]
            if gains[0] > 0.0:
                ahead.append(f"{method} from {init}")
            cells = " | ".join(f"{gain:+.3f}" for gain in gains)
            rows.append(f"| {method} | {init} | {seeds(common)} | {cells} |")
    if not rows:
        return ""
    about = wrapped(
        f"Starts other than {_MAIN_START} were run to see whether they explain the Elbo^MP of the "
        f"hybrid. What they gave, less {_MAIN_START} on the same splits; ahead there, with too few "
        f"runs for a verdict: {', '.join(ahead) or 'none'}."
    )
    head = "| | start | splits | test Elbo | test Elbo^MP |\n| --- | --- | --- | ---: | ---: |"
    return "\n".join([about, "", head, *rows])


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
    return wrapped(f"Edges of the graph: {'; '.join(parts)}.") if parts else ""


def _second_start(lines: Sequence[Entry]) -> str:
    """Recovered causes by start, of the cases that were run from both by the paper's protocol."""
    about = experiment("overparam")
    inits = about.inits("mp-two-stage")
    found: dict[str, dict[str, Entry]] = {}
    for line in lines:
        group = line.group
        right = group.reproduction and (group.method, group.tolerance) == ("mp-two-stage", None)
        if right and line.metric == about.main_metric:
            found.setdefault(group.case, {})[group.init] = line
    rows = []
    for case, by_init in found.items():
        if len(by_init) == len(inits):
            of_inits = [by_init[init] for init in inits]
            cells = [
                f"{with_error(line.ours.mean, line.ours.error)}, seeds {seeds(line.group.seeds)}"
                for line in of_inits
            ]
            rows.append(f"| {case} | {' | '.join(cells)} | {of_paper(of_inits[0].paper)} |")
    if not rows:
        return ""
    head = [f"| | {' | '.join(inits)} | paper |", "| --- |" + " --- |" * len(inits) + " ---: |"]
    return wrapped(SECOND_START) + "\n\n" + "\n".join([*head, *rows])


def _noises(name: str, lines: Sequence[Entry]) -> list[str]:
    """The table of noises at the start, and what it says."""
    about = experiment(name)
    table = noise_table(lines, about.noises, about.main_metric)
    return [wrapped(NOISES[name]), table] if table else []


def _joint_reference(path: Path) -> str:
    """Joint max-product in the paper's order, which the runner does not have."""
    if not path.is_file():
        return ""
    case = json.loads(path.read_text())["cases"].get("bmf n=100 r=20, two-stage schedule")
    errors = [run["test_re_pct"] for run in case["runs"]]
    mean, error, n = stat(errors)
    cell = next(c for c in paper_cells("bmf") if (c.method, c.case) == ("pmp", "100,20"))
    return wrapped(
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
    return wrapped(
        "The paper says that the spare fifth feature always has the lowest prior. That is so in "
        f"{lowest} of our {len(found)} max-product runs, of all kinds."
    )
