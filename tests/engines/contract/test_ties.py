"""Exact ties, which networks with equal parameters have: every engine decodes them as off."""

import numpy as np
import pytest
from engine_calls import explained
from random_networks import random_network, random_rows

import noisyor as nor
from noisyor.engines.contract import TIE
from noisyor.engines.registry import get_engine

NEEDS = ("max_product",)


def uniform_network(theta):
    """A network in which all parameters are the same."""
    network = nor.bipartite(n_visible=3, n_hidden=3, prior="shared", noise="shared")
    return network.with_theta(np.full(network.n_params, theta))


@pytest.mark.parametrize("two_stage", [False, True])
@pytest.mark.parametrize("theta", [1e-5, 0.25, np.log(2.0), 1.0, 50.0])
def test_a_node_is_on_if_its_belief_exceeds_a_tie(engine, theta, two_stage):
    rows = np.array([[0, 0, 0], [1, 1, 1], [1, 0, np.nan], [np.nan] * 3])
    found = explained(engine, uniform_network(theta), rows, two_stage=two_stage)
    np.testing.assert_array_equal(found.states, found.beliefs > TIE)


@pytest.mark.parametrize("two_stage", [False, True])
def test_engines_decode_ties_alike(engine, two_stage):
    n_ties = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        network = random_network(seed, max_hidden=6, max_visible=8)
        values = generator.choice([1e-5, 0.1, 0.25, np.log(2.0), 1.0, 5.0, 50.0], seed % 2 + 1)
        network = network.with_theta(generator.choice(values, network.n_params))
        rows = random_rows(network, seed, 3, missing=0.1)
        how = {"two_stage": two_stage, "tolerance": 1e-3}
        mine, theirs = (
            explained(one, network, rows, **how) for one in (engine, get_engine("numpy"))
        )
        converged = (mine.residual < 1e-3) & (theirs.residual < 1e-3)
        np.testing.assert_array_equal(mine.states[converged], theirs.states[converged])
        n_ties += np.count_nonzero(np.abs(theirs.beliefs[converged]) < TIE)
    assert n_ties > 3
