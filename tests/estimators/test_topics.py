"""Topics as an estimator: what they are about, and the one that a document is most about."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from topic_documents import WORDS, topic_documents

import noisyor as nor
from noisyor.errors import InvalidSettingError


@pytest.fixture(scope="module")
def documents() -> np.ndarray:
    return topic_documents()


@pytest.fixture(scope="module")
def model(documents) -> nor.TopicModel:
    return nor.TopicModel(n_components=3).fit(pd.DataFrame(documents, columns=WORDS))


def block_of(words: list) -> int:
    """Number of the topic that words belong to."""
    return WORDS.index(words[0]) // 5


def test_words_are_names_of_columns_or_numbers(model, documents):
    assert all({word[:3] for word in words[:5]} == {words[0][:3]} for words in model.topic_words_)
    assert sorted(map(block_of, model.topic_words_)) == [0, 1, 2]
    numbers = nor.TopicModel(n_components=3).fit(documents).topic_words_
    assert [[WORDS[i] for i in words] for words in numbers] == model.topic_words_


def test_names_of_topics_are_the_first_words(model):
    for name, words in zip(model.get_feature_names_out(), model.topic_words_, strict=True):
        assert name.split(": ")[1] == ", ".join(words[:3])


def test_files_keep_the_words(model, tmp_path):
    model.save(tmp_path / "m.safetensors")
    again = nor.TopicModel.load(tmp_path / "m.safetensors")
    assert again.get_params()["n_components"] == 3
    assert again.components_.shape == (3, 16)
    assert again.topic_words_ == model.topic_words_


def test_words_that_a_file_cannot_mean_are_left_out(model, tmp_path):
    for wrong in ([[0, 1]], [[0], [1], [16]], [[0], [1], "2"], [[0], [1], [True]], "words", None):
        metadata = {"kind": "topics", "topic_words": wrong}
        nor.save_network(tmp_path / "w.safetensors", model.network_, metadata=metadata)
        assert nor.TopicModel.load(tmp_path / "w.safetensors").topic_words_ is None


def test_a_hierarchy_has_no_such_list(documents):
    model = nor.TopicModel(n_layers=3, shrink=2, steps=1).fit(documents)
    assert model.topic_words_ is None
    assert model.main_topic(documents[:5]).max() < model.network_.n_hidden


@pytest.mark.parametrize("absent", ["off", "unknown"])
def test_every_document_with_a_word_has_a_main_topic(model, absent):
    titles = np.zeros((17, 16), dtype=np.uint8)
    np.fill_diagonal(titles, 1)  # one word each, and a document without words
    frame = pd.DataFrame(titles, columns=WORDS)
    found = model.main_topic(frame, absent=absent)
    assert found[16] == -1
    block = [block_of(words) for words in model.topic_words_]
    assert [block[k] for k in found[:15]] == [k // 5 for k in range(15)]
    assert 0 <= found[15] < 3


def test_the_topic_of_most_words_wins(model):
    """Five words of one topic and two of another, both surely on: not the first of the two."""
    both = np.zeros((2, 16), dtype=np.uint8)
    both[0, :5], both[0, 10:12] = 1, 1
    both[1, :2], both[1, 10:15] = 1, 1
    frame = pd.DataFrame(both, columns=WORDS)
    assert (model.transform(frame).sum(axis=1) == 2).all()
    block = [block_of(words) for words in model.topic_words_]
    assert [block[k] for k in model.main_topic(frame)] == [0, 2]


def test_blocks_do_not_matter(model, documents, monkeypatch):
    frame = pd.DataFrame(documents, columns=WORDS)
    whole = model.main_topic(frame)
    monkeypatch.setattr("noisyor.estimators.models._BLOCK_CELLS", 16 * 7)
    np.testing.assert_array_equal(model.main_topic(frame), whole)


def test_what_cannot_be(model, documents):
    with pytest.raises(InvalidSettingError, match="absent"):
        model.main_topic(documents, absent="maybe")
