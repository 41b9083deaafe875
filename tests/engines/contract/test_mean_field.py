"""Mean-field inference of every engine: the mathematics, and the NumPy engine step by step."""

import numpy as np
import pytest
from engine_calls import PUBLISHED, evidence_of, mean_field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_networks import build, random_network, random_rows

from noisyor import Observations, bipartite, convolutional, initialize, layered
from noisyor._util.arrays import log_one_minus_exp
from noisyor.engines.contract import Evidence
from noisyor.engines.numpy.mean_field import RowAscent
from noisyor.engines.numpy.rows import rows_of
from noisyor.engines.registry import get_engine
from noisyor.inference.exact import enumerate_posterior, hidden_configurations, log_joint_table
from noisyor.model.network import Network

NEEDS = ("mean_field", "mean_field_gradient")


def ancestors(network, x):
    """Which hidden nodes are above what is on, shape (n_hidden,)."""
    found, todo = np.zeros(network.n_hidden, dtype=bool), np.flatnonzero(x == 1).tolist()
    while todo:
        node = todo.pop()
        for k in network.parent[network.child_ptr[node] : network.child_ptr[node + 1]].tolist():
            if not found[k]:
                found[k] = True
                todo.append(network.n_visible + k)
    return found


def bound_of(network, x, q, r):
    """The bound from its definition: the terms of all nodes, and the entropy of q."""
    q_all, value = np.concatenate([x, q]), 0.0
    for node in np.flatnonzero(~np.isnan(q_all)):
        edges = slice(network.child_ptr[node], network.child_ptr[node + 1])
        theta, leak = network.theta[network.param[edges]], network.theta[network.leak_param[node]]
        q_parents, f_leak = q[network.parent[edges]], float(log_one_minus_exp(leak))
        phi = log_one_minus_exp(leak + theta / r[edges]) - f_leak
        value += q_all[node] * (f_leak + q_parents @ (r[edges] * phi))
        value -= (1 - q_all[node]) * (leak + q_parents @ theta)
    for p in (q, 1 - q):
        value -= p[p > 0] @ np.log(p[p > 0])
    return float(value)


def given_q_r(network, x, q, r, local=False):
    """A row of the NumPy engine at given (q, r); compiled engines are held to that engine."""
    engine = get_engine("numpy")
    prepared = engine.prepare(network)
    (row,) = rows_of(prepared, evidence_of(network, x[None]))
    model = RowAscent(prepared, row, local)
    model.q[:], model.r[:] = (
        np.where(np.isin(np.arange(len(q)), model.hidden), q, 0.0),
        r[model.numbers],
    )
    return model


def random_q_r(network, generator, free=True):
    """Random probabilities, and random weights that sum to at most one for every child."""
    q = np.where(free, generator.random(network.n_hidden), 0.0)
    r = np.empty(network.n_edges)
    for node in range(network.n_nodes):
        edges = slice(network.child_ptr[node], network.child_ptr[node + 1])
        weights = generator.dirichlet(np.full(edges.stop - edges.start, 0.5))
        r[edges] = np.maximum(weights, 1e-8) * generator.uniform(0.5, 1) / (1 + 1e-6)
    return q, r


def agrees_with_reference(engine, network, X, rounds=3, local=False):
    how = {"outer": rounds, "inner": 4, "r_iterations": 4, "local": local}
    found = mean_field(engine, network, X, **how)
    prepared, evidence = engine.prepare(network), evidence_of(network, X)
    total = engine.mean_field_gradient(prepared, evidence, PUBLISHED._replace(**how))
    assert total.value == pytest.approx(found.elbo.sum(), rel=1e-12)
    reference = get_engine("numpy")
    expected = mean_field(reference, network, X, **how)
    np.testing.assert_allclose(found.q, expected.q, atol=1e-10)
    np.testing.assert_allclose(found.elbo, expected.elbo, atol=1e-9)
    prepared = reference.prepare(network)
    theirs = reference.mean_field_gradient(prepared, evidence, PUBLISHED._replace(**how))
    np.testing.assert_allclose(total.gradient, theirs.gradient, atol=1e-8, rtol=1e-8)


# ---- the bound


