from __future__ import annotations

import json
import sys

import networkx as nx
import numpy as np
import pytest

from noisyor.errors import InvalidNetworkError, MissingExtraError
from noisyor.io.networkx import from_networkx, to_networkx
from noisyor.model.builders import bipartite, convolutional, from_edges
from noisyor.model.layered import layered
from noisyor.model.network import Network


def assert_same(one: Network, other: Network) -> None:
    """Equal to the last bit, groups, names and shapes included."""
    for name in ("child_ptr", "parent", "param", "leak_param", "theta", "free"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.groups.keys() == other.groups.keys()
    for name, index in one.groups.items():
        np.testing.assert_array_equal(index, other.groups[name], err_msg=name)
    for name in ("n_visible", "n_hidden", "visible_names", "hidden_names", "visible_shape"):
        assert getattr(one, name) == getattr(other, name), name


def diseases() -> Network:
    return from_edges(
        3,
        3,
        [("cold", "fever"), ("flu", "fever"), ("flu", "cough"), ("cold", "nose")],
        [("winter", "flu"), ("winter", "cold")],
        failure_probability=[0.4, 0.1, 0.3, 0.1, 0.5, 0.6],
        prior_probability=[0.01, 0.03, 0.25],
        param=[0, 1, 2, 1, 3, 4],
        fixed="noise",
        visible_names=["fever", "cough", "nose"],
        hidden_names=["flu", "cold", "winter"],
    )


def shuffled_theta(network: Network, seed: int = 0) -> Network:
    return network.with_theta(np.random.default_rng(seed).exponential(size=network.n_params))


NETWORKS = {
    "bipartite": lambda: shuffled_theta(bipartite(4, 3, prior="shared", fixed="noise")),
    "convolutional": lambda: shuffled_theta(convolutional((4, 5), 2, (2, 3), border=True)),
    "layered": lambda: shuffled_theta(
        layered(np.random.default_rng(0).random((60, 27)) < 0.3, 4, n_parents=2)
    ),
    "named": diseases,
    "half named": lambda: bipartite(2, 2, visible_names=["a", "b"]),
    "clashing names": lambda: bipartite(2, 2, visible_names=["a", "b"], hidden_names=["b", "c"]),
    "clash with a default": lambda: bipartite(2, 1, visible_names=["h0", "x"]),
    "unused parameter": lambda: Network(
        1, 1, [0, 1, 1], [0], [2], [0, 3], [0.1, 7.0, 0.3, 0.4], [True, False, True, True]
    ),
    "edge tied to a leak": lambda: Network(
        1, 1, [0, 1, 1], [0], [0], [1, 0], [0.7, 0.1], [False, True]
    ),
}


@pytest.fixture(params=NETWORKS)
def network(request) -> Network:
    return NETWORKS[request.param]()


class TestRoundTrip:
    def test_direct(self, network):
        assert_same(from_networkx(to_networkx(network)), network)

    def test_through_graphml(self, network, tmp_path):
        nx.write_graphml(to_networkx(network), tmp_path / "network.graphml")
        assert_same(from_networkx(nx.read_graphml(tmp_path / "network.graphml")), network)

    def test_through_json_and_with_nodes_in_another_order(self, network):
        text = json.dumps(nx.node_link_data(to_networkx(network), edges="edges"))
        read = nx.node_link_graph(json.loads(text), edges="edges")
        turned = nx.DiGraph(**read.graph)
        turned.add_nodes_from(reversed(list(read.nodes(data=True))))
        turned.add_edges_from(reversed(list(read.edges(data=True))))
        assert_same(from_networkx(turned), network)


class TestToNetworkx:
    def test_attributes(self):
        graph = to_networkx(diseases())
        assert set(graph.nodes) == {"fever", "cough", "nose", "flu", "cold", "winter"}
        assert set(graph.predecessors("fever")) == {"flu", "cold"}
        assert graph.nodes["cough"] == {
            "kind": "visible",
            "index": 1,
            "name": "cough",
            "theta": pytest.approx(-np.log(0.99)),
            "probability": pytest.approx(0.01),
            "leak_param": 9,
            "free": False,
        }
        assert graph.nodes["winter"]["kind"] == "hidden"
        assert graph.nodes["winter"]["probability"] == pytest.approx(0.25)
        edge = graph.edges["flu", "fever"]
        assert edge["failure_probability"] == pytest.approx(0.1)
        assert edge["theta"] == pytest.approx(-np.log(0.1))
        assert edge["free"] is True
        assert edge["param"] == graph.edges["cold", "nose"]["param"]

    def test_keys_without_names(self):
        assert list(to_networkx(bipartite(2, 1))) == ["v0", "v1", "h0"]

    def test_keys_when_names_clash(self):
        graph = to_networkx(NETWORKS["clashing names"]())
        assert list(graph) == ["visible:a", "visible:b", "hidden:b", "hidden:c"]
        assert graph.nodes["hidden:b"]["name"] == "b"


class TestPlainGraph:
    @pytest.fixture
    def graph(self) -> nx.DiGraph:
        graph = nx.DiGraph()
        graph.add_edge("flu", "fever", failure_probability=0.2)
        graph.add_edge("flu", "cough", failure_probability=0.4)
        graph.add_edge("winter", "flu", failure_probability=0.7)
        for node, probability in {"flu": 0.1, "winter": 0.25, "fever": 0.02, "cough": 0.05}.items():
            graph.nodes[node]["probability"] = probability
        return graph

    def test_nodes_without_children_are_visible(self, graph):
        network = from_networkx(graph)
        assert network.visible_names == ("fever", "cough")
        assert network.hidden_names == ("flu", "winter")
        np.testing.assert_allclose(network.failure_probability, [0.2, 0.4, 0.7])
        np.testing.assert_allclose(network.prior_probability, [0.1, 0.25])
        np.testing.assert_allclose(network.noise_probability, [0.02, 0.05])
        assert network.groups.keys() == {"failure", "prior", "noise"}
        assert network.n_params == 3 + 4
        assert network.free.all()

    def test_tying_and_fixing_by_any_label(self, graph):
        graph.edges["flu", "cough"].update(failure_probability=0.2, param="sick")
        graph.edges["flu", "fever"].update(param="sick", free=False)
        network = from_networkx(graph)
        assert network.n_params == 2 + 4
        assert network.param[0] == network.param[1]
        assert np.flatnonzero(~network.free).tolist() == [network.param[0]]

    def test_labels_of_edges_and_leaks_are_apart(self, graph):
        graph.edges["winter", "flu"]["param"] = 0
        graph.nodes["fever"]["leak_param"] = 0
        assert from_networkx(graph).n_params == 3 + 4

    def test_theta_instead_of_probability(self, graph):
        del graph.edges["flu", "fever"]["failure_probability"]
        graph.edges["flu", "fever"]["theta"] = 1.25
        assert from_networkx(graph).theta_of("failure")[0] == 1.25

    def test_defaults_for_what_the_graph_does_not_say(self):
        graph = nx.DiGraph([("a", "x"), ("a", "y")])
        network = from_networkx(
            graph, failure_probability=0.5, prior_probability=0.2, noise_probability=0.03
        )
        np.testing.assert_allclose(network.failure_probability, [0.5, 0.5])
        np.testing.assert_allclose(network.prior_probability, [0.2])
        np.testing.assert_allclose(network.noise_probability, [0.03, 0.03])

    def test_a_leaf_can_be_declared_hidden(self, graph):
        graph.nodes["cough"]["kind"] = "hidden"
        with pytest.raises(InvalidNetworkError, match="no visible descendant"):
            from_networkx(graph)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                lambda g: g.edges["flu", "cough"].clear(),
                "edge 'flu' -> 'cough' has neither the attribute 'failure_probability' nor 'theta'",
            ),
            (
                lambda g: g.nodes["flu"].clear(),
                "node 'flu' has neither the attribute 'probability'",
            ),
            (lambda g: g.nodes["flu"].update(probability=3), "node 'flu': a probability must lie"),
            (lambda g: g.nodes["flu"].update(kind="latent"), "visible or hidden, got 'latent'"),
            (
                lambda g: g.nodes["flu"].update(kind="visible"),
                "visible node 'flu' has the child 'fever'; a visible node cannot be a parent",
            ),
            (
                lambda g: g.nodes["flu"].update(theta=3.0),
                "node 'flu' has theta=3, that is probability=0.95.*also has probability=0.1",
            ),
            (
                lambda g: [g.edges["flu", child].update(param=0) for child in ("fever", "cough")],
                "edge 'flu' -> 'cough' shares a parameter.*'flu' -> 'fever'.*differ",
            ),
            (
                lambda g: g.add_edge("flu", "winter", failure_probability=0.5),
                "cycle",
            ),
        ],
    )
    def test_rejected(self, graph, change, message):
        change(graph)
        with pytest.raises(InvalidNetworkError, match=message):
            from_networkx(graph)

    @pytest.mark.parametrize("kind", [nx.Graph, nx.MultiDiGraph])
    def test_other_kinds_of_graph(self, kind):
        with pytest.raises(InvalidNetworkError, match=r"expected a networkx\.DiGraph"):
            from_networkx(kind([("a", "b")]))


