from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from noisyor.errors import InvalidNetworkError, InvalidSettingError
from noisyor.model.builders import bipartite, convolutional, from_edges
from noisyor.model.layout import state_shape
from noisyor.model.network import THETA_MIN, Network


def parents(network: Network, node: int) -> list[int]:
    return network.parent[network.child_ptr[node] : network.child_ptr[node + 1]].tolist()


class TestBipartite:
    def test_all_edges_in_contiguous_order(self):
        network = bipartite(4, 3)
        assert [parents(network, i) for i in range(4)] == [[0, 1, 2]] * 4
        assert [parents(network, 4 + k) for k in range(3)] == [[]] * 3
        assert network.n_layers == 1

    def test_groups_address_the_edges_they_name(self):
        failure = np.linspace(0.1, 0.9, 12).reshape(3, 4)
        prior, noise = np.array([0.2, 0.3, 0.4]), np.array([0.01, 0.02, 0.03, 0.04])
        network = bipartite(
            4,
            3,
            noise="per_visible",
            failure_probability=failure,
            prior_probability=prior,
            noise_probability=noise,
        )
        np.testing.assert_allclose(network.failure_probability, failure)
        np.testing.assert_allclose(network.prior_probability, prior)
        np.testing.assert_allclose(network.noise_probability, noise)
        theta = network.theta[network.param]
        for edge, (k, i) in enumerate(zip(network.parent, network.edge_child, strict=True)):
            assert theta[edge] == pytest.approx(-np.log(failure[k, i]))
        assert network.n_params == 12 + 3 + 4

    def test_the_papers_matrix_factorisation(self):
        network = bipartite(100, 20, prior="shared", fixed=("noise",))
        assert {name: index.shape for name, index in network.groups.items()} == {
            "failure": (20, 100),
            "prior": (1,),
            "noise": (1,),
        }
        assert network.n_params == 2002
        assert network.free.sum() == 2001
        assert not network.free[network.group("noise")].any()
        np.testing.assert_allclose(network.theta_of("noise"), -np.log(0.99))
        np.testing.assert_allclose(network.prior_probability, np.full(20, 0.1))

    def test_nothing_is_fixed_by_default_and_a_single_name_will_do(self):
        assert bipartite(2, 2).free.all()
        assert (~bipartite(2, 2, fixed="noise").free).sum() == 1
        assert not bipartite(2, 2, fixed=["failure", "prior", "noise"]).free.any()

    def test_extreme_probabilities_stay_finite(self):
        network = bipartite(2, 1, failure_probability=[[0.0, 1.0]])
        assert np.isfinite(network.theta).all()
        assert network.theta_of("failure")[0, 1] == THETA_MIN

    def test_broadcasting(self):
        network = bipartite(3, 2, failure_probability=np.array([[0.2], [0.4]]))
        np.testing.assert_allclose(network.failure_probability, [[0.2] * 3, [0.4] * 3])

    def test_names(self):
        network = bipartite(2, 1, visible_names=["a", "b"], hidden_names=["c"])
        assert network.visible_names == ("a", "b")
        assert network.hidden_names == ("c",)

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            (
                {"n_visible": 0},
                InvalidNetworkError,
                "n_visible must be a positive whole number, got 0",
            ),
            ({"n_hidden": 2.5}, InvalidNetworkError, "n_hidden must be a positive whole number"),
            (
                {"prior": "per_hidden"},
                InvalidSettingError,
                "prior must be .*got 'per_hidden'",
            ),
            ({"noise": "none"}, InvalidSettingError, "noise must be .* or .*got 'none'"),
            ({"fixed": ("leak",)}, InvalidSettingError, "fixed must be .* or .*got 'leak'"),
            (
                {"failure_probability": np.ones((3, 2))},
                InvalidNetworkError,
                re.escape(
                    "failure_probability has shape (3, 2), expected a number or shape (2, 3)"
                ),
            ),
            (
                {"prior": "shared", "prior_probability": [0.1, 0.2]},
                InvalidNetworkError,
                re.escape("prior_probability has shape (2,), expected a number or shape (1,)"),
            ),
            ({"noise_probability": 1.5}, InvalidNetworkError, "between 0 and 1, got"),
            ({"failure_probability": np.nan}, InvalidNetworkError, "between 0 and 1, got"),
            ({"visible_names": "ab"}, InvalidNetworkError, "visible_names has 2 entries"),
        ],
    )
    def test_rejected(self, arguments, error, message):
        with pytest.raises(error, match=message):
            bipartite(**{"n_visible": 3, "n_hidden": 2, **arguments})


