"""Draw pictures as inline SVG: binary images, gray levels and line charts.

Colors come from the style sheet of the page through class names, so that pictures have the colors
of the page in dark mode. Every picture carries a label for screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray

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


_WIDTH, _HEIGHT = 640, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 618, 34, 288
"""Size of a chart, and the box of its plot."""


def line_chart(
    x: FloatArray,
    y: FloatArray,
    error: FloatArray,
    chosen: npt.NDArray[np.bool_],
    label: str,
    x_title: str,
    y_title: str,
) -> str:
    """Draw a line through points with intervals, and a dot on the points that were chosen.

    Parameters
    ----------
    x, y : (n,) positions of the points; ``x`` is not negative.
    error : (n,) half the length of the interval around each point.
    chosen : (n,) which points have a dot.
    label : what the chart shows, for screen readers.
    x_title, y_title : titles of the axes.

    The attributes ``data-box`` (left, right, top, bottom of the plot) and ``data-range`` (values of
    x and y at its ends) let a script turn positions into values.
    """
    x_end = float(x.max()) or 1.0
    low, high = float((y - error).min()), float((y + error).max())
    ticks = _ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    if low == high:  # a single value is drawn in the middle
        low, high = low - 0.5, high + 0.5

    def across(value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * value / x_end

    def down(value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * (value - low) / (high - low)

    parts = []
    for tick in ticks:
        place = down(tick)
        parts.append(f'<path class="rule" d="M{_LEFT} {place:.1f}H{_RIGHT}"/>')
        parts.append(_text(_LEFT - 8, place + 4, _number(tick), "end"))
    for tick in _ticks(0.0, x_end):
        parts.append(f'<path class="rule" d="M{across(tick):.1f} {_BOTTOM}v5"/>')
        parts.append(_text(across(tick), _BOTTOM + 21, _number(tick), "middle"))
    parts.append(_text(_RIGHT, _HEIGHT - 6, x_title, "end"))
    parts.append(_text(4, 16, y_title, "start"))
    points = [f"{across(a):.1f} {down(b):.1f}" for a, b in zip(x, y, strict=True)]
    for a, b, e in zip(x, y, error, strict=True):
        interval = f"M{across(a):.1f} {down(b - e):.1f}V{down(b + e):.1f}"
        parts.append(f'<path class="interval" d="{interval}"/>')
    parts.append(f'<path class="curve" d="M{"L".join(points)}"/>')
    for a, b in zip(x[chosen], y[chosen], strict=True):
        parts.append(f'<circle class="chosen" cx="{across(a):.1f}" cy="{down(b):.1f}" r="4.5"/>')
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'data-box="{_LEFT} {_RIGHT} {_TOP} {_BOTTOM}" data-range="0 {x_end:g} {low:g} {high:g}" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{anchor}">{escape(text)}</text>'


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
