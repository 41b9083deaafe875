"""From runs to tables: mean and spread, the paper's beside them, and whether we match.

The difference from the paper is given in units of the combined spread, the root of the sum of both
squares. Up to two of them is a match; beyond that we beat the paper or miss it. Spreads are
standard deviations over runs. For recovered parameters the paper prints 95 % intervals of the mean
instead; these are shown, and the unit is the combined standard error. A few runs that happen to
agree say little about their spread, so there our runs never count as steadier than the paper's. A
single run is taken to spread as the paper's do.

The initialisation is chosen by the largest mean validation bound (`RunSpec.part`), which never sees
the test rows. The paper's own rule, the best mean test result, stands beside it under its name.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor.experiments.protocol import Experiment, paper_method
from noisyor.experiments.records import with_mp_phase
from noisyor.experiments.results.paper import CITATION, PaperCell, paper_cells
from noisyor.metrics import confidence_of_mean, confidence_of_share

__all__ = ["Comparison", "Entry", "Stat", "build_summary", "compare", "entries", "stat"]

MATCH = 2.0
"""Combined spreads within which a number counts as the same."""

RESOLUTION = 0.005
"""Half a unit of the last digit that the paper prints: no spread is known better than that."""

PAPER_RUNS = 50
"""Seeds behind the paper's recovered parameters."""

_Z95 = 1.96
_INTERVALS = ("recovered", "full_recovery_pct")  # metrics whose spread is a 95 % interval

TRIVIAL = {
    "test_elbo": "trivial_elbo",
    "test_elbo_mp": "trivial_elbo",
    "test_elbo_vi": "trivial_elbo",
    "test_re_pct": "trivial_re_pct",
    "test_re_pct_mode": "trivial_re_pct",
    "features_iou": "trivial_features_iou",
    "recovered": "trivial_recovered",
}


class Stat(NamedTuple):
    """Mean over runs, its spread (NaN for one run), the number of runs."""

    mean: float
    spread: float
    n_runs: int


class Comparison(NamedTuple):
    """Our number against the paper's.

    ``difference`` in combined spreads, positive where ours is better; ``verdict`` match, beat or
    miss. Both None where there is nothing to compare.
    """

    difference: float | None
    verdict: str | None


class Entry(NamedTuple):
    """One line of a table: a metric of a method on a case, for one way to choose the start."""

    case: str
    method: str
    steps: int
    init: str
    rule: str
    metric: str
    ours: Stat
    trivial: float | None
    paper: PaperCell | None
    comparison: Comparison


def stat(metric: str, values: npt.ArrayLike) -> Stat:
    """Mean and spread of a metric over runs."""
    runs = np.asarray(values, dtype=np.float64)
    mean, n = float(runs.mean()), runs.size
    if metric == "full_recovery_pct":
        return Stat(mean, confidence_of_share(mean, n), n)
    if metric == "recovered":
        return Stat(mean, confidence_of_mean(runs), n)
    return Stat(mean, float(runs.std(ddof=1)) if n > 1 else math.nan, n)


def compare(metric: str, ours: Stat, paper: PaperCell | None, larger_is_better: bool) -> Comparison:
    """Difference in combined spreads, and the verdict."""
    if paper is None or (metric in _INTERVALS and ours.n_runs < 2):
        return Comparison(None, None)
    if metric in _INTERVALS:
        theirs = _standard_error(metric, paper)
        own = max(ours.spread / _Z95, theirs * math.sqrt(PAPER_RUNS / ours.n_runs))
    else:
        theirs = paper.spread
        own = theirs if math.isnan(ours.spread) else ours.spread
    combined = math.hypot(own, theirs)
    gain = ours.mean - paper.mean if larger_is_better else paper.mean - ours.mean
    difference = gain / max(combined, RESOLUTION)
    if abs(difference) <= MATCH:
        return Comparison(difference, "match")
    return Comparison(difference, "beat" if difference > 0 else "miss")


def _standard_error(metric: str, paper: PaperCell) -> float:
    """Standard error behind a 95 % interval of the paper, at least what its mean implies.

    Counts whose mean is m + f, f the fraction, have a variance of f (1 - f) or more; the paper
    prints an interval of 0.00 around a mean of 7.92.
    """
    printed = paper.spread / _Z95
    if metric != "recovered":
        return printed
    fraction = paper.mean % 1.0
    return max(printed, math.sqrt(fraction * (1.0 - fraction) / PAPER_RUNS))


