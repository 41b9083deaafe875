"""From runs to the lines of tables: every group of runs, the paper's number, and the verdict.

A group is all runs that differ in their seed alone. Every group is a line. What counts as *the*
reproduction is decided by what the paper says (`is_reproduction`); other groups are variants, shown
with their difference and without a verdict.

Among the starts of a reproduction the paper's rule chooses: the best mean test result, over the
seeds that all of them have. A start with fewer runs than a verdict needs does not compete with one
that has enough. What a validation part would have chosen (`RunSpec.part`), which never sees the
test rows, is shown too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from reproduction.judgement import Comparison, Stat, compare, runs_needed, stat
from reproduction.paper import CITATION, PaperCell, paper_cells
from reproduction.protocol import Experiment, paper_method
from reproduction.record import with_mp_phase

__all__ = [
    "Entry",
    "Group",
    "build_summary",
    "entries",
    "groups",
    "is_reproduction",
    "judged",
    "order",
]

TRIVIAL = {
    "test_elbo": "trivial_elbo",
    "test_elbo_mp": "trivial_elbo",
    "test_elbo_vi": "trivial_elbo",
    "test_re_pct": "trivial_re_pct",
    "test_re_pct_mode": "trivial_re_pct",
    "features_iou": "trivial_features_iou",
    "recovered": "trivial_recovered",
}

Run = dict[str, Any]


_KIND = ("case", "method", "steps", "noise", "tolerance", "damping")


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed alone.

    ``chosen`` by which rules its start is the best of those run: ``"test"``, ``"validation"``;
    ``n_starts`` how many starts have runs of this kind, ``n_compared`` how many of them competed.
    """

    case: str
    method: str
    steps: int
    noise: str
    tolerance: float | None
    damping: float | None
    init: str
    runs: tuple[Run, ...]
    reproduction: bool
    chosen: tuple[str, ...]
    n_starts: int
    n_compared: int

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds, in order."""
        return tuple(sorted(run["seed"] for run in self.runs))


class Entry(NamedTuple):
    """One line of a table: a metric of a group."""

    group: Group
    metric: str
    ours: Stat
    trivial: float | None
    paper: PaperCell | None
    comparison: Comparison


def order(run: Run) -> str | None:
    """Order of max-product messages that a run's file states; None for mean field."""
    settings = run["settings"]
    if "pmp" in settings:
        return "collapsed"  # joint max-product has no other
    found: str | None = settings.get("mp", {}).get("schedule")
    return found


def is_reproduction(experiment: Experiment, run: Run) -> bool:
    """Whether a run does what the paper says.

    Its appendix splits a noisy-OR into pairwise factors and an OR, all of whose messages are
    updated in parallel and damped: the two-stage order. Noise at the start is that of its text,
    damping is 0.5. At which tolerance a row stops is not asked: the tables show it.
    """
    return (
        order(run) in ("two-stage", None)
        and run["noise"] == experiment.noises[0]
        and run["damping"] is None
    )


def groups(experiment: Experiment, runs: Sequence[Run]) -> list[Group]:
    """All groups of test runs, the starts of a kind together.

    Parameters
    ----------
    experiment : whose metrics are used.
    runs : merged records, see `reproduction.record.merge_runs`.
    """
    kinds: dict[tuple[Any, ...], dict[str, list[Run]]] = {}
    for run in with_mp_phase(runs):
        if run["part"] == "test":
            key = tuple(run[name] for name in _KIND)
            kinds.setdefault(key, {}).setdefault(run["init"], []).append(run)
    found = []
    for kind, by_init in kinds.items():
        compared = _competing(by_init, runs_needed(experiment.expected_seeds))
        best = {
            "test": _best(compared, experiment.main_metric, experiment.metrics),
            "validation": _best(by_init, "validation_elbo", {"validation_elbo": True}),
        }
        for init, members in by_init.items():
            group = Group(
                **dict(zip(_KIND, kind, strict=True)),
                init=init,
                runs=tuple(members),
                reproduction=is_reproduction(experiment, members[0]),
                chosen=tuple(rule for rule, name in best.items() if name == init),
                n_starts=len(by_init),
                n_compared=len(compared),
            )
            found.append(group)
    return found


