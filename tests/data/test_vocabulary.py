from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyor.data.vocabulary import encode_documents, vectorize
from noisyor.errors import InvalidDataError, InvalidSettingError, UnsupportedDataError

DELETED = "!\"#$%&()*+,-./:;<=>?@[\\]^_{|}~'`"


def literal_words(text: str) -> list[str]:
    """Rules 1 to 3 of the specification, one character after the other."""
    words, word = [], ""
    for character in text:
        if "A" <= character <= "Z":
            character = chr(ord(character) + 32)
        if character in DELETED:
            continue
        if character in " \t\n\r\v\f":
            if word:
                words.append(word)
            word = ""
        else:
            word += character
    return [*words, word] if word else words


def literal(train: list[str], other: list[str], max_words: int, max_tokens: int):
    """Rules 4 and 5: the vocabulary, and the indices in each document."""
    counts = Counter(word for text in train for word in literal_words(text))
    words = list(counts)
    words.sort(key=lambda word: word.encode("utf-8"), reverse=True)
    words.sort(key=lambda word: -counts[word])
    vocabulary = ["", "[UNK]", *words[:max_words]]
    index = {word: k for k, word in enumerate(vocabulary)}
    rows = [
        sorted({index.get(word, 1) for word in literal_words(text)[:max_tokens]} - {0, 1})
        for text in [*train, *other]
    ]
    return tuple(vocabulary), rows


def rows_of(observations) -> list[list[int]]:
    return [part.tolist() for part in np.split(observations.columns, observations.ptr[1:-1])]


# Few letters, so that words repeat and tie; all that is deleted, split on or kept.
ALPHABET = "abAB Zé\t\n\v\f\r\xa0\u2003ß漢!'`-<>[]_\\\x1c\x85😀"
TEXTS = st.lists(st.text(ALPHABET, max_size=40), min_size=1, max_size=8)


class TestRules:
    @given(
        train=TEXTS,
        test=TEXTS,
        max_words=st.integers(1, 12),
        max_tokens=st.integers(1, 8),
    )
    @settings(max_examples=150, deadline=None)
    def test_against_the_specification(self, train, test, max_words, max_tokens):
        data = vectorize(train, test, max_words, max_tokens)
        vocabulary, rows = literal(train, test, max_words, max_tokens)
        assert data.vocabulary == vocabulary
        assert rows_of(data.train) + rows_of(data.test) == rows

    @given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
    @settings(max_examples=100, deadline=None)
    def test_any_character(self, text):
        assert vectorize([text]).vocabulary[2:] == literal([text], [], 9_998, 500)[0][2:]

    def test_examples_of_the_specification(self):
        data = vectorize(["Great,fun <br />", "great fun"])
        assert data.vocabulary == ("", "[UNK]", "greatfun", "great", "fun", "br")


class TestForm:
    def test_columns_rows_and_names(self):
        data = vectorize(iter(["a b", "", "b"]), (text for text in ["b"]), name="letters")
        assert data.name == "letters"
        assert (data.train.n_rows, data.train.n_visible) == (3, 4)
        assert data.train.column_names == data.test.column_names == data.vocabulary
        assert data.train.column_counts().tolist() == [0, 0, 2, 1]
        assert data.train.row_ids.tolist() == [0, 1, 2]
        assert data.test.row_ids.tolist() == [3]

    def test_texts_without_a_word(self):
        data = vectorize(["", "?!"], ["a"])
        assert data.vocabulary == ("", "[UNK]")
        assert data.train.n_active == data.test.n_active == 0

    def test_new_texts_in_a_known_vocabulary(self):
        data = vectorize(["red green blue", "green"])
        new = encode_documents(["Blue! and GREEN", ""], data.vocabulary)
        assert [[data.vocabulary[c] for c in row] for row in rows_of(new)] == [
            ["green", "blue"],
            [],
        ]


class TestErrors:
    @pytest.mark.parametrize("texts", ["a single text", b"bytes"])
    def test_a_text_is_no_list_of_texts(self, texts):
        with pytest.raises(UnsupportedDataError, match="a single text"):
            vectorize(texts)

    @pytest.mark.parametrize("wrong", [None, b"bytes", 3.5])
    def test_documents_are_texts(self, wrong):
        with pytest.raises(UnsupportedDataError, match="test_texts: document 1 is"):
            vectorize(["a"], ["b", wrong])

    def test_half_a_surrogate_pair(self):
        with pytest.raises(InvalidDataError, match=r"train_texts: document 1 .* position 3"):
            vectorize(["a", "b \ud83d c"])

    def test_nothing(self):
        with pytest.raises(InvalidDataError, match="no rows"):
            vectorize([])

    @pytest.mark.parametrize("setting", ["max_words", "max_tokens"])
    @pytest.mark.parametrize("value", [0, -1, 1.5, True])
    def test_settings(self, setting, value):
        with pytest.raises(InvalidSettingError, match=setting):
            vectorize(["a"], **{setting: value})
