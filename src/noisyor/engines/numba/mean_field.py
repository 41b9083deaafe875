"""Mean-field inference of whole rows: coordinate ascent on (q, r), the bound, its gradient.

Equations T27, T28, T33 and T34 of docs/theory.md. With the edge weights ``W_e = theta_e + r_e
phi_e``, f the function log(1 - exp(-b)), totals T as in `Tables` and hidden nodes that do not take
part at q = 0, the bound of a row is

    - total_leak + sum_k { Ent(q_k) - q_k T_k } + sum_i q_i { leak_i + f(leak_i) + sum_e q_k W_e }

where i runs over the visibles that are on and the hidden nodes that take part. An unobserved
visible contributes nothing. As a function of one q it is linear plus the entropy, so its maximizer
is the logistic function of the slope; no term contains two nodes of one level, so these are updated
together, with the same result as one after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import int64

from noisyor._util.arrays import FloatArray, IntArray, LongArray
from noisyor.engines.contract import Evidence, GradientSum, MeanFieldOptions, MeanFieldResult
from noisyor.engines.numba.arguments import Packed, advance, borrowed, launch, pack, unpack
from noisyor.engines.numba.cache import inner, njit, small_code
from noisyor.engines.numba.graph import Graph, Rows, read_clamps, rows_of
from noisyor.engines.numba.jensen import iterate, solve, weigh
from noisyor.engines.numba.mean_field_rows import (
    Tables,
    Work,
    allocate,
    discount_missing,
    lay_out_hidden,
    lay_out_visible,
    set_importance,
    start,
    start_of_node,
)
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
from noisyor.engines.reduction import MEAN_FIELD_PARTS, TreeSum, mean_field_parts, tree_sum
from noisyor.engines.threads import ROWS_OF_PIECE, run_blocks
from noisyor.model.network import Network

Q_FLOOR = 1e-5
"""Smallest probability of a hidden node that is inferred."""

_MAX_STILL_CHANGE, _MAX_NEARLY_STILL_CHANGE = 1e-14, 1e-4
"""Largest change of any q in a sweep that ends the sweeps of a round. The second number is for
rounds that continue until the bound has converged; the next round corrects the rest."""

_MAX_PARTS_FOR_TWO = 8
"""Number of parts of a block up to which each thread takes two parts; with more, it takes four."""

_MIN_LEAK, _MIN_SLOPE = 1e-300, 1e-100
"""Smallest leak, whose logarithm is finite, and smallest slope, whose products are not denormal."""


class Sums(NamedTuple):
    """Partial sums by block of rows, if wanted, of entries of the given widths."""

    gradient: npt.NDArray[np.float64]
    mass: npt.NDArray[np.float64]
    wanted: bool
    n_gradient: int
    n_mass: int


class Call(NamedTuple):
    """Arguments and results of a call. Block b holds rows ``bounds[b]`` to ``bounds[b + 1]``."""

    rows: Rows
    options: MeanFieldOptions
    output: MeanFieldResult
    with_q: bool
    sums: Sums
    bounds: npt.NDArray[np.int64]


@njit("mean field")
def iterate_blocks(graph_address, tables_address, call_address, work_address, first, last):
    """Infer the rows of blocks ``first`` to ``last`` with a fixed number of steps on r."""
    _infer_by_steps(graph_address, tables_address, call_address, work_address, first, last)


@njit("mean field to a tolerance")
def solve_blocks(graph_address, tables_address, call_address, work_address, first, last):
    """Infer the rows of blocks ``first`` to ``last`` with r solved for to a tolerance."""
    _infer_by_solving(graph_address, tables_address, call_address, work_address, first, last)


@inner()
def _lay_out_first(graph, tables, work, call):
    """Lay out the hidden nodes, for the case that they are the same for all rows."""
    small_code()
    read_clamps(graph.n_hidden, call.rows, int64(0), work.hidden.clamp)
    return lay_out_hidden(graph, tables, work, call.rows.columns, int64(0), call.options.local)


@inner()
def _enter_row(graph, tables, work, call, row, of_hidden):
    """Lay a row out and fill (q, r) to start from; return its sizes and the constant of its bound.

    ``of_hidden`` are the sizes of the hidden nodes if these are the same for all rows.
    """
    small_code()
    rows, options = call.rows, call.options
    ones, n_ones = _part_of(rows.ptr, rows.columns, row)
    missing, n_missing = _part_of(rows.missing_ptr, rows.missing_columns, row)
    if options.local or rows.n_clamps > 1:
        read_clamps(graph.n_hidden, rows, row, work.hidden.clamp)
        of_hidden = lay_out_hidden(graph, tables, work, ones, n_ones, options.local)
    size = lay_out_visible(graph, tables, work, ones, n_ones, of_hidden)
    start(graph, tables, work, size)
    constant = -tables.total_leak
    constant += discount_missing(graph, tables, work.hidden, missing, n_missing)
    for index in range(n_ones):
        constant += tables.log_odds[ones[index]]
    return size, constant


@inner()
def _leave_row(graph, tables, work, call, row, index, size):
    """Store the requested results of a row of block ``index``: its gradient and its q.

    The terms of nodes that may be on are added to ``sums.gradient`` (n_blocks, n_params + 1), and q
    to ``sums.mass`` (n_blocks, n_hidden + 1), both times the weight of the row. Terms of all nodes
    are added at the end of a batch.
    """
    small_code()
    rows, sums, n_hidden = call.rows, call.sums, graph.n_hidden
    if sums.wanted:
        missing, n_missing = _part_of(rows.missing_ptr, rows.missing_columns, row)
        _add_gradient(
            graph,
            tables,
            work,
            size,
            missing,
            n_missing,
            rows.weight[row] if rows.weighted else 1.0,
            advance(sums.gradient, index * sums.n_gradient),
            advance(sums.mass, index * sums.n_mass),
        )
    if call.with_q:
        q = advance(call.output.q, row * n_hidden)
        for k in range(n_hidden):
            q[k] = 0.0
        for j in range(size.hidden):
            q[work.hidden.node[j]] = work.hidden.q[j]


@inner()
def _part_of(ptr, columns, row):
    """Return the entries of a row: a pointer to the first, and their number."""
    return advance(columns, ptr[row]), ptr[row + 1] - ptr[row]


# ---- coordinate ascent


@inner()
def _iterate_weights(work, size, options):
    """Take a fixed number of steps on the Jensen weights of all children."""
    edges, groups, n_groups, q = work.edges, work.groups, size.groups, work.hidden.q
    iterate(edges, groups, n_groups, q, work.scratch, options.r_iterations)


@inner()
def _solve_weights(work, size, options):
    """Solve for the Jensen weights; children change lanes within their kind only."""
    set_importance(work, size)
    first, last = int64(0), size.hidden_groups
    for _ in range(2):  # hidden children, then visibles
        solve(
            work.edges,
            work.groups,
            work.children,
            first,
            last,
            work.hidden.q,
            work.scratch,
            options.r_iterations,
            options.r_tolerance,
        )
        first, last = last, size.groups


def _infer_with(update_weights):
    """Return inference of blocks with one of two solvers for r, so that only it is compiled."""

    @inner()
    def ascend(graph, work, size, options, constant):
        """Alternate sweeps over q and steps on r, from the present (q, r) on.

        Returns the number of rounds, the bound, and the gain of the last round.
        """
        weigh(work.edges, work.groups, int64(0), size.groups)
        _collect(work, size)
        watch = options.tolerance >= 0.0
        still = _MAX_NEARLY_STILL_CHANGE if watch else _MAX_STILL_CHANGE
        value, gain = -np.inf, np.inf
        for index in range(options.outer):
            last = index == options.outer - 1
            if last and not watch:  # so that the gain of the last round is known; bounds cost time
                value = constant + _bound(graph, work, size)
            for _ in range(options.inner):
                change = _sweep(graph, work, size)
                if size.hidden_children == 0 or change <= still:
                    break  # hidden nodes that are not connected need one sweep
            update_weights(work, size, options)
            _collect(work, size)
            if watch or last:
                new = constant + _bound(graph, work, size)
                gain, value = new - value, new
                if watch and gain < options.tolerance:
                    return index + 1, value, gain
        if options.outer == 0:
            value = constant + _bound(graph, work, size)
        return options.outer, value, gain

    @inner()
    def infer_blocks(graph_address, tables_address, call_address, work_address, first, last):
        graph, tables = unpack(graph_address, Graph), unpack(tables_address, Tables)
        call, work = unpack(call_address, Call), unpack(work_address, Work)
        of_hidden = _lay_out_first(graph, tables, work, call)
        for index in range(first, last):
            for row in range(call.bounds[index], call.bounds[index + 1]):
                size, constant = _enter_row(graph, tables, work, call, row, of_hidden)
                rounds, value, gain = ascend(graph, work, size, call.options, constant)
                call.output.rounds[row] = rounds
                call.output.elbo[row] = value
                call.output.gain[row] = gain
                _leave_row(graph, tables, work, call, row, index, size)

    return infer_blocks


_infer_by_steps = _infer_with(_iterate_weights)
_infer_by_solving = _infer_with(_solve_weights)


@inner()
def _collect(work, size):
    """Compute ``base``: the log-odds of each hidden node apart from its hidden neighbors."""
    hidden, link, weight = work.hidden, work.edges.link, work.edges.weight
    for j in range(size.hidden):
        hidden.base[j] = hidden.fixed[j]
    # Visibles that are on have q = 1, so their edge weights do not change between sweeps: they are
    # added up once per round.
    for edge in range(size.hidden_slots, size.slots):  # slots without edge add to a spare entry
        hidden.base[link[edge]] += weight[edge]


@inner()
def _parent_sum(graph, work, j):
    """Return the log-odds that a hidden node has from its parents: first sum of equation T28."""
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
    for index in range(size.runs):
        end = hidden.run[index]
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
    """Return the bound of the row, apart from a constant, from ``base`` and the edge weights.

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
    """Add the gradient terms of the nodes of a row that may be on, times ``weight``.

    With u = leak + theta / r the derivative is ``q_k (q_i / (1 - exp(-u)) - 1)`` for an edge and
    ``q_i {1 + f'(leak) + sum_k q_k r_k (f'(u_k) - f'(leak))} - 1`` for a leak. `_finish_gradient`
    adds the ``-1`` for all nodes, so they are undone here for unobserved visibles.
    """
    edges, groups, children, hidden = work.edges, work.groups, work.children, work.hidden
    q, derivatives, n_visible = hidden.q, edges.weight, graph.n_visible
    for group in range(size.groups):
        slope = load(groups.slope, LANES * group)
        for edge in range(groups.begin[group], groups.begin[group + 1], LANES):
            _, derivative = edge_terms(load(edges.theta, edge) / load(edges.r, edge), slope)
            store(derivatives, edge, derivative)  # in place of the weights
    for c in range(size.children):
        node, edge, stride = children.node[c], children.start[c], children.stride[c]
        # Visibles in this list are on.
        q_child = q[hidden.local[node - n_visible]] if node >= n_visible else 1.0
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
            j = hidden.local[graph.parent[entry]]
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
            n_parents = int64(graph.n_parents[node])
            start_of_node(given.theta, graph.ptr[node], n_parents, given.weight, work)


