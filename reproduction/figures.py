"""The paper's figures, drawn from the record of runs. Needs Matplotlib.

The same runs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor import datasets
from noisyor._util.files import write_atomically
from noisyor.errors import InvalidDataError, MissingExtraError
from noisyor.metrics import match_features
from reproduction import experiment
from reproduction.comparison import Group, groups, order
from reproduction.datasets import OVPM_NAMES
from reproduction.paper import paper_cells
from reproduction.protocol import paper_method
from reproduction.record import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "median_run", "picture", "spare_features", "write_figures"]

COLORS = {
    "paper": "#7fa8d4",
    "paper, VI": "#e07b1a",
    "two-stage, gaussian": "#1f5fa8",
    "two-stage, uniform": "#3a9d5d",
    "collapsed, gaussian": "#8a4fb5",
    "collapsed, uniform": "#b0413e",
}
"""One color for the paper's numbers and for each kind of our runs, in all figures."""


def median_run(runs: Iterable[Run], metric: str) -> Run:
    """Return the median run, so that neither the best nor the worst decides what a picture shows.

    The lower of two in the middle; of equal runs, that with the smaller seed.
    """
    ordered = sorted(runs, key=lambda run: (run["metrics"][metric], run["seed"]))
    middle = ordered[(len(ordered) - 1) // 2]["metrics"][metric]
    return next(run for run in ordered if run["metrics"][metric] == middle)


def blank_figure(width: float, height: float) -> Figure:
    """Create a figure without a window, of a size in inches."""
    try:
        import matplotlib
        from matplotlib.figure import Figure as NewFigure
    except ImportError as error:
        raise MissingExtraError.of("figures need Matplotlib", "report") from error
    matplotlib.rcParams["svg.hashsalt"] = "noisyor"  # names inside SVG files do not change
    return NewFigure(figsize=(width, height), layout="constrained")


def image_rows(rows: Sequence[tuple[str, Sequence[npt.NDArray[Any]]]]) -> Figure:
    """Draw rows of small images, each row with a label at its left."""
    width = max(len(pictures) for _, pictures in rows)
    figure = blank_figure(width + 1.6, 1.05 * len(rows) + 0.2)
    grid = figure.subplots(len(rows), width, squeeze=False)
    for line, (title, pictures) in zip(grid, rows, strict=True):
        for axes, picture in zip(line, pictures, strict=False):
            image(axes, picture)
        for axes in line[len(pictures) :]:
            blank(axes)
        label(line[0], title)
    return figure


def image(axes: Axes, values: npt.NDArray[Any]) -> None:
    """Draw values in [0, 1], dark where they are large."""
    axes.imshow(values, cmap="gray_r", vmin=0.0, vmax=1.0, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])


