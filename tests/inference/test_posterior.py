import numpy as np
import pytest
import scipy.sparse as sp
from random_networks import random_network, random_rows

import noisyor as nor


@pytest.fixture
def posterior():
    network = random_network(6, max_hidden=6, max_visible=6)
    x = random_rows(network, 6, n_rows=3)
    return nor.explain(network, x, nor.MaxProduct(temperature=1.0, n_samples=8), seed=1)


def test_samples_marginals_and_best_belong_together(posterior):
    dense = posterior.states.toarray().reshape(3, 8, -1)
    np.testing.assert_allclose(posterior.marginals().toarray(), dense.mean(axis=1))
    for number in range(8):
        np.testing.assert_array_equal(posterior.sample(number).toarray(), dense[:, number])
    choice = posterior.log_joint.reshape(3, 8).argmax(axis=1)
    np.testing.assert_array_equal(posterior.best().toarray(), dense[np.arange(3), choice])
    for row in range(3):
        np.testing.assert_array_equal(posterior.active(row, 5), np.flatnonzero(dense[row, 5]))


def test_it_stays_sparse_and_says_what_it_is(posterior):
    assert sp.issparse(posterior.states)
    assert posterior.states.dtype == np.uint8
    assert "rows=3, samples=8" in repr(posterior)
    with pytest.raises(IndexError, match="8 samples"):
        posterior.sample(8)
