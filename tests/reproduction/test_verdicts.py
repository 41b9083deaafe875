"""Verdicts by hand, and that no match is given without the power to find a difference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduction.comparison import (
    EFFECT_OF_SHARE,
    TOO_FEW,
    Stat,
    chance_beyond_limit,
    compare,
    runs_needed,
    stat,
)
from reproduction.paper import PaperCell


def cell(metric, mean, printed, n_runs=10):
    return PaperCell("bd", "mp", "BD", 3000, metric, mean, printed, n_runs)


def test_standard_error():
    mean, error, n = stat([1.0, 2.0, 3.0])
    assert (mean, n) == (2.0, 3)
    assert error == pytest.approx(1.0 / math.sqrt(3.0))
    assert math.isnan(stat([1.0]).error)


class TestCompare:
    def test_by_hand(self):
        # errors 3 and 4 combine to 5; the paper's runs deviate by 4 root 10 = 12.6 nats
        paper = cell("test_elbo", -50.0, 4.0)
        assert compare(Stat(-40.0, 5.0, 40), paper, True).difference == pytest.approx(
            10.0 / math.hypot(5.0, 4.0)
        )
        assert compare(Stat(-40.0, 3.0, 40), paper, True) == (2.0, "match", None)
        assert compare(Stat(-39.0, 3.0, 40), paper, True) == (2.2, "better", None)
        assert compare(Stat(-61.0, 3.0, 40), paper, True) == (-2.2, "worse", None)

    def test_smaller_is_better(self):
        paper = cell("test_re_pct", 5.0, 1.0)
        assert compare(Stat(1.0, 0.1, 10), paper, False).verdict == "better"
        assert compare(Stat(9.0, 0.1, 10), paper, False).verdict == "worse"

    def test_runs_that_agree_are_not_steadier_than_the_papers(self):
        # ten runs as varied as the paper's ten have its standard error
        difference, *_ = compare(Stat(-47.0, 0.0, 10), cell("test_elbo", -50.0, 1.0), True)
        assert difference == pytest.approx(3.0 / math.sqrt(2.0))

    def test_without_any_spread_the_printed_digits_decide(self):
        paper = cell("features_iou", 0.0, 0.0)
        assert compare(Stat(0.004, 0.0, 10), paper, True).verdict == "match"
        assert compare(Stat(0.02, 0.0, 10), paper, True).verdict == "better"

    def test_intervals_are_turned_into_standard_errors(self):
        # standard errors: the paper's 0.3, ours 0.4, which combine to 0.5
        paper = cell("recovered", 6.0, 1.96 * 0.3, 50)
        difference, verdict, _ = compare(Stat(7.25, 0.4, 50), paper, True)
        assert difference == pytest.approx(2.5)
        assert verdict == "better"

    def test_an_interval_of_zero_around_a_fractional_count_is_a_misprint(self):
        # 46 of 50 runs, taken as 47 of 52
        assert cell("recovered", 7.92, 0.0, 50).error == pytest.approx(
            math.sqrt(47 / 52 * 5 / 52 / 50)
        )

    def test_fifty_of_fifty_are_not_a_certainty(self):
        for metric, scale in (("full_recovery_pct", 100.0), ("recovered", 1.0)):
            mean = 100.0 if scale == 100.0 else 8.0
            expected = scale * math.sqrt(51 / 52 * 1 / 52 / 50)
            assert cell(metric, mean, 0.0, 50).error == pytest.approx(expected)

    def test_nothing_to_compare(self):
        assert compare(Stat(1.0, 1.0, 5), None, True) == (None, None, None)


class TestPower:
    def test_how_many_runs(self):
        assert (runs_needed(10), runs_needed(50)) == (6, 4)
        assert runs_needed(50, EFFECT_OF_SHARE) == 10

    def test_a_single_run_that_is_far_apart_is_better(self):
        """Power is asked of a match only."""
        found = compare(Stat(-98.0, math.nan, 1), cell("e", -152.0, 3.0), True)
        assert found.difference > 5
        assert found.verdict == "better"

    def test_two_splits_within_half_a_nat(self):
        """What was called a match: two tiny20 runs, where all methods lie within 0.15."""
        assert compare(Stat(-14.44, 0.14, 2), cell("e", -14.34, 0.02), True).verdict == TOO_FEW

    def test_two_of_three_against_one_of_seven(self):
        paper = cell("full_recovery_pct", 14.0, 9.6, 50)
        assert compare(Stat(66.7, 33.3, 3), paper, True).verdict == TOO_FEW

    @pytest.mark.parametrize(
        ("found", "n", "of_fifty", "p"), [(6, 10, 49, 0.002), (15, 20, 49, 0.006), (9, 20, 7, 0.01)]
    )
    def test_shares_are_compared_exactly(self, found, n, of_fifty, p):
        paper = cell("full_recovery_pct", 2.0 * of_fifty, 0.0, 50)
        compared = compare(stat([100.0] * found + [0.0] * (n - found)), paper, True)
        assert compared.p == pytest.approx(p, rel=0.05)
        assert compared.verdict == ("worse" if found / n < of_fifty / 50 else "better")

    def test_none_of_four_against_42_percent(self):
        """Four runs cannot be a match, and an exact test does not find them worse."""
        paper = cell("full_recovery_pct", 42.0, 13.7, 50)
        found = compare(Stat(0.0, 0.0, 4), paper, True)
        assert found.p > 0.05
        assert found.verdict == TOO_FEW

    @pytest.mark.parametrize("share", [0.0, 14.0, 42.0, 70.0, 98.0, 100.0])
    def test_a_share_of_enough_runs_can_fail_on_a_side_that_is_far(self, share):
        paper = cell("full_recovery_pct", share, 0.0, 50)
        n = runs_needed(50, EFFECT_OF_SHARE)
        none, all_of_them = (
            compare(Stat(of_runs, 0.0, n), paper, True).verdict for of_runs in (0.0, 100.0)
        )
        assert none == "worse" if share > 40 else all_of_them == "better"

    def test_a_larger_spread_of_ours_needs_more_runs(self):
        paper = cell("e", -50.0, 1.0)
        assert compare(Stat(-50.0, 1.0, 10), paper, True).verdict == "match"
        assert compare(Stat(-50.0, 3.0, 10), paper, True).verdict == TOO_FEW

    @given(n=st.integers(1, 60), paper_runs=st.sampled_from([10, 50]))
    def test_no_match_below_the_stated_number(self, n, paper_runs):
        error = math.nan if n == 1 else 1e-9
        near, far = (
            compare(Stat(mean, error, n), cell("e", 9.0, 1.0, paper_runs), True).verdict
            for mean in (9.5, 90.0)
        )
        assert near == (TOO_FEW if n < runs_needed(paper_runs) else "match")
        assert far == "better"

    def test_how_many_are_beyond_the_limit_by_chance(self):
        generator = np.random.default_rng(1)
        found = (np.abs(generator.normal(size=100_000)) > 2.0).mean()
        assert chance_beyond_limit() == pytest.approx(found, abs=0.002)

    def test_the_power_is_what_simulated_runs_have(self):
        """Six runs and ten that differ by 1.5 deviations: found in 80 % of all cases or more."""
        generator = np.random.default_rng(0)
        ours = generator.normal(1.5, 1.0, (20_000, runs_needed(10))).mean(axis=1)
        theirs = generator.normal(0.0, 1.0, (20_000, 10)).mean(axis=1)
        error = math.sqrt(1 / runs_needed(10) + 1 / 10)
        found = ((ours - theirs) / error > 2.0).mean()
        assert 0.8 <= found < 0.85
