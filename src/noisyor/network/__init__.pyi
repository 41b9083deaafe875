from .boolean import binary_array, boolean_convolution, boolean_product
from .builders import bipartite, convolutional, from_edges
from .cooccurrence import layer_sizes, layered
from .forward import Sample, edge_matrix, prior_marginals, sample, visible_probability
from .graph import Network
from .labels import hidden_label, hidden_names, strongest_visibles, visible_label
from .layout import (
    BipartiteLayout,
    ConvolutionalLayout,
    LayeredLayout,
    Layout,
    Placement,
    activation_shape,
)
from .parameters import (
    THETA_MIN,
    failure_from_theta,
    probability_from_theta,
    theta_from_failure,
    theta_from_probability,
)
from .subnetwork import Subnetwork, relevant_subnetwork

__all__ = [
    "THETA_MIN",
    "BipartiteLayout",
    "ConvolutionalLayout",
    "LayeredLayout",
    "Layout",
    "Network",
    "Placement",
    "Sample",
    "Subnetwork",
    "activation_shape",
    "binary_array",
    "bipartite",
    "boolean_convolution",
    "boolean_product",
    "convolutional",
    "edge_matrix",
    "failure_from_theta",
    "from_edges",
    "hidden_label",
    "hidden_names",
    "layer_sizes",
    "layered",
    "prior_marginals",
    "probability_from_theta",
    "relevant_subnetwork",
    "sample",
    "strongest_visibles",
    "theta_from_failure",
    "theta_from_probability",
    "visible_label",
    "visible_probability",
]
