from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

import noisyor.model.layered as module
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.model.layered import layer_sizes, layered
from noisyor.model.network import Network


def topics(n_rows: int, n_visible: int, seed: int, density: float = 0.15) -> np.ndarray:
    """Random rows in which neighbouring columns tend to occur together."""
    rng = np.random.default_rng(seed)
    centre = rng.integers(n_visible, size=(n_rows, 1))
    apart = np.abs(np.arange(n_visible) - centre)
    return (rng.random((n_rows, n_visible)) < density / 3 + 0.6 * np.exp(-apart / 2)).astype(int)


def parents_by_node(network: Network) -> list[list[int]]:
    return [part.tolist() for part in np.split(network.parent, network.child_ptr[1:-1])]


def slow_parents(X: np.ndarray, n_layers: int, n_parents: int = 5) -> list[list[int]]:
    """The graph generation of the paper, literally: parents of every node."""
    n_rows, p = X.shape
    where = [set(np.flatnonzero(column).tolist()) for column in X.T]
    c = [len(rows) + 1e-8 for rows in where]
    D = [[0.0] * p for _ in range(p)]
    for j in range(p):
        for k in range(p):
            if j != k:
                together = len(where[j] & where[k])
                D[j][k] = math.exp(-n_rows * together / (c[j] * c[k]))
    result: list[list[int]] = []
    first = 0
    for _ in range(n_layers - 1):
        d = len(D)
        clusters = average_linkage(D, d // 3)
        own = {k: m for m, members in enumerate(clusters) for k in members}
        children: list[list[int]] = [[] for _ in clusters]
        for k in range(d):
            distance = [math.fsum(D[k][m] for m in members) / len(members) for members in clusters]
            chosen = sorted(range(len(clusters)), key=distance.__getitem__)[:n_parents]
            if own[k] not in chosen:
                chosen.append(own[k])
            for m in chosen:
                children[m].append(k)
            result.append([first + m for m in chosen])
        D = [
            [math.fsum(D[k][m] for k in a for m in b) / (len(a) * len(b)) for b in children]
            for a in children
        ]
        first += len(clusters)
    return result + [[] for _ in D]


def average_linkage(D: list[list[float]], n_clusters: int) -> list[list[int]]:
    clusters = [[k] for k in range(len(D))]
    while len(clusters) > n_clusters:
        pairs = [(a, b) for a in range(len(clusters)) for b in range(a + 1, len(clusters))]

        def distance(pair: tuple[int, int], clusters: list[list[int]] = clusters) -> float:
            a, b = clusters[pair[0]], clusters[pair[1]]
            return math.fsum(D[k][m] for k in a for m in b) / (len(a) * len(b))

        a, b = min(pairs, key=distance)
        merged = sorted(clusters[a] + clusters[b])
        clusters = [members for k, members in enumerate(clusters) if k not in (a, b)] + [merged]
    return sorted(clusters, key=min)


class TestAgainstTheDefinition:
    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize(
        ("n_visible", "n_layers", "n_parents"), [(31, 3, 5), (40, 4, 2), (27, 4, 1), (12, 2, 5)]
    )
    def test_same_parents_in_the_same_order(self, n_visible, n_layers, n_parents, seed):
        X = topics(300, n_visible, seed)
        network = layered(X, n_layers, n_parents=n_parents)
        assert parents_by_node(network) == slow_parents(X, n_layers, n_parents)

    def test_columns_that_never_occur(self):
        X = topics(300, 30, seed=5)
        X[:, [0, 17]] = 0
        network = layered(X, 3)
        expected = slow_parents(X, 3)
        assert parents_by_node(network) == expected

    def test_own_cluster_is_the_last_parent_where_it_is_not_among_the_nearest(self):
        X = topics(300, 60, seed=1)
        network = layered(X, 2, n_parents=1)
        degree = np.diff(network.child_ptr)[:60]
        assert set(degree.tolist()) == {1, 2}  # both cases occur
        assert parents_by_node(network) == slow_parents(X, 2, 1)


class TestTies:
    """Columns that never occur together: all distances are 1."""

    def test_exact_number_of_clusters_and_lowest_number_first(self):
        network = layered(np.eye(12, dtype=int), 2, n_parents=3)
        assert network.n_hidden == 4
        parents = parents_by_node(network)[:12]
        own = [chosen[0] for chosen in parents]  # nearest, for a column is at 0 from itself
        assert sorted(set(own)) == [0, 1, 2, 3]
        assert [own.index(m) for m in range(4)] == sorted(own.index(m) for m in range(4))
        for chosen in parents:
            assert chosen[1:] == [m for m in range(4) if m != chosen[0]][:2]

    def test_many_layers_of_ties(self):
        network = layered(np.eye(81, dtype=int), 5)
        assert np.bincount(3 - network.hidden_levels).tolist() == [27, 9, 3, 1]
        assert np.isfinite(network.theta).all()

    def test_only_zeros(self):
        network = layered(np.zeros((5, 9), dtype=int), 3)
        assert network.n_hidden == 3 + 1


class TestResult:
    def test_groups_and_parameters(self):
        X = topics(200, 30, seed=0)
        network = layered(
            X,
            3,
            failure_probability=0.5,
            prior_probability=np.linspace(0.1, 0.4, 13),
            noise_probability=0.02,
            fixed="noise",
            visible_names=[f"w{i}" for i in range(30)],
        )
        assert network.groups["failure"].tolist() == list(range(network.n_edges))
        assert network.group("prior").shape == (13,)
        assert network.group("noise").shape == (30,)
        assert network.n_params == network.n_edges + 13 + 30
        np.testing.assert_allclose(network.failure_probability, 0.5)
        np.testing.assert_allclose(network.prior_probability, np.linspace(0.1, 0.4, 13))
        np.testing.assert_allclose(network.noise_probability, 0.02)
        assert (~network.free).sum() == 30
        assert network.visible_names[3] == "w3"

    def test_layers_are_numbered_from_the_bottom(self):
        network = layered(topics(200, 36, seed=0), 4)
        assert network.hidden_levels.tolist() == [2] * 12 + [1] * 4 + [0]
        assert network.parent[: network.child_ptr[36]].max() == 11

    def test_nothing_depends_on_the_order_of_rows_or_the_blocks(self, monkeypatch):
        X = topics(200, 40, seed=3)
        expected = layered(X, 3)
        monkeypatch.setattr(module, "_BLOCK_ENTRIES", 7 * 40)
        assert len(module._blocks(40)) == 6
        np.testing.assert_array_equal(layered(X[::-1], 3).parent, expected.parent)

    def test_every_form_of_input(self):
        X = topics(150, 24, seed=2)
        expected = layered(X, 3)
        stored_zero = sp.csr_matrix(X)
        stored_zero.data[:10] = 0
        cleared = stored_zero.toarray()
        for same in (X.astype(bool), X.astype(float), sp.csc_array(X), sp.coo_matrix(X)):
            np.testing.assert_array_equal(layered(same, 3).parent, expected.parent)
        np.testing.assert_array_equal(layered(stored_zero, 3).parent, layered(cleared, 3).parent)
        assert stored_zero.nnz == X.sum()  # the caller's matrix is left as it was

    def test_paper_sizes(self):
        assert layer_sizes(100, 3) == [100, 33, 11]
        assert layer_sizes(10_000, 5) == [10_000, 3_333, 1_111, 370, 123]

    def test_tiny20(self, data_dir):
        load_tiny20 = pytest.importorskip("reproduction.datasets").load_tiny20
        X = load_tiny20(data_dir / "20news_w100.mat").observations.to_csr()
        network = layered(X, 3)
        assert (network.n_visible, network.n_hidden) == (100, 44)
        assert np.bincount(1 - network.hidden_levels).tolist() == [33, 11]
        degree = np.diff(network.child_ptr)
        assert network.n_edges == 5 * (100 + 33) + np.count_nonzero(degree == 6)
        assert parents_by_node(network) == slow_parents(X.toarray(), 3)


class TestRejected:
    @pytest.mark.parametrize(
        ("X", "message"),
        [
            (np.array([[0, 2], [1, 1]]), "2"),
            (np.zeros(5), "shape"),
            (np.zeros((0, 5)), "no rows"),
        ],
    )
    def test_data(self, X, message):
        with pytest.raises(InvalidDataError, match=message):
            layered(X, 2)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"n_layers": 1}, "n_layers"),
            ({"n_parents": 0}, "n_parents"),
            ({"shrink": 1}, "shrink"),
            ({"shrink": 2.5}, "shrink"),
            ({"n_layers": 5}, r"30 variables are too few.*\[30, 10, 3, 1\].*at most 4"),
            ({"n_layers": 2, "shrink": 31}, "at most 1"),
        ],
    )
    def test_settings(self, settings, message):
        with pytest.raises(InvalidSettingError, match=message):
            layered(topics(20, 30, seed=0), **settings)

    def test_the_largest_possible_number_of_layers_works(self):
        assert layered(topics(50, 30, seed=0), 4).n_hidden == 10 + 3 + 1


def test_a_row_of_weight_w_counts_as_w_rows() -> None:
    rows, weights = topics(40, 12, 3), np.arange(40) % 3 + 1
    many = np.repeat(rows, weights, axis=0)
    weighted = layered(Observations.of(rows).with_weights(weights), 2, n_parents=2)
    for repeated in (many, Observations.of(many)):
        network = layered(repeated, 2, n_parents=2)
        assert parents_by_node(weighted) == parents_by_node(network)
    distance = module.cooccurrence_distance(sp.csr_array(rows), weights.astype(float))
    np.testing.assert_array_equal(distance, module.cooccurrence_distance(sp.csr_array(many)))


def test_more_columns_than_distances_fit_into_memory():
    rows = sp.csr_array(([1], [0], [0, 1]), shape=(1, 100_000))
    with pytest.raises(InvalidDataError, match="100,000 columns"):
        layered(rows)
