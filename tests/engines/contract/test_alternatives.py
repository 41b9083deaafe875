"""Sets of alternatives in every engine, held to the definition: no two nodes of a set are on."""

from dataclasses import replace

import numpy as np
import pytest
from engine_calls import evidence_of, explained
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_networks import random_network, random_rows, random_tree
from sets import (
    allowed,
    conditioned_augmented_table,
    conditioned_table,
    tree_with_sets,
    with_sets,
)

from noisyor.data.observations import Observations
from noisyor.engines.contract import NEVER
from noisyor.engines.registry import get_engine
from noisyor.inference.exact import hidden_configurations

NEEDS = ("log_joint", "log_joint_gradient", "max_product")

RANDOM = settings(
    deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def value(engine, network, rows, states):
    """``log p(h, x)`` of states (lines, n_hidden)."""
    return engine.log_joint(engine.prepare(network), evidence_of(network, rows), states)


# ---- log p(h, x)


@RANDOM
@given(seed=st.integers(0, 10_000))
def test_log_p_is_that_of_independent_causes_given_that_no_two_are_on(engine, seed):
    network = with_sets(random_network(seed, tied=seed % 2 == 0), seed)
    x = random_rows(network, seed, n_rows=2, missing=0.3 if seed % 3 == 0 else 0.0)
    states = hidden_configurations(network.n_hidden)
    table = conditioned_table(network, states, x)
    found = value(engine, network, x, np.tile(states, (2, 1))).reshape(2, -1)
    np.testing.assert_allclose(found, table, rtol=1e-10, atol=1e-10)
    assert np.isneginf(found[:, ~allowed(network, states)]).all()


@RANDOM
@given(seed=st.integers(0, 10_000))
def test_a_set_of_one_node_is_an_ordinary_node(engine, seed):
    network = random_network(seed)
    roots = np.diff(network.child_ptr)[network.n_visible :] == 0
    single = replace(network, alternatives=np.where(roots, np.cumsum(roots) - 1, -1))
    x = random_rows(network, seed, n_rows=3)
    states = np.random.default_rng(seed).integers(0, 2, (3, network.n_hidden)).astype(np.uint8)
    np.testing.assert_allclose(
        value(engine, single, x, states), value(engine, network, x, states), rtol=1e-12, atol=1e-12
    )
    one, other = (
        engine.log_joint_gradient(engine.prepare(each), evidence_of(each, x), states)
        for each in (single, network)
    )
    np.testing.assert_allclose(one.gradient, other.gradient, rtol=1e-12, atol=1e-12)


@RANDOM
@given(seed=st.integers(0, 10_000))
def test_the_gradient_equals_finite_differences(engine, seed):
    network = with_sets(random_network(seed, max_hidden=6, tied=seed % 2 == 0), seed)
    x = random_rows(network, seed, n_rows=3, missing=0.3 if seed % 2 else 0.0)
    generator = np.random.default_rng(seed)
    every = hidden_configurations(network.n_hidden)
    states = generator.choice(every[allowed(network, every)], 6)
    weights = generator.integers(1, 4, 3)
    evidence = evidence_of(network, x, weights=weights)

    def total(theta):
        prepared = engine.prepare(network.with_theta(theta))
        return np.repeat(weights, 2) @ engine.log_joint(prepared, evidence, states) / 2

    found = engine.log_joint_gradient(engine.prepare(network), evidence, states)
    assert found.value == pytest.approx(total(network.theta))
    for entry in range(network.n_params):
        width = 1e-6 * (1 + network.theta[entry])
        step = width * (np.arange(network.n_params) == entry)
        slope = (total(network.theta + step) - total(network.theta - step)) / (2 * width)
        assert found.gradient[entry] == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_extreme_priors_stay_finite(engine):
    network = with_sets(random_network(3, max_hidden=5), 3, share=1.0)
    states = np.zeros((1, network.n_hidden), dtype=np.uint8)
    states[0, network.sets.member[0]] = 1
    rows = np.ones((1, network.n_visible))
    for leak in (0.0, 1e-12, 40.0, 2000.0):
        theta = np.array(network.theta)
        theta[network.leak_param[network.n_visible :]] = leak
        prepared, evidence = engine.prepare(network.with_theta(theta)), evidence_of(network, rows)
        found = engine.log_joint_gradient(prepared, evidence, states)
        assert np.isfinite(found.value)
        assert np.isfinite(found.gradient).all()


# ---- max-product


def exact_on_trees(network, x, hidden, maximize_missing):
    """Max-marginals (n_rows, n_hidden) and maxima of A, given what is known of hidden nodes."""
    states = hidden_configurations(network.n_hidden)
    table = conditioned_augmented_table(network, states, x, maximize_missing)
    for row, known in enumerate(hidden):
        wrong = (states != known) & ~np.isnan(known)
        table[row, wrong.any(axis=1)] = -np.inf
    on = states == 1
    best = [[table[:, of[:, k]].max(axis=1) for k in range(network.n_hidden)] for of in (on, ~on)]
    with np.errstate(invalid="ignore"):
        return (np.array(best[0]) - np.array(best[1])).T, table.max(axis=1), table


def known_nodes(network, generator, n_rows):
    """Evidence on some hidden nodes that some configuration agrees with."""
    states = hidden_configurations(network.n_hidden)
    states = states[allowed(network, states)]
    possible = generator.choice(states, n_rows).astype(float)
    return np.where(generator.random(possible.shape) < 0.25, possible, np.nan)


@pytest.mark.parametrize("two_stage", [False, True])
@pytest.mark.parametrize("block", range(4))
def test_trees_are_solved_exactly(engine, block, two_stage):
    for seed in range(12 * block, 12 * block + 12):
        network = tree_with_sets(random_tree(seed, max_hidden=7, join=0.15), seed)
        x = random_rows(network, seed, n_rows=3, missing=0.3 if seed % 3 == 0 else 0.0)
        maximize, generator = seed % 2 == 0, np.random.default_rng(seed)
        hidden = known_nodes(network, generator, 3) if seed % 4 > 1 else np.full((3, 1), np.nan)
        found = explained(
            engine,
            network,
            x,
            hidden=np.broadcast_to(hidden, (3, network.n_hidden)),
            maximize_missing=maximize,
            two_stage=two_stage,
            tolerance=1e-6,
            max_iterations=300,
        )
        expected, maximum, table = exact_on_trees(network, x, hidden, maximize)
        sure = np.isinf(expected)
        np.testing.assert_allclose(found.beliefs[~sure], expected[~sure], atol=2e-4)
        np.testing.assert_array_equal(
            found.beliefs[sure], np.copysign(np.float32(NEVER), expected[sure])
        )
        index = found.states @ (1 << np.arange(network.n_hidden - 1, -1, -1))
        np.testing.assert_allclose(table[np.arange(3), index], maximum, atol=1e-3)


def test_trees_with_sets_have_large_ones():
    sizes = [
        np.diff(tree_with_sets(random_tree(seed, max_hidden=7, join=0.15), seed).sets.ptr)
        for seed in range(48)
    ]
    assert np.sum(np.concatenate(sizes) > 1) > 10


@pytest.mark.parametrize("two_stage", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_messages_are_those_of_the_plain_engine(engine, seed, two_stage):
    if engine.name == "numpy":
        pytest.skip("it is the plain engine")
    network = with_sets(random_network(seed, max_hidden=20, max_visible=25, density=0.4), seed)
    x = random_rows(network, seed, n_rows=3, missing=0.2 if seed % 2 else 0.0)
    for iterations in (1, 2, 7, 100):
        how = {
            "max_iterations": iterations,
            "tolerance": 0.0,
            "temperature": 1.0,
            "n_samples": 2,
            "ancestors_only": seed % 4 > 1,
            "two_stage": two_stage,
        }
        mine, theirs = (explained(one, network, x, **how) for one in (engine, get_engine("numpy")))
        np.testing.assert_allclose(mine.beliefs, theirs.beliefs, rtol=1e-4, atol=1e-3)
        clear = np.abs(theirs.beliefs) > 1e-3
        np.testing.assert_array_equal(mine.states[clear], theirs.states[clear])
        np.testing.assert_allclose(mine.residual, theirs.residual, rtol=1e-3, atol=1e-3)
        assert allowed(network, mine.states).all()


@pytest.mark.parametrize("two_stage", [False, True])
def test_a_set_of_one_node_has_the_messages_of_an_ordinary_node(engine, two_stage):
    for seed in range(4):
        network = random_network(seed, max_hidden=10)
        roots = np.diff(network.child_ptr)[network.n_visible :] == 0
        single = replace(network, alternatives=np.where(roots, np.cumsum(roots) - 1, -1))
        x = random_rows(network, seed, n_rows=3)
        one, other = (
            explained(engine, each, x, temperature=1.0, two_stage=two_stage)
            for each in (single, network)
        )
        for mine, theirs in zip(one[:4], other[:4], strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("two_stage", [False, True])
def test_alternatives_that_take_no_part_do_not_stand_in_the_way(engine, two_stage):
    network = with_sets(random_network(12, max_hidden=20, max_visible=20, density=0.1), 12, 1.0)
    x = (np.random.default_rng(1).random((6, network.n_visible)) < 0.15).astype(float)
    how = {"ancestors_only": True, "two_stage": two_stage, "temperature": 1.0}
    together = explained(engine, network, x, **how)
    assert (together.beliefs == np.float32(NEVER)).any()
    assert together.states.any()
    assert allowed(network, together.states).all()
    rows = Observations.of(x)
    for row in range(6):  # what an earlier row left in memory changes nothing
        alone = explained(engine, network, rows.take([row]), **how)
        np.testing.assert_array_equal(alone.beliefs[0], together.beliefs[row])
