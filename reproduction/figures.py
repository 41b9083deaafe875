"""The paper's figures, drawn from the records of runs. Needs Matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from noisyor._util.atomic import write_atomically
from noisyor.errors import InvalidDataError
from reproduction.deconvolution_figures import (
    deconvolution_example,
    deconvolution_features,
    deconvolution_reconstructions,
    deconvolution_spare,
)
from reproduction.drawing import Run
from reproduction.network_figure import network_picture
from reproduction.overparam_figures import (
    overparam_curves,
    overparam_features,
    overparam_runs,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "picture", "write_figures"]

FIGURES: dict[str, tuple[str, Callable[[Sequence[Run]], Figure | None]]] = {
    "overparam_curves": ("overparam", overparam_curves),
    "overparam_runs": ("overparam", overparam_runs),
    "overparam_features": ("overparam", overparam_features),
    "deconvolution_example": ("deconvolution", deconvolution_example),
    "deconvolution_features": ("deconvolution", deconvolution_features),
    "deconvolution_spare": ("deconvolution", deconvolution_spare),
    "deconvolution_reconstructions": ("deconvolution", deconvolution_reconstructions),
    "network": ("tiny20", network_picture),
}
"""Figures by the name of their file: the experiment, and what draws its runs."""


def write_figures(runs: Sequence[Run], out: Path) -> list[Path]:
    """Draw everything that the runs allow; returns the files, PNG and SVG of each figure."""
    drawn = {}
    for name, (experiment, make) in FIGURES.items():
        own = [run for run in runs if run["experiment"] == experiment and run["part"] == "test"]
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
    """The content of a PNG or SVG file, without a date: the same runs give the same bytes."""
    content = BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    figure.savefig(content, format=kind, dpi=150, metadata=metadata)
    return content.getvalue()
