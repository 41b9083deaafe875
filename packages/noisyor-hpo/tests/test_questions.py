from __future__ import annotations

import numpy as np
import pytest

from noisyor_hpo import Patient, next_findings, rank_diseases
from noisyor_hpo.evidence import shows_exactly


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
        on = 1 - (1 - model.noise[term]) * (1 - shows_exactly(model, term))
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