# ---- a batch: prepare, share rows out over threads, add up


class Prepared:
    """A network in the layout of the mean-field kernels."""

    def __init__(self, network: Network, graph: Packed[Graph]) -> None:
        self.network = network
        self.graph = graph
        self.idle: deque[Packed[Work]] = network.engine_cache.setdefault("mean field work", deque())
        theta = np.append(network.theta, 0.0)
        leak, edge_theta = theta[graph.values.leak_param], theta[graph.values.param]
        lifted = np.maximum(leak, _MIN_LEAK)
        total = np.bincount(graph.values.parent, edge_theta, network.n_hidden + 1)
        first = pack(Start(edge_theta, np.empty(len(edge_theta))))
        with self.memory(0, 1) as work:
            starting_weights(graph.address, first.address, work.address)
        order = _sweep_order(network)
        self.tables = pack(
            Tables(
                theta=edge_theta,
                start=first.values.weight,
                leak=leak,
                slope=np.maximum(np.exp(-lifted) / -np.expm1(-lifted), _MIN_SLOPE),
                log_odds=lifted + np.log(-np.expm1(-lifted)),
                total=np.array(total[:-1], dtype=np.float64),
                total_leak=float(leak.sum()),
                order=order,
                level=np.ascontiguousarray(network.hidden_levels[order], dtype=np.int32),
            )
        )

    def memory(self, n_edges: int, n_ones: int) -> AbstractContextManager[Packed[Work]]:
        """Return memory for a row with ``n_ones`` ones and ``n_edges`` edges into them.

        It is shared by all networks of the graph, and never by two threads at once.
        """

        def fits(work: Packed[Work]) -> bool:
            return work.values.n_edges >= n_edges and work.values.n_ones >= n_ones

        return borrowed(self.idle, fits, lambda: pack(allocate(self.graph.values, n_edges, n_ones)))

    def needed(self, evidence: Evidence) -> tuple[int, int]:
        """Return the most edges into active visibles, and the most active visibles, of any row."""
        ptr = evidence.ptr
        per_one = self.graph.values.n_parents[evidence.columns[ptr[0] : ptr[-1]]]
        before = np.concatenate([[0], np.cumsum(per_one)])
        return int(np.diff(before[ptr - ptr[0]]).max()), int(np.diff(ptr).max())


