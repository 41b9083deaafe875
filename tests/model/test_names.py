"""Names of nodes, and the words of topics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.errors import InvalidNetworkError, InvalidSettingError
from noisyor.model.builders import bipartite
from noisyor.model.names import (
    Togetherness,
    coherent_words,
    distinctive_visibles,
    hidden_label,
    hidden_names,
    named_after,
    topic_words,
    visible_label,
)

# ---- labels


def network_of(n_visible: int):
    return bipartite(n_visible, 1, failure_probability=0.1)


def test_a_network_takes_the_names_of_its_columns():
    data = Observations.of(np.ones((2, 3)), column_names=("fever", "cough", "rash"))
    named = named_after(network_of(3), data, "factors")
    assert named.visible_names == ("fever", "cough", "rash")
    assert "fever" in hidden_label(named, 0)


def test_earlier_names_are_replaced():
    data = Observations.of(np.ones((2, 2)), column_names=("new", "newer"))
    old = named_after(
        network_of(2), Observations.of(np.ones((1, 2)), column_names=("a", "b")), "factors"
    )
    assert "new" in hidden_label(named_after(old, data, "factors"), 0)


def test_a_network_of_images_takes_their_shape():
    data = Observations.of(np.ones((5, 2, 3)))
    named = named_after(network_of(6), data, "factors")
    assert named.visible_shape == (2, 3)
    assert visible_label(named, 5) == "pixel 1,2"


def test_a_cause_is_named_by_what_tells_it_from_others():
    failure = np.array([[0.01, 0.05, 0.2, 1.0], [0.01, 0.05, 1.0, 0.2]])
    network = bipartite(4, 2, failure_probability=failure)
    names = named_after(network, Observations.of(np.ones((2, 4))), "factors").hidden_names
    assert [name.split(",")[0] for name in names] == ["cause 0: column 2", "cause 1: column 3"]


def test_a_faint_edge_is_in_no_name():
    network = bipartite(3, 2, failure_probability=[[0.1, 0.98, 1.0], [1.0, 1.0, 0.1]])
    names = named_after(network, Observations.of(np.ones((2, 3))), "factors").hidden_names
    assert names == ("cause 0: column 0", "cause 1: column 2")


# ---- words of topics


def by_hand(rows: np.ndarray, a: int, b: int) -> float:
    """Normalised pointwise mutual information of two columns, counted row by row."""
    both = known = 0
    for row in rows:
        if not (np.isnan(row[a]) or np.isnan(row[b])):
            known += 1
            both += int(row[a] == 1 and row[b] == 1)
    expected = (math.sqrt(both) - 1.0) ** 2
    if both <= 1:
        return -1.0
    none = math.exp(-expected)
    rate = expected / (1.0 - none) / known
    share = [np.nanmean(rows[:, k]) for k in (a, b)]
    some = math.log(rate / (share[0] * share[1])) / -math.log(rate)
    return (1.0 - none) * some - none


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_pairs_are_those_counted_by_hand(seed, gaps):
    random = np.random.default_rng(seed)
    rows = (random.random((30, 4)) < random.random(4)).astype(float)
    if gaps:
        rows[random.random(rows.shape) < 0.2] = np.nan
    found = Togetherness(rows).of([3, 0, 2])
    for i, a in enumerate([3, 0, 2]):
        for j, b in enumerate([3, 0, 2]):
            expected = 0.0 if i == j else by_hand(rows, a, b)
            assert found[i, j] == pytest.approx(expected, abs=1e-9)


def test_a_row_of_weight_two_is_two_rows():
    random = np.random.default_rng(0)
    rows, weights = (random.random((20, 5)) < 0.4).astype(float), random.integers(1, 4, 20)
    weighted = Togetherness(nor.Observations.of(rows).with_weights(weights)).of(range(5))
    np.testing.assert_allclose(weighted, Togetherness(np.repeat(rows, weights, 0)).of(range(5)))


def test_few_meetings_are_weak_evidence():
    # Every two words occur in the same documents only: in 1, 3, 4, 8 or 100 of them.
    numbers = [1, 3, 4, 8, 100]
    rows = np.zeros((1000, 10))
    for pair, number in enumerate(numbers):
        rows[200 * pair : 200 * pair + number, 2 * pair : 2 * pair + 2] = 1
    pairs = Togetherness(rows)
    found = [pairs.of([2 * pair, 2 * pair + 1])[0, 1] for pair in range(len(numbers))]
    assert found[0] == -1 < found[1] < 0 < found[2] < 0.2 < 0.6 < found[3] < 0.8 < found[4]


def test_mean_of_pairs():
    pairs = Togetherness(np.repeat([[1, 1, 0], [0, 0, 1]], 50, axis=0))
    together = pairs.of([0, 1])[0, 1]
    assert pairs.mean([0, 1]) == together > 0.3
    assert pairs.mean([0, 1, 2]) == pytest.approx((together - 2) / 3)
    assert pairs.mean([0]) == pairs.mean([]) == -1.0


@pytest.fixture(scope="module")
def alternatives() -> tuple[nor.Network, np.ndarray]:
    """A topic of five words, two of which no document has beside the others, and another topic."""
    random = np.random.default_rng(1)
    rows = np.zeros((600, 8))
    kind = random.integers(0, 3, 600)
    rows[kind == 0, :3] = random.random(((kind == 0).sum(), 3)) < 0.7
    rows[kind == 1, 3 + random.integers(0, 2, (kind == 1).sum())] = 1
    rows[kind == 2, 5:] = random.random(((kind == 2).sum(), 3)) < 0.7
    failure = np.ones((2, 8))
    failure[0, :5], failure[1, 5:] = [0.4, 0.5, 0.6, 0.3, 0.35], 0.5
    return nor.bipartite(8, 2, failure_probability=failure, prior_probability=0.3), rows


def test_words_that_do_not_meet_are_struck_out(alternatives):
    network, rows = alternatives
    assert distinctive_visibles(network, 3)[0] == [3, 4, 0]
    assert topic_words(network, rows, 3)[0] == [0, 1, 2]


def two_blocks(has_eighth: bool) -> np.ndarray:
    """Words 0 to 4 occur together, and so do 4 to 8, or 8 elsewhere: word 4 belongs to both."""
    random = np.random.default_rng(3)
    rows = np.zeros((900, 10))
    kind = random.integers(0, 3, 900)
    rows[kind == 0, :5] = random.random(((kind == 0).sum(), 5)) < 0.6
    rows[kind == 1, 4:9] = random.random(((kind == 1).sum(), 5)) < 0.6
    if not has_eighth:
        rows[:, 8], rows[kind == 2, 8] = 0, 1
    return rows


def test_a_word_of_two_topics_is_listed_once_unless_it_fits_much_better():
    candidates = [[0, 1, 4, 2, 9], [5, 6, 7, 4, 8]]  # word 9 never occurs
    assert coherent_words(two_blocks(True), candidates, 4) == [[0, 1, 4, 2], [5, 6, 7, 8]]
    # If word 8 co-occurs with none of the others, word 4 is listed twice.
    assert coherent_words(two_blocks(False), candidates, 4) == [[0, 1, 4, 2], [5, 6, 7, 4]]


def test_words_of_a_topic_are_those_that_co_occur():
    assert Togetherness(two_blocks(True)).words([[0, 1, 4, 2, 9]], 4) == [[0, 1, 4, 2]]


@pytest.mark.parametrize("seed", range(5))
def test_no_exchange_of_two_words_improves_the_lists(seed):
    random = np.random.default_rng(seed)
    rows = (random.random((60, 12)) < random.uniform(0.05, 0.6, 12)).astype(float)
    candidates = [random.permutation(12)[:8].tolist() for _ in range(3)]
    found = coherent_words(rows, candidates, 4)
    pairs = Togetherness(rows, lists=candidates).of(range(12))

    def count(words: list[int], others: set[int]) -> float:
        fit = sum(pairs[a, b] for a in words for b in words) / (2 * (len(words) - 1))
        return float(fit) - 0.6 * len(others.intersection(words))

    for k, ranked in enumerate(candidates):
        assert len(found[k]) == 4
        assert found[k] == [word for word in ranked if word in found[k]]
        others = {word for j, words in enumerate(found) if j != k for word in words}
        for old in found[k]:
            for new in set(ranked) - set(found[k]):
                changed = [*(set(found[k]) - {old}), new]
                assert count(changed, others) <= count(found[k], others) + 1e-6


def test_the_prior_is_that_of_the_pairs():
    # Words i and 100 + i co-occur in a number of documents that has a gamma distribution.
    random = np.random.default_rng(5)
    n_pairs, n_each, n_documents = 200, 50, 2500
    rows = np.zeros((n_documents, 2 * n_pairs))
    lifts = random.gamma(3.0, 1.0, n_pairs)
    for k, lift in enumerate(lifts):
        both = min(random.poisson(lift * n_each**2 / n_documents), n_each)
        order = random.permutation(n_documents)
        rows[order[:n_each], k] = 1
        rows[order[n_each - both : 2 * n_each - both], n_pairs + k] = 1
    lists = [[k, n_pairs + k] for k in range(n_pairs)]
    shape, rate = Togetherness(rows, lists=lists)._fitted_prior(lists)
    assert shape / rate == pytest.approx(lifts.mean(), rel=0.15)
    assert shape == pytest.approx(3.0, rel=0.5)


def test_a_prior_draws_rare_pairs_to_the_mean_and_leaves_frequent_ones():
    rows = np.zeros((2000, 4))
    rows[:2, :2] = 1  # co-occur in both of their documents
    rows[1000:1400, 2:] = 1
    rows[1400:1600, 2] = 1
    plain, drawn = Togetherness(rows), Togetherness(rows, lists=[[0, 2], [0, 3], [2, 3]])
    assert drawn.of([0, 1])[0, 1] < plain.of([0, 1])[0, 1]
    assert drawn.of([2, 3])[0, 1] == pytest.approx(plain.of([2, 3])[0, 1], abs=0.05)


def test_no_lists_and_empty_lists():
    assert coherent_words(np.eye(3), [], 2) == []
    assert coherent_words(np.eye(3), [[], [1], [0, 1]], 2) == [[], [1], [0, 1]]


def test_no_more_words_than_are_distinctive(alternatives):
    network, rows = alternatives
    assert [sorted(words) for words in topic_words(network, rows, 8)] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7],
    ]


def test_of_equals_the_more_distinctive_stay():
    rows = np.repeat([[1, 1, 1, 1], [0, 0, 0, 0]], 50, axis=0)
    network = nor.bipartite(4, 1, failure_probability=[[0.4, 0.2, 0.3, 0.1]])
    assert topic_words(network, rows, 2) == [[3, 1]]


def test_names_use_the_documents(alternatives):
    network, rows = alternatives
    words = ["sea", "ship", "port", "tax", "vote", "ball", "goal", "team"]
    observed = nor.Observations.of(rows, column_names=words)
    named = named_after(network, observed, "topics")
    assert named.hidden_names == hidden_names(named, "topics", topic_words(named, observed))
    # All five fit into the ten words that are looked at; nothing is struck out.
    assert named.hidden_names[0] == "topic 0: tax, vote, sea"
    assert set(named.hidden_names[1].split(": ")[1].split(", ")) == {"ball", "goal", "team"}


def test_what_cannot_be(alternatives):
    network, rows = alternatives
    with pytest.raises(InvalidSettingError, match="n must"):
        topic_words(network, rows, 0)
    with pytest.raises(InvalidNetworkError, match="2 layers"):
        topic_words(nor.layered(rows, 3, shrink=2), rows)
