"""Exact answers by enumeration, for networks of up to about fifteen hidden nodes.

What every faster method is held to. Two objectives are enumerated: the model's own
``log p(h, x)``, and the augmented objective A that max-product really maximises. A replaces the
noisy-OR of an active node by the best single assignment of its auxiliary edge variables, so
``A <= log p``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray
from noisyor._util.numerics import log_one_minus_exp
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.model.network import Network

MAX_HIDDEN = 20


@dataclass(frozen=True, eq=False)
class ExactPosterior:
    """Exact inference for every row of a batch.

    Attributes
    ----------
    log_likelihood : (n_rows,) ``log p(x)``, unobserved visibles summed out.
    marginals : (n_rows, n_hidden) posterior probability that each hidden node is on.
    map_states : (n_rows, n_hidden) uint8 maximiser of ``log p(h, x)``; ties go to the first
        configuration in binary counting order of the nodes.
    map_log_joint : (n_rows,) its value.
    augmented_states : (n_rows, n_hidden) uint8 maximiser of A.
    augmented_maximum : (n_rows,) its value.
    max_marginals : (n_rows, n_hidden) best A with the node on minus best A with it off: what
        max-product beliefs are on a tree.

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     3, 2, failure_probability=[[0.1, 0.1, 1.0], [1.0, 1.0, 0.1]], prior_probability=0.3
    ... )
    >>> row = np.array([[1, 1, 0]])
    >>> nor.inference.enumerate_posterior(network, row).marginals.round(2)
    array([[1.  , 0.04]])
    """

    log_likelihood: FloatArray
    marginals: FloatArray
    map_states: npt.NDArray[np.uint8]
    map_log_joint: FloatArray
    augmented_states: npt.NDArray[np.uint8]
    augmented_maximum: FloatArray
    max_marginals: FloatArray


def enumerate_posterior(
    network: Network, X: Any, *, maximize_missing: bool = False
) -> ExactPosterior:
    """Compute the exact posterior of every row by enumerating all hidden configurations.

    Parameters
    ----------
    network : at most ``MAX_HIDDEN`` hidden nodes; time and memory double with each one.
    X : observations; unobserved visibles are summed out of p. A row that the network can never
        produce has no posterior and is refused.
    maximize_missing : in A, take the best value of each unobserved visible instead of leaving it
        out.

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     3, 2, failure_probability=[[0.1, 0.1, 1.0], [1.0, 1.0, 0.1]], prior_probability=0.3
    ... )
    >>> row = np.array([[1, 1, 0]])
    >>> nor.inference.enumerate_posterior(network, row).map_states
    array([[1, 0]], dtype=uint8)
    """
    observations = Observations.of(X, n_visible=network.n_visible)
    states = hidden_configurations(network.n_hidden)
    dense = observations.to_dense().astype(np.float64)
    log_p = log_joint_table(network, states, dense)
    augmented = augmented_table(network, states, dense, maximize_missing)

    best = log_p.max(axis=1)
    check_possible(best)
    weight = np.exp(log_p - best[:, None])
    evidence = weight.sum(axis=1)
    difference = np.empty((len(dense), network.n_hidden))
    for k in range(network.n_hidden):
        on = states[:, k] == 1
        difference[:, k] = augmented[:, on].max(axis=1) - augmented[:, ~on].max(axis=1)
    map_choice, augmented_choice = log_p.argmax(axis=1), augmented.argmax(axis=1)
    return ExactPosterior(
        log_likelihood=best + np.log(evidence),
        marginals=weight @ states / evidence[:, None],
        map_states=states[map_choice],
        map_log_joint=best,
        augmented_states=states[augmented_choice],
        augmented_maximum=augmented.max(axis=1),
        max_marginals=difference,
    )


def check_possible(best: FloatArray) -> None:
    """Refuse rows whose best ``log p(h, x)``, (n_rows,), is minus infinity."""
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
    hidden = np.asarray(states, dtype=np.float64)
    on, off = np.empty((2, network.n_nodes, len(hidden)))
    for node in range(network.n_nodes):
        total = network.theta[network.leak_param[node]] + hidden[:, _parents(network, node)] @ (
            _weights(network, node)
        )
        off[node] = -total
        on[node] = log_one_minus_exp(total)
    return _combine(network, hidden, dense, on, off, None)


def augmented_table(
    network: Network, states: npt.ArrayLike, dense: FloatArray, maximize_missing: bool = False
) -> FloatArray:
    """Compute the objective A of every row with every configuration, (n_rows, n_states)."""
    hidden = np.asarray(states, dtype=np.float64)
    on, off = np.empty((2, network.n_nodes, len(hidden)))
    for node in range(network.n_nodes):
        leak = network.theta[network.leak_param[node]]
        active = np.hstack([np.ones((len(hidden), 1)), hidden[:, _parents(network, node)]])
        theta = np.append(leak, _weights(network, node))
        log_odds = theta + log_one_minus_exp(theta)
        off[node] = -active @ theta
        best = np.where(active == 1, log_odds, -np.inf).max(axis=1)
        gain = active @ np.maximum(log_odds, 0)
        on[node] = off[node] + gain + np.minimum(best, 0)
    missing = np.maximum(on, off) if maximize_missing else None
    return _combine(network, hidden, dense, on, off, missing)


def _combine(
    network: Network,
    hidden: FloatArray,
    dense: FloatArray,
    on: FloatArray,
    off: FloatArray,
    missing: FloatArray | None,
) -> FloatArray:
    """Sum node terms, (n_nodes, n_states) each, into a table (n_rows, n_states)."""
    first = network.n_visible
    of_hidden = np.where(hidden.T == 1, on[first:], off[first:]).sum(axis=0)
    observed_on, observed_off = (dense == 1).astype(float), (dense == 0).astype(float)
    # A node that nothing can switch on has log p = -inf, and 0 * -inf is no number.
    never = np.isneginf(on[:first])
    of_on = observed_on @ np.where(never, 0.0, on[:first])
    of_on[observed_on @ never > 0] = -np.inf
    table: FloatArray = of_hidden + of_on + observed_off @ off[:first]
    if missing is not None:
        table = table + np.isnan(dense).astype(float) @ missing[:first]  # finite: off is possible
    return table


def _parents(network: Network, node: int) -> npt.NDArray[np.int32]:
    return network.parent[network.child_ptr[node] : network.child_ptr[node + 1]]


def _weights(network: Network, node: int) -> FloatArray:
    return network.theta[network.param[network.child_ptr[node] : network.child_ptr[node + 1]]]
