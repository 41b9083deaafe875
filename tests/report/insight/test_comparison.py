"""Two models on one page."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from browser import Browser, find_chromium, poor_contrast, too_wide

import noisyor as nor
from noisyor.cli.main import main
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.report.insight.comparison import pair_causes
from noisyor.report.page import write_report


def network(blocks: list[list[int]], names: list[str]) -> nor.Network:
    failure = np.full((len(blocks), len(names)), 0.999)
    for k, block in enumerate(blocks):
        failure[k, block] = 0.1
    return nor.bipartite(
        len(names),
        len(blocks),
        failure_probability=failure,
        prior_probability=0.3,
        noise_probability=0.02,
        visible_names=names,
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three causes and four, two of them the same in other columns; rows of the first."""
    folder = tmp_path_factory.mktemp("models")
    first = network([[0, 1], [2, 3], [4, 5]], list("abcdef"))
    second = network([[3, 2], [5, 4], [1, 3, 5], [0]], list("bafcde"))
    nor.save_network(folder / "first.safetensors", first)
    nor.save_network(folder / "second.safetensors", second)
    rows = nor.sample(first, 100, seed=1).visible.toarray()
    np.savetxt(folder / "rows.csv", rows, "%d", ",", header="a,b,c,d,e,f", comments="")
    return folder


def test_causes_are_paired_one_to_one():
    first = sp.csr_array(np.array([[0.9, 0.8, 0.0], [0.0, 0.0, 0.9]]))
    second = sp.csr_array(np.array([[0.0, 0.1, 0.9], [0.8, 0.9, 0.0], [0.8, 0.9, 0.1]]))
    found = pair_causes(first, second)
    assert found.first.tolist() == [0, 1]
    assert found.second.tolist() == [1, 0]
    assert (found.alike > 0.98).all()
    assert found.only_first.tolist() == []
    assert found.only_second.tolist() == [2]


def test_columns_go_by_name(files, capsys):
    code = main(
        [
            *("report", str(files / "first.safetensors"), str(files / "second.safetensors")),
            *(str(files / "rows.csv"), "--out", str(files / "both.html"), "--json"),
        ]
    )
    assert code == 0
    found = json.loads(capsys.readouterr().out)
    # c, d and e, f are in both; a, b only in the first; "a" alone is in its cause by 0.7
    assert found["same"] + found["only_first"] == 3
    assert found["same"] >= 2
    assert found["bound"][0] > found["bound"][1]
    assert found["gain"] == pytest.approx(found["bound"][1] - found["bound"][0])
    page = (files / "both.html").read_text("utf-8")
    assert "The first describes rows better" in page
    assert page.count('<svg class="map narrow"') == 2


def test_without_data(files):
    found = write_report(
        files / "first.safetensors", files / "two.html", second=files / "first.safetensors"
    )
    assert (found["same"], found["bound"]) == (3, None)
    assert "The two models have the same causes: 3." in (files / "two.html").read_text("utf-8")


def test_models_that_cannot_be_compared(files, tmp_path):
    nor.save_network(tmp_path / "other.safetensors", network([[0]], ["x", "y"]))
    with pytest.raises(InvalidDataError, match="no column in common"):
        write_report(
            files / "first.safetensors", tmp_path / "p.html", second=tmp_path / "other.safetensors"
        )
    with pytest.raises(InvalidSettingError, match="not of two"):
        write_report(
            files / "first.safetensors",
            tmp_path / "p.html",
            files / "rows.csv",
            second=files / "second.safetensors",
            labels="a",
        )


def test_too_many_arguments_are_one_line(files, capsys):
    rows = str(files / "rows.csv")
    assert main(["report", str(files / "first.safetensors"), rows, rows]) == 2
    assert "is no model file" in capsys.readouterr().err


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium or Chrome")
def test_it_fits_the_screen_and_can_be_read(files):
    page = files / "shown.html"
    write_report(
        files / "first.safetensors", page, files / "rows.csv", second=files / "second.safetensors"
    )
    browser = Browser(find_chromium())
    try:
        for width, dark in ((390, True), (1280, False)):
            browser.open(page, width=width, dark=dark)
            assert too_wide(browser, width) == []
            assert poor_contrast(browser) == []
        browser.click("a.region[href='#pair-0'] text")
        assert browser.run("location.hash") == "#pair-0"
        assert browser.complaints == browser.requests == []
    finally:
        browser.close()
