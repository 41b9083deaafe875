"""Gibbs sweeps over the hidden nodes of rows, and chains of sweeps from independent nodes.

Every hidden node is drawn in turn given all others. Its log-odds are the difference of log p(h, x)
with the node on and off.

Successes and trials use the probability that a node is on, not the draw: a draw of 0 or 1 would
only add noise, and an edge whose few failures were not drawn by chance would be estimated as
certain.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, FloatArray, logistic_function
from noisyor.engines.contract import FREE, Evidence, GibbsResult, NoiseKey, TemperingResult
from noisyor.engines.noise import combine, uniform
from noisyor.engines.numpy.log_joint import totals, value_of
from noisyor.engines.numpy.rows import Prepared, Row, rows_of, sums_at
from noisyor.engines.reduction import ROWS_OF_BLOCK, tree_sum_of_blocks

_AFTER_NODES = 2**32
"""Keys of sweeps begin where those of nodes end."""


def gibbs_sweep(
    prepared: Prepared, evidence: Evidence, states: BinaryArray, key: NoiseKey
) -> GibbsResult:
    """Draw every hidden node of every row once, in ascending order; clamped nodes stay.

    Node k of a row is on if ``uniform(combine(combine(combine(seed, row id), step), k))`` is below
    its probability.
    """
    new_states, n_params = states.copy(), prepared.network.n_params

    def block(index: int) -> list[FloatArray]:
        successes, trials = np.zeros((2, n_params))
        begin, end = index * ROWS_OF_BLOCK, min((index + 1) * ROWS_OF_BLOCK, evidence.n_rows)
        for row in rows_of(prepared, evidence, begin, end):
            keys = combine(combine(key.seed, row.id), key.step)
            draws = uniform(combine(keys, np.arange(prepared.network.n_hidden)))
            of_row = _sweep(prepared, row, new_states[row.index], draws)
            successes += row.weight * of_row[0]
            trials += row.weight * of_row[1]
        return [successes, trials]

    n_blocks = max(1, -(-evidence.n_rows // ROWS_OF_BLOCK))
    successes, trials = tree_sum_of_blocks(block, n_blocks, 1)
    return GibbsResult(new_states, successes, trials)


def _sweep(
    prepared: Prepared, row: Row, state: BinaryArray, draws: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Draw ``state`` (n_hidden,) anew, in place; return successes and trials of the row."""
    network, n_visible = prepared.network, prepared.network.n_visible
    successes, probability = np.zeros(network.n_params), row.hidden.astype(np.float64)
    np.copyto(state, row.hidden, where=row.hidden != FREE)
    for k in range(network.n_hidden):
        if row.hidden[k] == FREE:
            probability[k] = logistic_function(_gain(prepared, row, state, k))
        state[k] = 1
        total, node = totals(prepared, state), n_visible + k
        own = _share(prepared.leak[node], total[node])
        successes[network.leak_param[node]] += probability[k] * float(own)
        on = np.concatenate([row.visible == 1, state == 1])
        edges = np.flatnonzero((network.parent == k) & on[network.edge_child])
        share = _share(prepared.theta[edges], total[network.edge_child[edges]])
        np.add.at(successes, network.param[edges], probability[k] * share)
        state[k] = draws[k] < probability[k]
    noise = _share(prepared.leak[row.ones], totals(prepared, state)[row.ones])
    np.add.at(successes, network.leak_param[row.ones], noise)

    seen = np.concatenate([row.visible != FREE, np.ones(network.n_hidden, dtype=np.bool_)])
    of_edge = seen[network.edge_child] * probability[network.parent]
    trials = sums_at(network.leak_param, seen, network.n_params)
    trials += sums_at(network.param, of_edge, network.n_params)
    return successes, trials


def _gain(prepared: Prepared, row: Row, state: BinaryArray, k: int) -> float:
    """Return the gain in log p(h, x) from switching node k on; ``state[k]`` is overwritten."""
    state[k] = 1
    on = value_of(prepared, row, state)
    state[k] = 0
    return on - value_of(prepared, row, state)


def _share(theta: npt.ArrayLike, total: npt.ArrayLike) -> FloatArray:
    """Return the probability that an edge worked, given that its node is on."""
    return np.asarray(np.expm1(-np.asarray(theta)) / np.expm1(-np.maximum(total, theta)))


# ---- chains from independent nodes to the posterior


def temper(
    prepared: Prepared,
    evidence: Evidence,
    first: FloatArray,
    n_chains: int,
    n_steps: int,
    key: NoiseKey,
) -> TemperingResult:
    """Run chains from independent nodes to the posterior of every row.

    Sweeps have a rising weight of p(h, x) in the log-odds of a node, here *heat*.
    """
    network = prepared.network
    log_weight = np.empty((evidence.n_rows, n_chains))
    probability = np.empty((evidence.n_rows, n_chains, network.n_hidden))
    for row in rows_of(prepared, evidence):
        start, free = first[row.index], row.hidden == FREE
        odds = np.log(start / (1.0 - start))
        for chain in range(n_chains):
            chain_key = combine(combine(key.seed, row.id), chain)
            draws = uniform(combine(chain_key, np.arange(network.n_hidden)))
            state = np.where(free, draws < start, row.hidden).astype(np.uint8)
            total, on = 0.0, row.hidden.astype(np.float64)
            for step in range(n_steps):
                log_q = np.where(state == 1, np.log(start), np.log1p(-start))[free].sum()
                total += (value_of(prepared, row, state) - log_q) / n_steps
                step_key, heat = combine(chain_key, step + _AFTER_NODES), (step + 1) / n_steps
                for k in np.flatnonzero(free).tolist():
                    gain = _gain(prepared, row, state, k)
                    on[k] = logistic_function(heat * gain + (1.0 - heat) * odds[k])
                    state[k] = uniform(combine(step_key, k)) < on[k]
            log_weight[row.index, chain], probability[row.index, chain] = total, on
    return TemperingResult(log_weight, probability)
