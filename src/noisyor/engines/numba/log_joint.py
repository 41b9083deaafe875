"""The exact joint log-probability log p(h, x): its value, its gradient, and ascent by single flips.

Equations T4, T5, T19, T20 and T49 of docs/theory.md. With B_i the total parameter of node i, ``g(b)
= log(exp(b) - 1)`` and all sums over nodes that are on,

    log p(h, x) = - total_leak - sum_k total_k + sum_i g(B_i)

because every node contributes -B_i if off and g(B_i) - B_i if on. Only nodes that are on take time.
An unobserved visible is summed out: it contributes nothing.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor.engines.contract import FREE, IcmOptions
from noisyor.engines.numba.active_set import Work, select
from noisyor.engines.numba.arguments import advance, unpack
from noisyor.engines.numba.cache import inner, njit
from noisyor.engines.numba.graph import Graph, Parameters, Rows
from noisyor.engines.numba.scalar import log_expm1, maximum

_MIN_GAIN = 1e-9
"""Gain of log p that a flip must exceed: more than rounding, so that the ascent ends."""


class States(NamedTuple):
    """States (n_rows * n_samples, n_hidden) of the rows of a call, and their log p(h, x)."""

    rows: Rows
    n_samples: int
    states: npt.NDArray[np.uint8]
    value: npt.NDArray[np.float64]


class Scratch(NamedTuple):
    """Memory of one thread: per hidden node ``total``, ``on`` and ``times_on``; ``gradient``."""

    total: npt.NDArray[np.float64]
    on: npt.NDArray[np.int32]
    times_on: npt.NDArray[np.float64]
    gradient: npt.NDArray[np.float64]
    n_edges: int


@inner()
def hidden_totals(graph, parameters, rows, row, totals):
    """Sum theta over the observed and hidden children of each hidden node: its cost of being on."""
    for k in range(graph.n_hidden):
        # T_k of equation T5: from the totals of all children, take off the unobserved ones.
        totals[k] = parameters.total[k]
    for position in range(rows.missing_ptr[row], rows.missing_ptr[row + 1]):
        i = rows.missing_columns[position]
        for edge in range(graph.ptr[i], graph.ptr[i] + graph.n_parents[i]):
            totals[graph.parent[edge]] -= parameters.theta[edge]


@inner()
def _list_on(state, n_hidden, found):
    """Write the indices of the hidden nodes that are on to ``found``; return their number."""
    count = 0
    for k in range(n_hidden):
        if state[k]:
            found[count] = k
            count += 1
    return count


@inner()
def _node_sum(graph, parameters, state, on, n_on, node):
    """Return the total parameter of a node: its leak and the edges from parents that are on.

    ``on`` lists the hidden nodes that are on in ``state``: if the parents are consecutive numbers,
    only these are read.
    """
    value = parameters.leak[node]
    start, count, first = graph.ptr[node], graph.n_parents[node], graph.first[node]
    if first >= 0:
        # Few hidden nodes are on; with consecutive parents the edge follows from the number.
        for index in range(n_on):
            k = on[index]
            if first <= k < first + count:
                value += parameters.theta[start + k - first]
    else:
        for edge in range(start, start + count):
            if state[graph.parent[edge]]:
                value += parameters.theta[edge]
    return value


# ---- value


@njit("log joint probability")
def log_joint_rows(graph_address, parameters_address, states_address, scratch_address, begin, end):
    """Fill ``value`` with ``log p(h, x)`` of rows ``begin`` to ``end``."""
    graph, parameters = unpack(graph_address, Graph), unpack(parameters_address, Parameters)
    given, scratch = unpack(states_address, States), unpack(scratch_address, Scratch)
    rows, on = given.rows, scratch.on
    for row in range(begin, end):
        hidden_totals(graph, parameters, rows, row, scratch.total)
        for draw in range(row * given.n_samples, (row + 1) * given.n_samples):
            state = advance(given.states, draw * graph.n_hidden)
            n_on = _list_on(state, graph.n_hidden, on)
            value = -parameters.total_leak
            for position in range(rows.missing_ptr[row], rows.missing_ptr[row + 1]):
                value += parameters.leak[rows.missing_columns[position]]
            for index in range(n_on):
                node = graph.n_visible + on[index]
                total = _node_sum(graph, parameters, state, on, n_on, node)
                value += log_expm1(total) - scratch.total[on[index]]
            for position in range(rows.ptr[row], rows.ptr[row + 1]):
                node = np.int64(rows.columns[position])
                value += log_expm1(_node_sum(graph, parameters, state, on, n_on, node))
            given.value[draw] = value


# ---- gradient


@njit("gradient")
def add_gradient(graph_address, parameters_address, states_address, scratch_address, begin, end):
    """Add the gradient of log p(h, x) of rows ``begin`` to ``end`` to ``gradient``; return the sum.

    Every sample counts ``1 / n_samples`` of its row's weight. ``gradient`` has one entry per
    parameter and one spare. Per edge the derivative is ``z_k (z_i / (1 - exp(-B_i)) - 1)``: the
    ``-1`` of all edges of a parent is added at the end from the number of times the parent was on.
    """
    graph, parameters = unpack(graph_address, Graph), unpack(parameters_address, Parameters)
    given, scratch = unpack(states_address, States), unpack(scratch_address, Scratch)
    rows, on, times_on, gradient = given.rows, scratch.on, scratch.times_on, scratch.gradient
    value, total_weight = 0.0, 0.0
    for row in range(begin, end):
        weight = rows.weight[row] if rows.weighted else 1.0
        share = weight / given.n_samples
        total_weight += weight
        for draw in range(row * given.n_samples, (row + 1) * given.n_samples):
            state = advance(given.states, draw * graph.n_hidden)
            n_on = _list_on(state, graph.n_hidden, on)
            for position in range(rows.ptr[row], rows.ptr[row + 1]):
                i = np.int64(rows.columns[position])
                total = _node_sum(graph, parameters, state, on, n_on, i)
                value += share * log_expm1(total)
                slope = share / -math.expm1(-total)
                _add_to_edges(graph, state, on, n_on, i, slope, gradient)
            # The totals at the end charge every visible as if it were off; an unobserved one gets
            # its charge back.
            for position in range(rows.missing_ptr[row], rows.missing_ptr[row + 1]):
                i = np.int64(rows.missing_columns[position])
                value += share * _node_sum(graph, parameters, state, on, n_on, i)
                _add_to_edges(graph, state, on, n_on, i, share, gradient)
            for index in range(n_on):
                # The -1 of equation T20, for all children of k at once, is taken off at the end.
                times_on[on[index]] += share
                node = graph.n_visible + on[index]
                total = _node_sum(graph, parameters, state, on, n_on, node)
                value += share * log_expm1(total)
                slope = share / -math.expm1(-total)
                _add_to_edges(graph, state, on, n_on, node, slope, gradient)
    for node in range(graph.n_visible + graph.n_hidden):
        gradient[graph.leak_param[node]] -= total_weight
    for edge in range(scratch.n_edges):  # padding goes to the spare entry
        gradient[graph.param[edge]] -= times_on[graph.parent[edge]]
    value -= total_weight * parameters.total_leak
    for k in range(graph.n_hidden):
        value -= times_on[k] * parameters.total[k]
    return value


@inner()
def _add_to_edges(graph, state, on, n_on, node, amount, gradient):
    """Add ``amount`` to the gradient of a node's leak and of its edges from parents that are on."""
    gradient[graph.leak_param[node]] += amount
    start, count, first = graph.ptr[node], graph.n_parents[node], graph.first[node]
    if first >= 0:
        for index in range(n_on):
            k = on[index]
            if first <= k < first + count:
                gradient[graph.param[start + k - first]] += amount
    else:
        for edge in range(start, start + count):
            if state[graph.parent[edge]]:
                gradient[graph.param[edge]] += amount


