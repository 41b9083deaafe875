"""The exact joint log-probability log p(h, x): its value, its gradient, and ascent by single flips.

Equations T4, T5, T19, T20 and T49 of docs/theory.md. With B_i the total parameter of node i,
``g(b) = log(exp(b) - 1)`` and all sums over what is on,

    log p(h, x) = - total_leak - sum_k total_k + sum_i g(B_i)

because every node contributes -B_i if off and g(B_i) - B_i if on. Only what is on costs time.
An unobserved visible is summed out: it contributes nothing.

Fields of the argument tuples are read into local names before a loop: reading one inside would
count references each time round, which costs more than the arithmetic.
"""

import numpy as np

from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.scalar import log_expm1


@njit(cache=True, nogil=True, forceinline=True)
def list_on(state, found):
    """Write the indices of the hidden nodes that are on to ``found``; return their number."""
    count = 0
    for k in range(len(state)):
        if state[k]:
            found[count] = k
            count += 1
    return count


@njit(cache=True, nogil=True, forceinline=True)
def node_sum(graph, parameters, state, on, node):
    """Total parameter of a node: its leak and the edges from parents that are on.

    ``on`` lists the hidden nodes that are on in ``state``: if the parents are consecutive numbers
    only these need a look.
    """
    value = parameters.leak[node]
    start, count, first = graph.ptr[node], graph.n_parents[node], graph.first[node]
    theta, parent = parameters.theta, graph.parent
    if first >= 0:
        # Few hidden nodes are on; with consecutive parents the edge follows from the number.
        for k in on:
            if first <= k < first + count:
                value += theta[start + k - first]
    else:
        for edge in range(start, start + count):
            if state[parent[edge]]:
                value += theta[edge]
    return value


@njit(cache=True, nogil=True, forceinline=True)
def hidden_totals(graph, parameters, missing, totals):
    """Cost of switching each hidden node on: theta summed over its observed and hidden children."""
    ptr, count, parent, theta = graph.ptr, graph.n_parents, graph.parent, parameters.theta
    total = parameters.total
    for k in range(len(total)):
        # T_k of equation T5: from the totals of all children, take off the unobserved ones.
        totals[k] = total[k]
    for i in missing:
        for edge in range(ptr[i], ptr[i] + count[i]):
            totals[parent[edge]] -= theta[edge]


@njit(cache=True, nogil=True, forceinline=True)
def node_sums(graph, parameters, state, on, ones, hidden, sums):
    """Fill ``sums`` (n_nodes,) for the active visibles and the hidden nodes that take part."""
    for i in ones:
        sums[i] = node_sum(graph, parameters, state, on, i)
    for k in hidden:
        sums[graph.n_visible + k] = node_sum(graph, parameters, state, on, graph.n_visible + k)


@njit(cache=True, nogil=True, forceinline=True)
def row_log_joint(graph, parameters, state, ones, missing, hidden, sums, totals):
    """``log p(h, x)`` of one row from its node sums and hidden totals."""
    value = -parameters.total_leak
    leak, n_visible = parameters.leak, graph.n_visible
    for i in missing:
        value += leak[i]
    for k in hidden:
        if state[k]:
            value += log_expm1(sums[n_visible + k]) - totals[k]
    for i in ones:
        value += log_expm1(sums[i])
    return value


@njit(cache=True, nogil=True)
def log_joint_rows(graph, parameters, rows, states, result, begin, end):
    """``log p(h, x)`` of rows ``begin`` to ``end``; ``states`` (n_rows * samples, n_hidden)."""
    samples = len(states) // (len(rows.ptr) - 1)
    totals = np.empty(graph.n_hidden)
    sums = np.empty(graph.n_visible + graph.n_hidden)
    found = np.empty(graph.n_hidden, dtype=np.int32)
    for row in range(begin, end):
        ones = rows.columns[rows.ptr[row] : rows.ptr[row + 1]]
        missing = rows.missing_columns[rows.missing_ptr[row] : rows.missing_ptr[row + 1]]
        hidden_totals(graph, parameters, missing, totals)
        for line in range(row * samples, (row + 1) * samples):
            state = states[line]
            on = found[: list_on(state, found)]
            node_sums(graph, parameters, state, on, ones, on, sums)
            result[line] = row_log_joint(graph, parameters, state, ones, missing, on, sums, totals)


