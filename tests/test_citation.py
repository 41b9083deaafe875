"""The citation file: the version that is cited is the version that is installed."""

import re
from pathlib import Path

import noisyor

ROOT = Path(__file__).resolve().parents[1]


def test_the_cited_version_is_this_one():
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^version: (\S+)$", text, re.MULTILINE) == [noisyor.__version__]


def test_the_paper_is_cited_as_the_theory_page_cites_it():
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    names = re.findall(r"family-names: (.+)", text.split("- type: conference-paper")[1])
    entry = re.search(
        r"^\* Dedieu.*?\*The paper", (ROOT / "docs/theory.md").read_text("utf-8"), re.M | re.S
    )
    places = [entry[0].index(name) for name in names]
    assert places == sorted(places)
    assert len(names) == 4
