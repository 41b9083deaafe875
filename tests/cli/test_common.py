"""What the commands have in common."""

from __future__ import annotations

import pytest

from noisyor.cli.common import as_flags, printable, row_numbers
from noisyor.errors import InvalidSettingError
from noisyor.tables.hints import role_hint


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("ReadOptions(above=0) turns", "--above 0 turns"),
        ('give ReadOptions(encoding="latin-1") or', "give --encoding latin-1 or"),
        ("(see ReadOptions(variable='a b'))", "(see --variable 'a b')"),
        ("no options at all", "no options at all"),
    ],
)
def test_messages_of_the_library_speak_of_flags(message, expected):
    assert as_flags(message) == expected


def test_spaces_that_do_not_break_are_printed():
    assert printable("94\u00a0% of a\u202fb") == "94\u00a0% of a\u202fb"
    assert printable("\x1b[2J\u2028") == "\ufffd[2J\ufffd"


def test_names_of_arguments_are_options():
    assert as_flags("n_components is 9, n_layers=2") == "--components is 9, --layers 2"
    assert as_flags("no column 'n_layers'") == "no column 'n_layers'"


def test_both_options_of_a_hint_are_translated():
    text = as_flags(role_hint("legs (four)").text)
    assert "--id-column 'legs (four)'" in text
    assert "--drop 'legs (four)'" in text
    assert "ReadOptions" not in text


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