def _sweep_order(network: Network) -> IntArray:
    """List hidden nodes from the visibles upwards, by index within a level; built once."""
    order: IntArray | None = network.engine_cache.get("mean field order")
    if order is None:
        levels = network.hidden_levels
        order = np.lexsort((np.arange(network.n_hidden), -levels)).astype(np.int32)
        network.engine_cache["mean field order"] = order
    return order


def infer(
    prepared: Prepared, evidence: Evidence, options: MeanFieldOptions, with_q: bool, n_threads: int
) -> MeanFieldResult:
    """See `noisyor.engines.contract.Engine.mean_field`."""
    n_rows = evidence.n_rows
    result = MeanFieldResult.empty(n_rows, prepared.network.n_hidden, with_q)
    bounds = mean_field_parts(n_rows)
    nothing = Sums(np.empty(0), np.empty(0), False, 0, 0)
    _run(prepared, evidence, options, result, nothing, bounds, n_threads)
    return result


def gradient(
    prepared: Prepared, evidence: Evidence, options: MeanFieldOptions, n_threads: int
) -> GradientSum:
    """See `noisyor.engines.contract.Engine.mean_field_gradient`."""
    graph, n_rows = prepared.graph.values, evidence.n_rows
    result, total = MeanFieldResult.empty(n_rows, graph.n_hidden, False), TreeSum()
    bounds = mean_field_parts(n_rows)
    for first, last in _blocks(bounds):
        parts = bounds[first : last + 1]
        n_params, n_hidden = prepared.network.n_params, graph.n_hidden
        sums = Sums(
            np.zeros((last - first, n_params + 1)),
            np.zeros((last - first, n_hidden + 1)),
            True,
            n_params + 1,
            n_hidden + 1,
        )
        _run(prepared, evidence, options, result, sums, parts, n_threads)
        rows = slice(parts[0], parts[-1])  # those behind them have no bound yet
        weighted = result.elbo[rows]
        if len(evidence.weight):
            weighted = weighted * evidence.weight[rows]
        values = np.add.reduceat(weighted, parts[:-1] - parts[0])
        of_parts = zip(values, sums.gradient, sums.mass, strict=True)
        value, gradient, mass = tree_sum(
            [[np.array([value]), part, mass] for value, part, mass in of_parts]
        )
        weight = evidence.weight[rows].sum() if len(evidence.weight) else parts[-1] - parts[0]
        _finish_gradient(graph, gradient, mass, float(weight))
        total.add([value, gradient])
    value, gradient = total.result()
    return GradientSum(float(value[0]), gradient[:-1], evidence.total_weight)


