"""The page that sets all runs beside the paper's numbers, one table per table of the paper.

``python -m reproduction page`` writes it from the record. What a run does not state is shown as not
recorded.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reproduction import NAMES, experiment
from reproduction.comparison import (
    EFFECT_OF_SHARE,
    LIMIT,
    TOO_FEW,
    Entry,
    chance_beyond_limit,
    entries,
    is_reproduction,
    order,
    runs_needed,
    stat,
    verdict_lines,
)
from reproduction.figures import spare_features
from reproduction.page_text import (
    DIFFERENCES,
    INTRODUCTION,
    NOISES,
    SECOND_START,
    SECTIONS,
    wrapped,
)
from reproduction.paper import CITATION, EDGES, PaperCell, paper_cells
from reproduction.protocol import Choice, Experiment, paper_method
from reproduction.record import FOLDER, Record, Run, with_mp_phase
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

RESULTS = FOLDER.parent / "results"

_COLUMNS = (
    *("case", "method, steps", "how", "start", "seeds", "metric"),
    *(">ours", ">trivial", ">paper", ">diff.", "verdict"),
)


def document(record: Path = FOLDER, results: Path = RESULTS) -> str:
    """Write the page as Markdown.

    Parameters
    ----------
    record : folder with the record of the runs.
    results : folder with the results of benchmarks, three of which the page quotes.
    """
    runs = Record(record).runs()
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


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Format a table in Markdown; columns whose name begins with > are aligned to the right."""
    head = [column.removeprefix(">") for column in columns]
    rule = ["---:" if column.startswith(">") else "---" for column in columns]
    # A first column without a name is written as "| |".
    lines = ["| " + " | ".join(map(str, cells)).lstrip() + " |" for cells in (head, rule, *rows)]
    return "\n".join(lines)


_ENOUGH_FOR_A_SPREAD = 5