@njit(cache=True, nogil=True)
def add_gradient(graph, parameters, rows, states, samples, gradient, begin, end):
    """Add the gradient of log p(h, x) of rows ``begin`` to ``end`` to ``gradient``; return the sum.

    ``states`` (n_rows * samples, n_hidden); every sample counts ``1 / samples`` of its row's
    weight. ``gradient`` has one entry per parameter and one spare. Per edge the derivative is
    ``z_k (z_i / (1 - exp(-B_i)) - 1)``: the ``-1`` of all edges of a parent is added at the end
    from the number of times the parent was on.
    """
    times_on = np.zeros(graph.n_hidden + 1)
    found = np.empty(graph.n_hidden, dtype=np.int32)
    n_visible, weights = graph.n_visible, rows.weight
    value, total_weight = 0.0, 0.0
    for row in range(begin, end):
        ones = rows.columns[rows.ptr[row] : rows.ptr[row + 1]]
        missing = rows.missing_columns[rows.missing_ptr[row] : rows.missing_ptr[row + 1]]
        weight = weights[row] if len(weights) > 0 else 1.0
        share = weight / samples
        total_weight += weight
        for line in range(row * samples, (row + 1) * samples):
            state = states[line]
            on = found[: list_on(state, found)]
            for i in ones:
                total = node_sum(graph, parameters, state, on, i)
                value += share * log_expm1(total)
                _add_to_edges(graph, state, on, i, share / -np.expm1(-total), gradient)
            # The totals at the end charge every visible as if it were off; an unobserved one gets
            # its charge back.
            for i in missing:
                value += share * node_sum(graph, parameters, state, on, i)
                _add_to_edges(graph, state, on, i, share, gradient)
            for k in on:
                # The -1 of equation T20, for all children of k at once, is taken off at the end.
                times_on[k] += share
                total = node_sum(graph, parameters, state, on, n_visible + k)
                value += share * log_expm1(total)
                slope = share / -np.expm1(-total)
                _add_to_edges(graph, state, on, n_visible + k, slope, gradient)
    leak_param, param, parent, total = graph.leak_param, graph.param, graph.parent, parameters.total
    for node in range(len(leak_param)):
        gradient[leak_param[node]] -= total_weight
    for edge in range(len(param)):  # padding goes to the spare entry
        gradient[param[edge]] -= times_on[parent[edge]]
    value -= total_weight * parameters.total_leak
    for k in range(graph.n_hidden):
        value -= times_on[k] * total[k]
    return value


@njit(cache=True, nogil=True, forceinline=True)
def _add_to_edges(graph, state, on, node, amount, gradient):
    """Add ``amount`` to the gradient of a node's leak and of its edges from parents that are on."""
    gradient[graph.leak_param[node]] += amount
    start, count, first = graph.ptr[node], graph.n_parents[node], graph.first[node]
    param, parent = graph.param, graph.parent
    if first >= 0:
        for k in on:
            if first <= k < first + count:
                gradient[param[start + k - first]] += amount
    else:
        for edge in range(start, start + count):
            if state[parent[edge]]:
                gradient[param[edge]] += amount


@njit(cache=True, nogil=True, forceinline=True)
def polish_row(graph, parameters, state, ones, hidden, work, max_sweeps):
    """Flip single hidden bits while log p(h, x) rises; ``state`` and ``work.sums`` are updated.

    Equation T19. Each flip raises log p by more than rounding, so the loop ends. Clamped nodes
    stay.
    """
    on = work.state  # by node: is it on?
    for node in range(len(on)):
        on[node] = 0
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


@njit(cache=True, nogil=True, forceinline=True)
def _flip_gain(graph, parameters, state, on, work, k):
    """What flipping hidden node k adds to log p(h, x): equation T19."""
    sign = -1.0 if state[k] else 1.0
    sums, out_child, out_edge = work.sums, graph.out_child, graph.out_edge
    theta, leak = parameters.theta, parameters.leak
    gain = sign * (log_expm1(sums[graph.n_visible + k]) - work.total[k])
    for position in range(graph.out_ptr[k], graph.out_ptr[k + 1]):
        child = out_child[position]
        if on[child]:
            before = sums[child]
            # Never below the leak, whatever the rounding: the logarithm needs a positive sum.
            after = max(before + sign * theta[out_edge[position]], leak[child])
            gain += log_expm1(after) - log_expm1(before)
    return gain


@njit(cache=True, nogil=True, forceinline=True)
def _flip(graph, parameters, state, on, work, k):
    """Flip hidden node k and bring the sums of its children up to date."""
    sign = -1.0 if state[k] else 1.0
    state[k] = 1 - state[k]
    on[graph.n_visible + k] = state[k]
    sums, out_child, out_edge = work.sums, graph.out_child, graph.out_edge
    theta, leak = parameters.theta, parameters.leak
    for position in range(graph.out_ptr[k], graph.out_ptr[k + 1]):
        child = out_child[position]
        # Never below the leak, whatever the rounding.
        sums[child] = max(sums[child] + sign * theta[out_edge[position]], leak[child])
