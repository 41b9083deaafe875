"""Gibbs sampling of the causes of rows, and the credit that each parameter earns on the way.

Equations T35 to T38 of docs/theory.md. Every hidden node is drawn in turn given all others. Credits
and chances use the probability that the node is on, not the draw: a draw of 0 or 1 would only add
noise, and an edge that happened to succeed in every draw of one sweep would count as certain from
then on.
"""

import math

import numpy as np
from numba import uint64

from noisyor.engines.contract import FREE
from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.sampling.walker import (
    allocate_walker,
    enter_state,
    flip_node,
    gain_on,
    localize,
    logistic_of,
    uniform_of,
)
from noisyor.engines.numba.scalar import combine


@njit(cache=True, nogil=True)
def sweep_rows(graph, parameters, rows, states, seed, sweep, credit, chance, begin, end):
    """One sweep over the hidden nodes of rows ``begin`` to ``end``; ``states`` change in place.

    ``states`` (n_rows, n_hidden) uint8. Added to ``credit`` (n_params + 1, the last for padding):
    how often each parameter is expected to have switched its node on; to ``chance``, as long: how
    often it might have, its parent being on and its child observed. The draws of a row depend on
    the seed, its id and the number of the sweep alone.
    """
    n_visible, n_hidden = graph.n_visible, graph.n_hidden
    times_on, probability = np.zeros(n_hidden + 1), np.empty(n_hidden + 1)
    active = np.zeros(n_visible, dtype=np.uint8)
    weights, total_weight = rows.weight, 0.0
    for row in range(begin, end):
        state = states[row]
        weight = weights[row] if len(weights) > 0 else 1.0
        total_weight += weight
        ones = rows.columns[rows.ptr[row] : rows.ptr[row + 1]]
        missing = rows.missing_columns[rows.missing_ptr[row] : rows.missing_ptr[row + 1]]
        key = combine(combine(uint64(seed), uint64(rows.row_ids[row])), uint64(sweep))
        for i in ones:
            active[i] = 1
        local = localize(graph, parameters, rows, row)
        walker = allocate_walker(local)
        for j in range(len(local.hidden)):
            known = local.clamp[j] != FREE
            walker.state[j] = local.clamp[j] if known else state[local.hidden[j]]
        # Sums afresh for every sweep: rounding does not add up over the rounds of learning.
        enter_state(local, walker)
        # Only the leak can have switched an isolated node on: all of the credit is its own.
        for k in range(n_hidden):  # isolated nodes
            if not np.isnan(local.isolated[k]):
                probability[k] = logistic_of(local.isolated[k])
                credit[graph.leak_param[n_visible + k]] += weight * probability[k]
                state[k] = uniform_of(combine(key, uint64(k))) < probability[k]
        for j in range(len(local.hidden)):
            k = local.hidden[j]
            known = local.clamp[j] != FREE
            probability[k] = local.clamp[j] if known else logistic_of(gain_on(local, walker, j))
            _credit_node(graph, local, walker, j, active, weight * probability[k], credit)
            if (uniform_of(combine(key, uint64(k))) < probability[k]) != walker.state[j]:
                flip_node(local, walker, j)
            state[k] = walker.state[j]
        for place in range(len(ones)):
            noise = graph.leak_param[ones[place]]
            credit[noise] += weight * _share(local.leak[place], walker.sums[place])
        for i in missing:
            # The loop at the end counts every node of every row; unobserved visibles had no chance.
            chance[graph.leak_param[i]] -= weight
            for edge in range(graph.ptr[i], graph.ptr[i] + graph.n_parents[i]):
                chance[graph.param[edge]] -= weight * probability[graph.parent[edge]]
        for k in range(n_hidden):
            # Chances of edges follow from these at the end: no loop over all edges in every row.
            times_on[k] += weight * probability[k]
        for i in ones:
            active[i] = 0
    for node in range(n_visible + n_hidden):
        chance[graph.leak_param[node]] += total_weight
        for edge in range(graph.ptr[node], graph.ptr[node] + graph.n_parents[node]):
            chance[graph.param[edge]] += times_on[graph.parent[edge]]


@njit(cache=True, nogil=True)
def _credit_node(graph, local, walker, j, active, expected, credit):
    """Credit of node j's leak and edges, equation T38; ``expected`` is weight times probability."""
    n_ones, n_visible = local.n_ones, graph.n_visible
    k = local.hidden[j]
    own = _share(local.leak[n_ones + j], walker.sums[n_ones + j])
    credit[graph.leak_param[n_visible + k]] += expected * own
    edge = local.ptr[j]
    for position in range(graph.out_ptr[k], graph.out_ptr[k + 1]):
        child = graph.out_child[position]
        if child < n_visible and not active[child]:
            continue
        slot, theta = local.slot[edge], local.theta[edge]
        if child < n_visible or walker.state[slot - n_ones]:
            # B of the child with this edge active, whatever the present draw of j is.
            total = walker.sums[slot] if walker.state[j] else walker.sums[slot] + theta
            credit[graph.param[graph.out_edge[position]]] += expected * _share(theta, total)
        edge += 1


@njit(cache=True, nogil=True)
def _share(theta, total):
    """Probability that an edge acted given that at least one did, equation T37.

    ``total`` is B of all active edges of the child.
    """
    # Never below theta, whatever the rounding: a share is at most one.
    return math.expm1(-theta) / math.expm1(-max(total, theta))
