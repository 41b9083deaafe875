"""Compare our runs with the paper's numbers: groups of runs, differences and verdicts.

A group is all runs that differ in their seed alone; every group is a line of a table. What the
paper says decides which groups count as *the* reproduction (`is_reproduction`). Other groups are
variants, shown with their difference and without a verdict.

Among the starts of a reproduction the paper's rule chooses: the best mean test result, over the
seeds that all of them have. The result is what the method's own software can compute: max-product
alone computes Elbo^MP only. A start with fewer runs than a match needs does not compete with one
that has enough. The choice by validation runs (`RunSpec.part`), which never see the test rows, is
shown too.

All errors are standard errors of a mean. The paper's brackets are taken as such: over its runs ours
spread by about the square root of ten times what it prints. Where it prints 95 % intervals, a
standard error is the half width divided by 1.96. Our spread between runs is taken to be at least
the paper's, because a few runs may agree by chance. The difference is divided by the root of
the sum of both squared errors. Beyond `LIMIT` either way our number is better or worse. Shares of
runs are compared by Fisher's exact test at the same level (`chance_beyond_limit`).

A number within the limit is a match only if the runs had the power to find a difference. Suppose
that the truth differed by `EFFECT` of the paper's standard deviations between runs: the probability
that the difference would then have been beyond the limit has to be `POWER` or more. Otherwise there
are too few runs. Single runs of a share deviate by up to 50 points, so a share cannot differ by 1.5
times that; its effect is smaller (`EFFECT_OF_SHARE`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import fisher_exact, norm

from reproduction.paper import PaperCell, paper_cells
from reproduction.protocol import Experiment, paper_method
from reproduction.record import Run, with_mp_phase

__all__ = [
    "TOO_FEW",
    "Entry",
    "Group",
    "Stat",
    "compare",
    "entries",
    "groups",
    "is_apart",
    "is_reproduction",
    "order",
    "runs_needed",
    "stat",
    "verdict_lines",
]

LIMIT = 2.0
"""Standard errors of the difference within which a number counts as the same."""

EFFECT = 1.5
"""Standard deviations between runs: the difference that must not go unnoticed."""

EFFECT_OF_SHARE = 1.0
"""The same for a share of runs, such as those that recovered everything."""

POWER = 0.8

TOO_FEW = "too few runs"


class Stat(NamedTuple):
    """Mean over runs, its standard error (NaN for one run), the number of runs."""

    mean: float
    error: float
    n_runs: int


class Comparison(NamedTuple):
    """Difference of our number from the paper's, and the verdict.

    ``difference`` in its standard errors, positive where ours is better; ``verdict`` match,
    better, worse or too few runs; ``p`` of the exact test, for shares of runs. None where there is
    nothing to compare.
    """

    difference: float | None
    verdict: str | None
    p: float | None = None


def stat(values: npt.ArrayLike) -> Stat:
    """Return the mean over runs and its standard error."""
    runs = np.asarray(values, dtype=np.float64)
    n = runs.size
    error = float(runs.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Stat(float(runs.mean()), error, n)


def compare(ours: Stat, paper: PaperCell | None, larger_is_better: bool) -> Comparison:
    """Compare our mean with a number of the paper."""
    if paper is None:
        return Comparison(None, None)
    deviation = paper.error * math.sqrt(paper.n_runs)
    own = deviation / math.sqrt(ours.n_runs)
    if not math.isnan(ours.error):
        own = max(own, ours.error)
    combined = math.hypot(own, paper.error)
    gain = ours.mean - paper.mean if larger_is_better else paper.mean - ours.mean
    difference = gain / combined
    p = _exact_p(ours, paper) if paper.is_share else None
    effect = EFFECT_OF_SHARE if paper.is_share else EFFECT
    if is_apart(difference, p):
        verdict = "better" if gain > 0 else "worse"
    elif _power(effect * deviation / combined) < POWER:
        verdict = TOO_FEW
    else:
        verdict = "match"
    return Comparison(difference, verdict, p)


def is_apart(difference: float, p: float | None) -> bool:
    """Return whether a number is further from the paper's than the rule allows; p is of a share."""
    return abs(difference) > LIMIT if p is None else p < chance_beyond_limit()


