"""The map as a drawing."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from report_examples import NASTY

import noisyor as nor
from noisyor.report.map import (
    MOST_CIRCLES,
    Circles,
    Region,
    cause_map,
    group_similar,
    lay_out,
    similarity_of,
)
from noisyor.report.page import write_report


def region(k: int, weight: float, **more) -> Region:
    return Region(f"cause-{k}", (f"word{k}",), f"word{k}: note", weight, **more)


def alike(numbers: list[int]) -> np.ndarray:
    return np.eye(len(numbers))


def circles(svg: str) -> dict[str, tuple[float, float, float]]:
    found = re.findall(r'href="#(cause-\d+)".*?cx="([\d.]+)" cy="([\d.]+)" r="([\d.]+)"', svg)
    return {name: (float(x), float(y), float(r)) for name, x, y, r in found}


def test_area_is_how_often():
    drawn = cause_map([region(0, 0.4), region(1, 0.1), region(2, 0.0)], alike, "map")
    for name in ("wide", "narrow"):
        found = circles(drawn[name])
        assert found["cause-0"][2] / found["cause-1"][2] == pytest.approx(2.0, rel=0.01)
        assert "cause-2" not in found  # never on
    assert drawn["left_out"] == 0


def test_the_rarest_are_left_out():
    n = MOST_CIRCLES + 10
    drawn = cause_map([region(k, 1.0 / (k + 1)) for k in range(n)], alike, "map")
    assert drawn["left_out"] == 10
    assert "cause-0" in circles(drawn["wide"])


def test_nothing_is_on():
    assert cause_map([region(0, 0.0)], alike, "map") is None


def test_names_are_escaped():
    nasty = Region("cause-0", (NASTY,), NASTY, 1.0)
    drawn = cause_map([nasty], alike, NASTY)["wide"]
    assert "<script" not in drawn
    assert "&lt;script&gt;" in drawn


def test_words_fit_their_circles():
    words = ("government", "international", "a")
    drawn = cause_map([Region("cause-0", words, "", 1.0), region(1, 0.3)], alike, "m")["wide"]
    x, y, r = circles(drawn)["cause-0"]
    for cx, cy, size, text in re.findall(
        r'<text x="([\d.]+)" y="([\d.]+)" font-size="([\d.]+)">(\w{2,})<', drawn
    ):
        if text in words:
            half = 0.5 * 0.62 * float(size) * len(text)
            assert np.hypot(abs(float(cx) - x) + half, abs(float(cy) - y)) < 1.05 * r


def test_similarity_by_columns_and_by_rows():
    reach = sp.csr_array(np.array([[0.9, 0.9, 0.0], [0.9, 0.9, 0.0], [0.0, 0.0, 0.5]]))
    alike = similarity_of(reach, None, [0, 1, 2])
    assert alike[0, 1] == pytest.approx(1.0)
    assert alike[0, 2] == 0.0
    apart = sp.csr_array(np.array([[1, 0, 1], [0, 1, 0]]))
    assert similarity_of(reach, apart, [0, 1, 2])[0, 1] == pytest.approx(0.5)
    assert similarity_of(reach, apart, [2, 0])[0, 1] == pytest.approx(0.5)


def test_causes_of_images_are_pictures(tmp_path):
    success = np.zeros((2, 4, 5))
    success[0, 1], success[1, :, 2] = 0.9, 0.9
    network = nor.bipartite(
        20,
        2,
        failure_probability=np.minimum(1 - success, 0.999).reshape(2, 20),
        prior_probability=0.4,
        noise_probability=0.01,
    )
    model = tmp_path / "m.safetensors"
    nor.save_network(model, replace(network, visible_shape=(4, 5)))
    rows = nor.sample(network, 60, seed=1).visible.toarray().reshape(-1, 4, 5)
    write_report(model, rows, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "of the pixels in 60 images." in page
    assert page.count('aria-label="cause 0 as gray levels"') == 2  # on both maps
    assert '"shape":[4,5]' in page
    assert '"label":["",""]' in page


def test_a_single_circle_lies_in_a_frame_of_the_usual_size():
    drawn = cause_map([region(0, 0.4)], alike, "map")
    x, _, radius = circles(drawn["wide"])["cause-0"]
    width, height = map(float, re.search(r'viewBox="-4 -4 (\d+) (\d+)"', drawn["wide"]).groups())
    assert (width, x) == (1008, pytest.approx(500, abs=1))
    assert 2 * radius <= height < 540


def test_a_long_word_is_cut_rather_than_left_out():
    long = Region("cause-1", ("stalk-surface-above-the-ring=silky",), "note", 0.02)
    drawn = cause_map([region(0, 0.9), long], alike, "map")["wide"]
    lines = re.findall(r">([^<>]*)</text>", drawn.partition("cause-1")[2])
    written = "".join(lines)
    assert len(lines) > 1
    assert written.endswith("…")
    assert len(written) > 12
    assert long.words[0].startswith(written[:-1])


def blocks(sizes: list[int], alike: float = 0.8) -> np.ndarray:
    label = np.repeat(np.arange(len(sizes)), sizes)
    return np.where(label[:, None] == label, alike, 0.0) + (1 - alike) * np.eye(len(label))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [1, 2, 3, 12, 60])
def test_circles_do_not_overlap(n, seed):
    random = np.random.default_rng(seed)
    radius = random.lognormal(0, 0.8, n)
    similarity = random.random((n, n)) ** 3
    found = lay_out(radius, (similarity + similarity.T) / 2, 1.5)
    assert np.isfinite([found.x, found.y]).all()
    distance = np.hypot(found.x[:, None] - found.x, found.y[:, None] - found.y)
    overlap = radius[:, None] + radius - distance
    np.fill_diagonal(overlap, 0)
    assert overlap.max() < 0.05 * radius.mean()


def test_alike_ones_lie_together():
    similarity = blocks([5, 5, 5])
    found = lay_out(np.ones(15), similarity, 1.0)
    place = np.stack([found.x, found.y], axis=1)
    distance = np.linalg.norm(place[:, None] - place, axis=2)
    same = (similarity > 0.5) & ~np.eye(15, dtype=bool)
    assert distance[same].mean() < 0.7 * distance[similarity < 0.5].mean()


def test_the_map_has_the_shape_of_the_screen():
    wide = lay_out(np.ones(20), np.zeros((20, 20)), 2.0).box
    narrow = lay_out(np.ones(20), np.zeros((20, 20)), 0.7).box
    assert wide[2] / wide[3] > 1.3 > 1.0 > narrow[2] / narrow[3]


def test_group_similar():
    assert group_similar(blocks([2, 4, 3]), 3).tolist() == [2, 2, 0, 0, 0, 0, 1, 1, 1]
    assert group_similar(np.ones((2, 2)), 8).tolist() == [0, 1]


def test_box():
    box = Circles(np.array([0.0, 4.0]), np.array([0.0, 1.0]), np.array([1.0, 2.0])).box
    assert box == (-1.0, -1.0, 7.0, 4.0)
