"""Rankings with their reasons, and findings to look for next."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor_hpo
from helpers import data_of, statement
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor_hpo import Patient, next_findings, prepare_model, rank_diseases
from noisyor_hpo.posterior import probability_of_record, probability_of_term
from rare_diseases import write_annotations, write_ontology


def test_a_ranking_with_its_reasons(model):
    patient = Patient("anna", present=("HP:4", "HP:5"), absent=("HP:2",))
    ranking = rank_diseases(model, patient, top=2)
    first = ranking.diseases[0]
    assert (first.id, first.name, first.error) == ("OMIM:1", "Short arms", 0.0)
    assert [(f.term, f.by, f.own) for f in first.explains] == [
        ("HP:5", "HP:5", True),
        ("HP:4", "HP:6", True),
    ]
    assert first.explains[0].frequency == pytest.approx(0.9)
    assert [(f.name, f.by, round(f.share, 3)) for f in first.against] == [("Skin", "HP:6", 0.5)]
    assert len(ranking.diseases) == 2
    assert ranking.probability.sum() == pytest.approx(1)
    assert ranking.method == "exact: exactly one disease, sum over 4"
    assert ranking.unexplained == ()


def test_one_disease_by_hand(model, ontology):
    hand, arm = ontology.number["HP:4"], ontology.number["HP:5"]
    ranking = rank_diseases(model, Patient("anna", present=("HP:4", "HP:5")))
    weight = model.settings.weight * 2**-model.settings.weight_power
    gain = sum(
        np.log(1 - (1 - model.noise[t]) * (1 - probability_of_record(model, t)))
        for t in (hand, arm)
    )
    expected = np.array([0.9 + 0.3 + 0.5, 0.7 + 0.2, 0.6 + 0.4, 0.8])
    score = np.exp(weight * gain - model.settings.unlisted * expected)
    sure = 1 - model.settings.doubt
    np.testing.assert_allclose(
        ranking.probability, sure * score / score.sum() + (1 - sure) / 4, rtol=1e-10
    )


def test_findings_that_nobody_explains_are_named(model):
    ranking = rank_diseases(model, Patient("anna", present=("HP:5", "HP:8")), top=1)
    assert ranking.unexplained == ("Spots",)


def test_several_diseases(model):
    patient = Patient("anna", present=("HP:5", "HP:6", "HP:8"))
    for prior in ("at_least_one", "independent"):
        ranking = rank_diseases(model, patient, prior=prior)
        assert ranking.prior == prior
        assert "sets of up to" in ranking.method
        assert 0 <= ranking.probability.min() <= ranking.probability.max() <= 1


def test_weights_of_diseases(data, ontology):
    sure = noisyor_hpo.DiseaseSettings(doubt=0.0)
    model = noisyor_hpo.build_model(data, ontology, settings=sure)
    patient = Patient("anna", present=("HP:7",))
    alike = rank_diseases(model, patient).probability
    weights = np.array([8, 1, 1, 2])
    for prior in ("one", "at_least_one"):
        same = rank_diseases(model, patient, prior=prior, weights=np.full(4, 3.0)).probability
        plain = rank_diseases(model, patient, prior=prior).probability
        np.testing.assert_allclose(same, plain, rtol=1e-12)
    found = rank_diseases(model, patient, weights=weights).probability
    np.testing.assert_allclose(found, alike * weights / (alike @ weights), rtol=1e-12)
    for wrong in ([1, 1, 1], [1, 1, 1, 0], [1, 1, 1, np.nan]):
        with pytest.raises(InvalidSettingError, match="one for each of 4 diseases"):
            rank_diseases(model, patient, weights=wrong)


def test_papers_of_a_disease(ontology):
    lines = [
        statement("D:1", "HP:5", 0.5, references=("PMID:1", "PMID:2")),
        statement("D:1", "HP:7", 0.5, references=("PMID:2", "OMIM:1")),
        statement("D:2", "HP:7", 0.5, references=("OMIM:2",)),
    ]
    data = data_of(lines, {"D:1": "first", "D:2": "second"})
    model = noisyor_hpo.build_model(data, ontology)
    assert noisyor_hpo.published_papers(data, model).tolist() == [3, 1]


def test_old_identifiers_and_doubles_count_once(model):
    once = rank_diseases(model, Patient("anna", present=("HP:8",)))
    twice = rank_diseases(model, Patient("anna", present=("HP:8", "HP:99", "HP:8")))
    np.testing.assert_array_equal(once.probability, twice.probability)


def test_what_is_no_patient(model):
    with pytest.raises(InvalidDataError, match=r"no term 'HP:77' in the ontology test"):
        rank_diseases(model, Patient("anna", present=("HP:77",)))
    with pytest.raises(InvalidDataError, match="anna: no terms, neither present nor absent"):
        rank_diseases(model, Patient("anna", present=()))
    many = tuple(f"HP:{k}" for k in range(10_000))
    with pytest.raises(InvalidDataError, match="anna: 10,000 terms, at most 1,000 are expected"):
        rank_diseases(model, Patient("anna", present=many))
    with pytest.raises(InvalidSettingError, match="top must be"):
        rank_diseases(model, Patient("anna", present=("HP:5",)), top=0)


def entropy(probability):
    inside = probability[probability > 0]
    return -(inside * np.log2(inside)).sum()


def test_gain_is_the_expected_loss_of_entropy(model, ontology):
    patient = Patient("anna", present=("HP:1",))
    prior = rank_diseases(model, patient).probability
    questions = next_findings(model, patient, top=3)
    assert [question.gain for question in questions] == sorted(
        (question.gain for question in questions), reverse=True
    )
    for question in questions:
        term = ontology.number[question.term]
        on = 1 - (1 - model.noise[term]) * (1 - probability_of_term(model, term))
        chance = float(on @ prior)
        present, absent = prior * on / chance, prior * (1 - on) / (1 - chance)
        after = chance * entropy(present) + (1 - chance) * entropy(absent)
        assert question.probability == pytest.approx(chance)
        assert question.gain == pytest.approx(entropy(prior) - after)
        assert question.if_present == model.disease_ids[present.argmax()]
        assert question.if_absent == model.disease_ids[absent.argmax()]


def test_nothing_is_asked_twice(model):
    patient = Patient("anna", present=("HP:7",), absent=("HP:3",))
    asked = {question.term for question in next_findings(model, patient, top=20)}
    assert asked == {"HP:6", "HP:8"}  # neither the hand, which a finger implies, nor a short arm


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
