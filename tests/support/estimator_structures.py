"""A structure for estimators of any graph, in a module of its own: pickles name the module."""

from __future__ import annotations

import noisyor as nor


def one_layer(rows):
    """Four causes above all columns, from a start that the seed of the fit has no part in."""
    network = nor.bipartite(rows.n_visible, 4, noise_probability=0.05, fixed="noise")
    return nor.initialize(network, noise="uniform", seed=5)
