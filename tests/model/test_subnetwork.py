import numpy as np
import pytest
from random_networks import random_network
from sets import conditioned_table, with_sets

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError
from noisyor.inference.exact import enumerate_posterior, hidden_configurations
from noisyor.model.forward import prior_marginals
from noisyor.model.subnetwork import relevant_subnetwork


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


@pytest.mark.parametrize("seed", range(12))
def test_alternatives_that_are_left_out_are_summed_out(seed):
    network = with_sets(random_network(seed, max_hidden=7, density=0.3), seed)
    observed = int(np.diff(network.child_ptr)[: network.n_visible].argmax())
    row = Observations.from_evidence(network.n_visible, [observed])
    part = relevant_subnetwork(network, row)
    whole, of_part = (
        exact_marginals(one, other.to_dense())
        for one, other in ((network, row), (part.network, part.row))
    )
    np.testing.assert_allclose(of_part, whole[part.hidden], atol=1e-12)
    # Alternatives outside the part share what those inside leave over.
    filled = prior_marginals(network, part.hidden, of_part)
    np.testing.assert_allclose(filled[network.sets.member], whole[network.sets.member], atol=1e-12)


def exact_marginals(network, row):
    states = hidden_configurations(network.n_hidden)
    log_p = conditioned_table(network, states, row)[0]
    weight = np.exp(log_p - log_p.max())
    return weight @ states / weight.sum()
