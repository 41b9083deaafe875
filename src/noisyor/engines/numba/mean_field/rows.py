"""Mean-field inference of whole rows: coordinate ascent on (q, r), the bound, its gradient.

Equations T27, T28, T33 and T34 of docs/theory.md. With the edge weights ``W_e = theta_e + r_e
phi_e``, f the function log(1 - exp(-b)), totals T as in `Tables` and hidden nodes that do not take
part at q = 0, the bound of a row is

    - total_leak + sum_k { Ent(q_k) - q_k T_k } + sum_i q_i { leak_i + f(leak_i) + sum_e q_k W_e }

where i runs over the visibles that are on and the hidden nodes that take part. An unobserved
visible contributes nothing. As a function of one q it is linear plus the entropy, so its maximiser
is the logistic function of the slope; nodes of one level do not meet in any term and are updated
together, with the same result as one after the other.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor.engines.contract import FREE
from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.float64x8 import (
    WIDTH,
    edge_terms,
    entropy,
    inner,
    load,
    logistic,
    pointers,
    reduce_sum,
    splat,
    store,
)
from noisyor.engines.numba.mean_field.factor import iterate, weigh
from noisyor.engines.numba.mean_field.jensen_solver import settle
from noisyor.engines.numba.mean_field.row_layout import (
    discount_missing,
    exchange,
    lay_out_hidden,
    lay_out_visible,
    set_importance,
    start,
    start_of_node,
)

Q_FLOOR = 1e-5
"""Smallest probability of a hidden node that is inferred."""

STILL, NEARLY_STILL = 1e-14, 1e-4
"""A sweep that moves no q by more than this ends the sweeps of a round: more would do nothing. If
rounds go on until the bound has converged, the next one makes up for the rest."""


class Sums(NamedTuple):
    """Partial sums by block of rows, or arrays (n_blocks, 0) if they are not wanted."""

    gradient: npt.NDArray[np.float64]
    mass: npt.NDArray[np.float64]


@njit(cache=True, nogil=True)
def infer_blocks(
    graph_arrays,
    table_arrays,
    row_arrays,
    work_arrays,
    memory_arrays,
    options,
    output,
    sums,
    bounds,
    parts,
):
    """Fill ``output`` for the rows of blocks ``parts[0]`` to ``parts[1]``.

    Block b holds the rows ``bounds[b]`` to ``bounds[b + 1]``. Unless they are empty,
    ``sums.gradient`` (n_blocks, n_params + 1) gains what the nodes that may be on add and
    ``sums.mass`` (n_blocks, n_hidden + 1) the sum of q over rows, both by the rows' weights;
    `finish_gradient` adds what all nodes share.
    """
    graph, tables, work = pointers(graph_arrays), pointers(table_arrays), pointers(work_arrays)
    memory = pointers(memory_arrays)
    n_clamps, n_hidden, weights = row_arrays.clamp.shape[0], graph.n_hidden, row_arrays.weight
    for k in range(n_hidden):
        work.hidden.clamp[k] = FREE
    known = False  # whether the hidden nodes are laid out, the same for all rows
    for number in range(parts[0], parts[1]):
        for row in range(bounds[number], bounds[number + 1]):
            ones = row_arrays.columns[row_arrays.ptr[row] : row_arrays.ptr[row + 1]]
            missing = row_arrays.missing_columns[
                row_arrays.missing_ptr[row] : row_arrays.missing_ptr[row + 1]
            ]
            if n_clamps > 0:
                for k in range(n_hidden):
                    work.hidden.clamp[k] = row_arrays.clamp[min(row, n_clamps - 1), k]
            if not known:
                of_hidden = lay_out_hidden(
                    graph, tables, work, pointers(ones), len(ones), options.local
                )
                known = not options.local and n_clamps <= 1
            size = lay_out_visible(graph, tables, work, pointers(ones), len(ones), of_hidden)
            start(graph, tables, work, size)
            constant = -tables.total_leak
            constant += discount_missing(
                graph, tables, work.hidden, pointers(missing), len(missing)
            )
            for i in ones:
                constant += tables.log_odds[i]
            if memory.filled:
                exchange(graph, memory, work, size, row, False)
            output.rounds[row], output.elbo[row], output.gain[row] = _ascend(
                graph, work, size, options, constant
            )
            if memory.kept:
                exchange(graph, memory, work, size, row, True)
            if sums.gradient.shape[1] > 0:
                _add_gradient(
                    graph,
                    tables,
                    work,
                    size,
                    missing,
                    weights[row] if len(weights) > 0 else 1.0,
                    sums.gradient[number],
                    sums.mass[number],
                )
            if output.q.shape[0] > 0:
                for k in range(n_hidden):
                    output.q[row, k] = 0.0
                for j in range(size.hidden):
                    output.q[row, work.hidden.node[j]] = work.hidden.q[j]


# ---- coordinate ascent


@inner()
def _ascend(graph, work, size, options, constant):
    """Sweeps over q and steps on r in turn from the present (q, r).

    Returns the number of rounds, the bound, and what the last round added to it.
    """
    edges, groups, scratch, q = work.edges, work.groups, work.scratch, work.hidden.q
    weigh(edges, groups, 0, size.groups)
    _collect(work, size)
    watch = options.tolerance >= 0.0
    still = NEARLY_STILL if watch else STILL
    value, gain = -np.inf, np.inf
    for number in range(options.outer):
        last = number == options.outer - 1
        if last and not watch:  # so that the gain of the last round is known; bounds cost time
            value = constant + _bound(graph, work, size)
        for _ in range(options.inner):
            change = _sweep(graph, work, size)
            if size.hidden_children == 0 or change <= still:
                break  # hidden nodes that are not connected need one sweep
        if options.r_tolerance < 0.0:
            iterate(edges, groups, size.groups, q, scratch, options.r_iterations)
        else:
            set_importance(work, size)
            middle = size.hidden_groups  # children change places within their kind only
            _settle(work, 0, middle, options)
            _settle(work, middle, size.groups, options)
        _collect(work, size)
        if watch or last:
            new = constant + _bound(graph, work, size)
            gain, value = new - value, new
            if watch and gain < options.tolerance:
                return number + 1, value, gain
    if options.outer == 0:
        value = constant + _bound(graph, work, size)
    return options.outer, value, gain


@inner()
def _settle(work, first, last, options):
    settle(
        work.edges,
        work.groups,
        work.children,
        first,
        last,
        work.hidden.q,
        work.scratch,
        options.r_iterations,
        options.r_tolerance,
        options.newton,
    )


@inner()
def _collect(work, size):
    """``base``: the log-odds of each hidden node apart from its hidden neighbours."""
    hidden, link, weight = work.hidden, work.edges.link, work.edges.weight
    for j in range(size.hidden):
        hidden.base[j] = hidden.fixed[j]
    # Visibles that are on have q = 1, so their edge weights do not change between sweeps: they are
    # added up once per round.
    for edge in range(size.hidden_slots, size.slots):  # slots without edge add to a spare entry
        hidden.base[link[edge]] += weight[edge]


@inner()
def _parent_sum(graph, work, j):
    """Log-odds that the parents of a hidden node give it: the first sum of equation T28."""
    c, value = work.hidden.child[j], 0.0
    if c >= 0:
        edge, stride = work.children.start[c], work.children.stride[c]
        for _ in range(graph.n_parents[work.children.node[c]]):
            value += work.hidden.q[work.edges.link[edge]] * work.edges.weight[edge]
            edge += stride
    return value


@inner()
def _sweep(graph, work, size):
    """Update every q once, children before parents, equation T28; return the largest change."""
    hidden, children = work.hidden, work.children
    link, weight = work.edges.link, work.edges.weight
    for j in range(size.hidden):
        hidden.below[j] = 0.0
    change, begin = 0.0, 0
    for number in range(size.runs):
        end = hidden.run[number]
        for j in range(begin, end):
            hidden.odds[j] = hidden.base[j] + hidden.below[j] + _parent_sum(graph, work, j)
        for j in range(begin, end, WIDTH):
            # May run past the end of the level into the next one, whose odds are not computed yet.
            store(hidden.odds, j, logistic(load(hidden.odds, j)))
        for j in range(begin, end):
            if hidden.free[j]:
                # At q = 0 the weights r of its edges would fall to their floor, and the node could
                # hardly come back.
                new = max(hidden.odds[j], Q_FLOOR)
                change = max(change, abs(new - hidden.q[j]))
                hidden.q[j] = new
            # Hand the new q up to the parents at once: they are in later levels, and edges are
            # stored with the child.
            c, q = hidden.child[j], hidden.q[j]
            if c >= 0:
                edge, stride = children.start[c], children.stride[c]
                for _ in range(graph.n_parents[children.node[c]]):
                    hidden.below[link[edge]] += q * weight[edge]
                    edge += stride
        begin = end
    return change


@inner()
def _bound(graph, work, size):
    """The bound of the row, apart from a constant, from ``base`` and the edge weights.

    Equation T27: ``base`` already holds -T_k, the prior and the edges into active visibles.
    """
    q, base, value, terms = work.hidden.q, work.hidden.base, 0.0, splat(0.0)
    for j in range(size.hidden):
        value += q[j] * (base[j] + _parent_sum(graph, work, j))
    for j in range(0, size.hidden, WIDTH):
        terms = terms + entropy(load(q, j))  # spare entries are 0
    return value + reduce_sum(terms)


# ---- gradient


@inner()
def _add_gradient(graph, tables, work, size, missing, weight, gradient, mass):
    """Add what the nodes of a row that may be on contribute to the gradient, ``weight`` times.

    With u = leak + theta / r the derivative is ``q_k (q_i / (1 - exp(-u)) - 1)`` for an edge and
    ``q_i {1 + f'(leak) + sum_k q_k r_k (f'(u_k) - f'(leak))} - 1`` for a leak. The ``-1`` are left
    to `finish_gradient`, which knows nothing of unobserved visibles: theirs are undone here.
    """
    edges, groups, children, hidden = work.edges, work.groups, work.children, work.hidden
    q, derivatives, n_visible = hidden.q, edges.weight, graph.n_visible
    for number in range(size.groups):
        slope = load(groups.slope, WIDTH * number)
        for edge in range(groups.begin[number], groups.begin[number + 1], WIDTH):
            _, derivative = edge_terms(load(edges.theta, edge) / load(edges.r, edge), slope)
            store(derivatives, edge, derivative)  # in place of the weights
    for c in range(size.children):
        node, edge, stride = children.node[c], children.start[c], children.stride[c]
        # Visibles in this list are on.
        q_child = q[hidden.place[node - n_visible]] if node >= n_visible else 1.0
        slope_of_leak = tables.slope[node]
        total, first = 1.0 + slope_of_leak, graph.ptr[node]
        for entry in range(first, first + graph.n_parents[node]):
            q_parent, derivative = q[edges.link[edge]], derivatives[edge]
            total += q_parent * edges.r[edge] * (derivative - slope_of_leak)
            gradient[graph.param[entry]] += weight * (q_child * q_parent * (1.0 + derivative))
            edge += stride
        gradient[graph.leak_param[node]] += weight * (q_child * total)
    for j in range(size.hidden):
        mass[hidden.node[j]] += weight * q[j]
        node = n_visible + hidden.node[j]
        if graph.n_parents[node] == 0:
            gradient[graph.leak_param[node]] += weight * (q[j] * (1.0 + tables.slope[node]))
    for i in missing:
        gradient[graph.leak_param[i]] += weight
        for entry in range(graph.ptr[i], graph.ptr[i] + graph.n_parents[i]):
            j = hidden.place[graph.parent[entry]]
            if j >= 0:
                gradient[graph.param[entry]] += weight * q[j]


@njit(cache=True, nogil=True)
def finish_gradient(leak_param, param, parent, gradient, mass, total_weight):
    """Add what every node, on or off, contributes: -1 per row and leak, -q_k per edge."""
    for node in range(len(leak_param)):
        gradient[leak_param[node]] -= total_weight
    for edge in range(len(param)):  # padding goes to the spare entry
        gradient[param[edge]] -= mass[parent[edge]]


# ---- before inference


@njit(cache=True, nogil=True)
def starting_weights(ptr, n_parents, theta, work_arrays, result):
    """Fill ``result`` (edges of the graph,) with the Jensen weights that inference begins with."""
    work = pointers(work_arrays)
    for node in range(len(n_parents)):
        if n_parents[node] > 0:
            start_of_node(theta, ptr[node], np.int64(n_parents[node]), result, work)


@njit(cache=True, nogil=True)
def memory_sizes(graph_arrays, table_arrays, row_arrays, work_arrays, local, sizes):
    """``sizes[row]``: how many numbers the (q, r) of each row take."""
    graph, tables, work = pointers(graph_arrays), pointers(table_arrays), pointers(work_arrays)
    n_clamps = row_arrays.clamp.shape[0]
    for row in range(len(sizes)):
        ones = row_arrays.columns[row_arrays.ptr[row] : row_arrays.ptr[row + 1]]
        for k in range(graph.n_hidden):  # a node that is known to be on brings its ancestors
            work.hidden.clamp[k] = row_arrays.clamp[min(row, n_clamps - 1), k] if n_clamps else FREE
        of_hidden = lay_out_hidden(graph, tables, work, pointers(ones), len(ones), local)
        size = lay_out_visible(graph, tables, work, pointers(ones), len(ones), of_hidden)
        sizes[row] = size.hidden + size.edges
