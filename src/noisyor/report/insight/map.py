"""The map of causes: a circle for each, its area by how often it is on, inside the one above it."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray
from noisyor._util.sparse import csr_of
from noisyor.report.insight.places import Circles, inside, neighbourhoods, placed

__all__ = ["Region", "cause_map", "cosine", "similarity_of"]

MOST_CIRCLES = 60
_GROUPS = 8
_WIDE, _NARROW = 1.9, 0.82  # width over height on a desktop and on a phone
_LETTER = 0.64  # width of a letter over the size of the font, about
_LINE = 1.16
_BEGINNING = 7  # letters of a word that is cut to fit, at least


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


def similarity_of(reach: Any, states: Any, chosen: list[int]) -> npt.NDArray[np.float64]:
    """(n, n) how alike causes are, from 0 to 1: by what they switch on, and by rows they share.

    ``reach`` sparse (n_causes, n_visible), probability that each switches a column on; ``states``
    sparse (n_rows, n_causes), where they are on, or None; ``chosen`` (n,) causes to compare.
    """
    alike = cosine(csr_of(reach)[chosen], csr_of(reach)[chosen])
    if states is not None:
        rows = csr_of(states).tocsc()[:, chosen].T.tocsr()
        shared = cosine(rows, rows)
        alike = 0.5 * (alike + shared)
    return alike


def cosine(one: Any, other: Any) -> npt.NDArray[np.float64]:
    """(n, m) cosines of the rows of two sparse matrices without negative entries; 0 for no row."""
    scales = []
    for matrix in (one, other):
        norm = np.sqrt(np.asarray((matrix.astype(np.float64) ** 2).sum(axis=1)).ravel())
        scales.append(np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0))
    product = (one.astype(np.float64) @ other.astype(np.float64).T).toarray()
    return np.asarray(np.clip(product * scales[0][:, None] * scales[1], 0.0, 1.0))


def cause_map(
    regions: list[Region], alike: Callable[[list[int]], npt.NDArray[np.float64]], label: str
) -> dict[str, Any] | None:
    """The map as two drawings, for a wide and for a narrow screen; None without anything on.

    ``alike`` tells how similar some of the regions are, by their numbers, see `similarity_of`. Only
    the most frequent regions are drawn; ``left_out`` counts the others.
    """
    used = sum(region.weight > 0 for region in regions)
    number = _without_frames(regions, _shown(regions))
    if not number:
        return None
    shown = _renumbered(regions, number)
    similarity = alike(number)
    colours = _colours(shown, similarity)
    drawings = {
        name: _drawing(shown, _nested(shown, similarity, aspect), colours, label, name)
        for name, aspect in (("wide", _WIDE), ("narrow", _NARROW))
    }
    drawn = sum(region.weight > 0 for region in shown)
    return {**drawings, "shown": len(shown), "left_out": used - drawn}


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
    """The numbers shown without those that hold a single one, which says nothing."""
    above = {k: regions[k].above for k in shown}
    for k in reversed(shown):  # lower ones first
        inner = [j for j, holder in above.items() if holder == k]
        if len(inner) == 1:
            above[inner[0]] = above.pop(k)
    return [k for k in shown if k in above]


def _renumbered(regions: list[Region], number: list[int]) -> list[Region]:
    """Some regions, each above which stands the next one of them."""
    place = {k: n for n, k in enumerate(number)}
    found = []
    for k in number:
        above = regions[k].above
        while above >= 0 and above not in place:
            above = regions[above].above
        found.append(regions[k]._replace(above=place.get(above, -1)))
    return found


def _depth(regions: list[Region], k: int) -> int:
    depth = 0
    while regions[k].above >= 0:
        k, depth = regions[k].above, depth + 1
    return depth


def _colours(regions: list[Region], similarity: npt.NDArray[np.float64]) -> list[int]:
    roots = [k for k, region in enumerate(regions) if region.above < 0]
    groups = neighbourhoods(similarity[np.ix_(roots, roots)], min(_GROUPS, len(roots)))
    result = [0] * len(regions)
    for k, group in zip(roots, groups.tolist(), strict=True):
        result[k] = group % _GROUPS
    for k, region in enumerate(regions):  # upper ones first
        if region.above >= 0:
            result[k] = result[region.above]
    return [
        shared if region.colour is None else region.colour
        for region, shared in zip(regions, result, strict=True)
    ]


def _nested(regions: list[Region], similarity: npt.NDArray[np.float64], aspect: float) -> Circles:
    """Circles of all regions; those below one lie inside it."""
    below: dict[int, list[int]] = {-1: []}
    for k, region in enumerate(regions):
        below.setdefault(region.above, []).append(k)
    weight = np.array([region.weight for region in regions])
    own = np.sqrt(np.maximum(weight, 0.002 * weight.max()))

    def pack(parts: list[int], ratio: float) -> tuple[Circles, dict[int, Any]]:
        inner: dict[int, Any] = {}
        radius = own[parts]
        for place, k in enumerate(parts):
            if k in below:
                content, deeper = pack(below[k], 1.0)
                content, size = inside(content, 0.0)
                inner[k] = (below[k], content, deeper)
                radius[place] = max(own[k], 1.17 * size)  # room for its words along the edge
        return placed(radius, similarity[np.ix_(parts, parts)], ratio), inner

    found = np.zeros((3, len(regions)))

    def settle(parts: list[int], circles: Circles, inner: dict[int, Any], at: FloatArray) -> None:
        for place, k in enumerate(parts):
            centre = at + np.array([circles.x[place], circles.y[place]])
            found[:, k] = [*centre, circles.radius[place]]
            if k in inner:
                lower, content, deeper = inner[k]
                settle(lower, content, deeper, centre)

    top, inner = pack(below[-1], aspect)
    settle(below[-1], top, inner, np.zeros(2))
    return Circles(*found)


def _drawing(
    regions: list[Region], circles: Circles, colours: list[int], label: str, name: str
) -> str:
    left, top, width, height = circles.box
    frame, aspect = {"wide": (1000.0, _WIDE), "narrow": (400.0, _NARROW)}[name]
    # A single circle would fill the width, and be cut down to the height with all its words.
    scale = min(frame / width, frame / aspect / height)
    left -= (frame / scale - width) / 2
    smallest = {"wide": 10.0, "narrow": 9.5}[name]
    holders = {region.above for region in regions}
    parts = []
    for k, region in enumerate(regions):
        x, y = (circles.x[k] - left) * scale, (circles.y[k] - top) * scale
        radius = circles.radius[k] * scale
        kind = "region holder" if k in holders else "region"
        if k in holders:
            words = _around(region, f"{name}-{region.target}", x, y, radius, smallest)
        else:
            words = _words(region, x, y, radius, smallest)
        parts.append(
            f'<a class="{kind} c{colours[k]}" href="#{region.target}" '
            f'aria-label="{escape(region.told)}"><title>{escape(region.told)}</title>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>{words}</a>'
        )
    return (
        f'<svg class="map {name}" viewBox="-4 -4 {frame + 8:.0f} '
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
    letters = int(1.84 * radius / (_LETTER * smallest))  # a beginning is better than nothing
    if letters < _BEGINNING or not region.words:
        return ""
    return (
        f'<text x="{x:.1f}" y="{y + 0.34 * smallest:.1f}" font-size="{smallest:.1f}">'
        f"{escape(region.words[0][: letters - 1])}…</text>"
    )
