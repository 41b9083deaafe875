"""The mathematics of mean-field inference, in the reference and in the kernels alike."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import random_network, random_rows

from noisyor import (
    MaxProduct,
    MeanField,
    bipartite,
    enumerate_posterior,
    explain,
    log_joint,
    train,
)
from noisyor.data.observations import Observations
from noisyor.engines.numba.mean_field import entry as engine
from noisyor.engines.numpy.mean_field import (
    MeanFieldRow,
    ancestors,
    project,
    r_floor,
    sweep_order,
)
from noisyor.errors import InvalidSettingError
from noisyor.inference.exact import hidden_configurations, log_joint_table

PUBLISHED = MeanField()._options()


def random_q_r(network, row, generator):
    """Random probabilities, and random weights that sum to at most one for every child."""
    q = np.where(row.free, generator.random(network.n_hidden), 0.0)
    r = np.empty(network.n_edges)
    for node in range(network.n_nodes):
        edges = slice(network.child_ptr[node], network.child_ptr[node + 1])
        weights = generator.dirichlet(np.full(edges.stop - edges.start, 0.5))
        r[edges] = np.maximum(weights, 1e-8) * generator.uniform(0.5, 1) / (1 + 1e-6)
    return q, r


def bound_at(network, x, q, r, local=False):
    """The kernel's bound at given (q, r)."""
    prepared, rows = engine.PreparedNetwork(network), Observations.of(x[None])
    memory = engine.empty_memory(prepared, rows, local)
    hidden = [k for k in sweep_order(network) if not local or ancestors(network, x)[k]]
    children = [network.n_visible + k for k in hidden] + np.flatnonzero(x == 1).tolist()
    values = [q[hidden]]
    values += [r[network.child_ptr[i] : network.child_ptr[i + 1]] for i in children]
    memory.value[:] = np.concatenate(values)
    options = PUBLISHED._replace(outer=0, local=local)
    return engine.infer(prepared, rows, options, memory=memory._replace(filled=True)).elbo[0]


@pytest.mark.parametrize("block", range(5))
def test_bound_is_below_the_exact_log_likelihood(block):
    for seed in range(100 * block, 100 * block + 100):
        generator = np.random.default_rng(seed)
        scale = 10 ** generator.uniform(-1.5, 1)
        network = random_network(seed, max_hidden=6, max_visible=5, scale=scale, tied=seed % 2 == 0)
        x = random_rows(network, seed, 1, missing=0.3 * (seed % 3 == 0))[0]
        row = MeanFieldRow.of(network, x)
        q, r = random_q_r(network, row, generator)
        exact = enumerate_posterior(network, x[None]).log_likelihood[0]
        value = row.bound(q, r)
        assert value <= exact + 1e-9
        assert bound_at(network, x, q, r) == pytest.approx(value, abs=1e-9 * max(1, abs(value)))
        assert (
            engine.infer(  # and after inference
                engine.PreparedNetwork(network), Observations.of(x[None]), PUBLISHED
            ).elbo[0]
            <= exact + 1e-9
        )


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.floats(0.02, 5))
def test_no_single_update_of_the_reference_lowers_the_bound(seed, scale):
    network = random_network(seed, max_hidden=5, max_visible=5, scale=scale, tied=seed % 2 == 0)
    x = random_rows(network, seed, 1, missing=0.2 * (seed % 3 == 0))[0]
    row = MeanFieldRow.of(network, x, local=seed % 5 == 0)
    q, r = row.start()
    value = row.bound(q, r)
    for _ in range(3):
        for k in np.flatnonzero(row.free):
            new = q.copy()
            new[k] = max(1 / (1 + np.exp(-row.log_odds(k, q, r))), 1e-5)
            q, before, value = new, value, row.bound(new, r)
            assert value >= before - 1e-9
        for _ in range(4):
            r, before = row.update_r(q, r), value
            value = row.bound(q, r)
            assert value >= before - 1e-9


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scale=st.floats(0.02, 5),
    newton=st.booleans(),
    local=st.booleans(),
)
def test_no_round_and_no_step_of_the_kernels_lowers_the_bound(seed, scale, newton, local):
    network = random_network(seed, max_hidden=40, max_visible=8, scale=scale)
    rows = Observations.of(random_rows(network, seed, 3, missing=0.2 * (seed % 2)))
    prepared = engine.PreparedNetwork(network)
    options = PUBLISHED._replace(local=local, newton=newton, r_tolerance=1e-9 if newton else -1.0)
    by_round = [engine.infer(prepared, rows, options._replace(outer=k)).elbo for k in range(7)]
    one = options._replace(outer=1)
    by_step = [engine.infer(prepared, rows, one._replace(r_iterations=k)).elbo for k in range(12)]
    for values in (by_round, by_step):
        assert (np.diff(np.array(values), axis=0) >= -1e-9).all()


@settings(max_examples=50, deadline=None)
@given(scores=st.lists(st.floats(0, 1), min_size=1, max_size=60), large=st.booleans())
def test_weights_stay_on_the_simplex_above_the_floor(scores, large):
    old = np.full(len(scores), 1 / len(scores))
    new = project(np.array(scores) * (1e6 if large else 1e-6), old)
    assert new.sum() == pytest.approx(1, abs=1e-12)
    assert new.min() >= r_floor(len(scores))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("local", [False, True])
