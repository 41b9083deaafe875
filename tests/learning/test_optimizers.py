"""Optimizers as values: Adam's formula, other optimizers, rates that are functions, resuming."""

from __future__ import annotations

import numpy as np
import pytest

import noisyor as nor
from noisyor.errors import CheckpointError, InvalidSettingError
from noisyor.learning import Adam, TrainOptions
from noisyor.learning.train import gradient as gradient_sum
from noisyor.learning.train import update

RUN = {"batch_size": 16, "seed": 2, "progress": False}


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    network = nor.initialize(nor.bipartite(6, 3), "paper-3", noise="uniform")
    return network, rng.integers(0, 2, (40, 6))


class Momentum:
    """Descent with momentum whose state nests a dictionary, a list, None, an int and arrays."""

    def __init__(self, rate=0.05):
        self.rate = rate

    def init(self, theta):
        return {"velocity": [np.zeros_like(theta), None], "count": 0}

    def update(self, gradient, state, theta):
        assert theta.shape == gradient.shape
        velocity = 0.9 * state["velocity"][0] + gradient
        return -self.rate * velocity, {"velocity": [velocity, None], "count": state["count"] + 1}


def stop_after(steps):
    return lambda info: info.state.step == steps


def test_adam_follows_its_formula():
    gradients = [np.array([0.5, -2.0]), np.array([-0.1, 1.0]), np.array([0.0, 3.0])]
    adam = Adam(0.1, beta_1=0.8)
    state = adam.init(np.zeros(2))
    first, second = np.zeros(2), np.zeros(2)
    for number, gradient in enumerate(gradients, start=1):
        step, state = adam.update(gradient, state)
        first = 0.8 * first + 0.2 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        corrected = (first / (1 - 0.8**number), second / (1 - 0.999**number))
        np.testing.assert_allclose(step, -0.1 * corrected[0] / (np.sqrt(corrected[1]) + 1e-8))
    assert state.updates == 3


def test_adam_as_a_value_is_the_default_optimizer(problem):
    given = nor.train(*problem, optimizer=Adam(0.02), steps=7, **RUN)
    default = nor.train(*problem, learning_rate=0.02, steps=7, **RUN)
    np.testing.assert_array_equal(given.state.theta, default.state.theta)


def test_a_rate_may_be_a_function_of_the_step(problem):
    def falling(step):
        return 0.1 * 0.1 ** (step / 8)

    written = nor.train(*problem, learning_rate=0.1, final_learning_rate=0.01, steps=8, **RUN)
    asked = []
    function = nor.train(
        *problem, learning_rate=lambda step: asked.append(step) or falling(step), steps=8, **RUN
    )
    assert asked == list(range(8))
    np.testing.assert_allclose(function.state.theta, written.state.theta, rtol=1e-12)
    by_adam = nor.train(*problem, optimizer=Adam(falling), steps=8, **RUN)
    np.testing.assert_array_equal(by_adam.state.theta, function.state.theta)


@pytest.mark.parametrize("parameterization", ["theta", "log"])
def test_an_own_optimizer_moves_down_the_negative_bound(problem, parameterization):
    network, x = problem
    rows, method = nor.Observations.of(x), nor.MaxProduct()
    optimizer = Momentum()
    options = TrainOptions(optimizer=optimizer, parameterization=parameterization)
    state = nor.learning.init(network, optimizer)
    found = gradient_sum(state, network, rows, method)
    after = update(state, network, found, options)
    ascent = found.gradient / found.weight
    expected = (
        state.theta + 0.05 * ascent
        if parameterization == "theta"
        else state.theta * np.exp(0.05 * ascent * state.theta)
    )
    np.testing.assert_allclose(
        after.theta, np.where(network.free, np.maximum(expected, 1e-5), state.theta)
    )
    assert after.optimizer["count"] == 1


