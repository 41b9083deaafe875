"""The mean-field kernels against the plain NumPy reference, and what must not change the result."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from random_networks import build, random_network, random_rows

from noisyor import MeanField, bipartite, convolutional, explain, initialize, layered, train
from noisyor.data.observations import Observations
from noisyor.engines.numba import float64x8 as vector
from noisyor.engines.numba.mean_field import entry as engine
from noisyor.engines.numpy.mean_field import MeanFieldRow
from noisyor.network.graph import Network

PUBLISHED = MeanField()._options()


def agrees_with_reference(network, X, rounds=3, local=False):
    prepared, rows = engine.PreparedNetwork(network), Observations.of(X)
    options = PUBLISHED._replace(outer=rounds, inner=4, r_iterations=4, local=local)
    output = engine.infer(prepared, rows, options, with_q=True)
    _, gradient = engine.gradient(prepared, rows, options)
    expected = np.zeros(network.n_params)
    for x, q, elbo in zip(X, output.q, output.elbo, strict=True):
        row = MeanFieldRow.of(network, x, local)
        q_row, r_row = row.run(rounds, 4, 4)
        np.testing.assert_allclose(q, q_row, atol=1e-10)
        assert elbo == pytest.approx(row.bound(q_row, r_row), abs=1e-9)
        expected += row.gradient(q_row, r_row)
    np.testing.assert_allclose(gradient, expected, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("local", [False, True])
def test_random_networks(seed, local):
    network = random_network(seed, max_hidden=12, max_visible=10, tied=seed % 2 == 1)
    agrees_with_reference(network, random_rows(network, seed, 2, 0.2 * (seed % 3)), local=local)


@pytest.mark.parametrize("widths", [[1, 2, 3, 9, 33, 45], [8] * 9, [7] * 7 + [40], [16, 17, 31]])
def test_uneven_parent_counts(widths):
    """Unused slots of a group never show, whichever children share it."""
    generator = np.random.default_rng(len(widths))
    n_visible, n_hidden = len(widths), max(widths)
    edges = [
        (int(k), i)
        for i, width in enumerate(widths)
        for k in generator.choice(n_hidden, width, replace=False)
    ]
    edges += [(k, n_visible + j) for j in range(n_hidden) for k in range(j) if j < 3]
    unseen = sorted(set(range(n_hidden)) - {k for k, _ in edges})
    edges += [(k, 0) for k in unseen]
    network = build(n_visible, n_hidden, edges, generator)
    X = (generator.random((3, n_visible)) < 0.8).astype(float)
    agrees_with_reference(network, X, rounds=2)


def test_bipartite_convolutional_and_layered_networks():
    generator = np.random.default_rng(0)
    network = initialize(bipartite(7, 5, prior="shared"), noise="uniform", seed=1)
    agrees_with_reference(network, generator.random((2, 7)) < 0.4)
    network = initialize(convolutional((4, 5), 2, (2, 3)), noise="uniform", seed=1)
    agrees_with_reference(network, generator.random((2, 20)) < 0.3)
    data = generator.random((60, 18)) < 0.25
    network = initialize(layered(data, 3), "paper-1")
    agrees_with_reference(network, data[:2])
    agrees_with_reference(network, data[:2], local=True)


@pytest.mark.parametrize("seed", range(6))
def test_an_unobserved_visible_is_as_good_as_none(seed):
    network = random_network(seed, max_visible=6, density=0.8)
    x = random_rows(network, seed, 3)
    x = np.hstack([x, np.full((3, 1), np.nan)])  # one more visible that nobody has seen
    n_visible, n_hidden = network.n_visible, network.n_hidden
    ptr = network.child_ptr
    cut = ptr[n_visible]
    larger = Network(
        n_visible + 1,
        n_hidden,
        np.concatenate([ptr[: n_visible + 1], [cut + n_hidden], ptr[n_visible + 1 :] + n_hidden]),
        np.concatenate([network.parent[:cut], np.arange(n_hidden), network.parent[cut:]]),
        np.concatenate([network.param[:cut], np.arange(n_hidden) % 2, network.param[cut:]]),
        np.insert(network.leak_param, n_visible, 0),
        network.theta,
        network.free,
    )
    with_it = explain(larger, x, MeanField())
    without = explain(network, x[:, :-1], MeanField())
    np.testing.assert_allclose(with_it.q, without.q, atol=1e-12)
    np.testing.assert_allclose(with_it.elbo_vi, without.elbo_vi, atol=1e-10)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1000),
    order=st.permutations(range(11)),
    cut=st.integers(1, 10),
    n_threads=st.integers(1, 4),
    newton=st.booleans(),
)
def test_rows_do_not_depend_on_order_batch_or_threads(seed, order, cut, n_threads, newton):
    network = random_network(seed, max_hidden=10)
    rows = Observations.of(random_rows(network, seed, 11, missing=0.1))
    prepared = engine.PreparedNetwork(network)
    options = PUBLISHED._replace(tolerance=1e-4, r_tolerance=1e-6, newton=newton)
    whole = engine.infer(prepared, rows, options, with_q=True)
    shuffled = engine.infer(prepared, rows.take(order), options, with_q=True, n_threads=n_threads)
    assert (shuffled.elbo == whole.elbo[order]).all()
    assert (shuffled.q == whole.q[order]).all()
    parts = [rows.take(slice(0, cut)), rows.take(slice(cut, 11))]
    values = [engine.infer(prepared, part, options).elbo for part in parts]
    assert (np.concatenate(values) == whole.elbo).all()
    one = engine.gradient(prepared, rows, options)
    several = engine.gradient(prepared, rows, options, n_threads=n_threads)
    assert one[0] == several[0]
    assert (one[1] == several[1]).all()


@pytest.mark.parametrize("theta", [1e-5, 1e-3, 1.0, 50.0])
@pytest.mark.parametrize("leak", [1e-5, 1.0, 50.0])
def test_extreme_parameters_stay_finite(theta, leak):
    network = random_network(5, max_hidden=10)
    values = np.full(network.n_params, theta)
    values[network.leak_param] = leak
    network = network.with_theta(values)
    x = random_rows(network, 0, 4)
    for method in (MeanField(), MeanField(local=True, tolerance=1e-4, r_update="newton")):
        posterior = explain(network, x, method)
        assert np.isfinite(posterior.elbo_vi).all()
        value, gradient = method.gradient(network, Observations.of(x), seed=0, step=0, n_threads=1)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()


def trained_problem(n=40, r=8, rows=60):
    generator = np.random.default_rng(0)
    p = np.sqrt(1 - 0.75 ** (1 / r))
    hidden, features = generator.random((rows, r)) < p, generator.random((r, n)) < p
    X = (hidden.astype(int) @ features.astype(int)) > 0
    network = bipartite(n, r, prior="shared", failure_probability=np.where(features, 0.1, 0.98))
    return network, X


def test_stopping_early_keeps_the_bound():
    network, X = trained_problem()
    published = explain(network, X, MeanField())
    stopped = explain(network, X, MeanField(tolerance=1e-4))
    assert abs(published.elbo_vi.mean() - stopped.elbo_vi.mean()) < 1e-3
    assert stopped.iterations.mean() < 5
    assert stopped.converged.all()


def test_newton_solves_for_the_weights():
    network, X = trained_problem()
    rows, prepared = Observations.of(X), engine.PreparedNetwork(network)
    once = PUBLISHED._replace(outer=1)
    published = engine.infer(prepared, rows, once).elbo
    many = engine.infer(prepared, rows, once._replace(r_iterations=3000)).elbo
    newton = engine.infer(prepared, rows, once._replace(newton=True, r_tolerance=1e-9)).elbo
    assert (newton >= published - 1e-9).all()
    np.testing.assert_allclose(newton, many, atol=1e-6)


def test_warm_start_goes_on_where_the_batch_was_left():
    network, X = trained_problem()
    rows = Observations.of(X)
    warm, cold = MeanField(outer=1, warm_start=True), MeanField(outer=1)
    keywords = {"seed": 0, "step": 0, "n_threads": 1}
    values = [warm.gradient(network, rows, **keywords).value for _ in range(3)]
    assert values[0] == cold.gradient(network, rows, **keywords).value
    assert values[2] > values[1] > values[0]
    three = MeanField(outer=3).gradient(network, rows, **keywords)
    again = warm._memories.by_batch[rows.fingerprint()]
    assert values[2] == pytest.approx(three.value, abs=1e-9)
    assert again.filled
    other, _ = trained_problem(r=7)  # another graph: nothing is carried over
    fresh = warm.gradient(other, rows, **keywords).value
    assert fresh == cold.gradient(other, rows, **keywords).value


def test_training_climbs_and_resumes_bit_for_bit(tmp_path):
    network, X = trained_problem()
    network = initialize(network, "paper-3", noise="uniform")
    settings_of_run = {"batch_size": 20, "learning_rate": 0.02, "progress": False}
    whole = train(network, X, MeanField(), steps=30, n_threads=2, **settings_of_run)
    assert whole.history.elbo[-3:].mean() > whole.history.elbo[:3].mean() + 1
    path = tmp_path / "run"
    train(network, X, MeanField(), steps=11, checkpoint=path, n_threads=1, **settings_of_run)
    resumed = train(
        network, X, MeanField(), steps=30, checkpoint=path, resume=True, **settings_of_run
    )
    assert (resumed.network.theta == whole.network.theta).all()
    assert (resumed.history.elbo == whole.history.elbo).all()


class _Arrays(NamedTuple):
    s: np.ndarray
    slope: np.ndarray
    exp: np.ndarray
    rest: np.ndarray
    phi: np.ndarray
    derivative: np.ndarray
    log: np.ndarray
    inverse: np.ndarray


class _More(NamedTuple):
    logistic: np.ndarray
    entropy: np.ndarray


@njit
def _functions(s, slope, exp, rest, phi, derivative, log, inverse, logistic, entropy):
    """Every vector function on arrays of equal length, a multiple of eight."""
    arrays = vector.pointers(_Arrays(s, slope, exp, rest, phi, derivative, log, inverse))
    more = vector.pointers(_More(logistic, entropy))
    for i in range(0, len(s), 8):
        x = vector.load(arrays.s, i)
        first, second = vector.exp_minus(x)
        vector.store(arrays.exp, i, first)
        vector.store(arrays.rest, i, second)
        vector.store(more.entropy, i, vector.entropy(second))
        vector.store(more.logistic, i, vector.logistic(vector.splat(3.0) - x))
        first, second = vector.edge_terms(x, vector.load(arrays.slope, i))
        vector.store(arrays.phi, i, first)
        vector.store(arrays.derivative, i, second)
        first, second = vector.log_one_plus(x)
        vector.store(arrays.log, i, first)
        vector.store(arrays.inverse, i, second)


def test_vector_functions_are_accurate_to_rounding():
    generator = np.random.default_rng(0)
    s = 10 ** generator.uniform(-9, 2.3, 4096)
    leak = 10 ** generator.uniform(-5, 1.5, 4096)
    results = [np.empty(4096) for _ in range(8)]
    slope = np.exp(-leak) / -np.expm1(-leak)
    _functions(s, slope, *results)
    y = -np.expm1(-s)
    x = slope * y
    phi, derivative = np.log1p(x), slope * np.exp(-s) / (1 + x)
    with np.errstate(divide="ignore", invalid="ignore"):
        other = np.exp(-s)
        entropy = -y * np.log(y) + s * other
    expected = [other, y, phi, derivative, np.log1p(s), 1 / (1 + s), 1 / (1 + np.exp(s - 3))]
    for came, wanted in zip(results[:7], expected, strict=True):
        np.testing.assert_allclose(came, wanted, rtol=3e-15)
    np.testing.assert_allclose(results[7], entropy, rtol=1e-6, atol=1e-14)