@pytest.mark.parametrize("block", range(5))
def test_bound_is_below_the_exact_log_likelihood(engine, block):
    for seed in range(100 * block, 100 * block + (10 if engine.name == "numpy" else 100)):
        generator = np.random.default_rng(seed)
        scale = 10 ** generator.uniform(-1.5, 1)
        network = random_network(seed, max_hidden=6, max_visible=5, scale=scale, tied=seed % 2 == 0)
        x = random_rows(network, seed, 1, missing=0.3 * (seed % 3 == 0))[0]
        q, r = random_q_r(network, generator)
        exact = enumerate_posterior(network, x[None]).log_likelihood[0]
        value = bound_of(network, x, q, r)
        assert value <= exact + 1e-9
        ours = given_q_r(network, x, q, r).bound()
        assert ours == pytest.approx(value, abs=1e-9 * max(1, abs(value)))
        assert mean_field(engine, network, x[None]).elbo[0] <= exact + 1e-9  # after inference


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 10**6),
    scale=st.floats(0.02, 5),
    solve=st.booleans(),
    local=st.booleans(),
)
def test_no_round_and_no_step_lowers_the_bound(engine, seed, scale, solve, local):
    most = 12 if engine.name == "numpy" else 40
    network = random_network(seed, max_hidden=most, max_visible=8, scale=scale)
    rows = random_rows(network, seed, 3, missing=0.2 * (seed % 2))
    how = {"local": local, "r_tolerance": 1e-9 if solve else -1.0}
    by_round = [mean_field(engine, network, rows, outer=k, **how).elbo for k in range(7)]
    by_step = [
        mean_field(engine, network, rows, outer=1, r_iterations=k, **how).elbo for k in range(12)
    ]
    for values in (by_round, by_step):
        assert (np.diff(np.array(values), axis=0) >= -1e-9).all()


@pytest.mark.parametrize("seed", range(20))
def test_local_closed_form_equals_the_constrained_full_bound(engine, seed):
    network = random_network(seed, max_hidden=12, max_visible=6, density=0.25)
    x = (np.random.default_rng(seed).random(network.n_visible) < 0.25).astype(float)
    free = ancestors(network, x)
    q, r = random_q_r(network, np.random.default_rng(seed), free)
    ours = given_q_r(network, x, q, r, local=True).bound()
    assert ours == pytest.approx(bound_of(network, x, q, r), abs=1e-9)
    # Local inference is full inference with the other nodes clamped off.
    hidden = np.where(free, np.nan, 0.0)[None]
    local = mean_field(engine, network, x[None], local=True)
    full = mean_field(engine, network, x[None], hidden=hidden)
    np.testing.assert_allclose(local.q, full.q, atol=1e-12)
    np.testing.assert_allclose(local.elbo, full.elbo, atol=1e-9)


def test_an_empty_row_costs_its_leaks(engine):
    network = random_network(3)
    found = mean_field(engine, network, np.zeros((1, network.n_visible)), local=True)
    assert found.elbo[0] == pytest.approx(-network.theta[network.leak_param].sum(), abs=1e-12)
    assert not found.q.any()


@pytest.mark.parametrize("seed", range(20))
def test_binary_q_gives_at_most_the_joint_log_probability(engine, seed):
    network = random_network(seed, max_hidden=8)
    x = random_rows(network, seed, 1)[0]
    generator = np.random.default_rng(seed)
    _, r = random_q_r(network, generator)
    q = generator.integers(0, 2, network.n_hidden).astype(float)
    exact = log_joint_table(network, q[None], x[None])[0, 0]
    assert given_q_r(network, x, q, r).bound() <= exact + 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_evidence_on_hidden_nodes(engine, seed):
    network = random_network(seed, max_hidden=6)
    x = random_rows(network, seed, 2, missing=0.2)
    known = np.random.default_rng(seed).choice([0.0, 1.0, np.nan], (2, network.n_hidden))
    states = hidden_configurations(network.n_hidden)
    table = log_joint_table(network, states, x)
    for local in (False, True):
        found = mean_field(engine, network, x, hidden=known, local=local)
        for number in range(2):
            clamped = ~np.isnan(known[number])
            assert (found.q[number][clamped] == known[number][clamped]).all()
            fits = (states[:, clamped] == known[number][clamped]).all(axis=1)
            exact = np.logaddexp.reduce(table[number, fits])
            assert found.elbo[number] <= exact + 1e-9


# ---- against the NumPy engine


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("local", [False, True])
def test_random_networks(engine, seed, local):
    network = random_network(seed, max_hidden=12, max_visible=10, tied=seed % 2 == 1)
    rows = random_rows(network, seed, 2, 0.2 * (seed % 3))
    agrees_with_reference(engine, network, rows, local=local)


@pytest.mark.parametrize("widths", [[1, 2, 3, 9, 33, 45], [8] * 9, [7] * 7 + [40], [16, 17, 31]])
def test_uneven_parent_counts(engine, widths):
    """Whatever children share in an engine's layout never shows."""
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
    agrees_with_reference(engine, network, X, rounds=2)


def test_bipartite_convolutional_and_layered_networks(engine):
    generator = np.random.default_rng(0)
    network = initialize(bipartite(7, 5, prior="shared"), noise="uniform", seed=1)
    agrees_with_reference(engine, network, generator.random((2, 7)) < 0.4)
    network = initialize(convolutional((4, 5), 2, (2, 3)), noise="uniform", seed=1)
    agrees_with_reference(engine, network, generator.random((2, 20)) < 0.3)
    data = generator.random((60, 18)) < 0.25
    network = initialize(layered(data, 3), "paper-1")
    agrees_with_reference(engine, network, data[:2])
    agrees_with_reference(engine, network, data[:2], local=True)


