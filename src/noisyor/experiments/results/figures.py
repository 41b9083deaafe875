"""The paper's figures, drawn from the records of runs. Needs Matplotlib.

Every function returns a Matplotlib figure that belongs to no window; `write_figures` writes all
that the runs allow, each as PNG and SVG.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from io import BytesIO
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisyor._util.atomic import write_atomically
from noisyor.errors import InvalidDataError, MissingExtraError
from noisyor.experiments.arrays import unpack
from noisyor.experiments.overparam import DATASETS
from noisyor.experiments.results.comparison import stat
from noisyor.experiments.results.paper import paper_cells
from noisyor.metrics import match_features

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "deconvolution_features",
    "deconvolution_reconstructions",
    "network_picture",
    "overparam_curves",
    "overparam_features",
    "write_figures",
]

Run = dict[str, Any]

_OURS, _PAPER, _PAPER_VI = "#1f5fa8", "#7fa8d4", "#e07b1a"
_CURVES = {"recovered": "parameters recovered", "full_recovery_pct": "full recovery, %"}


def write_figures(runs: Sequence[Run], out: Path) -> list[Path]:
    """Draw everything that the runs allow; returns the files, PNG and SVG of each figure."""
    makers: dict[str, tuple[str, Callable[[Sequence[Run]], Figure | None]]] = {
        "overparam_curves": ("overparam", overparam_curves),
        "overparam_features": ("overparam", overparam_features),
        "deconvolution_features": ("deconvolution", deconvolution_features),
        "deconvolution_reconstructions": ("deconvolution", deconvolution_reconstructions),
        "network": ("tiny20", network_picture),
    }
    drawn = {}
    for name, (experiment, make) in makers.items():
        own = [run for run in runs if run["experiment"] == experiment and run["part"] == "test"]
        figure = make(own) if own else None
        if figure is not None:
            drawn[name] = figure
    if not drawn:
        raise InvalidDataError("no run has anything that a figure shows")
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in drawn.items():
        for kind in ("png", "svg"):
            path = out / f"{name}.{kind}"
            content = BytesIO()
            # no date in the file, so that the same runs give the same bytes
            metadata = {"Date": None} if kind == "svg" else None
            figure.savefig(content, format=kind, dpi=150, metadata=metadata)
            write_atomically(path, content.getvalue())
            written.append(path)
    return written


# ---- overparametrisation


def overparam_curves(runs: Sequence[Run]) -> Figure | None:
    """Recovered causes and full recovery over the number of causes, with 95 % bands.

    For every number of causes the initialisation with the most recovered causes is shown, as in
    the paper; the paper's max-product and variational numbers are drawn beside it.
    """
    datasets = [name for name in DATASETS if any(run["case"].split(",")[0] == name for run in runs)]
    if not datasets:
        return None
    figure = _figure(2.4 * len(datasets) + 0.8, 4.6)
    grid = figure.subplots(2, len(datasets), squeeze=False, sharex=True)
    for column, dataset in enumerate(datasets):
        for row, (metric, label) in enumerate(_CURVES.items()):
            axes = grid[row, column]
            _paper_curves(axes, dataset, metric)
            points = _own_points(runs, dataset, metric)
            x = np.array([n_components for n_components, _, _ in points])
            mean = np.array([value for _, value, _ in points])
            half = np.nan_to_num(np.array([spread for _, _, spread in points]))
            axes.fill_between(x, mean - half, mean + half, color=_OURS, alpha=0.25, linewidth=0)
            axes.plot(x, mean, "o-", color=_OURS, label="ours", markersize=4)
            axes.set_xscale("log", base=2)
            axes.set_xticks([8, 10, 16, 32], ["8", "10", "16", "32"])
            axes.set_xticks([], minor=True)
            axes.set_ylim((-0.2, 8.4) if metric == "recovered" else (-4, 104))
            axes.grid(alpha=0.3)
            if row == 0:
                axes.set_title(dataset, fontsize=10)
            else:
                axes.set_xlabel("latents")
            if column == 0:
                axes.set_ylabel(label)
    grid[0, 0].legend(fontsize=7, loc="lower right")
    return figure


def _own_points(runs: Sequence[Run], dataset: str, metric: str) -> list[tuple[int, float, float]]:
    points = []
    numbers = {
        int(run["case"].split(",")[1]) for run in runs if run["case"].split(",")[0] == dataset
    }
    for n_components in sorted(numbers):
        groups: dict[tuple[str, int], list[Run]] = {}
        for run in runs:
            if run["case"] == f"{dataset},{n_components}":
                groups.setdefault((run["init"], run["steps"]), []).append(run)
        best = max(groups.values(), key=lambda group: _mean(group, "recovered"))
        mean, spread, _ = stat(metric, [run["metrics"][metric] for run in best])
        points.append((n_components, mean, spread))
    return points


def _paper_curves(axes: Axes, dataset: str, metric: str) -> None:
    for method, colour, label in (("vi", _PAPER_VI, "paper, VI"), ("mp", _PAPER, "paper, MP")):
        points = sorted(
            (int(cell.case.split(",")[1]), cell.mean, cell.spread)
            for cell in paper_cells("overparam")
            if cell.method == method
            and cell.metric == metric
            and cell.case.split(",")[0] == dataset
        )
        x, mean, half = (np.array(values) for values in zip(*points, strict=True))
        axes.fill_between(x, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)
        axes.plot(x, mean, "s--", color=colour, label=label, markersize=3, linewidth=1)


def overparam_features(runs: Sequence[Run]) -> Figure | None:
    """True causes of every image data set, and below them what one run learned.

    Of each data set the run that recovered most is shown, with the fewest causes among equals.
    """
    shown = []
    for dataset in DATASETS:
        own = [
            run
            for run in runs
            if run["case"].split(",")[0] == dataset
            and len(_shape(run)) == 2
            and "features" in run["arrays"]
        ]
        if own:
            shown.append(
                max(
                    own,
                    key=lambda run: (
                        run["metrics"]["recovered"],
                        -_n_components(run),
                        -run["seed"],
                    ),
                )
            )
    if not shown:
        return None
    n_true = 8
    figure = _figure(n_true * 0.85 + 1.6, 1.75 * len(shown) + 0.4)
    grid = figure.subplots(2 * len(shown), n_true, squeeze=False)
    for number, run in enumerate(shown):
        arrays, shape = run["arrays"], _shape(run)
        true, learned = unpack(arrays["true_features"]), unpack(arrays["features"])
        assigned = unpack(arrays["assigned"])
        for k in range(n_true):
            above, below = grid[2 * number, k], grid[2 * number + 1, k]
            _image(above, 1 - np.exp(-true[k].reshape(shape)))
            if assigned[k]:
                _image(below, 1 - np.exp(-learned[assigned[k] - 1].reshape(shape)))
            else:
                _blank(below)
        _label(grid[2 * number, 0], f"{run['case'].split(',')[0]}\ntrue")
        _label(grid[2 * number + 1, 0], f"learned\nK = {_n_components(run)}")
    return figure


def _n_components(run: Run) -> int:
    return int(run["case"].split(",")[1])


def _shape(run: Run) -> tuple[int, ...]:
    return tuple(run["arrays"].get("image_shape", ()))


# ---- blind deconvolution


def deconvolution_features(runs: Sequence[Run]) -> Figure | None:
    """True features, and those learned by each method: as probabilities, and thresholded.

    Of each method the run with the best features is shown.
    """
    chosen = _best_by_method(runs, "features_iou")
    if not chosen:
        return None
    rows: list[tuple[str, list[npt.NDArray[Any]]]] = []
    true = unpack(chosen[0]["arrays"]["true_features"])
    rows.append(("true", list(true)))
    for run in chosen:
        theta = unpack(run["arrays"]["features"])
        binary = theta if run["method"] == "pmp" else (theta > np.log(2.0)).astype(np.float64)
        match = match_features(binary, true)
        spare = [f for f in range(len(theta)) if f not in match.learned]
        order = [int(f) for f in (*match.learned, *spare) if f >= 0]
        title = f"{run['method']}, seed {run['seed']}\nIOU {run['metrics']['features_iou']:.2f}"
        if run["method"] != "pmp":
            rows.append((title, [1 - np.exp(-theta[f]) for f in order]))
            title = "thresholded"
        rows.append((title, [binary[f] for f in order]))
    width = max(len(pictures) for _, pictures in rows)
    figure = _figure(width + 1.4, 1.05 * len(rows) + 0.2)
    grid = figure.subplots(len(rows), width, squeeze=False)
    for line, (title, pictures) in zip(grid, rows, strict=True):
        for axes, picture in zip_longest(line, pictures):
            if picture is None:
                _blank(axes)
            else:
                _image(axes, picture)
        _label(line[0], title)
    return figure


def deconvolution_reconstructions(runs: Sequence[Run]) -> Figure | None:
    """Test images of one split, and below them what each method makes of them."""
    chosen = _best_by_method(runs, "test_re_pct", larger=False)
    if not chosen:
        return None
    seed = chosen[0]["seed"]
    same = {run["method"]: run for run in chosen}
    for run in sorted(runs, key=lambda run: -run["metrics"]["test_re_pct"]):
        if run["seed"] == seed and "reconstruction" in run["arrays"]:
            same[run["method"]] = run  # ends with the smallest error of this split
    images = unpack(chosen[0]["arrays"]["test_images"])[:10]
    figure = _figure(0.9 * len(images) + 1.4, 0.95 * (1 + len(same)) + 0.2)
    grid = figure.subplots(1 + len(same), len(images), squeeze=False)
    for axes, image in zip(grid[0], images, strict=True):
        _image(axes, image)
    _label(grid[0, 0], f"test\nsplit {seed}")
    for line, run in zip(grid[1:], same.values(), strict=True):
        own = unpack(run["arrays"]["reconstruction"])[: len(images)]
        for axes, image in zip(line, own, strict=False):
            _image(axes, image)
        _label(line[0], f"{run['method']}\nRE {run['metrics']['test_re_pct']:.1f} %")
    return figure


def _best_by_method(runs: Sequence[Run], metric: str, larger: bool = True) -> list[Run]:
    best: dict[str, Run] = {}
    sign = 1 if larger else -1
    for run in runs:
        if "features" not in run["arrays"]:
            continue
        old = best.get(run["method"])
        if old is None or sign * run["metrics"][metric] > sign * old["metrics"][metric]:
            best[run["method"]] = run
    return [best[method] for method in sorted(best)]


# ---- the network


def network_picture(runs: Sequence[Run]) -> Figure | None:
    """The learned network of the best run: layers from the top, an edge as strong as its theta.

    Of the edges the strongest into every node is drawn full, the others faint.
    """
    own = [run for run in runs if "child_ptr" in run["arrays"]]
    if not own:
        return None
    run = max(own, key=lambda run: run["metrics"]["test_elbo"])
    arrays = run["arrays"]
    ptr, parent = unpack(arrays["child_ptr"]), unpack(arrays["parent"])
    theta, levels = unpack(arrays["theta"]), unpack(arrays["levels"])
    names = arrays["names"]
    n_hidden, n_visible = len(levels), len(ptr) - 1 - len(levels)
    x, y = _layout(ptr, parent, theta, levels, n_visible)
    figure = _figure(max(8.0, 0.16 * n_visible), 5.0)
    axes = figure.subplots()
    strength = 1 - np.exp(-theta)
    for child in range(n_visible + n_hidden):
        edges = range(int(ptr[child]), int(ptr[child + 1]))
        main = max(edges, key=lambda e: theta[e], default=-1)
        for e in edges:
            top = n_visible + int(parent[e])
            faint = 0.25 if e != main else 1.0
            axes.plot(
                [x[child], x[top]],
                [y[child], y[top]],
                color=_OURS,
                alpha=float(faint * strength[e]),
                linewidth=0.4 + 1.4 * float(strength[e]),
                zorder=1,
            )
    axes.scatter(
        x, y, s=[10] * n_visible + [36] * n_hidden, color="white", edgecolor="black", zorder=2
    )
    for node, name in enumerate(names[:n_visible]):
        axes.text(x[node], y[node] - 0.06, name, rotation=90, fontsize=6, ha="center", va="top")
    axes.set_ylim(y.min() - 0.75, y.max() + 0.2)
    axes.set_axis_off()
    axes.set_title(
        f"{run['case']}: {n_visible} words, {n_hidden} causes; {run['method']}, {run['init']}, "
        f"test Elbo {run['metrics']['test_elbo']:.2f}",
        fontsize=9,
    )
    return figure


def _layout(
    ptr: npt.NDArray[Any],
    parent: npt.NDArray[Any],
    theta: npt.NDArray[Any],
    levels: npt.NDArray[Any],
    n_visible: int,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Places of all nodes: visibles at the bottom, each layer ordered by its strongest parent."""
    n_nodes = len(ptr) - 1
    level = np.concatenate([np.full(n_visible, int(levels.max()) + 1), levels])
    x, y = np.zeros(n_nodes), -level.astype(np.float64)
    for depth in range(int(level.max()) + 1):
        nodes = np.flatnonzero(level == depth)
        wish = []
        for node in nodes:
            edges = np.arange(ptr[node], ptr[node + 1])
            if len(edges):
                wish.append(x[n_visible + parent[edges[np.argmax(theta[edges])]]])
            else:
                wish.append(float(node))
        order = np.argsort(wish, kind="stable")
        x[nodes[order]] = (np.arange(len(nodes)) + 0.5) / len(nodes)
    return x, y


# ---- small things


def _figure(width: float, height: float) -> Figure:
    try:
        import matplotlib
        from matplotlib.figure import Figure as NewFigure
    except ImportError as error:
        raise MissingExtraError('figures need Matplotlib: pip install "noisyor[report]"') from error
    matplotlib.rcParams["svg.hashsalt"] = "noisyor"  # names inside SVG files do not change
    return NewFigure(figsize=(width, height), layout="constrained")


def _image(axes: Axes, values: npt.NDArray[Any]) -> None:
    axes.imshow(values, cmap="gray_r", vmin=0.0, vmax=1.0, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])


def _blank(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def _label(axes: Axes, text: str) -> None:
    axes.set_ylabel(text, rotation=0, ha="right", va="center", fontsize=8)


def _mean(runs: Sequence[Run], metric: str) -> float:
    values = [run["metrics"][metric] for run in runs]
    return math.fsum(values) / len(values)
