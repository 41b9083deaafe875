"""The first screen: causes or features as regions of a map, and what was found in two sentences."""

from __future__ import annotations

import textwrap
from typing import Any

from noisyor._util.arrays import FloatArray
from noisyor.model.graph import Network
from noisyor.report.health import success_matrix
from noisyor.report.inputs import Model
from noisyor.report.insight.classes import Classes
from noisyor.report.insight.map import Region
from noisyor.report.insight.sentence import Found, percent, sentences
from noisyor.report.svg import shaded_image
from noisyor.report.words import Words, is_drawn

__all__ = ["feature_regions", "regions_of", "said_of"]

NO_CLASS = 8
"""Colour of causes that go with no class; classes have the colours before it, over and over."""


def regions_of(
    model: Model,
    words: Words,
    called: tuple[list[str], list[str]],
    data: dict[str, Any],
    classes: Classes | None,
) -> list[Region]:
    """The causes as circles of the map."""
    n_rows = data["rows"]
    regions = []
    for k, (name, label) in enumerate(zip(*called, strict=True)):
        often = data["rate"][k] if not n_rows else data["uses"][k] / n_rows
        verb, colour = ("on" if n_rows else "expected"), None
        told = f"{label or name}: {verb} in {percent(often)} of {words.rows}"
        if classes is not None:
            leader = int(classes.leader[k])
            colour = NO_CLASS if leader < 0 else leader % NO_CLASS
            if leader >= 0:
                most = percent(float(classes.share[k, leader]))
                told += f", {most} of them {classes.names[leader]}"
        regions.append(
            Region(
                f"cause-{k}",
                tuple(label.split(", ")) if label else _lines(name),
                told,
                often,
                int(data["home"][k]),
                colour,
                _picture(model.network, k),
            )
        )
    return regions


def _lines(name: str) -> tuple[str, ...]:
    """A name in lines of about twelve letters."""
    lines = textwrap.wrap(name, 12, break_long_words=False)
    return tuple([*lines[:2], lines[2] + " …"] if len(lines) > 3 else lines)


def _picture(network: Network, cause: int) -> str:
    """What a cause draws, if columns are the pixels of an image."""
    if not is_drawn(network):
        return ""
    success = success_matrix(network)[[cause], : network.n_visible].toarray()
    return shaded_image(success.reshape(network.visible_shape), f"cause {cause} as grey levels")


def said_of(
    words: Words,
    n_causes: int,
    working: int,
    share: float | None,
    n_rows: int | None,
    regions: list[Region],
    layers: int = 1,
    per_row: bool = True,
) -> tuple[str, str]:
    """What was found in two sentences."""
    things = words.visibles if words.visible in ("word", "pixel") else "ones"
    most = max(regions, key=lambda region: region.weight)
    found = Found(
        n_causes=n_causes,
        n_working=working,
        share=share,
        n_rows=n_rows,
        commonest=", ".join(most.words) if most.weight > 0 else None,
        often=most.weight,
        layers=layers,
        things=things,
    )
    return sentences(found, words, per_row)


def feature_regions(entries: list[dict[str, Any]], often: FloatArray) -> list[Region]:
    """Features of images as circles of the map; ``often`` (n,) times that each lies in an image."""
    return [
        Region(
            f"feature-{entry['number']}",
            (f"feature {entry['number']}",),
            f"feature {entry['number']}, {float(times):.2g} times in an image",
            float(times),
            picture=entry["picture"],
        )
        for entry, times in zip(entries, often[: len(entries)], strict=True)
    ]
