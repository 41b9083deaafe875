"""Max-product of every engine: enumeration, the NumPy engine, noise, evidence of all kinds."""

from functools import cache

import numpy as np
import pytest
from augmented import augmented_table, enumerate_augmented
from engine_calls import MAX_PRODUCT, evidence_of, explained
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_networks import loopy_problem, random_network, random_rows, random_tree
from whole_engines import whole_engine

import noisyor as nor
from noisyor.engines.contract import FREE, NEVER, NoiseKey
from noisyor.engines.noise import combine, logistic
from noisyor.engines.registry import get_engine
from noisyor.inference.exact import hidden_configurations

NEEDS = ("max_product", "icm", "log_joint")

TO_THE_END = {"tolerance": 1e-6, "max_iterations": 200}


def noise(seed, row, n_hidden, sample=0, step=0):
    """The perturbation of the contract: keyed by (seed, step, row, sample, node)."""
    key = combine(combine(combine(seed, step), row), sample)
    return logistic(combine(key, np.arange(n_hidden)))


def random_clamps(network, seed, n_rows=2):
    generator = np.random.default_rng(seed)
    shape = (n_rows, network.n_hidden)
    return np.where(generator.random(shape) < 0.4, generator.integers(0, 2, shape), np.nan)


# ---- against enumeration


@pytest.mark.parametrize("block", range(10))
def test_trees_are_solved_exactly(engine, block):
    for seed in range(20 * block, 20 * block + 20):
        network = random_tree(seed)
        x = random_rows(network, seed, n_rows=3)
        found = explained(engine, network, x, **TO_THE_END)
        exact = enumerate_augmented(network, x)
        np.testing.assert_allclose(found.beliefs, exact.max_marginals, atol=2e-4)
        reached = augmented_table(network, hidden_configurations(network.n_hidden), x)
        index = found.states @ (1 << np.arange(network.n_hidden - 1, -1, -1))
        np.testing.assert_allclose(reached[np.arange(3), index], exact.maximum, atol=1e-3)


def test_missing_visibles_on_trees(engine):
    for seed in range(20):
        network = random_tree(seed + 1000)
        x = random_rows(network, seed, n_rows=3, missing=0.4)
        found = explained(engine, network, x, **TO_THE_END)
        exact = enumerate_augmented(network, x)
        np.testing.assert_allclose(found.beliefs, exact.max_marginals, atol=2e-4)


# ---- against the NumPy engine


@cache  # every engine is held to the same
def reference(seed, iterations):
    network, rows = loopy_problem(seed)
    how = {"max_iterations": iterations, "tolerance": 0.0}
    return explained(get_engine("numpy"), network, rows, **how)


@pytest.mark.parametrize("iterations", [1, 2, 7, 100])
@pytest.mark.parametrize("seed", range(12))
def test_loopy_networks_follow_the_reference(engine, seed, iterations):
    network, x = loopy_problem(seed)
    how = {"max_iterations": iterations, "tolerance": 0.0}
    found, expected = explained(engine, network, x, **how), reference(seed, iterations)
    scale = 1 + np.abs(expected.beliefs)
    assert (np.abs(found.beliefs - expected.beliefs) / scale).max() < 1e-4
    clear = np.abs(expected.beliefs) > 1e-3
    np.testing.assert_array_equal(found.states[clear], expected.states[clear])
    np.testing.assert_allclose(found.residual, expected.residual, rtol=1e-4, atol=1e-4)


@cache
def two_stage_fixed_point(seed):
    network = random_network(seed, max_hidden=6, max_visible=6)
    x = random_rows(network, seed, n_rows=1)
    how = {"two_stage": True, "max_iterations": 300, "tolerance": 0.0}
    return network, x, explained(get_engine("numpy"), network, x, **how)


def test_the_two_stage_fixed_point_is_the_engines(engine):
    agreed = 0
    for seed in range(15):
        network, x, theirs = two_stage_fixed_point(seed)
        ours = explained(engine, network, x, max_iterations=600, tolerance=1e-5)
        if ours.residual[0] > 1e-4 or theirs.residual[0] > 1e-6:
            continue
        # Both settled: the point is a fixed point of the collapsed update as well.
        gap = np.abs(ours.beliefs - theirs.beliefs).max()
        agreed += gap < 1e-3 * (1 + np.abs(theirs.beliefs).max())
    assert agreed >= 10


