"""The settings of mean-field inference, its posterior, and training with it."""

import numpy as np
import pytest
from engine_calls import PUBLISHED, mean_field
from random_networks import random_network, random_rows

from noisyor import (
    MaxProduct,
    MeanField,
    bipartite,
    explain,
    initialize,
    train,
)
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidSettingError
from noisyor.inference.exact import enumerate_posterior
from noisyor.inference.max_product import log_joint


@pytest.mark.parametrize("name", ["numpy", "numba"])
def test_settings_reach_the_engine(name):
    assert MeanField()._options() == PUBLISHED
    network = random_network(4, max_hidden=8, max_visible=10)
    x = random_rows(network, 4, n_rows=4, missing=0.3)
    method = MeanField(local=True, outer=3, inner=2, r_iterations=4, tolerance=1e-2)
    posterior = explain(network, x, method, hidden={1: 1}, engine=name)
    known = np.full((1, network.n_hidden), np.nan)
    known[0, 1] = 1
    how = {"local": True, "outer": 3, "inner": 2, "r_iterations": 4}
    how |= {"tolerance": 1e-2, "r_tolerance": 1e-4}
    expected = mean_field(get_engine(name), network, x, hidden=known, **how)
    np.testing.assert_array_equal(posterior.q, expected.q)
    np.testing.assert_array_equal(posterior.elbo_vi, expected.elbo)
    np.testing.assert_array_equal(posterior.iterations, expected.rounds)


def test_posterior_holds_q_the_mode_and_both_bounds():
    network = random_network(11, max_hidden=6, max_visible=8)
    x = random_rows(network, 1, 30)
    posterior = explain(network, x, MeanField())
    assert posterior.q.shape == (30, network.n_hidden)
    assert (posterior.states.toarray() == (posterior.q >= 0.5)).all()
    np.testing.assert_allclose(posterior.marginals().toarray(), posterior.q)
    np.testing.assert_allclose(posterior.log_joint, log_joint(network, posterior.states, x))
    exact = enumerate_posterior(network, x).log_likelihood
    assert (posterior.elbo_vi <= exact + 1e-9).all()
    assert (posterior.iterations == 10).all()
    without = explain(network, x, MeanField(keep_q=False))
    assert without.q is None
    assert (without.elbo_vi == posterior.elbo_vi).all()
    assert explain(network, x, MaxProduct()).elbo_vi is None


def test_a_fixed_parameter_does_not_move_in_training():
    network = bipartite(6, 3, prior="shared", fixed=("noise",))
    X = np.random.default_rng(0).random((12, 6)) < 0.4
    result = train(network, X, MeanField(), steps=3, batch_size=5, progress=False)
    noise = network.group("noise")
    assert (result.network.theta[noise] == network.theta[noise]).all()
    assert (result.network.theta[network.group("failure")] != network.theta_of("failure")).all()


def trained_problem(n=40, r=8, rows=60):
    generator = np.random.default_rng(0)
    p = np.sqrt(1 - 0.75 ** (1 / r))
    hidden, features = generator.random((rows, r)) < p, generator.random((r, n)) < p
    X = (hidden.astype(int) @ features.astype(int)) > 0
    network = bipartite(n, r, prior="shared", failure_probability=np.where(features, 0.1, 0.98))
    return network, X


def test_training_climbs_and_resumes_bit_for_bit(tmp_path):
    network, X = trained_problem()
    network = initialize(network, "paper-3", noise="uniform")
    settings_of_run = {"batch_size": 20, "learning_rate": 0.02, "progress": False}
    whole = train(
        network, X, MeanField(), steps=30, engine=get_engine(n_threads=2), **settings_of_run
    )
    assert whole.history.elbo[-3:].mean() > whole.history.elbo[:3].mean() + 1
    path = tmp_path / "run"
    train(
        network,
        X,
        MeanField(),
        steps=11,
        checkpoint=path,
        engine=get_engine(n_threads=1),
        **settings_of_run,
    )
    resumed = train(
        network, X, MeanField(), steps=30, checkpoint=path, resume=True, **settings_of_run
    )
    assert (resumed.network.theta == whole.network.theta).all()
    assert (resumed.history.elbo == whole.history.elbo).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"outer": 0},
        {"inner": 0},
        {"inner": 2.5},
        {"r_iterations": -1},
        {"tolerance": -1e-3},
        {"tolerance": float("nan")},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InvalidSettingError, match=next(iter(wrong))):
        MeanField(**wrong)


def test_settings_name_everything_that_matters():
    method = MeanField(local=True, tolerance=1e-3)
    assert method.settings() == {
        "method": "mean-field",
        "local": True,
        "outer": 10,
        "inner": 10,
        "r_iterations": 10,
        "tolerance": 1e-3,
    }
    assert method == MeanField(local=True, tolerance=1e-3)