# ---- iterated conditional modes


class Ascent(NamedTuple):
    """A call of `icm_rows`: states (n_rows * n_samples, n_hidden), changed in place."""

    rows: Rows
    options: IcmOptions
    n_samples: int
    states: npt.NDArray[np.uint8]


@njit("iterated conditional modes")
def icm_rows(graph_address, parameters_address, ascent_address, work_address, begin, end):
    """Flip single bits of the states of rows ``begin`` to ``end`` in place while log p rises.

    Iterated conditional modes, equation T19. The nodes that may flip are those that take part in
    message passing, in the same order; clamped nodes stay.
    """
    graph, parameters = unpack(graph_address, Graph), unpack(parameters_address, Parameters)
    ascent, work = unpack(ascent_address, Ascent), unpack(work_address, Work)
    rows, options = ascent.rows, ascent.options
    for row in range(begin, end):
        n_active, _, _, _, _ = select(graph, work, rows, row, options.ancestors_only)
        hidden_totals(graph, parameters, rows, row, work.total)
        for draw in range(row * ascent.n_samples, (row + 1) * ascent.n_samples):
            state = advance(ascent.states, draw * graph.n_hidden)
            _enter(graph, parameters, work, rows, row, state, n_active)
            for _ in range(options.sweeps):
                changed = False
                for index in range(n_active):
                    k = work.hidden[index]
                    if (
                        work.clamp[k] == FREE
                        and _flip_gain(graph, parameters, work, state, k) > _MIN_GAIN
                    ):
                        _flip(graph, parameters, work, state, k)
                        changed = True
                if not changed:
                    break