def blank(axes: Axes) -> None:
    """Remove ticks and frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def label(axes: Axes, text: str) -> None:
    """Write a text at the left of a row."""
    axes.set_ylabel(text, rotation=0, ha="right", va="center", fontsize=8)


_CURVES = {"recovered": "parameters recovered", "full_recovery_pct": "full recovery, %"}
_COMPONENTS = (8, 10, 16, 32)
N_TRUE = 8


# ---- overparametrization


def overparam_curves(runs: Sequence[Run]) -> Figure | None:
    """Draw recovered causes and full recovery over the number of causes, with 95 % bands.

    One curve for each order of messages and noise. For every number of causes the start with the
    most recovered causes is shown, as in the paper, whose numbers are drawn beside ours.
    """
    found = [g for g in groups(experiment("overparam"), runs) if "test" in g.chosen]
    datasets = [name for name in OVPM_NAMES if any(_dataset(g.case) == name for g in found)]
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
    return _n_components(group.case), mean, _confidence(values, metric == "full_recovery_pct")


def _confidence(values: Sequence[float], is_share: bool) -> float:
    """Return half the width of the 95 % interval of a mean, or of a share of runs in percent."""
    n_runs, mean = len(values), float(np.mean(values))
    if is_share:
        return 1.96 * float(np.sqrt(mean * (100.0 - mean) / n_runs))
    return 1.96 * float(np.std(values, ddof=1) / np.sqrt(n_runs)) if n_runs > 1 else float("nan")


def _curve(axes: Axes, points: Sequence[tuple[int, float, float]], name: str, style: str) -> None:
    x, mean, half = (np.array(values) for values in zip(*sorted(points), strict=True))
    half = np.nan_to_num(half)
    color = COLORS[name]
    axes.fill_between(x, mean - half, mean + half, color=color, alpha=0.2, linewidth=0)
    axes.plot(x, mean, style, color=color, label=name, markersize=4, linewidth=1)


def _paper_curves(axes: Axes, dataset: str, metric: str) -> None:
    for method, name in (("vi", "paper, VI"), ("mp", "paper")):
        points = [
            (_n_components(cell.case), cell.mean, cell.printed)
            for cell in paper_cells("overparam")
            if (cell.method, cell.metric, _dataset(cell.case)) == (method, metric, dataset)
        ]
        _curve(axes, points, name, "s--")


def overparam_runs(runs: Sequence[Run]) -> Figure | None:
    """Draw the recovered causes of every single run as a dot."""
    datasets = [name for name in OVPM_NAMES if any(_dataset(run["case"]) == name for run in runs)]
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
            axes.scatter(x, y, s=9, marker=marker, color=COLORS[kind], label=f"{kind}, {init}")
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
    """Draw the true causes of every image data set above those that the median run learned.

    Of each data set the smallest model is shown.
    """
    shown = []
    for dataset in OVPM_NAMES:
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
        true, learned = arrays["true_features"], arrays["features"]
        assigned = arrays["assigned"]
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


_SHOWN_IMAGES = 10


# ---- blind deconvolution


def deconvolution_example(runs: Sequence[Run]) -> Figure:
    """Draw how two images are generated: features, their positions, and the images.

    Generated by the recipe of the experiment; the features of the paper's own example, and its
    locations, are not published.
    """
    data = datasets.generate_deconvolution(n_images=2)
    rows = [("features", [feature.astype(float) for feature in data.features])]
    for number in range(2):
        rows.append((f"image {number + 1}:\nlocations, image", [*data.states[number]]))
        rows[-1][1].append(data.images[number])
    return image_rows(rows)


def deconvolution_features(runs: Sequence[Run]) -> Figure | None:
    """Draw the true features and those of the median run of each kind, also thresholded."""
    kinds = _kinds(runs)
    if not kinds:
        return None
    rows: list[tuple[str, list[npt.NDArray[Any]]]] = []
    for name, members in kinds.items():
        run = median_run(members, "features_iou")
        true, theta, binary = _features(run)
        if not rows:
            rows.append(("true", list(true)))
        match = match_features(binary, true)
        spare = [f for f in range(len(theta)) if f not in match.learned]
        shown = [int(f) for f in (*match.learned, *spare) if f >= 0]
        title = f"{name}\nIOU {run['metrics']['features_iou']:.2f}, seed {run['seed']}"
        if paper_method(run["method"]) != "pmp":
            rows.append((title, [1 - np.exp(-theta[f]) for f in shown]))
            title = "thresholded"
        rows.append((title, [binary[f] for f in shown]))
    return image_rows(rows)


def _kinds(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Group runs with features by method, order of messages, noise and start."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        if "features" in run["arrays"]:
            parts = [run["method"].removesuffix("-two-stage"), order(run), run["noise"]]
            name = ", ".join(part for part in parts if part and part != "none")
            found.setdefault(f"{name}, {run['init']}", []).append(run)
    return found


def _features(
    run: Run,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Return true features, learned parameters, and features above the threshold."""
    true, theta = (run["arrays"][name] for name in ("true_features", "features"))
    binary = (
        theta if paper_method(run["method"]) == "pmp" else (theta > np.log(2.0)).astype(np.float64)
    )
    return true, theta, binary


_MAX_SEEDS = 10


