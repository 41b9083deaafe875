from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor.diagnosis import disease_network
from noisyor.errors import InvalidDataError, InvalidSettingError

from .conftest import data_of, ontology_of, statement


def test_shares_count_every_kind(model, ontology):
    # of four diseases three have something of a hand, two an arm
    shares = dict(zip(ontology.terms, model.share.tolist(), strict=True))
    assert shares["HP:4"] == 3.5 / 4
    assert shares["HP:3"] == 2.5 / 4
    assert shares["HP:0"] == 1.0
    np.testing.assert_allclose(model.expected, [1.7, 0.9, 1.0, 0.8])
    assert model.number_of("OMIM:4") == 3
    with pytest.raises(InvalidDataError, match="no disease 'OMIM:9' in the model"):
        model.number_of("OMIM:9")


def test_databases(data, ontology):
    model = disease_network(data, ontology=ontology, databases=["OMIM"])
    assert model.disease_ids == ("OMIM:1", "OMIM:2", "OMIM:4")
    assert model.share[ontology.number["HP:3"]] == 1.5 / 3
    with pytest.raises(InvalidSettingError, match="some of OMIM, ORPHA, got 'DECIPHER'"):
        disease_network(data, ontology=ontology, databases=["DECIPHER"])


def test_an_ontology_from_its_file(data, tmp_path):
    file = tmp_path / "small.obo"
    file.write_text("[Term]\nid: HP:4\nname: Hand\n\n[Term]\nid: HP:7\nis_a: HP:4\n")
    model = disease_network(data, ontology=file)
    assert model.disease_ids == ("OMIM:1", "OMIM:2", "OMIM:4")  # ORPHA:3 has neither
    file.write_text("[Term]\nid: HP:4\nis_a: HP:7\n\n[Term]\nid: HP:7\nis_a: HP:4\n")
    with pytest.raises(InvalidDataError, match="kinds of each other in a cycle"):
        disease_network(data, ontology=file)


def test_releases_that_have_nothing_in_common(data):
    with pytest.raises(InvalidDataError, match="are they of one release"):
        disease_network(data, ontology=ontology_of({"MP:1": []}))


def test_settings_want_an_ontology(data):
    with pytest.raises(InvalidSettingError, match="for models with an ontology"):
        disease_network(data, databases=["OMIM"])


def test_a_disease_without_terms_is_left_out(ontology):
    data = data_of([statement("D:1", "HP:5", 0.5)], {"D:0": "none", "D:1": "one"})
    assert disease_network(data, ontology=ontology).disease_ids == ("D:1",)


@pytest.mark.long
def test_real(data_dir):
    ontology = nor.diagnosis.read_ontology(data_dir / "hp.obo.xz")
    data = nor.datasets.load_hpo(data_dir / "hpo_phenotype.hpoa.xz")
    model = disease_network(data, ontology=ontology)
    assert model.n_diseases == 12_680
    patient = nor.diagnosis.Patient(
        "marfan", present=("HP:0001166", "HP:0001083", "HP:0002616"), absent=("HP:0001250",)
    )
    ranking = nor.diagnosis.rank_diseases(model, patient)
    assert "Marfan syndrome" in [disease.name for disease in ranking.diseases[:3]]
    assert nor.diagnosis.next_findings(model, patient, top=1)[0].gain > 0
