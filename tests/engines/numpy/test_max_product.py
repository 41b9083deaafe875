"""The NumPy reference against enumeration: single factors, then whole trees."""

from itertools import product

import numpy as np
import pytest
from random_networks import random_rows, random_tree

from noisyor.engines.numpy.max_product import factor_messages, max_product_row
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
    for schedule, iterations in (("collapsed", 150), ("two-stage", 400)):
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
