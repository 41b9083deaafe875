"""The demo's result for a terminal of eighty columns."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt

from noisyor.demo.run import SHAPES, DemoResult

__all__ = ["Marks", "demo_text", "marks_for"]


class Marks(NamedTuple):
    """How a pixel is drawn, two characters wide."""

    on: str
    off: str


BLOCKS = Marks("██", " ·")
PLAIN = Marks("##", " .")


def marks_for(encoding: str | None) -> Marks:
    """Blocks if the terminal's encoding has them, plain characters if not."""
    try:
        "".join(BLOCKS).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return BLOCKS


def demo_text(result: DemoResult, page: Path, model: Path, marks: Marks = BLOCKS) -> str:
    """The learned shapes below the true ones, the metrics, and where the files are."""
    trivial = result.trivial
    n_test = len(result.test_images)
    n_true = int(result.data.states[-n_test:].sum())
    lines = [
        f"{result.n_found} of {len(SHAPES)} shapes found.",
        "",
        *_shapes(result, marks),
        "",
        f"features IOU   {result.features_iou:8.3f}",
        f"test RE        {result.test_re_pct:8.2f} %     "
        f"(trivial reference {trivial.reconstruction_error:.2f} %)",
        f"test Elbo      {result.test_elbo:8.2f}       (trivial reference {trivial.elbo:.2f})",
        f"active causes  {int(result.states.sum()):8d}       "
        f"(in {n_test} test images, made of {n_true} shapes)",
        f"training       {result.training_seconds:8.1f} s     "
        f"({result.steps} updates of {1000 * result.update_median:.0f} ms)",
        "",
        f"page   {page}",
        f"model  {model}",
    ]
    return "\n".join(lines)


def _shapes(result: DemoResult, marks: Marks) -> list[str]:
    """True shapes in one row of pictures, what was learned in the next, matched by column."""
    order = [*(int(f) for f in result.match.learned), *result.spare_features]
    width = 2 * result.binary_features.shape[2]
    true = [_picture(feature, marks) for feature in result.data.features]
    learned = [_picture(result.binary_features[f], marks) if f >= 0 else [] for f in order]
    names = [*SHAPES, *("spare" for _ in result.spare_features)]
    scores = [f"IOU {value:.2f}" for value in result.match.iou]
    return [
        _row("", names, width),
        *_beside("true", true, width),
        "",
        *_beside("learned", learned, width),
        _row("", scores, width),
    ]


def _picture(feature: npt.NDArray[Any], marks: Marks) -> list[str]:
    return ["".join(marks.on if pixel else marks.off for pixel in row) for row in feature]


def _beside(title: str, pictures: list[list[str]], width: int) -> list[str]:
    rows = zip_longest(*pictures, fillvalue="")
    return [_row("" if number else title, cells, width) for number, cells in enumerate(rows)]


def _row(title: str, cells: Any, width: int) -> str:
    return f"{title:8}" + "  ".join(f"{cell:{width}}" for cell in cells).rstrip()
