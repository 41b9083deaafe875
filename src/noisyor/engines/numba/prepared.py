"""A network in the layout of the kernels. What depends on the graph alone is kept with it."""

from __future__ import annotations

from functools import cached_property

from noisyor.engines.numba.graph import Graph, Parameters, graph_of, parameters_of
from noisyor.engines.numba.mean_field.entry import Prepared as PreparedMeanField
from noisyor.network.graph import Network


class Prepared:
    """The padded graph, and the parameters spread over its edges when they are first needed."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.graph: Graph = graph_of(network)

    @cached_property
    def parameters(self) -> Parameters:
        """For max-product, log p(h, x) and sampling."""
        return parameters_of(self.graph, self.network.theta)

    @cached_property
    def mean_field(self) -> PreparedMeanField:
        """For mean-field."""
        return PreparedMeanField(self.network, self.graph)