class TestConvolutional:
    @pytest.mark.parametrize("border", [False, True])
    def test_edges_are_those_of_stamping_features_one_by_one(self, border):
        image, n_components, feature = (5, 4), 2, (3, 2)
        network = convolutional(image, n_components, feature, border=border)
        rows, columns = state_shape(image, feature, border)
        shift = (feature[0] - 1, feature[1] - 1) if border else (0, 0)
        expected = {}
        hidden = 0
        for f, i, j in itertools.product(range(n_components), range(rows), range(columns)):
            for a, b in itertools.product(range(feature[0]), range(feature[1])):
                y, x = i + a - shift[0], j + b - shift[1]
                if 0 <= y < image[0] and 0 <= x < image[1]:
                    expected[hidden, y * image[1] + x] = (f * feature[0] + a) * feature[1] + b
            hidden += 1
        edges = zip(network.parent.tolist(), network.edge_child.tolist(), strict=True)
        assert dict(zip(edges, network.param.tolist(), strict=True)) == expected
        assert network.n_edges == len(expected)
        assert network.n_hidden == hidden
        assert all(parents(network, i) == sorted(parents(network, i)) for i in range(20))

    def test_the_papers_deconvolution(self):
        network = convolutional((14, 14), 5, (6, 6), fixed=("noise",))
        degree = np.diff(network.child_ptr)[:196].reshape(14, 14)
        assert state_shape((14, 14), (6, 6)) == (9, 9)
        assert network.n_hidden == 5 * 9 * 9
        assert network.visible_shape == (14, 14)
        assert network.n_params == 5 * 36 + 5 + 1
        assert degree[0, 0] == degree[13, 13] == 5
        assert degree.max() == degree[7, 7] == 180
        assert network.n_edges == 5 * 81 * 36

    def test_border_gives_every_pixel_every_entry(self):
        network = convolutional((4, 3), 2, (2, 5), border=True)
        assert state_shape((4, 3), (2, 5), border=True) == (5, 7)
        assert (np.diff(network.child_ptr)[:12] == 2 * 10).all()
        for i in range(12):
            used = network.param[network.child_ptr[i] : network.child_ptr[i + 1]]
            assert sorted(used.tolist()) == list(range(20))

    def test_parameters(self):
        failure = np.linspace(0.1, 0.9, 8).reshape(2, 2, 2)
        network = convolutional(
            (3, 3), 2, (2, 2), failure_probability=failure, prior_probability=[0.2, 0.3]
        )
        np.testing.assert_allclose(network.failure_probability, failure)
        np.testing.assert_allclose(network.prior_probability, [0.2] * 4 + [0.3] * 4)
        np.testing.assert_allclose(network.noise_probability, np.full(9, 0.01))
        shared = convolutional((3, 3), 2, (2, 2), prior="shared", noise="per_visible")
        assert shared.group("prior").shape == (1,)
        assert shared.group("noise").shape == (9,)
        assert shared.n_params == 8 + 1 + 9

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"feature_shape": (6, 2)}, "do not fit into images.*border=True"),
            ({"image_shape": (5, 5, 1)}, r"image_shape must be \(height, width\)"),
            ({"feature_shape": (0, 2)}, r"feature_shape\[0\] must be a positive whole number"),
            ({"n_components": 0}, "n_components must be a positive"),
        ],
    )
    def test_rejected(self, arguments, message):
        defaults = {"image_shape": (5, 5), "n_components": 1, "feature_shape": (2, 2)}
        with pytest.raises(InvalidNetworkError, match=message):
            convolutional(**{**defaults, **arguments})


