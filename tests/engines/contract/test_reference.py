"""What engines are held to is itself held to enumeration and to its own mathematics."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import random_network, random_rows, random_tree
from reference_max_product import factor_messages, max_product_row
from reference_mean_field import MeanFieldRow, project, r_floor

from noisyor.inference.exact import enumerate_posterior


def enumerated_factor(theta, leak, from_parents, from_child):
    """Max-marginal log-odds of parents and child of one factor, by enumerating its auxiliaries."""
    n = len(theta)
    thetas = np.append(theta, leak)
    best_parent = np.full((n, 2), -np.inf)
    best_child = np.full(2, -np.inf)
    for parents in product((0, 1), repeat=n):
        active = np.array([*parents, 1])
        for auxiliary in product((0, 1), repeat=n + 1):
            child = int(any(auxiliary))
            value = 0.0
            for z, a, t in zip(active, auxiliary, thetas, strict=True):
                if z == 0 and a == 1:
                    value = -np.inf
                elif z == 1:
                    value += np.log(-np.expm1(-t)) if a else -t
            outer = sum(u for u, z in zip(from_parents, parents, strict=True) if z)
            best_child[child] = max(best_child[child], value + outer)
            evidence = from_child if np.isfinite(from_child) else 0.0
            if (from_child == np.inf and child == 0) or (from_child == -np.inf and child == 1):
                continue
            total = value + outer + (evidence if child else 0.0)
            for k in range(n):
                best_parent[k, parents[k]] = max(
                    best_parent[k, parents[k]], total - (from_parents[k] if parents[k] else 0.0)
                )
    return best_parent[:, 1] - best_parent[:, 0], best_child[1] - best_child[0]


@pytest.mark.parametrize("evidence", ["finite", "on", "off"])
@pytest.mark.parametrize("seed", range(30))
def test_a_single_factor_sends_its_max_marginals(seed, evidence):
    generator = np.random.default_rng(seed)
    n = int(generator.integers(1, 5))
    theta = generator.exponential(1.0, n) + 0.01
    leak = float(generator.exponential(0.5)) + 0.01
    from_parents = generator.normal(0, 2, n)
    from_child = {"finite": float(generator.normal(0, 2)), "on": np.inf, "off": -np.inf}[evidence]
    to_parents, to_child = factor_messages(theta, leak, from_parents, from_child)
    expected_parents, expected_child = enumerated_factor(theta, leak, from_parents, from_child)
    np.testing.assert_allclose(to_parents, expected_parents, atol=1e-10)
    if evidence == "finite":
        assert to_child == pytest.approx(expected_child, abs=1e-10)
    if evidence == "off":
        np.testing.assert_allclose(to_parents, -theta, atol=1e-12)


@pytest.mark.parametrize("seed", range(60))
def test_both_schedules_are_exact_on_trees(seed):
    network = random_tree(seed)
    x = random_rows(network, seed, n_rows=1)
    exact = enumerate_posterior(network, x)
    for schedule, iterations in (("collapsed", 80), ("two-stage", 160)):
        result = max_product_row(network, x[0], schedule=schedule, iterations=iterations)
        np.testing.assert_allclose(result.beliefs, exact.max_marginals[0], atol=1e-8)


def test_the_augmented_maximiser_can_differ_from_the_true_one():
    differs = 0
    for seed in range(150):
        network = random_tree(seed)
        exact = enumerate_posterior(network, random_rows(network, seed, n_rows=2))
        assert (exact.augmented_maximum <= exact.map_log_joint + 1e-12).all()
        assert (exact.map_log_joint <= exact.log_likelihood + 1e-12).all()
        differs += (exact.augmented_states != exact.map_states).any()
    assert differs > 0


# ---- mean-field


def random_q_r(network, row, generator):
    """Random probabilities, and random weights that sum to at most one for every child."""
    q = np.where(row.free, generator.random(network.n_hidden), 0.0)
    r = np.empty(network.n_edges)
    for node in range(network.n_nodes):
        edges = slice(network.child_ptr[node], network.child_ptr[node + 1])
        weights = generator.dirichlet(np.full(edges.stop - edges.start, 0.5))
        r[edges] = np.maximum(weights, 1e-8) * generator.uniform(0.5, 1) / (1 + 1e-6)
    return q, r


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.floats(0.02, 5))
def test_no_single_update_of_the_reference_lowers_the_bound(seed, scale):
    network = random_network(seed, max_hidden=5, max_visible=5, scale=scale, tied=seed % 2 == 0)
    x = random_rows(network, seed, 1, missing=0.2 * (seed % 3 == 0))[0]
    row = MeanFieldRow.of(network, x, local=seed % 5 == 0)
    q, r = row.start()
    value = row.bound(q, r)
    for _ in range(3):
        for k in np.flatnonzero(row.free):
            new = q.copy()
            new[k] = max(1 / (1 + np.exp(-row.log_odds(k, q, r))), 1e-5)
            q, before, value = new, value, row.bound(new, r)
            assert value >= before - 1e-9
        for _ in range(4):
            r, before = row.update_r(q, r), value
            value = row.bound(q, r)
            assert value >= before - 1e-9


@settings(max_examples=50, deadline=None)
@given(scores=st.lists(st.floats(0, 1), min_size=1, max_size=60), large=st.booleans())
def test_weights_stay_on_the_simplex_above_the_floor(scores, large):
    old = np.full(len(scores), 1 / len(scores))
    new = project(np.array(scores) * (1e6 if large else 1e-6), old)
    assert new.sum() == pytest.approx(1, abs=1e-12)
    assert new.min() >= r_floor(len(scores))


@pytest.mark.parametrize("seed", range(10))
def test_sequential_and_level_parallel_sweeps_are_identical(seed):
    network = random_network(seed, max_hidden=8)
    row = MeanFieldRow.of(network, random_rows(network, seed, 1)[0])
    q, r = random_q_r(network, row, np.random.default_rng(seed))
    for _ in range(3):
        sequential, parallel = row.sweep(q, r), row.sweep(q, r, "parallel")
        assert (sequential == parallel).all()
        q = sequential
