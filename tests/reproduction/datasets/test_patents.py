from __future__ import annotations

import pytest

from reproduction.datasets.patents import clean_description

LONG = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda"
VERY_LONG = " ".join("word" + chr(97 + k) for k in range(21))


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (LONG, LONG),
        ("ten different words are not enough for a line here\n" + LONG, LONG),
        (f"[0001] {LONG}\n\n  [0002]{LONG}  ", f"{LONG}\n{LONG}"),
        (f"{LONG}\nTABLE 1\n{LONG}\n1 2 3", LONG),
        (f"{LONG}\nTABLE 12 values of {LONG}\n{VERY_LONG}\n{LONG}", f"{LONG}\n{VERY_LONG}\n{LONG}"),
        (f"TABLE 1a {LONG}", f"TABLE 1a {LONG}"),
        (f"see FIG. 3 and FIGS. 4, 5 of {LONG}", f"see FIG3 and FIG4 of {LONG}"),
        (f"FIGURE 7 shows  {LONG}", f"FIG7 shows {LONG}"),
        ("", ""),
    ],
)
def test_rules(text, cleaned):
    assert clean_description(text) == cleaned