def _exact_p(ours: Stat, paper: PaperCell) -> float:
    """Return the two-sided p of Fisher's exact test for two shares of runs in percent."""
    counts = [
        (round(mean * n / 100.0), n)
        for mean, n in ((ours.mean, ours.n_runs), (paper.mean, paper.n_runs))
    ]
    return float(fisher_exact([[found, n - found] for found, n in counts])[1])


def runs_needed(paper_runs: int, effect: float = EFFECT) -> int:
    """Return how many runs a match needs if ours spread like the ``paper_runs`` of the paper."""
    n = 1
    while _power(effect / math.sqrt(1.0 / n + 1.0 / paper_runs)) < POWER:
        n += 1
    return n


def chance_beyond_limit() -> float:
    """Return the share of numbers beyond the limit by chance, the level of the exact test."""
    return float(2.0 * norm.sf(LIMIT))


def _power(effect: float) -> float:
    """Return the chance to find an effect, in standard errors of the difference, with its sign."""
    return float(norm.sf(LIMIT - effect))


# ---- groups of runs

TRIVIAL = {
    "test_elbo": "trivial_elbo",
    "test_elbo_mp": "trivial_elbo",
    "test_elbo_vi": "trivial_elbo",
    "test_re_pct": "trivial_re_pct",
    "test_re_pct_mode": "trivial_re_pct",
    "features_iou": "trivial_features_iou",
    "recovered": "trivial_recovered",
}

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
        """Return the seeds in increasing order."""
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
    """Return the order of max-product messages that a run states; None for mean field."""
    settings = run["settings"]
    if "pmp" in settings:
        return str(settings["pmp"].get("schedule", "collapsed"))  # old runs have no other
    found: str | None = settings.get("mp", {}).get("schedule")
    return found


def is_reproduction(experiment: Experiment, run: Run) -> bool:
    """Return whether a run follows the paper's protocol.

    Its appendix splits a noisy-OR into pairwise factors and an OR, all of whose messages are
    updated in parallel and damped: the two-stage order. Noise at the start and the priors of joint
    max-product are those of its text, damping is 0.5. At which tolerance a row stops is not asked:
    the tables show it.
    """
    return (
        order(run) in ("two-stage", None)
        and (run["noise"] == experiment.noises[0] or paper_method(run["method"]) == "pmp")
        and run["init"] not in experiment.other_inits
        and run["damping"] is None
    )


def groups(experiment: Experiment, runs: Sequence[Run]) -> list[Group]:
    """Group the test runs that differ in their seed alone, starts of one kind together.

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
        right = {init: own for init, own in by_init.items() if is_reproduction(experiment, own[0])}
        compared = _competing(right or by_init, runs_needed(experiment.expected_seeds))
        best = {
            "test": _best(compared, experiment.choice_metric(kind[1]), experiment.metrics),
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
    """Return the starts with ``enough`` runs, or all starts where none has."""
    return {init: runs for init, runs in by_init.items() if len(runs) >= enough} or by_init


def _best(by_init: dict[str, list[Run]], metric: str, larger: dict[str, bool]) -> str | None:
    """Return the start with the best mean of a metric over the seeds that all starts have.

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
    """Return a line for every group of an experiment and every metric that its runs have."""
    return [line for group in groups(experiment, runs) for line in _lines(experiment, group)]


def verdict_lines(lines: Sequence[Entry]) -> dict[PaperCell, Entry]:
    """Choose the line for each number of the paper: of those with a verdict, the one of most runs.

    A number may have several lines, such as those of runs that stop and of runs that do not. Of
    lines with as many runs, the one with the method's own stop counts.
    """

    def rank(line: Entry) -> tuple[int, bool]:
        return line.ours.n_runs, line.group.tolerance is None

    found: dict[PaperCell, Entry] = {}
    for line in lines:
        if line.paper is not None and line.comparison.verdict is not None:
            known = found.get(line.paper)
            if known is None or rank(line) > rank(known):
                found[line.paper] = line
    return found


def _lines(experiment: Experiment, group: Group) -> list[Entry]:
    result = []
    substitutes = experiment.substitutes
    has_verdict = group.reproduction and group.case not in substitutes and "test" in group.chosen
    paper_steps = group.steps == experiment.steps(group.method)
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
        if not has_verdict or (paper is not None and paper.steps is None and not paper_steps):
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