def _brackets(lines: Sequence[Entry]) -> str:
    """Explain how the paper's brackets are read, and compare our standard deviations with them."""
    ratios = [
        line.ours.error * math.sqrt(line.ours.n_runs) / line.paper.printed
        for line in lines
        if line.paper is not None
        and line.paper.n_runs == 10
        and line.paper.printed
        and paper_method(line.group.method) != "pmp"  # next to no errors, and so no spread
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
    """Count the verdicts, each number of the paper once."""
    kinds = ("match", "better", "worse", TOO_FEW)
    rows = []
    verdicts: Counter[str | None] = Counter()
    for name, lines in tables.items():
        of_cells = verdict_lines(lines)
        found = Counter(line.comparison.verdict for line in of_cells.values())
        verdicts += found
        none = sum(
            cell not in of_cells for cell in paper_cells(name) if cell.metric != "update_median"
        )
        rows.append([SECTIONS[name][0], *(found[kind] for kind in kinds), none])
    total = sum(verdicts[kind] for kind in kinds if kind != TOO_FEW)
    chance = wrapped(
        f"Of {total} verdicts about {chance_beyond_limit() * total:.0f} would be *better* or "
        f"*worse* by chance alone if nothing differed: of all numbers "
        f"{100 * chance_beyond_limit():.1f} % are more than {LIMIT:g} standard errors apart."
    )
    columns = ["numbers of the paper", *(f">{kind}" for kind in kinds), ">no run by its protocol"]
    parts = ["## Verdicts", _table(columns, rows), chance, _apart(tables)]
    return "\n\n".join(part for part in parts if part)


def _apart(tables: dict[str, list[Entry]]) -> str:
    """List the numbers that are better or worse than the paper's."""
    apart = [
        line
        for lines in tables.values()
        for line in verdict_lines(lines).values()
        if line.comparison.verdict in ("better", "worse")
    ]
    if not apart:
        return ""
    rows = [
        (
            line.group.case,
            f"{paper_method(line.group.method)}, {line.group.steps:,}",
            LABELS[line.metric],
            line.ours.n_runs,
            with_error(line.ours.mean, line.ours.error),
            of_paper(line.paper),
            difference(line),
            line.comparison.verdict,
        )
        for line in apart
    ]
    columns = ("case", "method, steps", "metric", ">runs", ">ours", ">paper", ">diff.", "verdict")
    return f"The {len(apart)} numbers that differ:\n\n" + _table(columns, rows)


# ---- the table of an experiment


def _section(about: Experiment, runs: Sequence[Run], lines: Sequence[Entry]) -> str:
    ordered = sorted(lines, key=lambda line: _position(about, line))
    table = _table(_COLUMNS, (_cells(about, line) for line in ordered))
    parts = [table if lines else "No runs yet."]
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


def _position(about: Experiment, line: Entry) -> tuple[Any, ...]:
    """Sort key: cases in the paper's order, and of each method the reproduction first."""
    cases = about.cases(Choice())
    group = line.group
    position = cases.index(group.case) if group.case in cases else len(cases)
    return position, group.case, paper_method(group.method), not group.reproduction


def _cells(about: Experiment, line: Entry) -> list[str]:
    group = line.group
    case = group.case
    if case in about.substitutes:
        case += f" (in place of {about.substitutes[case]})"
    removed = any("removed_in" in run.get("from_history", {}) for run in group.runs)
    return [
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


def _start(about: Experiment, line: Entry) -> str:
    group = line.group
    if paper_method(group.method) == "pmp":
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
    """List the runs of the paper's protocol that are missing, by method and case."""
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
    rows = [
        (
            cell.case,
            cell.method,
            "–" if cell.steps is None else f"{cell.steps:,}",
            LABELS[cell.metric],
            of_paper(cell),
        )
        for cell in cells
    ]
    table = _table(("case", "method", ">steps", "metric", ">paper"), rows)
    return (
        f"<details><summary>The paper's numbers without a counterpart here ({len(cells)})"
        f"</summary>\n\n{table}\n\n</details>"
    )


# ---- what a section says besides its table

_MAIN_START = "paper-3"
"""The start of tiny20 that all splits were run from."""


def extra_paragraphs(
    name: str, runs: Sequence[Run], lines: Sequence[Entry], results: Path
) -> list[str]:
    """Write the paragraphs and small tables that a section has besides its main table.

    Parameters
    ----------
    name : of the experiment.
    runs : its records.
    lines : of its table.
    results : folder with the results of benchmarks.
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
    """Compare hybrid and mean field on the same splits, with the same start and tolerance."""
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
    text = (
        "Whether the hybrid beats mean field, on the same splits and from the same start. The "
        f"answer is open with fewer than {runs_needed(10)} splits, and where the difference is "
        f"within {LIMIT:g} standard errors:"
    )
    columns = ("", "stop", ">splits", ">difference (standard error)", "answer")
    return wrapped(text) + "\n\n" + _table(columns, rows)


def _paired_row(
    hybrid: str, other: str, tolerance: float | None, gains: list[float]
) -> tuple[object, ...]:
    mean, error, n = stat(gains)
    answer = "open"
    if n >= runs_needed(10) and abs(mean) > LIMIT * error:
        answer = "better" if mean > 0 else "worse"
    stop = "none" if tolerance is None else f"{tolerance:g}"
    return f"{hybrid} less {other}", stop, n, f"{mean:+.3f} ({number(error, 3)})", answer


def _modes(path: Path) -> str:
    """Report whether the hybrid's Elbo^MP depends on how the mode is found."""
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
    """Report whether the Elbo^MP depends on the rows that the graph is built from."""
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
    """Compare other starts with `_MAIN_START` on the splits that both were run on."""
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
            rows.append((method, init, seeds(common), *(f"{gain:+.3f}" for gain in gains)))
    if not rows:
        return ""
    about = wrapped(
        f"Starts other than {_MAIN_START} were run to see whether they explain the Elbo^MP of the "
        f"hybrid. What they gave, less {_MAIN_START} on the same splits; ahead there, with too few "
        f"runs for a verdict: {', '.join(ahead) or 'none'}."
    )
    columns = ("", "start", "splits", ">test Elbo", ">test Elbo^MP")
    return about + "\n\n" + _table(columns, rows)


def _edges(runs: Sequence[Run]) -> str:
    """Compare the number of edges of our graphs with the paper's."""
    found = {
        run["case"]: int(run["metrics"]["n_edges"]) for run in runs if "n_edges" in run["metrics"]
    }
    parts = [
        f"{case} {count:,} (paper {EDGES[case]:,})"
        for case, count in sorted(found.items())
        if case in EDGES
    ]
    return wrapped(f"Edges of the graph: {'; '.join(parts)}.") if parts else ""


def _second_start(lines: Sequence[Entry]) -> str:
    """Tabulate recovered causes by start, for the cases that were run from both starts."""
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
            rows.append((case, *cells, of_paper(of_inits[0].paper)))
    if not rows:
        return ""
    return wrapped(SECOND_START) + "\n\n" + _table(("", *inits, ">paper"), rows)


def _noises(name: str, lines: Sequence[Entry]) -> list[str]:
    """Return the table by noise at the start with its introduction."""
    about = experiment(name)
    table = noise_table(lines, about.noises, about.main_metric)
    return [wrapped(NOISES[name]), table] if table else []


def _joint_reference(path: Path) -> str:
    """Report joint max-product in the paper's order, which only a benchmark has."""
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
    """Report whether the unmatched feature has the lowest prior, as the paper says."""
    found = spare_features([run for run in runs if run["part"] == "test"])
    if not found:
        return ""
    lowest = sum(spare.is_lowest for spare in found)
    return wrapped(
        "The paper says that the spare fifth feature always has the lowest prior. That is so in "
        f"{lowest} of our {len(found)} max-product runs, of all kinds."
    )


def noise_table(lines: Sequence[Entry], noises: Sequence[str], metric: str) -> str:
    """Tabulate a metric by noise at the start, for the cases that were run with several.

    Parameters
    ----------
    lines : of an experiment, see `entries`.
    noises : the kinds, in the order of the columns.
    metric : of the lines.
    """
    found: dict[str, dict[str, Entry]] = {}
    for line in lines:
        group = line.group
        best = (group.method, line.metric) == ("mp-two-stage", metric) and "test" in group.chosen
        if best and line.paper is not None and group.damping is None and group.tolerance is None:
            found.setdefault(group.case, {})[group.noise] = line
    rows = [
        (
            case,
            *(_noise_cell(of_case.get(noise)) for noise in noises),
            of_paper(next(iter(of_case.values())).paper),
        )
        for case, of_case in found.items()
        if len(of_case) > 1
    ]
    return _table(("", *noises, ">paper"), rows) if rows else ""


def _noise_cell(line: Entry | None) -> str:
    """Format a mean, its distance from the paper in standard errors, and its start."""
    if line is None:
        return "–"
    group = line.group
    starts = f"{group.n_starts} start{'s' * (group.n_starts > 1)}"
    return (
        f"{number(line.ours.mean)} ({line.comparison.difference:+.1f}), {group.init} of {starts}, "
        f"seeds {seeds(group.seeds)}"
    )


# ---- how the runs were made

UNKNOWN = "not recorded"

_MADE_COLUMNS = (
    *("experiment", "method", ">rate", "batch", "messages", "noise", "processor, threads"),
    *("noisyor, NumPy, Numba, Python", "commit", ">runs", ">hours", "when"),
)


def provenance_table(runs: Sequence[Run]) -> str:
    """Tabulate how the runs were made, one line for all that share settings and machine."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(_made(run), []).append(run)
    if not groups:
        return "## How the runs were made\n\nNo runs yet."
    rows = []
    for made, members in groups.items():
        seconds = sum(_seconds(run) for run in members)
        days = sorted({_when(run) for run in members})
        when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        rows.append((*made, len(members), f"{seconds / 3600:.2f}", when))
    return f"## How the runs were made\n\n{_HOW_MADE}\n\n{_table(_MADE_COLUMNS, rows)}"


_HOW_MADE = """\
Rate, batch, messages and noise marked (h) were not in the file when it was written. They were
filled in from the history of the code, where they never changed but for the noise of
factorizations, and the file says so (`from_history`). For those files *when* is the commit that
added them, and the commit that made them is not recorded. A hybrid run counts once; the times
are of machines that did other work as well, so update times are measured elsewhere (README,
`benchmarks/update_time.py`)."""


def _made(run: Run) -> tuple[str, ...]:
    settings, about = run["settings"], run["environment"]
    filled = run.get("from_history", {}).get("fields", [])
    mark = " (h)" if "settings.protocol" in filled else ""
    if "pmp" in settings:
        rate, batch = "–", "–"
    else:
        protocol = settings.get("protocol", {})
        rate = _text(protocol.get("learning_rate", UNKNOWN)) + mark
        size = protocol.get("batch_size", UNKNOWN)
        batch = ("all rows" if size is None else _text(size)) + mark
    noise = run["noise"] + (" (h)" if "noise" in filled else "")
    versions = ", ".join(
        _text(about.get(name, UNKNOWN)) for name in ("noisyor", "numpy", "numba", "python")
    )
    machine = f"{_text(about.get('cpu', UNKNOWN))}, {_text(about.get('threads', UNKNOWN))}"
    commit = about.get("commit")
    return (
        run["experiment"],
        run["method"].removesuffix("-two-stage"),
        rate,
        batch,
        (order(run) or "–") + (" (h)" if "settings.mp.schedule" in filled else ""),
        noise,
        machine,
        versions,
        commit[:7] + commit[40:] if commit else UNKNOWN,
    )


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _seconds(run: Run) -> float:
    return float(run["seconds"]["total"] + run["seconds"].get("validation_total", 0.0))


def _when(run: Run) -> str:
    found = run["environment"].get("date") or run.get("from_history", {}).get("added_at")
    return UNKNOWN if found is None else str(found)[:10]
