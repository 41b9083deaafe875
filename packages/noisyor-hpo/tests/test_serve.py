"""The disease model answers the questions of the server."""

from __future__ import annotations

import json

import pytest

from noisyor.errors import InvalidDataError
from noisyor.serve.subjects import Findings
from noisyor_hpo import prepare_model
from noisyor_hpo.cli import main
from noisyor_hpo.serve import DiseaseSubject
from rare_diseases import write_annotations, write_ontology


@pytest.fixture(scope="module")
def diseases(tmp_path_factory) -> DiseaseSubject:
    folder = tmp_path_factory.mktemp("small")
    sources = write_annotations(folder / "small.hpoa"), write_ontology(folder / "hp.obo")
    return DiseaseSubject(prepare_model(*sources, cached=False), "small")


def test_every_question_has_an_answer(diseases):
    offered = diseases.complete("e", 5)
    assert len(offered) <= 5
    first, other = (diseases.find(one["id"]) for one in offered[:2])
    for findings in (Findings((), ()), Findings((first,), ()), Findings((first,), (other,))):
        answer = diseases.explain(findings, 3)
        json.dumps(answer, allow_nan=False)
        assert len(answer["causes"]) <= 3
        known = {one["id"] for state in ("present", "absent") for one in answer[state]}
        assert known.isdisjoint(one["id"] for one in answer["likely"] + answer["questions"])
    assert answer["causes"]
    assert answer["questions"]
    changed = diseases.what_if(Findings((first,), ()), other)
    assert changed["now"] == "unknown"
    assert [change["if"] for change in changed["changes"]] == ["present", "absent"]


def test_diseases_are_found_by_synonyms_and_say_what_they_are_not(diseases):
    assert "Not a medical device" in diseases.about()["notice"]
    assert diseases.complete("11 too", 3) == [
        {"id": "HP:0000011", "name": "Fever", "hint": "11 too"}
    ]
    assert diseases.complete("", 3) == []
    answer = diseases.explain(Findings((diseases.find("HP:0000030"),), ()), 2)
    assert answer["causes"][0]["name"] == "Measles"
    with pytest.raises(InvalidDataError, match="names or identifiers"):
        diseases.find(3)


def test_the_command_serves_the_model(monkeypatch, tmp_path, capsys):
    served = []

    def run(load, port, ready):
        served.append((load().about(), port))
        ready("http://127.0.0.1:7/")

    monkeypatch.setattr("noisyor.serve.server.serve", run)
    write_annotations(tmp_path / "small.hpoa")
    write_ontology(tmp_path / "small.obo")
    arguments = ["--annotations", str(tmp_path / "small.hpoa")]
    arguments += ["--ontology", str(tmp_path / "small.obo"), "--model", str(tmp_path / "small")]
    assert main(["serve", "--port", "7", *arguments]) == 0
    ((about, port),) = served
    assert (about["name"], about["n_causes"], port) == ("small", 4, 7)
    assert capsys.readouterr().out.startswith("http://127.0.0.1:7/")
