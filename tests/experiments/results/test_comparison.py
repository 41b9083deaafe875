from __future__ import annotations

import json
import math

import pytest

from noisyor.experiments import NAMES, experiment
from noisyor.experiments.records import RUN_FORMAT, merge_runs, with_mp_phase
from noisyor.experiments.results.comparison import Stat, build_summary, compare, entries, stat
from noisyor.experiments.results.page import document
from noisyor.experiments.results.paper import PaperCell, paper_cells
from noisyor.experiments.results.terminal import table_text


def cell(metric, mean, spread, steps=3000):
    return PaperCell("bd", "mp", "BD", steps, metric, mean, spread)


def run(seed, init="paper-3", method="mp", case="BD", steps=3000, part="test", **metrics):
    return {
        "experiment": "deconvolution",
        "part": part,
        "case": case,
        "steps": steps,
        "seed": seed,
        "init": init,
        "noise": "gaussian",
        "tolerance": None,
        "damping": None,
        "method": method,
        "metrics": metrics,
        "seconds": {"total": 1.0, "update_median": 0.02},
        "environment": {"cpu": "a processor", "cpu_count": 2, "threads": 1, "noisyor": "0"},
        "arrays": {},
    }


def scored(seed, elbo, init="paper-3"):
    return run(
        seed,
        init,
        test_elbo=elbo,
        test_re_pct=3.0,
        features_iou=1.0,
        trivial_elbo=-210.0,
        trivial_re_pct=23.0,
        trivial_features_iou=0.0,
    )


class TestStat:
    def test_standard_deviation(self):
        assert stat("test_elbo", [1.0, 2.0, 3.0]) == Stat(2.0, 1.0, 3)

    def test_one_run_has_no_spread(self):
        mean, spread, n = stat("test_elbo", [1.0])
        assert (mean, n) == (1.0, 1)
        assert math.isnan(spread)

    def test_recovery(self):
        assert stat("recovered", [6, 7, 8]).spread == pytest.approx(1.96 / math.sqrt(3))
        share = stat("full_recovery_pct", [100.0, 0.0, 100.0, 100.0])
        assert share.mean == 75.0
        assert share.spread == pytest.approx(196 * math.sqrt(0.75 * 0.25 / 4))


class TestCompare:
    def test_by_hand(self):
        # spreads 3 and 4 combine to 5; 10 better is 2 combined spreads: still a match
        paper = cell("test_elbo", -50.0, 4.0)
        assert compare("test_elbo", Stat(-40.0, 3.0, 10), paper, True) == (2.0, "match")
        assert compare("test_elbo", Stat(-39.0, 3.0, 10), paper, True) == (2.2, "beat")
        assert compare("test_elbo", Stat(-61.0, 3.0, 10), paper, True) == (-2.2, "miss")

    def test_smaller_is_better(self):
        paper = cell("test_re_pct", 5.0, 1.0)
        difference, verdict = compare("test_re_pct", Stat(2.0, 0.0, 3), paper, False)
        assert (difference, verdict) == (3.0, "beat")
        assert compare("test_re_pct", Stat(8.0, 0.0, 3), paper, False).verdict == "miss"

    def test_without_any_spread_the_printed_digits_decide(self):
        paper = cell("features_iou", 0.0, 0.0)
        assert compare("features_iou", Stat(0.004, 0.0, 10), paper, True).verdict == "match"
        assert compare("features_iou", Stat(0.02, 0.0, 10), paper, True).verdict == "beat"

    def test_one_run_is_taken_to_spread_as_the_papers_do(self):
        paper = cell("test_elbo", -50.0, 1.0)
        difference, verdict = compare("test_elbo", Stat(-53.0, math.nan, 1), paper, True)
        assert difference == pytest.approx(-3.0 / math.sqrt(2.0))
        assert verdict == "miss"

    def test_intervals_are_turned_into_standard_errors(self):
        # standard errors: the paper's 0.3, ours 0.4, which combine to 0.5
        paper = cell("recovered", 6.0, 1.96 * 0.3)
        difference, verdict = compare("recovered", Stat(7.25, 1.96 * 0.4, 50), paper, True)
        assert difference == pytest.approx(2.5)
        assert verdict == "beat"

    @pytest.mark.parametrize("metric", ["recovered", "full_recovery_pct"])
    def test_two_runs_that_agree_are_not_steadier_than_fifty_of_the_paper(self, metric):
        # two runs as varied as the paper's have 5 times its standard error: 0.1 and 0.5
        paper = cell(metric, 7.0, 1.96 * 0.1)
        difference, verdict = compare(metric, Stat(8.0, 0.0, 2), paper, True)
        assert difference == pytest.approx(1.0 / math.hypot(0.1, 0.5))
        assert verdict == "match"

    def test_an_interval_of_zero_around_a_fractional_count_is_a_misprint(self):
        # counts with a mean of 7.92 have at least a variance of 0.08 * 0.92
        paper = cell("recovered", 7.92, 0.0)
        error = math.sqrt(0.08 * 0.92 / 50)
        difference, verdict = compare("recovered", Stat(8.0, 0.0, 50), paper, True)
        assert difference == pytest.approx(0.08 / math.hypot(error, error))
        assert verdict == "match"

    def test_nothing_to_compare(self):
        assert compare("test_elbo", Stat(1.0, 1.0, 5), None, True) == (None, None)
        alone = compare("recovered", Stat(8.0, math.nan, 1), cell("recovered", 8.0, 0.1), True)
        assert alone == (None, None)


