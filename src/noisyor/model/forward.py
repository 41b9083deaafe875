"""Run the model forwards: edge matrix, prior marginals, ancestral samples, predictions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor._util.arrays import FloatArray, LongArray
from noisyor._util.sparse import dense_of
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.model.graph import Network
from noisyor.model.parameters import probability_from_theta

__all__ = ["Sample", "edge_matrix", "prior_marginals", "sample", "visible_probability"]

_BLOCK_CELLS = 4_000_000


class Sample(NamedTuple):
    """Sparse uint8 states: ``hidden`` (n_rows, n_hidden) and ``visible`` (n_rows, n_visible).

    Examples
    --------
    >>> import noisyor as nor
    >>> hidden, visible = nor.sample(nor.bipartite(3, 2), n_rows=4)
    >>> visible.shape
    (4, 3)
    """

    hidden: sp.csr_array
    visible: sp.csr_array


def edge_matrix(network: Network, *, probability: bool = False) -> sp.csr_array:
    """All edges as a sparse matrix (n_nodes, n_hidden), children by parents.

    Parameters
    ----------
    network : the network.
    probability : False for theta; True for the probability ``1 - exp(-theta)`` that the parent,
        when on, switches the child on.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.from_edges(
    ...     2, 2, [(0, 0), (1, 1)], [(1, 0)], failure_probability=[0.2, 0.4, 0.5])
    >>> nor.model.edge_matrix(network, probability=True).toarray().round(1).tolist()
    [[0.8, 0.0], [0.0, 0.6], [0.0, 0.5], [0.0, 0.0]]
    """
    theta = network.theta[network.param]
    return sp.csr_array(
        (
            probability_from_theta(theta) if probability else theta,
            network.parent,
            network.child_ptr,
        ),
        shape=(network.n_nodes, network.n_hidden),
    )


def prior_marginals(
    network: Network, known: LongArray | None = None, probability: FloatArray | None = None
) -> FloatArray:
    """Probability of every hidden node before anything below it is observed, (n_hidden,).

    Exact where the parents of a node are independent or alternatives, as in a tree; elsewhere an
    approximation, since others are taken as independent.

    Parameters
    ----------
    network : the network.
    known, probability : (n,) hidden nodes whose probability is known already, and what it is; the
        others follow from them.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.from_edges(
    ...     1, 2, [(0, 0)], [(1, 0)], failure_probability=[0.1, 0.5], prior_probability=[0.1, 0.4])
    >>> nor.model.prior_marginals(network).round(2).tolist()
    [0.28, 0.4]
    """
    result = network.prior_probability
    below = np.diff(network.child_ptr)[network.n_visible :] > 0
    if known is not None:
        result = network.sets.given(result, known, np.asarray(probability))
        below[known] = False
    if network.n_layers == 1:
        return result
    edges = edge_matrix(network, probability=True)[network.n_visible :]
    for level in range(1, network.n_layers):
        nodes = np.flatnonzero(below & (network.hidden_levels == level))
        if not len(nodes):
            continue
        part, number = edges[nodes], network.sets.number
        acts = part.data * result[part.indices]
        apart = np.where(number[part.indices] < 0, 1.0 - acts, 1.0)
        fails = np.multiply.reduceat(apart, part.indptr[:-1])
        for one in range(network.sets.n_sets):  # no two act, so that they add up
            of_set = np.where(number[part.indices] == one, acts, 0.0)
            fails *= 1.0 - np.add.reduceat(of_set, part.indptr[:-1])
        result[nodes] = 1.0 - (1.0 - result[nodes]) * fails
    return result


def sample(network: Network, n_rows: int, seed: int = 0) -> Sample:
    """Draw rows from the model, parents before children.

    Row r depends on (seed, r) alone: asking for more rows leaves the first ones as they are.

    Examples
    --------
    >>> import noisyor as nor
    >>> drawn = nor.sample(nor.bipartite(3, 2, prior_probability=0.5), n_rows=4, seed=1)
    >>> drawn.hidden.shape, drawn.visible.shape
    ((4, 2), (4, 3))
    """
    if n_rows < 1:
        raise InvalidSettingError(f"the number of rows must be at least 1, got {n_rows}")
    hidden, visible = [], []
    weights = edge_matrix(network)
    for begin, end in _blocks(n_rows, network.n_nodes):
        uniform = np.stack(
            [
                np.random.default_rng((seed, row)).random(network.n_nodes)
                for row in range(begin, end)
            ]
        )
        states = _sample_hidden(network, weights, uniform[:, network.n_visible :])
        hidden.append(sp.csr_array(states))
        probability = probability_from_theta(_totals(network, weights, states, visible=True))
        visible.append(sp.csr_array((uniform[:, : network.n_visible] < probability).view(np.uint8)))
    return Sample(_stack(hidden), _stack(visible))


def visible_probability(network: Network, states: Any) -> FloatArray:
    """Return the probability of every visible node given the hidden states, (n_rows, n_visible).

    Parameters
    ----------
    network : the network.
    states : (n_rows, n_hidden) of 0 and 1, dense or SciPy sparse.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(2, 1, failure_probability=[[0.2, 0.5]], noise_probability=0.1)
    >>> nor.model.visible_probability(network, [[0], [1]]).round(2).tolist()
    [[0.1, 0.1], [0.82, 0.55]]
    """
    return probability_from_theta(total_parameter(network, states))


def total_parameter(network: Network, states: Any) -> FloatArray:
    """Return the total parameter B of every visible, leak and active parents, (n_rows, n_visible).

    ``states`` (n_rows, n_hidden) of 0 and 1, dense or sparse; the node is off with ``exp(-B)``.
    """
    dense = dense_of(states)
    if dense.ndim != 2 or dense.shape[1] != network.n_hidden:
        raise InvalidDataError(
            f"states must have shape (n_rows, {network.n_hidden}), got {dense.shape}"
        )
    return _totals(network, edge_matrix(network), dense.astype(np.uint8), visible=True)


def _totals(
    network: Network, weights: sp.csr_array, states: npt.NDArray[np.uint8], visible: bool
) -> FloatArray:
    nodes = slice(0, network.n_visible) if visible else slice(network.n_visible, None)
    leak = network.theta[network.leak_param[nodes]]
    active = sp.csr_array(states).astype(np.float64)
    return np.asarray((active @ weights[nodes].T).todense()) + leak


def _sample_hidden(
    network: Network, weights: sp.csr_array, uniform: FloatArray
) -> npt.NDArray[np.uint8]:
    states = np.zeros((len(uniform), network.n_hidden), dtype=np.uint8)
    for level in range(network.n_layers):
        nodes = np.flatnonzero(network.hidden_levels == level)
        totals = np.broadcast_to(
            network.theta[network.leak_param[network.n_visible + nodes]], (len(states), len(nodes))
        )
        if level:  # those of the first level have no parents
            active = sp.csr_array(states).astype(np.float64)
            totals = totals + (active @ weights[network.n_visible + nodes].T).toarray()
        states[:, nodes] = uniform[:, nodes] < probability_from_theta(totals)
        if level == 0:
            _sample_sets(network, uniform, states)
    return states


def _sample_sets(network: Network, uniform: FloatArray, states: npt.NDArray[np.uint8]) -> None:
    """Draw alternatives anew with the number of their first node: none first, then in order."""
    sets, prior = network.sets, network.prior_probability
    for members in np.split(sets.member, sets.ptr[1:-1]) if sets else []:
        up_to = np.concatenate([[1.0 - prior[members].sum()], prior[members]]).cumsum()
        chosen = np.searchsorted(up_to, uniform[:, members[0]], "right")
        states[:, members] = 0
        rows = np.flatnonzero(chosen)
        states[rows, members[np.minimum(chosen[rows], len(members)) - 1]] = 1


def _blocks(n_rows: int, width: int) -> list[tuple[int, int]]:
    size = max(1, _BLOCK_CELLS // width)
    return [(begin, min(begin + size, n_rows)) for begin in range(0, n_rows, size)]


def _stack(parts: list[sp.csr_array]) -> sp.csr_array:
    return parts[0] if len(parts) == 1 else sp.csr_array(sp.vstack(parts, format="csr"))
