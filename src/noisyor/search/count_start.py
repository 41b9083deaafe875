"""Starting parameters of a layered network, counted from the data.

A common parent makes its children occur together. So each cluster of the graph is first taken by
itself: a mixture of two classes over its children, the hidden node on or off, gives the rows in
which it is probably on (`two_class_mixture`). Layer by layer from the bottom, these rows are what
the next layer is counted from. With the rows of every node known, leaks and failure probabilities
follow by a few rounds of expectation-maximisation, which also divide the credit for a child among
its parents (`noisy_or_em`).

Hidden nodes that share children start apart, because each begins with the children that are nearest
to it. Nothing dense is made of the rows: work and memory grow with the ones times the parents.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray, LongArray
from noisyor.data.observations import Observations
from noisyor.errors import InvalidSettingError
from noisyor.model.network import (
    Network,
    probability_from_theta,
    theta_from_failure,
    theta_from_probability,
)

__all__ = ["noisy_or_em", "start_from_counts", "two_class_mixture"]

_MIXTURE_ROUNDS = 5
_EM_ROUNDS = 20
_LARGEST_SHARE = 0.3
"""Share of the rows in which a hidden node may be on at first: common children must be more."""

_LARGEST_FAILURE = 0.999
"""Failure probability of an edge without evidence: training may still grow it."""

_CERTAIN = 1e-4
"""Probabilities keep this distance from 0 and 1, so that a few rows do not settle anything."""


def start_from_counts(
    network: Network, X: Any, *, smoothing: float = 1.0, max_rows: int = 20_000
) -> Network:
    """The network with noise, priors and failure probabilities from counts.

    The same arguments always give the same parameters. Fixed entries keep their value; tied
    ones are counted together.

    Parameters
    ----------
    network : from `layered`: a node's parents are listed nearest first.
    X : binary data (n_rows, n_visible) in any form that `Observations.of` takes.
    smoothing : strength of the prior of each parameter, in pseudo-rows in which an edge failed, or
        a leak was as likely on as its node usually is.
    max_rows : distinct rows that are counted at most, evenly spread over the data.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], [10, 10, 40], axis=0)
    >>> graph = nor.layered(X, 2, n_parents=1, shrink=2)
    >>> start = nor.search.start_from_counts(graph, X)
    >>> start.prior_probability.round(2)
    array([0.17, 0.17])
    """
    if not (np.isfinite(smoothing) and smoothing > 0):
        raise InvalidSettingError(f"smoothing must be positive, got {smoothing}")
    if max_rows < 1:
        raise InvalidSettingError(f"max_rows must be at least 1, got {max_rows}")
    observations, _ = Observations.of(X, n_visible=network.n_visible).unique_rows()
    if observations.n_rows > max_rows:
        observations = observations.take(
            np.linspace(0, observations.n_rows - 1, max_rows).astype(np.int64)
        )
    rows_on = _rows_by_column(observations.to_csr())
    rows_missing = _rows_by_column(observations.missing_csr())
    weights = observations.row_weights
    rows_on += _hidden_rows(network, rows_on, weights)
    rows_missing += [np.empty(0, dtype=np.int64)] * network.n_hidden
    theta = noisy_or_em(network, rows_on, rows_missing, weights, smoothing)
    return network.with_theta(np.where(network.free, theta, network.theta))


def _rows_by_column(matrix: Any) -> list[LongArray]:
    """Numbers of the rows that are 1, for each column."""
    columns = matrix.tocsc()
    return np.split(columns.indices.astype(np.int64), columns.indptr[1:-1])


# ---- in which rows is each hidden node on?


def _hidden_rows(
    network: Network, visible_rows: list[LongArray], weights: FloatArray
) -> list[LongArray]:
    """Rows in which each hidden node is probably on, children before parents."""
    first = network.n_visible
    rows: list[LongArray] = [np.empty(0, dtype=np.int64)] * network.n_hidden
    nearest = np.full(network.n_nodes, -1)
    has_parent = np.diff(network.child_ptr) > 0
    nearest[has_parent] = network.parent[network.child_ptr[:-1][has_parent]]
    ptr, outgoing = network.outgoing
    for k in np.argsort(-network.hidden_levels, kind="stable").tolist():
        children = network.edge_child[outgoing[ptr[k] : ptr[k + 1]]]
        lists = [
            visible_rows[child] if child < first else rows[child - first]
            for child in children.tolist()
        ]
        rows[k] = two_class_mixture(lists, nearest[children] == k, weights)
    return rows


def two_class_mixture(lists: list[LongArray], own: Any, weights: FloatArray) -> LongArray:
    """Rows in which a common parent of these children is more likely on than off.

    A mixture of two classes, the parent on or off, with independent children in each.

    Parameters
    ----------
    lists : rows in which each child is on.
    own : (n_children,) True for children that this node is the nearest parent of.
    weights : (n_rows,) of all rows.

    Examples
    --------
    >>> lists = [np.r_[0:5, 9], np.r_[0:5, 12], np.r_[0:5, 15]]
    >>> two_class_mixture(lists, np.array([True, True, True]), weights=np.ones(40))
    array([0, 1, 2, 3, 4])
    """
    child = np.repeat(np.arange(len(lists)), [len(rows) for rows in lists])
    some, row = np.unique(np.concatenate(lists), return_inverse=True)
    n_rows, weight = weights.sum(), weights[some]
    n_zero = n_rows - weight.sum()  # rows in which no child is on are all alike
    usual = np.bincount(child, weight[row], len(lists)) / n_rows
    q = _first_guess(row, own[child], weight, n_rows)
    if not q.any():
        q = _first_guess(row, np.ones(len(row), dtype=np.bool_), weight, n_rows)
    q_zero = 0.0
    for _ in range(_MIXTURE_ROUNDS):
        n_on = weight @ q + n_zero * q_zero
        together = np.bincount(child, (weight * q)[row], len(lists))
        on = (together + usual) / (n_on + 1.0)
        off = (usual * n_rows - together + usual) / (n_rows - n_on + 1.0)
        off = np.clip(off, _CERTAIN, 1 - _CERTAIN)
        on = np.clip(np.maximum(on, off), _CERTAIN, 1 - _CERTAIN)  # noisy-OR parents never prevent
        absent = np.log1p(-on) - np.log1p(-off)
        prior = (n_on + 0.5) / (n_rows + 1.0)
        base = np.log(prior / (1 - prior)) + absent.sum()
        score = base + np.bincount(row, (np.log(on / off) - absent)[child], len(some))
        q, q_zero = 1 / (1 + np.exp(-np.clip(score, -50, 50))), 1 / (1 + np.exp(-max(base, -50)))
    return some[q > 0.5].astype(np.int64)


def _first_guess(row: LongArray, counted: Any, weight: FloatArray, n_rows: float) -> FloatArray:
    """1.0 for rows with at least two of the counted children, or more where two are common."""
    number = np.bincount(row[counted], minlength=len(weight))
    least = 2
    while weight[number >= least].sum() > _LARGEST_SHARE * n_rows:
        least += 1
    return (number >= least).astype(np.float64)


# ---- parameters, given the rows of every node


class _Events(NamedTuple):
    """What could have switched on each node in each row in which it is on.

    ``event`` and ``param`` (n_entries,): a parameter that was at work in the event, a leak or an
    edge from a parent that is on; ``exposed`` (n_params,): rows in which a parameter was at work,
    whether or not its node came on; ``weight`` (n_events,) of the row of each event.
    """

    event: LongArray
    param: LongArray
    exposed: FloatArray
    weight: FloatArray


def _events(
    network: Network,
    rows_on: list[LongArray],
    rows_missing: list[LongArray],
    weights: FloatArray,
) -> _Events:
    first_event = np.concatenate([[0], np.cumsum([len(rows) for rows in rows_on])])
    n_events = int(first_event[-1])
    observed = weights.sum() - np.array([weights[rows].sum() for rows in rows_missing])
    exposed = np.bincount(network.leak_param, observed, network.n_params).astype(np.float64)
    event = [np.arange(n_events)]
    param = [np.repeat(network.leak_param, np.diff(first_event)).astype(np.int64)]
    ptr, outgoing = network.outgoing
    for k in range(network.n_hidden):
        on = np.zeros(len(weights), dtype=np.bool_)
        on[rows_on[network.n_visible + k]] = True
        n_on = weights @ on
        for edge in outgoing[ptr[k] : ptr[k + 1]].tolist():
            child = network.edge_child[edge]
            at = np.flatnonzero(on[rows_on[child]])
            event.append(first_event[child] + at)
            param.append(np.full(len(at), network.param[edge], dtype=np.int64))
            unseen = weights[rows_missing[child]] @ on[rows_missing[child]]
            exposed[network.param[edge]] += n_on - unseen
    weight = weights[np.concatenate(rows_on)]
    return _Events(np.concatenate(event), np.concatenate(param), exposed, weight)


def noisy_or_em(
    network: Network,
    rows_on: list[LongArray],
    rows_missing: list[LongArray],
    weights: FloatArray,
    smoothing: float,
) -> FloatArray:
    """Most likely parameters, (n_params,), when it is known which nodes are on in which rows.

    Parameters
    ----------
    network : the graph.
    rows_on, rows_missing : for every node, visible ones first, the rows in which it is on, and in
        which it is unobserved.
    weights : (n_rows,) of all rows.
    smoothing : see `start_from_counts`.
    """
    events = _events(network, rows_on, rows_missing, weights)
    weight = events.weight[events.event]
    is_leak = network.roles != "failure"
    at_work = np.bincount(events.param, weight, network.n_params)
    rate = (at_work + 0.5) / np.maximum(events.exposed + 1.0, at_work + 1.0)
    bonus = np.where(is_leak, smoothing * rate, 0.0)
    p = np.clip(rate, _CERTAIN, 0.5)
    for _ in range(_EM_ROUNDS):
        theta = theta_from_probability(p)
        total = np.bincount(events.event, theta[events.param], len(events.weight))
        fired = (p[events.param]) / probability_from_theta(total)[events.event]
        caused = np.bincount(events.param, weight * fired, network.n_params)
        p = np.clip((caused + bonus) / (events.exposed + smoothing), 1e-5, 1 - _CERTAIN)
    edges = theta_from_failure(np.minimum(1 - p, _LARGEST_FAILURE))
    return np.where(is_leak, theta_from_probability(p), edges)
