"""Convert texts to binary rows that say which frequent words each document contains.

The rules are those of the paper's experiments. ASCII letters become lower case, ASCII punctuation
is deleted (not replaced by a blank, so ``great,fun`` becomes one word), and the rest is split on
ASCII white space. Everything else, such as accented letters, stays unchanged.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import Rows, pointers
from noisyor._util.validation import COUNT
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, UnsupportedDataError

PADDING, UNKNOWN = "", "[UNK]"
"""Names of the first two columns, which are never 1."""

_LOWER = bytes(
    code + 32 if chr(code) in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" else code for code in range(256)
)
_DELETED = b"!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~'"


@dataclass(frozen=True, eq=False)
class TextData:
    """Documents as binary rows.

    Attributes
    ----------
    name : name of the data.
    train : (n_train, n_words + 2), 1 where a word is among the first tokens of the document.
    test : the same for the held-out documents, or None.
    vocabulary : (n_words + 2,) names of the columns: "" and "[UNK]", which are always 0, then the
        words, the most frequent first.
    """

    name: str
    train: Observations
    test: Observations | None
    vocabulary: tuple[str, ...]


def vectorize(
    train_texts: Iterable[str],
    test_texts: Iterable[str] | None = None,
    max_words: int = 9_998,
    max_tokens: int = 500,
    *,
    name: str = "documents",
) -> TextData:
    """Find the vocabulary of the training texts and encode all texts in it.

    The test rows continue the ``row_ids`` of the training rows.

    Parameters
    ----------
    train_texts, test_texts : any iterables; each is consumed once, text by text.
    max_words : size of the vocabulary: the words with the most occurrences in the training texts;
        of equally frequent words those that come last in the order of their UTF-8 bytes.
    max_tokens : only the first tokens of a document count as present, known words or not.
        Occurrences are nevertheless counted in whole texts.
    name : name of the data.

    Examples
    --------
    >>> import noisyor as nor
    >>> data = nor.data.vectorize(["the cat sat", "the dog sat"], ["a cat"], max_words=3)
    >>> data.vocabulary[2:], data.train.n_active
    (('the', 'sat', 'dog'), 5)
    >>> data.test.row_ids
    array([2])
    """
    COUNT.check("max_words", max_words)
    COUNT.check("max_tokens", max_tokens)
    occurrences: Counter[bytes] = Counter()
    index_of: defaultdict[bytes, int] = defaultdict(count().__next__)
    indices, lengths = array("i"), array("i")
    for words in _tokenized(train_texts, "train_texts"):
        occurrences.update(words)
        distinct = set(words[:max_tokens])
        indices.extend(map(index_of.__getitem__, distinct))
        lengths.append(len(distinct))
    ranked = sorted(((n, word) for word, n in occurrences.items()), reverse=True)[:max_words]
    vocabulary = (PADDING, UNKNOWN, *(word.decode() for _, word in ranked))

    column_of = np.full(len(index_of), -1, dtype=np.int32)
    for column, (_, word) in enumerate(ranked, 2):
        if word in index_of:  # else it is never among the first tokens
            column_of[index_of[word]] = column
    columns = column_of[np.array(indices, dtype=np.intc)]
    rows = np.repeat(np.arange(len(lengths)), np.array(lengths, dtype=np.intc))
    known = columns >= 0
    keys = rows[known] * len(vocabulary) + columns[known]
    keys.sort()
    ones = Rows.from_keys(keys, len(lengths), len(vocabulary))
    train = _observations(ones, vocabulary, first_id=0)

    test = None
    if test_texts is not None:
        test = encode_documents(
            test_texts, vocabulary, max_tokens, first_id=train.n_rows, what="test_texts"
        )
    return TextData(name, train, test, vocabulary)


def encode_documents(
    texts: Iterable[str],
    words: Sequence[str],
    max_tokens: int = 500,
    *,
    first_id: int = 0,
    what: str = "texts",
) -> Observations:
    """Encode texts in known words, such as the columns of a trained network.

    Parameters
    ----------
    texts : any iterable, consumed once.
    words : (n_visible,) names of the columns.
    max_tokens : only the first tokens of a document count.
    first_id : the ``row_ids`` start here.
    what : name of the texts in errors.
    """
    column_of = {word.encode(): column for column, word in enumerate(words)}
    columns, lengths = array("i"), array("i")
    for tokens in _tokenized(texts, what):
        found = (column_of.get(token) for token in set(tokens[:max_tokens]))
        present = sorted(column for column in found if column is not None)
        columns.extend(present)
        lengths.append(len(present))
    ptr = pointers(np.array(lengths, dtype=np.intc))
    return _observations(Rows(ptr, np.array(columns, dtype=np.int32)), words, first_id)


def words_of(text: str) -> list[bytes]:
    """Return all words of a text in order, as UTF-8."""
    return text.encode().translate(_LOWER, _DELETED).split()


def _tokenized(texts: Iterable[str], what: str) -> Iterable[list[bytes]]:
    if isinstance(texts, str | bytes):
        raise UnsupportedDataError(f"{what} must be a list of texts, got a single text")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise UnsupportedDataError(
                f"{what}: document {index} is {type(text).__name__}, expected text"
            )
        try:
            words = words_of(text)
        except UnicodeEncodeError as error:
            raise InvalidDataError(
                f"{what}: document {index} has half a surrogate pair at position "
                f"{error.start + 1}, which is no character"
            ) from error
        yield words


def _observations(ones: Rows, vocabulary: Sequence[str], first_id: int) -> Observations:
    no_ptr, nothing = np.zeros(ones.n_rows + 1, np.int64), np.zeros(0, np.int32)
    ids: npt.NDArray[np.int64] = np.arange(first_id, first_id + ones.n_rows)
    return Observations(len(vocabulary), *ones, no_ptr, nothing, ids, tuple(vocabulary))
