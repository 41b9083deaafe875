"""Sets of alternatives in every engine, held to the definition: no two nodes of a set are on."""

from dataclasses import replace

import numpy as np
import pytest
from engine_calls import evidence_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_networks import random_network, random_rows
from sets import allowed, conditioned_table, with_sets

from noisyor.errors import InvalidDataError
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
