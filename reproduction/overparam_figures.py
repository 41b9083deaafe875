"""Figures of overparametrisation: curves, every single run, and the causes themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from noisyor.metrics import confidence_of_mean, confidence_of_share
from reproduction import experiment
from reproduction.arrays import unpack
from reproduction.comparison import Group, groups, order
from reproduction.drawing import (
    COLOURS,
    Run,
    blank,
    blank_figure,
    image,
    label,
    median_run,
)
from reproduction.overparam import DATASETS
from reproduction.paper import paper_cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["overparam_curves", "overparam_features", "overparam_runs"]

_CURVES = {"recovered": "parameters recovered", "full_recovery_pct": "full recovery, %"}
_COMPONENTS = (8, 10, 16, 32)
N_TRUE = 8


def overparam_curves(runs: Sequence[Run]) -> Figure | None:
    """Recovered causes and full recovery over the number of causes, with 95 % bands.

    One curve for each order of messages and noise. For every number of causes the start with the
    most recovered causes is shown, as in the paper, whose numbers are drawn beside ours.
    """
    found = [g for g in groups(experiment("overparam"), runs) if "test" in g.chosen]
    datasets = [name for name in DATASETS if any(_dataset(g.case) == name for g in found)]
    if not datasets:
        return None
    figure = blank_figure(2.4 * len(datasets) + 0.8, 4.6)
    grid = figure.subplots(2, len(datasets), squeeze=False, sharex=True)
    for column, dataset in enumerate(datasets):
        own = [group for group in found if _dataset(group.case) == dataset]
        for row, (metric, name) in enumerate(_CURVES.items()):
            axes = grid[row, column]
            _paper_curves(axes, dataset, metric)
            for kind in dict.fromkeys(_kind(group.runs[0]) for group in own):
                points = [_point(g, metric) for g in own if _kind(g.runs[0]) == kind]
                _curve(axes, points, kind, "o-")
            axes.set_xscale("log", base=2)
            axes.set_xticks(_COMPONENTS, [str(number) for number in _COMPONENTS])
            axes.set_xticks([], minor=True)
            axes.set_ylim((-0.2, N_TRUE + 0.4) if metric == "recovered" else (-4, 104))
            axes.grid(alpha=0.3)
            if row == 0:
                axes.set_title(dataset, fontsize=10)
            else:
                axes.set_xlabel("latents")
            if column == 0:
                axes.set_ylabel(name)
    grid[0, 0].legend(fontsize=7, loc="lower right")
    return figure


def _dataset(case: str) -> str:
    return case.split(",")[0]


def _n_components(case: str) -> int:
    return int(case.split(",")[1])


def _kind(run: Run) -> str:
    return f"{order(run)}, {run['noise']}"


def _point(group: Group, metric: str) -> tuple[int, float, float]:
    values = [run["metrics"][metric] for run in group.runs]
    mean = float(np.mean(values))
    shares = metric == "full_recovery_pct"
    half = confidence_of_share(mean, len(values)) if shares else confidence_of_mean(values)
    return _n_components(group.case), mean, half


def _curve(axes: Axes, points: Sequence[tuple[int, float, float]], name: str, style: str) -> None:
    x, mean, half = (np.array(values) for values in zip(*sorted(points), strict=True))
    half = np.nan_to_num(half)
    colour = COLOURS[name]
    axes.fill_between(x, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, mean, style, color=colour, label=name, markersize=4, linewidth=1)


def _paper_curves(axes: Axes, dataset: str, metric: str) -> None:
    for method, name in (("vi", "paper, VI"), ("mp", "paper")):
        points = [
            (_n_components(cell.case), cell.mean, cell.printed)
            for cell in paper_cells("overparam")
            if (cell.method, cell.metric, _dataset(cell.case)) == (method, metric, dataset)
        ]
        _curve(axes, points, name, "s--")


def overparam_runs(runs: Sequence[Run]) -> Figure | None:
    """Recovered causes of every single run: one dot each, nothing averaged and nothing left out."""
    datasets = [name for name in DATASETS if any(_dataset(run["case"]) == name for run in runs)]
    if not datasets:
        return None
    kinds = list(dict.fromkeys((_kind(run), run["init"]) for run in runs))
    figure = blank_figure(2.4 * len(datasets) + 0.8, 2.8)
    grid = figure.subplots(1, len(datasets), squeeze=False, sharey=True)
    for axes, dataset in zip(grid[0], datasets, strict=True):
        own = [run for run in runs if _dataset(run["case"]) == dataset]
        numbers = sorted({_n_components(run["case"]) for run in own})
        for place, (kind, init) in enumerate(kinds):
            shown = [run for run in own if (_kind(run), run["init"]) == (kind, init)]
            # kinds side by side, and seeds fanned out so that equal ones do not hide each other
            x = [
                numbers.index(_n_components(run["case"]))
                + (place + 0.5) / len(kinds)
                - 0.5
                + 0.6 * (run["seed"] % 10 - 4.5) / 10 / len(kinds)
                for run in shown
            ]
            y = [run["metrics"]["recovered"] for run in shown]
            marker = "o" if init == "paper-3" else "^"
            axes.scatter(x, y, s=9, marker=marker, color=COLOURS[kind], label=f"{kind}, {init}")
        axes.set_xticks(range(len(numbers)), [str(number) for number in numbers])
        axes.set_xlabel("latents")
        axes.set_xlim(-0.5, len(numbers) - 0.5)
        axes.set_ylim(-0.2, N_TRUE + 0.4)
        axes.grid(alpha=0.3, axis="y")
        axes.set_title(dataset, fontsize=10)
    grid[0, 0].set_ylabel(_CURVES["recovered"])
    grid[0, 0].legend(fontsize=6, loc="lower right")
    return figure


def overparam_features(runs: Sequence[Run]) -> Figure | None:
    """True causes of every image data set, and below them what the median run learned.

    Of each data set the smallest model is shown.
    """
    shown = []
    for dataset in DATASETS:
        own = [
            run
            for run in runs
            if _dataset(run["case"]) == dataset
            and len(run["arrays"].get("image_shape", ())) == 2
            and "features" in run["arrays"]
        ]
        if own:
            least = min(_n_components(run["case"]) for run in own)
            smallest = [run for run in own if _n_components(run["case"]) == least]
            shown.append(median_run(smallest, "recovered"))
    if not shown:
        return None
    figure = blank_figure(N_TRUE * 0.85 + 1.6, 1.75 * len(shown) + 0.4)
    grid = figure.subplots(2 * len(shown), N_TRUE, squeeze=False)
    for number, run in enumerate(shown):
        arrays = run["arrays"]
        shape = tuple(arrays["image_shape"])
        true, learned = unpack(arrays["true_features"]), unpack(arrays["features"])
        assigned = unpack(arrays["assigned"])
        for k in range(N_TRUE):
            above, below = grid[2 * number, k], grid[2 * number + 1, k]
            image(above, 1 - np.exp(-true[k].reshape(shape)))
            if assigned[k]:
                image(below, 1 - np.exp(-learned[assigned[k] - 1].reshape(shape)))
            else:
                blank(below)
        label(grid[2 * number, 0], f"{_dataset(run['case'])}\ntrue")
        name = f"learned, K = {_n_components(run['case'])}\n{_kind(run)}\nseed {run['seed']}"
        label(grid[2 * number + 1, 0], name)
    return figure