def entries(experiment: Experiment, runs: Sequence[dict[str, Any]]) -> list[Entry]:
    """All lines that the runs of an experiment allow.

    Parameters
    ----------
    experiment : whose metrics and paper's numbers are used.
    runs : merged records, see `noisyor.experiments.records.merge_runs`.
    """
    groups: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = {}
    for run in with_mp_phase(runs):
        if run["part"] == "test":
            names = ("case", "method", "steps", "noise", "tolerance", "damping")
            key = tuple(run[name] for name in names)
            groups.setdefault(key, defaultdict(list))[run["init"]].append(run)
    lines = []
    for (case, method, steps, *_), by_init in groups.items():
        for init, rule in _choices(experiment, method, by_init):
            lines += _lines(experiment, case, method, steps, init, rule, by_init[init])
    return lines


def _choices(
    experiment: Experiment, method: str, by_init: dict[str, list[dict[str, Any]]]
) -> list[tuple[str, str]]:
    """Initialisations to show, each with the rule that chose it."""
    if method == "pmp":
        return [(init, "variant") for init in by_init]
    if len(by_init) == 1:
        return [(next(iter(by_init)), "the only one run")]
    metric = experiment.main_metric
    if paper_method(method) == "mp" and "test_elbo_mp" in experiment.metrics:
        metric = "test_elbo_mp"  # what it trains; the paper does not say which of the two bounds
    sign = 1.0 if experiment.metrics[metric] else -1.0
    on_test = _best(by_init, metric, sign) or next(iter(by_init))
    on_validation = _best(by_init, "validation_elbo")
    if on_validation is None:
        return [(on_test, "best on test, the paper's rule")]
    if on_test == on_validation:
        return [(on_test, "validation; also best on test")]
    return [(on_validation, "validation"), (on_test, "best on test, the paper's rule")]


def _best(by_init: dict[str, list[dict[str, Any]]], metric: str, sign: float = 1.0) -> str | None:
    """Initialisation with the best mean of a metric over the seeds that all have, if any."""
    values = {
        init: {run["seed"]: run["metrics"][metric] for run in group if metric in run["metrics"]}
        for init, group in by_init.items()
    }
    common = set.intersection(*(set(found) for found in values.values()))
    if not common:
        return None
    return max(values, key=lambda init: sign * float(np.mean([values[init][s] for s in common])))


def _mean(runs: Sequence[dict[str, Any]], metric: str) -> float:
    return float(np.mean([run["metrics"][metric] for run in runs]))


def _lines(
    experiment: Experiment,
    case: str,
    method: str,
    steps: int,
    init: str,
    rule: str,
    runs: Sequence[dict[str, Any]],
) -> list[Entry]:
    result = []
    substitutes = experiment.substitutes
    for metric, larger_is_better in {**experiment.metrics, "update_median": False}.items():
        source = "seconds" if metric == "update_median" else "metrics"
        values = [run[source].get(metric) for run in runs]
        if any(value is None for value in values):
            continue
        ours = stat(metric, values)
        paper = _paper(experiment.name, method, substitutes.get(case, case), steps, metric)
        judged = None if case in substitutes or metric == "update_median" else paper
        trivial = None
        if TRIVIAL.get(metric) in runs[0]["metrics"]:
            trivial = _mean(runs, TRIVIAL[metric])
        comparison = compare(metric, ours, judged, larger_is_better)
        result.append(
            Entry(case, method, steps, init, rule, metric, ours, trivial, paper, comparison)
        )
    return result


def _paper(name: str, method: str, case: str, steps: int, metric: str) -> PaperCell | None:
    for cell in paper_cells(name):
        if (cell.method, cell.case, cell.metric) == (paper_method(method), case, metric) and (
            cell.steps is None or cell.steps == steps
        ):
            return cell
    return None


def build_summary(experiment: Experiment, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The result file of an experiment: settings, runs, summary, and the paper's numbers."""
    summary = [
        {
            "case": line.case,
            "method": line.method,
            "steps": line.steps,
            "init": line.init,
            "rule": line.rule,
            "metric": line.metric,
            "mean": line.ours.mean,
            "spread": line.ours.spread,
            "n_runs": line.ours.n_runs,
            "trivial": line.trivial,
            "paper_mean": None if line.paper is None else line.paper.mean,
            "paper_spread": None if line.paper is None else line.paper.spread,
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
