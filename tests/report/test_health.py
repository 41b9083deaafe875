from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from noisyor.report.health import (
    find_dead,
    find_duplicates,
    rank_within,
    similar_features,
    success_matrix,
)


class TestDead:
    def test_weak_unused_and_rare(self):
        strength, rate = np.array([0.9, 0.01, 0.9, 0.9]), np.array([0.1, 0.1, 0.2, 1e-6])
        used = find_dead(strength, rate, np.array([5, 3, 0, 0]), 50, "rows")
        assert list(used) == [1, 2, 3]
        assert "switches nothing on" in used[1]
        assert "on in none of 50 rows, expected in 20\u00a0%" in used[2]
        assert "under 0.1\u00a0%" in used[3]
        assert list(find_dead(strength, rate, None, None, "rows")) == [1, 3]


class TestDuplicates:
    def test_copies_are_found_and_dead_ones_left_out(self, factors):
        success = success_matrix(factors.network)
        assert find_duplicates(success, {3}) == [[0, 4]]
        assert find_duplicates(success, {0, 3}) == []

    def test_groups_join_chains_of_pairs(self):
        success = np.eye(6) + np.eye(6)[[1, 0, 3, 2, 4, 5]]
        assert find_duplicates(success, set()) == [[0, 1], [2, 3]]

    def test_shifted_features_are_alike(self):
        features = np.zeros((3, 4, 4))
        features[0, :2, :3] = features[1, 2:, 1:] = 0.9
        features[2, 0, 0] = features[2, 3, 3] = 0.9
        assert similar_features(features, set()) == [[0, 1]]
        assert similar_features(features, {1}) == []


def test_success_matrix_holds_one_minus_failure(factors):
    dense = success_matrix(factors.network).toarray()
    np.testing.assert_allclose(dense[:, :9], 1 - factors.network.failure_probability)
    assert sp.csr_array(dense[:, 9:]).nnz == 0


def test_rank_within_groups():
    group, value = np.array([1, 0, 1, 1, 0]), np.array([0.5, 0.1, 0.9, 0.2, 0.3])
    assert rank_within(group, value).tolist() == [1, 1, 0, 2, 0]
