"""Memory of max-product is kept between calls: what a call leaves there must not reach the next."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import random_network, random_rows

import noisyor as nor
from noisyor.engines.numba.arguments import borrowed

METHODS = st.builds(
    nor.MaxProduct,
    temperature=st.sampled_from([0.0, 1.0]),
    schedule=st.sampled_from(["collapsed", "two-stage"]),
    ancestors_only=st.booleans(),
    icm=st.sampled_from([0, 2]),
    damping=st.sampled_from([0.0, 0.5]),
    max_iterations=st.just(20),
)


def explained(network, rows, method, hidden, engine):
    return nor.explain(network, rows, method, seed=5, hidden=hidden, engine=engine)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    calls=st.lists(
        st.tuples(METHODS, st.integers(1, 4), st.sampled_from([None, 0, 1])),
        min_size=2,
        max_size=4,
    ),
)
def test_calls_do_not_reach_each_other(seed, calls):
    network = random_network(seed)
    engine = nor.engines.NumbaEngine(n_threads=1)
    for number, (method, n_rows, first) in enumerate(calls):
        rows = random_rows(network, seed + number, n_rows, missing=0.2)
        hidden = None if first is None else {0: first}
        used = explained(network, rows, method, hidden, engine)
        fresh = explained(random_network(seed), rows, method, hidden, engine)
        np.testing.assert_array_equal(used.states.toarray(), fresh.states.toarray())
        np.testing.assert_array_equal(used.log_joint, fresh.log_joint)
        np.testing.assert_array_equal(used.residual, fresh.residual)


def test_memory_is_kept_with_the_graph_and_grows():
    network, engine = nor.bipartite(n_visible=40, n_hidden=3), nor.engines.NumbaEngine(n_threads=1)
    few, many = np.zeros((2, 40)), np.ones((2, 40))
    sizes = []
    for rows in (few, many, few):
        nor.explain(network.with_theta(network.theta * 0.9), rows, engine=engine)
        (space,) = network.engine_cache["max-product work"]
        sizes.append(len(space.values.narrow))
    assert sizes[0] < sizes[1] == sizes[2] == 40


def test_borrowed_memory_returns_after_an_error():
    idle, seen = deque(["kept"]), []

    def fail():
        with borrowed(idle, lambda _: True, lambda: "new") as memory:
            seen.append((memory, len(idle)))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert seen == [("kept", 0)]
    assert list(idle) == ["kept"]
