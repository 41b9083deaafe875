"""The number of causes is chosen by rows set aside, and is small where they do not object."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.learning.recipes import number
from noisyor.learning.recipes.number import choose_number, shrink

SETTINGS = {"noise": "per_visible", "n_restarts": 2, "seed": 0, "engine": "auto"}


@pytest.fixture(scope="module")
def blocks():
    """(200, 12): three causes of four columns each, edges that fail by different amounts."""
    failure = np.ones((3, 12))
    for k in range(3):
        failure[k, 4 * k : 4 * k + 4] = [0.1, 0.2, 0.4, 0.6]
    network = nor.bipartite(
        12, 3, failure_probability=failure, prior_probability=0.4, noise_probability=0.03
    )
    return Observations.of(nor.sample(network, 200, seed=1).visible)


def test_independent_columns_get_one_cause():
    rows = np.random.default_rng(0).random((200, 8)) < np.linspace(0.1, 0.6, 8)
    choice = choose_number(Observations.of(rows.astype(np.uint8)), progress=False, **SETTINGS)
    assert choice.n_components == 1


def test_the_fewest_within_one_error_of_the_best_are_taken():
    judges = Observations.of(np.zeros((4, 2), dtype=np.uint8))
    spread = np.array([1.0, -1.0, 1.0, -1.0])
    best = np.full(4, -2.0)
    scores = {8: best, 4: best - 0.4 + spread, 2: best - 0.7 + spread, 1: best - 3.0 + spread}
    poor = np.full(4, -12.0)
    choice = number.fewest(scores, poor, judges)  # each difference has the error 1 / sqrt(3)
    assert choice.n_components == 4
    error = 1 / np.sqrt(3)
    errors = [one["error"] for one in choice.candidates]
    np.testing.assert_allclose(errors, [error, error, error, 0.0])
    sure = {8: best, 2: best - 0.29, 1: best - 0.31}  # three hundredths of the gain are 0.3
    assert number.fewest(sure, poor, judges).n_components == 2
    assert number.fewest(sure, best, judges).n_components == 1


def test_few_rows_have_nothing_to_choose_by(blocks):
    assert choose_number(blocks.take(slice(0, 30)), progress=False, **SETTINGS) is None


def test_shrinking_keeps_what_matters(blocks):
    rich, _ = nor.learning.start_by_search(blocks, 3, n_restarts=2, progress=False)
    sizes = [one.n_hidden for one in shrink(rich, blocks, 1, seed=0, engine="auto")]
    assert sizes == [3, 2, 1]
    assert [one.n_hidden for one in shrink(rich, blocks, 3, seed=0, engine="auto")] == [3]


def test_learn_factors_says_what_was_tried(blocks):
    fitted = nor.learn_factors(blocks, "auto", n_restarts=2, steps=5, progress=False)
    assert fitted.network.n_hidden == 3  # those that made the rows
    number = fitted.settings["number"]
    assert (number["chosen"], number["rows"]) == (3, 50)
    tried = {one["n_components"]: one for one in number["candidates"]}
    assert list(tried) == sorted(tried)
    assert tried[1]["below"] > tried[1]["error"]
    assert min(one["below"] for one in tried.values()) == 0
    exact = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], 200, axis=0)
    settled = nor.learn_factors(exact, "auto", n_restarts=2, progress=False)
    assert "number" not in settled.settings  # the factors draw the table without errors
    assert settled.network.n_hidden == 2
