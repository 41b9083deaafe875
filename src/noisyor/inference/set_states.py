"""Exact log p of a bipartite network whose hidden states are few, because its nodes are in sets.

Three sets of 64 alternatives have a quarter of a million states. Given one, columns are independent
and the rows of a table cost a product of matrices, which is faster than chains and has no error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.numerics import log_expm1
from noisyor.data.observations import Observations
from noisyor.inference.exact import n_configurations
from noisyor.network.graph import Network

__all__ = ["log_p_by_states", "states_can_be_summed"]

_MAX_CELLS = 2**26
"""States times columns, at most: some milliseconds a row."""

_TABLE_CELLS, _JOINT_CELLS = 2**20, 2**22
"""States times columns, and rows times states, that are in memory at once."""


def states_can_be_summed(network: Network) -> bool:
    """Whether `log_p_by_states` takes a network, and is fast."""
    first = network.n_visible
    return bool(
        network.sets
        and (network.edge_child < first).all()
        and (network.theta[network.leak_param[:first]] > 0).all()
        and n_configurations(network) <= _MAX_CELLS // first
    )


def log_p_by_states(network: Network, rows: Observations) -> FloatArray:
    """Log p of every row (n_rows,): the sum over all states of the sets.

    The network is bipartite with sets of alternatives, and every column may come on by itself, so
    that no row is impossible (`states_can_be_summed`). Unobserved entries are summed out.
    """
    largest, rest = _largest_and_rest(network)
    leak = network.theta[network.leak_param[: network.n_visible]]
    step = max(1, _TABLE_CELLS // largest.theta.size)
    top, total = np.full(rows.n_rows, -np.inf), np.zeros(rows.n_rows)
    for begin in range(0, len(rest.theta), step):
        part = slice(begin, begin + step)
        states = _States(rest.theta[part] + leak, rest.log_prior[part]).beside(largest)
        _add(rows, states, top, total)
    return np.asarray(top + np.log(total))


def _add(rows: Observations, states: _States, top: FloatArray, total: FloatArray) -> None:
    """Add states to the sums ``exp(top) * total`` of every row."""
    theta, log_odds = states.theta, np.ascontiguousarray(log_expm1(states.theta).T)
    all_off = states.log_prior - theta.sum(axis=1)
    step = max(1, _JOINT_CELLS // len(theta))
    for begin in range(0, rows.n_rows, step):
        part = slice(begin, begin + step)
        dense = rows.take(part).to_dense().astype(np.float64)
        missing = np.isnan(dense)
        joint = np.where(missing, 0.0, dense) @ log_odds + all_off
        if missing.any():
            joint += missing.astype(np.float64) @ theta.T
        before = top[part].copy()
        top[part] = np.maximum(before, joint.max(axis=1))
        joint -= top[part, None]
        total[part] = total[part] * np.exp(before - top[part]) + np.exp(joint).sum(axis=1)


class _States(NamedTuple):
    """States of some hidden nodes: sums of their parameters (n, n_visible), log priors (n,)."""

    theta: FloatArray
    log_prior: FloatArray

    def beside(self, other: _States) -> _States:
        """All pairs of a state of these nodes and one of others."""
        theta = self.theta[:, None] + other.theta
        log_prior = self.log_prior[:, None] + other.log_prior
        return _States(theta.reshape(-1, theta.shape[-1]), log_prior.ravel())


def _largest_and_rest(network: Network) -> tuple[_States, _States]:
    """States of the largest set, and those of all other hidden nodes together."""
    sets, n_visible = network.sets, network.n_visible
    theta = np.zeros((network.n_hidden, n_visible))
    theta[network.parent, network.edge_child] = network.theta[network.param]
    prior = network.theta[network.leak_param[n_visible:]]
    log_odds = log_expm1(prior)  # minus infinity for a cause that is never on
    units = [np.array([k]) for k in np.flatnonzero(sets.number < 0)]
    units += np.split(sets.member, sets.ptr[1:-1])
    tables = [
        _States(np.vstack([np.zeros(n_visible), theta[unit]]), np.r_[0.0, log_odds[unit]])
        for unit in sorted(units, key=len)
    ]
    largest = tables.pop()
    rest = _States(np.zeros((1, n_visible)), np.array([sets.log_all_off(prior)]))
    for table in tables:
        rest = rest.beside(table)
    return largest, rest
