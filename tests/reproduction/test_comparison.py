from __future__ import annotations

import math

import pytest
from run_records import SETTINGS, run, scored

from reproduction import NAMES, experiment
from reproduction.comparison import (
    Stat,
    entries,
    groups,
    is_reproduction,
    verdict_lines,
)
from reproduction.paper import paper_cells
from reproduction.record import merge_runs, with_mp_phase
from reproduction.terminal import table_text


def verdicts(lines, metric="test_elbo"):
    """Verdict of each group by its method, noise and start."""
    return {
        (line.group.method, line.group.noise, line.group.init): line.comparison.verdict
        for line in lines
        if line.metric == metric
    }


class TestWhatCounts:
    def test_only_the_papers_order_and_noise_get_a_verdict(self):
        runs = [
            scored(seed, -43.0 - seed / 10, method=method, noise=noise)
            for seed in range(10)
            for method in ("mp", "mp-two-stage")
            for noise in ("gaussian", "uniform")
        ]
        lines = entries(experiment("deconvolution"), merge_runs(runs))
        assert verdicts(lines) == {
            ("mp-two-stage", "gaussian", "paper-3"): "match",
            ("mp-two-stage", "uniform", "paper-3"): None,
            ("mp", "gaussian", "paper-3"): None,
            ("mp", "uniform", "paper-3"): None,
        }
        assert all(line.comparison.difference for line in lines if line.metric == "test_elbo")

    def test_a_number_of_the_paper_is_counted_once(self):
        """Runs that stop and runs that do not have a line each; the one of more runs stands."""
        stopped = [{**scored(seed, -43.0 - seed / 10), "tolerance": 1e-4} for seed in range(10)]
        not_stopped = [scored(seed, -99.0) for seed in range(2)]
        lines = entries(experiment("deconvolution"), merge_runs([*stopped, *not_stopped]))
        assert sum(line.metric == "test_elbo" for line in lines) == 2
        found = {cell.metric: line for cell, line in verdict_lines(lines).items()}
        assert set(found) == {"test_elbo", "test_re_pct", "features_iou"}
        assert (found["test_elbo"].ours.n_runs, found["test_elbo"].comparison.verdict) == (
            10,
            "match",
        )

    @pytest.mark.parametrize("tolerances", [(None, 1e-4), (1e-4, None)])
    def test_of_lines_with_as_many_runs_the_usual_stop_counts(self, tolerances):
        runs = [{**scored(0, -43.0), "tolerance": tolerance} for tolerance in tolerances]
        lines = entries(experiment("deconvolution"), merge_runs(runs))
        lines.sort(key=lambda line: tolerances.index(line.group.tolerance))
        assert {line.group.tolerance for line in verdict_lines(lines).values()} == {None}

    def test_another_damping_is_a_variant(self):
        about = experiment("deconvolution")
        assert is_reproduction(about, scored(0, -43.0))
        assert not is_reproduction(about, {**scored(0, -43.0), "damping": 0.7})

    def test_joint_max_product_has_another_order(self):
        assert not is_reproduction(experiment("bmf"), run(0, "prior", "pmp", noise="gaussian"))

    def test_mean_field_has_no_order(self):
        assert is_reproduction(experiment("deconvolution"), run(0, method="vi"))

    def test_the_order_is_read_from_the_file_and_not_from_its_name(self):
        record = {**scored(0, -43.0), "settings": SETTINGS["mp"]}
        assert not is_reproduction(experiment("deconvolution"), record)

    def test_a_stop_makes_a_group_of_its_own(self):
        runs = [scored(0, -43.0), {**scored(0, -40.0), "tolerance": 0.0}]
        found = groups(experiment("deconvolution"), merge_runs(runs))
        assert {group.tolerance for group in found} == {None, 0.0}


