"""Networks from mixtures: the same probabilities, and sets that are still to be learned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import noisyor as nor
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.exact import hidden_configurations, log_joint_table
from noisyor.search import BernoulliMixture, learn_mixture, start_from_mixture

EVERYTHING = hidden_configurations(6)  # all rows of six columns


def log_p(network: nor.Network, rows: np.ndarray) -> np.ndarray:
    states = hidden_configurations(network.n_hidden)
    return logsumexp(log_joint_table(network, states, rows), axis=1)


def some_mixture(seed: int, n_classes: int, least: float = 0.05) -> BernoulliMixture:
    generator = np.random.default_rng(seed)
    probability = generator.uniform(least, 1.0 - least, (n_classes, 6))
    return BernoulliMixture(generator.dirichlet(np.full(n_classes, 3.0)), probability)


class TestOneSet:
    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 2**20), st.integers(1, 5))
    def test_the_network_has_the_probabilities_of_the_mixture(self, seed, n_classes):
        """But for a trace, which goes to "none of the classes"."""
        mixture = some_mixture(seed, n_classes)
        found = log_p(start_from_mixture(mixture), EVERYTHING)
        expected = mixture.log_probability(EVERYTHING)
        np.testing.assert_allclose(np.exp(found), np.exp(expected), atol=2e-6)
        assert (found > expected - 1e-5).all()
        assert np.exp(expected) @ (expected - found) < 1e-5
        assert np.exp(found).sum() == pytest.approx(1.0)

    def test_so_has_a_learned_one(self):
        X = np.repeat([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [0, 1, 0, 0, 1, 0]], 40, axis=0)
        mixture = learn_mixture(X, 3)
        network = start_from_mixture(mixture)
        np.testing.assert_allclose(log_p(network, X), mixture.log_probability(X), atol=1e-2)
        estimate = nor.estimate_evidence(network, X[::40], n_chains=4, n_steps=4)
        np.testing.assert_allclose(estimate.per_row, log_p(network, X[::40]), atol=1e-2)

    def test_classes_are_alternatives_and_every_edge_can_grow(self):
        network = start_from_mixture(some_mixture(0, 4, least=1e-6))
        assert network.alternatives.tolist() == [0, 0, 0, 0]
        assert network.failure_probability.shape == (4, 6)
        assert network.failure_probability.max() < 1.0


class TestFurtherSets:
    X = np.array([[1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1]])

    def test_their_sizes_and_priors(self):
        network = start_from_mixture(some_mixture(1, 2), self.X, [3, 1])
        assert network.alternatives.tolist() == [0, 0, 1, 1, 1, 2]
        alone = np.exp(log_joint_table(network, np.eye(6), np.full((1, 6), np.nan))[0])
        none = np.exp(log_joint_table(network, np.zeros((1, 6)), np.full((1, 6), np.nan))[0, 0])
        # A set of size s is off half of the time: each of its nodes is 1 / s as likely as that.
        np.testing.assert_allclose(alone[2:] / none, [1 / 3, 1 / 3, 1 / 3, 1.0], rtol=1e-6)

    def test_they_are_made_of_rows(self):
        network = start_from_mixture(some_mixture(1, 2), self.X, [4])
        works = 1.0 - network.failure_probability[2:]
        strong = works > 2e-4
        rows = self.X.astype(bool)
        assert all(any((one <= row).all() for row in rows) for one in strong)
        assert strong.any(axis=1).all()
        assert works.max() <= 0.3

    def test_unobserved_entries_count_as_off(self):
        X = np.where(self.X == 0, np.nan, 1.0)
        works = 1.0 - start_from_mixture(some_mixture(1, 2), X, [4]).failure_probability[2:]
        assert ((works > 2e-4) <= (self.X[:, None] == 1).any(axis=0)).all()
        assert not (works[:, 2:4] > 2e-4).any()

    def test_they_are_far_apart_and_made_of_what_the_mixture_leaves_open(self):
        """The mixture knows all about the first half of the columns, and nothing of the others."""
        kinds = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0]], dtype=float)
        known = np.clip(kinds, 1e-6, 1.0 - 1e-6)
        known[:, 4:] = 0.5
        X = np.array([[1, 1, 1, 0, 1, 0]] * 9 + [[0, 0, 0, 1, 0, 1]])
        mixture = BernoulliMixture(np.array([0.9, 0.1]), known)
        works = 1.0 - start_from_mixture(mixture, X, [2]).failure_probability[2:]
        np.testing.assert_allclose(works[:, :4], 1e-4, atol=1e-6)
        strongest = np.sort(works[:, 4:], axis=0)[::-1]
        np.testing.assert_allclose(strongest, [[0.15, 0.15], [1e-4, 1e-4]])

    def test_rows_are_drawn_by_weight(self):
        rows = nor.Observations.of(self.X).with_weights([1e-9, 1.0])
        network = start_from_mixture(some_mixture(1, 2), rows, [5])
        assert (1.0 - network.failure_probability[2:, :4]).max() < 2e-4

    def test_the_seed_decides(self):
        mixture = some_mixture(1, 2)
        one, same, other = (
            start_from_mixture(mixture, self.X, [3], seed=seed).theta for seed in (0, 0, 1)
        )
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, other)


class TestWrongInput:
    def test_rows_are_needed_for_further_sets(self):
        with pytest.raises(InvalidSettingError, match="X is None"):
            start_from_mixture(some_mixture(0, 2), further_sets=[2])

    @pytest.mark.parametrize("sizes", [[0], [2, -1], [1.5]])
    def test_sizes(self, sizes):
        with pytest.raises(InvalidSettingError, match="further_sets"):
            start_from_mixture(some_mixture(0, 2), TestFurtherSets.X, sizes)

    def test_columns(self):
        with pytest.raises(InvalidDataError, match="columns"):
            start_from_mixture(some_mixture(0, 2), np.zeros((2, 5)), [1])

    def test_seed(self):
        with pytest.raises(InvalidSettingError, match="seed"):
            start_from_mixture(some_mixture(0, 2), TestFurtherSets.X, [1], seed=-1)
