"""Layouts: kept through everything that keeps a network, refused where they do not fit."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import noisyor as nor
from noisyor.errors import InvalidNetworkError
from noisyor.io.model_file import load_network
from noisyor.model.layout import ConvolutionalLayout, layout_from_json, layout_to_json
from noisyor.model.network import relevant_subnetwork

X = np.repeat(np.eye(4, dtype=int), 3, axis=1)
NETWORKS = {
    "bipartite": nor.bipartite(5, 3),
    "inside": nor.convolutional((5, 4), 2, (3, 2)),
    "border": nor.convolutional((5, 4), 2, (3, 2), border=True),
    "layered": nor.layered(X, 2, n_parents=1),
    "edges": nor.from_edges(2, 1, [(0, 0), (0, 1)]),
}
LAYOUTS = {
    "bipartite": None,
    "inside": ConvolutionalLayout((5, 4), (3, 2), 2, border=False),
    "border": ConvolutionalLayout((5, 4), (3, 2), 2, border=True),
    "layered": None,
    "edges": None,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_layout_is_kept(name, tmp_path):
    network, layout = NETWORKS[name], LAYOUTS[name]
    assert network.layout == layout
    assert network.with_theta(network.theta * 2).layout == layout
    assert (
        replace(network, hidden_names=[f"h{k}" for k in range(network.n_hidden)]).layout == layout
    )
    assert pickle.loads(pickle.dumps(network)).layout == layout
    nor.save_network(tmp_path / "model", network)
    assert load_network(tmp_path / "model").layout == layout
    assert layout_from_json(layout_to_json(layout)) == layout


@pytest.mark.parametrize("name", [name for name, layout in LAYOUTS.items() if layout])
def test_a_layout_describes_its_own_edges_only(name):
    network, layout = NETWORKS[name], LAYOUTS[name]
    assert layout.describes(network.child_ptr, network.parent)
    swapped = network.parent[::-1].copy()
    assert not layout.describes(network.child_ptr, swapped)
    assert not layout.describes(np.minimum(network.child_ptr, 1), network.parent[:1])


def test_a_part_of_a_network_has_no_layout():
    row = nor.Observations.from_evidence(20, [0])
    part = relevant_subnetwork(NETWORKS["inside"], row)
    assert part.network.layout is None


class TestPlaces:
    def test_placements_are_where_the_edges_lead(self):
        for network in (NETWORKS["inside"], NETWORKS["border"]):
            pixels = {}
            for parent, child in zip(network.parent, network.edge_child, strict=True):
                pixels.setdefault(int(parent), set()).add(divmod(int(child), 4))
            for hidden in range(network.n_hidden):
                component, row, column = network.layout.placement(hidden)
                covered = {(row + a, column + b) for a in range(3) for b in range(2)}
                assert pixels[hidden] == {(y, x) for y, x in covered if 0 <= y < 5 and 0 <= x < 4}
                assert component == hidden // network.layout.n_positions

    @pytest.mark.parametrize("border", [False, True])
    def test_a_feature_as_large_as_the_image(self, border):
        layout = ConvolutionalLayout((4, 3), (4, 3), 1, border)
        assert layout.state_shape == ((7, 5) if border else (1, 1))
        edges = layout.edges()
        assert len(edges.parent) == (12 * 12 if border else 12)


class TestRefused:
    @pytest.mark.parametrize(
        ("name", "layout", "message"),
        [
            ("bipartite", ConvolutionalLayout((1, 6), (1, 4), 1), "n_visible=6, .* has 5"),
            ("bipartite", ConvolutionalLayout((1, 5), (1, 4), 1), "n_hidden=2, .* has 3"),
            ("inside", ConvolutionalLayout((4, 5), (2, 3), 2), r"\(2, 2, 3\).*\(2, 3, 2\)"),
            ("edges", ConvolutionalLayout((1, 2), (1, 2), 1), "group 'failure'"),
        ],
    )
    def test_layouts_of_other_networks(self, name, layout, message):
        with pytest.raises(InvalidNetworkError, match=message):
            replace(NETWORKS[name], layout=layout)

    @pytest.mark.parametrize(
        ("plain", "message"),
        [
            ("bipartite", "kind of a layout"),
            ({"kind": "other"}, "kind of a layout"),
            ({"kind": "convolutional", "image_shape": [3, 3]}, "malformed"),
            (
                {
                    "kind": "convolutional",
                    "image_shape": [3, 3],
                    "feature_shape": [2, 2],
                    "n_components": 1,
                    "border": 2,
                },
                "true or false",
            ),
        ],
    )
    def test_json_that_is_no_layout(self, plain, message):
        with pytest.raises(InvalidNetworkError, match=message):
            layout_from_json(plain)