class TestChoiceOfTheStart:
    def test_validation_decides_and_the_papers_rule_stands_beside_it(self):
        runs = [scored(s, -45.0, "paper-3") for s in (0, 1)] + [
            scored(s, -40.0, "paper-4") for s in (0, 1)
        ]
        bounds = {"paper-3": -44.0, "paper-4": -46.0}
        runs += [
            run(0, init, part="validation", validation_elbo=value) for init, value in bounds.items()
        ]
        lines = entries(experiment("deconvolution"), merge_runs(runs))
        rules = {(line.init, line.rule) for line in lines}
        assert rules == {
            ("paper-3", "validation"),
            ("paper-4", "best on test, the paper's rule"),
        }

    def test_both_rules_agree(self):
        runs = [scored(0, -45.0, "paper-3"), scored(0, -40.0, "paper-4")]
        runs += [
            run(0, init, part="validation", validation_elbo=value)
            for init, value in (("paper-3", -9.0), ("paper-4", -8.0))
        ]
        lines = entries(experiment("deconvolution"), merge_runs(runs))
        assert {(line.init, line.rule) for line in lines} == {
            ("paper-4", "validation; also best on test")
        }

    def test_only_seeds_that_all_starts_have_are_compared(self):
        runs = [scored(s, -40.0, init) for s in (0, 1) for init in ("paper-3", "paper-4")]
        runs += [
            run(0, "paper-3", part="validation", validation_elbo=-10.0),
            run(0, "paper-4", part="validation", validation_elbo=-9.0),
            run(1, "paper-3", part="validation", validation_elbo=-1.0),  # no partner
        ]
        lines = entries(experiment("deconvolution"), merge_runs(runs))
        assert lines[0].init == "paper-4"
        assert lines[0].rule.startswith("validation")

    def test_without_validation_only_the_papers_rule_is_shown(self):
        runs = [scored(0, -45.0, "paper-3"), scored(0, -40.0, "paper-4")]
        lines = entries(experiment("deconvolution"), runs)
        assert {line.rule for line in lines} == {"best on test, the paper's rule"}
        assert {line.init for line in lines} == {"paper-4"}

    @pytest.mark.parametrize(("method", "chosen"), [("mp", "paper-1"), ("hybrid", "paper-4")])
    def test_max_product_is_chosen_by_the_bound_that_it_trains(self, method, chosen):
        bounds = {"paper-1": (-438.5, -437.3), "paper-4": (-438.8, -435.5)}
        runs = [
            run(
                0,
                init,
                method,
                "IMDB",
                4000,
                test_elbo=max(bound),
                test_elbo_mp=bound[0],
                test_elbo_vi=bound[1],
            )
            for init, bound in bounds.items()
        ]
        assert {line.init for line in entries(experiment("text"), runs)} == {chosen}

    def test_a_validation_run_alone_is_no_result(self):
        runs = merge_runs([run(0, part="validation", validation_elbo=-9.0)])
        assert entries(experiment("deconvolution"), runs) == []
        assert build_summary(experiment("deconvolution"), runs)["runs"] == []


