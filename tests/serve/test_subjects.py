"""Every kind of model file answers the same questions."""

from __future__ import annotations

import json

import pytest
from report_examples import NASTY

from noisyor.errors import ModelFileError
from noisyor.serve.networks import load_subject
from noisyor.serve.subjects import Findings, matches

KINDS = ("clinic", "topics", "image")


@pytest.fixture(scope="module")
def subjects(models):
    return {kind: load_subject(getattr(models, kind)) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_answers(subjects, kind):
    subject = subjects[kind]
    about = subject.about()
    assert about["n_causes"] > 0
    offered = subject.complete("o" if kind == "topics" else "e", 5)
    assert len(offered) <= 5
    first, other = (subject.find(one["id"]) for one in offered[:2])
    assert first != other
    for findings in (Findings((), ()), Findings((first,), ()), Findings((first,), (other,))):
        answer = subject.explain(findings, 3)
        json.dumps(answer, allow_nan=False)
        assert len(answer["causes"]) <= 3
        assert [len(answer["present"]), len(answer["absent"])] == [len(part) for part in findings]
        chances = [cause["probability"] for cause in answer["causes"]]
        assert chances == sorted(chances, reverse=True)
        known = {one["id"] for state in ("present", "absent") for one in answer[state]}
        assert known.isdisjoint(one["id"] for one in answer["likely"] + answer["questions"])
    assert answer["causes"]
    assert answer["questions"]
    changed = subject.what_if(Findings((first,), ()), other)
    assert changed["now"] == "unknown"
    assert [change["if"] for change in changed["changes"]] == ["present", "absent"]
    forgotten = subject.what_if(Findings((first,), ()), first)
    assert [change["if"] for change in forgotten["changes"]] == ["unknown", "absent"]


def test_the_answer_is_that_of_the_network(subjects):
    clinic = subjects["clinic"]
    answer = clinic.explain(Findings((0, 3), (4,)), 10)
    assert answer["causes"][0]["name"] == "measles"
    assert answer["exact"]
    explained = {one["name"] for one in answer["causes"][0]["explains"]}
    assert explained == {"fever", "rash"}
    assert answer["likely"][0]["name"] == "red eyes"
    assert answer["likely"][0]["probability"] > 5 * answer["likely"][0]["base"]


def test_one_disease_explains_another_away(subjects):
    clinic = subjects["clinic"]
    changed = clinic.what_if(Findings((0,), ()), 3)
    present = next(change for change in changed["changes"] if change["if"] == "present")
    shifts = {shift["name"]: shift for shift in present["shifts"]}
    assert shifts["measles"]["after"] > shifts["measles"]["before"]
    assert shifts["flu"]["explained_away_by"] == "measles"


def test_an_image_shows_what_every_pixel_will_be(subjects):
    image = subjects["image"]
    assert image.about()["image"] == [6, 7]
    middle = image.find("pixel 2,3")
    pixels = image.explain(Findings((middle, middle + 1), ()), 5)["pixels"]
    assert len(pixels) == 42
    assert pixels[middle] == 1000
    assert pixels[middle + 7] > pixels[0]


def test_causes_without_names_get_some(subjects):
    causes = subjects["topics"].explain(Findings((0,), ()), 5)["causes"]
    assert any(": goal, team" in cause["name"] for cause in causes)


def test_completion_prefers_whole_names_then_beginnings(subjects):
    names = ["high fever", "fever", "feverfew", "hay fever", "unfevered"]
    assert [names[k] for k in matches(names, " FEVER ", 9, [5, 1, 1, 2, 9])] == [
        *("fever", "feverfew", "high fever", "hay fever", "unfevered")
    ]
    assert subjects["clinic"].complete("<scr", 3)[0]["name"] == NASTY
    assert subjects["clinic"].complete("", 2)[0]["name"] == "fever"  # the most common


def test_a_file_that_is_no_model(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    with pytest.raises(ModelFileError):
        load_subject(path)
