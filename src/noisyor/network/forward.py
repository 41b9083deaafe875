"""Run the model forwards: ancestral samples, and what causes predict about the visibles."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor._util.arrays import FloatArray
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.network.graph import Network, probability_from_theta

_BLOCK_CELLS = 4_000_000


class Sample(NamedTuple):
    """Causes, sparse (n_rows, n_hidden), and visibles, sparse (n_rows, n_visible), both uint8."""

    hidden: sp.csr_array
    visible: sp.csr_array


def sample(network: Network, n_rows: int, seed: int = 0) -> Sample:
    """Draw rows from the model, parents before children.

    Row r depends on (seed, r) alone: asking for more rows leaves the first ones as they are.
    """
    if n_rows < 1:
        raise InvalidSettingError(f"the number of rows must be at least 1, got {n_rows}")
    hidden, visible = [], []
    weights = _weights(network)
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
    """Probability of every visible given the causes, dense (n_rows, n_visible).

    ``states`` (n_rows, n_hidden) of 0/1, dense or sparse.
    """
    dense = states.toarray() if sp.issparse(states) else np.asarray(states)
    if dense.ndim != 2 or dense.shape[1] != network.n_hidden:
        raise InvalidDataError(
            f"states must have shape (n_rows, {network.n_hidden}), got {dense.shape}"
        )
    totals = _totals(network, _weights(network), dense.astype(np.uint8), visible=True)
    return probability_from_theta(totals)


def _weights(network: Network) -> sp.csr_array:
    """theta of the edges, sparse (n_nodes, n_hidden)."""
    return sp.csr_array(
        (network.theta[network.param], network.parent, network.child_ptr),
        shape=(network.n_nodes, network.n_hidden),
    )


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
        totals = states @ weights[network.n_visible + nodes].T.toarray()
        totals += network.theta[network.leak_param[network.n_visible + nodes]]
        states[:, nodes] = uniform[:, nodes] < probability_from_theta(totals)
    return states


def _blocks(n_rows: int, width: int) -> list[tuple[int, int]]:
    size = max(1, _BLOCK_CELLS // width)
    return [(begin, min(begin + size, n_rows)) for begin in range(0, n_rows, size)]


def _stack(parts: list[sp.csr_array]) -> sp.csr_array:
    return parts[0] if len(parts) == 1 else sp.csr_array(sp.vstack(parts, format="csr"))
