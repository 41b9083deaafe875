"""Settings are checked in one place and refused in one wording."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from noisyor._util.validation import (
    BELOW_ONE,
    COUNT,
    COUNT_OR_ZERO,
    NOT_NEGATIVE,
    POSITIVE,
    Rule,
    check_choice,
    check_count,
    check_seed,
    check_settings,
    choice,
    count,
    or_none,
)
from noisyor.errors import InvalidSettingError

NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (COUNT, [1, np.int32(5)], [0, -1, 1.0, True, "1", None]),
        (COUNT_OR_ZERO, [0, 3], [-1, 0.5, False, None]),
        (count(2), [2, 9], [1, 2.5]),
        (NOT_NEGATIVE, [0, 0.0, 2.5, np.float32(1)], [-1e-9, NAN, INFINITY, "0", None]),
        (BELOW_ONE, [0, 0.999], [1, 1.0, -0.1, NAN]),
        (choice("a", "b"), ["a", "b"], ["c", "", None, 1, ["a"]]),
        (or_none(COUNT), [None, 1], [0, "none"]),
    ],
)
def test_rules_hold_for_good_values_only(rule: Rule, good: list[object], bad: list[object]) -> None:
    for value in good:
        rule.check("setting", value)
    for value in bad:
        with pytest.raises(InvalidSettingError) as caught:
            rule.check("setting", value)
        assert str(caught.value) == f"setting must be {rule.expected}, got {value!r}"


def test_rules_say_what_is_expected() -> None:
    assert COUNT.expected == "1, 2, …"
    assert count(2).expected == "2, 3, …"
    assert choice("a").expected == "'a'"
    assert choice("a", "b").expected == "'a' or 'b'"
    assert choice("a", "b", "c").expected == "'a', 'b' or 'c'"
    assert or_none(NOT_NEGATIVE).expected == "at least 0 or None"


@dataclass
class Settings:
    rounds: int
    share: float


def test_settings_of_an_object_are_checked_in_order() -> None:
    rules = {"rounds": COUNT, "share": BELOW_ONE}

    check_settings(Settings(1, 0.5), rules)
    with pytest.raises(InvalidSettingError, match=r"^share must be in \[0, 1\), got 1$"):
        check_settings(Settings(1, 1), rules)
    with pytest.raises(InvalidSettingError, match=r"^rounds must be"):
        check_settings(Settings(0, 1), rules)


def test_checked_values_are_plain() -> None:
    assert type(check_count("n", np.int64(3))) is int
    assert type(check_seed(np.uint8(3))) is int
    assert check_choice("kind", "a", ("a", "b")) == "a"


def test_single_values_are_refused_by_name() -> None:
    with pytest.raises(InvalidSettingError, match=r"^n_chains must be 2, 3, …, got 1$"):
        check_count("n_chains", 1, 2)
    for value in (0, -1.0, NAN, INFINITY, None):
        with pytest.raises(InvalidSettingError, match=r"^rate must be a positive number, got"):
            POSITIVE.check("rate", value)
    with pytest.raises(InvalidSettingError, match=r"^kind must be 'a' or 'b', got 'c'$"):
        check_choice("kind", "c", ("a", "b"))
    for value in (-1, 2**63, 0.5, True, "0"):
        with pytest.raises(InvalidSettingError, match=r"^seed must be a whole number"):
            check_seed(value)
