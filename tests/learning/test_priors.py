"""The prior of the parameters."""

import numpy as np

import noisyor as nor
from noisyor.learning.train import smoothing_prior


def test_smoothing_is_the_gradient_of_its_prior():
    network = nor.bipartite(3, 2, noise="per_visible")
    prior = smoothing_prior(network, 2.0, 50)
    assert prior is not None

    def log_prior(theta):
        on = -np.expm1(-theta)  # probability that the edge or leak switches its node on
        return prior.on @ np.log(on) - prior.off @ theta

    numeric = [
        (log_prior(network.theta + step) - log_prior(network.theta - step)) / 2e-6
        for step in 1e-6 * np.eye(network.n_params)
    ]
    gradient = prior.on / np.expm1(network.theta) - prior.off
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-9)
    leaks = network.roles != "failure"
    np.testing.assert_allclose(prior.on[leaks], 2.0 / 50)
    assert smoothing_prior(network, 0.0, 50) is None