class TestChoiceOfTheStart:
    def test_the_paper_chooses_on_test_rows_and_validation_is_shown(self):
        runs = [scored(s, -45.0, "paper-3") for s in range(6)]
        runs += [scored(s, -40.0, "paper-4") for s in range(6)]
        bounds = {"paper-3": -44.0, "paper-4": -46.0}
        runs += [
            run(0, init, part="validation", validation_elbo=value) for init, value in bounds.items()
        ]
        lines = entries(experiment("deconvolution"), merge_runs(runs))
        assert {(line.group.init, line.group.chosen) for line in lines} == {
            ("paper-3", ("validation",)),
            ("paper-4", ("test",)),
        }
        assert verdicts(lines) == {
            ("mp-two-stage", "gaussian", "paper-3"): None,
            ("mp-two-stage", "gaussian", "paper-4"): "match",
        }

    def test_only_seeds_that_all_starts_have_are_compared(self):
        runs = [scored(s, -40.0, init) for s in (0, 1) for init in ("paper-3", "paper-4")]
        runs += [scored(2, -1.0, "paper-3")]  # no partner
        runs += [scored(0, -39.0, "paper-1"), scored(1, -39.0, "paper-1")]
        found = groups(experiment("deconvolution"), runs)
        assert [group.init for group in found if "test" in group.chosen] == ["paper-1"]
        assert {group.n_starts for group in found} == {3}

    def test_a_start_with_few_runs_does_not_compete_with_one_that_has_enough(self):
        runs = [scored(seed, -43.0 - seed / 10, "paper-3") for seed in range(10)]
        few = [scored(seed, -1.0, "paper-4") for seed in range(5)]
        found = groups(experiment("deconvolution"), runs + few)
        assert [(g.init, g.n_compared) for g in found if "test" in g.chosen] == [("paper-3", 1)]
        enough = [*few, scored(5, -1.0, "paper-4")]
        found = groups(experiment("deconvolution"), runs + enough)
        assert [(g.init, g.n_compared) for g in found if "test" in g.chosen] == [("paper-4", 2)]

    @pytest.mark.parametrize(
        ("method", "chosen"), [("mp-two-stage", "paper-1"), ("hybrid-two-stage", "paper-4")]
    )
    def test_a_method_chooses_by_what_its_software_computes(self, method, chosen):
        bounds = {"paper-1": (-438.5, -437.3), "paper-4": (-438.8, -435.5)}
        runs = [
            run(
                *(0, init, method, "IMDB", 4000),
                experiment="text",
                noise="none",
                test_elbo=max(bound),
                test_elbo_mp=bound[0],
                test_elbo_vi=bound[1],
            )
            for init, bound in bounds.items()
        ]
        found = groups(experiment("text"), runs)
        assert [group.init for group in found if group.chosen] == [chosen]

    def test_max_product_on_text_counts_after_4000_updates(self):
        """The paper does not say after how many its numbers were taken."""
        runs = [
            run(
                *(0, "paper-1", "mp-two-stage", "IMDB", steps),
                experiment="text",
                noise="none",
                test_elbo_mp=-450.0,
            )
            for steps in (3600, 4000)
        ]
        found = {
            line.group.steps: line.comparison.verdict for line in entries(experiment("text"), runs)
        }
        assert found == {3600: None, 4000: "worse"}

    def test_a_validation_run_alone_is_no_result(self):
        runs = merge_runs([run(0, part="validation", validation_elbo=-9.0)])
        assert entries(experiment("deconvolution"), runs) == []


class TestEntries:
    def test_against_the_papers_cells(self):
        lines = entries(experiment("deconvolution"), [scored(0, -41.0), scored(1, -43.0)])
        elbo = next(line for line in lines if line.metric == "test_elbo")
        assert elbo.ours == Stat(-42.0, pytest.approx(1.0), 2)
        assert (elbo.paper.mean, elbo.paper.printed) == (-43.12, 1.36)
        assert elbo.trivial == -210.0
        # two runs as varied as the paper's ten have the root of five times its error
        expected = 1.12 / (1.36 * math.sqrt(6.0))
        assert elbo.comparison.difference == pytest.approx(expected)
        assert elbo.comparison.verdict == "too few runs"
        text = table_text(lines)
        assert "-42.00 (1.00)" in text
        assert "-43.12 (1.36)" in text
        assert "two-stage, gaussian, stop 0.001; seeds 0-1" in text
        assert max(map(len, text.splitlines())) <= 100

    def test_other_steps_are_not_compared(self):
        record = {**scored(0, -41.0), "steps": 10}
        lines = entries(experiment("deconvolution"), [record])
        assert {line.comparison for line in lines} == {(None, None, None)}
        assert all(line.paper is None for line in lines)

    def test_substitutes_are_shown_but_not_judged(self):
        record = run(
            *(0, "paper-3", "hybrid-two-stage", "Agnews-partial", 4000),
            experiment="text",
            noise="none",
            test_elbo=-120.0,
        )
        line = entries(experiment("text"), [record])[0]
        assert line.paper.mean == -126.48
        assert line.comparison == (None, None, None)

    def test_the_first_phase_of_a_hybrid_is_a_max_product_run(self):
        record = run(
            *(0, "paper-3", "hybrid-two-stage", "IMDB", 4000),
            experiment="text",
            noise="none",
            test_elbo=-428.0,
            mp_phase_test_elbo=-437.0,
            mp_phase_test_elbo_mp=-438.0,
            mp_phase_steps=3600.0,
            trivial_elbo=-500.0,
        )
        stopped = {**record, "tolerance": 1e-4}  # has the same first phase
        derived = [one for one in with_mp_phase([record, stopped]) if one["steps"] == 3600]
        assert len(derived) == 1
        assert derived[0]["method"] == "mp-two-stage"
        assert derived[0]["tolerance"] is None
        assert set(derived[0]["settings"]) == {"protocol", "mp"}
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
            (c.method, c.case, c.steps, c.metric): (c.mean, c.printed)
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
