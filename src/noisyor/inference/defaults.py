"""How hidden states are inferred when nobody says how."""

from __future__ import annotations

from noisyor.inference.max_product import MaxProduct
from noisyor.network.graph import Network

__all__ = ["POLISH", "method_for"]

POLISH = 20
"""Sweeps of single flips after max-product; far fewer are enough for most rows."""


def method_for(network: Network) -> MaxProduct:
    """The mode, polished; in deep networks only the ancestors of what is on are looked at.

    >>> import noisyor as nor
    >>> method_for(nor.bipartite(n_visible=3, n_hidden=2)).ancestors_only
    False
    """
    return MaxProduct(polish=POLISH, ancestors_only=network.n_layers > 1)
