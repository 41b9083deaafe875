"""Searches that are stopped: by an interrupt they go on later, by the clock they end with less."""

from __future__ import annotations

import numpy as np
import pytest

from noisyor._util.progress import Job
from noisyor.data.observations import Observations
from noisyor.engines.context import CheckpointStore, Context, Stored
from noisyor.errors import CheckpointError
from noisyor.search import factors, features
from noisyor.search.cover import is_worthwhile
from noisyor.search.factors import search_factors
from noisyor.search.features import search_features

ROWS = (np.random.default_rng(0).random((60, 3)) < 0.4) @ np.kron(np.eye(3), np.ones((1, 4))) > 0
ROWS = (ROWS ^ (np.random.default_rng(1).random(ROWS.shape) < 0.03)).astype(np.uint8)


def stopping_store(stops):
    """A store that raises KeyboardInterrupt when it has been written often enough."""
    writes = iter(range(stops - 1))

    def write(arrays):
        if next(writes, None) is None:
            raise KeyboardInterrupt

    return CheckpointStore(write=write)


def forgiving(store):
    """The same arrays, in a store that never stops."""
    return CheckpointStore(store._arrays, write=lambda arrays: None)


@pytest.mark.parametrize(
    ("n_components", "objective"), [(4, "mdl"), ("auto", "mdl"), (3, "hamming")]
)
def test_a_search_goes_on_as_if_it_had_not_been_stopped(n_components, objective):
    options = {"n_restarts": 4, "patience": 4, "objective": objective}
    whole = search_factors(ROWS, n_components, **options)
    for stops in (1, 2, 4):
        memory = stopping_store(stops)
        with pytest.raises(KeyboardInterrupt):
            search_factors(ROWS, n_components, **options, store=memory)
        memory = forgiving(memory)
        again = search_factors(ROWS, n_components, **options, store=memory)
        assert again.scores == whole.scores
        assert np.array_equal(again.factors, whole.factors)
        assert np.array_equal(again.states, whole.states)
    finished = search_factors(ROWS, n_components, **options, store=memory)
    assert np.array_equal(finished.factors, whole.factors)


def test_a_search_for_features_goes_on_too():
    images = ROWS.reshape(-1, 3, 4)
    whole = search_features(images, 2, (2, 2), n_restarts=3, patience=3)
    memory = stopping_store(2)
    with pytest.raises(KeyboardInterrupt):
        search_features(images, 2, (2, 2), n_restarts=3, patience=3, store=memory)
    kept = forgiving(memory)
    again = search_features(images, 2, (2, 2), n_restarts=3, patience=3, store=kept)
    assert again.scores == whole.scores
    assert np.array_equal(again.features, whole.features)
    assert np.array_equal(again.states, whole.states)


def test_no_time_at_all():
    job = Job(show=False, time_limit=1e-9)
    found = search_factors(ROWS, 4, progress=job)
    assert found.factors.shape == (0, 12)
    assert len(search_factors(ROWS, "auto", progress=job).factors) == 0
    images = ROWS.reshape(-1, 3, 4)
    assert search_features(images, 2, (2, 2), progress=job).features.shape == (0, 2, 2)


@pytest.mark.parametrize("module", [factors, features])
def test_time_is_over_after_the_first_restart(monkeypatch, module):
    job = Job(show=False, time_limit=3600.0)

    def run_out_of_time(scores, patience):
        job._deadline = 0.0 if scores else job._deadline
        return len(scores) <= patience

    monkeypatch.setattr(module, "is_worthwhile", run_out_of_time)
    if module is factors:
        found = search_factors(ROWS, 3, progress=job)
        assert 1 <= len(found.factors) <= 3
    else:
        found = search_features(ROWS.reshape(-1, 3, 4), 2, (2, 2), progress=job)
        assert 1 <= len(found.features) <= 2
    assert len(found.scores) == 1


def test_bits_come_back_or_are_refused():
    bits = (np.random.default_rng(2).random((5, 7)) < 0.5).astype(np.uint8)
    assert np.array_equal(Stored(states=bits).bits("states", (5, None)), bits)
    wrong = [bits[:-1], bits.astype(np.int64), bits.ravel(), bits[:, :, None], 2 * bits]
    for arrays in ({}, *({"states": array} for array in wrong)):
        with pytest.raises(CheckpointError, match="states"):
            Stored(arrays).bits("states", (5, None))
    with pytest.raises(CheckpointError, match="states"):
        Stored(states=bits).bits("states", (6, None))


def test_numbers_come_back_or_are_refused():
    arrays = {"scores": np.array([1.0, np.nan]), "words": np.array(["a"]), "table": np.eye(2)}
    kept = Stored(arrays)
    assert len(kept.numbers("scores", 2, gaps=True)) == 2
    for name, size in (("scores", 2), ("words", 1), ("table", None), ("none", None)):
        with pytest.raises(CheckpointError, match=name):
            kept.numbers(name, size)


def test_sizes_come_back_or_are_refused():
    kept = Stored(good=np.array([2.0, 0.0, 1.0]), none=np.zeros(0), broken=np.array([1.5, 1.5]))
    assert kept.sizes("good", 3) == [2, 0, 1]
    for name, total in (("good", 4), ("none", 0), ("broken", 3), ("missing", 1)):
        with pytest.raises(CheckpointError, match=name):
            kept.sizes(name, total)
    with pytest.raises(CheckpointError, match="below"):
        Stored(below=np.array([2.0, -1.0])).sizes("below", 1)


def test_good_covers_differ_and_the_best_comes_first():
    context = Context.of("auto", 0, False, None, None)
    settings = factors.SearchSettings(2, 3, objective="hamming")
    search = factors.ErrorSearch(Observations.of(ROWS), settings, context)
    best, scores = search.run(2, 3, 3)
    errors = [cover.errors(search.matrix) for cover in search.covers]
    assert errors == sorted(errors)
    assert best.errors(search.matrix) == errors[0] == round(-scores[-1])
    for index, cover in enumerate(search.covers):
        assert cover.n_components <= 2
        for worse in search.covers[index + 1 :]:
            assert ((cover.counts > 0) != (worse.counts > 0)).sum() > 0.1 * errors[index]


def test_time_is_over_after_the_first_cover(monkeypatch):
    job = Job(show=False, time_limit=3600.0)
    before = factors.ErrorSearch._keep

    def keep(search, cover):
        before(search, cover)
        job._deadline = 0.0

    monkeypatch.setattr(factors.ErrorSearch, "_keep", keep)
    found = search_factors(ROWS, 3, objective="hamming", progress=job)
    assert 1 <= len(found.factors) <= 3
    assert found.scores == ()


def test_restarts_end_when_some_in_a_row_raise_nothing():
    assert is_worthwhile([], 2)
    assert is_worthwhile([1.0, 1.0], 2)
    assert not is_worthwhile([1.0, 1.0, 1.0], 2)
    assert is_worthwhile([1.0, 1.0, 2.0, 2.0], 2)
    assert not is_worthwhile([1.0, 2.0, 2.0, 2.0 + 1e-9], 2)
