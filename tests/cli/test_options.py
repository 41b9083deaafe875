"""What the commands have in common."""

from __future__ import annotations

import pytest

from noisyor.cli.options import as_flags
from noisyor.tables.cells import role_hint


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("ReadOptions(above=0) turns", "--above 0 turns"),
        ('give ReadOptions(encoding="latin-1") or', "give --encoding latin-1 or"),
        ("ReadOptions(encoding_errors='replace')", "--encoding-errors replace"),
        ("(see ReadOptions(variable='a b'))", "(see --variable 'a b')"),
        ("no options at all", "no options at all"),
    ],
)
def test_messages_of_the_library_speak_of_flags(message, expected):
    assert as_flags(message) == expected


def test_both_options_of_a_hint_are_translated():
    text = as_flags(role_hint("legs (four)"))
    assert "--id-column 'legs (four)'" in text
    assert "--drop 'legs (four)'" in text
    assert "ReadOptions" not in text
