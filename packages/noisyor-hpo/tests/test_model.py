"""Building a disease model: shares of terms, databases, related diseases."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor_hpo
from helpers import data_of, ontology_of, statement
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor_hpo import build_model
from noisyor_hpo.model import series_name, series_of


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


def test_real(data_dir, real_annotations):
    ontology = noisyor_hpo.read_ontology(data_dir / "hp.obo.xz")
    model = build_model(real_annotations, ontology)
    assert model.n_diseases == 12_680
    patient = noisyor_hpo.Patient(
        "marfan", present=("HP:0001166", "HP:0001083", "HP:0002616"), absent=("HP:0001250",)
    )
    ranking = noisyor_hpo.rank_diseases(model, patient)
    assert "Marfan syndrome" in [disease.name for disease in ranking.diseases[:3]]
    assert noisyor_hpo.next_findings(model, patient, top=1)[0].gain > 0


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("Bardet-Biedl syndrome 4", "Bardet-Biedl syndrome 12", True),
        ("Osteogenesis imperfecta, type XV", "Osteogenesis imperfecta", True),
        ("Deafness, autosomal recessive 15", "Deafness, autosomal dominant 1A", True),
        ("Krabbe disease", "Krabbe Disease", True),
        ("Marfan syndrome", "Loeys-Dietz syndrome 1", False),
    ],
)
def test_names_of_a_series(first, second, same):
    assert (series_name(first) == series_name(second)) is same


def test_names_of_numbers_alone_are_no_series():
    assert len(set(series_of(["4", "5", "Type 1"]).tolist())) == 3


def test_kin_lend_what_a_disease_lacks(ontology):
    lines = [
        statement("D:1", "HP:5", 0.8),
        statement("D:2", "HP:5", 0.4),
        statement("D:2", "HP:7", 0.6),
        statement("D:3", "HP:8", 0.9),
        statement("D:4", "HP:8", 0.9),
    ]
    names = {"D:1": "Arms 1", "D:2": "Arms 2", "D:3": "Arms, type III", "D:4": "Spots"}
    model = noisyor_hpo.build_model(data_of(lines, names), ontology)
    kin = model.settings.kin
    found = {
        (model.disease_ids[d], ontology.terms[t]): (round(f, 6), bool(own))
        for d, t, f, own in zip(model.disease, model.term, model.frequency, model.own, strict=True)
    }
    assert found["D:1", "HP:5"] == (0.8, True)  # what is annotated stays
    assert found["D:1", "HP:7"] == (round(kin * 0.6 / 2, 6), False)
    assert found["D:3", "HP:5"] == (round(kin * (0.8 + 0.4) / 2, 6), False)
    assert [key for key in found if key[0] == "D:4"] == [("D:4", "HP:8")]
    # kin do not make a term more common
    np.testing.assert_allclose(model.share[ontology.number["HP:7"]], (1 + 0.5) / 4)
