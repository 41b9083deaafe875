"""The layout of a network for the kernels."""

import numpy as np

import noisyor as nor
from noisyor.engines.numba.graph import graph_of, parameters_of


def test_read_only_networks_need_no_other_kernels():
    """As after ``joblib.load(..., mmap_mode="r")``; a read-only array would be another type."""
    network = nor.from_edges(3, 3, [(0, 0), (1, 1), (2, 2)], [(0, 1), (0, 2)])
    stored = [value for value in vars(network).values() if isinstance(value, np.ndarray)]
    for array in (*stored, *network.outgoing, network.edge_child):
        array.flags.writeable = False
    graph = graph_of(network)
    given = [*graph, *parameters_of(graph, network.theta)]
    assert all(value.flags.writeable for value in given if isinstance(value, np.ndarray))
