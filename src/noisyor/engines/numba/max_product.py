"""Max-product inference of whole rows: which nodes take part, the loop, decoding.

Children that are off send the constant -theta to their parents. It is part of each parent's total,
so only the edges into active visibles and between hidden nodes are ever visited.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import float32, njit, uint64

from noisyor.engines.numba.arithmetic import combine, logistic_noise
from noisyor.engines.numba.graph import NEVER, Graph, Parameters
from noisyor.engines.numba.joint import (
    hidden_totals,
    list_on,
    node_sums,
    polish_row,
    row_log_joint,
)
from noisyor.engines.numba.messages import start_child, update_free_child, update_on_child
from noisyor.engines.numba.vector import LANES

UNOBSERVED = 2
"""Evidence on a hidden node: 0 and 1 clamp it, this leaves it free."""


class Rows(NamedTuple):
    """Evidence of a batch. Row r has its ones in ``columns[ptr[r]:ptr[r + 1]]``.

    ``missing_ptr`` and ``missing_columns`` hold unobserved visibles the same way. ``row_ids``
    (n_rows,) key the noise. ``clamp`` (n_rows, n_hidden) uint8 of 0, 1 or ``UNOBSERVED``, or
    shape (1, n_hidden) for all rows alike, or (0, n_hidden) for none.
    """

    ptr: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int32]
    missing_ptr: npt.NDArray[np.int64]
    missing_columns: npt.NDArray[np.int32]
    row_ids: npt.NDArray[np.int64]
    clamp: npt.NDArray[np.uint8]


class Options(NamedTuple):
    """How to run the loop; see `noisyor.MaxProduct` for the meaning."""

    temperature: float
    max_iterations: int
    step: float
    tolerance: float
    seed: int
    train_step: int
    n_samples: int
    ancestors_only: bool
    maximise_missing: bool
    polish_sweeps: int


class Output(NamedTuple):
    """Results, one line per (row, sample): row r, sample s is line ``r * n_samples + s``.

    ``states`` (lines, n_hidden) uint8; ``beliefs`` (lines, n_hidden) float32, or (0, n_hidden) if
    not wanted; ``iterations`` int32, ``residual`` float32, ``log_joint`` float64, all (lines,).
    """

    states: npt.NDArray[np.uint8]
    beliefs: npt.NDArray[np.float32]
    iterations: npt.NDArray[np.int32]
    residual: npt.NDArray[np.float32]
    log_joint: npt.NDArray[np.float64]


class Work(NamedTuple):
    """Memory of one thread, reused for all its rows."""

    belief: npt.NDArray[np.float32]
    incoming: npt.NDArray[np.float32]
    unary: npt.NDArray[np.float32]
    to_child: npt.NDArray[np.float32]
    excess: npt.NDArray[np.float32]
    scratch: npt.NDArray[np.float32]
    hidden: npt.NDArray[np.int32]
    on: npt.NDArray[np.int32]
    child: npt.NDArray[np.int32]
    place: npt.NDArray[np.int64]
    state: npt.NDArray[np.uint8]
    clamp: npt.NDArray[np.uint8]
    total: npt.NDArray[np.float64]
    sums: npt.NDArray[np.float64]


@njit(cache=True, nogil=True)
def infer_rows(graph, parameters, rows, options, output, begin, end):
    """Fill ``output`` for rows ``begin`` to ``end``."""
    work = _allocate(graph, rows, options, begin, end)
    run_key = combine(uint64(options.seed), uint64(options.train_step))
    for row in range(begin, end):
        ones = rows.columns[rows.ptr[row] : rows.ptr[row + 1]]
        missing = rows.missing_columns[rows.missing_ptr[row] : rows.missing_ptr[row + 1]]
        _set_clamp(work, rows.clamp, row)
        n_active, n_children = _select(graph, work, ones, missing, options)
        hidden = work.hidden[:n_active]
        hidden_totals(graph, parameters, missing, work.total)
        row_key = combine(run_key, uint64(rows.row_ids[row]))
        for sample in range(options.n_samples):
            line = row * options.n_samples + sample
            key = combine(row_key, uint64(sample))
            _start(graph, parameters, work, hidden, n_children, options, key)
            iterations, residual = _iterate(graph, parameters, work, hidden, n_children, options)
            output.iterations[line] = iterations
            output.residual[line] = residual

            state = output.states[line]
            state[:] = 0
            for k in hidden:
                state[k] = work.belief[k] > 0.0
            if output.beliefs.shape[0] > 0:
                beliefs = output.beliefs[line]
                beliefs[:] = NEVER
                for k in hidden:
                    beliefs[k] = work.belief[k]

            n_on = list_on(state, work.on)
            node_sums(graph, parameters, state, work.on[:n_on], ones, hidden, work.sums)
            if options.polish_sweeps > 0:
                polish_row(graph, parameters, state, ones, hidden, work, options.polish_sweeps)
            output.log_joint[line] = row_log_joint(
                graph, parameters, state, ones, missing, hidden, work.sums, work.total
            )


@njit(cache=True, nogil=True)
def _allocate(graph, rows, options, begin, end):
    hidden_edges = graph.ptr[-1] - graph.ptr[graph.n_visible]
    most_edges, most_children = 0, 0
    for row in range(begin, end):
        edges, children = 0, rows.ptr[row + 1] - rows.ptr[row]
        for i in rows.columns[rows.ptr[row] : rows.ptr[row + 1]]:
            edges += graph.ptr[i + 1] - graph.ptr[i]
        if options.maximise_missing:
            children += rows.missing_ptr[row + 1] - rows.missing_ptr[row]
            for i in rows.missing_columns[rows.missing_ptr[row] : rows.missing_ptr[row + 1]]:
                edges += graph.ptr[i + 1] - graph.ptr[i]
        most_edges, most_children = max(most_edges, edges), max(most_children, children)
    n_hidden, spare = graph.n_hidden, graph.n_hidden + LANES
    n_children = most_children + n_hidden
    largest_factor = 0
    for i in range(len(graph.n_parents)):
        largest_factor = max(largest_factor, graph.ptr[i + 1] - graph.ptr[i])
    return Work(
        np.zeros(spare, dtype=np.float32),
        np.zeros(spare, dtype=np.float32),
        np.zeros(spare, dtype=np.float32),
        np.zeros(n_hidden, dtype=np.float32),
        np.zeros(most_edges + hidden_edges, dtype=np.float32),
        np.zeros(largest_factor, dtype=np.float32),
        np.zeros(n_hidden, dtype=np.int32),
        np.zeros(n_hidden, dtype=np.int32),
        np.zeros(n_children, dtype=np.int32),
        np.zeros(n_children, dtype=np.int64),
        np.zeros(graph.n_visible + n_hidden, dtype=np.uint8),
        np.full(n_hidden, UNOBSERVED, dtype=np.uint8),
        np.zeros(n_hidden, dtype=np.float64),
        np.zeros(graph.n_visible + n_hidden, dtype=np.float64),
    )


@njit(cache=True, nogil=True)
def _set_clamp(work, clamp, row):
    if clamp.shape[0] > 0:
        work.clamp[:] = clamp[min(row, clamp.shape[0] - 1)]


@njit(cache=True, nogil=True)
def _select(graph, work, ones, missing, options):
    """List the hidden nodes and the children that take part; return how many of each."""
    n_hidden, n_visible = graph.n_hidden, graph.n_visible
    n_active = 0
    if options.ancestors_only:
        seen = work.state
        seen[:n_hidden] = 0
        for i in ones:
            n_active = _add_parents(graph, seen, work.hidden, n_active, i)
        if options.maximise_missing:
            for i in missing:
                n_active = _add_parents(graph, seen, work.hidden, n_active, i)
        for k in range(n_hidden):
            if work.clamp[k] == 1 and seen[k] == 0:
                seen[k] = 1
                work.hidden[n_active] = k
                n_active += 1
        done = 0
        while done < n_active:
            n_active = _add_parents(
                graph, seen, work.hidden, n_active, n_visible + work.hidden[done]
            )
            done += 1
    else:
        for k in range(n_hidden):
            work.hidden[k] = k
        n_active = n_hidden

    n_children, edges = 0, 0
    for i in ones:
        n_children, edges = _add_child(graph, work, n_children, edges, i)
    if options.maximise_missing:
        for i in missing:
            n_children, edges = _add_child(graph, work, n_children, edges, i)
            work.child[n_children - 1] = -1 - i  # marks a visible that is not observed
    for k in work.hidden[:n_active]:
        if graph.n_parents[n_visible + k] > 0 and work.clamp[k] != 0:
            n_children, edges = _add_child(graph, work, n_children, edges, n_visible + k)
    return n_active, n_children


@njit(cache=True, nogil=True)
def _add_parents(graph, seen, found, n_found, node):
    start, parent = graph.ptr[node], graph.parent
    for edge in range(start, start + graph.n_parents[node]):
        k = parent[edge]
        if seen[k] == 0:
            seen[k] = 1
            found[n_found] = k
            n_found += 1
    return n_found


@njit(cache=True, nogil=True)
def _add_child(graph, work, n_children, edges, node):
    work.child[n_children] = node
    work.place[n_children] = edges
    return n_children + 1, edges + graph.ptr[node + 1] - graph.ptr[node]


@njit(cache=True, nogil=True)
def _node_of(child):
    return child if child >= 0 else -1 - child


@njit(cache=True, nogil=True)
def _start(graph, parameters, work, hidden, n_children, options, key):
    """Messages at zero (excess = theta), prior log-odds on nodes without parents, fresh noise."""
    # A visible that is summed out sends no message; one that is inferred is a child like others.
    total = parameters.total if options.maximise_missing else work.total
    unaries, to_child, children = work.unary, work.to_child, work.child
    count, leak_log_odds, places = graph.n_parents, parameters.leak_log_odds, work.place
    for k in hidden:
        unary = -total[k]
        if options.temperature > 0.0:
            unary += options.temperature * logistic_noise(combine(key, uint64(k)))
        unaries[k] = unary
        node = graph.n_visible + k
        to_child[k] = 0.0 if count[node] > 0 else leak_log_odds[node]
    ptr, first, parent, weight = graph.ptr, graph.first, graph.parent, parameters.weight
    incoming, excess = work.incoming, work.excess
    for number in range(n_children):
        node = _node_of(children[number])
        start = ptr[node]
        size = ptr[node + 1] - start
        start_child(incoming, excess, weight, parent, first[node], start, places[number], size)
    _collect(work, hidden)


@njit(cache=True, nogil=True)
def _collect(work, hidden):
    """Beliefs from the messages that have come in, which are then cleared."""
    clamp, belief, unary = work.clamp, work.belief, work.unary
    to_child, incoming = work.to_child, work.incoming
    for k in hidden:
        if clamp[k] == UNOBSERVED:
            belief[k] = unary[k] + to_child[k] + incoming[k]
        else:
            belief[k] = -NEVER if clamp[k] == 1 else NEVER
        incoming[k] = 0.0


@njit(cache=True, nogil=True)
def _iterate(graph, parameters, work, hidden, n_children, options):
    """Flooding until no message wants to change by ``tolerance``; return count and last change."""
    step = float32(options.step)
    tolerance = float32(options.tolerance)
    n_visible = graph.n_visible
    # Local names: reading a field inside the loop would count references on every child.
    ptr, first, parent = graph.ptr, graph.first, graph.parent
    log_odds, leak_log_odds = parameters.log_odds, parameters.leak_log_odds
    belief, incoming, to_child, excess = work.belief, work.incoming, work.to_child, work.excess
    scratch, children, places, clamp = work.scratch, work.child, work.place, work.clamp
    residual = float32(0.0)
    for iteration in range(options.max_iterations):
        residual = float32(0.0)
        for number in range(n_children):
            child = children[number]
            node = _node_of(child)
            start, place = ptr[node], places[number]
            size = ptr[node + 1] - start
            leak = leak_log_odds[node]
            k = child - n_visible  # negative for visibles
            if child >= 0 and (k < 0 or clamp[k] == 1):
                change = update_on_child(
                    belief,
                    incoming,
                    excess,
                    log_odds,
                    parent,
                    first[node],
                    start,
                    place,
                    size,
                    leak,
                    step,
                    scratch,
                )
            else:
                back = belief[k] - to_child[k] if child >= 0 else float32(0.0)
                change, message = update_free_child(
                    belief,
                    incoming,
                    excess,
                    log_odds,
                    parent,
                    first[node],
                    start,
                    place,
                    size,
                    leak,
                    step,
                    scratch,
                    back,
                )
                if child >= 0:
                    change = max(change, abs(message - to_child[k]))
                    to_child[k] += step * (message - to_child[k])
            residual = max(residual, change)
        _collect(work, hidden)
        if residual < tolerance:
            return iteration + 1, residual
    return options.max_iterations, residual


__all__ = ["UNOBSERVED", "Graph", "Options", "Output", "Parameters", "Rows", "infer_rows"]
