"""Of more topics than are asked for the best."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor.errors import InvalidSettingError
from noisyor.search.starts import choose_topics

WIDTH = 4


def documents() -> np.ndarray:
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
    chosen = choose_topics(topics([3, 1, 0, 1, 2, 0]), documents(), 3)
    assert blocks_of(chosen) == [1, 0, 2]


def test_a_copy_stays_if_nothing_else_is_left():
    assert sorted(blocks_of(choose_topics(topics([0, 0]), documents(), 2))) == [0, 0]


def frequency(network: nor.Network) -> np.ndarray:
    off = 1 - network.prior_probability[:, None] * (1 - np.asarray(network.failure_probability))
    return 1 - np.prod(off, axis=0) * (1 - network.noise_probability)


def test_words_stay_as_frequent_as_they_were():
    before = topics([3, 1, 0])
    after = choose_topics(before, documents(), 2)
    # An edge that was 0 is 1e-4 now, so that it may change again.
    np.testing.assert_allclose(frequency(after), frequency(before), atol=5e-4)


def test_not_more_than_there_are():
    with pytest.raises(InvalidSettingError, match="has 2 topics"):
        choose_topics(topics([0, 1]), documents(), 3)
