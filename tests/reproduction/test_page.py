"""The page and its appendix: what they say of runs, and that they are those in the repository."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from run_records import run, scored

from reproduction import NAMES, experiment
from reproduction.appendix import appendix
from reproduction.comparison import entries, verdict_lines
from reproduction.page import cause_of, document, verdict_counts
from reproduction.page_text import CAUSES
from reproduction.paper import paper_cells
from reproduction.record import FOLDER, Record

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def page(tmp_path):
    """A function from runs to the page made from a record of them."""

    def write(*runs):
        for one in runs:
            Record(tmp_path).append(one)
        return document(tmp_path, tmp_path)

    return write


@pytest.fixture
def listed(tmp_path):
    """A function from runs to the appendix made from a record of them."""

    def write(*runs):
        for one in runs:
            Record(tmp_path).append(one)
        return appendix(tmp_path)

    return write


def line(text, *parts):
    """The line of the page that has all the parts."""
    (found,) = [line for line in text.splitlines() if all(part in line for part in parts)]
    return found


def test_the_pages_in_the_repository_are_made_from_its_files():
    """``python -m reproduction page`` writes them again, byte for byte."""
    assert document() == (ROOT / "docs" / "reproduction.md").read_text()
    assert appendix() == (FOLDER / "RUNS.md").read_text()


def test_every_run_of_the_repository_is_in_the_appendix():
    """Each run is counted once among how the runs were made, and has a line of its own."""
    text = (FOLDER / "RUNS.md").read_text()
    made, single = text.split("## How the runs were made")[1].split("## Every single run")
    rows = [line.split(" | ") for line in made.splitlines() if line.startswith("| ")][2:]
    n_runs = len(Record(FOLDER).runs())
    assert sum(int(cells[9]) for cells in rows) == n_runs
    heads = ("| case", "| ---")
    lines = [line for line in single.splitlines() if line.startswith("| ")]
    assert sum(not line.startswith(heads) for line in lines) == n_runs


def test_no_verdict_differs_from_its_rule():
    """The rule, written out again, gives every verdict of the repository."""
    for name in NAMES:
        lines = entries(experiment(name), Record(FOLDER).runs(name))
        for found in verdict_lines(lines).values():
            difference, verdict, p = found.comparison
            far = abs(difference) > 2 if p is None else p < 0.0455
            assert (verdict in ("better", "worse")) == far
            if far:
                assert (verdict == "better") == (difference > 0)


def test_every_number_of_the_paper_is_counted_once():
    tables = {name: entries(experiment(name), Record(FOLDER).runs(name)) for name in NAMES}
    total = sum(verdict_counts(tables).values(), Counter())
    times = sum(c.metric == "update_median" for name in NAMES for c in paper_cells(name))
    assert sum(total.values()) + 42 == sum(len(paper_cells(name)) for name in NAMES) - times


def test_every_kind_of_difference_has_a_cause():
    for name in NAMES:
        for cell in paper_cells(name):
            assert cause_of(name, cell.method) in CAUSES


def test_without_runs_everything_is_missing(tmp_path):
    text = document(tmp_path, tmp_path)
    assert "| tiny20 | 18 | 0 | 0 | 0 | 0 | 18 |" in text
    assert "`python -m reproduction run tiny20 --method mp-two-stage`" in text
    assert "No runs yet." in appendix(tmp_path)


def test_variants_are_shown_and_only_the_papers_protocol_counts(listed):
    records = [
        run(0, "paper-3", method, "100,20", 40_000, experiment="bmf", noise=noise, test_elbo=-17.0)
        for method in ("mp", "mp-two-stage")
        for noise in ("gaussian", "uniform")
    ]
    text = listed(*records).split("## Every single run")[0]
    for how, verdict in {
        "two-stage, gaussian": "**too few runs**",
        "two-stage, uniform": "variant",
        "collapsed, gaussian": "variant",
        "collapsed, uniform": "variant",
    }.items():
        found = line(text, "| 100,20 | mp, 40,000 |", f"| {how}, stop 0.001 |")
        assert "paper-3 (1 of 4 run) | 0 | test Elbo | -17.00 (–)" in found
        assert "-17.01 (1.28)" in found
        assert found.endswith(f"{verdict} |")


def test_other_starts_are_shown(listed):
    text = listed(*(scored(s, bound, init) for s, bound, init in _TWO_STARTS))
    assert "**match** |" in line(text, "paper-4 (best on test, 2 of 4 run)", "test Elbo")
    assert "other start |" in line(text, "paper-3 (2 of 4 run)", "test Elbo")


_TWO_STARTS = [(s, -43.0, "paper-4") for s in range(6)] + [(s, -60.0, "paper-3") for s in range(6)]


@pytest.mark.parametrize(("bound", "verdict"), [(-300.0, "worse"), (300.0, "better")])
def test_numbers_that_differ_are_listed_with_a_cause(page, bound, verdict):
    text = page(scored(0, bound)).split("## Numbers that differ")[1].split("\n## ")[0]
    found = line(text, f"| BD | mp, 3,000 | test Elbo | 1 | {bound:.2f} (–) |")
    assert found.endswith(f"| {verdict} | {CAUSES['noise'][0]} |")


def test_the_appendix_says_what_the_files_say(listed):
    record = scored(0, -43.0)
    record["settings"]["protocol"] = {"learning_rate": 0.5, "batch_size": 7}
    record["environment"] |= {"commit": "0123456789" * 4 + "+", "date": "2030-01-02T03:04:05"}
    text = listed(record)
    found = line(text, "| deconvolution | mp | 0.5 | 7 | two-stage | gaussian |")
    assert "| 0123456+ | 1 |" in found
    assert "2030-01-02" in found
    assert "test Elbo -43" in line(
        text, "| BD | mp-two-stage, 3,000 | paper-3, gaussian, –, – | 0 |"
    )


def test_what_a_file_does_not_say_is_not_made_up(listed):
    record = scored(0, -43.0)
    record["settings"]["protocol"] = {}
    found = line(listed(record), "| deconvolution | mp |")
    assert found.count("not recorded") == 7  # rate, batch, three versions, commit, date


def test_what_was_filled_in_from_history_is_marked(listed):
    record = scored(0, -43.0)
    record["settings"]["protocol"] = {"learning_rate": 0.01, "batch_size": None}
    record["from_history"] = {
        "fields": ["noise", "settings.protocol"],
        "added_in": "abc",
        "added_at": "2029-01-01",
        "removed_in": "def",
    }
    text = listed(record)
    found = line(text, "| deconvolution | mp |")
    assert "| 0.01 (h) | all rows (h) | two-stage | gaussian (h) |" in found
    assert "2029-01-01" in found
    assert "| 0 † |" in line(text, "| BD | mp, 3,000 |", "test Elbo")


@pytest.mark.parametrize(("splits", "answer"), [(5, None), (6, "(better)")])
def test_whether_the_hybrid_wins_needs_enough_splits(page, splits, answer):
    records = [
        {
            **run(
                *(seed, "paper-3", method, "tiny20", 1500),
                experiment="tiny20",
                noise="none",
                test_elbo=bound - seed / 100 + (0.01 if method == "vi" and seed % 2 else 0),
                test_elbo_mp=-14.5,
                test_elbo_vi=bound,
            ),
            "tolerance": 1e-4,
        }
        for method, bound in {"hybrid-two-stage": -14.3, "vi": -14.4}.items()
        for seed in range(splits)
    ]
    text = " ".join(page(*records).split())
    assert ("beside full on" in text) == (answer is not None)
    if answer is not None:
        assert f"beside full on {splits} splits {answer}" in text


def test_other_starts_of_tiny20_are_compared_on_the_same_splits(page):
    bounds = {"paper-3": (-14.0, -15.0), "paper-4": (-13.5, -15.5), "paper-1": (-14.5, -15.0)}
    records = [
        run(seed, init, "mp-two-stage", "tiny20", 1000, experiment="tiny20", noise="none",
            test_elbo=elbo - seed, test_elbo_mp=mode, test_elbo_vi=elbo - seed)
        for init, (elbo, mode) in bounds.items()
        for seed in range(2 if init == "paper-3" else 1)
    ]  # fmt: skip
    text = page(*records)
    assert "| mp | paper-4 | 0 | -0.500 (–) | +0.500 (–) |" in text
    assert "| mp | paper-1 | 0 | +0.000 (–) | -0.500 (–) |" in text


def test_reruns_are_compared(page):
    def mp(seed, bound):
        how = {"experiment": "tiny20", "noise": "none"}
        return run(seed, "paper-3", "mp-two-stage", "tiny20", 1000, **how, test_elbo=bound,
                   test_elbo_mp=bound, test_elbo_vi=bound)  # fmt: skip

    hybrid = run(
        *(0, "paper-3", "hybrid-two-stage", "tiny20", 1500),
        experiment="tiny20",
        noise="none",
        test_elbo=-14.3,
        test_elbo_mp=-14.6,
        test_elbo_vi=-14.3,
        mp_phase_steps=1000.0,
        mp_phase_test_elbo=-14.6,
        mp_phase_test_elbo_mp=-14.6,
        mp_phase_test_elbo_vi=-14.7,
    )
    text = " ".join(page(mp(0, -14.5), mp(1, -14.5), hybrid).split())
    assert "1 max-product runs were made twice" in text
    assert "by up to 0.10; the standard deviation of a rerun is 0.071" in text
    assert "| after max-product | -14.60 (–) | -14.49 (0.03) | -14.70 (–) | -14.49 (0.03) |" in text


def test_idle_causes_are_counted(page):
    record = {
        **run(0, "paper-3", "vi", "tiny20", 1500, experiment="tiny20", noise="none",
              test_elbo=-14.4, test_elbo_mp=-14.8, test_elbo_vi=-14.4),
        "tolerance": 1e-4,
        "arrays": {  # two visibles, three causes: strong, idle, at the floor
            "child_ptr": np.array([0, 3, 3, 3, 3, 3]),
            "parent": np.array([0, 1, 2]),
            "theta": np.array([2.0, 0.01, 0.01]),
            "leak": np.array([0.01, 0.01, 0.5, 0.25, 1e-5]),
            "levels": np.array([2, 2, 2]),
            "names": np.array(["a", "b"]),
        },
    }  # fmt: skip
    found = line(page(record), "| vi, paper-3 | 1 | 1 | 0.250 | -14.80 | -14.55 |")
    assert "| 0.40 | 0.39 |" in found


def factored(elbo, noise, init="paper-3", seed=0, method="mp-two-stage", case="200,80"):
    how = {"experiment": "bmf", "noise": noise, "test_elbo": elbo, "test_re_pct": 10.0}
    return run(seed, init, method, case, 40_000, **how)


def test_the_best_start_of_each_noise_is_in_its_column(page):
    text = (
        page(
            factored(-64.0, "gaussian"),
            factored(-90.0, "uniform"),
            factored(-81.0, "uniform", "paper-2"),
            factored(-83.0, "uniform", "paper-2", seed=1),
            factored(-64.0, "gaussian", case="400,80"),
            factored(-85.0, "uniform", method="mp", case="400,80"),
        )
        .split("### Noise at the start")[1]
        .split("###")[0]
    )
    row = line(text, "| 200,80 |")
    assert "| -64.00 (+2.9), paper-3, 1 | -82.00 (-0.4), paper-2, 2 | -80.23 (1.68) |" in row
    assert "400,80" not in text  # no run with the noise of the software in the paper's order


def test_numbers_that_differ_are_counted_for_each_noise(page):
    """Only those that were run with both noises: two at 200,80, none at 100,20."""
    words = " ".join(
        page(
            factored(-20.0, "gaussian"),
            factored(-81.0, "uniform"),
            factored(-20.0, "gaussian", case="100,20"),
        ).split()
    )
    assert "Of 2 numbers that were run with both noises, 1 differ" in words
    assert "and 0 with the noise of the software. By chance about 0" in words


def test_full_recoveries_by_the_part_of_the_noise(tmp_path):
    kinds = {
        "failures gaussian, priors none": {"0": 8, "1": 6},
        "failures uniform, priors gaussian": {"0": 8, "1": 8},
    }
    content = {"recovered": {"CON8,10": kinds}}
    (tmp_path / "overparam_noise.json").write_text(json.dumps(content))
    how = {"experiment": "overparam", "recovered": 6.0, "full_recovery_pct": 0.0}
    record = run(0, "paper-4", "mp-two-stage", "CON8,10", 45_000, **how)
    Record(tmp_path).append(record)
    assert "| CON8,10 | 0, 1 | 50, 2 | 100, 2 | – |" in document(tmp_path, tmp_path)


def test_the_starts_that_count_are_named(page):
    how = {"experiment": "tiny20", "noise": "none", "test_elbo": -14.4, "test_elbo_vi": -14.4}
    records = [
        run(seed, init, "mp-two-stage", "tiny20", 1000, **how, test_elbo_mp=bound)
        for init, bound in {"paper-2": -14.49, "paper-3": -15.5}.items()
        for seed in range(6)
    ]
    words = " ".join(page(*records).split())
    assert "Max-product counts from paper-2 (6 splits): Elbo^MP -14.49, +0.00 from the" in words


def test_the_errors_of_joint_max_product_by_precision_are_quoted(tmp_path):
    single = {"0": {"test_re_pct": 10.0}, "1": {"test_re_pct": 12.0}}
    double = {"0": {"test_re_pct": 13.0}, "1": {"test_re_pct": 7.0}}
    content = {"runs": {"100,20": {"single precision": single, "double precision": double}}}
    (tmp_path / "joint_clipping.json").write_text(json.dumps(content))
    words = " ".join(document(tmp_path, tmp_path).split())
    assert "at 100 x 20 over 2 seeds with the same data and noise: 11.0 (1.0) in single" in words
    assert "10.0 (3.0) in double precision" in words
    assert "differ from the first kind by 4.0 on average" in words


def test_the_time_of_a_run_is_that_of_each_case(page):
    records = [
        {**run(0, "paper-3", "vi", case, 40_000, experiment="bmf", test_elbo=elbo,
               test_re_pct=20.0), "seconds": {"total": seconds}}
        for case, elbo, seconds in (("100,60", -78.0, 90.0), ("200,40", -103.0, 600.0))
    ]  # fmt: skip
    assert "| 90 s to 10 min |" in line(page(*records), "| vi | 100 x 20, 100 x 40, 100 x 60")


def test_update_times_stand_beside_the_papers(tmp_path):
    content = {
        "machine": {"share_of_cpu_used_by_others": 0.5},
        "cases": {
            "100,20": {
                "mp": {"paper": 0.5, "defaults": 0.25},
                "vi": {"paper": 4.0, "defaults": None},
                "paper_seconds": {"mp": 0.09, "vi": 0.62},
            }
        },
        "ancestors_only": {"rows": 512, "elbo_mp_ancestors": -438.5, "elbo_mp_all": -438.25},
    }
    (tmp_path / "paper_update_times.json").write_text(json.dumps(content))
    text = document(tmp_path, tmp_path)
    assert "| 100,20 | 0.0005 | 0.00025 | 0.09 | 0.004 | – | 0.62 |" in text
    words = " ".join(text.split())
    assert "other programs used 50 % of the two cores" in words
    assert "On 512 test documents of IMDB the mean Elbo^MP is -438.50 with" in words


def test_networks_of_run_files_are_those_that_were_trained():
    """Parameters are kept with two bytes each: bounds of mean field differ by next to nothing."""
    found = json.loads((ROOT / "results" / "tiny20_modes.json").read_text())["networks"]
    hybrids = [network for network in found.values() if "hybrid" in network["method"]]
    assert len(hybrids) >= 6
    for network in hybrids:
        recorded, again = network["recorded"], network["log_joint"]
        assert abs(recorded["vi"] - again["mean_field_bound"]) < 2e-3
        assert abs(recorded["mp"] - again["q >= 0.5"]) < 5e-3
        assert again["polished"] >= again["collapsed"]
