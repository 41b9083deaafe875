from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyor import Observations, bipartite, convolutional
from noisyor.errors import InvalidDataError, InvalidNetworkError, InvalidSettingError
from noisyor.metrics import (
    confidence_of_mean,
    confidence_of_share,
    factorization_error,
    full_recovery,
    independent_elbo,
    recovered_parameters,
)
from noisyor.network.boolean import boolean_product

SEEDS = st.integers(0, 2**32 - 1)


class TestBooleanProduct:
    @given(SEEDS)
    @settings(max_examples=30, deadline=None)
    def test_by_definition(self, seed):
        generator = np.random.default_rng(seed)
        n, r, p = generator.integers(1, 7, 3)
        U, V = generator.integers(0, 2, (n, r)), generator.integers(0, 2, (r, p))
        expected = [
            [int(any(U[a, k] and V[k, j] for k in range(r))) for j in range(p)] for a in range(n)
        ]
        assert boolean_product(U, V).tolist() == expected

    def test_shapes_must_fit(self):
        with pytest.raises(InvalidDataError, match="3 columns"):
            boolean_product(np.ones((2, 3)), np.ones((2, 3)))


class TestFactorizationError:
    def test_threshold_and_product(self):
        log2 = math.log(2.0)
        network = bipartite(
            3,
            2,
            failure_probability=np.exp(
                -np.array([[log2 + 1e-9, log2 - 1e-6, 3.0], [0.0, 5.0, 0.0]])
            ),
        )
        # the factor is 101 / 010
        X = np.array([[1, 1, 1], [0, 0, 0], [0, 1, 0]])
        states = sp.csr_array(np.array([[1, 1], [0, 1], [1, 0]]))
        # reconstructed 111, 010, 101: 0 + 1 + 3 entries of 9 differ
        assert factorization_error(network, states, X) == pytest.approx(100 * 4 / 9)

    def test_other_networks_are_refused(self):
        with pytest.raises(InvalidNetworkError, match="bipartite"):
            factorization_error(
                convolutional((3, 3), 1, (2, 2)), np.zeros((1, 4)), np.zeros((1, 9))
            )


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

    @pytest.mark.parametrize(
        ("theta", "prior", "true"),
        [([[1.0]], [0.1], [[1.0, 1.0]]), ([[1.0]], [0.1, 0.1], [[1.0]]), ([[1.0]], [0.1], [[0.0]])],
    )
    def test_errors(self, theta, prior, true):
        with pytest.raises(InvalidDataError):
            recovered_parameters(theta, prior, true)

    def test_full_recovery(self):
        assert full_recovery([8, 7, 8, 0]) == 50.0
        assert full_recovery([3], n_true=3) == 100.0
        with pytest.raises(InvalidDataError):
            full_recovery([])


class TestIntervals:
    @pytest.mark.parametrize(
        ("percent", "n_runs", "printed"),
        [(26.0, 50, 12.1), (72.0, 50, 12.5), (29.6, 500, 4.0), (98.0, 50, 3.9), (100.0, 50, 0.0)],
    )
    def test_shares_as_the_paper_prints_them(self, percent, n_runs, printed):
        assert confidence_of_share(percent, n_runs) == pytest.approx(printed, abs=0.06)

    def test_mean(self):
        # deviations -1, 0, 1: standard deviation 1
        assert confidence_of_mean([6, 7, 8]) == pytest.approx(1.96 / math.sqrt(3))
        assert math.isnan(confidence_of_mean([7]))

    @pytest.mark.parametrize(("percent", "n_runs"), [(-1.0, 5), (101.0, 5), (50.0, 0)])
    def test_not_a_share(self, percent, n_runs):
        with pytest.raises(InvalidSettingError):
            confidence_of_share(percent, n_runs)


def test_independent_reference():
    train = Observations.of(np.array([[1, 0], [1, 0], [0, 0]]))
    test = Observations.of(np.array([[1, 0], [0, 1]]))
    first, second = 2.5 / 4, 0.5 / 4
    rows = [
        math.log(first) + math.log(1 - second),
        math.log(1 - first) + math.log(second),
    ]
    assert independent_elbo(train, test) == pytest.approx(sum(rows) / 2)
