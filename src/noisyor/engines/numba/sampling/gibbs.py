"""Gibbs sampling of the causes of rows, and the credit that each parameter earns on the way.

Equations T35 to T38 and T52 of docs/theory.md. Every hidden node is drawn in turn given all others,
a set of alternatives at once when it is the turn of its first node. Credits and chances use the
probability that the node is on, not the draw: a draw of 0 or 1 would only add noise, and an edge
that happened to succeed in every draw of one sweep would count as certain from then on.
"""

import math

import numpy as np
from numba import uint64

from noisyor.engines.contract import FREE
from noisyor.engines.numba.cache import njit
from noisyor.engines.numba.sampling.walker import (
    allocate_walker,
    clear_set,
    draw_from_set,
    enter_state,
    flip_node,
    gain_on,
    gains_of_set,
    localize,
    logistic_of,
    shares_of_set,
    uniform_of,
)
from noisyor.engines.numba.scalar import combine

NEGLIGIBLE = 1e-12
"""The edges of an alternative of smaller probability earn no credit: less than rounding."""


@njit(cache=True, nogil=True)
def sweep_rows(graph, parameters, works, rows, states, seed, sweep, credit, chance, begin, end):
    """One sweep over the hidden nodes of rows ``begin`` to ``end``; ``states`` change in place.

    ``works`` (padded edges,): 1 - exp(-theta); ``states`` (n_rows, n_hidden) uint8. Added to
    ``credit`` (n_params + 1, the last for padding): how often each parameter is expected to have
    switched its node on; to ``chance``, as long: how often it might have, its parent being on and
    its child observed. The draws of a row depend on the seed, its id and the number of the sweep
    alone.
    """
    n_visible, n_hidden = graph.n_visible, graph.n_hidden
    times_on, probability = np.zeros(n_hidden + 1), np.empty(n_hidden + 1)
    times_none = np.zeros(len(graph.set_ptr))
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
        local = localize(graph, parameters, works, rows, row)
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
            number = local.set_of[j]
            if number >= 0:
                if local.lane_of[j] == local.lane_ptr[number]:
                    set_key = combine(key, uint64(k))
                    none = _draw_set(
                        graph, local, walker, number, active, weight, set_key, probability, credit
                    )
                    times_none[number] += weight * none
                continue
            known = local.clamp[j] != FREE
            probability[k] = local.clamp[j] if known else logistic_of(gain_on(local, walker, j))
            _credit_node(graph, local, walker, j, active, weight * probability[k], credit)
            if (uniform_of(combine(key, uint64(k))) < probability[k]) != walker.state[j]:
                flip_node(local, walker, j)
        for j in range(len(local.hidden)):
            state[local.hidden[j]] = walker.state[j]
        for place in range(len(ones)):
            noise = graph.leak_param[ones[place]]
            share = -math.expm1(-local.leak[place]) * (1.0 + walker.off[place])
            credit[noise] += weight * min(share, 1.0)
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
        number = graph.set_of[node - n_visible] if node >= n_visible else -1
        # The prior of an alternative had its chance when it or none was on, equation T52.
        chance[graph.leak_param[node]] += (
            total_weight if number < 0 else times_on[node - n_visible] + times_none[number]
        )
        for edge in range(graph.ptr[node], graph.ptr[node] + graph.n_parents[node]):
            chance[graph.param[edge]] += times_on[graph.parent[edge]]


@njit(cache=True, nogil=True)
def _draw_set(graph, local, walker, number, active, weight, key, probability, credit):
    """Draw a set of alternatives given all else; return the probability that none is on.

    Fills ``probability`` (n_hidden,) of its nodes.
    """
    clear_set(local, walker, number)
    gains_of_set(local, walker, number)
    none = shares_of_set(local, walker, number)
    for lane in range(local.lane_ptr[number], local.lane_ptr[number + 1]):
        j, share = local.lane_node[lane], walker.lanes[lane]
        if j < 0:
            continue
        probability[local.hidden[j]] = share
        if share >= NEGLIGIBLE:
            _credit_node(graph, local, walker, j, active, weight * share, credit)
        else:
            credit[graph.leak_param[graph.n_visible + local.hidden[j]]] += weight * share
    draw_from_set(local, walker, number, none, key)
    return none


@njit(cache=True, nogil=True)
def _credit_node(graph, local, walker, j, active, expected, credit):
    """Credit of node j's leak and edges, equation T38; ``expected`` is weight times probability.

    With ``off = 1 / (exp(B) - 1)`` the share of T37 needs no exponential: it is ``works (1 + off)``
    if B is with the edge, and ``works (1 + off) / (1 + works off)`` if B is without it.
    """
    n_ones, n_visible = local.n_ones, graph.n_visible
    k, on = local.hidden[j], walker.state[j]
    own = -math.expm1(-local.leak[n_ones + j]) * (1.0 + walker.off[n_ones + j])
    # A share is at most one, whatever the rounding.
    credit[graph.leak_param[n_visible + k]] += expected * min(own, 1.0)
    edge = local.ptr[j]
    for position in range(graph.out_ptr[k], graph.out_ptr[k + 1]):
        child = graph.out_child[position]
        if child < n_visible and not active[child]:
            continue
        slot, works = local.slot[edge], local.works[edge]
        if child < n_visible or walker.state[slot - n_ones]:
            off = walker.off[slot]
            share = works * (1.0 + off)
            if not on:
                share /= 1.0 + works * off
            credit[graph.param[graph.out_edge[position]]] += expected * min(share, 1.0)
        edge += 1
