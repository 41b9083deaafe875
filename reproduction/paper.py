"""The paper's numbers, as printed, one cell at a time."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["CITATION", "PaperCell", "edges_in_paper", "paper_cells"]

CITATION = (
    "Antoine Dedieu, Guangyao Zhou, Dileep George, Miguel Lázaro-Gredilla: Learning noisy-OR "
    "Bayesian Networks with Max-Product Belief Propagation. ICML 2023."
)


_TABLES = Path(__file__).parent / "paper_tables"
_RUNS = 10
_OVERPARAM_RUNS = {"mp": 50, "vi": 500}
_INTERVALS = ("recovered", "full_recovery_pct")  # metrics with 95 % intervals in brackets
_Z95 = 1.96
_RESOLUTION = 0.005


class PaperCell(NamedTuple):
    """One number of the paper.

    ``table`` is the file it is from; ``steps`` None where the number does not depend on it or the
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
def _all_cells() -> dict[str, tuple[PaperCell, ...]]:
    return {
        "tiny20": tuple(_tiny20()),
        "text": tuple(_text()),
        "bmf": tuple(_bmf()),
        "overparam": tuple(_overparam()),
        "deconvolution": tuple(_deconvolution()),
    }


def paper_cells(experiment: str) -> tuple[PaperCell, ...]:
    """Return all numbers that the paper reports on an experiment."""
    return _all_cells()[experiment]


def edges_in_paper(dataset: str) -> int | None:
    """Return the number of edges that the paper reports for a text data set, with leaks."""
    found = {row["dataset"]: int(row["num_edges"]) for row in _rows("tensorflow_stats")}
    return found.get(dataset)


def _rows(name: str) -> list[dict[str, str]]:
    text = (_TABLES / f"{name}.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def _cell(
    table: str,
    method: str,
    case: str,
    steps: int | None,
    metric: str,
    row: dict[str, str],
    column: str,
    spread: str = "_spread",
    mean: str = "_mean",
    n_runs: int = _RUNS,
) -> Iterator[PaperCell]:
    """Yield the cell if the paper has a number in it."""
    if row[column + mean]:
        yield PaperCell(
            table,
            method,
            case,
            steps,
            metric,
            float(row[column + mean]),
            float(row[column + spread]),
            n_runs,
        )


_TINY20_METHODS = {"Full VI": "vi", "Local VI": "local-vi", "MP": "mp", "MP+VI": "hybrid"}


def _tiny20() -> Iterator[PaperCell]:
    for row in _rows("tiny20"):
        method, steps = _TINY20_METHODS[row["method"]], int(row["num_iters"])
        yield from _cell("tiny20", method, "tiny20", steps, "test_elbo", row, "test_elbo")
    for row in _rows("tiny20_appendix"):
        method, steps = _TINY20_METHODS[row["method"]], int(row["num_iters"])
        for kind in ("elbo_mp", "elbo_vi"):
            yield from _cell("tiny20_appendix", method, "tiny20", steps, f"test_{kind}", row, kind)


def _text() -> Iterator[PaperCell]:
    # After how many updates the max-product column was taken is not said.
    steps = {"local_vi": 4000, "hybrid": 4000, "mp": None}
    for row in _rows("tensorflow_elbo"):
        for column in ("local_vi", "hybrid"):
            yield from _cell(
                "tensorflow_elbo",
                column.replace("_", "-"),
                row["dataset"],
                steps[column],
                "test_elbo",
                row,
                column,
            )
    for row in _rows("tensorflow_elbo_appendix"):
        for column, number in steps.items():
            for kind in ("elbo_mp", "elbo_vi"):
                yield from _cell(
                    "tensorflow_elbo_appendix",
                    column.replace("_", "-"),
                    row["dataset"],
                    number,
                    f"test_{kind}",
                    row,
                    f"{column}_{kind}",
                )
    for row in _rows("tensorflow_update_times"):
        for column in ("local_vi", "mp"):
            yield from _cell(
                "tensorflow_update_times",
                column.replace("_", "-"),
                row["dataset"],
                None,
                "update_median",
                row,
                f"{column}_seconds",
            )


def _bmf() -> Iterator[PaperCell]:
    for row in _rows("bmf"):
        case = f"{row['n']},{row['r']}"
        for method in ("vi", "mp"):
            for metric in ("test_elbo", "test_re_pct"):
                yield from _cell("bmf", method, case, 40_000, metric, row, f"{method}_{metric}")
            yield from _cell("bmf", method, case, None, "update_median", row, f"{method}_update_s")
        yield from _cell("bmf", "pmp", case, 1000, "test_re_pct", row, "pmp_test_re_pct")


def _overparam() -> Iterator[PaperCell]:
    for row in _rows("ovpm"):
        case = f"{row['dataset']},{row['latents']}"
        for method, n_runs in _OVERPARAM_RUNS.items():
            steps = 45_000 if method == "mp" else None
            for metric, column, mean in (
                ("recovered", "recovered", "_mean"),
                ("full_recovery_pct", "full_recovery", "_pct"),
            ):
                name = f"{method}_{column}"
                yield from _cell(
                    *("ovpm", method, case, steps, metric, row, name), "_ci95", mean, n_runs
                )


def _deconvolution() -> Iterator[PaperCell]:
    methods = {"full_vi": "vi", "pmp": "pmp", "mp": "mp"}
    for row in _rows("bd"):
        for column, method in methods.items():
            metric = row["metric"]
            if metric == "update_time_s":
                yield from _cell("bd", method, "BD", None, "update_median", row, column)
            else:
                steps = 1000 if method == "pmp" else 3000
                yield from _cell("bd", method, "BD", steps, metric, row, column)
