"""Nodes are called by their names, or by what they switch on."""

from __future__ import annotations

import numpy as np

from noisyor.data.observations import Observations
from noisyor.model.builders import bipartite
from noisyor.model.names import hidden_label, named_after, visible_label


def network_of(n_visible: int):
    return bipartite(n_visible, 1, failure_probability=0.1)


def test_a_network_takes_the_names_of_its_columns():
    data = Observations.of(np.ones((2, 3)), column_names=("fever", "cough", "rash"))
    named = named_after(network_of(3), data, "factors")
    assert named.visible_names == ("fever", "cough", "rash")
    assert "fever" in hidden_label(named, 0)


def test_earlier_names_are_replaced():
    data = Observations.of(np.ones((2, 2)), column_names=("new", "newer"))
    old = named_after(
        network_of(2), Observations.of(np.ones((1, 2)), column_names=("a", "b")), "factors"
    )
    assert "new" in hidden_label(named_after(old, data, "factors"), 0)


def test_a_network_of_images_takes_their_shape():
    data = Observations.of(np.ones((5, 2, 3)))
    named = named_after(network_of(6), data, "factors")
    assert named.visible_shape == (2, 3)
    assert visible_label(named, 5) == "pixel 1,2"


def test_a_cause_is_named_by_what_tells_it_from_others():
    failure = np.array([[0.01, 0.05, 0.2, 1.0], [0.01, 0.05, 1.0, 0.2]])
    network = bipartite(4, 2, failure_probability=failure)
    names = named_after(network, Observations.of(np.ones((2, 4))), "factors").hidden_names
    assert [name.split(",")[0] for name in names] == ["cause 0: column 2", "cause 1: column 3"]


def test_a_faint_edge_is_in_no_name():
    network = bipartite(3, 2, failure_probability=[[0.1, 0.98, 1.0], [1.0, 1.0, 0.1]])
    names = named_after(network, Observations.of(np.ones((2, 3))), "factors").hidden_names
    assert names == ("cause 0: column 0", "cause 1: column 2")
