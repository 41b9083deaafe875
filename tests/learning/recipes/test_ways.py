"""Which way describes a table: factors of a search, causes, or classes."""

from dataclasses import replace

import numpy as np
import pytest

import noisyor as nor
from noisyor._util.progress import Job
from noisyor.data.observations import Observations
from noisyor.engines.registry import get_engine
from noisyor.learning.checkpoint import SearchFile
from noisyor.learning.options import TrainOptions
from noisyor.learning.recipes import ways
from noisyor.learning.recipes.job import Work
from noisyor.search.cover import ErrorRates


def work(keeper=None):
    job = Job(["search"], show=False)
    options = TrainOptions(steps=1, batch_size=10, learning_rate=0.1, seed=0, progress=job)
    return Work(job, options, get_engine("auto"), keeper)


def drawn_by_factors(generator):
    """Overlapping factors, each on by itself; one entry in a hundred is flipped."""
    factors = generator.random((5, 20)) < 0.3
    rows = (generator.random((600, 5)) < 0.3) @ factors > 0
    return rows ^ (generator.random(rows.shape) < 0.01)


def many_noisy_factors(generator):
    """So many that one start of the search misses most of them; one entry in fifty is flipped."""
    rows = (generator.random((800, 24)) < 0.12) @ (generator.random((24, 60)) < 0.12) > 0
    return rows ^ (generator.random(rows.shape) < 0.02)


def faint_causes(generator):
    """Each works in less than half of its columns, which no drawing can tell."""
    truth = nor.bipartite(
        24,
        4,
        noise="per_visible",
        failure_probability=np.where(np.kron(np.eye(4), np.ones(6)) > 0, 0.55, 1.0),
        prior_probability=0.3,
        noise_probability=0.05,
    )
    return nor.sample(truth, 1500, seed=3).visible


def kinds(generator):
    """Every row is of one of eight kinds."""
    own = np.where(generator.random((8, 16)) < 0.5, 0.9, 0.1)
    return generator.random((1000, 16)) < own[generator.integers(8, size=1000)]


@pytest.mark.parametrize(
    ("make", "name", "fewest", "most"),
    [
        (drawn_by_factors, "search", 0, 0),
        (many_noisy_factors, "search", 0, 0),
        (faint_causes, "causes", 3, 6),
        (kinds, "classes", 6, 8),
    ],
)
def test_rows_that_were_set_aside_tell_the_way(make, name, fewest, most):
    rows = Observations.of(make(np.random.default_rng(0)).astype(np.uint8))
    way = ways.choose_way(rows, work())
    assert way.name == name
    if name == "search":
        assert way.number is None
    else:
        assert fewest <= way.number.n_components <= most
        assert way.scores[name] >= max(way.scores.values()) - 0.1
    assert (way.network is None) == (name == "search")


def test_what_was_tried_is_not_tried_again(tmp_path, monkeypatch):
    rows = Observations.of(faint_causes(np.random.default_rng(0)).astype(np.uint8))
    first = ways.choose_way(rows, work(SearchFile(tmp_path / "kept", "rows", resume=False)))
    monkeypatch.setattr(ways, "learn_mixture", None)
    monkeypatch.setattr(ways, "causes_by_factorisation", None)
    again = ways.choose_way(rows, work(SearchFile(tmp_path / "kept", "rows", resume=True)))
    assert again.number == first.number
    assert again.scores == first.scores
    assert np.array_equal(again.network.theta, first.network.theta)


def test_without_time_it_is_the_search_that_has_something():
    rows = Observations.of(faint_causes(np.random.default_rng(0)).astype(np.uint8))
    job = Job(["search"], show=False, time_limit=1e-9)
    assert ways.choose_way(rows, work()._replace(job=job)).name == "search"


def test_factors_draw_a_table_that_has_few_errors_and_most_ones_below_them():
    two = np.repeat([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], 20, axis=0)
    found = nor.search.search_factors(two, 2, n_restarts=1)
    assert ways.is_nearly_exact(found)
    assert not ways.is_nearly_exact(replace(found, rates=ErrorRates(0.2, 0.0)))
    assert not ways.is_nearly_exact(replace(found, factors=np.eye(6, dtype=np.uint8)))
    half = replace(found, states=found.states[:, :1], factors=found.factors[:1])
    assert not ways.is_nearly_exact(half)


def test_rare_ones_that_come_on_by_themselves_are_not_drawn():
    generator = np.random.default_rng(0)
    rows = generator.random((800, 60)) < np.r_[0.5, 0.4, np.full(58, 0.01)]  # independent columns
    rows[:, 2:5] |= generator.random((800, 1)) < 0.03
    way = ways.choose_way(Observations.of(rows.astype(np.uint8)), work())
    assert way.name != "search"
