from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from noisyor.demo.page import demo_page
from noisyor.demo.run import DemoResult, run_demo
from noisyor.demo.text import BLOCKS, PLAIN, demo_text, marks_for
from noisyor.metrics import FeatureMatch


@pytest.fixture(scope="module")
def result() -> DemoResult:
    return run_demo(0, algorithm="paper", steps=12, progress=False)


@pytest.fixture(scope="module")
def page(result) -> str:
    return demo_page(result)


def with_iou(result: DemoResult, iou: list[float]) -> DemoResult:
    match = FeatureMatch(result.match.learned, np.array(iou), result.match.offset)
    return replace(result, match=match)


class TestPage:
    def test_it_is_well_formed(self, page):
        assert page.startswith("<!DOCTYPE html>\n")
        tree = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
        assert tree.get("lang") == "en"
        ids = [element.get("id") for element in tree.iter() if element.get("id")]
        assert len(ids) == len(set(ids))
        labelled = [e.get("aria-labelledby") for e in tree.iter() if e.get("aria-labelledby")]
        assert set(labelled) <= set(ids)

    def test_it_needs_nothing_from_outside(self, page):
        assert not re.search(r"(?i)https?:|//[a-z]|url\(|@import|<script|<link|<img|src=", page)
        assert "default-src 'none'" in page

    def test_it_is_small(self, page):
        assert len(page.encode()) < 500_000

    def test_every_picture_has_a_label(self, page):
        tree = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
        pictures = list(tree.iter("svg"))
        # 20 training images, 4 true shapes, 5 learned twice, 20 test images twice, the chart.
        assert len(pictures) == 20 + 4 + 10 + 40 + 1
        assert all(picture.get("role") == "img" for picture in pictures)
        labels = [picture.get("aria-label") for picture in pictures]
        assert all(labels)
        assert len(set(labels)) == len(labels)

    def test_colours_mark_exactly_the_wrong_pixels(self, result, page):
        tree = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
        count = {"missed": 0, "extra": 0}
        for path in tree.iter("path"):
            if path.get("class") in count:
                runs = re.findall(r"h(\d+)v1", path.get("d"))
                count[path.get("class")] += sum(map(int, runs))
        assert count["missed"] == (result.test_images > result.reconstruction).sum()
        assert count["extra"] == (result.test_images < result.reconstruction).sum()
        assert sum(count.values()) / (20 * 196) * 100 == pytest.approx(result.test_re_pct)

    def test_the_numbers_and_their_reference(self, result, page):
        for value in (
            f"{result.test_re_pct:.2f} %",
            f"{result.trivial.reconstruction_error:.2f} %",
            f"−{-result.test_elbo:.2f}",
            f"−{-result.trivial.elbo:.2f}",
            f"{result.features_iou:.3f}",
        ):
            assert value in page

    @pytest.mark.parametrize(
        ("iou", "headline"),
        [
            ([1.0, 1.0, 0.96, 1.0], "All four hidden shapes were found again"),
            ([1.0, 1.0, 0.5, 1.0], "Three of the four hidden shapes were found again"),
            ([0.0, 1.0, 0.5, 0.9], "One of the four hidden shapes was found again"),
            ([0.0, 0.0, 0.5, 0.9], "None of the four hidden shapes has been found yet"),
        ],
    )
    def test_the_headline_says_what_happened(self, result, iou, headline):
        page = demo_page(with_iou(result, iou))
        assert headline in re.search(r"<h1>(.*)</h1>", page)[1]

    def test_one_step_is_enough_for_a_page(self):
        ElementTree.fromstring(
            demo_page(run_demo(2, algorithm="paper", steps=1, progress=False)).removeprefix(
                "<!DOCTYPE html>\n"
            )
        )

    def test_a_shape_without_a_feature(self, result):
        match = FeatureMatch(
            np.array([0, 1, -1, 2]), np.ones(4) * [1, 1, 0, 1], result.match.offset
        )
        lacking = replace(result, match=match)
        page = demo_page(lacking)
        assert "Three of the four" in page
        assert page.count("not found</div>") == 1
        assert "IOU 0.00" in demo_text(lacking, Path("index.html"), Path("model.safetensors"))

    def test_the_three_lines_work(self, result, page, tmp_path, monkeypatch):
        from noisyor import save_network

        save_network(tmp_path / "model.safetensors", result.network)
        monkeypatch.chdir(tmp_path)
        code = re.search(r"<pre[^>]*><code>(.*?)</code></pre>", page, re.DOTALL)[1]
        names = {"images": result.test_images}
        exec(code.replace("&#34;", '"'), names)
        assert names["posterior"].states.shape == (20, result.network.n_hidden)


class TestText:
    def text(self, result, **options) -> str:
        return demo_text(result, Path("o/index.html"), Path("o/model.safetensors"), **options)

    def test_true_shapes_above_what_was_learned(self, result):
        lines = self.text(result).splitlines()
        assert max(map(len, lines)) <= 80
        (first,) = [number for number, line in enumerate(lines) if line.startswith("true")]
        assert lines[first] == "true    ██████████     · ·██ · ·     · ·██ · ·     · ·██ · ·"
        (learned,) = [number for number, line in enumerate(lines) if line.startswith("learned")]
        picture = [line[8:20] for line in lines[learned : learned + 6]]
        feature = result.binary_features[result.match.learned[0]]
        expected = ["".join("██" if pixel else " ·" for pixel in row) for row in feature]
        assert picture == expected

    def test_numbers(self, result):
        text = self.text(result)
        assert f"{result.features_iou:.3f}" in text
        assert f"{result.test_re_pct:.2f} %" in text
        assert f"trivial reference {result.trivial.elbo:.2f}" in text
        assert "12 updates" in text

    @pytest.mark.parametrize(
        ("encoding", "marks"),
        [("utf-8", BLOCKS), ("ascii", PLAIN), (None, PLAIN), ("latin-1", PLAIN), ("?", PLAIN)],
    )
    def test_marks_that_the_terminal_can_show(self, result, encoding, marks):
        assert marks_for(encoding) == marks
        if encoding in ("ascii", "latin-1"):
            self.text(result, marks=marks).encode(encoding)