@pytest.mark.parametrize("stopped_at", [1, 4])
@pytest.mark.parametrize(
    "setting",
    [
        {"optimizer": Momentum()},
        {"optimizer": Adam(0.02)},
        {"learning_rate": lambda s: 0.1 / (s + 1)},
    ],
)
def test_resume_is_bit_identical(problem, tmp_path, setting, stopped_at):
    whole = nor.train(*problem, steps=9, **setting, **RUN)
    file = tmp_path / "run"
    first = nor.train(
        *problem, steps=9, checkpoint=file, callbacks=[stop_after(stopped_at)], **setting, **RUN
    )
    assert first.state.step == stopped_at
    rest = nor.train(*problem, steps=9, checkpoint=file, resume=True, **setting, **RUN)
    assert rest.resumed_at == stopped_at
    np.testing.assert_array_equal(rest.state.theta, whole.state.theta)
    np.testing.assert_array_equal(rest.history.elbo, whole.history.elbo)


@pytest.mark.parametrize(
    "other",
    [{}, {"optimizer": Adam(0.03)}, {"optimizer": Momentum()}, {"learning_rate": lambda s: 0.02}],
)
def test_a_checkpoint_of_another_optimizer_is_refused(problem, tmp_path, other):
    file = tmp_path / "run"
    nor.train(*problem, steps=2, checkpoint=file, optimizer=Adam(0.02), **RUN)
    with pytest.raises(CheckpointError):
        nor.train(*problem, steps=4, checkpoint=file, resume=True, **other, **RUN)


@pytest.mark.parametrize(
    "wrong",
    [
        {"optimizer": "adam"},
        {"optimizer": Adam},
        {"optimizer": Adam(0.1), "learning_rate": 0.1},
        {"learning_rate": "fast"},
        {"learning_rate": lambda step: float("nan")},
        {"learning_rate": lambda step: -1.0},
        {"learning_rate": lambda step: 0.1, "final_learning_rate": 0.01},
    ],
)
def test_what_is_no_optimizer_or_rate_is_refused(problem, wrong):
    with pytest.raises(InvalidSettingError, match=r"optimizer|learning_rate"):
        nor.train(*problem, steps=2, **wrong, **RUN)


@pytest.mark.parametrize("move", [np.zeros(3), np.nan])
def test_steps_that_do_not_fit_the_parameters_are_refused(problem, move):
    class Wrong(Momentum):
        def update(self, gradient, state, theta):
            return (np.full_like(gradient, move) if np.isscalar(move) else move), state

    with pytest.raises(InvalidSettingError, match="step 0"):
        nor.train(*problem, steps=2, optimizer=Wrong(), **RUN)


@pytest.mark.parametrize("settings", [{"learning_rate": 0}, {"beta_1": 1.0}, {"epsilon": -1}])
def test_settings_of_adam_are_checked(settings):
    with pytest.raises(InvalidSettingError, match=next(iter(settings))):
        Adam(**settings)


def test_optimizers_of_optax(problem, tmp_path):
    optax = pytest.importorskip("optax")
    pytest.importorskip("jax").config.update("jax_enable_x64", True)
    own = nor.train(*problem, steps=9, optimizer=Adam(0.02), **RUN)
    theirs = nor.train(*problem, steps=9, optimizer=optax.adam(0.02), **RUN)
    np.testing.assert_allclose(theirs.state.theta, own.state.theta, rtol=1e-9)
    rates = optax.cosine_decay_schedule(0.05, 9)
    chain = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(rates, momentum=0.9))
    whole = nor.train(*problem, steps=9, optimizer=chain, **RUN)
    file = tmp_path / "run"
    nor.train(*problem, steps=4, checkpoint=file, optimizer=chain, **RUN)
    rest = nor.train(*problem, steps=9, checkpoint=file, resume=True, optimizer=chain, **RUN)
    np.testing.assert_array_equal(rest.state.theta, whole.state.theta)
    by_schedule = nor.train(*problem, steps=3, learning_rate=rates, **RUN)
    assert by_schedule.state.step == 3
