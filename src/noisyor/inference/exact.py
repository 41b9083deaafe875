"""Exact inference by enumeration, for networks of up to about fifteen hidden nodes.

Tests compare every faster method with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray, log_one_minus_exp
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.model.network import FittedModel, Network, network_of

MAX_HIDDEN = 20


@dataclass(frozen=True, eq=False)
class ExactPosterior:
    """Exact inference for every row of a batch.

    Attributes
    ----------
    log_likelihood : (n_rows,) ``log p(x)``, unobserved visibles summed out.
    marginals : (n_rows, n_hidden) posterior probability that each hidden node is on.
    map_states : (n_rows, n_hidden) uint8 maximizer of ``log p(h, x)``; ties go to the first
        configuration in binary counting order of the nodes.
    map_log_joint : (n_rows,) its value.
    """

    log_likelihood: FloatArray
    marginals: FloatArray
    map_states: npt.NDArray[np.uint8]
    map_log_joint: FloatArray


def enumerate_posterior(network: Network | FittedModel, X: Any) -> ExactPosterior:
    """Compute the exact posterior of every row by enumerating all hidden configurations.

    Parameters
    ----------
    network : at most ``MAX_HIDDEN`` hidden nodes; time and memory double with each one.
    X : observations; unobserved visibles are summed out of p. A row with probability zero has no
        posterior and is rejected.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(3, 2, failure_probability=[[0.1, 0.1, 1], [1, 1, 0.1]])
    >>> row = np.array([[1, 1, 0]])
    >>> nor.inference.enumerate_posterior(network, row).map_states
    array([[1, 0]], dtype=uint8)
    """
    network = network_of(network)
    observations = network.rows_of(X)
    states = hidden_configurations(network.n_hidden)
    log_p = log_joint_table(network, states, observations.to_dense().astype(np.float64))
    best = log_p.max(axis=1)
    check_possible(best)
    weight = np.exp(log_p - best[:, None])
    evidence = weight.sum(axis=1)
    return ExactPosterior(
        log_likelihood=best + np.log(evidence),
        marginals=average_by_row(weight, states) / evidence[:, None],
        map_states=states[log_p.argmax(axis=1)],
        map_log_joint=best,
    )


def average_by_row(weight: FloatArray, values: npt.NDArray[Any]) -> FloatArray:
    """Multiply weights (n_rows, n) by values (n, m) without BLAS.

    BLAS sums a row in an order that depends on the other rows, which would change its last bits.
    """
    return np.stack([(weight * column).sum(axis=1) for column in values.T], axis=1)


def check_possible(best: FloatArray) -> None:
    """Reject rows whose best ``log p(h, x)``, (n_rows,), is minus infinity."""
    impossible = np.flatnonzero(np.isneginf(best))
    if impossible.size:
        raise InvalidDataError(
            f"row {impossible[0]} has probability 0: something is on that no active parent and no "
            "leak can switch on"
        )


def hidden_configurations(n_hidden: int) -> npt.NDArray[np.uint8]:
    """List all binary vectors of a length in counting order, (2 ** n_hidden, n_hidden)."""
    if n_hidden > MAX_HIDDEN:
        raise InvalidSettingError(
            f"enumeration is for networks of at most {MAX_HIDDEN} hidden nodes, this has {n_hidden}"
        )
    numbers = np.arange(2**n_hidden)[:, None]
    return ((numbers >> np.arange(n_hidden - 1, -1, -1)) & 1).astype(np.uint8)


def log_joint_table(network: Network, states: npt.ArrayLike, dense: FloatArray) -> FloatArray:
    """Compute ``log p(h, x)`` of every row with every configuration, (n_rows, n_states)."""
    hidden, ptr = np.asarray(states, dtype=np.float64), network.child_ptr
    on, off = np.empty((2, network.n_nodes, len(hidden)))
    for node in range(network.n_nodes):
        edges = slice(ptr[node], ptr[node + 1])
        total = (
            network.theta[network.leak_param[node]]
            + hidden[:, network.parent[edges]] @ (network.theta[network.param[edges]])
        )
        off[node] = -total
        on[node] = log_one_minus_exp(total)
    return sum_of_nodes(hidden, dense, on, off)


def sum_of_nodes(
    hidden: FloatArray, dense: FloatArray, on: FloatArray, off: FloatArray
) -> FloatArray:
    """Sum the terms of nodes that are on or off, (n_nodes, n_states) each: (n_rows, n_states)."""
    first = dense.shape[1]
    of_hidden = np.where(hidden.T == 1, on[first:], off[first:]).sum(axis=0)
    table = np.empty((len(dense), len(hidden)))
    for index, row in enumerate(dense):  # no matrix product, so that rows do not affect each other
        of_on, of_off = on[:first][row == 1].sum(axis=0), off[:first][row == 0].sum(axis=0)
        table[index] = of_hidden + of_on + of_off
    return table
