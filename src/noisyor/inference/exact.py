"""Exact answers by enumeration, for networks of up to about fifteen hidden nodes.

A set of alternatives counts little: n of them have n + 1 states. Three sets of 64 have a quarter of
a million; given one state, columns are independent, and log p of a table costs a product of
matrices, which is faster than chains and has no error (`log_p_by_states`).

What every faster method is held to. Two objectives are enumerated: the model's own
``log p(h, x)``, and the augmented objective A that max-product really maximises. A replaces the
noisy-OR of an active node by the best single assignment of its auxiliary edge variables, so
``A <= log p``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray
from noisyor._util.numerics import log_expm1, log_one_minus_exp
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.model.graph import Network

MAX_HIDDEN = 20

_MAX_CELLS = 2**26
"""States times columns, at most: some milliseconds a row."""

_TABLE_CELLS, _JOINT_CELLS = 2**20, 2**22
"""States times columns, and rows times states, that are in memory at once."""


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
    >>> rows = np.array([[1, 1, 0], [0, 0, 1]])
    >>> nor.inference.enumerate_posterior(network, rows[:1]).marginals.round(2)
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
    """Exact posterior of every row by enumerating all hidden configurations.

    Parameters
    ----------
    network : at most ``MAX_HIDDEN`` independent hidden nodes; time and memory double with each one,
        and grow n + 1 times with a set of n alternatives.
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
    >>> rows = np.array([[1, 1, 0], [0, 0, 1]])
    >>> nor.inference.enumerate_posterior(network, rows[:1]).map_states
    array([[1, 0]], dtype=uint8)
    """
    observations = Observations.of(X, n_visible=network.n_visible)
    states = configurations_of(network)
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
    """All binary vectors of a length, shape (2 ** n_hidden, n_hidden), in counting order."""
    if n_hidden > MAX_HIDDEN:
        raise InvalidSettingError(
            f"enumeration is for networks of at most {MAX_HIDDEN} hidden nodes, this has {n_hidden}"
        )
    numbers = np.arange(2**n_hidden)[:, None]
    return ((numbers >> np.arange(n_hidden - 1, -1, -1)) & 1).astype(np.uint8)


def n_configurations(network: Network) -> int:
    """Number of hidden states with at most one node of every set on."""
    sets = network.sets
    sizes = np.diff(sets.ptr).tolist() if sets else []
    return int(2 ** (network.n_hidden - sum(sizes)) * math.prod(size + 1 for size in sizes))


def configurations_of(network: Network) -> npt.NDArray[np.uint8]:
    """All hidden states with at most one node of every set on, shape (n_states, n_hidden).

    In counting order, the first node counting most; of a set none comes first.
    """
    sets = network.sets
    if not sets:
        return hidden_configurations(network.n_hidden)
    units = [np.array([k]) for k in np.flatnonzero(sets.number < 0)]
    units += np.split(sets.member, sets.ptr[1:-1])
    n_states = n_configurations(network)
    if n_states > 2**MAX_HIDDEN:
        raise InvalidSettingError(
            f"enumeration is for networks of at most {2**MAX_HIDDEN} hidden states, this has "
            f"{n_states}"
        )
    numbers = np.arange(n_states)
    result = np.zeros((n_states, network.n_hidden), dtype=np.uint8)
    for members in sorted(units, key=lambda some: -int(some[0])):
        numbers, place = np.divmod(numbers, len(members) + 1)
        on = np.flatnonzero(place)
        result[on, members[place[on] - 1]] = 1
    return result


def log_joint_table(network: Network, states: npt.ArrayLike, dense: FloatArray) -> FloatArray:
    """``log p(h, x)`` of every row with every configuration, shape (n_rows, n_states).

    Minus infinity where two nodes of a set of alternatives are on.
    """
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
    """The objective A of every row with every configuration, shape (n_rows, n_states)."""
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
    if not network.sets:
        return table
    # Independent nodes, given that no two of a set are on: equation T50.
    sets, leak = network.sets, network.theta[network.leak_param[first:]]
    log_allowed = sets.log_normalizer(leak).sum() - leak[sets.member].sum()
    return np.where(sets.broken(hidden == 1), -np.inf, table - log_allowed)


def _parents(network: Network, node: int) -> npt.NDArray[np.int32]:
    return network.parent[network.child_ptr[node] : network.child_ptr[node + 1]]


def _weights(network: Network, node: int) -> FloatArray:
    return network.theta[network.param[network.child_ptr[node] : network.child_ptr[node + 1]]]


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
