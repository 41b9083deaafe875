from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import noisyor as nor
from noisyor.explanation.attribution import attribute_findings
from noisyor.model.forward import prior_marginals
from noisyor.model.names import hidden_names
from noisyor.report import explorer as module
from noisyor.report.explorer import cause_names, explorer_data, reach_of
from noisyor.report.fit_quality import explain_rows
from noisyor.report.inputs import Words

WORDS = Words("topic", "topics", "word", "words", "document", "documents")


@pytest.fixture(scope="module")
def data(topics) -> dict:
    return explorer(topics)


def explorer(example) -> dict:
    network = example.network
    rows = explain_rows(network, example.observations, 1000)
    return explorer_data(
        network,
        WORDS,
        cause_names(network, "topics", False),
        reach_of(network),
        prior_marginals(network),
        rows,
        attribute_findings(network, rows.observations, rows.states).chains(),
        None,
    )


def test_reach_is_the_probability_through_the_causes_below(topics):
    network = topics.network
    quiet = network.theta.copy()
    quiet[network.leak_param] = 1e-5
    reach = reach_of(network).toarray()
    for cause in range(network.n_hidden):
        # The cause alone is on; what it leads to is drawn forwards.
        loud = quiet.copy()
        loud[network.leak_param[network.n_visible + cause]] = 50.0
        drawn = nor.sample(network.with_theta(loud), 1500, seed=cause).visible
        found = np.asarray(drawn.mean(axis=0)).ravel()
        np.testing.assert_allclose(reach[cause], found, atol=0.05)


def test_edges_and_homes(topics, data):
    network = topics.network
    start = np.r_[0, np.cumsum(data["counts"])]
    failure = {}
    for k in range(network.n_hidden):
        p = data["p"][start[k] : start[k + 1]]
        assert p == sorted(p, reverse=True)
        for child, value in zip(data["child"][start[k] : start[k + 1]], p, strict=True):
            failure[k, child] = 1 - value / 1000
    for edge in range(network.n_edges):
        key = int(network.parent[edge]), int(network.edge_child[edge])
        assert failure.pop(key) == pytest.approx(
            np.exp(-network.theta[network.param[edge]]), abs=6e-4
        )
    assert not failure
    assert data["home"] == [4, 4, 5, 5, -1, -1]
    assert data["cut"] == 0


class TestNames:
    def test_titles_are_the_surest_words(self, data):
        assert data["label"][0] == "goal, team, ball"
        assert data["name"][0] == "layer1-0"
        assert data["far"].keys() == {"4", "5"}

    def test_names_made_by_us_are_split_and_others_left_alone(self, factors):
        network = factors.network
        made = replace(network, hidden_names=hidden_names(network, "factors"))
        names, said = cause_names(network, "factors", False)
        assert cause_names(made, "factors", True) == (names, said)
        assert names == [f"cause {k}" for k in range(5)]
        assert said[0] == "column-0, column-1, column-2"
        assert said[3] == ""  # all its effects are faint
        own = replace(network, hidden_names=["flu: type A", "b", "c", "d", "e"])
        assert cause_names(own, "factors", False) == (list(own.hidden_names), [""] * 5)


def test_documents_are_those_with_most_explained(topics, data):
    rows = explain_rows(topics.network, topics.observations, 1000)
    links = attribute_findings(topics.network, rows.observations, rows.states).chains()
    for cause, best in enumerate(data["best"]):
        counts = np.bincount(links.row[links.hidden == cause], minlength=300)
        shown = [len(words) for _, *words in best]
        assert shown == sorted(counts, reverse=True)[: len(shown)]
        assert len(shown) == min(5, np.count_nonzero(counts))
        for number, *words in best:
            document = data["documents"][number]
            assert set(words) <= set(document["on"])
            active = np.flatnonzero(topics.observations.to_dense()[document["row"]])
            assert document["on"] == active.tolist()


def test_limits_keep_every_word_findable(factors, monkeypatch):
    monkeypatch.setattr(module, "_MAX_EDGES", 5)
    monkeypatch.setattr(module, "_PARENTS_KEPT", 1)
    small = explorer(factors)
    assert small["cut"] > 0
    assert len(small["child"]) + small["cut"] == factors.network.n_edges
    assert set(small["child"]) == set(range(9))
    monkeypatch.setattr(module, "_MAX_DOCUMENTS", 2)
    assert len(explorer(factors)["documents"]) <= 2
