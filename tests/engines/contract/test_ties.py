"""Networks with uniform parameters, which have exact ties: a node is on if its belief says so."""

import numpy as np
import pytest
from engine_calls import explained

import noisyor as nor

NEEDS = ("max_product",)


def uniform_network(theta):
    """A network in which all parameters are the same."""
    network = nor.bipartite(n_visible=3, n_hidden=3, prior="shared", noise="shared")
    return network.with_theta(np.full(network.n_params, theta))


@pytest.mark.parametrize("two_stage", [False, True])
@pytest.mark.parametrize("theta", [1e-5, 0.25, np.log(2.0), 1.0, 50.0])
def test_a_node_is_on_if_its_belief_is_positive(engine, theta, two_stage):
    rows = np.array([[0, 0, 0], [1, 1, 1], [1, 0, np.nan], [np.nan] * 3])
    found = explained(engine, uniform_network(theta), rows, two_stage=two_stage)
    np.testing.assert_array_equal(found.states, found.beliefs > 0)
