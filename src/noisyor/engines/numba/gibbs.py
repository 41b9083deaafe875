"""Gibbs sampling of the causes of rows, with expected successes of each parameter.

Equations T35 to T38 of docs/theory.md. Every hidden node is drawn in turn given all others.
Successes and trials use the probability that the node is on, not the draw: a draw of 0 or 1 would
only add noise, and an edge that happened to succeed in every draw of one sweep would count as
certain from then on.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import uint64

from noisyor.engines.contract import FREE, NoiseKey
from noisyor.engines.numba.arguments import Workspace, advance, arrays, unpack
from noisyor.engines.numba.cache import inner, njit
from noisyor.engines.numba.graph import Graph, Parameters, Rows
from noisyor.engines.numba.row_model import (
    RowModel,
    build_row_model,
    enter_state,
    flip_node,
    gain_on,
)
from noisyor.engines.numba.scalar import combine, logistic_of, minimum, uniform_of


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
