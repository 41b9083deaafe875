"""Prior of the parameters, as pseudo-counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor.model.network import Network

__all__ = ["BetaPrior", "smoothing_prior"]

_EDGE_ROWS, _EDGE_SHARE = 0.1, 0.1
"""Prior of an edge: pseudo-rows for each one of a leak, and the share in which the edge works."""


class BetaPrior(NamedTuple):
    """Beta prior on the probability that an edge or leak switches its node on.

    ``on``, ``off`` (n_params,): pseudo-counts of rows in which it did, and in which it did not, as
    shares of the training rows. With ``p = 1 - exp(-theta)`` the log-density is, up to a constant,
    ``on * log(p) + off * log(1 - p)``; its derivative by theta is ``on / expm1(theta) - off``.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> nor.learning.BetaPrior(on=np.array([0.02]), off=np.array([0.02])).on
    array([0.02])
    """

    on: FloatArray
    off: FloatArray


def smoothing_prior(network: Network, smoothing: float, n_rows: float) -> BetaPrior | None:
    """Prior that counts as much as ``smoothing`` rows; None for none.

    A leak gets so many pseudo-rows in which its node came on by itself and as many in which it did
    not. An edge gets a tenth of that, and fails in nine of ten. Without a prior, a hidden node
    claims every column that was on, for whatever reason, in each of its rows.

    Parameters
    ----------
    network : gives the roles of the parameters.
    smoothing : strength of the prior, in rows.
    n_rows : number of training rows, or the sum of their weights.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(n_visible=1, n_hidden=1)
    >>> prior = nor.learning.smoothing_prior(network, 2.0, n_rows=100)
    >>> dict(zip(network.roles.tolist(), prior.on.round(4).tolist()))
    {'failure': 0.0002, 'prior': 0.02, 'noise': 0.02}
    """
    if not smoothing:
        return None
    roles, rows = network.roles, smoothing / n_rows
    edge = roles == "failure"
    on = np.where(edge, _EDGE_ROWS * _EDGE_SHARE * rows, rows)
    off = np.where(edge, _EDGE_ROWS * (1.0 - _EDGE_SHARE) * rows, rows)
    used = roles != "unused"
    return BetaPrior(on * used, off * used)
