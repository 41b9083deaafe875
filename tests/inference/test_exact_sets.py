"""Log p by a sum over the states of sets: what enumeration says, and for many more states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.inference import exact
from noisyor.inference.exact import (
    enumerate_posterior,
    log_p_by_states,
    states_can_be_summed,
)


def random_network(alternatives, n_visible=5, seed=0, **changes):
    generator = np.random.default_rng(seed)
    n_hidden = len(alternatives)
    options = {
        "failure_probability": generator.random((n_hidden, n_visible)),
        "prior_probability": generator.random(n_hidden) / n_hidden,
        "noise": "per_visible",
        "noise_probability": generator.random(n_visible) * 0.3 + 1e-3,
        "alternatives": alternatives,
    }
    return nor.bipartite(n_visible, n_hidden, **(options | changes))


def random_rows(n_rows, n_visible=5, seed=0, missing=0.0):
    generator = np.random.default_rng(seed)
    rows = (generator.random((n_rows, n_visible)) < 0.4).astype(float)
    rows[generator.random(rows.shape) < missing] = np.nan
    return Observations.of(rows)


class TestAgainstEnumeration:
    @settings(max_examples=30, deadline=None)
    @given(
        st.lists(st.integers(-1, 2), min_size=1, max_size=7),
        st.integers(0, 2**32 - 1),
        st.sampled_from([0.0, 0.3]),
    )
    def test_sets_and_independent_causes(self, numbers, seed, missing):
        used = {number: place for place, number in enumerate(sorted({*numbers} - {-1}))}
        alternatives = [used.get(number, -1) for number in numbers]
        network = random_network(alternatives, seed=seed)
        rows = random_rows(6, seed=seed, missing=missing)
        expected = enumerate_posterior(network, rows).log_likelihood
        np.testing.assert_allclose(log_p_by_states(network, rows), expected, rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize(("table", "joint"), [(1, 1), (40, 7), (200, 2**22)])
    def test_whatever_is_in_memory_at_once(self, monkeypatch, table, joint):
        monkeypatch.setattr(exact, "_TABLE_CELLS", table)
        monkeypatch.setattr(exact, "_JOINT_CELLS", joint)
        network, rows = random_network([0, 0, 0, 1, 1, 2], seed=5), random_rows(9, missing=0.2)
        expected = enumerate_posterior(network, rows).log_likelihood
        np.testing.assert_allclose(log_p_by_states(network, rows), expected, rtol=1e-9, atol=1e-12)

    def test_a_cause_that_is_never_on(self):
        network = random_network([0, 0, 1], prior_probability=[0.0, 0.4, 0.2])
        rows = random_rows(5)
        expected = enumerate_posterior(network, rows).log_likelihood
        np.testing.assert_allclose(log_p_by_states(network, rows), expected, rtol=1e-9, atol=1e-12)

    def test_far_apart(self):
        """A row of hundreds of columns, whose probability no double holds."""
        network = random_network([0, 0, 1], n_visible=4000, noise_probability=1e-3)
        rows = random_rows(3, n_visible=4000)
        found = log_p_by_states(network, rows)
        assert (found < -745).all()
        expected = enumerate_posterior(network, rows).log_likelihood
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


class TestLogProbability:
    def test_is_exact_for_sets_of_thousands_of_states(self):
        alternatives = np.repeat([0, 1, 2], 30)
        network, rows = random_network(alternatives, n_visible=6), random_rows(20, n_visible=6)
        assert states_can_be_summed(network)
        found = nor.inference.log_probability(network, rows)
        assert found.exact
        assert not found.error.any()
        bound = nor.evidence_bound(network, rows)
        assert (bound.per_row <= found.per_row + 1e-9).all()
        estimate = nor.estimate_evidence(network, rows, n_chains=64)
        assert found.mean == pytest.approx(estimate.mean, abs=5 * estimate.mean_error + 1e-6)

    def test_repeated_rows_have_one_value(self):
        network, rows = random_network([0, 0, 1, 1]), random_rows(4)
        twice = Observations.of(np.vstack([rows.to_dense(), rows.to_dense()]))
        found = nor.inference.log_probability(network, twice).per_row
        np.testing.assert_array_equal(found[:4], found[4:])


class TestWhatIsSummed:
    def test_not_without_sets(self):
        assert not states_can_be_summed(random_network([-1, -1]))

    def test_not_where_a_row_is_impossible(self):
        network = random_network([0, 0])
        theta = np.array(network.theta)
        theta[network.group("noise")] = [0.0, 1.0, 1.0, 1.0, 1.0]
        assert states_can_be_summed(network)
        assert not states_can_be_summed(network.with_theta(theta))

    def test_not_too_many_states(self):
        assert not states_can_be_summed(random_network(np.repeat(np.arange(5), 100)))

    def test_not_in_deep_networks(self):
        edges = [(0, 0), (1, 0), (1, 1), (2, 1)]
        shallow = nor.from_edges(2, 3, edges, alternatives=[0, -1, 0])
        assert states_can_be_summed(shallow)
        deep = nor.from_edges(2, 3, edges, [(0, 1)], alternatives=[0, -1, 0])
        assert not states_can_be_summed(deep)


class TestMode:
    @pytest.mark.parametrize("seed", range(5))
    def test_the_default_bound_of_a_single_set_is_at_its_best_state(self, seed):
        network, rows = random_network([0] * 6, seed=seed), random_rows(40, seed=seed)
        best = enumerate_posterior(network, rows).map_log_joint
        np.testing.assert_allclose(nor.evaluate(network, rows).elbo_mp.per_row, best)
