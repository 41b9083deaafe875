"""Messages of the deterministic OR, and weights on the simplex, of the NumPy engine."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyor.engines.numpy.joint_max_product import to_or_inputs
from noisyor.engines.numpy.mean_field import Factors
from noisyor.engines.numpy.rows import Segments


def max_marginal(score, n, which):
    """Log-odds of one of n binary variables under ``score``, maximised over the others."""
    states = list(itertools.product((0, 1), repeat=n))
    best = [max(score(s) for s in states if s[which] == value) for value in (0, 1)]
    return best[1] - best[0]


@pytest.mark.parametrize("n_inputs", [1, 2, 3, 5])
@pytest.mark.parametrize("evidence", [-1e6, -2.0, 0.0, 1.5, 230.26])
def test_or_messages_are_those_of_enumeration(n_inputs, evidence):
    t = np.random.default_rng(n_inputs).normal(0.0, 3.0, n_inputs)
    if n_inputs == 5:
        t[1] = t[3] = t.max() + 1.0  # a tie at the top
    messages = to_or_inputs(t, np.array([evidence]), Segments([n_inputs]))
    for e in range(n_inputs):

        def score(state, e=e):
            others = sum(t[k] for k in range(n_inputs) if state[k] and k != e)
            return others + evidence * any(state)

        assert messages[e] == pytest.approx(max_marginal(score, n_inputs, e), abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.integers(-3, 3), min_size=1, max_size=12), data=st.data())
def test_the_largest_of_the_others(values, data):
    cut = data.draw(st.integers(1, len(values)))
    lengths = [cut, len(values) - cut] if cut < len(values) else [cut]
    found = Segments(lengths).max_of_others(np.array(values, dtype=float))
    for begin, end in ((0, cut), (cut, len(values))):
        for place in range(begin, end):
            others = values[begin:place] + values[place + 1 : end]
            assert found[place] == max(others, default=-np.inf)


@settings(max_examples=50, deadline=None)
@given(scores=st.lists(st.floats(0, 1), min_size=1, max_size=60), large=st.booleans())
def test_weights_stay_on_the_simplex_above_the_floor(scores, large):
    n = len(scores)
    factors = Factors.of(Segments([n, 2]), np.ones(n + 2), np.ones(2))
    old = np.append(np.full(n, 1 / n), [0.5, 0.5])
    new = factors.project(np.append(scores, [1.0, 3.0]) * (1e6 if large else 1e-6), old)
    assert new[:n].sum() == pytest.approx(1, abs=1e-12)
    assert new[:n].min() >= factors.floor[0]
    np.testing.assert_allclose(new[n:], [0.25, 0.75])  # the neighbour does not notice
