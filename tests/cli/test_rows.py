"""Lists of numbers on the command line, and data read in the columns of a model."""

from __future__ import annotations

import pytest

from noisyor.cli.options import number_ranges
from noisyor.cli.rows import row_numbers
from noisyor.errors import InvalidSettingError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", [0]),
        ("0-3", [0, 1, 2, 3]),
        ("0,3,5-7", [0, 3, 5, 6, 7]),
        (" 2 , 1 - 2 ,2", [2, 1]),
    ],
)
def test_row_numbers(text, expected):
    assert row_numbers(text, n_rows=8) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--rows is a list such as 0-9 or 0,3,5, got ''"),
        ("1,", "--rows is a list"),
        ("1-", "--rows is a list"),
        ("1,,2", "--rows is a list"),
        ("-1", "--rows is a list"),
        ("one", "--rows is a list"),
        ("²", "--rows is a list"),
        ("0,5-3", "--rows: 5-3 runs backwards"),
        ("0-8", "row 8 does not exist, there are rows 0 to 7"),
        ("0-999999999999999999", "row 999999999999999999 does not exist"),
    ],
)
def test_rows_that_cannot_be(text, message):
    with pytest.raises(InvalidSettingError, match=message):
        row_numbers(text, n_rows=8)


def test_ranges_are_not_written_out():
    (found,) = number_ranges("--seeds", "0-999999999999999999")
    assert found == range(10**18)
