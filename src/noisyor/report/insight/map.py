"""The map of causes: a circle for each, its area by how often it is on, inside the one above it."""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray
from noisyor._util.sparse import csr_of
from noisyor.report.insight.places import Circles, inside, neighbourhoods, placed

__all__ = ["Region", "cause_map", "similarity_of"]

MOST_CIRCLES = 60
_GROUPS = 8
_WIDE, _NARROW = 1.9, 0.82  # width over height on a desktop and on a phone
_LETTER = 0.64  # width of a letter over the size of the font, about
_LINE = 1.16


class Region(NamedTuple):
    """A circle of the map: what it is called, how often it is on, the one above it (-1 for none).

    ``target`` of the link; ``words`` to write into it; ``told`` what is said of it in full;
    ``colour`` a number of a colour, or None for that of its neighbourhood; ``picture`` an SVG to
    show in place of words.
    """

    target: str
    words: tuple[str, ...]
    told: str
    weight: float
    above: int = -1
    colour: int | None = None
    picture: str = ""


def similarity_of(reach: Any, states: Any = None) -> npt.NDArray[np.float64]:
    """(n, n) how alike causes are, from 0 to 1: by what they switch on, and by rows they share.

    ``reach`` sparse (n, n_visible), probability that each switches a column on; ``states`` sparse
    (n_rows, n), where they are on.
    """
    alike = _cosine(csr_of(reach).astype(np.float64))
    if states is not None:
        shared = _cosine(csr_of(states).astype(np.float64).T.tocsr())
        alike = 0.5 * (alike + shared)
    return alike


def _cosine(matrix: Any) -> npt.NDArray[np.float64]:
    norm = np.sqrt(np.asarray((matrix * matrix).sum(axis=1)).ravel())
    scale = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
    product = (matrix @ matrix.T).toarray() * scale[:, None] * scale[None, :]
    return np.asarray(np.clip(product, 0.0, 1.0))


def cause_map(
    regions: list[Region], similarity: npt.NDArray[np.float64], label: str
) -> dict[str, Any] | None:
    """The map as two drawings, for a wide and for a narrow screen; None without anything on.

    Only the most frequent regions are drawn; ``left_out`` counts the others.
    """
    regions = [*regions]
    shown = _shown(regions)
    if not shown:
        return None
    shown = _without_frames(regions, shown)
    colours = _colours(regions, shown, similarity)
    drawings = {}
    for name, aspect in (("wide", _WIDE), ("narrow", _NARROW)):
        circles = _nested(regions, shown, similarity, aspect)
        drawings[name] = _drawing(regions, shown, circles, colours, label, name)
    used = [k for k in range(len(regions)) if regions[k].weight > 0]
    left_out = len(set(used) - set(shown))
    return {**drawings, "shown": len(shown), "left_out": left_out}


def _shown(regions: list[Region]) -> list[int]:
    """The most frequent regions, and those above them; upper ones first."""
    order = sorted(range(len(regions)), key=lambda k: (-regions[k].weight, k))
    chosen: set[int] = set()
    for k in order:
        if regions[k].weight <= 0:
            break
        path, top = {k}, regions[k].above
        while top >= 0:
            path.add(top)
            top = regions[top].above
        if len(chosen | path) > MOST_CIRCLES:
            continue
        chosen |= path
    return sorted(chosen, key=lambda k: (_depth(regions, k), -regions[k].weight, k))


def _without_frames(regions: list[Region], shown: list[int]) -> list[int]:
    """Regions shown without those that hold a single one; that one moves up, in the list too."""
    kept = list(shown)
    for k in reversed(shown):  # lower ones first
        inner = [j for j in kept if regions[j].above == k]
        if len(inner) == 1:
            regions[inner[0]] = regions[inner[0]]._replace(above=regions[k].above)
            kept.remove(k)
    return kept


def _depth(regions: list[Region], k: int) -> int:
    depth = 0
    while regions[k].above >= 0:
        k, depth = regions[k].above, depth + 1
    return depth


def _colours(
    regions: list[Region], shown: list[int], similarity: npt.NDArray[np.float64]
) -> dict[int, int]:
    roots = [k for k in shown if regions[k].above < 0]
    groups = neighbourhoods(similarity[np.ix_(roots, roots)], min(_GROUPS, len(roots)))
    result: dict[int, int] = dict(zip(roots, (groups % _GROUPS).tolist(), strict=True))
    for k in shown:  # upper ones first
        if regions[k].above >= 0:
            result[k] = result[regions[k].above]
    for k in shown:
        own = regions[k].colour
        if own is not None:
            result[k] = own
    return result


