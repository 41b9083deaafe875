"""Topics as an estimator: their words and names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from topic_documents import WORDS, topic_documents

import noisyor as nor


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
