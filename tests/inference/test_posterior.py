import numpy as np
import pytest
import scipy.sparse as sp
from random_networks import random_network, random_rows

import noisyor as nor
from noisyor.inference.method import concatenate


@pytest.fixture
def posterior():
    network = random_network(6, max_hidden=6, max_visible=6)
    x = random_rows(network, 6, n_rows=3)
    return nor.explain(network, x, nor.MaxProduct(temperature=1.0, n_samples=8), seed=1)


def test_samples_and_marginals_belong_together(posterior):
    dense = posterior.states.toarray().reshape(3, 8, -1)
    np.testing.assert_allclose(posterior.marginals().toarray(), dense.mean(axis=1))
    for number in range(8):
        np.testing.assert_array_equal(posterior.sample(number).toarray(), dense[:, number])
    for row in range(3):
        np.testing.assert_array_equal(posterior.active(row, 5), np.flatnonzero(dense[row, 5]))


def test_it_stays_sparse_and_says_what_it_is(posterior):
    assert sp.issparse(posterior.states)
    assert posterior.states.dtype == np.uint8
    assert "rows=3, samples=8" in repr(posterior)
    with pytest.raises(IndexError, match="8 samples"):
        posterior.sample(8)


@pytest.mark.parametrize(
    ("method", "n_inferred"),
    [
        (nor.MaxProduct(icm=5, keep_beliefs=True), 4),
        (nor.MeanField(), 4),
        (nor.MaxProduct(temperature=1.0, n_samples=2), 9),
    ],
)
def test_rows_that_repeat_are_inferred_once_unless_there_is_noise(method, n_inferred, monkeypatch):
    network = random_network(6, max_hidden=6, max_visible=6)
    rows = random_rows(network, 6, n_rows=4)
    which = np.array([0, 1, 0, 2, 3, 3, 0, 1, 2])
    seen, plain = [], type(method).infer

    def infer(self, runner, *arguments):
        seen.append(arguments[0].n_rows)
        return plain(self, runner, *arguments)

    monkeypatch.setattr(type(method), "infer", infer)
    found = nor.explain(network, rows[which], method)
    assert len(np.unique(np.nan_to_num(rows, nan=2.0), axis=0)) == 4
    assert sum(seen) == n_inferred
    alone = [
        nor.explain(network, nor.Observations.of(rows[[kind]], row_ids=[row]), method)
        for row, kind in enumerate(which)
    ]
    expected = concatenate(alone)
    np.testing.assert_array_equal(found.states.toarray(), expected.states.toarray())
    for name in ("log_joint", "iterations", "residual", "converged", "beliefs", "q", "elbo_vi"):
        values = getattr(found, name), getattr(expected, name)
        assert (values[0] is None) == (values[1] is None)
        if values[0] is not None:
            np.testing.assert_array_equal(*values)


def test_evidence_on_hidden_nodes_of_each_row_is_kept_apart():
    network = nor.bipartite(2, 2, failure_probability=0.1, prior_probability=0.3)
    rows, hidden = np.ones((3, 2)), np.array([[1, np.nan], [0, 1], [1, np.nan]])
    found = nor.explain(network, rows, hidden=hidden).states.toarray()
    np.testing.assert_array_equal(found, [[1, 0], [0, 1], [1, 0]])