@inner(inline="always")
def _enter(graph, parameters, work, rows, row, state, n_active):
    """Fill ``work.sums`` for nodes that take part, and ``work.state``, 1 where a node is on."""
    n_on = _list_on(state, graph.n_hidden, work.on)
    for node in range(graph.n_visible + graph.n_hidden):
        work.state[node] = 0
    for position in range(rows.ptr[row], rows.ptr[row + 1]):
        i = np.int64(rows.columns[position])
        work.sums[i] = _node_sum(graph, parameters, state, work.on, n_on, i)
        work.state[i] = 1
    for index in range(n_active):
        node = graph.n_visible + work.hidden[index]
        work.sums[node] = _node_sum(graph, parameters, state, work.on, n_on, node)
        work.state[node] = state[work.hidden[index]]


@inner()
def _flip_gain(graph, parameters, work, state, k):
    """Return the gain in log p(h, x) from flipping hidden node k: equation T19."""
    sign = -1.0 if state[k] else 1.0
    gain = sign * (log_expm1(work.sums[graph.n_visible + k]) - work.total[k])
    for position in range(graph.out_ptr[k], graph.out_ptr[k + 1]):
        child = graph.out_child[position]
        if work.state[child]:
            before = work.sums[child]
            # Never below the leak, whatever the rounding: the logarithm needs a positive sum.
            after = before + sign * parameters.theta[graph.out_edge[position]]
            gain += log_expm1(maximum(after, parameters.leak[child])) - log_expm1(before)
    return gain


@inner()
def _flip(graph, parameters, work, state, k):
    """Flip hidden node k and update the sums of its children."""
    sign = -1.0 if state[k] else 1.0
    state[k] = 1 - state[k]
    work.state[graph.n_visible + k] = state[k]
    for position in range(graph.out_ptr[k], graph.out_ptr[k + 1]):
        child = graph.out_child[position]
        # Never below the leak, whatever the rounding.
        after = work.sums[child] + sign * parameters.theta[graph.out_edge[position]]
        work.sums[child] = maximum(after, parameters.leak[child])
