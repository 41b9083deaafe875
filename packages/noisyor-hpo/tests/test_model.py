from __future__ import annotations

import numpy as np
import pytest

import noisyor_hpo
from helpers import data_of, ontology_of, statement
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor_hpo import build_model


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
    model = build_model(data, ontology, databases=["OMIM"])
    assert model.disease_ids == ("OMIM:1", "OMIM:2", "OMIM:4")
    assert model.share[ontology.number["HP:3"]] == 1.5 / 3
    with pytest.raises(InvalidSettingError, match="some of OMIM, ORPHA, got 'DECIPHER'"):
        build_model(data, ontology, databases=["DECIPHER"])


def test_releases_that_have_nothing_in_common(data):
    with pytest.raises(InvalidDataError, match="are they of one release"):
        build_model(data, ontology_of({"MP:1": []}))


def test_a_disease_without_terms_is_left_out(ontology):
    data = data_of([statement("D:1", "HP:5", 0.5)], {"D:0": "none", "D:1": "one"})
    assert build_model(data, ontology).disease_ids == ("D:1",)


@pytest.mark.long
def test_real(data_dir):
    ontology = noisyor_hpo.read_ontology(data_dir / "hp.obo.xz")
    data = noisyor_hpo.read_annotations(data_dir / "hpo_phenotype.hpoa.xz")
    model = build_model(data, ontology)
    assert model.n_diseases == 12_680
    patient = noisyor_hpo.Patient(
        "marfan", present=("HP:0001166", "HP:0001083", "HP:0002616"), absent=("HP:0001250",)
    )
    ranking = noisyor_hpo.rank_diseases(model, patient)
    assert "Marfan syndrome" in [disease.name for disease in ranking.diseases[:3]]
    assert noisyor_hpo.next_findings(model, patient, top=1)[0].gain > 0
