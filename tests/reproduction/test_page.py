"""The page: what it says of every run, and that it is the one in the repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_records import run, scored

from reproduction import experiment
from reproduction.comparison import entries
from reproduction.page import document, noise_table
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


def line(text, *parts):
    """The line of the page that has all the parts."""
    (found,) = [line for line in text.splitlines() if all(part in line for part in parts)]
    return found


def test_the_page_in_the_repository_is_made_from_its_files():
    """``python -m reproduction page`` writes it again."""
    assert document() == (ROOT / "docs" / "reproduction.md").read_text()


def test_every_run_of_the_repository_is_on_the_page():
    """Each run is counted once among how the runs were made; none is left out."""
    text = (ROOT / "docs" / "reproduction.md").read_text()
    table = text.split("## How the runs were made")[1]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    assert sum(int(cells[9]) for cells in rows) == len(Record(FOLDER).runs())


def test_without_runs_everything_is_missing(tmp_path):
    text = document(tmp_path, tmp_path)
    assert "No runs yet." in text
    assert "mp: all 40 runs" in text
    assert "-14.34 (0.02)" in text
    assert "| tiny20 | 0 | 0 | 0 | 0 | 18 |" in text


def test_variants_are_shown_and_only_the_papers_protocol_counts(page):
    records = [
        run(0, "paper-3", method, "100,20", 40_000, experiment="bmf", noise=noise, test_elbo=-17.0)
        for method in ("mp", "mp-two-stage")
        for noise in ("gaussian", "uniform")
    ]
    text = page(*records)
    assert "* mp on 100,20: 39 of 40 runs" in text
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


def test_other_starts_are_shown(page):
    text = page(*(scored(s, bound, init) for s, bound, init in _TWO_STARTS))
    assert "**match** |" in line(text, "paper-4 (best on test, 2 of 4 run)", "test Elbo")
    assert "other start |" in line(text, "paper-3 (2 of 4 run)", "test Elbo")


_TWO_STARTS = [(s, -43.0, "paper-4") for s in range(6)] + [(s, -60.0, "paper-3") for s in range(6)]


@pytest.mark.parametrize(("bound", "verdict"), [(-300.0, "worse"), (300.0, "better")])
def test_numbers_that_differ_are_listed(page, bound, verdict):
    text = page(scored(0, bound)).split("## Verdicts")[1].split("\n## ")[0]
    found = line(text, f"| BD | mp, 3,000 | test Elbo | 1 | {bound:.2f} (–) |")
    assert found.endswith(f"| {verdict} |")


def test_the_page_says_what_the_files_say(page):
    record = scored(0, -43.0)
    record["settings"]["protocol"] = {"learning_rate": 0.5, "batch_size": 7}
    record["environment"] |= {"commit": "0123456789" * 4 + "+", "date": "2030-01-02T03:04:05"}
    found = line(page(record), "| deconvolution | mp | 0.5 | 7 | two-stage | gaussian |")
    assert "| 0123456+ | 1 |" in found
    assert "2030-01-02" in found


def test_what_a_file_does_not_say_is_not_made_up(page):
    record = scored(0, -43.0)
    record["settings"]["protocol"] = {}
    found = line(page(record), "| deconvolution | mp |")
    assert found.count("not recorded") == 7  # rate, batch, three versions, commit, date


def test_what_was_filled_in_from_history_is_marked(page):
    record = scored(0, -43.0)
    record["settings"]["protocol"] = {"learning_rate": 0.01, "batch_size": None}
    record["from_history"] = {
        "fields": ["noise", "settings.protocol"],
        "added_in": "abc",
        "added_at": "2029-01-01",
        "removed_in": "def",
    }
    text = page(record)
    found = line(text, "| deconvolution | mp |")
    assert "| 0.01 (h) | all rows (h) | two-stage | gaussian (h) |" in found
    assert "2029-01-01" in found
    assert "| 0 † |" in line(text, "| BD | mp, 3,000 |", "test Elbo")


def test_overparametrisations_from_both_starts_are_set_side_by_side(page):
    text = page(
        *(
            run(seed, init, case=case, steps=45_000, experiment="overparam", recovered=found)
            for case, init, found in (
                ("PLNT,8", "paper-3", 5.0),
                ("PLNT,8", "paper-4", 7.0),
                ("IMG,8", "paper-3", 6.0),
            )
            for seed in (0, 1)
        )
    )
    table = text.split("got a second chance.")[1].split("| case |")[0]
    row = "| PLNT,8 | 5.00 (0.00), seeds 0-1 | 7.00 (0.00), seeds 0-1 | 6.60 (0.09) |"
    assert row in table
    assert "IMG,8" not in table


@pytest.mark.parametrize(("splits", "answer"), [(5, "open"), (6, "better")])
def test_whether_the_hybrid_wins_is_open_until_enough_splits_are_run(page, splits, answer):
    records = [
        run(
            *(seed, "paper-3", method, "tiny20", 1500),
            experiment="tiny20",
            noise="none",
            test_elbo=bound - seed / 100 + (0.01 if method == "vi" and seed % 2 else 0),
        )
        for method, bound in {"hybrid-two-stage": -14.3, "vi": -14.4}.items()
        for seed in range(splits)
    ]
    found = line(page(*records), "| hybrid-two-stage less vi | none |")
    assert f"| {splits} |" in found
    assert found.endswith(f"| {answer} |")


def test_ways_to_find_the_mode_are_compared(tmp_path):
    ways = ("q >= 0.5", "collapsed", "two-stage", "polished")
    networks = {
        str(seed): {
            "method": "hybrid-two-stage",
            "init": init,
            "log_joint": {way: value - number for number, way in enumerate(ways)},
        }
        for seed, (init, value) in enumerate([("paper-3", -14.0), ("paper-3", -15.0), ("other", 9)])
    }
    (tmp_path / "tiny20_modes.json").write_text(json.dumps({"networks": networks}))
    text = " ".join(document(tmp_path, tmp_path).split())
    assert "over 2 splits it is -14.50 at q >= 0.5, -16.50 and -15.50 at what max-product" in text
    assert "and -17.50 after single flips that raise it; the paper has -14.55 (0.02)" in text


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


def test_other_starts_of_tiny20_are_compared_on_the_same_splits(page):
    bounds = {"paper-3": (-14.0, -15.0), "paper-4": (-13.5, -15.5), "paper-1": (-14.5, -15.0)}
    records = [
        run(seed, init, "mp-two-stage", "tiny20", 1000, experiment="tiny20", noise="none",
            test_elbo=elbo - seed, test_elbo_mp=mode, test_elbo_vi=elbo - seed)
        for init, (elbo, mode) in bounds.items()
        for seed in range(2 if init == "paper-3" else 1)
    ]  # fmt: skip
    text = page(*records)
    assert "| mp | paper-4 | 0 | +0.500 | -0.500 |" in text
    assert "| mp | paper-1 | 0 | -0.500 | +0.000 |" in text
    assert "for a verdict: mp from paper-4." in " ".join(text.split())


def test_graphs_of_tiny20_are_compared(tmp_path):
    bounds = {"elbo_mp": -14.5, "elbo_vi": -14.0}
    both = {
        "all rows": {"vi": bounds},
        "training rows": {"vi": {name: value - 1 for name, value in bounds.items()}},
    }
    (tmp_path / "tiny20_graph.json").write_text(json.dumps({"splits": {"0": both, "1": both}}))
    text = " ".join(document(tmp_path, tmp_path).split())
    assert "Elbo^MP is -14.50 and the Elbo^VI -14.00 on splits 0-1" in text
    assert "training rows has -15.50 and -15.00" in text


def table(*records):
    about = experiment("bmf")
    return noise_table(entries(about, records), about.noises, "test_elbo").splitlines()


def factored(elbo, noise, init="paper-3", seed=0, method="mp-two-stage", case="200,80"):
    how = {"experiment": "bmf", "noise": noise, "test_elbo": elbo}
    return run(seed, init, method, case, 40_000, **how)


def test_the_best_start_of_each_noise_is_in_its_column():
    _, _, row = table(
        factored(-64.0, "gaussian"),
        factored(-90.0, "uniform"),
        factored(-81.0, "uniform", "paper-2"),
        factored(-83.0, "uniform", "paper-2", seed=1),
    )
    case, gaussian, wide, uniform, paper = [cell.strip() for cell in row.strip("| ").split("|")]
    assert (case, paper) == ("200,80", "-80.23 (1.68)")
    assert gaussian.startswith("-64.00 (+2.9), paper-3 of 1 start, seeds 0")
    assert wide == "–"
    # one standard error apart from the paper would be the root of 1.68^2 + 1.68^2 * 10 / 2
    assert uniform == "-82.00 (-0.4), paper-2 of 2 starts, seeds 0-1"


def test_cases_with_one_noise_and_other_orders_of_messages_are_left_out():
    collapsed = factored(-85.0, "uniform", method="mp")
    assert table(factored(-64.0, "gaussian"), collapsed) == []
    assert table(collapsed) == []