def _nested(
    regions: list[Region], shown: list[int], similarity: npt.NDArray[np.float64], aspect: float
) -> dict[int, tuple[float, float, float]]:
    """Centre and radius of every region shown; those below one lie inside it."""
    below: dict[int, list[int]] = {-1: []}
    for k in shown:
        below.setdefault(regions[k].above, []).append(k)
    largest = max(regions[k].weight for k in shown)
    own = {k: np.sqrt(max(regions[k].weight, 0.002 * largest)) for k in shown}

    def pack(parts: list[int], ratio: float) -> tuple[Circles, dict[int, Any]]:
        inner: dict[int, Any] = {}
        radius = np.array([own[k] for k in parts])
        for place, k in enumerate(parts):
            if below.get(k):
                content, deeper = pack(below[k], 1.0)
                content, size = inside(content, 0.0)
                size = size * 1.17  # room for its words along the edge
                inner[k] = (below[k], content, deeper)
                radius[place] = max(own[k], size)
        return placed(radius, similarity[np.ix_(parts, parts)], ratio), inner

    found: dict[int, tuple[float, float, float]] = {}

    def settle(parts: list[int], circles: Circles, inner: dict[int, Any], at: FloatArray) -> None:
        for place, k in enumerate(parts):
            centre = at + np.array([circles.x[place], circles.y[place]])
            found[k] = (float(centre[0]), float(centre[1]), float(circles.radius[place]))
            if k in inner:
                lower, content, deeper = inner[k]
                settle(lower, content, deeper, centre)

    top, inner = pack(below[-1], aspect)
    settle(below[-1], top, inner, np.zeros(2))
    return found


def _drawing(
    regions: list[Region],
    shown: list[int],
    circles: dict[int, tuple[float, float, float]],
    colours: dict[int, int],
    label: str,
    name: str,
) -> str:
    x, y, r = (np.array([circles[k][axis] for k in shown]) for axis in range(3))
    left, top, width, height = Circles(x, y, r).box
    scale = {"wide": 1000.0, "narrow": 400.0}[name] / width
    smallest = {"wide": 10.0, "narrow": 9.5}[name]
    holders = {regions[k].above for k in shown}
    parts = []
    for k, cx, cy, radius in zip(
        shown, (x - left) * scale, (y - top) * scale, r * scale, strict=True
    ):
        region = regions[k]
        kind = "region holder" if k in holders else "region"
        if k in holders:
            words = _around(region, f"{name}-{k}", float(cx), float(cy), float(radius), smallest)
        else:
            words = _words(region, float(cx), float(cy), float(radius), smallest)
        parts.append(
            f'<a class="{kind} c{colours[k]}" href="#{region.target}" '
            f'aria-label="{escape(region.told)}">'
            f"<title>{escape(region.told)}</title>"
            f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="{radius:.1f}"/>{words}</a>'
        )
    return (
        f'<svg class="map {name}" viewBox="-4 -4 {width * scale + 8:.0f} '
        f'{height * scale + 8:.0f}" role="group" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def _around(region: Region, key: str, x: float, y: float, radius: float, smallest: float) -> str:
    """The words of a region that holds others, along its upper edge."""
    text = ", ".join(region.words)
    size = min(15.0, 0.13 * radius, 0.9 * np.pi * radius / (_LETTER * max(len(text), 1)))
    if size < 0.8 * smallest:
        return ""
    along = radius - 1.25 * size
    return (
        f'<path id="arc-{key}" class="arc" '
        f'd="M{x - along:.1f} {y:.1f}A{along:.1f} {along:.1f} 0 0 1 {x + along:.1f} {y:.1f}"/>'
        f'<text font-size="{size:.1f}"><textPath href="#arc-{key}" startOffset="50%">'
        f"{escape(text)}</textPath></text>"
    )


def _words(region: Region, x: float, y: float, radius: float, smallest: float) -> str:
    """The words of a region in lines that fit into its circle, or its picture, or nothing."""
    if region.picture:
        side = 1.3 * radius
        return (
            f'<svg x="{x - side / 2:.1f}" y="{y - side / 2:.1f}" width="{side:.1f}" '
            f'height="{side:.1f}">{region.picture}</svg>'
        )
    for count in range(len(region.words), 0, -1):
        lines = region.words[:count]
        size = min(0.42 * radius, 26.0, 1.5 * radius / (count * _LINE))
        for place, line in enumerate(lines):  # the chord of the circle at each line
            offset = abs(place - (count - 1) / 2) * _LINE * size + 0.5 * size
            if offset >= radius:
                size = 0.0
                break
            chord = 2 * np.sqrt(radius**2 - offset**2)
            size = min(size, 0.92 * chord / (_LETTER * max(len(line), 1)))
        if size >= smallest:
            first = y - (count - 1) / 2 * _LINE * size + 0.34 * size
            return "".join(
                f'<text x="{x:.1f}" y="{first + place * _LINE * size:.1f}" '
                f'font-size="{size:.1f}">{escape(line)}</text>'
                for place, line in enumerate(lines)
            )
    return ""
