"""The exact log p(h, x): its value, its gradient, and ascent by single flips.

With B_i the total parameter of node i, its leak and the edges from parents that are on, a node adds
f(B_i) = log(1 - exp(-B_i)) if it is on and -B_i if it is off. An unobserved visible adds nothing.
"""

from __future__ import annotations

import numpy as np

from noisyor._util.arrays import BinaryArray, BoolArray, FloatArray, log_one_minus_exp
from noisyor.engines.contract import FREE, Evidence, GradientSum, IcmOptions
from noisyor.engines.numpy.rows import Prepared, Row, rows_of, sums_at, taking_part
from noisyor.engines.reduction import ROWS_OF_BLOCK, tree_sum_of_blocks

_MIN_GAIN = 1e-9
"""Gain of log p that a flip must exceed: more than rounding, so that the ascent ends."""


def log_joint(prepared: Prepared, evidence: Evidence, states: BinaryArray) -> FloatArray:
    """Compute ``log p(h, x)`` (draws,) of states (draws, n_hidden), one or more a row."""
    result = np.zeros(len(states))
    samples = _samples(evidence, states)
    for row in rows_of(prepared, evidence):
        for draw in range(row.index * samples, (row.index + 1) * samples):
            result[draw] = value_of(prepared, row, states[draw])
    return result


def log_joint_gradient(prepared: Prepared, evidence: Evidence, states: BinaryArray) -> GradientSum:
    """Sum ``log p(h, x)`` and its gradient over rows; draws of one row are averaged.

    The derivative is ``z_i / (1 - exp(-B_i)) - 1`` for the leak of node i, and the same for an edge
    whose parent is on.
    """
    network, samples = prepared.network, _samples(evidence, states)

    def block(index: int) -> list[FloatArray]:
        value, gradient = np.zeros(1), np.zeros(network.n_params)
        begin, end = index * ROWS_OF_BLOCK, min((index + 1) * ROWS_OF_BLOCK, evidence.n_rows)
        for row in rows_of(prepared, evidence, begin, end):
            for draw in range(row.index * samples, (row.index + 1) * samples):
                state, share = states[draw], row.weight / samples
                total, on, seen = _nodes(prepared, row, state)
                value += share * _value(total, on, seen)
                slope = share * seen * (on / -np.expm1(-total) - 1.0)
                of_edges = slope[network.edge_child] * state[network.parent]
                gradient += sums_at(network.leak_param, slope, network.n_params)
                gradient += sums_at(network.param, of_edges, network.n_params)
        return [value, gradient]

    n_blocks = max(1, -(-evidence.n_rows // ROWS_OF_BLOCK))
    value, gradient = tree_sum_of_blocks(block, n_blocks, 1)
    return GradientSum(float(value[0]), gradient, evidence.total_weight)


def icm(
    prepared: Prepared, evidence: Evidence, states: BinaryArray, options: IcmOptions
) -> BinaryArray:
    """Run iterated conditional modes on states (draws, n_hidden); clamps stay.

    Single nodes flip while ``log p(h, x)`` rises.
    """
    result, samples = states.copy(), _samples(evidence, states)
    for row in rows_of(prepared, evidence):
        active = taking_part(prepared, row, options.ancestors_only)
        free = active[row.hidden[active] == FREE]
        for draw in range(row.index * samples, (row.index + 1) * samples):
            state = result[draw]
            for _ in range(options.sweeps):
                if not _sweep(prepared, row, state, free.tolist()):
                    break
    return result


def _sweep(prepared: Prepared, row: Row, state: BinaryArray, nodes: list[int]) -> bool:
    """Flip each node in turn if ``log p`` rises, in place; return whether any flipped."""
    best, changed = value_of(prepared, row, state), False
    for k in nodes:
        state[k] ^= 1
        value = value_of(prepared, row, state)
        if value > best + _MIN_GAIN:
            best, changed = value, True
        else:
            state[k] ^= 1
    return changed


def _nodes(
    prepared: Prepared, row: Row, state: BinaryArray
) -> tuple[FloatArray, BoolArray, BoolArray]:
    """Return total parameter of every node, whether it is on and observed, (n_nodes,) each."""
    on = np.concatenate([row.visible == 1, state == 1])
    seen = np.concatenate([row.visible != FREE, np.ones(len(state), dtype=np.bool_)])
    return totals(prepared, state), on, seen


def totals(prepared: Prepared, state: BinaryArray) -> FloatArray:
    """Return the total parameter of every node, (n_nodes,), with hidden states (n_hidden,)."""
    network = prepared.network
    from_parents = prepared.theta * state[network.parent]
    return prepared.leak + sums_at(network.edge_child, from_parents, network.n_nodes)


def value_of(prepared: Prepared, row: Row, state: BinaryArray) -> float:
    """Return ``log p(h, x)`` of a row with hidden states (n_hidden,)."""
    return _value(*_nodes(prepared, row, state))


def _value(total: FloatArray, on: BoolArray, seen: BoolArray) -> float:
    return float(np.where(on, log_one_minus_exp(total), -total)[seen].sum())


def _samples(evidence: Evidence, states: BinaryArray) -> int:
    """Return the number of draws per row."""
    return len(states) // max(evidence.n_rows, 1)
