"""Numbers of the README and of the comparisons are those of the files that hold them."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from reproduction import NAMES, experiment
from reproduction.comparison import TOO_FEW, entries, verdict_lines
from reproduction.page import verdict_counts
from reproduction.paper import paper_cells
from reproduction.record import FOLDER, Record

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
COMPARISONS = (ROOT / "docs" / "comparisons.md").read_text("utf-8")

UPDATES = {
    "matrix factorization, n=100 r=20, batch 20, 100 iterations": "bmf n=100 r=20",
    "n=200 r=120, 100 iterations": "bmf n=200 r=120",
    "n=400 r=240, 100 iterations": "bmf n=400 r=240",
    "blind deconvolution, 80 images, 100 iterations": "blind deconvolution",
    "the same, rows stop when they have converged": "blind deconvolution",
    "IMDB, 10,000 words, five layers, batch 128, ancestors only, rows stop": "imdb",
}
"""Lines of the table of update times, and the case of each in the file."""

README_UPDATES = {
    "factorization n=100 r=20, batch 20": "bmf n=100 r=20",
    "factorization n=400 r=240, batch 20": "bmf n=400 r=240",
    "IMDB, 10,000 words, five layers, batch 128": "imdb",
}


def read(name):
    return json.loads((ROOT / "results" / name).read_text("utf-8"))


def line_of(first_cell, page=README):
    """Find the line of a table that begins with a cell, and return its other cells."""
    (found,) = re.findall(rf"^\| {re.escape(first_cell)} \| (.*) \|$", page, re.M)
    return [cell.strip() for cell in found.split(" | ")]


def number(cell):
    """Return the first number of a cell, and half a unit of its last digit."""
    text = re.match(r"-?[\d,]+(\.\d+)?", cell)[0].replace(",", "")
    decimals = len(text.partition(".")[2])
    return float(text), 0.5 * 10**-decimals


def assert_printed(cell, value):
    printed, half = number(cell)
    assert abs(printed - value) <= half * 1.0001, (cell, value)


def assert_all_printed(cell, values):
    found = re.findall(r"-?\d+(?:\.\d+)?", cell)
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


# ---- what it finds


def test_published_matrices():
    found = read("published_matrices.json")
    (line,) = re.findall(r"^\| Boolean factorization of (\d+) published .* \|$", README, re.M)
    ours = re.search(r"column generation \| (\d+) / (\d+) / (\d+) \|", README)
    assert int(line) == len(found["summary"])
    assert [int(n) for n in ours.groups()] == [found["won"], found["tied"], found["lost"]]


def test_factorization_in_the_readme():
    first = "the paper's matrices, n=100, r=20 / 40 / 60: wrong entries of unseen rows"
    ours, others, _ = line_of(first)
    greedy, paper = others.split(";")
    runs = [factorizations(100, r) for r in (20, 40, 60)]
    assert_all_printed(ours, [mean(run["test_re_pct"] for run in some) for some in runs])
    assert_all_printed(greedy, [mean(run["thirty_lines_re_pct"] for run in some) for some in runs])
    assert_all_printed(paper, [best_factorization(100, r) for r in (20, 40, 60)])


def factorizations(n, r):
    cases = read("factorization_beyond.json")["cases"]
    return [case for name, case in cases.items() if f"n={n} r={r} seed" in name]


def best_factorization(n, r):
    return min(of_paper("bmf", case=f"{n},{r}", metric="test_re_pct"))


@pytest.mark.parametrize("n", [100, 200, 400])
@pytest.mark.parametrize("fifths", [1, 2, 3])
def test_factorization(n, fifths):
    r = n * fifths // 5
    told, ours, ten, thirty, paper, bound, true, *_ = line_of(f"n={n} r={r}", COMPARISONS)
    runs = factorizations(n, r)
    assert len(runs) == number(told)[0]
    for cell, name in (
        (ours, "test_re_pct"),
        (ten, "ten_lines_re_pct"),
        (thirty, "thirty_lines_re_pct"),
        (bound, "test_elbo"),
        (true, "true_elbo"),
    ):
        assert_printed(cell, mean(run[name] for run in runs))
    assert_printed(paper, best_factorization(n, r))


def test_deconvolution():
    runs = read("deconvolution_beyond.json")["runs"]
    found = ("features_iou", "test_re_pct")
    ours, paper, _ = line_of("shapes in the paper's images: overlap (IOU), wrong pixels")
    assert_all_printed(ours, [mean(run[name] for run in runs) for name in found])
    theirs = [of_paper("deconvolution", method="mp", metric=name)[0] for name in found]
    assert_all_printed(paper, theirs)


def test_known_causes():
    found = read("overparam_beyond.json")
    runs = [run for run in found["runs"] if run["latents"] in (16, 32)]
    greedy = [run for run in found["sceptic"] if run["latents"] == 16]
    ours, others, _ = line_of("eight known causes, 16 or 32 allowed: runs that find all eight")
    all_eight = [sum(run["recovered"] == 8 for run in some) for some in (runs, greedy)]
    assert ours == f"{all_eight[0]} of {len(runs)}"
    assert others.startswith(f"{all_eight[1]} of {len(greedy)} greedy; ")
    shares = [
        cell.mean
        for cell in paper_cells("overparam")
        if (cell.metric, cell.method) == ("full_recovery_pct", "mp")
        and int(cell.case.split(",")[1]) in (16, 32)
    ]
    assert_all_printed(others.partition(";")[2], [min(shares), max(shares)])


def test_topics():
    first = "coherence (NPMI) of 20 topics, 20 newsgroups / arXiv / AG news"
    ours, others, _ = line_of(first)
    rows = read("topic_coherence.json")["rows"]

    def coherence(model):
        return [
            mean(
                row["npmi"]
                for row in rows
                if (row["corpus"], row["n_topics"], row["model"]) == (corpus, 20, model)
            )
            for corpus in ("20 newsgroups", "arXiv abstracts", "AG news")
        ]

    assert_all_printed(ours, coherence("noisy-OR"))
    nmf, corex = others.split(";")
    assert_all_printed(nmf, coherence("NMF"))
    assert_all_printed(corex, coherence("CorEx"))


def test_log_likelihood():
    names = ("plants", "jester", "baudio", "bnetflix", "tiny20")
    line = line_of(f"mean log p of unseen rows with 20 components, {' / '.join(names)}")
    cells = [cell for cell in read("readable.json")["cells"] if cell["n_components"] == 20]
    for printed, model in zip(line[:2], ("causes", "mixture"), strict=True):
        values = [[cell[model] for cell in cells if cell["set"] == name] for name in names]
        assert_all_printed(printed, [mean(of_splits) for of_splits in values])


def test_baselines_on_the_page():
    cases = read("against_baselines.json")["cases"]
    for name, case in cases.items():
        cells = line_of(name, COMPARISONS)
        assert_printed(cells[0], case["rows"][0])
        for cell, model in zip(cells[1:6], case["models"].values(), strict=True):
            assert_printed(cell, model["log_p"])
        assert_printed(cells[6].lstrip("+"), case["noisy_or_minus_mixture"]["mean"])


def test_layered_networks():
    topics = (ROOT / "docs" / "beyond_topics.md").read_text("utf-8")
    tiny20 = read("tiny20_beyond.json")["confirmation"]
    told = re.search(
        r"Mean over ten splits: (-[\d.]+)\*\*.*?choose\s+the\s+settings, (-[\d.]+)", topics, re.S
    )
    assert_printed(told[1], mean(run["test"]["elbo"] for run in tiny20))
    assert_printed(told[2], mean(run["test"]["elbo"] for run in tiny20 if run["split"] > 1))
    assert max(of_paper("tiny20", metric="test_elbo")) == -14.34
    (imdb,) = (run for run in read("text_beyond.json")["test"] if run["arm"] == "mean-field")
    first = "IMDB: 200 updates of local mean-field (`learn_topics` with it)"
    test = topics.split("| test | independent")[1]
    assert_printed(line_of(first, test)[2], imdb["elbo_vi"])


def test_tiny20_beside_the_paper():
    """What the page on topics says of the reproduction is on the page of it."""
    topics = (ROOT / "docs" / "beyond_topics.md").read_text("utf-8")
    page = (ROOT / "docs" / "reproduction.md").read_text("utf-8")
    page += (ROOT / "reproduction" / "RUNS.md").read_text("utf-8")
    section = topics.split("## Plain max-product on tiny20")[1].split("\n## ")[0]
    quoted = re.findall(r"[+-]\d+\.\d+ \(\d\.\d+\)", section)
    assert len(quoted) == 5
    assert [number for number in quoted if number not in page] == []


# ---- the paper's numbers


@cache
def lines_of(name):
    """Lines of the page of reproductions of an experiment."""
    return entries(experiment(name), Record(FOLDER).runs(name))


def test_verdicts_on_the_paper():
    found = Counter(
        line.comparison.verdict for name in NAMES for line in verdict_lines(lines_of(name)).values()
    )
    for kind in ("match", "better", "worse", TOO_FEW):
        assert line_of(kind) == [str(found[kind])]
    assert set(found) <= {"match", "better", "worse", TOO_FEW}
    counts = verdict_counts({name: lines_of(name) for name in NAMES})
    missing = sum(found["no run"] for found in counts.values())
    assert line_of("no run: texts that are not available here") == [str(missing)]


# ---- speed


@pytest.mark.parametrize("line", UPDATES)
def test_update_times(line):
    case = read("update_time.json")["cases"][UPDATES[line]]
    kind = "early stop" if "stop" in line else "100 iterations"
    ours, ratio, authors, their_ratio, paper = line_of(line, COMPARISONS)
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


@pytest.mark.parametrize("line", README_UPDATES)
def test_update_times_in_the_readme(line):
    case = read("update_time.json")["cases"][README_UPDATES[line]]
    kind = "early stop" if line.startswith("IMDB") else "100 iterations"
    ours, authors, paper = line_of(f"update, {line}")
    assert_printed(ours, case["variants"][f"{kind}, 2 threads"]["wall_ms"])
    assert_printed(authors, case["variants"][f"authors' order, {kind}, 2 threads"]["wall_ms"])
    assert number(paper)[0] == case["paper_gpu_ms"]


@pytest.mark.parametrize("size", ["n=100 r=20", "n=400 r=80"])
def test_pgmax(size):
    case = read("against_pgmax.json")["cases"][f"bmf {size}"]
    ours, authors, pgmax = line_of(f"inference, {size}, {case['rows']} rows")
    assert_printed(ours, case["ours"]["wall_ms"])
    assert_printed(authors, case["ours, authors' order"]["wall_ms"])
    assert_printed(pgmax, case["pgmax"]["wall_ms"])
    assert set(case["rows_with_the_same_states"].values()) == {case["rows"]}


@pytest.mark.parametrize("page", [README, COMPARISONS], ids=["README", "comparisons"])
def test_against_c(page):
    text = re.search(r"C kernel.*?takes ([\d.]+) to ([\d.]+) times\s+as\s+long", page, re.S)
    ratios = [case["ratio_ours_to_c"] for case in read("against_c.json")["cases"].values()]
    assert_printed(text[1], min(ratios))
    assert_printed(text[2], max(ratios))


def test_scaling():
    text = re.search(r"with the power ([\d.]+) to ([\d.]+)", COMPARISONS)
    powers = [family["exponent"] for family in read("scaling.json")["families"].values()]
    assert_printed(text[1], min(powers))
    assert_printed(text[2], max(powers))


def test_graph_generation():
    text = re.search(r"takes (\d+) s of\s+CPU time and ([\d.]+) GB", COMPARISONS)
    found = read("graph_generation.json")["imdb"]
    assert_printed(text[1], found["cpu_seconds"])
    assert_printed(text[2], found["peak_memory_mb"] / 1000)


def test_the_timed_graph_is_that_of_the_runs():
    runs = Record(FOLDER).runs("text")
    edges = {run["metrics"]["n_edges"] for run in runs if run["case"] == "IMDB"}
    assert edges == {read("graph_generation.json")["imdb"]["edges_with_leaks"]}