def _finish_gradient(
    graph: Graph, gradient: FloatArray, mass: FloatArray, total_weight: float
) -> None:
    """Add the terms of every node, on or off: -1 per row and leak, -q_k per edge."""
    np.subtract.at(gradient, graph.leak_param, total_weight)
    np.subtract.at(gradient, graph.param, mass[graph.parent])  # padding goes to the spare entry


def _blocks(bounds: LongArray) -> Iterator[tuple[int, int]]:
    """Yield runs of parts that make up a block of rows, so that few partial sums are held."""
    for first in range(0, len(bounds) - 1, MEAN_FIELD_PARTS):
        yield first, min(first + MEAN_FIELD_PARTS, len(bounds) - 1)


def _run(
    prepared: Prepared,
    evidence: Evidence,
    options: MeanFieldOptions,
    result: MeanFieldResult,
    sums: Sums,
    bounds: LongArray,
    n_threads: int,
) -> None:
    """Infer the rows of all parts between ``bounds``."""
    n_parts, needed = len(bounds) - 1, prepared.needed(evidence)
    kernel = iterate_blocks if options.r_tolerance < 0.0 else solve_blocks
    with_q = len(result.q) > 0
    call = pack(Call(rows_of(evidence), options, result, with_q, sums, bounds))

    def parts(begin: int, end: int) -> None:
        with prepared.memory(*needed) as work:
            launch(kernel, (prepared.graph, prepared.tables, call, work), begin, end)

    rows_of_part = -(-int(bounds[-1] - bounds[0]) // n_parts)
    run_blocks(
        parts,
        n_parts,
        n_threads,
        blocks_per_thread=4 if n_parts > _MAX_PARTS_FOR_TWO else 2,
        first_piece=max(1, ROWS_OF_PIECE // rows_of_part),
    )
