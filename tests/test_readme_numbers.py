"""Numbers of the README are those of the files that it names, rounded as printed."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from noisyor.experiments import NAMES, experiment
from noisyor.experiments.records import find_runs
from noisyor.experiments.results.comparison import entries
from noisyor.experiments.results.judgement import TOO_FEW

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")

UPDATES = {
    "matrix factorisation, n=100 r=20, batch 20, 100 iterations": "bmf n=100 r=20",
    "n=200 r=120, 100 iterations": "bmf n=200 r=120",
    "n=400 r=240, 100 iterations": "bmf n=400 r=240",
    "blind deconvolution, 80 images, 100 iterations": "blind deconvolution",
    "the same, rows stop when they have converged": "blind deconvolution",
    "IMDB, 10,000 words, five layers, batch 128, ancestors only, rows stop": "imdb",
}
"""Lines of the table of update times, and the case of each in the file."""


def read(name):
    return json.loads((ROOT / "results" / name).read_text("utf-8"))


def line_of(first_cell):
    """The other cells of the line of a table that begins with a cell."""
    (found,) = re.findall(rf"^\| {re.escape(first_cell)} \| (.*) \|$", README, re.M)
    return [cell.strip() for cell in found.split(" | ")]


def number(cell):
    """The first number of a cell, and half a unit of its last digit."""
    text = re.match(r"-?[\d,]+(\.\d+)?", cell)[0].replace(",", "")
    decimals = len(text.partition(".")[2])
    return float(text), 0.5 * 10**-decimals


def assert_printed(cell, value):
    printed, half = number(cell)
    assert abs(printed - value) <= half * 1.0001, (cell, value)


@pytest.mark.parametrize("line", UPDATES)
def test_update_times(line):
    case = read("update_time.json")["cases"][UPDATES[line]]
    kind = "early stop" if "stop" in line else "100 iterations"
    ours, ratio, authors, their_ratio, paper = line_of(line)
    for cell, ratio_cell, name in (
        (ours, ratio, kind),
        (authors, their_ratio, f"authors' order, {kind}"),
    ):
        variant = f"{name}, 2 threads"
        assert_printed(cell, case["variants"][variant]["wall_ms"])
        # The file has three digits, the table has whole numbers.
        assert abs(number(ratio_cell)[0] - case["ratio_paper_to_ours"][variant]) <= 0.51
        if kind == "early stop":
            iterations = number(cell.partition(", ")[2])[0]
            assert abs(iterations - case["mean_iterations"][name]) <= 0.51
    assert number(paper)[0] == case["paper_gpu_ms"]


def test_pgmax():
    (text,) = re.findall(r"- Against PGMax.*?\n(?=- )", README, re.S)
    small, large, small_default, large_default = map(int, re.findall(r"(\d+)(?:th|st|nd|rd)", text))
    cases = read("against_pgmax.json")["cases"]
    for name, same_order, default in (
        ("bmf n=100 r=20", small, small_default),
        ("bmf n=400 r=80", large, large_default),
    ):
        case = cases[name]
        ratio = case["ratio_pgmax_to_ours"]
        assert (same_order, default) == (ratio["ours, authors' order"], ratio["ours"])
        assert set(case["rows_with_the_same_states"].values()) == {20} == {case["rows"]}


@pytest.mark.parametrize("file", sorted((ROOT / "results" / "density").glob("*[!0-9].json")))
def test_real_data(file):
    found = json.loads(file.read_text("utf-8"))
    name = "IMDB, all 25,000 test reviews" if file.stem == "imdb" else file.stem
    columns, *scores = line_of(name)
    assert number(columns)[0] == found["columns"]
    names = ("independent", "Chow-Liu", "mixture", "ours")
    for cell, method in zip(scores, names, strict=False):
        if method in found["methods"] and cell:
            assert_printed(cell, found["methods"][method]["test"])
        else:
            assert not cell
    size = re.search(r"\((\d+)\)", scores[2])[1]
    assert int(size) == found["methods"]["mixture"]["n_classes"]


def lines_of(name):
    """Lines of the page of reproductions of an experiment."""
    runs = find_runs(ROOT / "results")
    return entries(experiment(name), [run for run in runs if run["experiment"] == name])


def test_verdicts_on_the_paper():
    found = Counter(line.comparison.verdict for name in NAMES for line in lines_of(name))
    del found[None], found[TOO_FEW]
    text = re.search(r"(\d+) of its numbers have been repeated(.*?)\.", README, re.S)
    told = {kind: int(n) for n, kind in re.findall(r"(\d+) (match|better|worse)", text[2])}
    assert int(text[1]) == sum(found.values())
    assert told == {"match": 0, "better": 0, "worse": 0} | found


def test_noise_of_the_papers_factorisations():
    best = [
        line
        for line in lines_of("bmf")
        if (line.group.method, line.group.noise, line.metric)
        == ("mp-two-stage", "uniform", "test_elbo")
        and "test" in line.group.chosen
    ]
    text = " ".join(README.split())
    told = re.search(r"within ([\d.]+) standard errors of its numbers at five sizes", text)
    assert len(best) == 5
    assert max(abs(line.comparison.difference) for line in best) < float(told[1]) + 0.05
    assert {line.ours.n_runs for line in best} <= set(range(1, 7))
