from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from noisyor.report.charts import _ticks, line_chart, pixel_image, shaded_image


def painted(path: str, shape: tuple[int, int]) -> np.ndarray:
    """The mask that a path of rectangles covers."""
    mask = np.zeros(shape, dtype=int)
    for x, y, length, back in re.findall(r"M(\d+) (\d+)h(\d+)v1h-(\d+)z", path):
        assert length == back
        mask[int(y), int(x) : int(x) + int(length)] += 1
    return mask


@given(hnp.arrays(np.bool_, st.tuples(st.integers(1, 6), st.integers(1, 6))))
def test_a_pixel_image_paints_its_mask_once(mask):
    picture = ElementTree.fromstring(pixel_image({"ink": mask}, "a <label> & more"))
    assert picture.get("role") == "img"
    assert picture.get("aria-label") == "a <label> & more"
    assert picture.get("viewBox") == f"0 0 {mask.shape[1]} {mask.shape[0]}"
    paths = [element.get("d") for element in picture if element.get("class") == "ink"]
    np.testing.assert_array_equal(painted("".join(paths), mask.shape), mask)


def test_layers_keep_their_order_and_empty_ones_vanish():
    on, off = np.ones((2, 2)), np.zeros((2, 2))
    picture = ElementTree.fromstring(pixel_image({"ink": on, "missed": off, "extra": on}, "x"))
    assert [element.get("class") for element in picture] == ["paper", "ink", "extra"]


def test_grey_levels():
    picture = ElementTree.fromstring(shaded_image([[0.0, 0.25], [1.0, 0.001]], "x"))
    levels = [element.get("fill-opacity") for element in picture if element.get("fill-opacity")]
    assert levels == ["0.25", "1.00"]


class TestChart:
    def chart(self, y) -> ElementTree.Element:
        x = np.arange(1.0, len(y) + 1)
        every = np.ones(len(y), dtype=bool)
        chart = line_chart(x, np.array(y), 0.1 * x, every, "label", "causes", "nats")
        return ElementTree.fromstring(chart)

    @pytest.mark.parametrize("y", [[-5.0], [1.0, 1.0], [-300.0, -40.0, -39.5], [1e-9, 2e-9]])
    def test_everything_lies_inside(self, y):
        chart = self.chart(y)
        _, _, width, height = map(float, chart.get("viewBox").split())
        for dot in chart.iter("circle"):
            assert 0 <= float(dot.get("cx")) <= width
            assert 0 <= float(dot.get("cy")) <= height
        assert len(list(chart.iter("circle"))) == len(y)
        assert "nan" not in ElementTree.tostring(chart, encoding="unicode")

    def test_higher_values_are_higher_up(self):
        heights = [float(dot.get("cy")) for dot in self.chart([1.0, 3.0, 2.0]).iter("circle")]
        assert heights[1] < heights[2] < heights[0]


@given(low=st.floats(-1e6, 1e6), span=st.floats(1e-6, 1e6))
def test_ticks_are_few_and_cover_the_range(low, span):
    ticks = _ticks(low, low + span)
    assert 2 <= len(ticks) <= 8
    step = ticks[1] - ticks[0]
    assert ticks[0] <= low + 1e-6 * max(abs(low), step)  # to rounding, also next to zero
    assert ticks[-1] > low + span - 1.001 * step