def test_gradient_is_that_of_the_bound_with_q_and_r_held_fixed(tied, local):
    for seed in range(6):
        network = random_network(seed, tied=tied, max_hidden=6)
        rows = Observations.of(random_rows(network, seed, 4, missing=0.2 * (seed % 2)))
        prepared = engine.PreparedNetwork(network)
        memory = engine.empty_memory(prepared, rows, local)
        options = PUBLISHED._replace(local=local, outer=2)
        value, gradient = engine.gradient(prepared, rows, options, memory=memory)
        fixed = memory._replace(filled=True, kept=False)

        def total(theta, network=network, rows=rows, options=options, fixed=fixed):
            changed = engine.PreparedNetwork(network.with_theta(theta))
            return engine.infer(changed, rows, options._replace(outer=0), memory=fixed).elbo.sum()

        assert value == pytest.approx(total(network.theta), abs=1e-10)
        for entry in range(network.n_params):
            step = 1e-5 * max(network.theta[entry], 0.1)
            up, down = network.theta.copy(), network.theta.copy()
            up[entry] += step
            down[entry] -= step
            slope = (total(up) - total(down)) / (2 * step)
            assert gradient[entry] == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_a_fixed_parameter_does_not_move_in_training():
    network = bipartite(6, 3, prior="shared", fixed=("noise",))
    X = np.random.default_rng(0).random((12, 6)) < 0.4
    result = train(network, X, MeanField(), steps=3, batch_size=5, progress=False)
    noise = network.group("noise")
    assert (result.network.theta[noise] == network.theta[noise]).all()
    assert (result.network.theta[network.group("failure")] != network.theta_of("failure")).all()


@pytest.mark.parametrize("seed", range(20))
def test_local_closed_form_equals_the_constrained_full_bound(seed):
    network = random_network(seed, max_hidden=12, max_visible=6, density=0.25)
    x = (np.random.default_rng(seed).random(network.n_visible) < 0.25).astype(float)
    row = MeanFieldRow.of(network, x, local=True)
    q, r = random_q_r(network, row, np.random.default_rng(seed))
    assert bound_at(network, x, q, r, local=True) == pytest.approx(row.bound(q, r), abs=1e-9)
    # Local inference is full inference with the other nodes clamped off.
    clamp = np.where(row.free, 2, 0).astype(np.uint8)[None]
    prepared, rows = engine.PreparedNetwork(network), Observations.of(x[None])
    local = engine.infer(prepared, rows, PUBLISHED._replace(local=True), with_q=True)
    full = engine.infer(prepared, rows, PUBLISHED, clamp=clamp, with_q=True)
    np.testing.assert_allclose(local.q, full.q, atol=1e-12)
    np.testing.assert_allclose(local.elbo, full.elbo, atol=1e-9)


def test_an_empty_row_costs_its_leaks():
    network = random_network(3)
    x = np.zeros((1, network.n_visible))
    value = MeanField(local=True).bound(network, Observations.of(x), n_threads=1)[0]
    assert value == pytest.approx(-network.theta[network.leak_param].sum(), abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_sequential_and_level_parallel_sweeps_are_identical(seed):
    network = random_network(seed, max_hidden=8)
    row = MeanFieldRow.of(network, random_rows(network, seed, 1)[0])
    q, r = random_q_r(network, row, np.random.default_rng(seed))
    for _ in range(3):
        sequential, parallel = row.sweep(q, r), row.sweep(q, r, "parallel")
        assert (sequential == parallel).all()
        q = sequential


@pytest.mark.parametrize("seed", range(20))
def test_binary_q_gives_at_most_the_joint_log_probability(seed):
    network = random_network(seed, max_hidden=8)
    x = random_rows(network, seed, 1)[0]
    generator = np.random.default_rng(seed)
    row = MeanFieldRow.of(network, x)
    _, r = random_q_r(network, row, generator)
    q = generator.integers(0, 2, network.n_hidden).astype(float)
    exact = log_joint(network, q[None].astype(int), x[None])[0]
    assert bound_at(network, x, q, r) <= exact + 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_evidence_on_hidden_nodes(seed):
    network = random_network(seed, max_hidden=6)
    x = random_rows(network, seed, 2, missing=0.2)
    known = np.random.default_rng(seed).choice([0.0, 1.0, np.nan], (2, network.n_hidden))
    table = log_joint_table(network, hidden_configurations(network.n_hidden), x)
    for local in (False, True):
        posterior = explain(network, x, MeanField(local=local), hidden=known)
        for number in range(2):
            clamped = ~np.isnan(known[number])
            assert (posterior.q[number][clamped] == known[number][clamped]).all()
            states = hidden_configurations(network.n_hidden)
            fits = (states[:, clamped] == known[number][clamped]).all(axis=1)
            exact = np.logaddexp.reduce(table[number, fits])
            assert posterior.elbo_vi[number] <= exact + 1e-9


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


@pytest.mark.parametrize(
    "wrong",
    [
        {"outer": 0},
        {"inner": 0},
        {"inner": 2.5},
        {"r_iterations": -1},
        {"tolerance": -1e-3},
        {"tolerance": float("nan")},
        {"r_update": "bisection"},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InvalidSettingError, match=next(iter(wrong))):
        MeanField(**wrong)


def test_settings_name_everything_that_matters():
    method = MeanField(local=True, tolerance=1e-3, r_update="newton")
    assert method.settings() == {
        "method": "mean-field",
        "local": True,
        "outer": 10,
        "inner": 10,
        "r_iterations": 10,
        "tolerance": 1e-3,
        "r_update": "newton",
        "warm_start": False,
    }
    assert method == MeanField(local=True, tolerance=1e-3, r_update="newton")
