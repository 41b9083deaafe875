"""How one number of ours is judged against the paper's, and with how many runs it can be.

All errors are standard errors of a mean. The paper's brackets are taken as such: over its runs ours
spread by about the square root of ten times what it prints. Where it prints 95 % intervals, a
standard error is the half width divided by 1.96.

Our spread between runs is at least taken to be the paper's: a few runs that happen to agree prove
nothing. The difference is divided by the root of the sum of both squared errors. Beyond `LIMIT`
either way our number is better or worse; up to it, it is a match.

No verdict is given without power. Suppose that the truth differed by `EFFECT` of the paper's
standard deviations between runs: the chance that the difference would then have been beyond the
limit has to be `POWER` or more. Otherwise there are too few runs. A share of runs deviates by up to
50 points between single runs and cannot differ by 1.5 times that, so its effect is smaller
(`EFFECT_OF_SHARE`): with the larger one 0 of 4 would be the same as 42 %.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from reproduction.paper import PaperCell

__all__ = [
    "EFFECT_OF_SHARE",
    "TOO_FEW",
    "Comparison",
    "Stat",
    "chance_beyond_limit",
    "compare",
    "runs_needed",
    "stat",
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
    """Our number against the paper's.

    ``difference`` in standard errors of it, positive where ours is better; ``verdict`` match,
    better, worse or too few runs. Both None where there is nothing to compare.
    """

    difference: float | None
    verdict: str | None


def stat(values: npt.ArrayLike) -> Stat:
    """Mean over runs and its standard error."""
    runs = np.asarray(values, dtype=np.float64)
    n = runs.size
    error = float(runs.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Stat(float(runs.mean()), error, n)


def compare(ours: Stat, paper: PaperCell | None, larger_is_better: bool) -> Comparison:
    """Difference in standard errors, and the verdict."""
    if paper is None:
        return Comparison(None, None)
    deviation = paper.error * math.sqrt(paper.n_runs)
    own = deviation / math.sqrt(ours.n_runs)
    if not math.isnan(ours.error):
        own = max(own, ours.error)
    combined = math.hypot(own, paper.error)
    gain = ours.mean - paper.mean if larger_is_better else paper.mean - ours.mean
    difference = gain / combined
    effect = EFFECT_OF_SHARE if paper.is_share else EFFECT
    if _power(effect * deviation / combined) < POWER:
        return Comparison(difference, TOO_FEW)
    if abs(difference) <= LIMIT:
        return Comparison(difference, "match")
    return Comparison(difference, "better" if difference > 0 else "worse")


def runs_needed(paper_runs: int, effect: float = EFFECT) -> int:
    """Runs that a verdict needs against so many of the paper's, if both spread alike."""
    n = 1
    while _power(effect / math.sqrt(1.0 / n + 1.0 / paper_runs)) < POWER:
        n += 1
    return n


def chance_beyond_limit() -> float:
    """Share of numbers that are beyond the limit by chance, if all are the same."""
    return float(2.0 * norm.sf(LIMIT))


def _power(effect: float) -> float:
    """Chance that an effect, in standard errors of the difference, is found on its own side."""
    return float(norm.sf(LIMIT - effect))