def deconvolution_seeds(runs: Sequence[Run]) -> Figure | None:
    """Draw the features of each seed by MP, VI and PMP, continuous and binary.

    Of each method the runs by the paper's protocol from the best start are shown, else those of
    the variant with most runs; of PMP, which has binary features only, also those with the other
    prior.
    """
    about = experiment("deconvolution")
    panels = []
    for method in ("mp", "vi", "pmp"):
        own = [
            group
            for group in groups(about, runs)
            if paper_method(group.method) == method and "features" in group.runs[0]["arrays"]
        ]
        if not own:
            continue
        best = max(own, key=lambda g: (g.reproduction and "test" in g.chosen, len(g.runs)))
        drawn_groups = [best]
        if method == "pmp":
            kind = (best.method, best.tolerance, best.damping)
            alike = [g for g in own if (g.method, g.tolerance, g.damping) == kind]
            drawn_groups += [group for group in alike if group.init != best.init]
        for group in drawn_groups:
            shown = sorted(group.runs, key=lambda run: run["seed"])[:_MAX_SEEDS]
            how = (method, order(shown[0]), group.noise, group.init)
            title = ", ".join(part for part in how if part and part != "none")
            features = [_features(run) for run in shown]
            seeds = [run["seed"] for run in shown]
            if method != "pmp":
                continuous = [1 - np.exp(-theta) for _, theta, _ in features]
                panels.append((f"{title}\ncontinuous", seeds, continuous))
            panels.append((f"{title}\nbinary", seeds, [binary for *_, binary in features]))
    if not panels:
        return None
    height = max(len(seeds) for _, seeds, _ in panels)
    figure = blank_figure(2.9 * len(panels), 0.55 * height + 0.9)
    grid = figure.subplots(1, len(panels), squeeze=False)
    for axes, (title, seeds, drawn) in zip(grid[0], panels, strict=True):
        image(axes, _mosaic(drawn, height))
        line = drawn[0].shape[1] + 1
        axes.set_yticks([line * k + line / 2 for k in range(len(seeds))], map(str, seeds))
        axes.set_ylabel("seed", fontsize=8)
        axes.set_title(title, fontsize=8)
    return figure


def _mosaic(rows: Sequence[npt.NDArray[Any]], n_rows: int) -> npt.NDArray[Any]:
    """Put features (n, height, width) of several runs below each other, with gray lines between."""
    n, height, width = rows[0].shape
    canvas = np.full((n_rows * (height + 1) + 1, n * (width + 1) + 1), 0.3)
    for k in range(n_rows):
        for f in range(n):
            top, left = k * (height + 1) + 1, f * (width + 1) + 1
            own = rows[k][f] if k < len(rows) else 0.3
            canvas[top : top + height, left : left + width] = own
    return canvas


class SpareFeature(NamedTuple):
    """The feature of a run that matches no true feature, and the others.

    ``prior`` of it; ``others`` the priors of those that match.
    """

    run: Run
    prior: float
    others: npt.NDArray[Any]

    @property
    def is_lowest(self) -> bool:
        """Whether its prior is the lowest, which would identify it without knowing the truth."""
        return bool(self.prior < self.others.min())


def spare_features(runs: Sequence[Run]) -> list[SpareFeature]:
    """Return the spare feature of every max-product run that matched all true shapes."""
    found = []
    for run in runs:
        if order(run) is None or not {"features", "prior"} <= set(run["arrays"]):
            continue
        true, _, binary = _features(run)
        learned = match_features(binary, true).learned
        spare = [f for f in range(len(binary)) if f not in learned]
        if len(spare) == 1 and min(learned) >= 0:
            prior = run["arrays"]["prior"]
            found.append(SpareFeature(run, float(prior[spare[0]]), prior[learned]))
    return found


def deconvolution_spare(runs: Sequence[Run]) -> Figure | None:
    """Draw the learned priors of all max-product runs, the spare feature marked."""
    found = spare_features(runs)
    if not found:
        return None
    figure = blank_figure(0.22 * len(found) + 2.4, 3.0)
    axes = figure.subplots()
    for x, spare in enumerate(found):
        axes.scatter([x] * len(spare.others), spare.others, s=12, color=COLORS["paper"])
        axes.scatter([x], [spare.prior], s=18, marker="x", color=COLORS["paper, VI"])
    axes.set_yscale("log")
    axes.set_ylabel("learned prior")
    names = [f"{s.run['method']} {s.run['noise']} {s.run['init']} {s.run['seed']}" for s in found]
    axes.set_xticks(range(len(found)), names, rotation=90, fontsize=5)
    lowest = sum(spare.is_lowest for spare in found)
    axes.set_title(f"spare feature (x): lowest prior in {lowest} of {len(found)} runs", fontsize=9)
    return figure


