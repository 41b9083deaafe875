"""The paper's order of messages, held to the NumPy engine iteration by iteration."""

from functools import cache

import numpy as np
import pytest
from engine_calls import explained
from random_networks import loopy_problem, random_network, random_rows, random_tree
from whole_engines import whole_engine

import noisyor as nor
from noisyor.engines.registry import get_engine

NEEDS = ("max_product", "log_joint")

FORCED = {"two_stage": True, "tolerance": 0.0}


def assert_follows_the_reference(engine, network, x, **how):
    """Compare beliefs with those of the NumPy engine after as many iterations."""
    assert_close(
        explained(engine, network, x, **FORCED, **how).beliefs,
        explained(get_engine("numpy"), network, x, **FORCED, **how).beliefs,
    )


def assert_close(beliefs, expected):
    assert (np.abs(beliefs - expected) / (1 + np.abs(expected))).max() < 1e-4


@cache  # every engine is held to the same
def reference(seed, iterations):
    network, rows = loopy_problem(seed)
    how = {"max_iterations": iterations}
    return explained(get_engine("numpy"), network, rows, **FORCED, **how)


@pytest.mark.parametrize("iterations", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("seed", range(12))
def test_loopy_networks_follow_the_reference(engine, seed, iterations):
    network, x = loopy_problem(seed)
    how = {"max_iterations": iterations}
    found = explained(engine, network, x, **FORCED, **how)
    assert_close(found.beliefs, reference(seed, iterations).beliefs)


@pytest.mark.parametrize("damping", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("n_hidden", [3, 8, 21])
def test_dense_bipartite_networks_follow_the_reference(engine, n_hidden, damping):
    generator = np.random.default_rng(n_hidden)
    network = nor.initialize(nor.bipartite(30, n_hidden), "paper-2", noise="gaussian", seed=1)
    x = (generator.random((3, 30)) < 0.3).astype(np.uint8)
    for iterations in (1, 2, 30):
        how = {"max_iterations": iterations, "step": 1.0 - damping}
        assert_follows_the_reference(engine, network, x, **how)


@pytest.mark.parametrize("seed", [0, 2, 4, 7])
def test_children_with_many_and_with_few_parents_follow_the_reference(engine, seed):
    network = random_network(seed, max_hidden=30, max_visible=12, density=0.75)
    # Kernels may take those with more than 16 eight edges at a time, and others by eight children.
    assert np.diff(network.child_ptr).max() > 16
    x = random_rows(network, seed, n_rows=2, missing=0.3)
    for iterations in (1, 2, 3, 20):
        how = {"max_iterations": iterations}
        assert_follows_the_reference(engine, network, x, **how)


def test_a_column_without_parents_changes_nothing(engine):
    network = nor.from_edges(3, 2, [(0, 0), (1, 0), (1, 1)], failure_probability=0.3)
    without, on = (
        explained(engine, network, np.array([row]), two_stage=True)
        for row in ([1, 1, 0], [1, 1, 1])
    )
    np.testing.assert_array_equal(without.iterations, on.iterations)
    np.testing.assert_array_equal(without.beliefs, on.beliefs)


def test_it_takes_the_same_noise_as_the_collapsed_schedule(engine):
    network = nor.bipartite(4, 1, failure_probability=0.4, prior_probability=0.3)
    x = np.array([[1, 0, 1, 0], [0, 0, 1, 1]])
    how = {"temperature": 1.0, "n_samples": 5, "seed": 3}
    ours = explained(engine, network, x, max_iterations=400, two_stage=True, tolerance=1e-6, **how)
    collapsed = explained(engine, network, x, **how)
    np.testing.assert_allclose(ours.beliefs, collapsed.beliefs, atol=2e-3)


@pytest.mark.parametrize("ancestors_only", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_on_trees_both_schedules_agree_with_any_evidence(engine, seed, ancestors_only):
    network = random_tree(seed + 500, max_hidden=6)
    generator = np.random.default_rng(seed)
    x = random_rows(network, seed, n_rows=3)
    evidence = np.where(
        generator.random((3, network.n_hidden)) < 0.4,
        generator.integers(0, 2, (3, network.n_hidden)),
        np.nan,
    )
    how = {"ancestors_only": ancestors_only, "tolerance": 0.0, "hidden": evidence}
    collapsed = explained(engine, network, x, **how)
    ours = explained(engine, network, x, two_stage=True, max_iterations=150, **how)
    np.testing.assert_array_equal(ours.states, collapsed.states)
    np.testing.assert_allclose(ours.log_joint, collapsed.log_joint)


def test_it_stops_once_nothing_changes(engine):
    network = random_tree(7)
    x = random_rows(network, 7, n_rows=5)
    stopped = explained(engine, network, x, two_stage=True, max_iterations=400)
    assert (stopped.residual < 1e-3).all()
    assert (stopped.iterations < 400).all()
    forced = explained(engine, network, x, max_iterations=400, **FORCED)
    np.testing.assert_array_equal(stopped.states, forced.states)


def test_rows_do_not_depend_on_their_neighbours_or_the_threads(engine):
    network = random_network(5, max_hidden=12, max_visible=20)
    data = nor.Observations.of(random_rows(network, 5, n_rows=40))
    how = {"two_stage": True, "temperature": 1.0, "seed": 2}
    together = explained(engine, network, data, **how)
    one_thread = explained(whole_engine(engine.name, n_threads=1), network, data, **how)
    alone = explained(engine, network, data.take([17]), **how)
    for many, same, single in zip(together, one_thread, alone, strict=True):
        np.testing.assert_array_equal(many, same)
        np.testing.assert_array_equal(many[17:18], single)
