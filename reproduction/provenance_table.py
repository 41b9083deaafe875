"""How the runs were made, from their files: settings, machine, versions, commit and date."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reproduction.comparison import order

__all__ = ["provenance_table"]

Run = dict[str, Any]

UNKNOWN = "not recorded"

_HEAD = (
    "| experiment | method | rate | batch | messages | noise | processor, threads "
    "| noisyor, NumPy, Numba, Python | commit | runs | hours | when |"
)
_RULE = "| --- | --- | ---: | --- | --- | --- | --- | --- | --- | ---: | ---: | --- |"


def provenance_table(runs: Sequence[Run]) -> str:
    """A section with one line for all runs that were made alike."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(_made(run), []).append(run)
    if not groups:
        return "## How the runs were made\n\nNo runs yet."
    table = [_HEAD, _RULE]
    for made, members in groups.items():
        seconds = sum(_seconds(run) for run in members)
        days = sorted({_when(run) for run in members})
        when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        table.append(f"| {' | '.join(made)} | {len(members)} | {seconds / 3600:.2f} | {when} |")
    return "## How the runs were made\n\n" + _EXPLANATION + "\n\n" + "\n".join(table)


_EXPLANATION = """\
Rate, batch, messages and noise marked (h) were not in the file when it was written. They were
filled in from the history of the code, where they never changed but for the noise of
factorisations, and the file says so (`from_history`). For those files *when* is the commit that
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
