"""Headline and labels of the page."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from noisyor.errors import InvalidDataError
from noisyor.report.inputs import WORDS
from noisyor.report.sections import Share, count_labels, headline, label_section, percent

TABLE = WORDS["factors"]


def test_the_headline_names_causes_share_and_rows():
    found = headline(TABLE, 12, 14, 1, 2000, Share("reconstruct", 0.57))
    assert found == "12 causes reconstruct 57\u00a0% of the ones in 2,000 rows."
    found = headline(WORDS["topics"], 1, 1, 2, 1, Share("explain", 0.57))
    assert found == "1 topic in 2 layers explains 57\u00a0% of the words in 1 document."


def test_the_headline_without_data_and_without_anything_on():
    assert headline(TABLE, 12, 12, 1, None, None) == "12 causes behind the ones of a row."
    assert headline(TABLE, 0, 12, 1, 9, Share("reconstruct", 0.0)).startswith("None of 12 causes")
    assert "nan" not in headline(TABLE, 3, 3, 1, 9, Share("reconstruct", float("nan")))


def test_percent():
    assert [percent(p) for p in (0, 0.0004, 0.0123, 0.4, 0.997, 1)] == [
        *("0.0\u00a0%", "under 0.1\u00a0%", "1.2\u00a0%", "40\u00a0%", "over 99\u00a0%"),
        "100\u00a0%",
    ]


def test_counts_shares_and_lift_of_labels():
    labels = ["a"] * 6 + ["b"] * 3 + [""]
    states = sp.csr_array(np.array([[1, 0]] * 5 + [[0, 1]] + [[0, 1]] * 3 + [[1, 1]]))
    found = count_labels(labels, states, "kind")
    assert found.names == ("a", "b")
    assert found.rows.tolist() == [6, 3]
    assert found.on.tolist() == [[5, 0], [1, 3]]  # the row without a label is left out
    assert found.share[1].tolist() == [0.25, 0.75]
    assert found.lift[1, 1] == pytest.approx(0.75 / (3 / 9))
    assert found.leader.tolist() == [0, -1]  # four rows are too few to tell
    section = label_section(found, ["first", "second"])
    assert [cause["title"] for cause in section["groups"][0]["causes"]] == ["first"]
    assert section["groups"][1]["causes"] == []


def test_only_over_represented_labels_are_listed():
    """A cause that is on in all rows goes with no label more than with the others."""
    found = count_labels(["a"] * 20 + ["b"] * 10, sp.csr_array(np.ones((30, 1))), "kind")
    assert found.leader.tolist() == [-1]


def test_rare_labels_share_one_color():
    names = [name for name in "abcdefghij" for _ in range(6)]
    section = label_section(count_labels(names, sp.csr_array(np.eye(60)), "kind"), [""] * 60)
    assert [group["color"] for group in section["groups"]] == [*range(8), 8, 8]
    assert len(section["legend"]) == 8
    assert section["has_others"]


def test_an_id_is_no_label():
    states = sp.csr_array(np.ones((50, 1)))
    with pytest.raises(InvalidDataError, match="50"):
        count_labels([str(k) for k in range(50)], states, "name")
    with pytest.raises(InvalidDataError, match="name"):
        count_labels(["a"] * 50, states, "name")
