"""Gibbs sweeps over the hidden nodes of rows, and the credit that each parameter earns on the way.

Credits and chances use the probability that a node is on, not the draw: a draw of 0 or 1 would only
add noise, and an edge whose few failures happened not to be drawn would be taken to be certain.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor._util.numerics import logistic_function
from noisyor.engines.contract import FREE, Evidence, GibbsResult, NoiseKey
from noisyor.engines.noise import combine, uniform
from noisyor.engines.numpy.local_model import LocalModel, Walker
from noisyor.engines.numpy.rows import Prepared, Row, rows_of
from noisyor.engines.numpy.segments import sums_at
from noisyor.engines.reduction import ROWS_OF_BLOCK, tree_sum_of_blocks


def gibbs_sweep(
    prepared: Prepared, evidence: Evidence, states: BinaryArray, key: NoiseKey
) -> GibbsResult:
    """Draw every hidden node of every row once, given all others; clamped nodes stay.

    Node k of a row is on if ``uniform(combine(combine(combine(seed, row id), step), k))`` is below
    its probability. Isolated nodes come first, then the others in ascending order.
    """
    new_states, n_params = states.copy(), prepared.network.n_params

    def block(number: int) -> list[FloatArray]:
        credit, chance = np.zeros((2, n_params))
        begin, end = number * ROWS_OF_BLOCK, min((number + 1) * ROWS_OF_BLOCK, evidence.n_rows)
        for row in rows_of(prepared, evidence, begin, end):
            keys = combine(combine(key.seed, row.id), key.step)
            draws = uniform(combine(keys, np.arange(prepared.network.n_hidden)))
            of_row = _sweep(prepared, row, new_states[row.number], draws)
            credit += row.weight * of_row[0]
            chance += row.weight * of_row[1]
        return [credit, chance]

    n_blocks = max(1, -(-evidence.n_rows // ROWS_OF_BLOCK))
    credit, chance = tree_sum_of_blocks(block, n_blocks, 1)
    return GibbsResult(new_states, credit, chance)


def _sweep(
    prepared: Prepared, row: Row, state: BinaryArray, draws: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Draw ``state`` (n_hidden,) anew, in place; return credit and chance of the row."""
    network, n_visible = prepared.network, prepared.network.n_visible
    model, credit = LocalModel.of(prepared, row), np.zeros(network.n_params)
    state[row.hidden != FREE] = row.hidden[row.hidden != FREE]
    alone = ~np.isnan(model.isolated)
    probability = logistic_function(model.isolated)  # of the others: below
    state[alone] = draws[alone] < probability[alone]
    np.add.at(credit, network.leak_param[n_visible:][alone], probability[alone])

    walker = Walker(model, state[model.hidden])
    for j, k in enumerate(model.hidden.tolist()):
        p = float(logistic_function(walker.gain(j)))
        if not model.is_free[j]:
            p = float(model.clamp[j])
        probability[k], node = p, n_visible + k
        own = _share(prepared.leak[node], walker.sums[node])
        credit[network.leak_param[node]] += p * float(own)
        _, edges, _, with_it = walker.children(j)
        np.add.at(credit, network.param[edges], p * _share(prepared.theta[edges], with_it))
        if (draws[k] < p) != walker.state[j]:
            walker.flip(j)
    state[model.hidden] = walker.state
    noise = _share(prepared.leak[row.ones], walker.sums[row.ones])
    np.add.at(credit, network.leak_param[row.ones], noise)

    seen = np.concatenate([row.visible != FREE, np.ones(network.n_hidden, dtype=np.bool_)])
    of_edge = seen[network.edge_child] * probability[network.parent]
    chance = sums_at(network.leak_param, seen, network.n_params)
    chance += sums_at(network.param, of_edge, network.n_params)
    return credit, chance


def _share(theta: npt.ArrayLike, total: npt.ArrayLike) -> FloatArray:
    """Probability that a parent acted, given that at least one did; theirs is ``total``."""
    return np.asarray(np.expm1(-np.asarray(theta)) / np.expm1(-np.maximum(total, theta)))
