import numpy as np
import pytest
from random_networks import random_network

import noisyor as nor
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.exact import hidden_configurations, log_joint_table


@pytest.mark.parametrize("seed", range(4))
def test_samples_follow_the_joint_distribution(seed):
    network = random_network(seed, max_hidden=4, max_visible=3, scale=0.6)
    n = 20_000
    drawn = nor.sample(network, n, seed=seed)
    states = hidden_configurations(network.n_hidden)
    visibles = hidden_configurations(network.n_visible)
    joint = np.exp(log_joint_table(network, states, visibles.astype(float)))  # (visibles, states)
    assert joint.sum() == pytest.approx(1.0)
    place = 1 << np.arange(network.n_hidden - 1, -1, -1)
    of_hidden = drawn.hidden.toarray() @ place
    of_visible = drawn.visible.toarray() @ (1 << np.arange(network.n_visible - 1, -1, -1))
    counts = np.zeros(joint.shape)
    np.add.at(counts, (of_visible, of_hidden), 1)
    error = np.abs(counts / n - joint)
    assert (error <= 5 * np.sqrt(joint * (1 - joint) / n) + 1e-4).all()


def test_more_rows_leave_the_first_as_they_were(monkeypatch):
    network = random_network(7)
    many = nor.sample(network, 50, seed=3)
    monkeypatch.setattr("noisyor.network.forward._BLOCK_CELLS", 4 * network.n_nodes)
    few = nor.sample(network, 20, seed=3)
    np.testing.assert_array_equal(many.hidden.toarray()[:20], few.hidden.toarray())
    np.testing.assert_array_equal(many.visible.toarray()[:20], few.visible.toarray())
    other = nor.sample(network, 50, seed=4)
    assert (other.visible != many.visible).nnz > 0


def test_visible_probability_is_the_noisy_or():
    network = nor.bipartite(
        2, 2, failure_probability=[[0.5, 1.0], [0.2, 0.4]], noise_probability=0.1
    )
    probability = nor.visible_probability(network, [[0, 0], [1, 0], [1, 1]])
    floor = 1 - 0.9 * np.exp(-1e-5)  # a failure of one is kept at the smallest parameter
    np.testing.assert_allclose(
        probability,
        [[0.1, 0.1], [1 - 0.9 * 0.5, floor], [1 - 0.9 * 0.1, 1 - 0.9 * np.exp(-1e-5) * 0.4]],
    )


def test_wrong_arguments():
    network = nor.bipartite(2, 2)
    with pytest.raises(InvalidSettingError, match="at least 1"):
        nor.sample(network, 0)
    with pytest.raises(InvalidDataError, match=r"\(n_rows, 2\)"):
        nor.visible_probability(network, [[1, 0, 1]])
