"""No question that another one answers, and none that needs a ranking twice."""

import pytest

from noisyor_hpo import Patient, next_findings, prepare_model, rank_diseases
from rare_diseases import write_annotations, write_ontology


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    sources = write_annotations(folder / "small.hpoa"), write_ontology(folder / "small.obo")
    return prepare_model(*sources, cached=False)


def test_no_question_is_a_kind_of_another(clinic):
    asked = next_findings(clinic, Patient("anna", ("HP:0000040",)), top=99)
    terms = {question.term for question in asked}
    assert len(terms & {"HP:0000011", "HP:0000012"}) == 1  # high fever is a kind of fever
    assert len(terms & {"HP:0000020", "HP:0000021"}) == 1
    assert terms >= {"HP:0000030", "HP:0000050"}


def test_a_ranking_at_hand_is_taken(clinic):
    patient = Patient("anna", ("HP:0000040", "HP:0000050"))
    told = {}
    for prior in ("one", "independent"):
        ranking = rank_diseases(clinic, patient, prior=prior, top=1)
        told[prior] = next_findings(clinic, patient, ranking=ranking)
        assert told[prior] == next_findings(clinic, patient, prior=prior)
    assert told["one"] != told["independent"]
