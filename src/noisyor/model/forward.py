"""Run the model forwards: edge matrix, prior marginals, ancestral samples, predictions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor._util.arrays import BinaryArray, BoolArray, FloatArray, LongArray, dense_of
from noisyor._util.validation import check_count, check_seed
from noisyor.errors import InvalidDataError
from noisyor.model.network import FittedModel, Network, network_of, probability_from_theta

_BLOCK_CELLS = 4_000_000


class Sample(NamedTuple):
    """Sparse uint8 states: ``hidden`` (n_rows, n_hidden) and ``visible`` (n_rows, n_visible)."""

    hidden: sp.csr_array
    visible: sp.csr_array


def edge_matrix(network: Network, *, probability: bool = False) -> sp.csr_array:
    """Return all edges as a sparse matrix (n_nodes, n_hidden), children by parents.

    Parameters
    ----------
    network : the network.
    probability : False for theta; True for the probability ``1 - exp(-theta)`` that the parent,
        when on, switches the child on.
    """
    theta = network.theta[network.param]
    return sp.csr_array(
        (
            probability_from_theta(theta) if probability else theta,
            network.parent,
            network.child_ptr,
        ),
        shape=(network.n_nodes, network.n_hidden),
        copy=True,  # SciPy sorts in place, and the arrays of a network are read-only
    )


def prior_marginals(
    network: Network, known: LongArray | None = None, probability: FloatArray | None = None
) -> FloatArray:
    """Return the probability of every hidden node before anything is observed, (n_hidden,).

    The parents of a node are taken as independent, which is exact in a tree and otherwise an
    approximation.

    Parameters
    ----------
    network : the network.
    known, probability : (n,) hidden nodes with a known probability, and these probabilities; the
    others are computed from them.
    """
    result = network.prior_probability
    below = np.diff(network.child_ptr)[network.n_visible :] > 0
    if known is not None:
        result[known] = probability
        below[known] = False
    if network.n_layers == 1:
        return result
    edges = edge_matrix(network, probability=True)[network.n_visible :]
    for level in range(1, network.n_layers):
        nodes = np.flatnonzero(below & (network.hidden_levels == level))
        if not len(nodes):
            continue
        part = edges[nodes]
        fails = np.multiply.reduceat(1.0 - part.data * result[part.indices], part.indptr[:-1])
        result[nodes] = 1.0 - (1.0 - result[nodes]) * fails
    return result


def sample(network: Network | FittedModel, n_rows: int, seed: int = 0) -> Sample:
    """Draw rows from the model, parents before children.

    Row r depends on (seed, r) alone, so drawing more rows does not change the first ones.

    Parameters
    ----------
    network : a `Network` or a fitted estimator.
    n_rows : number of rows.
    seed : seed of the random numbers.

    Examples
    --------
    >>> import noisyor as nor
    >>> drawn = nor.sample(nor.bipartite(3, 2, prior_probability=0.5), n_rows=4, seed=1)
    >>> drawn.hidden.shape, drawn.visible.shape
    ((4, 2), (4, 3))
    """
    network, n_rows, seed = network_of(network), check_count("n_rows", n_rows), check_seed(seed)
    hidden, visible = [], []
    weights = edge_matrix(network)
    step = max(1, _BLOCK_CELLS // network.n_nodes)
    for begin in range(0, n_rows, step):
        rows = range(begin, min(begin + step, n_rows))
        uniform = np.stack(
            [np.random.default_rng((seed, row)).random(network.n_nodes) for row in rows]
        )
        states = _sample_hidden(network, weights, uniform[:, network.n_visible :])
        hidden.append(sp.csr_array(states))
        probability = probability_from_theta(_totals(network, weights, states))
        visible.append(sp.csr_array((uniform[:, : network.n_visible] < probability).view(np.uint8)))
    return Sample(*(sp.csr_array(sp.vstack(part, format="csr")) for part in (hidden, visible)))


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
    return _totals(network, edge_matrix(network), dense.astype(np.uint8))


def _totals(network: Network, weights: sp.csr_array, states: npt.NDArray[np.uint8]) -> FloatArray:
    nodes = slice(0, network.n_visible)
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
    return states


# ---- Boolean products: what a network without noise draws from its states


def boolean_product(U: npt.ArrayLike, V: npt.ArrayLike) -> BinaryArray:
    """Compute ``1[U V >= 1]`` of binary U (n, r) and V (r, p), uint8 (n, p)."""
    left, right = binary_array("U", U, 2), binary_array("V", V, 2)
    if left.shape[1] != len(right):
        raise InvalidDataError(f"U has {left.shape[1]} columns, but V has {len(right)} rows")
    # OpenBLAS may raise the processor's flag from lanes that it does not use; 0 and 1 cannot.
    with np.errstate(invalid="ignore"):
        counts = left.astype(np.float32) @ right.astype(np.float32)  # exact up to 2**24 causes
    return (counts >= 0.5).astype(np.uint8)


def boolean_convolution(
    states: npt.ArrayLike, features: npt.ArrayLike, border: bool = False
) -> BinaryArray:
    """Draw features at their active positions into images, overlaps counted once.

    Parameters
    ----------
    states : binary (n_images, n_components, rows, columns).
    features : binary (n_components, height, width).
    border : positions include those where the feature hangs over the border of the image, as in
        `noisyor.model.state_shape`.

    Returns
    -------
    uint8 (n_images, rows + height - 1, columns + width - 1), or with `border`
    (n_images, rows - height + 1, columns - width + 1).
    """
    active = binary_array("states", states, 4)
    patterns = binary_array("features", features, 3)
    n_images, n_components, rows, columns = active.shape
    if len(patterns) != n_components:
        raise InvalidDataError(
            f"states are of {n_components} components, but there are {len(patterns)} features"
        )
    height, width = patterns.shape[1:]
    images = np.zeros((n_images, rows + height - 1, columns + width - 1), dtype=np.bool_)
    for f, a, b in zip(*np.nonzero(patterns), strict=True):
        images[:, a : a + rows, b : b + columns] |= active[:, f]
    if border:
        if rows < 2 * height - 1 or columns < 2 * width - 1:
            raise InvalidDataError(
                f"{rows} x {columns} positions are too few for features of {height} x {width} "
                "that hang over the border of an image"
            )
        images = images[:, height - 1 : rows, width - 1 : columns]
    return images.astype(np.uint8)


def binary_array(name: str, values: npt.ArrayLike, ndim: int | None = None) -> BoolArray:
    """Return ``values`` as a Boolean array; ``name`` is its name in error messages."""
    array = np.asarray(values)
    if ndim is not None and array.ndim != ndim:
        raise InvalidDataError(f"{name} must have {ndim} axes, got shape {array.shape}")
    if array.dtype != np.bool_:
        if array.dtype.kind not in "iuf" or not ((array == 0) | (array == 1)).all():
            raise InvalidDataError(f"{name} must hold 0 and 1 only")
        array = array.astype(np.bool_)
    return array
