"""Numbers of the README are those of the files that it names, rounded as printed."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from reproduction import NAMES, experiment
from reproduction.comparison import TOO_FEW, entries, verdict_lines
from reproduction.paper import paper_cells
from reproduction.record import FOLDER, Record

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


@cache
def lines_of(name):
    """Lines of the page of reproductions of an experiment."""
    return entries(experiment(name), Record(FOLDER).runs(name))


def test_verdicts_on_the_paper():
    found = Counter(
        line.comparison.verdict for name in NAMES for line in verdict_lines(lines_of(name)).values()
    )
    del found[TOO_FEW]
    text = re.search(r"(\d+) of its numbers have been repeated(.*?)\.", README, re.S)
    told = {kind: int(n) for n, kind in re.findall(r"(\d+) (match|better|worse)", text[2])}
    assert int(text[1]) == sum(found.values())
    assert told == {"match": 0, "better": 0, "worse": 0} | found


def test_differences_without_a_verdict():
    apart = [
        line.comparison.difference
        for name in NAMES
        for line in verdict_lines(lines_of(name)).values()
        if line.comparison.verdict == TOO_FEW and abs(line.comparison.difference) > 2
    ]
    text = " ".join(README.split())
    told = re.search(r"\((\d+) of these are more than two .* apart .* behind in (\d+)\)", text)
    assert int(told[1]) == len(apart)
    assert int(told[2]) == sum(difference < 0 for difference in apart)


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


# ---- the paper's data by our settings


def numbers(cell):
    """All numbers of a cell, as they are printed."""
    return re.findall(r"-?\d+(?:\.\d+)?", cell)


def assert_all_printed(cell, values):
    found = numbers(cell)
    assert len(found) == len(values), cell
    for text, value in zip(found, values, strict=True):
        assert_printed(text, value)


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def of_paper(name, **fields):
    """Numbers of the paper that have these fields."""
    return [
        cell.mean
        for cell in paper_cells(name)
        if all(getattr(cell, field) == value for field, value in fields.items())
    ]


@pytest.mark.parametrize("n", [100, 200, 400])
def test_factorisation(n):
    first = {100: "factorisation error, n=100"}.get(n, f"n={n}")
    causes = [n // 5, 2 * n // 5, 3 * n // 5]
    told, ours, thirty, paper = line_of(f"{first}, r={' / '.join(map(str, causes))}")
    runs = [
        [case for name, case in read("factorization_beyond.json")["cases"].items() if start in name]
        for start in (f"n={n} r={r} seed" for r in causes)
    ]
    assert {len(some) for some in runs} == {number(told)[0]}
    assert_all_printed(ours, [mean(run["test_re_pct"] for run in some) for some in runs])
    sceptic = [mean(run["thirty_lines_re_pct"] for run in some) for some in runs]
    assert_all_printed(thirty.removesuffix(" (a)"), sceptic)
    best = [min(of_paper("bmf", case=f"{n},{r}", metric="test_re_pct")) for r in causes]
    assert_all_printed(paper, best)


def test_deconvolution():
    runs = read("deconvolution_beyond.json")["runs"]
    joint = [
        run["metrics"]
        for run in Record(FOLDER).runs("deconvolution")
        if (run["method"], run["init"]) == ("pmp", "prior-1e-75")
    ]
    told, ours, sceptic, paper = line_of("deconvolution: features found (IOU), error")
    assert len(runs) == len(joint) == number(told)[0]
    found = ("features_iou", "test_re_pct")
    assert_all_printed(ours, [mean(run[name] for run in runs) for name in found])
    assert_all_printed(
        sceptic.removesuffix(" (b)"), [mean(r[name] for r in joint) for name in found]
    )
    assert_all_printed(
        paper, [*of_paper("deconvolution", method="mp", metric=found[0]),
                *of_paper("deconvolution", method="mp", metric=found[1])],
    )  # fmt: skip
    told, ours, trivial, paper = line_of("deconvolution: bound on log p of an image")
    assert len(runs) == number(told)[0]
    assert_printed(ours, mean(run["test_elbo"] for run in runs))
    assert_printed(trivial, mean(run["trivial_elbo"] for run in joint))
    assert_printed(paper, *of_paper("deconvolution", method="mp", metric="test_elbo"))


@pytest.mark.parametrize(
    ("line", "sizes", "sceptic_sizes"),
    [
        (
            "over-parametrised, K=16 and 32, seven data sets: runs that found all eight causes",
            (16, 32),
            (16,),
        ),
        ("the same without a cause to spare, K=8", (8,), (8,)),
    ],
)
def test_overparametrisation(line, sizes, sceptic_sizes):
    found = read("overparam_beyond.json")
    runs = [run for run in found["runs"] if run["latents"] in sizes]
    sceptic = [run for run in found["sceptic"] if run["latents"] in sceptic_sizes]
    told, ours, theirs, paper = line_of(line)
    assert number(told)[0] == len(runs)
    assert number(ours)[0] == sum(run["recovered"] == 8 for run in runs)
    all_eight = sum(run["recovered"] == 8 for run in sceptic)
    assert theirs.startswith(f"{all_eight} of {len(sceptic)}")
    shares = [
        cell.mean
        for cell in paper_cells("overparam")
        if (cell.metric, cell.method) == ("full_recovery_pct", "mp")
        and int(cell.case.split(",")[1]) in sizes
    ]
    assert_all_printed(paper, [min(shares), max(shares)])


def test_layered_networks():
    tiny20 = read("tiny20_beyond.json")["confirmation"]
    splits = [read("density.json")[f"tiny20-{split}"]["methods"] for split in range(10)]
    told, ours, mixture, paper = line_of("tiny20: bound on log p, layered network")
    assert len(tiny20) == number(told)[0]
    assert_printed(ours, mean(run["test"]["elbo"] for run in tiny20))
    assert_printed(mixture, mean(split["mixture"]["test"] for split in splits))
    assert_printed(paper, max(of_paper("tiny20", metric="test_elbo")))
    unseen = re.search(r"had chosen the\s+settings; the other eight have (-[\d.]+)", README)
    assert_printed(unseen[1], mean(run["test"]["elbo"] for run in tiny20 if run["split"] > 1))

    (imdb,) = (run for run in read("text_beyond.json")["test"] if run["arm"] == "mean-field")
    _, ours, mixture, paper = line_of("IMDB: bound on log p, layered network")
    assert_printed(ours, imdb["elbo_vi"])
    assert_printed(mixture, read("density.json")["imdb"]["methods"]["mixture"]["test"])
    assert_printed(paper, max(of_paper("text", case="IMDB", metric="test_elbo")))


# ---- further speeds


def test_against_c():
    text = re.search(
        r"Against a C kernel.*?we take ([\d.]+) to ([\d.]+) times as long", README, re.S
    )
    ratios = [case["ratio_ours_to_c"] for case in read("against_c.json")["cases"].values()]
    assert_printed(text[1], min(ratios))
    assert_printed(text[2], max(ratios))


def test_scaling():
    text = re.search(r"Time grows with the power ([\d.]+) to ([\d.]+)", README)
    powers = [family["exponent"] for family in read("scaling.json")["families"].values()]
    assert_printed(text[1], min(powers))
    assert_printed(text[2], max(powers))


def test_graph_generation():
    text = re.search(r"is built in (\d+) s of CPU time and ([\d.]+) GB", README)
    found = read("graph_generation.json")["imdb"]
    assert_printed(text[1], found["cpu_seconds"])
    assert_printed(text[2], found["peak_memory_mb"] / 1000)


def test_the_timed_graph_is_that_of_the_runs():
    runs = Record(FOLDER).runs("text")
    edges = {run["metrics"]["n_edges"] for run in runs if run["case"] == "IMDB"}
    assert edges == {read("graph_generation.json")["imdb"]["edges_with_leaks"]}


# ---- other pages


def test_tiny20_beside_the_paper():
    """What the page on topics says of the reproduction is on the page of it."""
    topics = (ROOT / "docs" / "beyond_topics.md").read_text("utf-8")
    page = (ROOT / "docs" / "reproduction.md").read_text("utf-8")
    section = topics.split("## Plain max-product on tiny20")[1].split("\n## ")[0]
    quoted = re.findall(r"[+-]\d+\.\d+ \(\d\.\d+\)", section)
    assert len(quoted) == 5
    assert [number for number in quoted if number not in page] == []
