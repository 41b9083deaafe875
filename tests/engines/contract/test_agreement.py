"""Functions of other engines agree with those that the NumPy engine has, up to rounding."""

import numpy as np
import pytest
from every_function import KEY, MAX_PRODUCT, MEAN_FIELD, networks, others, per_row, problem, sums
from whole_engines import WITHOUT_A_NETWORK, skip_without

from noisyor.engines.registry import get_engine

NETWORKS = list(networks())
PLAIN = get_engine("numpy")


@pytest.fixture(autouse=True)
def _others_than_the_plain_one(engine):
    if engine.name == PLAIN.name:
        pytest.skip("it is the plain engine")


@pytest.mark.parametrize("clamped", [False, True])
@pytest.mark.parametrize("network", NETWORKS, ids=repr)
def test_results_by_row(engine, network, clamped):
    given = problem(network, 1, clamped=clamped)
    mine = per_row(engine, *given.arguments, only=PLAIN.supports)
    theirs = per_row(PLAIN, *given.arguments, only=mine)
    assert mine
    for name in mine:
        for one, other in zip(mine[name], theirs[name], strict=True):
            assert one.dtype == other.dtype
            if name == "max_product":  # single precision is enough for messages
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3, err_msg=name)
            else:
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("network", NETWORKS, ids=repr)
def test_sums_over_rows(engine, network):
    skip_without(engine, "log_joint_gradient", "mean_field_gradient", "gibbs_sweep")
    given = problem(network, 2, weights=np.arange(1.0, 7.0))
    mine = sums(engine, *given.arguments)
    theirs = sums(PLAIN, *given.arguments, only=mine)
    for name in mine:
        for one, other in zip(mine[name], theirs[name], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("two_stage", [False, True])
@pytest.mark.parametrize("ancestors_only", [False, True])
def test_every_way_of_max_product(engine, two_stage, ancestors_only):
    how = {
        "two_stage": two_stage,
        "ancestors_only": ancestors_only,
        "tolerance": 1e-3,
    }
    for seed, network in enumerate(NETWORKS[:3]):
        given = problem(network, seed)
        mine, theirs = (max_product(one, given, **how) for one in (engine, PLAIN))
        clear = np.abs(theirs.beliefs) > 1e-3
        np.testing.assert_array_equal(mine.states[clear], theirs.states[clear])
        np.testing.assert_allclose(mine.beliefs, theirs.beliefs, rtol=1e-4, atol=1e-3)
        # A change that is the tolerance up to rounding ends the row now, or in the next iteration.
        assert np.abs(mine.iterations - theirs.iterations).max() <= 1
        same = mine.iterations == theirs.iterations
        np.testing.assert_allclose(mine.residual[same], theirs.residual[same], atol=1e-4)


def max_product(engine, given, **how):
    return engine.max_product(
        engine.prepare(given.network),
        given.evidence,
        MAX_PRODUCT._replace(**how),
        KEY,
        with_beliefs=True,
    )


@pytest.mark.parametrize("local", [False, True])
def test_mean_field_until_it_has_converged(engine, local):
    skip_without(engine, "mean_field")
    how = {"local": local, "outer": 6, "tolerance": 1e-4, "r_tolerance": 1e-6}
    for seed, network in enumerate(NETWORKS):
        given = problem(network, seed, clamped=seed % 2 == 1)
        mine, theirs = (
            one.mean_field(
                one.prepare(network), given.evidence, MEAN_FIELD._replace(**how), with_q=True
            )
            for one in (engine, PLAIN)
        )
        # Engines may solve a child again that another takes to be solved: within the tolerance.
        np.testing.assert_allclose(mine.elbo, theirs.elbo, atol=1e-6 * network.n_nodes)
        np.testing.assert_allclose(mine.q, theirs.q, atol=1e-5)


def test_what_knows_no_network(engine):
    skip_without(engine, *WITHOUT_A_NETWORK)
    mine, theirs = others(engine), others(PLAIN)
    for name, result in mine.items():
        for one, other in zip(result, theirs[name], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4, err_msg=name)
