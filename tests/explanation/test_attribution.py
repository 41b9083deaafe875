"""Who explains what: against the definition, one node at a time."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import random_network

import noisyor as nor
from noisyor.errors import InvalidDataError
from noisyor.explanation import attribution
from noisyor.explanation.attribution import attribute_findings
from noisyor.explanation.ranking import rank_causes
from noisyor.report.inputs import Model
from noisyor.report.page import model_page
from noisyor.tables import Table


def due(network, node: int, on) -> tuple[dict[int, float], float]:
    """Shares of one active node due to its active parents, and to its leak."""
    theta = {}
    for e in range(network.child_ptr[node], network.child_ptr[node + 1]):
        if on[network.parent[e]]:
            theta[int(network.parent[e])] = float(network.theta[network.param[e]])
    leak = float(network.theta[network.leak_param[node]])
    whole = leak + sum(theta.values())
    return {k: value / whole for k, value in theta.items()}, leak / whole


def shares(network, visible: int, on) -> dict[int, float]:
    """Shares of a visible node, passed on to the parents of its parents."""
    total: dict[int, float] = {}

    def pass_on(node: int, share: float) -> None:
        for k, part in due(network, node, on)[0].items():
            total[k] = total.get(k, 0.0) + share * part
            pass_on(network.n_visible + k, share * part)

    pass_on(visible, 1.0)
    return total


def chains(network, x, h) -> tuple[set[tuple[int, int, int, bool]], list[int]]:
    """The cause of a node is the parent with the largest share, unless noise has it."""
    found, unexplained = set(), []

    def cause_of(node: int, on) -> int | None:
        parents, leak = due(network, node, on)
        best = max(parents, key=parents.get, default=None)
        return best if best is not None and parents[best] > leak else None

    for row in range(len(x)):
        left = 0
        for visible in np.flatnonzero(x[row]):
            cause = cause_of(visible, h[row])
            left += cause is None
            direct = True
            while cause is not None:
                found.add((row, int(visible), cause, direct))
                cause, direct = cause_of(network.n_visible + cause, h[row]), False
        unexplained.append(left)
    return found, unexplained


@pytest.mark.parametrize("block", [1, 7, 4_000_000])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_shares_and_chains_follow_the_definition(block, seed):
    rng = np.random.default_rng(seed)
    network = random_network(seed)
    x = rng.integers(0, 2, (4, network.n_visible))
    h = rng.integers(0, 2, (4, network.n_hidden))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attribution, "_BLOCK_EDGES", block)
        result = attribute_findings(network, x, sp.csr_array(h.astype(np.uint8)))
    np.testing.assert_array_equal(np.stack([result.row, result.visible]), x.nonzero())
    dense = result.shares().toarray()
    for cell, (row, visible) in enumerate(zip(result.row, result.visible, strict=True)):
        expected = np.zeros(network.n_hidden)
        for k, share in shares(network, visible, h[row]).items():
            expected[k] = share
        np.testing.assert_allclose(dense[cell], expected, atol=1e-12)
        own, leak = due(network, visible, h[row])
        assert result.leak[cell] == pytest.approx(leak)
        assert result.own[[cell]].sum() == pytest.approx(sum(own.values()))

    found, unexplained = chains(network, x, h)
    links = result.chains()
    columns = (links.row, links.visible, links.hidden, links.direct)
    entries = list(zip(*(part.tolist() for part in columns), strict=True))
    assert set(entries) == found
    assert len(entries) == len(found)
    assert links.unexplained.tolist() == unexplained
    if x.any():
        assert links.explained_share == pytest.approx(1 - sum(unexplained) / x.sum())


def test_no_cause_is_on():
    network = nor.bipartite(3, 2)
    result = attribute_findings(network, np.ones((2, 3)), np.zeros((2, 2)))
    assert result.leak.tolist() == [1.0] * 6
    assert result.shares().nnz == 0
    links = result.chains()
    assert len(links.row) == 0
    assert links.unexplained.tolist() == [3, 3]
    assert links.explained_share == 0


def test_nothing_is_on():
    links = attribute_findings(nor.bipartite(3, 2), np.zeros((2, 3)), np.ones((2, 2))).chains()
    assert links.unexplained.tolist() == [0, 0]
    assert np.isnan(links.explained_share)


def test_a_node_that_cannot_be_on_is_left_to_noise():
    network = nor.bipartite(1, 1)
    silent = network.with_theta(np.zeros(network.n_params))
    result = attribute_findings(silent, np.ones((1, 1)), np.ones((1, 1)))
    assert result.leak.tolist() == [1.0]
    assert result.chains().unexplained.tolist() == [1]


def test_equal_shares_go_to_the_lower_number():
    network = nor.bipartite(1, 3, failure_probability=0.2)
    links = attribute_findings(network, np.ones((1, 1)), np.array([[0, 1, 1]])).chains()
    assert links.hidden.tolist() == [1]


def test_states_of_another_shape():
    with pytest.raises(InvalidDataError, match=r"\(1, 2\).*got \(2, 2\)"):
        attribute_findings(nor.bipartite(3, 2), np.ones((1, 3)), np.ones((2, 2)))


def test_the_report_and_the_explanation_of_a_row_agree():
    """Two causes share a finding; page and rank_causes put it down to the same one."""
    network = nor.bipartite(
        4,
        2,
        failure_probability=[[0.01, 0.3, 0.1, 0.999], [0.999, 0.1, 0.3, 0.01]],
        prior_probability=0.3,
        noise_probability=1e-4,
    )
    rows = nor.Observations.of(np.ones((1, 4)))
    found = rank_causes(network, rows)
    assert found.best == (0, 1)
    share = np.zeros((2, 4))
    for cause in found.causes:
        for item in cause.explains:
            share[cause.index, item.index] = item.share
    assert (share[:, 1:3] > 0.2).all()  # shared, but not evenly
    page = model_page(Model(network, {}, "factors", "model"), Table(rows)).html
    data = page.partition('id="report-data">')[2].partition("</script>")[0]
    explained = {}
    for cause, documents in enumerate(json.loads(data)["explorer"]["best"]):
        for _, *visibles in documents:
            explained |= dict.fromkeys(visibles, cause)
    assert explained == {i: int(share[:, i].argmax()) for i in range(4)}
