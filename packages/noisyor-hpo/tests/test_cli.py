"""`noisyor diagnose`: patients, named findings, the page, the kept model, and wrong inputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noisyor_hpo import model_file
from noisyor_hpo.cli import main
from rare_diseases import NASTY, write_annotations, write_ontology, write_patient

SOURCES = ["--annotations", "small.hpoa", "--ontology", "small.obo"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Files of a small clinic, and an empty cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(model_file, "cache_folder", lambda: tmp_path / "cache")
    write_ontology(Path("small.obo"))
    write_annotations(Path("small.hpoa"))
    write_patient(Path("anna.json"))
    return tmp_path


def run(capsys, *arguments: str, code: int = 0) -> tuple[str, str]:
    assert main(["diagnose", *arguments]) == code
    return capsys.readouterr()


def fails(capsys, *arguments: str) -> str:
    out, err = run(capsys, *arguments, code=2)
    assert out == ""
    assert err.startswith("noisyor-hpo: error: ")
    assert err.count("\n") == 1
    return err


def test_a_patient_in_words(capsys):
    out, err = run(capsys, "anna.json", *SOURCES)
    lines = out.splitlines()
    assert lines[0] == "anna: Fever, Sneezing  (2 present, 1 absent)"
    assert "Cold (OMIM:3)" in lines[1]
    assert "explains" in lines[2]
    assert "look next for" in out
    flu = lines[next(k for k, line in enumerate(lines) if "Flu" in line) :]
    assert "does not explain Sneezing" in flu[2]
    assert "lacks Cough 0." in flu[3]
    assert "Not a medical device" in err


def test_json_and_text_say_the_same(capsys):
    record = json.loads(run(capsys, "anna.json", *SOURCES, "--json").out)
    (patient,) = record["patients"]
    assert "Not a medical device" in record["notice"]
    assert record["annotations"] == "2025-01-16"
    assert patient["id"] == "anna"
    assert patient["present"] == ["HP:0000011", "HP:0000040"]
    best = patient["diseases"][0]
    assert best["id"] == "OMIM:3"
    assert f"{best['probability']:6.3f}  Cold (OMIM:3)" in run(capsys, "anna.json", *SOURCES).out
    total = sum(disease["probability"] for disease in patient["diseases"]) + patient["rest"]
    assert total == pytest.approx(1.0)
    asked = [question["term"] for question in patient["look_next_for"]]
    assert not {"HP:0000011", "HP:0000040", "HP:0000020", "HP:0000010", "HP:0000021"} & set(asked)


def test_findings_by_name_synonym_and_identifier(capsys):
    whole = run(capsys, "anna.json", *SOURCES).out.splitlines()[1:]
    names = ["--present", "fever,40 too", "--absent", "hp:0000020"]
    assert run(capsys, *names, *SOURCES).out.splitlines()[1:] == whole
    out = run(capsys, "--present", "Cough, dry, Wheezing", *SOURCES).out
    assert out.startswith("findings: Cough, dry, Wheezing  (2 present, 0 absent)")
    assert "Asthma (ORPHA:4)" in out.splitlines()[1]
    assert "Asthma" not in run(capsys, "--present", "Wheezing", "--omim-only", *SOURCES).out


def test_names_that_do_not_exist_are_answered_with_near_ones(capsys):
    assert "did you mean 'Sneezing'" in fails(capsys, "--present", "Sneezin", *SOURCES)
    assert "both as present and as absent" in fails(
        capsys, "--present", "Fever", "--absent", "fever", *SOURCES
    )
    assert "give either PATIENT" in fails(capsys)
    assert "give either PATIENT" in fails(capsys, "anna.json", "--present", "Fever")
    assert "name no finding" in fails(capsys, "--present", " , ", *SOURCES)


def test_unknown_terms_are_told_and_do_not_stop_the_rest(capsys):
    features = [{"type": {"id": "HP:0000011"}}, {"type": {"id": "HP:9999999", "label": "Odd"}}]
    write_patient(Path("odd.json"), phenotypicFeatures=features)
    assert "not in the ontology, ignored: HP:9999999 (Odd)" in run(capsys, "odd.json", *SOURCES).out


def test_of_several_patients_those_without_known_terms_are_left_out(capsys):
    for name, term in (("1", "HP:0000040"), ("2", "HP:9999999")):
        features = [{"type": {"id": term}}]
        Path("all").mkdir(exist_ok=True)
        write_patient(Path(f"all/{name}.json"), id=name, phenotypicFeatures=features)
    out, err = run(capsys, "all", *SOURCES)
    assert out.startswith("1: Sneezing")
    assert "note: 2 has no known terms and is ignored" in err


def test_the_prior_is_an_option(capsys):
    both = ["--present", f"{NASTY},Wheezing", *SOURCES, "--json", "--prior"]
    told = {}
    for prior in ("one", "at-least-one", "independent"):
        (patient,) = json.loads(run(capsys, *both, prior).out)["patients"]
        told[prior] = sum(disease["probability"] for disease in patient["diseases"])
        assert (patient["rest"] is None) == (prior != "one")
    assert told["one"] == pytest.approx(1.0)
    assert told["at-least-one"] > 1.0  # measles and asthma together


def test_the_model_is_built_once(capsys, monkeypatch):
    first = run(capsys, "anna.json", *SOURCES).out
    (kept,) = Path("cache/models").iterdir()

    def refuse(*arguments, **options):
        raise AssertionError("built again")

    with monkeypatch.context() as patched:
        patched.setattr(model_file, "build_model", refuse)
        assert run(capsys, "anna.json", *SOURCES).out == first
    kept.write_bytes(kept.read_bytes()[:-5])
    assert run(capsys, "anna.json", *SOURCES).out == first  # damaged: built again
    run(capsys, "anna.json", *SOURCES, "--omim-only")
    assert len(list(Path("cache/models").iterdir())) == 2


def test_a_model_file_of_ones_own(capsys):
    first = run(capsys, "anna.json", *SOURCES, "--model", "own.safetensors").out
    assert not Path("cache").exists()
    Path("small.obo").unlink()
    assert run(capsys, "anna.json", "--model", "own.safetensors").out == first
    assert "holds its annotations" in fails(
        capsys, "anna.json", *SOURCES, "--model", "own.safetensors"
    )
    Path("own.safetensors").write_text("no model")
    assert "own.safetensors is not a model file" in fails(
        capsys, "anna.json", "--model", "own.safetensors"
    )


def test_the_page(capsys):
    out = run(capsys, "anna.json", *SOURCES, "--html", "anna.html").out
    assert out.endswith("page: anna.html\n")
    page = Path("anna.html").read_text()
    assert "Not a medical device" in page
    assert "Cold" in page
    run(capsys, "anna.json", *SOURCES, "--html", "anna.html")  # an earlier page is replaced
    Path("mine.html").write_text("my notes")
    assert "was not written by a diagnosis" in fails(
        capsys, "anna.json", *SOURCES, "--html", "mine.html"
    )
    assert "is an input" in fails(capsys, "anna.json", *SOURCES, "--html", "anna.json")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"prose", "patient.json, line 1: not JSON"),
        (b'{"id": "x"}', "patient.json: no terms"),
        (b"\xfd7zXZ\x00\x00\x04", "patient.json: damaged or incomplete"),
        (
            json.dumps({"phenotypicFeatures": [{"type": {"id": "HP:1"}}] * 10_000}).encode(),
            "line 1: 10,000 terms, at most 1,000",
        ),
    ],
)
def test_wrong_patients_are_one_line(capsys, content, fault):
    Path("patient.json").write_bytes(content)
    assert fault in fails(capsys, "patient.json", *SOURCES)


def test_wrong_ontologies_are_one_line(capsys):
    Path("small.obo").write_text("[Term]\nid: HP:1\nis_a: HP:2\n\n[Term]\nid: HP:2\nis_a: HP:1\n")
    assert "cycle: HP:1 is a HP:2 is a HP:1" in fails(capsys, "anna.json", *SOURCES)
    sources = [*SOURCES[:-1], "nowhere.obo"]
    assert "nowhere.obo does not exist" in fails(capsys, "anna.json", *sources)
