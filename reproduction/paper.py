"""The paper's numbers, one cell at a time.

``paper.csv`` holds the result tables of the paper as printed, also where the paper contradicts
itself; cells that the paper leaves empty are left out. ``printed`` is the number in brackets after
the mean. The paper does not say what most of its brackets are; they are read as standard errors
(see `reproduction.comparison`). For recovered parameters they are half widths of 95 % confidence
intervals. Times are seconds of one update on one GPU (P100). After how many updates the max-product
column of the text data was taken is not said, so its number of steps is empty.
"""

from __future__ import annotations

import csv
import math
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["CITATION", "EDGES", "PaperCell", "paper_cells"]

CITATION = (
    "Antoine Dedieu, Guangyao Zhou, Dileep George, Miguel Lázaro-Gredilla: Learning noisy-OR "
    "Bayesian Networks with Max-Product Belief Propagation. ICML 2023."
)
EDGES = {"Abstract": 90_554, "Agnews": 89_508, "IMDB": 91_234, "Patent": 90_606, "Yelp": 91_111}
"""Edges of the graphs of the text data, leaks included."""

_INTERVALS = ("recovered", "full_recovery_pct")  # metrics with 95 % intervals in brackets
_Z95 = 1.96
_RESOLUTION = 0.005


class PaperCell(NamedTuple):
    """One number of the paper.

    ``table`` is the table it is from; ``steps`` None where the number does not depend on it or the
    paper does not say; ``printed`` the value in brackets after the mean: a standard error over
    ``n_runs`` runs, for recovered parameters a 95 % interval.
    """

    table: str
    method: str
    case: str
    steps: int | None
    metric: str
    mean: float
    printed: float
    n_runs: int

    @property
    def is_share(self) -> bool:
        """Whether the number is a share of runs in percent, not a mean over runs."""
        return self.metric == "full_recovery_pct"

    @property
    def error(self) -> float:
        """Return the standard error of the mean, at least what printed digits and mean allow.

        No error is known better than half a unit of the last digit. A share of x among n runs is
        taken to spread as (x + 1) among n + 2 do, so that 50 of 50 are not a certainty. Counts
        with a mean of m + f, f the fraction, have a variance of f (1 - f) or more; the paper prints
        an interval of 0.00 around a mean of 7.92.
        """
        if self.metric not in _INTERVALS:
            return max(self.printed, _RESOLUTION)
        scale = 100.0 if self.is_share else 1.0
        share = (self.mean / scale) % 1.0 or 1.0
        share = (share * self.n_runs + 1.0) / (self.n_runs + 2.0)
        least = scale * math.sqrt(share * (1.0 - share) / self.n_runs)
        return max(self.printed / _Z95, least)


@lru_cache(maxsize=1)
def _rows() -> list[dict[str, str]]:
    with Path(__file__).with_name("paper.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@lru_cache
def paper_cells(experiment: str) -> tuple[PaperCell, ...]:
    """Return all numbers that the paper reports on an experiment."""
    return tuple(
        PaperCell(
            row["table"],
            row["method"],
            row["case"],
            int(row["steps"]) if row["steps"] else None,
            row["metric"],
            float(row["mean"]),
            float(row["printed"]),
            int(row["n_runs"]),
        )
        for row in _rows()
        if row["experiment"] == experiment
    )