@pytest.mark.parametrize("seed", range(6))
def test_an_unobserved_visible_is_as_good_as_none(engine, seed):
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
    with_it = mean_field(engine, larger, x)
    without = mean_field(engine, network, x[:, :-1])
    np.testing.assert_allclose(with_it.q, without.q, atol=1e-12)
    np.testing.assert_allclose(with_it.elbo, without.elbo, atol=1e-10)


# ---- the gradient


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("local", [False, True])
def test_gradient_is_that_of_the_bound_with_q_and_r_held_fixed(tied, local):
    for seed in range(12):
        network = random_network(seed, tied=tied, max_hidden=6)
        x = random_rows(network, seed, 1, missing=0.2 * (seed % 2))[0]
        q, r = random_q_r(network, np.random.default_rng(seed))
        found = given_q_r(network, x, q, r, local).gradient()
        for entry in range(network.n_params):
            step = 1e-5 * max(network.theta[entry], 0.1)
            up, down = network.theta.copy(), network.theta.copy()
            up[entry] += step
            down[entry] -= step
            values = [
                given_q_r(network.with_theta(theta), x, q, r, local).bound() for theta in (up, down)
            ]
            slope = (values[0] - values[1]) / (2 * step)
            assert found[entry] == pytest.approx(slope, rel=1e-5, abs=1e-5)


# ---- schedule


def trained_problem(n=40, r=8, rows=20):
    generator = np.random.default_rng(0)
    p = np.sqrt(1 - 0.75 ** (1 / r))
    hidden, features = generator.random((rows, r)) < p, generator.random((r, n)) < p
    X = (hidden.astype(int) @ features.astype(int)) > 0
    network = bipartite(n, r, prior="shared", failure_probability=np.where(features, 0.1, 0.98))
    return network, X


def test_stopping_early_keeps_the_bound(engine):
    network, X = trained_problem()
    published = mean_field(engine, network, X)
    stopped = mean_field(engine, network, X, tolerance=1e-4, r_tolerance=1e-6)
    assert abs(published.elbo.mean() - stopped.elbo.mean()) < 1e-3
    assert stopped.rounds.mean() < 5
    assert (stopped.gain < 1e-4).all()
    assert (published.rounds == 10).all()


def test_a_small_tolerance_solves_for_the_weights(engine):
    network, X = trained_problem()
    published = mean_field(engine, network, X, outer=1)
    steps = 300 if engine.name == "numpy" else 3000
    solved = mean_field(engine, network, X, outer=1, r_iterations=steps, r_tolerance=1e-9)
    many = mean_field(engine, network, X, outer=1, r_iterations=steps)
    assert (solved.elbo >= published.elbo - 1e-9).all()
    np.testing.assert_allclose(solved.elbo, many.elbo, atol=1e-6)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 1000),
    order=st.permutations(range(11)),
    cut=st.integers(1, 10),
    n_threads=st.integers(1, 4),
)
def test_rows_do_not_depend_on_order_batch_or_threads(engine, seed, order, cut, n_threads):
    network = random_network(seed, max_hidden=10)
    rows = Observations.of(random_rows(network, seed, 11, missing=0.1))
    how = {"tolerance": 1e-4, "r_tolerance": 1e-6}
    whole = mean_field(engine, network, rows, **how)
    other = get_engine(engine.name, n_threads=n_threads)
    shuffled = mean_field(other, network, rows.take(order), **how)
    assert (shuffled.elbo == whole.elbo[order]).all()
    assert (shuffled.q == whole.q[order]).all()
    parts = [rows.take(slice(0, cut)), rows.take(slice(cut, 11))]
    values = [mean_field(engine, network, part, **how).elbo for part in parts]
    assert (np.concatenate(values) == whole.elbo).all()
    evidence, options = Evidence.of(network, rows), PUBLISHED._replace(**how)
    one, several = (
        which.mean_field_gradient(which.prepare(network), evidence, options)
        for which in (engine, other)
    )
    assert one.value == several.value
    assert (one.gradient == several.gradient).all()


@pytest.mark.parametrize("theta", [1e-5, 1e-3, 1.0, 50.0])
@pytest.mark.parametrize("leak", [1e-5, 1.0, 50.0])
def test_extreme_parameters_stay_finite(engine, theta, leak):
    network = random_network(5, max_hidden=10)
    values = np.full(network.n_params, theta)
    values[network.leak_param] = leak
    network = network.with_theta(values)
    x = random_rows(network, 0, 4)
    solve = {"local": True, "tolerance": 1e-4, "r_tolerance": 1e-6}
    for how in ({}, solve):
        assert np.isfinite(mean_field(engine, network, x, **how).elbo).all()
        total = engine.mean_field_gradient(
            engine.prepare(network), evidence_of(network, x), PUBLISHED._replace(**how)
        )
        assert np.isfinite(total.value)
        assert np.isfinite(total.gradient).all()
