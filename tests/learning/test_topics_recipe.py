"""Topics by their number."""

from __future__ import annotations

import numpy as np
import pytest
from topic_documents import WORDS, topic_documents

import noisyor as nor
from noisyor.errors import InvalidNetworkError, InvalidSettingError
from noisyor.learning.recipes import FitResult
from noisyor.model.names import distinctive_visibles, named_after
from noisyor.search.starts import choose_topics, start_from_topics


@pytest.fixture(scope="module")
def documents() -> np.ndarray:
    return topic_documents()


@pytest.fixture(scope="module")
def learned(documents) -> FitResult:
    return nor.learn_topics(documents, n_components=3, progress=False)


def test_as_many_topics_as_are_asked_for(learned):
    network = learned.network
    assert (network.n_hidden, network.n_layers) == (3, 1)
    found = {frozenset(words) for words in distinctive_visibles(network, 5)}
    assert found == {frozenset(range(5 * k, 5 * k + 5)) for k in range(3)}


def test_names_leave_out_what_all_have(learned, documents):
    rows = nor.Observations.of(documents, column_names=WORDS)
    named = named_after(learned.network, rows, "topics")
    assert all(name.startswith("topic ") and "the" not in name for name in named.hidden_names)


def test_unseen_short_documents_have_topics(learned):
    titles = np.zeros((3, 16))
    for k in range(3):
        titles[k, 5 * k : 5 * k + 2] = 1
    states = nor.explain(learned.network, np.where(titles > 0, 1.0, np.nan)).states.toarray()
    assert (states.sum(axis=1) >= 1).all()


def test_the_seed_decides(learned, documents):
    again = nor.learn_topics(documents, n_components=3, progress=False)
    assert again.network.theta.tobytes() == learned.network.theta.tobytes()


def test_a_stopped_run_goes_on(learned, documents, tmp_path):
    options = {"checkpoint": tmp_path / "c", "progress": False}
    nor.learn_topics(documents, n_components=3, **options)
    again = nor.learn_topics(documents, n_components=3, resume=True, **options)
    assert again.network.theta.tobytes() == learned.network.theta.tobytes()


def test_what_cannot_be(documents):
    with pytest.raises(InvalidSettingError, match="16 words have 16 topics at most"):
        nor.learn_topics(documents, n_components=17)
    with pytest.raises(InvalidSettingError, match="n_components"):
        start_from_topics(documents, 0)
    with pytest.raises(InvalidNetworkError, match="2 layers"):
        distinctive_visibles(nor.learn_topics(documents, 3, shrink=2, steps=1).network)


def test_twice_as_many_are_learned_and_the_best_kept(documents, monkeypatch):
    seen = []

    def spy(network, X, n_components):
        seen.append((network.n_hidden, n_components))
        return choose_topics(network, X, n_components)

    monkeypatch.setattr("noisyor.learning.recipes.choose_topics", spy)
    nor.learn_topics(documents, n_components=3, progress=False)
    nor.learn_topics(documents, n_components=10, progress=False)
    assert seen == [(6, 3), (16, 10)]  # there are 16 words


@pytest.mark.parametrize("rows", [np.ones((10, 3)), np.zeros((10, 3)), np.array([[1, 0, 1]])])
def test_rows_that_hold_no_topics(rows):
    assert nor.learn_topics(rows, n_components=1, progress=False).network.n_hidden == 1


def test_gaps_weights_and_too_little_time(documents):
    rows = documents.astype(float)
    rows[::7, 3] = np.nan
    weighted = nor.Observations.of(rows).with_weights(np.arange(len(rows)) % 3 + 1)
    for X, options in ((rows, {}), (weighted, {}), (documents, {"time_limit": 1e-3})):
        network = nor.learn_topics(X, n_components=3, progress=False, **options).network
        assert network.n_hidden == 3
        assert np.isfinite(network.theta).all()
