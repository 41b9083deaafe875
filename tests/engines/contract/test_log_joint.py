"""log p(h, x) of every engine: its value, its gradient, and flips that raise it."""

import numpy as np
import pytest
from engine_calls import evidence_of, explained
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_networks import random_network, random_rows

import noisyor as nor
from noisyor.engines.contract import IcmOptions
from noisyor.engines.registry import get_engine
from noisyor.inference.exact import (
    enumerate_posterior,
    hidden_configurations,
    log_joint_table,
)

NEEDS = ("max_product", "log_joint", "log_joint_gradient", "icm")

FLIPS = IcmOptions(sweeps=100, ancestors_only=False)


def value(engine, network, rows, states):
    """``log p(h, x)`` of states (lines, n_hidden)."""
    states = np.asarray(states, dtype=np.uint8)
    return engine.log_joint(engine.prepare(network), evidence_of(network, rows), states)


# ---- the value


@pytest.mark.parametrize("seed", range(20))
def test_it_equals_the_enumerated_table(engine, seed):
    network = random_network(seed, tied=seed % 2 == 0)
    x = random_rows(network, seed, n_rows=2, missing=0.3 if seed % 3 == 0 else 0.0)
    states = hidden_configurations(network.n_hidden)
    table = log_joint_table(network, states, x)
    found = value(engine, network, x, np.tile(states, (2, 1)))  # many lines for each row
    np.testing.assert_allclose(found.reshape(2, -1), table, rtol=1e-10, atol=1e-10)
    repeated = value(engine, network, np.repeat(x, 3, axis=0), np.tile(states[-1:], (6, 1)))
    np.testing.assert_allclose(repeated, np.repeat(table[:, -1], 3), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_what_max_product_finds_is_a_lower_bound(engine, seed):
    network = random_network(seed, tied=seed % 2 == 0)
    x = random_rows(network, seed, missing=0.3 if seed % 3 == 0 else 0.0)
    found = explained(engine, network, x)
    exact = enumerate_posterior(network, x)
    assert (found.log_joint <= exact.log_likelihood + 1e-9).all()
    assert (found.log_joint <= exact.map_log_joint + 1e-9).all()


# ---- the gradient


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_the_gradient_equals_finite_differences(engine, seed, samples, tied):
    network = random_network(seed, tied=tied)
    x = random_rows(network, seed, n_rows=3, missing=0.3 if seed % 2 else 0.0)
    shape = (3 * samples, network.n_hidden)
    states = np.random.default_rng(seed).integers(0, 2, shape).astype(np.uint8)

    def total(theta):
        return value(engine, network.with_theta(theta), x, states).sum() / samples

    prepared = engine.prepare(network)
    found = engine.log_joint_gradient(prepared, evidence_of(network, x), states)
    assert found.value == pytest.approx(total(network.theta))
    assert found.weight == 3
    for entry in range(network.n_params):
        width = 1e-6 * (1 + network.theta[entry])
        above, below = np.array(network.theta), np.array(network.theta)
        above[entry] += width
        below[entry] -= width
        slope = (total(above) - total(below)) / (2 * width)
        assert found.gradient[entry] == pytest.approx(slope, rel=1e-5, abs=3e-6)


def test_the_gradient_of_many_rows_is_the_sum_of_the_rows(engine):
    network = random_network(2, max_hidden=5, max_visible=6)
    x = random_rows(network, 2, n_rows=1500)  # several blocks of partial sums
    states = np.random.default_rng(0).integers(0, 2, (1500, network.n_hidden)).astype(np.uint8)
    prepared = engine.prepare(network)
    whole = engine.log_joint_gradient(prepared, evidence_of(network, x), states)
    parts = [
        engine.log_joint_gradient(prepared, evidence_of(network, x[part]), states[part])
        for part in np.array_split(np.arange(1500), 5)
    ]
    np.testing.assert_allclose(whole.gradient, np.sum([p.gradient for p in parts], axis=0))
    assert whole.value == pytest.approx(sum(part.value for part in parts))


# ---- flips


@pytest.mark.parametrize("seed", range(30))
def test_icm_climbs_to_a_single_flip_optimum(engine, seed):
    network = random_network(seed, max_hidden=9, max_visible=10, tied=seed % 2 == 0)
    x = random_rows(network, seed, n_rows=3, missing=0.2 if seed % 3 == 0 else 0.0)
    plain = explained(engine, network, x)
    refined = explained(engine, network, x, icm=100)
    assert (refined.log_joint >= plain.log_joint - 1e-12).all()
    for k in range(network.n_hidden):
        flipped = refined.states.copy()
        flipped[:, k] ^= 1
        assert (value(engine, network, x, flipped) <= refined.log_joint + 1e-8).all()


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 10**6), sweeps=st.integers(0, 3), scale=st.sampled_from([0.05, 1.0, 8.0])
)
def test_icm_never_lowers_wherever_it_starts(engine, seed, sweeps, scale):
    network = random_network(seed, max_hidden=8, scale=scale)
    x = random_rows(network, seed, 3, missing=0.2)
    generator = np.random.default_rng(seed)
    states = generator.integers(0, 2, (6, network.n_hidden)).astype(np.uint8)
    hidden = np.where(generator.random((3, network.n_hidden)) < 0.3, 0.0, np.nan)
    states[np.repeat(hidden == 0, 2, axis=0)] = 0
    prepared, evidence = engine.prepare(network), evidence_of(network, x, hidden)
    refined = engine.icm(prepared, evidence, states, FLIPS._replace(sweeps=sweeps))
    before = engine.log_joint(prepared, evidence, states)
    after = engine.log_joint(prepared, evidence, refined)
    assert (after >= before - 1e-9).all()
    assert not refined[np.repeat(hidden == 0, 2, axis=0)].any()
    if sweeps == 0:
        np.testing.assert_array_equal(refined, states)


def test_icm_leaves_clamped_nodes_alone(engine):
    network = nor.bipartite(6, 2, failure_probability=0.05, prior_probability=0.4)
    found = explained(engine, network, np.ones((1, 6)), hidden=np.zeros((1, 2)), icm=10)
    assert not found.states.any()
    free = explained(engine, network, np.ones((1, 6)), icm=10)
    assert free.states.any()


def test_icm_may_be_kept_to_the_ancestors(engine):
    edges = [(0, 0), (1, 1)]
    network = nor.from_edges(2, 2, edges, failure_probability=0.9, prior_probability=0.9)
    prepared, evidence = engine.prepare(network), evidence_of(network, np.array([[1.0, 0.0]]))
    nothing = np.zeros((1, 2), dtype=np.uint8)
    everywhere = engine.icm(prepared, evidence, nothing, FLIPS)
    above = engine.icm(prepared, evidence, nothing, FLIPS._replace(ancestors_only=True))
    np.testing.assert_array_equal(everywhere, [[1, 1]])
    np.testing.assert_array_equal(above, [[1, 0]])


@pytest.mark.parametrize("seed", range(10))
def test_icm_makes_the_flips_of_the_reference(engine, seed):
    network = random_network(seed, max_hidden=9, max_visible=8)
    x = random_rows(network, seed, n_rows=3, missing=0.2)
    states = np.random.default_rng(seed).integers(0, 2, (6, network.n_hidden)).astype(np.uint8)
    evidence, reference = evidence_of(network, x), get_engine("numpy")
    np.testing.assert_array_equal(
        engine.icm(engine.prepare(network), evidence, states, FLIPS),
        reference.icm(reference.prepare(network), evidence, states, FLIPS),
    )
