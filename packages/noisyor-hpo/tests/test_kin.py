from __future__ import annotations

import numpy as np
import pytest

import noisyor_hpo
from helpers import data_of, statement
from noisyor_hpo.kin import series_name, series_of


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
