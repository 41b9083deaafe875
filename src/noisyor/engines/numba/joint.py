"""The exact joint log-probability log p(h, x): its value, its gradient, and ascent by single flips.

With B_i the total parameter of node i, ``g(b) = log(exp(b) - 1)`` and all sums over what is on,

    log p(h, x) = - total_leak - sum_k total_k + sum_i g(B_i)

because every node contributes -B_i if off and g(B_i) - B_i if on. Only what is on costs time.
An unobserved visible is summed out: it contributes nothing.
"""

import numpy as np
from numba import njit

from noisyor.engines.numba.arithmetic import log_expm1


@njit(cache=True, nogil=True)
def node_sum(graph, parameters, state, node):
    """Total parameter of a node: its leak and the edges from parents that are on."""
    value = parameters.leak[node]
    start = graph.ptr[node]
    for edge in range(start, start + graph.count[node]):
        if state[graph.parent[edge]]:
            value += parameters.theta[edge]
    return value


@njit(cache=True, nogil=True)
def hidden_totals(graph, parameters, missing, totals):
    """Cost of switching each hidden node on: theta summed over its children that are not missing."""
    totals[:] = parameters.total
    for i in missing:
        start = graph.ptr[i]
        for edge in range(start, start + graph.count[i]):
            totals[graph.parent[edge]] -= parameters.theta[edge]


@njit(cache=True, nogil=True)
def node_sums(graph, parameters, state, ones, hidden, sums):
    """Fill ``sums`` (n_nodes,) for the active visibles and the hidden nodes that take part."""
    for i in ones:
        sums[i] = node_sum(graph, parameters, state, i)
    for k in hidden:
        sums[graph.n_visible + k] = node_sum(graph, parameters, state, graph.n_visible + k)


@njit(cache=True, nogil=True)
def row_log_joint(graph, parameters, state, ones, missing, hidden, sums, totals):
    """``log p(h, x)`` of one row from its node sums and hidden totals."""
    value = -parameters.total_leak
    for i in missing:
        value += parameters.leak[i]
    for k in hidden:
        if state[k]:
            value += log_expm1(sums[graph.n_visible + k]) - totals[k]
    for i in ones:
        value += log_expm1(sums[i])
    return value


@njit(cache=True, nogil=True)
def log_joint_rows(graph, parameters, rows, states, result, begin, end):
    """``log p(h, x)`` for rows ``begin`` to ``end``, states (n_rows, n_hidden) uint8."""
    totals = np.empty(graph.n_hidden)
    sums = np.empty(graph.n_visible + graph.n_hidden)
    hidden = np.arange(graph.n_hidden)
    for row in range(begin, end):
        ones = rows.columns[rows.ptr[row] : rows.ptr[row + 1]]
        missing = rows.missing_columns[rows.missing_ptr[row] : rows.missing_ptr[row + 1]]
        hidden_totals(graph, parameters, missing, totals)
        node_sums(graph, parameters, states[row], ones, hidden, sums)
        result[row] = row_log_joint(
            graph, parameters, states[row], ones, missing, hidden, sums, totals
        )


@njit(cache=True, nogil=True)
def add_gradient(graph, parameters, rows, states, samples, gradient, begin, end):
    """Add the gradient of log p(h, x) of rows ``begin`` to ``end`` to ``gradient``; return the sum.

    ``states`` (n_rows * samples, n_hidden); every sample counts ``1 / samples``. ``gradient`` has
    one entry per parameter and one spare. Per edge the derivative is
    ``z_k (z_i / (1 - exp(-B_i)) - 1)``: the ``-1`` of all edges of a parent is added at the end
    from the number of times the parent was on.
    """
    share = 1.0 / samples
    times_on = np.zeros(graph.n_hidden)
    n_visible = graph.n_visible
    value = 0.0
    for row in range(begin, end):
        ones = rows.columns[rows.ptr[row] : rows.ptr[row + 1]]
        missing = rows.missing_columns[rows.missing_ptr[row] : rows.missing_ptr[row + 1]]
        for line in range(row * samples, (row + 1) * samples):
            state = states[line]
            for i in ones:
                value += share * _add_on_node(graph, parameters, state, i, share, gradient)
            for i in missing:
                value += share * node_sum(graph, parameters, state, i)
                gradient[graph.leak_param[i]] += share
                start = graph.ptr[i]
                for edge in range(start, start + graph.count[i]):
                    if state[graph.parent[edge]]:
                        gradient[graph.param[edge]] += share
            for k in range(graph.n_hidden):
                if state[k]:
                    times_on[k] += share
                    value += share * _add_on_node(
                        graph, parameters, state, n_visible + k, share, gradient
                    )
    n_rows = end - begin
    for node in range(len(graph.count)):
        gradient[graph.leak_param[node]] -= n_rows
        start = graph.ptr[node]
        for edge in range(start, start + graph.count[node]):
            gradient[graph.param[edge]] -= times_on[graph.parent[edge]]
    value -= n_rows * parameters.total_leak
    for k in range(graph.n_hidden):
        value -= times_on[k] * parameters.total[k]
    return value


@njit(cache=True, nogil=True)
def _add_on_node(graph, parameters, state, node, share, gradient):
    total = node_sum(graph, parameters, state, node)
    slope = share / -np.expm1(-total)
    gradient[graph.leak_param[node]] += slope
    start = graph.ptr[node]
    for edge in range(start, start + graph.count[node]):
        if state[graph.parent[edge]]:
            gradient[graph.param[edge]] += slope
    return log_expm1(total)


@njit(cache=True, nogil=True)
def polish_row(graph, parameters, state, ones, hidden, work, max_sweeps):
    """Flip single hidden bits while log p(h, x) rises; ``state`` and ``work.sums`` are updated.

    Each flip raises log p by more than rounding, so the loop ends. Clamped nodes stay.
    """
    on = work.state  # by node: is it on?
    on[:] = 0
    for i in ones:
        on[i] = 1
    for k in hidden:
        on[graph.n_visible + k] = state[k]
    for _ in range(max_sweeps):
        changed = False
        for k in hidden:
            if work.clamp[k] > 1 and _flip_gain(graph, parameters, state, on, work, k) > 1e-9:
                _flip(graph, parameters, state, on, work, k)
                changed = True
        if not changed:
            return


@njit(cache=True, nogil=True)
def _flip_gain(graph, parameters, state, on, work, k):
    sign = -1.0 if state[k] else 1.0
    gain = sign * (log_expm1(work.sums[graph.n_visible + k]) - work.total[k])
    for position in range(graph.out_ptr[k], graph.out_ptr[k + 1]):
        child = graph.out_child[position]
        if on[child]:
            before = work.sums[child]
            after = _moved(parameters, before, sign, graph.out_edge[position], child)
            gain += log_expm1(after) - log_expm1(before)
    return gain


@njit(cache=True, nogil=True)
def _moved(parameters, total, sign, edge, child):
    """A node sum after an edge was switched; never below the leak, whatever the rounding."""
    return max(total + sign * parameters.theta[edge], parameters.leak[child])


@njit(cache=True, nogil=True)
def _flip(graph, parameters, state, on, work, k):
    sign = -1.0 if state[k] else 1.0
    state[k] = 1 - state[k]
    on[graph.n_visible + k] = state[k]
    for position in range(graph.out_ptr[k], graph.out_ptr[k + 1]):
        child = graph.out_child[position]
        work.sums[child] = _moved(
            parameters, work.sums[child], sign, graph.out_edge[position], child
        )
