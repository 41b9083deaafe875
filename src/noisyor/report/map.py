"""Draw a map of the causes: a circle for each, its area by how often the cause is on.

Similar causes lie near each other.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from html import escape
from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from noisyor._util.arrays import FloatArray, LongArray, csr_of

MOST_CIRCLES = 60
_GROUPS = 8
"""Number of groups of similar regions with a separate color."""

_WIDE, _NARROW = 1.9, 0.82
"""Width over height on a desktop and on a phone."""

_LETTER, _LINE = 0.64, 1.16
"""Approximate width of a letter and height of a line, divided by the font size."""

_MIN_LETTERS = 7
"""Smallest number of letters of a word that is cut to fit."""

_MAX_LINE = 16
"""Number of letters above which a line is broken at spaces and hyphens."""

_GAP = 0.04
"""Gap between circles as a share of their mean radius."""


class Region(NamedTuple):
    """A circle of the map.

    ``target`` of its link; ``words`` to write into it; ``note`` to show beside it; ``weight`` how
    often it is on; ``color`` index of a color, None for the color of its group of similar regions;
    ``picture`` an SVG to show in place of words; ``is_doubtful`` whether its outline is dashed.
    """

    target: str
    words: tuple[str, ...]
    note: str
    weight: float
    color: int | None = None
    picture: str = ""
    is_doubtful: bool = False


def similarity_of(reach: Any, states: Any, chosen: list[int]) -> FloatArray:
    """Return the similarity (n, n) of causes, from 0 to 1, by columns and rows that they share.

    ``reach`` sparse (n_causes, n_visible), probability that each switches a column on; ``states``
    sparse (n_rows, n_causes), where they are on, or None; ``chosen`` (n,) causes to compare.
    """
    alike = _cosine(csr_of(reach)[chosen])
    if states is None:
        return alike
    return 0.5 * (alike + _cosine(csr_of(states).tocsc()[:, chosen].T.tocsr()))


def _cosine(matrix: Any) -> FloatArray:
    """Return the cosines (n, n) of the rows of a non-negative sparse matrix; 0 for empty rows."""
    rows = matrix.astype(np.float64)
    norm = np.sqrt(np.asarray((rows**2).sum(axis=1)).ravel())
    scale = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
    return np.asarray(np.clip((rows @ rows.T).toarray() * scale[:, None] * scale, 0.0, 1.0))


def cause_map(
    regions: list[Region], alike: Callable[[list[int]], FloatArray], label: str
) -> dict[str, Any] | None:
    """Draw the map for a wide and for a narrow screen; None if no region has a weight.

    ``alike`` returns the similarity of some regions by their indices, see `similarity_of`. Only the
    most frequent regions are drawn; ``left_out`` counts the others. ``is_grouped`` says whether
    similar regions share colors, because there are more regions than colors.
    """
    used = [k for k, region in enumerate(regions) if region.weight > 0]
    if not used:
        return None
    number = sorted(used, key=lambda k: -regions[k].weight)[:MOST_CIRCLES]
    shown, similarity = [regions[k] for k in number], alike(number)
    groups = group_similar(similarity, min(_GROUPS, len(shown))).tolist()
    colors = [
        group if region.color is None else region.color
        for region, group in zip(shown, groups, strict=True)
    ]
    weight = np.array([region.weight for region in shown])
    radius = np.sqrt(np.maximum(weight, 0.002 * weight.max()))
    drawings = {
        name: _drawing(shown, lay_out(radius, similarity, aspect), colors, label, name)
        for name, aspect in (("wide", _WIDE), ("narrow", _NARROW))
    }
    return {**drawings, "left_out": len(used) - len(shown), "is_grouped": len(shown) > _GROUPS}


def _drawing(
    regions: list[Region], circles: Circles, colors: list[int], label: str, name: str
) -> str:
    left, top, width, height = circles.box
    frame, aspect = {"wide": (1000.0, _WIDE), "narrow": (400.0, _NARROW)}[name]
    # A single circle would fill the width, and be cut down to the height with all its words.
    scale = min(frame / width, frame / aspect / height)
    left -= (frame / scale - width) / 2
    smallest = {"wide": 10.0, "narrow": 9.5}[name]
    parts = []
    for k, region in enumerate(regions):
        x, y = (circles.x[k] - left) * scale, (circles.y[k] - top) * scale
        radius = circles.radius[k] * scale
        words = _words(region, x, y, radius, smallest)
        parts.append(
            f'<a class="region c{colors[k]}{" doubtful" * region.is_doubtful}" '
            f'href="#{region.target}" '
            f'aria-label="{escape(region.note)}"><title>{escape(region.note)}</title>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>{words}</a>'
        )
    return (
        f'<svg class="map {name}" viewBox="-4 -4 {frame + 8:.0f} '
        f'{height * scale + 8:.0f}" role="group" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def _words(region: Region, x: float, y: float, radius: float, smallest: float) -> str:
    """Draw the picture of a region, or as many of its words as fit into its circle."""
    if region.picture:
        side = 1.3 * radius
        return (
            f'<svg x="{x - side / 2:.1f}" y="{y - side / 2:.1f}" width="{side:.1f}" '
            f'height="{side:.1f}">{region.picture}</svg>'
        )
    for lines in _line_choices(region.words):
        size = _fitting_size(lines, radius)
        if size >= smallest:
            return _text(lines, x, y, size)
    return ""


def _line_choices(words: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield lines of all words, of fewer, and at last of a part of the first word."""
    for count in range(len(words), 0, -1):
        yield list(words[:count])
        yield [line for word in words[:count] for line in textwrap.wrap(word, _MAX_LINE)]
    for letters in range(_MAX_LINE - 1, _MIN_LETTERS - 1, -1):
        for count in (3, 2, 1) if words else ():
            lines = textwrap.wrap(words[0], letters)
            if len(lines) > count:
                lines = [*lines[: count - 1], lines[count - 1][: letters - 1] + "…"]
            yield lines


