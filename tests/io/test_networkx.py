from __future__ import annotations

import sys

import networkx as nx
import numpy as np
import pytest

from noisyor.errors import MissingExtraError
from noisyor.io.export import to_networkx
from noisyor.model.builders import bipartite, from_edges
from noisyor.model.network import Network


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
        network = bipartite(2, 2, visible_names=["a", "b"], hidden_names=["b", "c"])
        graph = to_networkx(network)
        assert list(graph) == ["visible:a", "visible:b", "hidden:b", "hidden:c"]
        assert graph.nodes["hidden:b"]["name"] == "b"


def test_other_programs_read_the_graph(tmp_path):
    graph = to_networkx(diseases())
    nx.write_graphml(graph, tmp_path / "network.graphml")
    read = nx.read_graphml(tmp_path / "network.graphml")
    assert dict(read.nodes(data=True)) == dict(graph.nodes(data=True))
    assert {pair: read.edges[pair] for pair in graph.edges} == dict(graph.edges.items())


def test_networkx_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[export\]"'):
        to_networkx(bipartite(1, 1))