def _competing(by_init: dict[str, list[Run]], enough: int) -> dict[str, list[Run]]:
    """The starts with ``enough`` runs; all of them where none has."""
    return {init: runs for init, runs in by_init.items() if len(runs) >= enough} or by_init


def _best(by_init: dict[str, list[Run]], metric: str, larger: dict[str, bool]) -> str | None:
    """Start with the best mean of a metric over the seeds that all starts have.

    If they have none in common, all seeds count.
    """
    values = {
        init: {run["seed"]: run["metrics"][metric] for run in group if metric in run["metrics"]}
        for init, group in by_init.items()
    }
    if not all(values.values()):
        return None
    common = set.intersection(*(set(found) for found in values.values()))
    sign = 1.0 if larger[metric] else -1.0

    def mean(init: str) -> float:
        return sign * float(np.mean([values[init][seed] for seed in common or values[init]]))

    return max(values, key=mean)


def entries(experiment: Experiment, runs: Sequence[Run]) -> list[Entry]:
    """All lines that the runs of an experiment allow, group by group."""
    return [line for group in groups(experiment, runs) for line in _lines(experiment, group)]


def judged(lines: Sequence[Entry]) -> dict[PaperCell, Entry]:
    """The line that stands for each of the paper's numbers: of those judged, the one of most runs.

    A number may have several lines, such as those of runs that stop and of runs that do not.
    """
    found: dict[PaperCell, Entry] = {}
    for line in lines:
        if line.paper is not None and line.comparison.verdict is not None:
            known = found.get(line.paper)
            if known is None or line.ours.n_runs > known.ours.n_runs:
                found[line.paper] = line
    return found


def _lines(experiment: Experiment, group: Group) -> list[Entry]:
    result = []
    substitutes = experiment.substitutes
    has_verdict = group.reproduction and group.case not in substitutes and "test" in group.chosen
    for metric, larger_is_better in experiment.metrics.items():
        values = [run["metrics"].get(metric) for run in group.runs]
        if any(value is None for value in values):
            continue
        ours = stat(values)
        case = substitutes.get(group.case, group.case)
        paper = _paper(experiment.name, group.method, case, group.steps, metric)
        trivial = None
        if TRIVIAL.get(metric) in group.runs[0]["metrics"]:
            trivial = float(np.mean([run["metrics"][TRIVIAL[metric]] for run in group.runs]))
        found = compare(ours, None if group.case in substitutes else paper, larger_is_better)
        if not has_verdict:
            found = found._replace(verdict=None)
        result.append(Entry(group, metric, ours, trivial, paper, found))
    return result


def _paper(name: str, method: str, case: str, steps: int, metric: str) -> PaperCell | None:
    for cell in paper_cells(name):
        if (cell.method, cell.case, cell.metric) == (paper_method(method), case, metric) and (
            cell.steps is None or cell.steps == steps
        ):
            return cell
    return None


def build_summary(experiment: Experiment, runs: Sequence[Run]) -> dict[str, Any]:
    """The result file of an experiment: runs, summary, and the paper's numbers."""
    summary = [
        {
            **{name: getattr(line.group, name) for name in (*_KIND, "init")},
            "seeds": line.group.seeds,
            "reproduction": line.group.reproduction,
            "chosen_by": line.group.chosen,
            "metric": line.metric,
            "mean": line.ours.mean,
            "standard_error": line.ours.error,
            "n_runs": line.ours.n_runs,
            "trivial": line.trivial,
            "paper_mean": None if line.paper is None else line.paper.mean,
            "paper_standard_error": None if line.paper is None else line.paper.error,
            "difference": line.comparison.difference,
            "verdict": line.comparison.verdict,
        }
        for line in entries(experiment, runs)
    ]
    return {
        "experiment": experiment.name,
        "runs": [
            {key: value for key, value in run.items() if key != "arrays"}
            for run in runs
            if run["part"] == "test"
        ],
        "summary": summary,
        "paper": {
            "citation": CITATION,
            "cells": [cell._asdict() for cell in paper_cells(experiment.name)],
        },
    }