def deconvolution_reconstructions(runs: Sequence[Run]) -> Figure | None:
    """Draw test images of the split of the median run, and their reconstruction by each kind."""
    kinds = {
        name: [run for run in members if "reconstruction" in run["arrays"]]
        for name, members in _kinds(runs).items()
    }
    kinds = {name: members for name, members in kinds.items() if members}
    if not kinds:
        return None
    first = median_run(next(iter(kinds.values())), "test_re_pct")
    seed = first["seed"]
    images = first["arrays"]["test_images"][:_SHOWN_IMAGES]
    rows = [(f"test\nsplit {seed}", list(images))]
    for name, members in kinds.items():
        for run in members:
            if run["seed"] == seed:
                own = run["arrays"]["reconstruction"][:_SHOWN_IMAGES]
                title = f"{name}\nRE {run['metrics']['test_re_pct']:.1f} %"
                rows.append((title, list(own)))
    return image_rows(rows)


# ---- the network of tiny20


def network_picture(runs: Sequence[Run]) -> Figure | None:
    """Draw the network of the median run, layers from the top, edges as strong as their theta.

    Of the edges the strongest into every node is drawn full, the others faint.
    """
    own = [run for run in runs if "child_ptr" in run["arrays"]]
    if not own:
        return None
    run = median_run(own, "test_elbo")
    arrays = run["arrays"]
    ptr, parent = arrays["child_ptr"], arrays["parent"]
    theta, levels = arrays["theta"], arrays["levels"]
    names = arrays["names"]
    n_hidden, n_visible = len(levels), len(ptr) - 1 - len(levels)
    x, y = _layout(ptr, parent, theta, levels, n_visible)
    figure = blank_figure(max(8.0, 0.16 * n_visible), 5.0)
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
                color=COLORS["two-stage, gaussian"],
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
        f"seed {run['seed']}, test Elbo {run['metrics']['test_elbo']:.2f}",
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
    """Return x and y of all nodes: visibles at the bottom, layers ordered by strongest parent."""
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


# ---- files

FIGURES: dict[str, tuple[str, Callable[[Sequence[Run]], Figure | None]]] = {
    "overparam_curves": ("overparam", overparam_curves),
    "overparam_runs": ("overparam", overparam_runs),
    "overparam_features": ("overparam", overparam_features),
    "deconvolution_example": ("deconvolution", deconvolution_example),
    "deconvolution_features": ("deconvolution", deconvolution_features),
    "deconvolution_seeds": ("deconvolution", deconvolution_seeds),
    "deconvolution_spare": ("deconvolution", deconvolution_spare),
    "deconvolution_reconstructions": ("deconvolution", deconvolution_reconstructions),
    "network": ("tiny20", network_picture),
}
"""Figures by the name of their file: the experiment, and what draws its runs."""


def write_figures(runs: Sequence[Run], out: Path) -> list[Path]:
    """Draw every figure for which there are runs; returns the PNG and SVG files."""
    drawn = {}
    for name, (source, make) in FIGURES.items():
        own = [run for run in runs if run["experiment"] == source and run["part"] == "test"]
        figure = make(own) if any(run["arrays"] for run in own) else None
        if figure is not None:
            drawn[name] = figure
    if not drawn:
        raise InvalidDataError("no run has anything that a figure shows")
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in drawn.items():
        for kind in ("png", "svg"):
            path = out / f"{name}.{kind}"
            write_atomically(path, picture(figure, kind))
            written.append(path)
    return written


def picture(figure: Figure, kind: str) -> bytes:
    """Return the content of a PNG or SVG file, without a date."""
    content = BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    figure.savefig(content, format=kind, dpi=150, metadata=metadata)
    return content.getvalue()