class TestFromEdges:
    def test_edges_by_number_sorted_by_child_then_parent(self):
        network = from_edges(2, 3, [(1, 1), (1, 0), (0, 0)], [(2, 0), (2, 1)])
        assert [parents(network, node) for node in range(5)] == [[0, 1], [1], [2], [2], []]
        assert network.hidden_levels.tolist() == [1, 1, 0]

    def test_failure_probabilities_follow_the_order_given(self):
        visible_edges, hidden_edges = [(1, 1), (1, 0), (0, 0)], [(2, 1), (2, 0)]
        values = [0.1, 0.2, 0.3, 0.4, 0.5]
        network = from_edges(2, 3, visible_edges, hidden_edges, failure_probability=values)
        np.testing.assert_allclose(network.failure_probability, values)
        found = {
            (int(k), int(child)): np.exp(-network.theta[p])
            for k, child, p in zip(network.parent, network.edge_child, network.param, strict=True)
        }
        expected = {(1, 1): 0.1, (1, 0): 0.2, (0, 0): 0.3, (2, 3): 0.4, (2, 2): 0.5}
        assert found == pytest.approx(expected)

    def test_names_numbers_and_arrays_say_the_same(self):
        names = {"visible_names": ["fever", "cough"], "hidden_names": ["flu", "winter"]}
        by_name = from_edges(
            2, 2, [("flu", "fever"), ("flu", "cough")], [("winter", "flu")], **names
        )
        by_number = from_edges(2, 2, ((0, i) for i in range(2)), [[1, 0]], **names)
        by_array = from_edges(2, 2, np.array([[0, 0], [0, 1]]), np.array([[1, 0]]), **names)
        mixed = from_edges(2, 2, [(0, "fever"), ("flu", 1)], [("winter", np.int64(0))], **names)
        for other in (by_number, by_array, mixed):
            np.testing.assert_array_equal(other.parent, by_name.parent)
            np.testing.assert_array_equal(other.child_ptr, by_name.child_ptr)

    def test_all_edges_give_the_bipartite_network(self):
        every = [(k, i) for k in range(3) for i in range(4)]
        listed, built = from_edges(4, 3, every), bipartite(4, 3, noise="per_visible")
        for name in ("child_ptr", "parent", "param", "leak_param", "theta"):
            np.testing.assert_array_equal(getattr(listed, name), getattr(built, name))

    def test_tying(self):
        network = from_edges(
            2,
            2,
            [(0, 0), (0, 1), (1, 0), (1, 1)],
            param=[7, 3, 3, 7],
            leak_param=[5, 5, 1, 0],
            failure_probability=[0.2, 0.4, 0.4, 0.2],
            prior_probability=[0.1, 0.3],
            fixed="noise",
        )
        assert network.n_params == 2 + 2 + 1
        np.testing.assert_allclose(network.failure_probability, [0.2, 0.4, 0.4, 0.2])
        np.testing.assert_allclose(network.prior_probability, [0.1, 0.3])
        assert network.leak_param[0] == network.leak_param[1]
        assert network.group("failure").tolist() == [0, 1, 1, 0]
        assert network.free.sum() == 4

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                {"visible_edges": [("flu", "fever"), ("cough", "fever")]},
                r"visible_edges\[1\]: 'cough' is not among the hidden_names",
            ),
            (
                {"visible_edges": [("flu", "winter")]},
                "'winter' is not among the visible_names.*hidden_edges",
            ),
            (
                {"hidden_edges": [("winter", "cough")]},
                "'cough' is not among the hidden_names.*visible_edges",
            ),
            ({"visible_edges": [("flue", "fever")]}, "'flue' is not among the hidden_names"),
            ({"visible_edges": [(0, 2)]}, r"\[0\]: visible node 2 does not exist, there are 2"),
            ({"visible_edges": [(0, 0), (-1, 0)]}, r"\[1\]: hidden node -1 does not exist"),
            ({"visible_edges": np.array([[0, 0], [2, 0]])}, r"\[1\]: hidden node 2 does not exist"),
            ({"visible_edges": np.arange(3)}, r"visible_edges has shape \(3,\), expected"),
            ({"visible_edges": [(0, 0, 1)]}, "expected a pair"),
            ({"visible_edges": ["ab"]}, "expected a pair"),
            ({"visible_edges": [(0, 0.5)]}, "a node is a number or a name, got 0.5"),
            ({"visible_edges": [(0, 0), ("flu", "fever")]}, "hidden 0 to visible 0 occurs twice"),
            ({"hidden_edges": [(0, 1), (1, 0)]}, "cycle"),
            ({"hidden_edges": [(1, 1)]}, "cycle"),
            ({"hidden_edges": []}, r"1 hidden nodes have no visible descendant.*\[1\]"),
            (
                {"failure_probability": [0.1, 0.2]},
                r"shape \(2,\), expected a number or shape \(3,\)",
            ),
            ({"prior_probability": [0.1] * 3}, r"prior_probability.*expected.*\(2,\)"),
            ({"noise_probability": -0.1}, "between 0 and 1"),
            ({"param": [0, 1]}, r"param holds one integer label for each of 3, got shape \(2,\)"),
            ({"param": [0.0, 1.0, 2.0]}, "param holds one integer label"),
            ({"leak_param": [0, 1, 2]}, "leak_param holds one integer label for each of 4"),
            ({"leak_param": [0, 1, 2, 1]}, "visible 1 and hidden 1 one label"),
            (
                {"param": [0, 1, 0], "failure_probability": [0.1, 0.2, 0.3]},
                "tied parameters have one value, but failure_probability 0 is 0.1.*0.3",
            ),
        ],
    )
    def test_rejected(self, arguments, message):
        defaults = {
            "visible_edges": [("flu", "fever"), ("flu", "cough")],
            "hidden_edges": [("winter", "flu")],
            "visible_names": ["fever", "cough"],
            "hidden_names": ["flu", "winter"],
        }
        with pytest.raises(InvalidNetworkError, match=message):
            from_edges(2, 2, **{**defaults, **arguments})

    def test_unknown_group_to_fix(self):
        with pytest.raises(InvalidSettingError, match=r"fixed must be .* or .*'leak'"):
            from_edges(1, 1, [(0, 0)], fixed="leak")