def _fitting_size(lines: list[str], radius: float) -> float:
    """Return the largest size of the font at which lines fit into a circle."""
    size = min(0.42 * radius, 26.0, 1.5 * radius / (len(lines) * _LINE))
    for index, line in enumerate(lines):
        chord = _chord(len(lines), index, size, radius)
        size = min(size, chord / (_LETTER * max(len(line), 1)))
    return size


def _chord(n_lines: int, index: int, size: float, radius: float) -> float:
    """Return the width that a circle leaves for one of several lines."""
    offset = abs(index - (n_lines - 1) / 2) * _LINE * size + 0.5 * size
    return 0.92 * 2 * float(np.sqrt(max(radius**2 - offset**2, 0.0)))


def _text(lines: list[str], x: float, y: float, size: float) -> str:
    """Draw lines around a center."""
    first = y - (len(lines) - 1) / 2 * _LINE * size + 0.34 * size
    return "".join(
        f'<text x="{x:.1f}" y="{first + index * _LINE * size:.1f}" '
        f'font-size="{size:.1f}">{escape(line)}</text>'
        for index, line in enumerate(lines)
    )


class Circles(NamedTuple):
    """Centers ``x`` and ``y`` and radii, each (n,)."""

    x: FloatArray
    y: FloatArray
    radius: FloatArray

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, width and height of all circles."""
        left, top = (self.x - self.radius).min(), (self.y - self.radius).min()
        right, bottom = (self.x + self.radius).max(), (self.y + self.radius).max()
        return float(left), float(top), float(right - left), float(bottom - top)


def lay_out(radius: FloatArray, similarity: FloatArray, aspect: float) -> Circles:
    """Place circles side by side, similar ones near each other.

    The circles are placed in the order given. Each touches two circles that are already placed, at
    the free position nearest to the middle of the map and to similar circles.

    Parameters
    ----------
    radius : (n,) their sizes.
    similarity : (n, n) from 0 to 1, symmetric.
    aspect : width of the map over its height, about.
    """
    stretch = np.sqrt(np.array([aspect, 1.0 / aspect]))
    gap = _GAP * float(radius.mean())
    placed = np.zeros((len(radius), 2))
    for k in range(1, len(radius)):
        reach = radius[:k] + radius[k] + gap
        free = _free_positions(placed[:k], reach)
        distance = np.linalg.norm((free[:, None] - placed[None, :k]) / stretch, axis=2)
        pull = similarity[k, :k] + 1e-3
        cost = np.linalg.norm(free / stretch, axis=1) + distance @ (pull / pull.sum())
        placed[k] = free[cost.argmin()]
    return Circles(placed[:, 0], placed[:, 1], radius)


def _free_positions(placed: FloatArray, reach: FloatArray) -> FloatArray:
    """Return the centers (m, 2) at which one more circle touches others and overlaps none.

    ``placed`` (k, 2) are centers, ``reach`` (k,) the distances at which the new circle touches.
    """
    if len(placed) == 1:
        return np.array([[placed[0, 0] + reach[0], placed[0, 1]]])
    i, j = np.triu_indices(len(placed), 1)
    across = placed[j] - placed[i]
    distance = np.linalg.norm(across, axis=1)
    along = (reach[i] ** 2 - reach[j] ** 2 + distance**2) / (2 * distance)
    height = np.sqrt(np.maximum(reach[i] ** 2 - along**2, 0.0))
    meet = distance <= reach[i] + reach[j]
    ahead = across / distance[:, None]
    aside = np.stack([-ahead[:, 1], ahead[:, 0]], axis=1)
    foot = placed[i] + along[:, None] * ahead
    found = np.concatenate([(foot + sign * height[:, None] * aside)[meet] for sign in (1, -1)])
    gaps = np.linalg.norm(found[:, None] - placed[None], axis=2) - reach
    return np.asarray(found[(gaps > -1e-9 * reach.max()).all(axis=1)])


def group_similar(similarity: FloatArray, most: int) -> LongArray:
    """Return the index (n,) of a group of similar items, the largest group first."""
    n = len(similarity)
    if n < 3:
        return np.arange(n)
    distance = np.clip(1.0 - (similarity + similarity.T) / 2, 0.0, None)
    np.fill_diagonal(distance, 0.0)
    label = fcluster(linkage(squareform(distance, checks=False), "average"), most, "maxclust")
    _, number, count = np.unique(label, return_inverse=True, return_counts=True)
    rank = np.empty(len(count), dtype=np.int64)
    rank[np.argsort(-count, kind="stable")] = np.arange(len(count))
    return np.asarray(rank[number])