class TestEntries:
    def test_against_the_papers_cells(self):
        lines = entries(experiment("deconvolution"), [scored(0, -41.0), scored(1, -43.0)])
        elbo = next(line for line in lines if line.metric == "test_elbo")
        assert elbo.ours == Stat(-42.0, pytest.approx(math.sqrt(2)), 2)
        assert (elbo.paper.mean, elbo.paper.spread) == (-43.12, 1.36)
        assert elbo.trivial == -210.0
        assert elbo.comparison.difference == pytest.approx(1.12 / math.hypot(math.sqrt(2), 1.36))
        assert elbo.comparison.verdict == "match"
        time = next(line for line in lines if line.metric == "update_median")
        assert time.paper.mean == 0.53
        assert time.comparison == (None, None)
        text = table_text(lines)
        assert "-42.00 (1.41)" in text
        assert "-43.12 (1.36)" in text
        assert "26.5 x" in text
        assert max(map(len, text.splitlines())) <= 100

    def test_other_steps_are_not_compared(self):
        record = {**scored(0, -41.0), "steps": 10}
        lines = entries(experiment("deconvolution"), [record])
        assert {line.comparison for line in lines} == {(None, None)}
        assert all(line.paper is None for line in lines if line.metric != "update_median")

    def test_substitutes_are_shown_but_not_judged(self):
        record = {
            **run(0, case="Agnews-partial", method="hybrid", steps=4000, test_elbo=-120.0),
            "experiment": "text",
        }
        line = entries(experiment("text"), [record])[0]
        assert line.paper.mean == -126.48
        assert line.comparison == (None, None)

    def test_the_first_phase_of_a_hybrid_is_a_max_product_run(self):
        record = {
            **run(
                0,
                case="IMDB",
                method="hybrid",
                steps=4000,
                test_elbo=-428.0,
                mp_phase_test_elbo=-437.0,
                mp_phase_test_elbo_mp=-438.0,
                mp_phase_steps=3600.0,
                trivial_elbo=-500.0,
            ),
            "experiment": "text",
        }
        derived = [one for one in with_mp_phase([record]) if one["method"] == "mp"]
        assert len(derived) == 1
        assert derived[0]["steps"] == 3600
        assert derived[0]["metrics"] == {
            "test_elbo": -437.0,
            "test_elbo_mp": -438.0,
            "trivial_elbo": -500.0,
        }
        own = {**derived[0], "metrics": {"test_elbo": -1.0}}
        assert with_mp_phase([record, own]).count(own) == 1
        assert len(with_mp_phase([record, own])) == 2


class TestPaper:
    def test_every_experiment_has_numbers(self):
        sizes = {name: len(paper_cells(name)) for name in NAMES}
        assert sizes == {
            "tiny20": 6 * 3,
            "text": 5 * (2 + 6 + 2),
            "bmf": 9 * 3 + (6 * 2 + 9) + 8,  # max-product, variational, joint
            "overparam": 28 * 2 + 21 * 2,
            "deconvolution": 3 + 3 + 2 + 2,
        }

    def test_some_cells_as_printed(self):
        cells = {
            (c.method, c.case, c.steps, c.metric): (c.mean, c.spread)
            for name in NAMES
            for c in paper_cells(name)
        }
        assert cells["hybrid", "tiny20", 1500, "test_elbo"] == (-14.34, 0.02)
        assert cells["mp", "IMDB", None, "test_elbo_mp"] == (-438.16, 0.04)
        assert cells["local-vi", "Yelp", None, "update_median"] == (18.89, 0.04)
        assert cells["mp", "100,20", 40_000, "test_re_pct"] == (4.44, 0.64)
        assert ("pmp", "400,240", 1000, "test_re_pct") not in cells
        assert cells["mp", "IMG-UNIF,16", 45_000, "full_recovery_pct"] == (86.0, 9.6)
        assert cells["pmp", "BD", 1000, "features_iou"] == (0.94, 0.03)


def test_summary_has_the_promised_shape():
    result = build_summary(experiment("deconvolution"), [scored(0, -41.0), scored(1, -43.0)])
    assert set(result) == {"experiment", "runs", "summary", "paper"}
    assert set(result["runs"][0]) >= {
        "seed",
        "init",
        "method",
        "metrics",
        "seconds",
        "environment",
    }
    assert {"total", "update_median"} <= set(result["runs"][0]["seconds"])


def test_document_without_runs_lists_what_is_missing(tmp_path):
    text = document(tmp_path)
    assert "No runs yet." in text
    assert "mp: all 40 runs" in text
    assert "-14.34 (0.02)" in text


def test_a_run_by_either_schedule_counts_and_stands_beside_the_papers_number(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    for method in ("mp", "mp-two-stage"):
        record = run(0, case="100,20", method=method, steps=40_000, init="paper-3", test_elbo=-17.0)
        record = {**record, "experiment": "bmf", "format": RUN_FORMAT}
        (folder / f"{method}.json").write_text(json.dumps(record))
    text = document(tmp_path)
    assert "* mp on 100,20: 39 of 40 runs" in text
    assert "two-stage: all" not in text
    for method in ("mp", "mp-two-stage"):
        line = next(line for line in text.splitlines() if f"| 100,20 | {method} |" in line)
        assert "-17.01 (1.28)" in line
