"""The engine against enumeration and the NumPy reference, and the invariants that users rely on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import random_network, random_rows, random_tree

import noisyor as nor
from noisyor.engines.numba.scalar import combine, logistic_noise
from noisyor.engines.numpy.max_product import max_product_row
from noisyor.engines.registry import get_engine
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.inference.exact import augmented_table, enumerate_posterior, hidden_configurations

FORCED = nor.MaxProduct(tolerance=0.0, keep_beliefs=True)


def forced(iterations, **options):
    return nor.MaxProduct(tolerance=0.0, max_iterations=iterations, keep_beliefs=True, **options)


def noise(seed, row, n_hidden, sample=0, step=0):
    """The perturbation that the engine documents: keyed by (seed, step, row, sample, node)."""
    key = np.uint64(seed)
    for number in (step, row, sample):
        key = np.uint64(combine(key, np.uint64(number)))
    keys = [np.uint64(combine(key, np.uint64(k))) for k in range(n_hidden)]
    return np.array([logistic_noise(node_key) for node_key in keys])


# ---- against enumeration


@pytest.mark.parametrize("seed", range(200))
def test_trees_are_solved_exactly(seed):
    network = random_tree(seed)
    x = random_rows(network, seed, n_rows=3)
    posterior = nor.explain(network, x, forced(200))
    exact = enumerate_posterior(network, x)
    np.testing.assert_allclose(posterior.beliefs, exact.max_marginals, atol=2e-4)
    states = posterior.states.toarray()
    reached = augmented_table(network, hidden_configurations(network.n_hidden), x)
    index = states @ (1 << np.arange(network.n_hidden - 1, -1, -1))
    np.testing.assert_allclose(reached[np.arange(3), index], exact.augmented_maximum, atol=1e-3)


@pytest.mark.parametrize("seed", range(20))
def test_missing_visibles_on_trees(seed):
    network = random_tree(seed + 1000)
    x = random_rows(network, seed, n_rows=3, missing=0.4)
    for unobserved in ("marginalize", "maximize"):
        posterior = nor.explain(network, x, forced(200, unobserved=unobserved))
        exact = enumerate_posterior(network, x, maximize_missing=unobserved == "maximize")
        np.testing.assert_allclose(posterior.beliefs, exact.max_marginals, atol=2e-4)


@pytest.mark.parametrize("seed", range(20))
def test_log_joint_is_exact(seed):
    network = random_network(seed, tied=seed % 2 == 0)
    x = random_rows(network, seed, missing=0.3 if seed % 3 == 0 else 0.0)
    posterior = nor.explain(network, x)
    exact = enumerate_posterior(network, x)
    assert (posterior.log_joint <= exact.log_likelihood + 1e-9).all()
    assert (posterior.log_joint <= exact.map_log_joint + 1e-9).all()
    np.testing.assert_allclose(
        nor.log_joint(network, posterior.states, x), posterior.log_joint, atol=1e-9
    )


# ---- against the reference


@pytest.mark.parametrize("iterations", [1, 2, 7, 100])
@pytest.mark.parametrize("seed", range(12))
def test_loopy_networks_follow_the_reference(seed, iterations):
    network = random_network(seed, max_hidden=20, max_visible=25, density=0.4)
    x = random_rows(network, seed, n_rows=2, missing=0.2 if seed % 2 else 0.0)
    unobserved = "maximize" if seed % 4 == 3 else "marginalize"
    posterior = nor.explain(network, x, forced(iterations, unobserved=unobserved))
    states = posterior.states.toarray()
    for row in range(2):
        expected = max_product_row(
            network, x[row], iterations=iterations, maximize_missing=unobserved == "maximize"
        )
        scale = 1 + np.abs(expected.beliefs)
        assert (np.abs(posterior.beliefs[row] - expected.beliefs) / scale).max() < 1e-4
        clear = np.abs(expected.beliefs) > 1e-3
        np.testing.assert_array_equal(states[row][clear], expected.states[clear])


def test_the_two_stage_fixed_point_is_the_engines():
    agreed = 0
    for seed in range(15):
        network = random_network(seed, max_hidden=6, max_visible=6)
        x = random_rows(network, seed, n_rows=1)
        ours = nor.explain(network, x, forced(600))
        theirs = max_product_row(network, x[0], schedule="two-stage", iterations=700)
        if ours.residual[0] > 1e-4 or theirs.residual > 1e-6:
            continue
        # Both settled: the point is a fixed point of the collapsed update as well.
        gap = np.abs(ours.beliefs[0] - theirs.beliefs).max()
        agreed += gap < 1e-3 * (1 + np.abs(theirs.beliefs).max())
    assert agreed >= 10


def test_perturbed_beliefs_use_the_documented_noise():
    network = random_network(3, max_hidden=10, max_visible=12)
    x = random_rows(network, 3, n_rows=3)
    method = forced(50, temperature=1.0, n_samples=2)
    posterior = nor.explain(network, x, method, seed=11)
    for row in range(3):
        for sample in range(2):
            unary = noise(11, row, network.n_hidden, sample)
            expected = max_product_row(network, x[row], unary=unary, iterations=50)
            np.testing.assert_allclose(
                posterior.beliefs[2 * row + sample], expected.beliefs, rtol=1e-4, atol=1e-4
            )


def test_samples_of_a_single_cause_follow_its_posterior():
    network = nor.bipartite(3, 1, failure_probability=0.4, prior_probability=0.3)
    x = np.array([[1, 0, 1]])
    belief = float(nor.explain(network, x, FORCED).beliefs[0, 0])
    posterior = nor.explain(network, x, nor.MaxProduct(temperature=1.0, n_samples=20_000))
    share = posterior.marginals().toarray()[0, 0]
    expected = 1 / (1 + np.exp(-belief))
    assert share == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 20_000))


# ---- clamping and restriction


@pytest.mark.parametrize("seed", range(15))
def test_clamped_hidden_nodes_are_evidence(seed):
    network = random_tree(seed + 500, max_hidden=6)
    generator = np.random.default_rng(seed)
    x = random_rows(network, seed, n_rows=2)
    evidence = np.where(
        generator.random((2, network.n_hidden)) < 0.4,
        generator.integers(0, 2, (2, network.n_hidden)),
        np.nan,
    )
    posterior = nor.explain(network, x, forced(200), hidden=evidence)
    table = augmented_table(network, hidden_configurations(network.n_hidden), x)
    configurations = hidden_configurations(network.n_hidden)
    states = posterior.states.toarray()
    for row in range(2):
        given_nodes = ~np.isnan(evidence[row])
        allowed = (configurations[:, given_nodes] == evidence[row, given_nodes]).all(axis=1)
        np.testing.assert_array_equal(states[row, given_nodes], evidence[row, given_nodes])
        reached = table[row, (configurations == states[row]).all(axis=1)]
        assert reached[0] == pytest.approx(table[row, allowed].max(), abs=1e-3)


def test_a_clamp_by_name_holds_for_all_rows():
    network = nor.bipartite(4, 3, hidden_names=("flu", "cold", "hay fever"))
    posterior = nor.explain(network, np.eye(4), nor.MaxProduct(polish=5), hidden={"flu": 1, 2: 0})
    assert (posterior.states.toarray()[:, 0] == 1).all()
    assert (posterior.states.toarray()[:, 2] == 0).all()


@pytest.mark.parametrize("seed", range(15))
def test_ancestors_only_is_the_full_graph_with_the_others_off(seed):
    network = random_network(seed, max_hidden=20, max_visible=20, density=0.12)
    x = (np.random.default_rng(seed).random((3, network.n_visible)) < 0.15).astype(float)
    local = nor.explain(network, x, forced(60, ancestors_only=True))
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
        off = {k: 0 for k in range(network.n_hidden) if network.n_visible + k not in ancestors}
        full = nor.explain(network, x[row : row + 1], forced(60), hidden=off)
        keep = [k for k in range(network.n_hidden) if k not in off]
        np.testing.assert_allclose(
            local.beliefs[row, keep], full.beliefs[0, keep], rtol=1e-4, atol=1e-4
        )
        assert local.states.toarray()[row, list(off)].sum() == 0


def test_empty_rows_are_legal():
    network = random_network(5, max_hidden=6, max_visible=6)
    for ancestors_only in (False, True):
        posterior = nor.explain(
            network,
            np.zeros((2, network.n_visible)),
            nor.MaxProduct(ancestors_only=ancestors_only),
        )
        assert np.isfinite(posterior.log_joint).all()
    assert posterior.states.nnz == 0
    leaks = network.theta[network.leak_param].sum()
    assert posterior.log_joint[0] == pytest.approx(-leaks)


# ---- polish


@pytest.mark.parametrize("seed", range(30))
def test_polish_climbs_to_a_single_flip_optimum(seed):
    network = random_network(seed, max_hidden=9, max_visible=10, tied=seed % 2 == 0)
    x = random_rows(network, seed, n_rows=3, missing=0.2 if seed % 3 == 0 else 0.0)
    plain = nor.explain(network, x, nor.MaxProduct())
    polished = nor.explain(network, x, nor.MaxProduct(polish=100))
    assert (polished.log_joint >= plain.log_joint - 1e-12).all()
    states = polished.states.toarray()
    for k in range(network.n_hidden):
        flipped = states.copy()
        flipped[:, k] ^= 1
        assert (nor.log_joint(network, flipped, x) <= polished.log_joint + 1e-8).all()


def test_polish_leaves_clamped_nodes_alone():
    network = nor.bipartite(6, 2, failure_probability=0.05, prior_probability=0.4)
    posterior = nor.explain(
        network, np.ones((1, 6)), nor.MaxProduct(polish=10), hidden={0: 0, 1: 0}
    )
    assert posterior.states.nnz == 0


# ---- invariance


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), order_seed=st.integers(0, 100), threads=st.integers(1, 3))
def test_states_do_not_depend_on_grouping_order_or_threads(seed, order_seed, threads):
    network = random_network(seed, max_hidden=12, max_visible=12)
    x = random_rows(network, seed, n_rows=12, missing=0.1)
    method = nor.MaxProduct(temperature=1.0, n_samples=2, polish=2, keep_beliefs=True)
    data = nor.Observations.of(x)
    whole = nor.explain(network, data, method, seed=seed, engine=get_engine(n_threads=1))
    order = np.random.default_rng(order_seed).permutation(12)
    cut = int(order_seed % 11) + 1
    parts = [
        nor.explain(
            network, data.take(order[part]), method, seed=seed, engine=get_engine(n_threads=threads)
        )
        for part in (slice(0, cut), slice(cut, 12))
    ]
    lines = (2 * order[:, None] + np.arange(2)).ravel()
    states = np.vstack([part.states.toarray() for part in parts])
    beliefs = np.vstack([part.beliefs for part in parts])
    np.testing.assert_array_equal(states, whole.states.toarray()[lines])
    np.testing.assert_array_equal(beliefs, whole.beliefs[lines])


def test_blocks_of_rows_do_not_change_anything(monkeypatch):
    network = random_network(8, max_hidden=10, max_visible=10)
    x = random_rows(network, 8, n_rows=50)
    method = nor.MaxProduct(temperature=1.0)
    whole = nor.explain(network, x, method, seed=4)
    monkeypatch.setattr("noisyor.inference.blocks.BLOCK_BYTES", 7 * network.n_hidden)
    blocks = nor.explain(network, x, method, seed=4)
    np.testing.assert_array_equal(whole.states.toarray(), blocks.states.toarray())
    np.testing.assert_array_equal(whole.log_joint, blocks.log_joint)


def test_more_samples_leave_the_first_as_they_were():
    network = random_network(9, max_hidden=10, max_visible=10)
    x = random_rows(network, 9, n_rows=4)
    few = nor.explain(network, x, nor.MaxProduct(temperature=1.0, n_samples=2), seed=1)
    more = nor.explain(network, x, nor.MaxProduct(temperature=1.0, n_samples=5), seed=1)
    for number in range(2):
        np.testing.assert_array_equal(few.sample(number).toarray(), more.sample(number).toarray())


# ---- stopping, extremes, errors


def test_rows_stop_when_they_have_converged():
    generator = np.random.default_rng(0)
    edges = generator.random((8, 30)) < 0.2
    network = nor.bipartite(30, 8, failure_probability=np.where(edges, 0.1, 0.999))
    x = nor.sample(network, 20, seed=1).visible
    stopped = nor.explain(network, x, nor.MaxProduct(tolerance=1e-3))
    assert stopped.converged.all()
    assert (stopped.residual < 1e-3).all()
    assert (stopped.iterations < 100).all()
    full = nor.explain(network, x, FORCED)
    assert (full.iterations == 100).all()
    hasty = nor.explain(network, x, nor.MaxProduct(max_iterations=1, tolerance=1e-6))
    assert (hasty.iterations == 1).all()
    busy = x.sum(axis=1) > 0
    assert busy.any()
    assert not hasty.converged[busy].any()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_extreme_parameters_give_no_nan(seed):
    network = random_network(seed, max_hidden=8, max_visible=8)
    generator = np.random.default_rng(seed)
    theta = generator.choice([1e-5, 1e-3, 0.1, 1.0, 10.0, 50.0], network.n_params)
    posterior = nor.explain(
        network.with_theta(theta),
        random_rows(network, seed, missing=0.1),
        nor.MaxProduct(temperature=1.0, polish=3, keep_beliefs=True),
    )
    assert np.isfinite(posterior.beliefs).all()
    assert np.isfinite(posterior.log_joint).all()
    assert np.isfinite(posterior.residual).all()


def test_a_parameter_of_zero_is_an_edge_without_effect():
    network = nor.bipartite(2, 2, failure_probability=0.2)
    theta = np.array(network.theta)
    theta[network.group("failure")[1]] = 0.0
    theta[network.group("noise")] = 0.0
    posterior = nor.explain(network.with_theta(theta), np.array([[1, 1], [0, 0]]), FORCED)
    np.testing.assert_array_equal(posterior.states.toarray(), [[1, 0], [0, 0]])
    assert np.isfinite(posterior.beliefs).all()
    assert np.isfinite(posterior.log_joint).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature must be at least 0, got -1.0"),
        ({"temperature": float("nan")}, "temperature"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"max_iterations": 2.5}, "max_iterations"),
        ({"damping": 1.0}, r"damping must be in \[0, 1\)"),
        ({"tolerance": -1e-3}, "tolerance"),
        ({"polish": -1}, "polish"),
        ({"n_samples": 0}, "n_samples"),
        ({"unobserved": "drop"}, "unobserved must be 'marginalize' or 'maximize'"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(InvalidSettingError, match=message):
        nor.MaxProduct(**options)


def test_evidence_on_hidden_nodes_is_checked():
    network = nor.bipartite(3, 2)
    x = np.zeros((1, 3))
    with pytest.raises(InvalidDataError, match=r"row 0, node 1: expected 0, 1 or NaN, got 0\.5"):
        nor.explain(network, x, hidden=[[0, 0.5]])
    with pytest.raises(InvalidDataError, match=r"shape \(1, 2\), got \(2, 2\)"):
        nor.explain(network, x, hidden=np.zeros((2, 2)))
    with pytest.raises(InvalidDataError, match="set to 0 or 1, not 2"):
        nor.explain(network, x, hidden={0: 2})
    with pytest.raises(InvalidSettingError, match="seed"):
        nor.explain(network, x, seed=-1)
    with pytest.raises(InvalidSettingError, match="n_threads"):
        nor.explain(network, x, engine=get_engine(n_threads=0))


def test_the_data_must_fit_the_network():
    with pytest.raises(InvalidDataError, match="3"):
        nor.explain(nor.bipartite(3, 2), np.zeros((1, 4)))
