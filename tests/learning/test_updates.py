import numpy as np
import pytest

import noisyor as nor
import noisyor.learning as training
from noisyor.engines.registry import get_engine
from noisyor.learning import TrainOptions, smoothing_prior
from noisyor.learning.state import adam_update, start_adam
from noisyor.model.network import THETA_MIN


def test_one_step_is_adam_on_the_gradient(problem):
    network, x = problem
    method = nor.MaxProduct(temperature=0.0)
    state, value = training.step(
        training.init(network),
        network,
        nor.Observations.of(x),
        method,
        learning_rate=0.01,
        seed=0,
        engine=get_engine(n_threads=1),
    )
    posterior = nor.explain(network, x, method)
    expected = nor.inference.elbo_mp_gradient(network, x, posterior.states)
    assert value == pytest.approx(expected.value)
    # Adam's first step is the learning rate in the direction of the gradient.
    moved = state.theta - network.theta
    clear = (np.abs(expected.gradient) > 1e-3) & (state.theta > THETA_MIN)
    assert clear.any()
    np.testing.assert_allclose(moved[clear], 0.01 * np.sign(expected.gradient[clear]), rtol=1e-4)


@pytest.mark.parametrize("method", [nor.MaxProduct(temperature=1.0), nor.MeanField(outer=3)])
def test_sums_of_parts_give_the_update_of_the_whole(problem, method):
    network, x = problem
    rows, state = nor.Observations.of(x), training.init(network)
    parts = [rows.take(slice(0, 70)), rows.take(slice(70, 90)), rows.take(slice(90, 203))]
    sums = [training.gradient(state, network, part, method, seed=4).total for part in parts]
    total = sums[2].plus(sums[0]).plus(sums[1])
    assert total.weight == 203
    apart = training.update(state, network, total, learning_rate=0.01)
    whole, _ = training.step(state, network, rows, method, learning_rate=0.01, seed=4)
    np.testing.assert_allclose(apart.theta, whole.theta, rtol=1e-9)
    np.testing.assert_allclose(apart.optimizer.second, whole.optimizer.second, rtol=1e-9)
    assert apart.step == 1


def test_step_is_gradient_then_update(problem):
    network, x = problem
    rows, method = nor.Observations.of(x), nor.MaxProduct(temperature=1.0)
    prior = smoothing_prior(network, 2.0, rows.n_rows)
    options = TrainOptions(
        steps=9, learning_rate=0.1, final_learning_rate=0.01, parameterization="log", seed=3
    )
    state, _ = training.step(training.init(network), network, rows, method, options, prior=prior)
    found = training.gradient(state, network, rows, method, seed=3)
    halves = training.update(state, network, found.total, options, prior=prior)
    whole, value = training.step(state, network, rows, method, options, prior=prior)
    np.testing.assert_array_equal(halves.theta, whole.theta)
    assert value == found.total.value / found.total.weight


@pytest.mark.parametrize("warm_start", [False, True])
def test_step_is_pure(problem, warm_start):
    network, x = problem
    rows, method = nor.Observations.of(x), nor.MeanField(outer=2, warm_start=warm_start)
    state = training.init(network)
    for _ in range(3):  # from the second on there is something to start from
        before = state.theta.copy(), dict(state.warm)
        first, second = (
            training.step(state, network, rows, method, learning_rate=0.05, key=0) for _ in "ab"
        )
        np.testing.assert_array_equal(first[0].theta, second[0].theta)
        assert first[1] == second[1]
        np.testing.assert_array_equal(state.theta, before[0])
        assert state.warm == before[1]
        state = first[0]
    assert list(state.warm) == ([0] if warm_start else [])


def test_adam_follows_its_formula():
    gradients = [np.array([0.5, -2.0]), np.array([-0.1, 1.0]), np.array([0.0, 3.0])]
    state = start_adam(2)
    first, second = np.zeros(2), np.zeros(2)
    for number, gradient in enumerate(gradients, start=1):
        state, step = adam_update(state, gradient, 0.1)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        corrected = (first / (1 - 0.9**number), second / (1 - 0.999**number))
        np.testing.assert_allclose(step, 0.1 * corrected[0] / (np.sqrt(corrected[1]) + 1e-8))
    assert state.updates == 3
