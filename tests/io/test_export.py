from __future__ import annotations

import csv
import io
import json

import networkx
import numpy as np
import pytest

import noisyor as nor
from noisyor.errors import InvalidNetworkError, InvalidSettingError
from noisyor.io.export import TARGETS, export_network, to_networkx

RANDOM = np.random.default_rng(5)
NETWORK = nor.from_edges(
    3,
    3,
    [(0, 0), (0, 1), (1, 1), (1, 2)],
    [(2, 0), (2, 1)],
    failure_probability=RANDOM.uniform(0.1, 0.9, 6),
    prior_probability=RANDOM.uniform(0.1, 0.4, 3),
    noise_probability=RANDOM.uniform(0.01, 0.1, 3),
    visible_names=["fever", "red eyes", "red-eyes"],
    hidden_names=["flu: fever, cough", "42", "grün"],
)


class TestWhatComesBack:
    def test_graphml(self):
        graph = networkx.read_graphml(io.BytesIO(export_network(NETWORK, "graphml")))
        assert dict(graph.nodes(data=True)) == dict(to_networkx(NETWORK).nodes(data=True))

    def test_json(self):
        graph = networkx.node_link_graph(json.loads(export_network(NETWORK, "json")), edges="edges")
        assert dict(graph.edges.items()) == dict(to_networkx(NETWORK).edges.items())

    def test_csv(self):
        text = export_network(NETWORK, "csv").decode()
        rows = list(csv.DictReader(io.StringIO(text)))
        assert len(rows) == NETWORK.n_edges + NETWORK.n_nodes
        by_pair = {(row["cause"], row["effect"]): row for row in rows}
        edge = by_pair["flu: fever, cough", "fever"]
        assert edge["role"] == "failure"
        assert float(edge["theta"]) == NETWORK.theta[NETWORK.param[0]]
        assert float(edge["probability"]) == pytest.approx(np.exp(-float(edge["theta"])))
        assert float(by_pair["", "grün"]["probability"]) == pytest.approx(
            NETWORK.prior_probability[2]
        )
        assert by_pair["", "fever"]["role"] == "noise"

    def test_networks_without_names(self):
        for to in TARGETS:
            assert export_network(nor.bipartite(2, 2), to)


def test_what_cannot_be_exported():
    with pytest.raises(InvalidSettingError, match="pdf"):
        export_network(NETWORK, "pdf")
    strange = nor.bipartite(1, 1, visible_names=["a\x01"])
    with pytest.raises(InvalidNetworkError, match="GraphML cannot hold"):
        export_network(strange, "graphml")


@pytest.mark.parametrize("start", [*"=+-@", "\t", "\r"])
def test_names_are_no_formulas_of_a_spreadsheet(start):
    name = f'{start}HYPERLINK("http://a.b")'
    content = export_network(nor.bipartite(1, 1, visible_names=[name], hidden_names=[name]), "csv")
    rows = list(csv.reader(io.StringIO(content.decode(), newline="")))
    assert [row[1:3] for row in rows[1:]] == [[f"'{name}"] * 2, ["", f"'{name}"], ["", f"'{name}"]]
