"""Gibbs sampling of the causes of rows, with expected successes of each parameter.

Equations T35 to T38 of docs/theory.md. A `RowModel` keeps the hidden nodes of a row that interact
and, of their edges, those into visibles that are on and into other hidden nodes. A hidden node
without any such edge is *isolated*: given the row it is independent of all others, so it is summed
out in closed form. In a network of twelve thousand diseases all but a few hundred are isolated. A
`ChainState` is a configuration of the nodes that interact, and changes flip by flip; `annealing`
uses both.

In a sweep every hidden node is drawn in turn given all others. Successes and trials use the
probability that the node is on, not the draw: a draw of 0 or 1 would only add noise, and an edge
that happened to succeed in every draw of one sweep would count as certain from then on.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import uint64

from noisyor.engines.contract import FREE, NoiseKey
from noisyor.engines.numba.active_set import largest_row
from noisyor.engines.numba.arguments import Workspace, advance, arrays, unpack
from noisyor.engines.numba.cache import inner, njit, small_code
from noisyor.engines.numba.graph import Graph, Parameters, Rows, read_clamps
from noisyor.engines.numba.scalar import (
    combine,
    log_expm1,
    logistic_of,
    maximum,
    minimum,
    uniform_of,
)

KNOWN = 1e300
"""Log-odds of a node that is known to be on."""


class ChainState(Workspace):
    """A configuration that changes node by node."""

    per_hidden = arrays(uint8="state")
    # The total parameter B, log(exp(B) - 1) and 1 / (exp(B) - 1).
    per_slot = arrays(float64="sums odds off")


class RowModel(Workspace):
    """One row as seen by the n nodes that interact; memory of one thread, reused for all its rows.

    Children are numbered by slots: active visibles first, then the n nodes. Edges of node j are
    ``ptr[j]:ptr[j + 1]``; those into visibles come first and end at ``visible_end[j]``.
    """

    # The number n, and the number of active visibles.
    counts = arrays(2, int64="sizes")
    # The part of log p(h, x) that does not depend on the n nodes, isolated ones summed out.
    constant = arrays(1, float64="offset")
    # By interacting node: its index, evidence, cost of being on, and the same without the edges
    # into active visibles.
    per_interacting = arrays(
        int32="hidden", uint8="clamp", float64="cost net_cost", int64="visible_end"
    )
    bounds = arrays(int64="ptr")
    # ``leak_odds`` and ``leak_off`` are what `ChainState` has when no parent is on.
    per_slot = arrays(float64="leak leak_odds leak_off")
    # ``works`` is the probability 1 - exp(-theta), ``param`` the index of theta.
    per_edge = arrays(int32="slot param", float64="theta works")
    # Log-odds of the isolated nodes, NaN for the others; evidence on all hidden nodes.
    per_hidden = arrays(float64="isolated", uint8="all_clamp")
    padded_hidden = arrays(float64="all_cost")
    # -1 for nodes that have no slot.
    per_node = arrays(int32="slot_of")
    chain: ChainState


def allocate(graph: Graph, rows: Rows, begin: int, end: int) -> RowModel:
    """Allocate memory for the largest of the rows ``begin`` to ``end``."""
    n_hidden = graph.n_hidden
    n_edges, n_children = largest_row(graph, rows, begin, end)
    n_slots = n_children + n_hidden
    return RowModel(
        per_interacting=n_hidden,
        bounds=n_hidden + 1,
        per_slot=n_slots,
        per_edge=n_edges,
        per_hidden=n_hidden,
        padded_hidden=n_hidden + 1,
        per_node=graph.n_visible + n_hidden,
        chain=ChainState(per_hidden=n_hidden, per_slot=n_slots),
    )


@inner()
def build_row_model(graph, parameters, edge_works, rows, row, model):
    """Fill the model of a row; isolated nodes are summed out into its offset.

    ``edge_works`` (padded edges,): 1 - exp(-theta).
    """
    small_code()
    n_visible, n_hidden = graph.n_visible, graph.n_hidden
    ones, n_ones = rows.ptr[row], rows.ptr[row + 1] - rows.ptr[row]
    for node in range(n_visible + n_hidden):
        model.slot_of[node] = -1
    for index in range(n_ones):
        model.slot_of[rows.columns[ones + index]] = index
    # Being on costs theta of every child; children that are on give it back through their odds.
    cost, clamp, isolated = model.all_cost, model.all_clamp, model.isolated
    read_clamps(n_hidden, rows, row, clamp)
    for k in range(n_hidden):
        cost[k] = parameters.total[k]
        isolated[k] = np.nan
    offset = -parameters.total_leak
    for position in range(rows.missing_ptr[row], rows.missing_ptr[row + 1]):
        i = rows.missing_columns[position]
        offset += parameters.leak[i]
        for edge in range(graph.ptr[i], graph.ptr[i] + graph.n_parents[i]):
            cost[graph.parent[edge]] -= parameters.theta[edge]

    # First pass: which nodes interact. Slots of visibles come first.
    n = 0
    for k in range(n_hidden):
        node, alone = n_visible + k, True
        for position in range(graph.out_ptr[k], graph.out_ptr[k + 1]):
            child = graph.out_child[position]
            if child >= n_visible or model.slot_of[child] >= 0:
                alone = False
                break
        # No parents, and no child that is on or hidden: independent of all others, equation T35.
        if alone and graph.n_parents[node] == 0:
            odds = log_expm1(parameters.leak[node]) - cost[k]
            if clamp[k] == FREE:
                offset += maximum(odds, 0.0) + math.log1p(math.exp(-abs(odds)))
                isolated[k] = odds
            elif clamp[k] == 0:
                isolated[k] = -KNOWN
            else:
                offset += odds
                isolated[k] = KNOWN
        else:
            model.slot_of[node] = n_ones + n
            model.hidden[n] = k
            n += 1
    model.sizes[0], model.sizes[1], model.offset[0] = n, n_ones, offset

    # Second pass: their edges.
    for index in range(n_ones):
        model.leak[index] = parameters.leak[rows.columns[ones + index]]
    n_edges = 0
    model.ptr[0] = 0
    for j in range(n):
        k = model.hidden[j]
        model.leak[n_ones + j] = parameters.leak[n_visible + k]
        model.cost[j] = model.net_cost[j] = cost[k]
        model.clamp[j] = clamp[k]
        model.visible_end[j] = n_edges
        for position in range(graph.out_ptr[k], graph.out_ptr[k + 1]):
            child = model.slot_of[graph.out_child[position]]
            if child >= 0:
                edge = graph.out_edge[position]
                model.slot[n_edges] = child
                model.param[n_edges] = graph.param[edge]
                model.theta[n_edges] = parameters.theta[edge]
                model.works[n_edges] = edge_works[edge]
                n_edges += 1
                if child < n_ones:  # children of a node are in ascending order
                    model.net_cost[j] -= parameters.theta[edge]
                    model.visible_end[j] = n_edges
        model.ptr[j + 1] = n_edges
    for slot in range(n_ones + n):
        odds = log_expm1(model.leak[slot])
        model.leak_odds[slot] = odds
        model.leak_off[slot] = math.exp(-odds)


@inner()
def enter_state(model):
    """Fill the arrays that depend on the state of the chain; return its log p(h, x)."""
    small_code()
    n, n_ones = model.sizes[0], model.sizes[1]
    state, sums, odds, off = model.chain.state, model.chain.sums, model.chain.odds, model.chain.off
    for slot in range(n_ones + n):
        sums[slot] = model.leak[slot]
    for j in range(n):
        if state[j]:
            for edge in range(model.ptr[j], model.ptr[j + 1]):
                sums[model.slot[edge]] += model.theta[edge]
    value = model.offset[0]
    for slot in range(n_ones + n):
        if sums[slot] == model.leak[slot]:  # most hidden nodes have no parent: nothing to compute
            odds[slot], off[slot] = model.leak_odds[slot], model.leak_off[slot]
        else:
            odds[slot] = log_expm1(sums[slot])
            off[slot] = math.exp(-odds[slot])
    for slot in range(n_ones):
        value += odds[slot]
    for j in range(n):
        if state[j]:
            value += odds[n_ones + j] - model.cost[j]
    return value


@inner()
def gain_on(model, j):
    """Return the log-odds of node j given all others: log p with j on minus log p with j off.

    Equation T19, with T36 if the node has many children.
    """
    n_ones, ptr, slot, theta = model.sizes[1], model.ptr, model.slot, model.theta
    state, sums, odds, off = model.chain.state, model.chain.sums, model.chain.odds, model.chain.off
    end = model.visible_end[j]
    sign = -1.0 if state[j] else 1.0
    if state[j]:
        gain = odds[n_ones + j] - model.cost[j]
        for edge in range(ptr[j], end):
            child = slot[edge]
            # Never below the leak, whatever the rounding.
            without = maximum(sums[child] - theta[edge], model.leak[child])
            gain += odds[child] - log_expm1(without)
    else:
        # Switching on multiplies the probability of an active child by 1 + works * off, with
        # off = 1 / (exp(B) - 1): one logarithm for many children, where most of the time goes.
        # theta of these edges cancels against the cost, hence ``net_cost``. Equation T36.
        gain, factor = odds[n_ones + j] - model.net_cost[j], 1.0
        for edge in range(ptr[j], end):
            factor *= 1.0 + model.works[edge] * off[slot[edge]]
            if factor > 1e7:  # off is below 1e301: one more factor cannot overflow
                gain += math.log(factor)
                factor = 1.0
        gain += math.log(factor)
    # Hidden children may be off, and then they only cost: that is in ``cost`` already.
    for edge in range(end, ptr[j + 1]):
        child = slot[edge]
        if state[child - n_ones]:
            other = maximum(sums[child] + sign * theta[edge], model.leak[child])
            gain += sign * (log_expm1(other) - odds[child])
    return gain


@inner()
def flip_node(model, j):
    """Switch node j, and update the sums of its children."""
    state, sums, odds, off = model.chain.state, model.chain.sums, model.chain.odds, model.chain.off
    sign = -1.0 if state[j] else 1.0
    state[j] = 1 - state[j]
    for edge in range(model.ptr[j], model.ptr[j + 1]):
        child = model.slot[edge]
        sums[child] = maximum(sums[child] + sign * model.theta[edge], model.leak[child])
        odds[child] = log_expm1(sums[child])
        off[child] = math.exp(-odds[child])


# ---- sweeps


class Sweep(NamedTuple):
    """A call: ``works`` (padded edges,) is 1 - exp(-theta); ``states`` (n_rows, n_hidden)."""

    rows: Rows
    key: NoiseKey
    works: npt.NDArray[np.float64]
    states: npt.NDArray[np.uint8]


class Sums(Workspace):
    """Sums over a block of rows, and scratch."""

    # How often each parameter is expected to have switched its node on, and how often it might
    # have, its parent being on and its child observed; the last entry is for padding.
    per_parameter = arrays(float64="successes trials")
    padded_hidden = arrays(float64="times_on probability")


@njit("Gibbs sweep")
def sweep_rows(
    graph_address, parameters_address, sweep_address, model_address, sums_address, begin, end
):
    """Draw the hidden nodes of rows ``begin`` to ``end`` once; ``states`` change in place.

    The draws of a row depend on the seed, its id and the number of the sweep alone.
    """
    graph, parameters = unpack(graph_address, Graph), unpack(parameters_address, Parameters)
    sweep, sums = unpack(sweep_address, Sweep), unpack(sums_address, Sums)
    model, rows = unpack(model_address, RowModel), sweep.rows
    n_visible, n_hidden, chain = graph.n_visible, graph.n_hidden, model.chain
    successes, trials, probability = sums.successes, sums.trials, sums.probability
    total_weight = 0.0
    for row in range(begin, end):
        state = advance(sweep.states, row * n_hidden)
        weight = rows.weight[row] if rows.weighted else 1.0
        total_weight += weight
        key = combine(
            combine(uint64(sweep.key.seed), uint64(rows.row_ids[row])), uint64(sweep.key.step)
        )
        build_row_model(graph, parameters, sweep.works, rows, row, model)
        n = model.sizes[0]
        for j in range(n):
            known = model.clamp[j] != FREE
            chain.state[j] = model.clamp[j] if known else state[model.hidden[j]]
        # Sums are computed again in every sweep, so that rounding does not accumulate over rounds.
        enter_state(model)
        # Only the leak can have switched an isolated node on: all of the success is its own.
        for k in range(n_hidden):
            if not math.isnan(model.isolated[k]):
                probability[k] = logistic_of(model.isolated[k])
                successes[graph.leak_param[n_visible + k]] += weight * probability[k]
                state[k] = uniform_of(combine(key, uint64(k))) < probability[k]
        for j in range(n):
            k = model.hidden[j]
            probability[k] = model.clamp[j]
            if model.clamp[j] == FREE:
                probability[k] = logistic_of(gain_on(model, j))
            _add_successes(graph, model, sums, j, weight * probability[k])
            if (uniform_of(combine(key, uint64(k))) < probability[k]) != chain.state[j]:
                flip_node(model, j)
        for j in range(n):
            state[model.hidden[j]] = chain.state[j]
        for slot in range(model.sizes[1]):
            leak = graph.leak_param[rows.columns[rows.ptr[row] + slot]]
            share = -math.expm1(-model.leak[slot]) * (1.0 + chain.off[slot])
            successes[leak] += weight * minimum(share, 1.0)
        for position in range(rows.missing_ptr[row], rows.missing_ptr[row + 1]):
            i = rows.missing_columns[position]
            # The loop at the end counts every node of every row; unobserved visibles had no trial.
            trials[graph.leak_param[i]] -= weight
            for edge in range(graph.ptr[i], graph.ptr[i] + graph.n_parents[i]):
                trials[graph.param[edge]] -= weight * probability[graph.parent[edge]]
        for k in range(n_hidden):
            # Trials of edges follow from these at the end: no loop over all edges in every row.
            sums.times_on[k] += weight * probability[k]
    for node in range(n_visible + n_hidden):
        trials[graph.leak_param[node]] += total_weight
        for edge in range(graph.ptr[node], graph.ptr[node] + graph.n_parents[node]):
            trials[graph.param[edge]] += sums.times_on[graph.parent[edge]]


@inner()
def _add_successes(graph, model, sums, j, expected):
    """Add the successes of node j's leak and edges, equation T38.

    With ``off = 1 / (exp(B) - 1)`` the share of T37 needs no exponential: it is ``works (1 + off)``
    if B is with the edge, and ``works (1 + off) / (1 + works off)`` if B is without it.
    """
    n_ones, chain = model.sizes[1], model.chain
    node, on = graph.n_visible + model.hidden[j], chain.state[j]
    own = -math.expm1(-model.leak[n_ones + j]) * (1.0 + chain.off[n_ones + j])
    # A share is at most one, whatever the rounding.
    sums.successes[graph.leak_param[node]] += expected * minimum(own, 1.0)
    for edge in range(model.ptr[j], model.ptr[j + 1]):
        slot, works = model.slot[edge], model.works[edge]
        if slot < n_ones or chain.state[slot - n_ones]:  # hidden children may be off
            off = chain.off[slot]
            share = works * (1.0 + off)
            if not on:
                share /= 1.0 + works * off
            sums.successes[model.param[edge]] += expected * minimum(share, 1.0)
