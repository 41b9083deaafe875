"""Sums in the order of a balanced tree: the definition, threads, spans, memory."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyor.engines import reduction
from noisyor.engines.reduction import (
    MEAN_FIELD_PARTS,
    MEAN_FIELD_ROWS,
    TreeSum,
    mean_field_parts,
    tree_sum,
    tree_sum_of_blocks,
)


def naive(values):
    """The definition: neighbours are added, then pairs of pairs; an odd one out moves up."""
    while len(values) > 1:
        pairs = [values[i] + values[i + 1] for i in range(0, len(values) - 1, 2)]
        values = pairs + values[2 * len(pairs) :]
    return values[0]


def numbers(n, seed=0):
    """Numbers of very different size, so that the order of a sum shows in its bits."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(n, 3)) * 10.0 ** generator.uniform(-8, 8, (n, 1))


def test_the_order_shows():
    values = numbers(33)
    assert (naive(list(values)) != np.cumsum(values, axis=0)[-1]).any()


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 300), seed=st.integers(0, 1000))
def test_sums_are_those_of_the_definition(n, seed):
    values = numbers(n, seed)
    expected = naive(list(values))
    (found,) = tree_sum([[value] for value in values])
    np.testing.assert_array_equal(found, expected)
    streamed = TreeSum()
    for value in values:
        streamed.add([value.copy()])
    np.testing.assert_array_equal(streamed.result()[0], expected)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("n_blocks", [1, 2, 3, 64, 65, 127, 128, 129, 1000])
def test_threads_and_spans_do_not_show(n_blocks, n_threads):
    values = numbers(n_blocks)
    found, count = tree_sum_of_blocks(
        lambda number: [values[number].copy(), np.ones(1)], n_blocks, n_threads
    )
    np.testing.assert_array_equal(found, naive(list(values)))
    assert count[0] == n_blocks


def test_parts_of_a_sum_are_left_as_they_are():
    parts = [[np.ones(2)], [np.ones(2)], [np.ones(2)]]
    tree_sum(parts)
    for (part,) in parts:
        np.testing.assert_array_equal(part, np.ones(2))


@settings(max_examples=30, deadline=None)
@given(power=st.integers(0, 5), rest=st.integers(1, 32))
def test_a_node_of_the_tree_may_be_summed_elsewhere(power, rest):
    first = 2**power
    values = numbers(first + min(rest, first))
    left, right = (tree_sum([[value] for value in part])[0] for part in np.split(values, [first]))
    np.testing.assert_array_equal(left + right, naive(list(values)))


def test_few_partial_sums_are_held_at_once():
    """In any order of the threads: one for each level of a span, and one for each span."""
    alive, most, lock = set(), 0, threading.Lock()

    class Counted(np.ndarray):
        def __del__(self):
            with lock:
                alive.discard(id(self))

    def compute(number):
        nonlocal most
        array = np.full(1, float(number)).view(Counted)
        with lock:
            alive.add(id(array))
            most = max(most, len(alive))
        return [array]

    (total,) = tree_sum_of_blocks(compute, 5000, 2)
    assert total[0] == 5000 * 4999 / 2
    assert most <= reduction._MAX_SPANS + 2 * 10


def test_a_long_stream_is_added_up_in_logarithmic_memory():
    total = TreeSum()
    for number in range(1000):
        total.add([np.full(1, float(number))])
        assert len(total._levels) == (number + 1).bit_count()
    assert total.result()[0][0] == 999 * 500


@settings(max_examples=40, deadline=None)
@given(n_rows=st.integers(1, 2000))
def test_parts_of_mean_field_cover_the_rows_and_whole_blocks_are_nodes(n_rows):
    bounds = mean_field_parts(n_rows)
    assert (bounds[0], bounds[-1]) == (0, n_rows)
    assert (np.diff(bounds) > 0).all()
    whole = n_rows // MEAN_FIELD_ROWS
    starts = np.arange(whole) * MEAN_FIELD_ROWS
    np.testing.assert_array_equal(bounds[: whole * MEAN_FIELD_PARTS : MEAN_FIELD_PARTS], starts)
    rest = n_rows - whole * MEAN_FIELD_ROWS
    if rest:
        alone = mean_field_parts(rest)
        np.testing.assert_array_equal(bounds[whole * MEAN_FIELD_PARTS :] - n_rows + rest, alone)
