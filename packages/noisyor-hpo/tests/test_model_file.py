"""Models of diseases on disk: they come back bit by bit, and a damaged file is refused."""

import dataclasses

import numpy as np
import pytest

import noisyor as nor
import noisyor_hpo
from noisyor.errors import ModelFileError
from noisyor.io.model_file import read_sealed, write_sealed
from noisyor_hpo import model_file
from noisyor_hpo.model_file import (
    FORMAT,
    load_model,
    prepare_model,
    save_model,
)
from rare_diseases import write_annotations, write_ontology

PTR, LEAF = "ontology.parents.ptr", np.zeros(2, dtype=np.int64)


@pytest.fixture
def sources(tmp_path):
    return write_annotations(tmp_path / "small.hpoa"), write_ontology(tmp_path / "small.obo")


@pytest.fixture
def model(sources):
    return prepare_model(*sources, cached=False)


def test_a_model_comes_back(model, tmp_path):
    save_model(tmp_path / "m", model)
    again = load_model(tmp_path / "m")
    for field in dataclasses.fields(model):
        kept, came = getattr(model, field.name), getattr(again, field.name)
        if isinstance(kept, np.ndarray):
            assert kept.dtype == came.dtype
            assert kept.tobytes() == came.tobytes(), field.name
        elif field.name != "ontology":
            assert kept == came, field.name
    for name in ("version", "terms", "names", "synonyms", "parents", "current", "retired"):
        assert getattr(model.ontology, name) == getattr(again.ontology, name), name
    patient = noisyor_hpo.Patient("anna", ("HP:0000011",), ("HP:0000020",))
    first, second = (noisyor_hpo.rank_diseases(one, patient) for one in (model, again))
    assert first.probability.tobytes() == second.probability.tobytes()


@pytest.mark.parametrize(
    ("fault", "forge"),
    [
        ("malformed", lambda told, arrays: told.pop("ontology")),
        ("malformed", lambda told, arrays: arrays.pop("frequency")),
        ("differ in number", lambda told, arrays: told["ontology"]["terms"].append("HP:9")),
        ("parents of 1 terms, there are 10", lambda told, arrays: arrays.update({PTR: LEAF})),
        ("names for 4", lambda told, arrays: told["diseases"]["names"].append("more")),
        ("list of strings", lambda told, arrays: told["diseases"].update(ids=[1, 2, 3, 4])),
        ("malformed", lambda told, arrays: told["diseases"]["settings"].update(kin=7)),
        ("edges", lambda told, arrays: arrays.update(ptr=arrays["ptr"][:-1])),
        ("edges", lambda told, arrays: arrays.update(term=arrays["term"] + 100)),
        ("do not exist", lambda told, arrays: arrays["ontology.parents.columns"].__iadd__(99)),
    ],
)
def test_a_forged_file_is_refused(model, tmp_path, fault, forge):
    save_model(tmp_path / "m", model)
    told, arrays = read_sealed(tmp_path / "m", FORMAT)
    arrays = {name: array.copy() for name, array in arrays.items()}
    fields = {name: told[name] for name in ("diseases", "ontology")}
    forge(fields, arrays)
    write_sealed(tmp_path / "m", FORMAT, fields, arrays)
    with pytest.raises(ModelFileError, match=f"/m is damaged.*{fault}"):
        load_model(tmp_path / "m")


def test_networks_and_diseases_are_not_mixed_up(model, tmp_path):
    save_model(tmp_path / "m", model)
    with pytest.raises(ModelFileError, match=f"format '{FORMAT}'"):
        nor.load_network(tmp_path / "m")
    nor.save_network(tmp_path / "n", nor.bipartite(2, 1))
    with pytest.raises(ModelFileError, match="format 'noisyor-model-3'"):
        load_model(tmp_path / "n")


def test_another_source_is_another_model(sources, tmp_path, monkeypatch):
    monkeypatch.setattr(model_file, "cache_folder", lambda: tmp_path / "cache")
    annotations, ontology = sources
    prepare_model(annotations, ontology)
    text = annotations.read_text()
    annotations.write_text(text.replace("Flu", "Influenza"))
    assert "Influenza" in prepare_model(annotations, ontology).disease_names
    assert prepare_model(annotations, ontology, databases=["ORPHA"]).n_diseases == 1
    assert len(list((tmp_path / "cache" / "models").iterdir())) == 3


def test_a_cache_that_cannot_be_written_to_is_none(sources, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("cannot be replaced")
    monkeypatch.setattr(model_file, "cache_folder", lambda: tmp_path / "cache")
    assert prepare_model(*sources).n_diseases == 4
