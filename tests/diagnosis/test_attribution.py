from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import random_network

from noisyor.data.observations import Observations
from noisyor.report import attribution
from noisyor.report.attribution import attribute


def chains(network, x, h) -> tuple[set[tuple[int, int, int, bool]], list[int]]:
    """The definition, one node at a time."""
    found, unexplained = set(), []

    def strongest(row: int, node: int) -> int | None:
        best, value = None, network.theta[network.leak_param[node]]
        for e in range(network.child_ptr[node], network.child_ptr[node + 1]):
            theta = network.theta[network.param[e]]
            if h[row, network.parent[e]] and theta > value:
                best, value = int(network.parent[e]), theta
        return best

    for row in range(len(x)):
        left = 0
        for visible in np.flatnonzero(x[row]):
            cause = strongest(row, visible)
            left += cause is None
            direct = True
            while cause is not None:
                found.add((row, int(visible), cause, direct))
                cause, direct = strongest(row, network.n_visible + cause), False
        unexplained.append(left)
    return found, unexplained


@pytest.mark.parametrize("block", [1, 7, 4_000_000])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_chains_follow_the_strongest_active_parent(block, seed):
    rng = np.random.default_rng(seed)
    network = random_network(seed)
    x = rng.integers(0, 2, (4, network.n_visible))
    h = rng.integers(0, 2, (4, network.n_hidden))
    before, attribution._BLOCK_EDGES = attribution._BLOCK_EDGES, block
    try:
        result = attribute(network, Observations.of(x), sp.csr_array(h.astype(np.uint8)))
    finally:
        attribution._BLOCK_EDGES = before
    found, unexplained = chains(network, x, h)
    entries = list(
        zip(
            *(part.tolist() for part in (result.row, result.visible, result.cause, result.direct)),
            strict=True,
        )
    )
    assert set(entries) == found
    assert len(entries) == len(found)
    assert result.unexplained.tolist() == unexplained
    if x.any():
        assert result.share == pytest.approx(1 - sum(unexplained) / x.sum())


def test_no_cause_is_on(topics):
    states = sp.csr_array((300, 6), dtype=np.uint8)
    result = attribute(topics.network, topics.observations, states)
    assert len(result.row) == 0
    assert result.unexplained.sum() == topics.observations.n_active
    assert result.share == 0
