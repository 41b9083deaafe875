"""Starting parameters of layered networks from counts, and topics learned from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import noisyor as nor
from noisyor import (
    MaxProduct,
    MeanField,
    Observations,
    evaluate,
    from_edges,
    initialize,
    layered,
    sample,
)
from noisyor.baselines import independent_columns
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidSettingError
from noisyor.learning.recipes import learn_topics
from noisyor.model.network import Network
from noisyor.search import starts
from noisyor.search.starts import choose_topics, start_from_counts

N_TOPICS, WORDS_PER_TOPIC = 6, 5


def _documents(n_rows: int, seed: int) -> np.ndarray:
    """Six topics of five words each, in a tenth of the documents, over a little noise."""
    generator = np.random.default_rng(seed)
    topics = generator.random((n_rows, N_TOPICS)) < 0.1
    words = np.repeat(topics, WORDS_PER_TOPIC, axis=1)
    on = words & (generator.random(words.shape) < 0.6)
    return (on | (generator.random(words.shape) < 0.02)).astype(np.uint8)


@pytest.fixture(scope="module")
def documents() -> np.ndarray:
    return _documents(2000, 0)


@pytest.fixture(scope="module")
def start(documents: np.ndarray) -> Network:
    return start_from_counts(layered(documents, 2, n_parents=2, shrink=5), documents)


def test_counts_find_the_parameters_of_clear_topics(start: Network) -> None:
    assert start.n_hidden == N_TOPICS
    np.testing.assert_allclose(start.prior_probability, 0.1, atol=0.03)
    np.testing.assert_allclose(start.noise_probability, 0.02, atol=0.02)
    nearest = start.child_ptr[: start.n_visible]
    np.testing.assert_allclose(start.failure_probability[nearest], 0.4, atol=0.12)
    others = np.delete(start.failure_probability, nearest)
    assert others.min() > 0.8


def test_the_start_is_far_better_than_the_papers(documents: np.ndarray, start: Network) -> None:
    test = Observations.of(_documents(500, 1))

    def bound(network: Network) -> float:
        return evaluate(network, test, MaxProduct(), engine=get_engine(n_threads=1)).elbo.mean

    papers = [bound(initialize(start, name)) for name in ("paper-1", "paper-3")]
    assert bound(start) > max(papers) + 1
    assert bound(start) > independent_columns(documents).log_probability(test).mean()


def test_deterministic_and_whatever_the_form_of_the_data(
    documents: np.ndarray, start: Network
) -> None:
    again = start_from_counts(start, Observations.of(documents))
    np.testing.assert_array_equal(again.theta, start.theta)


def test_fixed_entries_keep_their_value(documents: np.ndarray, start: Network) -> None:
    free = start.roles != "noise"
    network = replace(initialize(start, "paper-2"), free=free)
    counted = start_from_counts(network, documents)
    np.testing.assert_array_equal(counted.theta_of("noise"), network.theta_of("noise"))
    assert (counted.theta_of("prior") != network.theta_of("prior")).all()


def test_missing_entries_are_not_taken_for_zeros(documents: np.ndarray, start: Network) -> None:
    data = documents.astype(np.float32)
    data[np.random.default_rng(2).random(len(data)) < 0.5, 0] = np.nan
    counted = start_from_counts(start, Observations.of(data))
    edge = start.child_ptr[0]
    assert abs(counted.failure_probability[edge] - start.failure_probability[edge]) < 0.15
    np.testing.assert_allclose(counted.noise_probability[0], 0.02, atol=0.02)


def test_several_layers_from_a_sampled_hierarchy() -> None:
    """Two groups of four topics of four words: the upper layer is told from the lower one."""
    truth = from_edges(
        32,
        10,
        [(k // 4, k) for k in range(32)],
        [(8 + k // 4, k) for k in range(8)],
        failure_probability=[0.3] * 32 + [0.2] * 8,
        prior_probability=[0.02] * 8 + [0.15] * 2,
    )
    rows = Observations.of(sample(truth, 3000, seed=0).visible)
    counted = start_from_counts(initialize(truth, "paper-1"), rows)
    np.testing.assert_allclose(counted.prior_probability[8:], 0.15, atol=0.04)
    np.testing.assert_allclose(counted.failure_probability[:32], 0.3, atol=0.1)
    np.testing.assert_allclose(counted.failure_probability[32:], 0.2, atol=0.1)


def test_columns_that_never_or_always_occur() -> None:
    data = _documents(300, 3)
    data[:, 0], data[:, 1] = 0, 1
    counted = start_from_counts(layered(data, 3), data)
    assert np.isfinite(counted.theta).all()
    assert counted.noise_probability[0] < 0.01
    assert np.isfinite(evaluate(counted, data, engine=get_engine(n_threads=1)).elbo.mean)


def test_only_some_of_many_rows_are_counted(
    documents: np.ndarray, start: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "_MAX_COUNTED_ROWS", 500)
    some = start_from_counts(start, documents)
    assert not np.array_equal(some.theta, start.theta)
    np.testing.assert_allclose(some.prior_probability, start.prior_probability, atol=0.06)


def test_learned_topics_beat_independent_words(documents: np.ndarray) -> None:
    test = Observations.of(_documents(500, 4))
    learned = learn_topics(
        documents, 2, n_parents=2, shrink=5, engine=get_engine(n_threads=1), progress=False
    )
    bound = evaluate(learned.network, test, MaxProduct(), engine=get_engine(n_threads=1)).elbo.mean
    assert bound > independent_columns(documents).log_probability(test).mean() + 0.1


@pytest.mark.parametrize("method", [None, MeanField(local=True, tolerance=1e-4)])
def test_training_does_not_lose_rare_words(method: MeanField | None) -> None:
    """Most words of a language are rare; what was counted of them must survive training."""
    generator = np.random.default_rng(0)
    usual = np.geomspace(0.2, 0.002, 300)
    topic = np.arange(300) % 10

    def documents(n_rows: int) -> Observations:
        raised = np.where(generator.random((n_rows, 10)) < 0.2, 4.0, 0.7)[:, topic]
        return Observations.of((generator.random((n_rows, 300)) < usual * raised).astype(np.uint8))

    rows, unseen = documents(1500), documents(500)
    options: dict[str, Any] = {"engine": get_engine(n_threads=1), "progress": False}
    options |= {} if method is None else {"method": method}
    scores = [
        evaluate(learn_topics(rows, 2, steps=steps, **options).network, unseen).elbo.mean
        for steps in (0, 100)
    ]
    assert (
        scores[1] > max(scores[0], independent_columns(rows).log_probability(unseen).mean()) + 0.3
    )


def test_mean_field_starts_from_samples() -> None:
    """Defaults of its own: more parents, a first training, Gibbs sampling."""
    rows, unseen = _documents(800, 0), _documents(800, 1)
    method = MeanField(tolerance=1e-4)
    options: dict[str, Any] = {"method": method, "steps": 30, "progress": False}
    learned = learn_topics(rows, 2, **options)
    assert learned.settings["final_learning_rate"] == pytest.approx(5e-4)
    assert learned.network.n_edges > layered(rows, 2, n_parents=5).n_edges
    alone = independent_columns(rows).log_probability(unseen).mean()
    start = initialize(layered(rows, 2, n_parents=15), "paper-3")
    blank = nor.learn_network(start, rows, batch_size=128, **options)
    scores = [evaluate(each.network, unseen).elbo.mean for each in (learned, blank)]
    assert scores[0] > max(scores[1], alone) + 0.3


def test_a_row_of_weight_w_counts_as_w_rows(documents) -> None:
    rows = documents[:300].astype(float)
    rows[np.random.default_rng(0).random(rows.shape) < 0.1] = np.nan
    weights = np.random.default_rng(1).integers(1, 5, len(rows))
    graph = layered(documents, 3, n_parents=2)
    weighted = start_from_counts(graph, Observations.of(rows).with_weights(weights))
    many = start_from_counts(graph, np.repeat(rows, weights, axis=0))
    np.testing.assert_allclose(weighted.theta, many.theta, rtol=1e-9)
    assert not np.allclose(weighted.theta, start_from_counts(graph, rows).theta, rtol=1e-3)


WIDTH = 4


def few_topics() -> np.ndarray:
    """Three topics of four words, and four words of which a document has at most one."""
    random = np.random.default_rng(0)
    rows = np.zeros((900, 4 * WIDTH))
    for k in range(3):
        on = random.random(900) < 0.3
        rows[:, WIDTH * k : WIDTH * (k + 1)] = on[:, None] & (random.random((900, WIDTH)) < 0.6)
    loose = random.integers(0, 2 * WIDTH, 900)
    for k in range(WIDTH):
        rows[loose == k, 3 * WIDTH + k] = 1
    return rows


def topics(blocks: list[int]) -> nor.Network:
    failure = np.ones((len(blocks), 4 * WIDTH))
    for k, block in enumerate(blocks):
        failure[k, WIDTH * block : WIDTH * (block + 1)] = 0.4
    return nor.bipartite(4 * WIDTH, len(blocks), failure_probability=failure, prior_probability=0.2)


def blocks_of(network: nor.Network) -> list[int]:
    return [int(row.argmin()) // WIDTH for row in np.asarray(network.failure_probability)]


def test_loose_words_and_second_copies_go():
    chosen = choose_topics(topics([3, 1, 0, 1, 2, 0]), few_topics(), 3)
    assert blocks_of(chosen) == [1, 0, 2]


def test_a_copy_stays_if_nothing_else_is_left():
    assert sorted(blocks_of(choose_topics(topics([0, 0]), few_topics(), 2))) == [0, 0]


def frequency(network: nor.Network) -> np.ndarray:
    off = 1 - network.prior_probability[:, None] * (1 - np.asarray(network.failure_probability))
    return 1 - np.prod(off, axis=0) * (1 - network.noise_probability)


def test_words_stay_as_frequent_as_they_were():
    before = topics([3, 1, 0])
    after = choose_topics(before, few_topics(), 2)
    # An edge that was 0 is 1e-4 now, so that it may change again.
    np.testing.assert_allclose(frequency(after), frequency(before), atol=5e-4)


def test_not_more_than_there_are():
    with pytest.raises(InvalidSettingError, match="has 2 topics"):
        choose_topics(topics([0, 1]), few_topics(), 3)
