"""The number of true causes that a model recovers, against trying all assignments."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduction.one_layer import recovered_parameters


def recovered_by_definition(theta, prior, true_failure):
    """All assignments tried; the counts of those with the smallest sum of costs."""
    kept = [k for k in range(len(theta)) if prior[k] > 0.02]
    true = -np.log(true_failure)
    cost = {
        (g, k): max(abs(theta[k][j] - true[g][j]) for j in range(true.shape[1]))
        for g in range(len(true))
        for k in kept
    }
    size = min(len(true), len(kept))
    best: dict[float, set[int]] = {}
    for chosen in itertools.combinations(range(len(true)), size):
        for partners in itertools.permutations(kept, size):
            pairs = [cost[g, k] for g, k in zip(chosen, partners, strict=True)]
            best.setdefault(round(sum(pairs), 9), set()).add(sum(c <= 1.0 for c in pairs))
    return best[min(best)] if best else {0}


SEEDS = st.integers(0, 2**32 - 1)


class TestRecovery:
    @given(SEEDS)
    @settings(max_examples=40, deadline=None)
    def test_by_definition(self, seed):
        generator = np.random.default_rng(seed)
        n_true, n_learned = generator.integers(1, 5), generator.integers(1, 6)
        true = generator.choice([1.0, 0.1, 0.3], (n_true, 4))
        near = -np.log(true[generator.integers(0, n_true, n_learned)])
        theta = np.abs(near + generator.normal(0, 0.8, near.shape))
        prior = generator.choice([0.01, 0.02, 0.021, 0.3], n_learned)
        found = recovered_parameters(theta, prior, true)
        assert found.n_recovered in recovered_by_definition(theta, prior, true)
        for g, k in enumerate(found.learned):
            if k < 0:
                assert np.isinf(found.cost[g])
            else:
                assert prior[k] > 0.02
                assert found.cost[g] == pytest.approx(np.abs(theta[k] + np.log(true[g])).max())

    def test_the_truth_in_another_order(self):
        failure = np.where(np.eye(8, 12) > 0, 0.1, 1.0)
        order = np.random.default_rng(0).permutation(8)
        found = recovered_parameters(-np.log(failure)[order], np.full(8, 0.2), failure)
        assert found.n_recovered == 8
        assert (order[found.learned] == np.arange(8)).all()

    def test_a_cost_of_exactly_one_counts(self):
        assert recovered_parameters([[1.0]], [0.5], [[1.0]]).n_recovered == 1
        assert recovered_parameters([[1.0 + 1e-9]], [0.5], [[1.0]]).n_recovered == 0

    def test_rare_causes_are_left_out(self):
        failure = np.array([[0.1, 1.0]])
        assert recovered_parameters(-np.log(failure), [0.02], failure).n_recovered == 0
        assert recovered_parameters(-np.log(failure), [0.0201], failure).n_recovered == 1

    def test_the_smallest_sum_decides_not_the_count(self):
        # costs 0 and 1.5 one way, 0.9 and 0.9 the other: the smaller sum recovers only one
        true = np.exp(-np.array([[0.0, 0.0], [0.9, 0.0]]))
        learned = np.array([[0.0, 0.0], [0.9, 1.5]])
        assert recovered_parameters(learned, [0.5, 0.5], true).n_recovered == 1