class TestEditedGraph:
    def test_a_changed_parameter_counts(self):
        network = diseases()
        graph = to_networkx(network)
        graph.nodes["winter"].update(theta=1.5, free=False)
        del graph.nodes["winter"]["probability"]
        back = from_networkx(graph)
        entry = network.leak_param[5]
        assert back.theta[entry] == 1.5
        assert not back.free[entry]
        np.testing.assert_array_equal(np.delete(back.theta, entry), np.delete(network.theta, entry))

    def test_edges_and_nodes_come_and_go(self):
        graph = to_networkx(diseases())
        graph.remove_node("cough")
        graph.add_edge("winter", "nose", failure_probability=0.9)
        graph.add_edge("allergy", "nose", failure_probability=0.35)
        graph.nodes["allergy"]["probability"] = 0.15
        back = from_networkx(graph)
        assert back.visible_names == ("fever", "nose")
        assert back.hidden_names == ("flu", "cold", "winter", "allergy")
        assert "unused" not in back.roles
        assert back.n_edges == 7
        assert len(np.unique(back.param)) == 6  # one tie is left
        np.testing.assert_allclose(back.prior_probability, [0.01, 0.03, 0.25, 0.15])
        assert not back.free[back.group("noise")].any()


def test_networkx_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    for call in (lambda: to_networkx(bipartite(1, 1)), lambda: from_networkx(None)):
        with pytest.raises(MissingExtraError, match=r'pip install "\.\[export\]"'):
            call()