def test_perturbed_beliefs_use_the_documented_noise(engine):
    """Causes that share no visible are independent: noise adds to the belief of each as it is."""
    edges = [(k, 2 * k) for k in range(6)] + [(k, 2 * k + 1) for k in range(6)]
    network = nor.from_edges(12, 6, edges, failure_probability=np.linspace(0.1, 0.9, 12))
    x = random_rows(network, 3, n_rows=3)
    how = {"tolerance": 0.0, "max_iterations": 50}
    plain = explained(engine, network, x, **how).beliefs
    for temperature in (1.0, 0.5):
        perturbed = {"temperature": temperature, "n_samples": 2, "seed": 11, "train_step": 4}
        found = explained(engine, network, x, **perturbed, **how).beliefs
        for row in range(3):
            for sample in range(2):
                added = temperature * noise(11, row, network.n_hidden, sample, step=4)
                np.testing.assert_allclose(
                    found[2 * row + sample], plain[row] + added, rtol=1e-4, atol=1e-4
                )


def test_samples_of_a_single_cause_follow_its_posterior(engine):
    network = nor.bipartite(3, 1, failure_probability=0.4, prior_probability=0.3)
    x = np.array([[1, 0, 1]])
    belief = float(explained(engine, network, x, **TO_THE_END).beliefs[0, 0])
    n = 500 if engine.name == "numpy" else 20_000
    share = explained(engine, network, x, temperature=1.0, n_samples=n).states.mean()
    expected = 1 / (1 + np.exp(-belief))
    assert share == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / n))


# ---- evidence


@pytest.mark.parametrize("seed", range(15))
def test_clamped_hidden_nodes_are_evidence(engine, seed):
    network = random_tree(seed + 500, max_hidden=6)
    x, evidence = random_rows(network, seed, n_rows=2), random_clamps(network, seed)
    found = explained(engine, network, x, hidden=evidence, **TO_THE_END)
    configurations = hidden_configurations(network.n_hidden)
    table = augmented_table(network, configurations, x)
    for row in range(2):
        known = ~np.isnan(evidence[row])
        allowed = (configurations[:, known] == evidence[row, known]).all(axis=1)
        np.testing.assert_array_equal(found.states[row, known], evidence[row, known])
        reached = table[row, (configurations == found.states[row]).all(axis=1)]
        assert reached[0] == pytest.approx(table[row, allowed].max(), abs=1e-3)
        # A belief that is known is as sure as a number can be.
        sure = np.where(evidence[row, known] == 1, -NEVER, NEVER).astype(np.float32)
        np.testing.assert_array_equal(found.beliefs[row, known], sure)


@pytest.mark.parametrize("two_stage", [False, True])
def test_one_clamp_for_all_rows_is_the_same_clamp_for_each(engine, two_stage):
    network = random_network(7, max_hidden=9, max_visible=9)
    x, one = random_rows(network, 7, n_rows=4), random_clamps(network, 7, 1)
    once = explained(engine, network, x, hidden=one, two_stage=two_stage, icm=3)
    each = explained(
        engine, network, x, hidden=np.repeat(one, 4, axis=0), two_stage=two_stage, icm=3
    )
    for mine, theirs in zip(once, each, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("seed", range(15))
def test_ancestors_only_is_the_full_graph_with_the_others_off(engine, seed):
    network = random_network(seed, max_hidden=20, max_visible=20, density=0.12)
    x = (np.random.default_rng(seed).random((3, network.n_visible)) < 0.15).astype(float)
    how = {"max_iterations": 60, "tolerance": 0.0}
    local = explained(engine, network, x, ancestors_only=True, **how)
    for row in range(3):
        ancestors = set(np.flatnonzero(x[row]).tolist())
        grown = True
        while grown:
            grown = False
            for parent, child in zip(network.parent, network.edge_child, strict=True):
                node = network.n_visible + int(parent)
                if int(child) in ancestors and node not in ancestors:
                    ancestors.add(node)
                    grown = True
        off = [k for k in range(network.n_hidden) if network.n_visible + k not in ancestors]
        hidden = np.full((1, network.n_hidden), np.nan)
        hidden[0, off] = 0
        full = explained(engine, network, x[row : row + 1], hidden=hidden, **how)
        keep = [k for k in range(network.n_hidden) if k not in off]
        np.testing.assert_allclose(
            local.beliefs[row, keep], full.beliefs[0, keep], rtol=1e-4, atol=1e-4
        )
        assert local.states[row, off].sum() == 0
        assert (local.beliefs[row, off] == np.float32(NEVER)).all()


@pytest.mark.parametrize("ancestors_only", [False, True])
def test_empty_rows_are_legal(engine, ancestors_only):
    network = random_network(5, max_hidden=6, max_visible=6)
    x = np.zeros((2, network.n_visible))
    found = explained(engine, network, x, ancestors_only=ancestors_only, icm=2)
    assert np.isfinite(found.log_joint).all()
    if ancestors_only:
        assert not found.states.any()
        leaks = network.theta[network.leak_param].sum()
        assert found.log_joint[0] == pytest.approx(-leaks)
        assert (found.iterations == 1).all()


@pytest.mark.parametrize("two_stage", [False, True])
def test_an_exact_tie_is_off(engine, two_stage):
    network = nor.bipartite(1, 1, failure_probability=0.5, prior_probability=0.5)
    x = np.array([[np.nan]])  # summed out: only the prior is left, and that is even
    found = explained(engine, network, x, two_stage=two_stage)
    assert found.beliefs[0, 0] == 0.0
    assert found.states[0, 0] == 0


# ---- invariance


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 10_000), order_seed=st.integers(0, 100), threads=st.integers(1, 3))
def test_states_do_not_depend_on_grouping_order_or_threads(engine, seed, order_seed, threads):
    network = random_network(seed, max_hidden=12, max_visible=12)
    data = nor.Observations.of(random_rows(network, seed, n_rows=12, missing=0.1))
    how = {"temperature": 1.0, "n_samples": 2, "icm": 2, "seed": seed}
    whole = explained(engine, network, data, **how)
    order = np.random.default_rng(order_seed).permutation(12)
    cut = order_seed % 11 + 1
    other = whole_engine(engine.name, n_threads=threads)
    parts = [
        explained(other, network, data.take(order[part]), **how)
        for part in (slice(0, cut), slice(cut, 12))
    ]
    lines = (2 * order[:, None] + np.arange(2)).ravel()
    for one, several in zip(whole, zip(*parts, strict=True), strict=True):
        np.testing.assert_array_equal(one[lines], np.concatenate(several))


