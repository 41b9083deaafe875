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

from noisyor.engines.contract import FREE, MeanFieldOptions, MeanFieldResult
from noisyor.engines.numba.arguments import advance, unpack
from noisyor.engines.numba.cache import inner, njit
from noisyor.engines.numba.graph import Graph, Rows
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
from noisyor.engines.numba.mean_field.workspace import Memory, Tables, Work
from noisyor.engines.numba.simd import (
    LANES,
    edge_terms,
    entropy,
    load,
    logistic,
    reduce_sum,
    splat,
    store,
)

Q_FLOOR = 1e-5
"""Smallest probability of a hidden node that is inferred."""

STILL, NEARLY_STILL = 1e-14, 1e-4
"""A sweep that moves no q by more than this ends the sweeps of a round: more would do nothing. If
rounds go on until the bound has converged, the next one makes up for the rest."""


class Sums(NamedTuple):
    """Partial sums by block of rows, if wanted, of entries of the given widths."""

    gradient: npt.NDArray[np.float64]
    mass: npt.NDArray[np.float64]
    wanted: bool
    n_gradient: int
    n_mass: int


class Call(NamedTuple):
    """What all threads share. Block b holds the rows ``bounds[b]`` to ``bounds[b + 1]``."""

    rows: Rows
    options: MeanFieldOptions
    memory: Memory
    output: MeanFieldResult
    with_q: bool
    sums: Sums
    bounds: npt.NDArray[np.int64]


@njit()
def infer_blocks(graph_address, tables_address, call_address, work_address, first, last):
    """Fill ``output`` for the rows of blocks ``first`` to ``last``.

    If wanted, ``sums.gradient`` (n_blocks, n_params + 1) gains what the nodes that may be on add
    and ``sums.mass`` (n_blocks, n_hidden + 1) the sum of q over rows, both by the rows' weights;
    `finish_gradient` adds what all nodes share.
    """
    graph, tables = unpack(graph_address, Graph), unpack(tables_address, Tables)
    call, work = unpack(call_address, Call), unpack(work_address, Work)
    rows, memory, output, sums = call.rows, call.memory, call.output, call.sums
    n_hidden, options = graph.n_hidden, call.options
    for k in range(n_hidden):
        work.hidden.clamp[k] = FREE
    known = False  # whether the hidden nodes are laid out, the same for all rows
    for number in range(first, last):
        for row in range(call.bounds[number], call.bounds[number + 1]):
            ones, n_ones = _part_of(rows.ptr, rows.columns, row)
            missing, n_missing = _part_of(rows.missing_ptr, rows.missing_columns, row)
            if rows.n_clamps > 0:
                _read_clamps(graph, rows, row, work)
            if not known:
                of_hidden = lay_out_hidden(graph, tables, work, ones, n_ones, options.local)
                known = not options.local and rows.n_clamps <= 1
            size = lay_out_visible(graph, tables, work, ones, n_ones, of_hidden)
            start(graph, tables, work, size)
            constant = -tables.total_leak
            constant += discount_missing(graph, tables, work.hidden, missing, n_missing)
            for index in range(n_ones):
                constant += tables.log_odds[ones[index]]
            if memory.filled:
                exchange(graph, memory, work, size, row, False)
            output.rounds[row], output.elbo[row], output.gain[row] = _ascend(
                graph, work, size, options, constant
            )
            if memory.kept:
                exchange(graph, memory, work, size, row, True)
            if sums.wanted:
                _add_gradient(
                    graph,
                    tables,
                    work,
                    size,
                    missing,
                    n_missing,
                    rows.weight[row] if rows.weighted else 1.0,
                    advance(sums.gradient, number * sums.n_gradient),
                    advance(sums.mass, number * sums.n_mass),
                )
            if call.with_q:
                q = advance(output.q, row * n_hidden)
                for k in range(n_hidden):
                    q[k] = 0.0
                for j in range(size.hidden):
                    q[work.hidden.node[j]] = work.hidden.q[j]


@inner()
def _part_of(ptr, columns, row):
    """The entries of a row: pointer and number."""
    return advance(columns, ptr[row]), ptr[row + 1] - ptr[row]


@inner()
def _read_clamps(graph, rows, row, work):
    """Take over the evidence on the hidden nodes of a row; one line may hold for all rows."""
    clamps = row * graph.n_hidden if rows.n_clamps > 1 else 0
    for k in range(graph.n_hidden):
        work.hidden.clamp[k] = rows.clamp[clamps + k] if rows.n_clamps > 0 else FREE


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
        for j in range(begin, end, LANES):
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
    for j in range(0, size.hidden, LANES):
        terms = terms + entropy(load(q, j))  # spare entries are 0
    return value + reduce_sum(terms)


# ---- gradient


@inner()
def _add_gradient(graph, tables, work, size, missing, n_missing, weight, gradient, mass):
    """Add what the nodes of a row that may be on contribute to the gradient, ``weight`` times.

    With u = leak + theta / r the derivative is ``q_k (q_i / (1 - exp(-u)) - 1)`` for an edge and
    ``q_i {1 + f'(leak) + sum_k q_k r_k (f'(u_k) - f'(leak))} - 1`` for a leak. The ``-1`` are left
    to `finish_gradient`, which knows nothing of unobserved visibles: theirs are undone here.
    """
    edges, groups, children, hidden = work.edges, work.groups, work.children, work.hidden
    q, derivatives, n_visible = hidden.q, edges.weight, graph.n_visible
    for number in range(size.groups):
        slope = load(groups.slope, LANES * number)
        for edge in range(groups.begin[number], groups.begin[number + 1], LANES):
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
    for index in range(n_missing):
        i = missing[index]
        gradient[graph.leak_param[i]] += weight
        for entry in range(graph.ptr[i], graph.ptr[i] + graph.n_parents[i]):
            j = hidden.place[graph.parent[entry]]
            if j >= 0:
                gradient[graph.param[entry]] += weight * q[j]


# ---- before inference


class Start(NamedTuple):
    """Parameters by edge of the graph, and the Jensen weights that inference begins with."""

    theta: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]


@njit()
def starting_weights(graph_address, start_address, work_address):
    """Fill the Jensen weights that inference begins with."""
    graph, work = unpack(graph_address, Graph), unpack(work_address, Work)
    given = unpack(start_address, Start)
    for node in range(graph.n_visible + graph.n_hidden):
        if graph.n_parents[node] > 0:
            n_parents = np.int64(graph.n_parents[node])
            start_of_node(given.theta, graph.ptr[node], n_parents, given.weight, work)


class Sizes(NamedTuple):
    """``size`` (n_rows,): how many numbers the (q, r) of each row take."""

    rows: Rows
    local: bool
    size: npt.NDArray[np.int64]


@njit()
def memory_sizes(graph_address, tables_address, sizes_address, work_address):
    """Fill how many numbers the (q, r) of each row take."""
    graph, tables = unpack(graph_address, Graph), unpack(tables_address, Tables)
    sizes, work = unpack(sizes_address, Sizes), unpack(work_address, Work)
    rows = sizes.rows
    for row in range(rows.n_rows):
        ones, n_ones = _part_of(rows.ptr, rows.columns, row)
        _read_clamps(graph, rows, row, work)  # a node that is known to be on brings its ancestors
        of_hidden = lay_out_hidden(graph, tables, work, ones, n_ones, sizes.local)
        size = lay_out_visible(graph, tables, work, ones, n_ones, of_hidden)
        sizes.size[row] = size.hidden + size.edges
