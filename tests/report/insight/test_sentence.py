from __future__ import annotations

from noisyor.report.insight.sentence import Found, percent, sentences
from noisyor.report.words import WORDS

BASE = Found(12, 12, 0.57, 2000, "nasa, space", 0.053, 1, "ones")


def test_one_plain_sentence():
    assert sentences(BASE, WORDS["factors"]) == (
        "12 causes account for 57\u00a0% of the ones in 2,000 rows.",
        "The most common, “nasa, space”, is on in 5.3\u00a0% of rows.",
    )
    topics = BASE._replace(layers=2, n_working=1, things="words", n_rows=1)
    assert sentences(topics, WORDS["topics"])[0] == (
        "1 topic in 2 layers accounts for 57\u00a0% of the words in 1 document."
    )


def test_without_data_and_without_anything_on():
    alone = BASE._replace(share=None, n_rows=None)
    first, second = sentences(alone, WORDS["factors"])
    assert first == "12 causes behind the ones of a row."
    assert "is expected in" in second
    assert sentences(BASE._replace(n_working=0), WORDS["factors"]) == (
        "None of 12 causes does anything here.",
        "",
    )
    assert sentences(BASE._replace(commonest=None), WORDS["factors"])[1] == ""
    empty = BASE._replace(share=float("nan"))
    assert "nan" not in sentences(empty, WORDS["factors"])[0]


def test_features_lie_several_times_in_an_image():
    found = BASE._replace(commonest="feature 3", often=1.26)
    assert sentences(found, WORDS["features"], per_row=False)[1] == (
        "The most common, “feature 3”, lies 1.3 times per image."
    )


def test_percent():
    assert [percent(p) for p in (0, 0.0004, 0.0123, 0.4, 0.997, 1)] == [
        *("0.0\u00a0%", "under 0.1\u00a0%", "1.2\u00a0%", "40\u00a0%", "over 99\u00a0%"),
        "100\u00a0%",
    ]


def test_kinds_exclude_each_other():
    words = WORDS["factors"]._replace(cause="kind", causes="kinds")
    assert sentences(BASE, words) == (
        "Each of 2,000 rows is one of 12 kinds.",
        "The most common, “nasa, space”, is 5.3\u00a0% of rows.",
    )
