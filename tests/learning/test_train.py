"""The prior of the parameters."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse as sp
from engine_calls import mean_gradient
from random_networks import random_network, random_rows

import noisyor as nor
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidSettingError
from noisyor.learning import TrainOptions
from noisyor.learning import train as training
from noisyor.learning.train import smoothing_prior
from noisyor.model.network import THETA_MAX, THETA_MIN


class Recording(nor.MaxProduct):
    """Max-product that notes the rows of every batch."""

    batches: list = []  # noqa: RUF012

    def gradient(self, network, observations, **options):
        self.batches.append(np.array(observations.row_ids))
        return super().gradient(network, observations, **options)


def test_training_raises_the_held_out_bound(problem):
    network, x = problem
    result = nor.train(
        network, x[:150], steps=400, learning_rate=0.02, held_out=x[150:], evaluate_every=100
    )
    evaluations = result.history.evaluations
    assert [e.step for e in evaluations] == [100, 200, 300, 400]
    start = nor.explain(network, x[150:], nor.MaxProduct()).log_joint.mean()
    assert evaluations[-1].elbo > evaluations[0].elbo > start
    assert len(result.history.elbo) == len(result.history.seconds) == 400
    expected = nor.explain(result.network, x[150:], nor.MaxProduct()).log_joint.mean()
    assert evaluations[-1].elbo == pytest.approx(expected)


def test_batches_are_contiguous_slices_of_one_shuffle(problem):
    network, x = problem
    Recording.batches = []
    nor.train(network, x, Recording(), steps=13, batch_size=20, seed=5)
    first_pass = Recording.batches[:11]
    assert [len(batch) for batch in first_pass] == [20] * 10 + [3]  # the last one as it is
    rows = np.concatenate(first_pass)
    assert sorted(rows) == list(range(203))
    assert (rows != np.arange(203)).any()
    for number in (11, 12):  # no shuffling between passes
        np.testing.assert_array_equal(Recording.batches[number], first_pass[number - 11])


def test_full_batch(problem):
    network, x = problem
    Recording.batches = []
    nor.train(network, x, Recording(temperature=1.0), steps=2, batch_size=None)
    assert [len(batch) for batch in Recording.batches] == [203, 203]


def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(problem):
    network, x = problem
    runs = [
        nor.train(
            network, x, steps=40, seed=7, engine=get_engine(n_threads=threads), batch_size=batch
        )
        for threads, batch in [(1, 20), (2, 20), (3, 20), (1, None), (2, None)]
    ]
    for run in runs[1:3]:
        np.testing.assert_array_equal(run.network.theta, runs[0].network.theta)
        np.testing.assert_array_equal(run.history.elbo, runs[0].history.elbo)
    np.testing.assert_array_equal(runs[3].network.theta, runs[4].network.theta)
    other = nor.train(network, x, steps=40, seed=8)
    assert (other.network.theta != runs[0].network.theta).any()


def test_fixed_parameters_stay_and_free_ones_respect_the_floor(problem):
    network, x = problem
    result = nor.train(network, x, steps=60, learning_rate=0.5)
    np.testing.assert_array_equal(result.network.theta_of("noise"), network.theta_of("noise"))
    assert result.network.theta[network.free].min() == THETA_MIN
    moved = result.network.theta_of("failure") != network.theta_of("failure")
    assert moved.mean() > 0.5


@pytest.mark.parametrize("parameterization", ["theta", "log"])
def test_a_rate_far_too_large_stops_at_the_largest_parameter(problem, parameterization):
    network, x = problem
    result = nor.train(
        network, x, steps=3, learning_rate=1e300, parameterization=parameterization, smoothing=1.0
    )
    assert result.network.theta.max() <= THETA_MAX
    assert np.isfinite(result.network.theta).all()


def test_steps_on_logarithms_are_in_proportion_to_the_parameters(problem):
    network, x = problem
    method = nor.MaxProduct(temperature=0.0)
    result = nor.train(
        network, x, method, steps=1, batch_size=None, learning_rate=0.01, parameterization="log"
    )
    gradient = mean_gradient(network, x, nor.explain(network, x, method).states).gradient
    # Adam's first step is the learning rate in the direction of the gradient, here of log theta.
    ratio = result.network.theta / network.theta
    clear = (np.abs(gradient * network.theta) > 1e-3) & network.free
    assert clear.sum() > 20
    np.testing.assert_allclose(ratio[clear], np.exp(0.01 * np.sign(gradient[clear])), rtol=1e-6)
    np.testing.assert_array_equal(ratio[~network.free], 1.0)
    longer = nor.train(network, x, method, steps=200, learning_rate=0.5, parameterization="log")
    assert longer.network.theta[network.free].min() == THETA_MIN


def test_steps_on_logarithms_leave_rare_columns_at_their_frequency():
    generator = np.random.default_rng(0)
    frequency = np.array([0.5, 0.1, 0.01, 0.002])
    x = (generator.random((5000, 4)) < frequency).astype(np.uint8)
    network = nor.bipartite(
        4,
        1,
        noise="per_visible",
        prior_probability=1e-3,
        failure_probability=0.999,
        noise_probability=x.mean(axis=0),
    )
    seen = network.theta_of("noise")
    off = []
    for parameterization in ("log", "theta"):
        learned = nor.train(
            network,
            x,
            nor.MaxProduct(),
            steps=200,
            batch_size=100,
            learning_rate=0.02,
            final_learning_rate=0.002,
            parameterization=parameterization,
        )
        off.append(np.abs(np.log(learned.network.theta_of("noise") / seen)).max())
    assert off[0] < 0.15
    assert off[1] > 1.0  # what steps on logarithms are for


def test_callbacks_see_every_step_and_may_stop(problem):
    network, x = problem
    seen = []

    def callback(info):
        seen.append((info.state.step, info.elbo))
        return info.state.step == 5

    result = nor.train(network, x, steps=50, callbacks=[callback])
    assert [number for number, _ in seen] == [1, 2, 3, 4, 5]
    assert result.state.step == 5
    assert [elbo for _, elbo in seen] == result.history.elbo.tolist()


def test_progress_shows_the_running_bound(problem, capsys, monkeypatch):
    monkeypatch.setattr("noisyor._util.progress.SECONDS_BETWEEN_LINES", 0.0)
    network, x = problem
    nor.train(network, x, steps=30, held_out=x, evaluate_every=1, progress=True)
    shown = capsys.readouterr().err
    assert "30 of 30 steps" in shown
    assert ", elbo -" in shown
    assert ", held out -" in shown
    assert "refresh" not in shown


def test_missing_entries_are_not_zeros():
    network = random_network(4, max_hidden=3, max_visible=6)
    x = random_rows(network, 4, n_rows=40)
    hidden = x.copy()
    hidden[:, 0] = np.nan
    zeros = np.nan_to_num(hidden)
    unknown = nor.train(network, hidden, steps=20, learning_rate=0.01)
    counted = nor.train(network, zeros, steps=20, learning_rate=0.01)
    leak = network.leak_param[0]
    assert unknown.network.theta[leak] == network.theta[leak]  # nothing seen, nothing learned
    assert counted.network.theta[leak] < network.theta[leak]


def test_smoothing_keeps_probabilities_off_the_floor():
    X = np.zeros((30, 4), dtype=np.uint8)
    network = nor.bipartite(4, 2)
    thetas = [
        nor.train(network, X, steps=400, learning_rate=0.02, smoothing=smoothing).network.theta
        for smoothing in (0.0, 1.0)
    ]
    assert thetas[0].min() == pytest.approx(1e-5)
    assert thetas[1].min() > 1e-3


def test_falling_rate_ends_at_its_value():
    X = np.random.default_rng(0).integers(0, 2, (20, 4))
    network = nor.bipartite(4, 2)
    steps: list[np.ndarray] = []
    nor.train(
        network,
        X,
        steps=30,
        learning_rate=0.1,
        final_learning_rate=1e-6,
        callbacks=[lambda info: steps.append(info.state.theta) and None],
    )
    moves = np.abs(np.diff(steps, axis=0)).max(axis=1)
    assert moves[0] > 1e-2
    assert moves[-1] < 1e-5


# ---- weights


@pytest.mark.parametrize("smoothing", [0.0, 2.0])
def test_a_row_of_weight_three_is_three_rows(problem, smoothing):
    network, x = problem
    rows = nor.Observations.of(x)
    weights = np.arange(203) % 3 + 1.0
    copies = rows.take(np.repeat(np.arange(203), weights.astype(int)))
    options = TrainOptions(steps=15, batch_size=None, learning_rate=0.02, smoothing=smoothing)
    held = {"held_out": rows.with_weights(weights)}, {"held_out": copies}
    weighted = nor.train(network, rows.with_weights(weights), options=options, **held[0])
    copied = nor.train(network, copies, options=options, **held[1])
    np.testing.assert_allclose(weighted.network.theta, copied.network.theta, rtol=1e-9)
    np.testing.assert_allclose(weighted.history.elbo, copied.history.elbo, rtol=1e-9)
    bounds = [run.history.evaluations[-1].elbo for run in (weighted, copied)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-9)
    plain = nor.train(network, rows, options=options)
    assert np.abs(plain.network.theta - copied.network.theta).max() > 1e-3


# ---- options


def test_passes_are_steps(problem):
    network, x = problem
    by_passes = nor.train(network, x, passes=2, batch_size=50)
    by_steps = nor.train(network, x, options=TrainOptions(steps=10, batch_size=50))
    assert by_passes.state.step == 10
    np.testing.assert_array_equal(by_passes.network.theta, by_steps.network.theta)


def test_a_misspelt_option_is_refused_before_the_data_are_looked_at(problem):
    with pytest.raises(InvalidSettingError, match="no option 'setps'; did you mean 'steps'"):
        nor.train(problem[0], object(), setps=5)


class Noisy(nor.MaxProduct):
    """The same, but nothing is inferred once for several rows."""

    has_noise = True  # type: ignore[assignment]


@pytest.mark.parametrize("batch_size", [None, 50])
def test_rows_that_repeat_are_merged_if_every_update_sees_them_all(
    problem, batch_size, monkeypatch
):
    network, x = problem
    copies = nor.Observations.of(sp.vstack([x, x[::2], x[::3]]))
    seen = []
    plain = nor.MaxProduct.gradient

    def gradient(self, network, observations, **options):
        seen.append(observations.n_rows)
        return plain(self, network, observations, **options)

    monkeypatch.setattr(nor.MaxProduct, "gradient", gradient)
    options = TrainOptions(steps=5, batch_size=batch_size, learning_rate=0.02)
    merged, whole = (
        nor.train(network, copies, method, options) for method in (nor.MaxProduct(), Noisy())
    )
    np.testing.assert_allclose(merged.network.theta, whole.network.theta, rtol=1e-9)
    assert seen[5] == (batch_size or copies.n_rows)
    assert (seen[0] < copies.n_rows / 1.5) if batch_size is None else (seen[0] == batch_size)


@pytest.mark.parametrize("batch_size", [None, 60])
def test_blocks_of_rows_stay_together(problem, batch_size):
    network, x = problem
    n_rows = x.shape[0]
    Recording.batches = []
    options = {"batch_size": batch_size, "block_rows": 16, "seed": 3}
    nor.train(network, x, Recording(), passes=1, **options)
    seen = np.concatenate(Recording.batches)
    assert sorted(seen) == list(range(n_rows))
    whole = n_rows // 16 * 16
    blocks = seen[:whole].reshape(-1, 16)
    assert (blocks == blocks[:, :1] + np.arange(16)).all()
    assert (seen[whole:] == np.arange(whole, n_rows)).all()
    assert (blocks[:, 0] == np.sort(blocks[:, 0])).all() == (batch_size is None)


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
    expected = mean_gradient(network, x, posterior.states)
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
    sums = [training.gradient(state, network, part, method, seed=4) for part in parts]
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
    total = training.gradient(state, network, rows, method, seed=3)
    halves = training.update(state, network, total, options, prior=prior)
    whole, value = training.step(state, network, rows, method, options, prior=prior)
    np.testing.assert_array_equal(halves.theta, whole.theta)
    assert value == total.value / total.weight


def test_step_is_pure(problem):
    network, x = problem
    rows, method = nor.Observations.of(x), nor.MeanField(outer=2)
    state = training.init(network)
    for _ in range(3):
        before = state.theta.copy()
        first, second = (
            training.step(state, network, rows, method, learning_rate=0.05) for _ in "ab"
        )
        np.testing.assert_array_equal(first[0].theta, second[0].theta)
        assert first[1] == second[1]
        np.testing.assert_array_equal(state.theta, before)
        state = first[0]


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


PACKAGES = ["noisyor.learning", "noisyor.search", "noisyor.estimators"]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_is_there_and_is_no_module(name):
    package = import_module(name)
    modules = {path.stem for path in Path(package.__file__).parent.glob("*.py")}
    assert package.__all__ == sorted(package.__all__)
    assert not modules & set(package.__all__)
    for public in package.__all__:
        assert not isinstance(getattr(package, public), ModuleType), public


def test_a_method_is_a_value_and_not_a_name():
    network, X = nor.bipartite(n_visible=2, n_hidden=1), np.eye(2)
    with pytest.raises(InvalidSettingError, match=r"'mean-field'"):
        nor.train(network, X, "mean-field", steps=1, progress=False)
    with pytest.raises(InvalidSettingError, match=r"'mean-field'"):
        nor.explain(network, X, "mean-field")
