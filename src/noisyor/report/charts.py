"""Draw pictures as inline SVG: binary images, gray levels and line charts.

Colors come from the style sheet of the page through class names, so that pictures have the colors
of the page in dark mode. Every picture carries a label for screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray


class Curve(NamedTuple):
    """One line or set of points of a chart.

    ``style`` its class; ``x``, ``y`` (n,); ``dots`` whether to draw points instead of a line;
    ``error`` (n,) half the length of the interval around each point, or None.
    """

    style: str
    x: FloatArray
    y: FloatArray
    dots: bool = False
    error: FloatArray | None = None


N_COLORS = 8
"""Features beyond this number repeat the colors of earlier ones; their numbers differ."""


def pixel_image(layers: Mapping[str, npt.NDArray[Any]], label: str) -> str:
    """Draw a binary image from masks (height, width) by their class names, later ones on top."""
    height, width = next(iter(layers.values())).shape
    paths = [
        f'<path class="{style}" d="{_runs(mask)}"/>' for style, mask in layers.items() if mask.any()
    ]
    return _picture(height, width, label, "".join(paths))


def shaded_image(values: npt.ArrayLike, label: str, grid: bool = False) -> str:
    """Draw gray levels (height, width): 0 is the background, 1 the darkest level."""
    levels = np.asarray(values, dtype=np.float64)
    cells = [
        f'<path class="ink" fill-opacity="{levels[y, x]:.2f}" d="M{x} {y}h1v1h-1z"/>'
        for y, x in np.ndindex(levels.shape)
        if levels[y, x] >= 0.005
    ]
    height, width = levels.shape
    return _picture(height, width, label, "".join(cells), grid)


def stamped_image(
    image: npt.NDArray[Any], stamps: Sequence[tuple[int, npt.NDArray[Any]]], label: str
) -> str:
    """Draw a binary image in a pale color with numbered outlines of the features that explain it.

    A stamp is the number of a feature and the pixels (height, width) that it covers. It becomes a
    group ``<g class="stamp cN" data-feature="N">``.
    """
    height, width = image.shape
    parts = [f'<path class="faint" d="{_runs(image)}"/>'] if image.any() else []
    for feature, mask in stamps:
        if not mask.any():
            continue
        y, x = (float(axis.mean()) + 0.5 for axis in np.nonzero(mask))
        size = max(2.0, min(height, width) / 6)
        parts.append(
            f'<g class="stamp c{feature % N_COLORS}" data-feature="{feature}">'
            f'<path class="tint" d="{_runs(mask)}"/>'
            f'<path class="outline" d="{_outline(mask)}"/>'
            f'<text x="{x:.1f}" y="{y + 0.35 * size:.1f}" font-size="{size:.1f}">'
            f"{feature}</text></g>"
        )
    return _picture(height, width, label, "".join(parts))


def line_chart(curves: Sequence[Curve], label: str, *, x_title: str, y_title: str) -> str:
    """Draw curves over a common axis.

    Parameters
    ----------
    curves : what to draw, at least one of them not empty.
    label : what the chart shows, for screen readers.
    x_title, y_title : titles of the axes.

    The attributes ``data-box`` (left, right, top, bottom of the plot) and ``data-range`` (values of
    x and y at its ends) let a script turn positions into values.
    """
    xs = np.concatenate([curve.x for curve in curves])
    ys = np.concatenate([curve.y for curve in curves])
    for curve in curves:
        if curve.error is not None:
            ys = np.r_[ys, curve.y - curve.error, curve.y + curve.error]
    y_ticks = _ticks(float(ys.min()), float(ys.max()))
    x_range = (0.0, float(xs.max()) or 1.0)
    y_range = (min(y_ticks[0], float(ys.min())), max(y_ticks[-1], float(ys.max())))
    if y_range[0] == y_range[1]:  # a single value is drawn in the middle
        y_range = (y_range[0] - 0.5, y_range[1] + 0.5)
    plot = _Plot((640, 340), 62, x_range, y_range)
    parts = plot.axes(_ticks(*x_range), y_ticks, x_title, y_title)
    for curve in curves:
        points = [
            (f"{plot.across(x):.1f}", f"{plot.down(y):.1f}")
            for x, y in zip(curve.x, curve.y, strict=True)
        ]
        if curve.error is not None:
            parts += [
                f'<path class="interval" d="M{x} {plot.down(y - e):.1f}V{plot.down(y + e):.1f}"/>'
                for (x, _), y, e in zip(points, curve.y, curve.error, strict=True)
            ]
        if curve.dots:
            parts += [
                f'<circle class="{curve.style}" cx="{x}" cy="{y}" r="4.5"/>' for x, y in points
            ]
        elif points:
            line = "L".join(f"{x} {y}" for x, y in points)
            parts.append(f'<path class="{curve.style}" d="M{line}"/>')
    return plot.svg(parts, label)


class _Plot:
    """Coordinates of a chart: its box in the picture, and the values at the ends of its axes."""

    def __init__(
        self,
        size: tuple[int, int],
        left: int,
        x_range: tuple[float, float],
        y_range: tuple[float, float],
    ) -> None:
        self.size, self.x_range, self.y_range = size, x_range, y_range
        self.left, self.right, self.top, self.bottom = left, size[0] - 22, 34, size[1] - 52

    def across(self, x: float) -> float:
        low, high = self.x_range
        return self.left + (self.right - self.left) * (x - low) / (high - low)

    def down(self, y: float) -> float:
        low, high = self.y_range
        return self.bottom - (self.bottom - self.top) * (y - low) / (high - low)

    def axes(
        self, x_ticks: Sequence[float], y_ticks: Sequence[float], x_title: str, y_title: str
    ) -> list[str]:
        """Return rules, ticks and titles."""
        parts = []
        for tick in y_ticks:
            y = self.down(tick)
            parts.append(f'<path class="rule" d="M{self.left} {y:.1f}H{self.right}"/>')
            text = f'<text x="{self.left - 8}" y="{y + 4:.1f}" class="end">{_number(tick)}</text>'
            parts.append(text)
        for tick in x_ticks:
            x, y = self.across(tick), self.bottom + 21
            parts.append(f'<path class="rule" d="M{x:.1f} {self.bottom}v5"/>')
            parts.append(f'<text x="{x:.1f}" y="{y}" class="middle">{_number(tick)}</text>')
        x, y = self.right, self.size[1] - 6
        parts.append(f'<text x="{x}" y="{y}" class="end">{escape(x_title)}</text>')
        parts.append(f'<text x="4" y="16">{escape(y_title)}</text>')
        return parts

    def svg(self, parts: Sequence[str], label: str) -> str:
        (x0, x1), (y0, y1) = self.x_range, self.y_range
        return (
            f'<svg class="chart" viewBox="0 0 {self.size[0]} {self.size[1]}" role="img" '
            f'data-box="{self.left} {self.right} {self.top} {self.bottom}" '
            f'data-range="{x0:g} {x1:g} {y0:g} {y1:g}" '
            f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
        )


def _picture(height: int, width: int, label: str, content: str, grid: bool = False) -> str:
    lines = ""
    if grid:
        rows = "".join(f"M0 {y}H{width}" for y in range(1, height))
        columns = "".join(f"M{x} 0V{height}" for x in range(1, width))
        lines = f'<path class="grid" d="{rows}{columns}"/>'
    return (
        f'<svg class="pixels" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(label)}"><path class="paper" d="M0 0h{width}v{height}h-{width}z"/>'
        f"{content}{lines}</svg>"
    )


def _runs(mask: npt.NDArray[Any]) -> str:
    """Return a path that covers a mask, one rectangle per horizontal run."""
    pieces = []
    for y, row in enumerate(np.asarray(mask, dtype=np.int8)):
        edges = np.flatnonzero(np.diff(np.r_[0, row, 0]))
        for begin, end in edges.reshape(-1, 2):
            length = end - begin
            pieces.append(f"M{begin} {y}h{length}v1h-{length}z")
    return "".join(pieces)


def _outline(mask: npt.NDArray[Any]) -> str:
    """Return a path along the border of a mask."""
    framed = np.pad(np.asarray(mask, dtype=np.int8), 1)
    level = np.argwhere(np.diff(framed, axis=0)[:, 1:-1])
    upright = np.argwhere(np.diff(framed, axis=1)[1:-1])
    pieces = [f"M{x} {y}h1" for y, x in level] + [f"M{x} {y}v1" for y, x in upright]
    return "".join(pieces)


def _ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers from just below ``low`` to just above ``high``'s last full step."""
    span = max(high - low, 1e-9)
    rough = span / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = math.floor(low / step), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "−")
