"""The paper's order of messages, held to the plain reference message by message."""

import numpy as np
import pytest
from random_networks import random_network, random_rows, random_tree

import noisyor as nor
from noisyor.engines.numpy.max_product import max_product_row
from noisyor.engines.registry import get_engine


def two_stage(iterations=400, **settings):
    return nor.MaxProduct(
        schedule="two-stage",
        max_iterations=iterations,
        tolerance=0.0,
        keep_beliefs=True,
        **settings,
    )


def assert_close(beliefs, expected):
    assert (np.abs(beliefs - expected) / (1 + np.abs(expected))).max() < 1e-4


@pytest.mark.parametrize("iterations", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("seed", range(12))
def test_loopy_networks_follow_the_reference(seed, iterations):
    network = random_network(seed, max_hidden=20, max_visible=25, density=0.4)
    x = random_rows(network, seed, n_rows=2, missing=0.2 if seed % 2 else 0.0)
    unobserved = "maximize" if seed % 4 == 3 else "marginalize"
    posterior = nor.explain(network, x, two_stage(iterations, unobserved=unobserved))
    for row in range(2):
        expected = max_product_row(
            network,
            x[row],
            schedule="two-stage",
            iterations=iterations,
            maximize_missing=unobserved == "maximize",
        )
        assert_close(posterior.beliefs[row], expected.beliefs)


@pytest.mark.parametrize("damping", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("n_hidden", [3, 8, 21])
def test_dense_bipartite_networks_follow_the_reference(n_hidden, damping):
    generator = np.random.default_rng(n_hidden)
    network = nor.initialize(nor.bipartite(30, n_hidden), "paper-2", noise="gaussian", seed=1)
    x = (generator.random((3, 30)) < 0.3).astype(np.uint8)
    for iterations in (1, 2, 30):
        posterior = nor.explain(network, x, two_stage(iterations, damping=damping))
        for row in range(3):
            expected = max_product_row(
                network, x[row], schedule="two-stage", iterations=iterations, damping=damping
            )
            assert_close(posterior.beliefs[row], expected.beliefs)


def test_it_takes_the_same_noise_as_the_collapsed_schedule():
    network = nor.bipartite(4, 1, failure_probability=0.4, prior_probability=0.3)
    x = np.array([[1, 0, 1, 0], [0, 0, 1, 1]])
    settings = {"temperature": 1.0, "n_samples": 5}
    ours = nor.explain(network, x, two_stage(**settings), seed=3)
    collapsed = nor.explain(network, x, nor.MaxProduct(keep_beliefs=True, **settings), seed=3)
    np.testing.assert_allclose(ours.beliefs, collapsed.beliefs, atol=2e-3)


@pytest.mark.parametrize("ancestors_only", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_on_trees_both_schedules_agree_with_any_evidence(seed, ancestors_only):
    network = random_tree(seed + 500, max_hidden=6)
    generator = np.random.default_rng(seed)
    x = random_rows(network, seed, n_rows=3)
    evidence = np.where(
        generator.random((3, network.n_hidden)) < 0.4,
        generator.integers(0, 2, (3, network.n_hidden)),
        np.nan,
    )
    settings = {"ancestors_only": ancestors_only, "keep_beliefs": True}
    collapsed = nor.explain(network, x, nor.MaxProduct(tolerance=0.0, **settings), hidden=evidence)
    ours = nor.explain(network, x, two_stage(ancestors_only=ancestors_only), hidden=evidence)
    np.testing.assert_array_equal(ours.states.toarray(), collapsed.states.toarray())
    np.testing.assert_allclose(ours.log_joint, collapsed.log_joint)


def test_it_stops_once_nothing_changes():
    network = random_tree(7)
    x = random_rows(network, 7, n_rows=5)
    stopped = nor.explain(network, x, nor.MaxProduct(schedule="two-stage", max_iterations=400))
    assert stopped.converged.all()
    assert (stopped.iterations < 400).all()
    forced = nor.explain(network, x, two_stage())
    np.testing.assert_array_equal(stopped.states.toarray(), forced.states.toarray())


def test_rows_do_not_depend_on_their_neighbours_or_the_threads():
    network = random_network(5, max_hidden=12, max_visible=20)
    x = random_rows(network, 5, n_rows=40)
    method = nor.MaxProduct(schedule="two-stage", temperature=1.0)
    together = nor.explain(network, x, method, seed=2).states.toarray()
    threads = nor.explain(
        network, x, method, seed=2, engine=get_engine(n_threads=2)
    ).states.toarray()
    np.testing.assert_array_equal(together, threads)


def test_an_unknown_schedule_is_refused():
    with pytest.raises(ValueError, match="'collapsed' or 'two-stage', got 'three-stage'"):
        nor.MaxProduct(schedule="three-stage")
