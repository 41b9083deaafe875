"""The appendix of the page: all groups of runs beside the paper's numbers, and every single run.

``python -m reproduction page`` writes it to ``reproduction/RUNS.md``. What a run does not state is
shown as not recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from reproduction import NAMES, experiment
from reproduction.comparison import Entry, entries, order
from reproduction.protocol import Choice, Experiment, paper_method
from reproduction.record import FOLDER, Record, Run
from reproduction.terminal import LABELS, difference, how, number, of_paper, seeds, with_error

__all__ = ["appendix", "of_experiment", "table"]

TITLE = "# Runs of the reproduction"

_ABOUT = """\
Generated from `runs.jsonl` by `python -m reproduction page`; do not edit. The verdicts and their
rules are in [docs/reproduction.md](../docs/reproduction.md).

A line of a table is a group of runs that differ in their seed alone. *how* states the order of the
messages, the noise at the start and the tolerance at which a row stops. *variant* and *other start*
are runs without a verdict. If several lines of one number have a verdict, that of the line with
most runs counts. *trivial* is a model without causes. Runs marked † had been removed from the
repository when the noise of factorizations was changed, and are back."""

_COLUMNS = (
    *("case", "method, steps", "how", "start", "seeds", "metric"),
    *(">ours", ">trivial", ">paper", ">diff.", "verdict"),
)


def appendix(record: Path = FOLDER) -> str:
    """Write the appendix as Markdown, from the record in a folder."""
    runs = Record(record).runs()
    parts = [TITLE, _ABOUT]
    for name in NAMES:
        about, own = experiment(name), of_experiment(runs, name)
        lines = sorted(entries(about, own), key=partial(_position, about))
        rows = [_cells(about, line) for line in lines]
        parts += [f"## {about.title}", table(_COLUMNS, rows) if rows else "No runs yet."]
    parts += [_provenance(runs), _single_runs(runs)]
    return "\n\n".join(parts) + "\n"


def of_experiment(runs: Sequence[Run], name: str) -> list[Run]:
    """Return the runs of one experiment."""
    return [run for run in runs if run["experiment"] == name]


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Format a table in Markdown; columns whose name begins with > are aligned to the right."""
    head = [column.removeprefix(">") for column in columns]
    rule = ["---:" if column.startswith(">") else "---" for column in columns]
    # A first column without a name is written as "| |".
    lines = ["| " + " | ".join(map(str, cells)).lstrip() + " |" for cells in (head, rule, *rows)]
    return "\n".join(lines)


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


# ---- how the runs were made

UNKNOWN = "not recorded"

_MADE_COLUMNS = (
    *("experiment", "method", ">rate", "batch", "messages", "noise", "processor, threads"),
    *("noisyor, NumPy, Numba, Python", "commit", ">runs", ">hours", "when"),
)

_HOW_MADE = """\
Values marked (h) were not in the file when it was written. They were filled in from the history of
the code, and the file says so (`from_history`). For those files *when* is the commit that added
them, and the commit that made them is not recorded. Hours are those of machines that did other work
as well."""


def _provenance(runs: Sequence[Run]) -> str:
    """Tabulate how the runs were made, one line for all that share settings and machine."""
    found: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        found.setdefault(_made(run), []).append(run)
    rows = []
    for made, members in found.items():
        seconds = sum(_seconds(run) for run in members)
        days = sorted({_when(run) for run in members})
        when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        rows.append((*made, len(members), f"{seconds / 3600:.2f}", when))
    return f"## How the runs were made\n\n{_HOW_MADE}\n\n{table(_MADE_COLUMNS, rows)}"


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
        paper_method(run["method"]),
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


# ---- every single run


def _single_runs(runs: Sequence[Run]) -> str:
    """List every run with its metrics, in the order of the paper's experiments."""
    parts = ["## Every single run"]
    for name in NAMES:
        rows = [_single(run) for run in of_experiment(runs, name)]
        if rows:
            parts.append(f"### {experiment(name).title}, every run")
            columns = ("case", "method, steps", "start, noise, stop, damping", ">seed", "metrics")
            parts.append(table(columns, rows))
    return "\n\n".join(parts)


def _single(run: Run) -> tuple[object, ...]:
    settings = (run["init"], run["noise"], run["tolerance"], run["damping"])
    metrics = {
        LABELS.get(name, name.replace("_", " ")): f"{value:.5g}"
        for name, value in sorted(run["metrics"].items())
        if not name.startswith("trivial")
    }
    return (
        run["case"],
        f"{run['method']}, {run['steps']:,}" + (", validation" * (run["part"] == "validation")),
        ", ".join("–" if value is None else str(value) for value in settings),
        run["seed"],
        "; ".join(f"{name} {value}" for name, value in metrics.items()),
    )
