import numpy as np
import pytest
from random_networks import random_network

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError
from noisyor.inference.exact import enumerate_posterior
from noisyor.model.network import relevant_subnetwork


@pytest.mark.parametrize("seed", range(8))
def test_leaving_out_barren_nodes_changes_no_posterior(seed):
    network = random_network(seed, max_hidden=6)
    observed = int(np.diff(network.child_ptr)[: network.n_visible].argmax())
    row = Observations.from_evidence(network.n_visible, [observed])
    part = relevant_subnetwork(network, row)
    assert part.visible.tolist() == [observed]
    whole = enumerate_posterior(network, row).marginals[0]
    np.testing.assert_allclose(
        enumerate_posterior(part.network, part.row).marginals[0], whole[part.hidden], atol=1e-12
    )


def test_a_network_that_is_relevant_as_a_whole_stays_as_it_is():
    network = nor.bipartite(3, 2)
    part = relevant_subnetwork(network, Observations.of(np.zeros((1, 3))))
    assert part.network is network


def test_nothing_observed():
    with pytest.raises(InvalidDataError, match="nothing was observed"):
        relevant_subnetwork(nor.bipartite(3, 2), Observations.from_evidence(3, []))
