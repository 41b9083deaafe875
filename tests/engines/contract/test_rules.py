"""The rules that hold for every function: nothing is changed, weights, bits, sums of parts."""

import numpy as np
import pytest
from every_function import (
    KEY,
    MEAN_FIELD,
    cover_problem,
    improvement_problem,
    joint_problem,
    others,
    per_row,
    problem,
    sums,
)
from random_networks import random_network
from whole_engines import WITHOUT_A_NETWORK, skip_without, whole_engine

from noisyor.engines.contract import FUNCTIONS, Engine, GradientSum, JointOptions
from noisyor.engines.reduction import MEAN_FIELD_ROWS, ROWS_OF_BLOCK

NEEDS = tuple(sorted(FUNCTIONS))


def assert_same(mine, theirs):
    """Every array of every function has the same bits."""
    assert mine.keys() == theirs.keys()
    for name, arrays in mine.items():
        for one, other in zip(arrays, theirs[name], strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)


def test_it_is_an_engine(engine):
    assert isinstance(engine, Engine)
    assert engine.supports <= FUNCTIONS
    assert engine.workers >= 1


def kept_alike(engine, arguments):
    """Copies; and what can be made so refuses to be written to: numba would compile all anew."""
    copies = [array.copy() for array in arguments]
    if engine.name != "numba":
        for array in arguments:
            array.flags.writeable = False
    return copies


def test_arguments_are_not_changed(engine):
    given = problem(random_network(3), 1, weights=np.arange(1.0, 7.0), clamped=True)
    network, evidence, states = given.arguments
    copies = kept_alike(engine, [*evidence, states])
    per_row(engine, network, evidence, states)
    sums(engine, network, evidence, states)
    for array, before in zip([*evidence, states], copies, strict=True):
        np.testing.assert_array_equal(array, before)


def test_arguments_without_a_network_are_not_changed(engine):
    skip_without(engine, *WITHOUT_A_NETWORK)
    weights, factors, *rest = cover_problem()
    arguments = [weights, *factors, *rest]
    copies = kept_alike(engine, arguments)
    engine.cover_memberships(weights, factors, *rest)
    *cover, options, key = improvement_problem()
    arguments += cover
    copies += kept_alike(engine, cover)
    engine.improve_cover(*cover, options, key)
    for patches_given in (False, True):
        unaries = joint_problem(given=patches_given)
        arguments += unaries
        copies += kept_alike(engine, unaries)
        engine.joint_max_product(unaries, JointOptions(3, 0.5, 0.0))
    for array, before in zip(arguments, copies, strict=True):
        np.testing.assert_array_equal(array, before)


def test_bits_do_not_depend_on_the_workers(engine):
    given = problem(random_network(5, max_hidden=9), 5, n_rows=9, clamped=True)
    n_rows = 600 if engine.workers > 1 else 20  # more than one block
    many = problem(random_network(2, max_hidden=3, max_visible=4), 2, n_rows=n_rows)
    for count in (1, 3):
        other = whole_engine(engine.name, n_threads=count)
        assert_same(per_row(other, *given.arguments), per_row(engine, *given.arguments))
        assert_same(sums(other, *many.arguments), sums(engine, *many.arguments))
        assert_same(others(other), others(engine))


def test_rows_do_not_depend_on_their_order_or_on_each_other(engine):
    given = problem(random_network(7, max_hidden=9), 7, n_rows=8, clamped=True)
    whole = per_row(engine, *given.arguments)
    order = np.random.default_rng(0).permutation(8)
    parts = [per_row(engine, *given.taken(rows).arguments) for rows in (order[:3], order[3:])]
    for name, arrays in whole.items():
        for number, array in enumerate(arrays):
            by_row = array.reshape(8, -1)[order]
            several = np.concatenate([part[name][number] for part in parts])
            np.testing.assert_array_equal(by_row, several.reshape(8, -1), err_msg=name)


# ---- weights


@pytest.mark.parametrize("seed", range(3))
def test_a_row_of_weight_three_counts_as_three_rows(engine, seed):
    skip_without(engine, "log_joint_gradient")
    network = random_network(seed, max_hidden=7, tied=seed == 1)
    weighted = problem(network, seed, weights=[1.0, 3.0, 1.0, 2.0, 1.0, 1.0])
    copies = problem(network, seed).taken([0, 1, 1, 1, 2, 3, 3, 4, 5])
    mine, theirs = sums(engine, *weighted.arguments), sums(engine, *copies.arguments)
    for name, arrays in mine.items():
        for one, other in zip(arrays, theirs[name], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11, err_msg=name)
    assert mine["log_joint_gradient"][2] == 9.0


def test_results_by_row_do_not_depend_on_weights(engine):
    network = random_network(4, max_hidden=8)
    weighted = problem(network, 4, weights=[0.5, 3.0, 1.0, 2.0, 1e6, 1.0], clamped=True)
    assert_same(
        per_row(engine, *weighted.arguments),
        per_row(engine, *problem(network, 4, clamped=True).arguments),
    )


# ---- sums of parts


def in_two_parts(given, first):
    return given.taken(slice(0, first)), given.taken(slice(first, None))


@pytest.mark.parametrize("rest", [1, 300, 700])
def test_sums_over_whole_blocks_add_up_to_the_bits_of_the_whole(engine, rest):
    """A worker may take the first 512 * 2**k rows, another the rest of up to as many."""
    skip_without(engine, "log_joint_gradient", "gibbs_sweep")
    first = 2 * ROWS_OF_BLOCK
    network = random_network(2, max_hidden=3, max_visible=5)
    weights = np.random.default_rng(0).integers(1, 5, first + rest).astype(float)
    given = problem(network, 2, n_rows=first + rest, weights=weights)
    prepared = engine.prepare(network)

    def gradient(part):
        return engine.log_joint_gradient(prepared, part.evidence, part.states)

    def credits(part):
        return engine.gibbs_sweep(prepared, part.evidence, part.states[::2], KEY)

    one, other = in_two_parts(given, first)
    assert_equal_sums(gradient(one).plus(gradient(other)), gradient(given))
    whole, left, right = credits(given), credits(one), credits(other)
    np.testing.assert_array_equal(left.successes + right.successes, whole.successes)
    np.testing.assert_array_equal(left.trials + right.trials, whole.trials)


@pytest.mark.parametrize("rest", [5, 70, 300])
def test_sums_of_mean_field_add_up_to_the_bits_of_the_whole(engine, rest):
    skip_without(engine, "mean_field_gradient")
    first = 2 * MEAN_FIELD_ROWS
    network = random_network(2, max_hidden=3, max_visible=5)
    given = problem(network, 3, n_rows=first + rest)
    prepared, options = engine.prepare(network), MEAN_FIELD._replace(outer=1, r_iterations=1)

    def gradient(part):
        return engine.mean_field_gradient(prepared, part.evidence, options)

    one, other = in_two_parts(given, first)
    together, whole = gradient(one).plus(gradient(other)), gradient(given)
    assert_equal_sums(together, whole)


def assert_equal_sums(one: GradientSum, other: GradientSum):
    assert one.value == other.value
    np.testing.assert_array_equal(one.gradient, other.gradient)
    assert one.weight == other.weight
