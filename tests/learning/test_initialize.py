import numpy as np
import pytest
from random_networks import random_network

import noisyor as nor
from noisyor.errors import InvalidSettingError
from noisyor.learning.initialize import SETTINGS
from noisyor.model.network import THETA_MIN


@pytest.mark.parametrize(
    ("name", "failure", "prior"),
    [("paper-1", 0.5, 0.5), ("paper-2", 0.5, 0.1), ("paper-3", 0.9, 0.1), ("paper-4", 0.9, 0.5)],
)
def test_the_papers_settings(name, failure, prior):
    network = nor.initialize(nor.bipartite(5, 3, fixed=()), name)
    np.testing.assert_allclose(network.failure_probability, failure)
    np.testing.assert_allclose(network.prior_probability, prior)
    np.testing.assert_allclose(network.noise_probability, prior)
    assert len(SETTINGS) == 4


def test_fixed_parameters_keep_their_value():
    network = nor.initialize(
        nor.bipartite(5, 3, noise_probability=0.01, fixed=("noise",)), "paper-4", "gaussian"
    )
    np.testing.assert_allclose(network.noise_probability, 0.01)


def test_the_uniform_rule_moves_failures_only():
    network = nor.initialize(nor.bipartite(50, 30), "paper-2", "uniform", seed=1)
    failure = network.failure_probability
    assert 0.4 <= failure.min() < 0.41
    assert 0.59 < failure.max() <= 0.6
    np.testing.assert_allclose(network.prior_probability, 0.1)
    np.testing.assert_allclose(network.noise_probability, 0.1)


def test_the_gaussian_rule_moves_failures_and_priors_within_the_unit_interval():
    network = nor.initialize(nor.bipartite(200, 100), "paper-3", "gaussian", seed=2)
    failure = network.failure_probability
    assert failure.max() == pytest.approx(np.exp(-THETA_MIN))  # projected to one
    assert failure[failure < 0.99].std() > 0.05
    prior = network.prior_probability
    assert prior.std() > 0.02
    assert (prior >= 0).all()
    assert (prior <= 1).all()
    np.testing.assert_allclose(network.noise_probability, 0.1)


@pytest.mark.parametrize(("noise", "deviation"), [("gaussian", 0.1), ("wide-gaussian", 0.1**0.5)])
def test_a_tenth_is_the_standard_deviation_or_the_variance(noise, deviation):
    network = nor.initialize(nor.bipartite(200, 200), "paper-1", noise, seed=3)
    failure = network.failure_probability
    # Half of the values lie below the mean of 0.5; of those, 68 % within one deviation.
    below = failure[failure < 0.5]
    assert (below > 0.5 - deviation).mean() == pytest.approx(0.6827, abs=0.01)


def test_extreme_settings_stay_finite():
    network = nor.initialize(nor.bipartite(20, 10), (0.0, 1.0), "gaussian")
    assert np.isfinite(network.theta).all()
    assert network.theta.min() >= THETA_MIN


def test_the_same_seed_gives_the_same_start():
    network = random_network(0, tied=True)
    one, two, other = (
        nor.initialize(network, "paper-1", "uniform", seed=seed) for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(one.theta, two.theta)
    assert (one.theta != other.theta).any()


def test_unknown_names_are_errors():
    network = nor.bipartite(2, 2)
    with pytest.raises(InvalidSettingError, match="paper-1, paper-2"):
        nor.initialize(network, "best")
    with pytest.raises(InvalidSettingError, match="gaussian, wide-gaussian, uniform, got 'some'"):
        nor.initialize(network, noise="some")
    with pytest.raises(InvalidSettingError, match="between 0 and 1"):
        nor.initialize(network, (0.5, 1.5))
