"""What else is likely and what to ask next, held to enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from random_networks import random_network

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError
from noisyor.explanation.interview import next_question
from noisyor.explanation.ranking import with_finding
from noisyor.inference.exact import enumerate_posterior, hidden_configurations, log_joint_table
from noisyor.model.forward import visible_probability


def chance_of(network, row, finding) -> float:
    """Probability of a finding given a row, by enumeration."""
    after, before = (
        enumerate_posterior(network, one).log_likelihood[0]
        for one in (with_finding(row, finding, "present"), row)
    )
    return float(np.exp(after - before))


def gain_of(network, row, finding) -> float:
    """Information of an answer about all causes, by enumeration."""
    states = hidden_configurations(network.n_hidden)
    log_p = log_joint_table(network, states, row.to_dense().astype(np.float64))[0]
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    on = visible_probability(network, states)[:, finding]

    def bits(p):
        return -p * np.log2(p) - (1 - p) * np.log2(1 - p)

    return float(bits(weight @ on) - weight @ bits(on))


def evidence_of(network, seed) -> Observations:
    """A row of the model, every other finding unknown."""
    values = nor.sample(network, 1, seed=seed).visible.toarray()[0].astype(float)
    values[1::2] = np.nan
    return Observations.of(values[None])


@pytest.mark.parametrize("seed", range(8))
def test_chances_are_those_of_enumeration_where_unknown_causes_have_no_parents(seed):
    network = random_network(seed, density=0.6)
    if network.n_layers > 1 or network.n_visible < 3:
        network = nor.bipartite(
            5,
            3,
            failure_probability=np.random.default_rng(seed).uniform(0.1, 1.0, (3, 5)),
            prior_probability=0.3,
            noise_probability=0.05,
        )
    row = evidence_of(network, seed)
    found = next_question(network, row, top=network.n_visible)
    assert found.ranking.exact
    assert found.likely
    for finding in found.likely:
        assert finding.probability == pytest.approx(chance_of(network, row, finding.index))
        empty = Observations.from_evidence(network.n_visible)
        assert finding.base == pytest.approx(chance_of(network, empty, finding.index))
    chances = [finding.probability for finding in found.likely]
    assert chances == sorted(chances, reverse=True)


def test_two_layers_come_close(deep):
    row = Observations.from_evidence(6, [0], [4])
    for finding in next_question(deep, row).likely:
        assert finding.probability == pytest.approx(chance_of(deep, row, finding.index), abs=0.01)


def test_the_best_question_is_that_of_enumeration(clinic):
    row = Observations.from_evidence(6, [0, 1])
    questions = next_question(clinic, row).questions
    expected = {i: gain_of(clinic, row, i) for i in (2, 3, 4, 5)}
    assert questions[0].index == max(expected, key=expected.__getitem__)
    # Every cause has a finding above, so that all causes are asked about.
    for question in questions:
        assert question.gain == pytest.approx(expected[question.index], abs=1e-6)
    first = questions[0]
    after = enumerate_posterior(clinic, with_finding(row, first.index, "present")).marginals[0]
    name, probability = first.if_present
    assert probability == pytest.approx(after[clinic.hidden_names.index(name)], abs=1e-6)


def test_nothing_known(clinic):
    found = next_question(clinic, Observations.from_evidence(6))
    assert [cause.name for cause in found.ranking.causes] == ["cold", "flu", "asthma", "measles"]
    assert all(cause.probability == cause.base for cause in found.ranking.causes)
    assert found.likely[0].name == "fever"
    gain = gain_of(clinic, Observations.from_evidence(6), found.questions[0].index)
    assert found.questions[0].gain == pytest.approx(gain, rel=0.35)


def test_known_findings_are_neither_likely_nor_asked_for(clinic):
    found = next_question(clinic, Observations.from_evidence(6, [0], [3]))
    assert {0, 3}.isdisjoint(finding.index for finding in found.likely)
    assert {0, 3}.isdisjoint(question.index for question in found.questions)
    assert found.visible[[0, 3]].tolist() == [1.0, 0.0]


def test_a_finding_without_causes_is_left_unexplained():
    network = nor.from_edges(2, 1, [(0, 0)], noise_probability=0.1)
    found = next_question(network, Observations.from_evidence(2, [1]))
    assert found.ranking.unexplained == ("column 1",)
    assert found.ranking.causes[0].probability == found.ranking.causes[0].base


def test_one_row_at_a_time(clinic):
    with pytest.raises(InvalidDataError, match="one row at a time, got 2"):
        next_question(clinic, Observations.of(np.zeros((2, 6))))
