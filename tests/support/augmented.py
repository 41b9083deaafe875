"""The augmented objective A that max-product maximizes, by enumeration.

A replaces the noisy-OR of an active node by the best single assignment of its auxiliary edge
variables, so ``A <= log p(h, x)``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisyor._util.arrays import log_one_minus_exp
from noisyor.inference.exact import hidden_configurations, sum_of_nodes


class AugmentedPosterior(NamedTuple):
    """Maximum of A (n_rows,), its maximizer and max-marginals (n_rows, n_hidden).

    A max-marginal is the best A with a node on minus the best A with it off: what beliefs of
    max-product are on a tree.
    """

    maximum: np.ndarray
    states: np.ndarray
    max_marginals: np.ndarray


def enumerate_augmented(network, dense):
    states = hidden_configurations(network.n_hidden)
    table = augmented_table(network, states, np.asarray(dense, float))
    difference = np.empty((len(table), network.n_hidden))
    for k in range(network.n_hidden):
        on = states[:, k] == 1
        difference[:, k] = table[:, on].max(axis=1) - table[:, ~on].max(axis=1)
    return AugmentedPosterior(table.max(axis=1), states[table.argmax(axis=1)], difference)


def augmented_table(network, states, dense):
    """A of every row with every configuration; missing entries are summed out."""
    hidden, ptr = np.asarray(states, dtype=np.float64), network.child_ptr
    on, off = np.empty((2, network.n_nodes, len(hidden)))
    for node in range(network.n_nodes):
        edges = slice(ptr[node], ptr[node + 1])
        active = np.hstack([np.ones((len(hidden), 1)), hidden[:, network.parent[edges]]])
        leak = network.theta[network.leak_param[node]]
        theta = np.append(leak, network.theta[network.param[edges]])
        log_odds = theta + log_one_minus_exp(theta)
        off[node] = -active @ theta
        best = np.where(active == 1, log_odds, -np.inf).max(axis=1)
        on[node] = off[node] + active @ np.maximum(log_odds, 0) + np.minimum(best, 0)
    return sum_of_nodes(hidden, dense, on, off)
