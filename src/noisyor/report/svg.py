"""Small pictures as inline SVG: binary images, grey levels, a line chart.

Colours come from the page's style sheet through class names, so that a picture follows the page
into dark mode. Every picture carries a label for those who cannot see it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray

__all__ = [
    "Curve",
    "Interval",
    "Layer",
    "Stamp",
    "calibration_chart",
    "line_chart",
    "pixel_image",
    "shaded_image",
    "stamped_image",
]


class Layer(NamedTuple):
    """Pixels of one colour: class name in the style sheet, and a mask (height, width)."""

    style: str
    mask: npt.NDArray[Any]


class Curve(NamedTuple):
    """One line or set of points of a chart: class name, (n,) x, (n,) y, whether to draw dots."""

    style: str
    x: FloatArray
    y: FloatArray
    dots: bool = False


class Stamp(NamedTuple):
    """A feature laid onto an image: its number, and the pixels (height, width) it covers there."""

    feature: int
    mask: npt.NDArray[Any]


class Interval(NamedTuple):
    """A point of a calibration chart: x, y, the ends of its interval, and what it is in words."""

    x: float
    y: float
    least: float
    most: float
    text: str


N_COLOURS = 8
"""Features beyond this number share colours with earlier ones; their numbers differ."""


def pixel_image(layers: Sequence[Layer], label: str, grid: bool = False) -> str:
    """A binary image from masks of one shape, later layers on top."""
    height, width = layers[0].mask.shape
    paths = [
        f'<path class="{layer.style}" d="{_runs(layer.mask)}"/>'
        for layer in layers
        if layer.mask.any()
    ]
    return _picture(height, width, label, "".join(paths), grid)


def shaded_image(values: npt.ArrayLike, label: str, grid: bool = False) -> str:
    """Grey levels (height, width): 0 is the paper, 1 full ink."""
    levels = np.asarray(values, dtype=np.float64)
    cells = [
        f'<path class="ink" fill-opacity="{levels[y, x]:.2f}" d="M{x} {y}h1v1h-1z"/>'
        for y, x in np.ndindex(levels.shape)
        if levels[y, x] >= 0.005
    ]
    height, width = levels.shape
    return _picture(height, width, label, "".join(cells), grid)


def stamped_image(image: npt.NDArray[Any], stamps: Sequence[Stamp], label: str) -> str:
    """A binary image in pale ink with the features that explain it on top, outlined and numbered.

    Every stamp is a group ``<g class="stamp cN" data-feature="N">``.
    """
    height, width = image.shape
    parts = [f'<path class="faint" d="{_runs(image)}"/>'] if image.any() else []
    for stamp in stamps:
        if not stamp.mask.any():
            continue
        y, x = (float(axis.mean()) + 0.5 for axis in np.nonzero(stamp.mask))
        size = max(2.0, min(height, width) / 6)
        parts.append(
            f'<g class="stamp c{stamp.feature % N_COLOURS}" data-feature="{stamp.feature}">'
            f'<path class="tint" d="{_runs(stamp.mask)}"/>'
            f'<path class="outline" d="{_outline(stamp.mask)}"/>'
            f'<text x="{x:.1f}" y="{y + 0.35 * size:.1f}" font-size="{size:.1f}">'
            f"{stamp.feature}</text></g>"
        )
    return _picture(height, width, label, "".join(parts), grid=False)


def calibration_chart(points: Sequence[Interval], label: str, *, x_title: str, y_title: str) -> str:
    """Points with intervals between 0 and 1 on both axes, beside the diagonal."""
    width, height = 440, 420
    left, right, top, bottom = 52, width - 20, 34, height - 52

    def across(x: float) -> float:
        return left + (right - left) * x

    def down(y: float) -> float:
        return bottom - (bottom - top) * y

    parts = []
    for tick in (0, 0.2, 0.4, 0.6, 0.8, 1):
        y, x = down(tick), across(tick)
        parts.append(f'<path class="rule" d="M{left} {y:.1f}H{right}"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" class="end">{tick:g}</text>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 21}" class="middle">{tick:g}</text>')
    parts.append(f'<text x="{right}" y="{height - 6}" class="end">{escape(x_title)}</text>')
    parts.append(f'<text x="4" y="16">{escape(y_title)}</text>')
    parts.append(f'<path class="reference" d="M{left} {bottom}L{right} {top}"/>')
    for point in points:
        x = across(point.x)
        parts.append(
            f'<g><title>{escape(point.text)}</title><path class="interval" '
            f'd="M{x:.1f} {down(point.least):.1f}V{down(point.most):.1f}"/>'
            f'<circle class="held-out" cx="{x:.1f}" cy="{down(point.y):.1f}" r="5"/></g>'
        )
    return (
        f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def line_chart(
    curves: Sequence[Curve],
    label: str,
    *,
    x_title: str,
    y_title: str,
    reference: tuple[float, str] | None = None,
    floor: float = -math.inf,
    size: tuple[int, int] = (640, 340),
) -> str:
    """Curves over a common axis.

    Parameters
    ----------
    curves : what to draw, at least one of them not empty.
    label : what the chart shows, for those who cannot see it.
    x_title, y_title : titles of the axes.
    reference : height and name of a dashed line across the chart.
    floor : lower end of the axis if values lie below it; they become arrows at the bottom.
    size : (width, height) of the coordinate system; the page scales the picture.

    The attributes ``data-box`` (left, right, top, bottom of the plot) and ``data-range`` (values of
    x and y at its ends) let a script turn places into values.
    """
    xs = np.concatenate([curve.x for curve in curves])
    ys = np.maximum(np.concatenate([curve.y for curve in curves]), floor)
    if reference is not None:
        ys = np.r_[ys, reference[0]]
    y_ticks = _ticks(float(ys.min()), float(ys.max()))
    left, right, top, bottom = 62, size[0] - 24, 34, size[1] - 52
    x_range = (0.0, float(xs.max()) or 1.0)
    y_range = (min(y_ticks[0], float(ys.min())), max(y_ticks[-1], float(ys.max())))
    if y_range[0] == y_range[1]:  # a single value stands in the middle
        y_range = (y_range[0] - 0.5, y_range[1] + 0.5)

    def across(x: float) -> float:
        return left + (right - left) * (x - x_range[0]) / (x_range[1] - x_range[0])

    def down(y: float) -> float:
        return bottom - (bottom - top) * (y - y_range[0]) / (y_range[1] - y_range[0])

    parts = []
    for tick in y_ticks:
        y = down(tick)
        parts.append(f'<path class="rule" d="M{left} {y:.1f}H{right}"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" class="end">{_number(tick)}</text>')
    for tick in _ticks(*x_range):
        x = across(tick)
        parts.append(f'<path class="rule" d="M{x:.1f} {bottom}v5"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 21}" class="middle">{_number(tick)}</text>')
    parts.append(f'<text x="{right}" y="{size[1] - 6}" class="end">{escape(x_title)}</text>')
    parts.append(f'<text x="4" y="16">{escape(y_title)}</text>')
    if reference is not None:
        y = down(reference[0])
        parts.append(f'<path class="reference" d="M{left} {y:.1f}H{right}"/>')
        parts.append(f'<text x="{right}" y="{y - 6:.1f}" class="end">{escape(reference[1])}</text>')
    for curve in curves:
        inside = curve.y >= y_range[0]
        places = [
            (f"{across(x):.1f}", f"{down(y):.1f}")
            for x, y in zip(curve.x[inside], curve.y[inside], strict=True)
        ]
        if curve.dots:
            parts += [
                f'<circle class="{curve.style}" cx="{x}" cy="{y}" r="4.5"/>' for x, y in places
            ]
            parts += [
                f'<path class="{curve.style}" d="M{across(x):.1f} {bottom - 1}l-5 -8h10z"/>'
                for x in curve.x[~inside]
            ]
        elif places:
            line = "L".join(f"{x} {y}" for x, y in places)
            parts.append(f'<path class="{curve.style}" d="M{line}"/>')
    return (
        f'<svg class="chart" viewBox="0 0 {size[0]} {size[1]}" role="img" '
        f'data-box="{left} {right} {top} {bottom}" '
        f'data-range="{x_range[0]:g} {x_range[1]:g} {y_range[0]:g} {y_range[1]:g}" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _picture(height: int, width: int, label: str, content: str, grid: bool) -> str:
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
    """Path that covers a mask, one rectangle per horizontal run."""
    pieces = []
    for y, row in enumerate(np.asarray(mask, dtype=np.int8)):
        edges = np.flatnonzero(np.diff(np.r_[0, row, 0]))
        for begin, end in edges.reshape(-1, 2):
            length = end - begin
            pieces.append(f"M{begin} {y}h{length}v1h-{length}z")
    return "".join(pieces)


def _outline(mask: npt.NDArray[Any]) -> str:
    """Path along the border of a mask."""
    framed = np.pad(np.asarray(mask, dtype=np.int8), 1)
    level = np.argwhere(np.diff(framed, axis=0)[:, 1:-1])
    upright = np.argwhere(np.diff(framed, axis=1)[1:-1])
    pieces = [f"M{x} {y}h1" for y, x in level] + [f"M{x} {y}v1" for y, x in upright]
    return "".join(pieces)


def _ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from just below ``low`` to just above ``high``'s last full step."""
    span = max(high - low, 1e-9)
    rough = span / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = math.floor(low / step), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "−")