def test_more_samples_leave_the_first_as_they_were(engine):
    network = random_network(9, max_hidden=10, max_visible=10)
    x = random_rows(network, 9, n_rows=4)
    few, more = (
        explained(engine, network, x, temperature=1.0, n_samples=n, seed=1).states.reshape(4, n, -1)
        for n in (2, 5)
    )
    np.testing.assert_array_equal(few, more[:, :2])


def test_beliefs_are_left_out_unless_wanted(engine):
    network = random_network(4)
    evidence = evidence_of(network, random_rows(network, 4))
    found = engine.max_product(engine.prepare(network), evidence, MAX_PRODUCT, NoiseKey(0))
    assert found.beliefs.shape == (0, network.n_hidden)
    assert [array.dtype for array in found] == [np.uint8, np.float32, np.int32, np.float32]


# ---- stopping, extremes


def test_rows_stop_when_they_have_converged(engine):
    generator = np.random.default_rng(0)
    edges = generator.random((8, 30)) < 0.2
    network = nor.bipartite(30, 8, failure_probability=np.where(edges, 0.1, 0.999))
    x = nor.sample(network, 20, seed=1).visible
    stopped = explained(engine, network, x)
    assert (stopped.residual < 1e-3).all()
    assert (stopped.iterations < 100).all()
    assert len(set(stopped.iterations.tolist())) > 1  # each row for itself
    full = explained(engine, network, x, tolerance=0.0)
    assert (full.iterations == 100).all()
    hasty = explained(engine, network, x, max_iterations=1, tolerance=1e-6)
    assert (hasty.iterations == 1).all()
    busy = np.asarray(x.sum(axis=1)).ravel() > 0
    assert busy.any()
    assert (hasty.residual[busy] >= 1e-6).all()


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 10_000))
def test_extreme_parameters_give_no_nan(engine, seed):
    network = random_network(seed, max_hidden=8, max_visible=8)
    generator = np.random.default_rng(seed)
    theta = generator.choice([1e-5, 1e-3, 0.1, 1.0, 10.0, 50.0], network.n_params)
    x = random_rows(network, seed, missing=0.1)
    found = explained(engine, network.with_theta(theta), x, temperature=1.0, icm=3)
    assert np.isfinite(found.beliefs).all()
    assert np.isfinite(found.log_joint).all()
    assert np.isfinite(found.residual).all()


def test_a_parameter_of_zero_is_an_edge_without_effect(engine):
    network = nor.bipartite(2, 2, failure_probability=0.2)
    theta = np.array(network.theta)
    theta[network.group("failure")[1]] = 0.0
    theta[network.group("noise")] = 0.0
    found = explained(engine, network.with_theta(theta), np.array([[1, 1], [0, 0]]), tolerance=0.0)
    np.testing.assert_array_equal(found.states, [[1, 0], [0, 0]])
    assert np.isfinite(found.beliefs).all()
    assert np.isfinite(found.log_joint).all()


def test_free_is_no_state():
    assert FREE not in (0, 1)
