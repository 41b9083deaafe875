"""What all figures share: a blank figure, small images, labels, and which run is shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from noisyor.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLOURS",
    "Run",
    "blank",
    "blank_figure",
    "image",
    "image_rows",
    "label",
    "median_run",
]

Run = dict[str, Any]

COLOURS = {
    "paper": "#7fa8d4",
    "paper, VI": "#e07b1a",
    "two-stage, gaussian": "#1f5fa8",
    "two-stage, uniform": "#3a9d5d",
    "collapsed, gaussian": "#8a4fb5",
    "collapsed, uniform": "#b0413e",
}
"""One colour for the paper's numbers and for each kind of our runs, in all figures."""


def median_run(runs: Iterable[Run], metric: str) -> Run:
    """The run in the middle: neither the best nor the worst decides what a picture shows.

    The lower of two in the middle; of equal runs, that with the smaller seed.
    """
    ordered = sorted(runs, key=lambda run: (run["metrics"][metric], run["seed"]))
    middle = ordered[(len(ordered) - 1) // 2]["metrics"][metric]
    return next(run for run in ordered if run["metrics"][metric] == middle)


def blank_figure(width: float, height: float) -> Figure:
    """A figure that belongs to no window, in inches."""
    try:
        import matplotlib
        from matplotlib.figure import Figure as NewFigure
    except ImportError as error:
        raise MissingExtraError.of("figures need Matplotlib", "report") from error
    matplotlib.rcParams["svg.hashsalt"] = "noisyor"  # names inside SVG files do not change
    return NewFigure(figsize=(width, height), layout="constrained")


def image_rows(rows: Sequence[tuple[str, Sequence[npt.NDArray[Any]]]]) -> Figure:
    """Rows of small images, each with a label at its left."""
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
    """Values in [0, 1], dark where they are large."""
    axes.imshow(values, cmap="gray_r", vmin=0.0, vmax=1.0, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])


def blank(axes: Axes) -> None:
    """Nothing, not even a frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def label(axes: Axes, text: str) -> None:
    """Text at the left of a row."""
    axes.set_ylabel(text, rotation=0, ha="right", va="center", fontsize=8)
