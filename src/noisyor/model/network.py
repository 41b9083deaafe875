"""The noisy-OR Bayesian network: a DAG of binary nodes and the parameters on its edges.

Nodes are numbered visibles first: node ``i < n_visible`` is visible, node ``n_visible + k`` is
hidden node ``k``. Every node has a leak. Node ``i`` with parents ``P(i)`` stays off with
probability ``exp(-(theta_leak + sum of theta over its active parents))``.

Several edges may use one entry of ``theta`` (tied parameters), and entries may be fixed. An edge or
leak with parameter ``theta`` leaves its node off with probability ``exp(-theta)``. For an edge that
is the failure probability of the parent; for a leak, one minus the probability that the node is on
by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BoolArray, FloatArray, IntArray, LongArray, pointers
from noisyor.data.columns import align
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, InvalidNetworkError
from noisyor.model.layout import ConvolutionalLayout

THETA_MIN = 1e-5
"""Smallest parameter: the paper's epsilon, below which log-likelihood gradients explode."""

THETA_MAX = 1e6
"""Largest parameter. exp(-theta) is 0 for far smaller values, and sums with larger parameters lose
digits."""

_MAX_THETA_OF_PROBABILITY = -np.log(
    np.finfo(np.float64).tiny
)  # exp(-theta) is still a normal number


@dataclass(frozen=True, eq=False)
class Network:
    """A noisy-OR Bayesian network, from `bipartite`, `convolutional`, `layered` or `from_edges`.

    Attributes
    ----------
    n_visible, n_hidden : numbers of visible and of hidden nodes.
    child_ptr : (n_nodes + 1,) edges of node ``i`` are ``child_ptr[i]:child_ptr[i + 1]``.
    parent : (n_edges,) hidden index (0 .. n_hidden - 1) of the edge's parent.
    param : (n_edges,) entry of ``theta`` that the edge uses.
    leak_param : (n_nodes,) entry of ``theta`` that the node's leak uses.
    theta : (n_params,) parameters, at least ``THETA_MIN`` after training.
    free : (n_params,) True where training may change the entry.
    groups : named views on ``theta``: name -> array of entries, of any shape. The builders provide
        ``"failure"``, ``"prior"`` and ``"noise"``.
    visible_names, hidden_names : optional names of the nodes.
    visible_shape : shape of one observation, ``(n_visible,)`` or that of an image.
    layout : sizes of images and features of a `convolutional` network, otherwise None.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(n_visible=3, n_hidden=2, failure_probability=0.2)
    >>> network
    Network(n_visible=3, n_hidden=2, layers=1, edges=6, parameters=9, free=9)
    >>> network.failure_probability.shape
    (2, 3)
    """

    n_visible: int
    n_hidden: int
    child_ptr: LongArray
    parent: IntArray
    param: IntArray
    leak_param: IntArray
    theta: FloatArray
    free: BoolArray
    groups: Mapping[str, IntArray] = field(default_factory=dict)
    visible_names: tuple[str, ...] | None = None
    hidden_names: tuple[str, ...] | None = None
    visible_shape: tuple[int, ...] = ()
    layout: ConvolutionalLayout | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "child_ptr", _frozen(self.child_ptr, np.int64))
        put(self, "parent", _frozen(self.parent, np.int32))
        put(self, "param", _frozen(self.param, np.int32))
        put(self, "leak_param", _frozen(self.leak_param, np.int32))
        put(self, "theta", _frozen(self.theta, np.float64))
        put(self, "free", _frozen(self.free, np.bool_))
        groups = {name: _frozen(index, np.int32) for name, index in self.groups.items()}
        put(self, "groups", groups)
        put(self, "visible_shape", tuple(self.visible_shape) or (self.n_visible,))
        for name in ("visible_names", "hidden_names"):
            value = getattr(self, name)
            put(self, name, None if value is None else tuple(str(item) for item in value))
        _check_shapes(self)
        _check_theta(self.theta, len(self.theta))
        _check_graph(self)
        _check_layout(self)
        self.engine_cache  # noqa: B018  created here so that copies share it

    # ---- sizes

    @property
    def n_nodes(self) -> int:
        """Number of visible and hidden nodes; the leak is not a node."""
        return self.n_visible + self.n_hidden

    @property
    def n_edges(self) -> int:
        """Number of edges between nodes, leaks not counted."""
        return len(self.parent)

    @property
    def n_params(self) -> int:
        """Number of distinct parameters."""
        return len(self.theta)

    # ---- parameters

    def with_theta(self, theta: npt.ArrayLike) -> Network:
        """Return the same graph with other parameters (n_params,). Cheap: the graph is shared."""
        values = np.array(theta, dtype=np.float64)
        _check_theta(values, self.n_params)
        values.flags.writeable = False
        other = object.__new__(type(self))  # shares the cached views of the graph, too
        other.__dict__.update(self.__dict__, theta=values)
        return other

    def group(self, name: str) -> IntArray:
        """Return the entries of ``theta`` that belong to a named group."""
        if name not in self.groups:
            raise InvalidNetworkError(
                f"no parameter group {name!r} in this network, it has {sorted(self.groups)}"
            )
        return self.groups[name]

    def theta_of(self, name: str) -> FloatArray:
        """Return the parameters of a group, in the group's shape."""
        return self.theta[self.group(name)]

    @property
    def failure_probability(self) -> FloatArray:
        """Failure probabilities of the edges, in the shape of the group ``"failure"``.

        Bipartite: (n_hidden, n_visible). Convolutional: (n_components, height, width). Others:
        one value per edge.
        """
        index = self.groups.get("failure", self.param)
        return failure_from_theta(self.theta[index])

    @property
    def prior_probability(self) -> FloatArray:
        """Probability of each hidden node when its parents are off, shape (n_hidden,)."""
        return probability_from_theta(self.theta[self.leak_param[self.n_visible :]])

    @property
    def noise_probability(self) -> FloatArray:
        """Probability of each visible node when all hidden nodes are off, shape (n_visible,)."""
        return probability_from_theta(self.theta[self.leak_param[: self.n_visible]])

    @cached_property
    def roles(self) -> npt.NDArray[np.str_]:
        """Use of each parameter, shape (n_params,): failure, prior, noise or unused.

        An entry that is tied across roles has the first of these roles that applies.
        """
        roles = np.full(self.n_params, "unused", dtype="U7")
        roles[self.leak_param[: self.n_visible]] = "noise"
        roles[self.leak_param[self.n_visible :]] = "prior"
        roles[self.param] = "failure"
        return roles

    # ---- views of the graph

    @cached_property
    def edge_child(self) -> IntArray:
        """Node index of the child of each edge, shape (n_edges,)."""
        return np.repeat(
            np.arange(self.n_nodes, dtype=np.int32), np.diff(self.child_ptr).astype(np.int64)
        )

    @cached_property
    def outgoing(self) -> tuple[LongArray, LongArray]:
        """Edges by parent: ``(ptr, edge)``; those of hidden k are ``edge[ptr[k]:ptr[k + 1]]``."""
        edge = np.argsort(self.parent, kind="stable")
        return pointers(np.bincount(self.parent, minlength=self.n_hidden)), edge

    @cached_property
    def engine_cache(self) -> dict[str, Any]:
        """Data that engines derive from the graph alone, shared by all networks with this graph."""
        return {}

    @cached_property
    def hidden_levels(self) -> IntArray:
        """Longest distance of each hidden node from a node without parents, shape (n_hidden,)."""
        return _levels(self)

    @property
    def n_layers(self) -> int:
        """Number of hidden levels."""
        return int(self.hidden_levels.max()) + 1

    def visible_index(self, name: str | int) -> int:
        """Return the index of a visible node from its name or number."""
        return _lookup(name, self.visible_names, self.n_visible, "visible")

    def hidden_index(self, name: str | int) -> int:
        """Return the index of a hidden node from its name or number."""
        return _lookup(name, self.hidden_names, self.n_hidden, "hidden")

    def rows_of(self, X: Any) -> Observations:
        """Return data in the columns of the network: by name if both have names, else in order."""
        rows = Observations.of(X, n_visible=self.n_visible)
        return align(rows, self.visible_names, self.n_visible, self.visible_shape, "X")[0]

    def __getstate__(self) -> dict[str, Any]:
        # What an engine derived is rebuilt where the network is read: layouts may differ there.
        return {**self.__dict__, "engine_cache": {}}

    def __repr__(self) -> str:
        return (
            f"Network(n_visible={self.n_visible}, n_hidden={self.n_hidden}, "
            f"layers={self.n_layers}, edges={self.n_edges}, parameters={self.n_params}, "
            f"free={int(self.free.sum())})"
        )


def _frozen(array: npt.ArrayLike, dtype: type) -> npt.NDArray[Any]:
    result: npt.NDArray[Any] = np.array(array, dtype=dtype)
    result.flags.writeable = False
    return result


def _lookup(name: str | int, names: Sequence[str] | None, size: int, kind: str) -> int:
    if isinstance(name, str):
        if names is None or name not in names:
            raise InvalidNetworkError(f"no {kind} node is named {name!r}")
        return names.index(name)
    index = int(name)
    if not 0 <= index < size:
        raise InvalidNetworkError(f"{kind} node {index} does not exist, there are {size}")
    return index


def _check_shapes(network: Network) -> None:
    n_nodes, n_edges = network.n_nodes, len(network.parent)
    if network.n_visible < 1 or network.n_hidden < 1:
        raise InvalidNetworkError(
            "a network needs at least one visible and one hidden node, "
            f"got {network.n_visible} and {network.n_hidden}"
        )
    expected = {
        "child_ptr": (len(network.child_ptr), n_nodes + 1),
        "param": (len(network.param), n_edges),
        "leak_param": (len(network.leak_param), n_nodes),
        "free": (len(network.free), len(network.theta)),
        "visible_shape": (int(np.prod(network.visible_shape)), network.n_visible),
    }
    if network.visible_names is not None:
        expected["visible_names"] = (len(network.visible_names), network.n_visible)
    if network.hidden_names is not None:
        expected["hidden_names"] = (len(network.hidden_names), network.n_hidden)
    for name, (came, wanted) in expected.items():
        if came != wanted:
            raise InvalidNetworkError(f"{name} has {came} entries, expected {wanted}")
    ptr = network.child_ptr
    if ptr[0] != 0 or ptr[-1] != n_edges or (np.diff(ptr) < 0).any():
        raise InvalidNetworkError("child_ptr must rise from 0 to the number of edges")
    for name in ("visible_names", "hidden_names"):
        names = getattr(network, name)
        if names is not None and len(set(names)) != len(names):
            twice = Counter(names).most_common(1)[0][0]
            raise InvalidNetworkError(f"{name} must be distinct, {twice!r} occurs twice")
    for name, index, bound in [
        ("param", network.param, len(network.theta)),
        ("leak_param", network.leak_param, len(network.theta)),
        *((f"group {key!r}", value, len(network.theta)) for key, value in network.groups.items()),
    ]:
        if index.size and (index.min() < 0 or index.max() >= bound):
            raise InvalidNetworkError(
                f"{name} points outside theta: entries must lie in 0..{bound - 1}"
            )


def _check_theta(theta: FloatArray, n_params: int) -> None:
    if theta.shape != (n_params,):
        raise InvalidNetworkError(f"theta must have shape ({n_params},), got {theta.shape}")
    bad = ~((theta >= 0) & (theta <= THETA_MAX))
    if bad.any():
        where = int(np.flatnonzero(bad)[0])
        raise InvalidNetworkError(
            f"parameters must lie in 0..{THETA_MAX:g}, theta[{where}] is {theta[where]!r}"
        )


def _check_graph(network: Network) -> None:
    parent, child = network.parent, network.edge_child
    if parent.size and (parent.min() < 0 or parent.max() >= network.n_hidden):
        where = int(np.flatnonzero((parent < 0) | (parent >= network.n_hidden))[0])
        raise InvalidNetworkError(
            f"edge {where} has parent {parent[where]}; parents are hidden nodes "
            f"0..{network.n_hidden - 1}, a visible node cannot be a parent"
        )
    key = child.astype(np.int64) * network.n_hidden + parent
    ordered = np.sort(key)
    twice = ordered[1:] == ordered[:-1]
    if twice.any():
        bad = int(ordered[:-1][twice][0])
        node, first = bad // network.n_hidden, network.n_visible
        to = f"visible {node}" if node < first else f"hidden {node - first}"
        raise InvalidNetworkError(
            f"the edge from hidden {bad % network.n_hidden} to {to} occurs twice"
        )
    if (network.hidden_levels < 0).any():
        nodes = np.flatnonzero(network.hidden_levels < 0)[:5].tolist()
        raise InvalidNetworkError(f"the graph has a cycle through or above hidden nodes {nodes}")
    every = np.ones(network.n_visible, dtype=np.bool_)
    unreachable = np.setdiff1d(np.arange(network.n_hidden), _above(network, every))
    if unreachable.size:
        raise InvalidNetworkError(
            f"{unreachable.size} hidden nodes have no visible descendant, so data cannot "
            f"inform them: {unreachable[:5].tolist()}; remove them"
        )


def _check_layout(network: Network) -> None:
    layout = network.layout
    if layout is None:
        return
    for name, came, wanted in (
        ("n_visible", layout.n_visible, network.n_visible),
        ("n_hidden", layout.n_hidden, network.n_hidden),
    ):
        if came != wanted:
            raise InvalidNetworkError(f"the layout has {name}={came}, but the network has {wanted}")
    shape = network.groups["failure"].shape if "failure" in network.groups else None
    expected = (layout.n_components, *layout.feature_shape)
    if shape != expected or network.visible_shape != layout.image_shape:
        raise InvalidNetworkError(
            f"the layout has features of shape {expected} in images of {layout.image_shape}, but "
            f"the group 'failure' has shape {shape} and an observation {network.visible_shape}"
        )


def _levels(network: Network) -> IntArray:
    """Return the level of every hidden node, -1 for those on or below a cycle."""
    n_hidden, first = network.n_hidden, network.n_visible
    start = int(network.child_ptr[first])
    parent = network.parent[start:]
    child = network.edge_child[start:] - first
    waiting = np.bincount(child, minlength=n_hidden)
    order = np.argsort(parent, kind="stable")
    ptr = np.searchsorted(parent[order], np.arange(n_hidden + 1))
    levels = np.full(n_hidden, -1, dtype=np.int32)
    frontier, level = np.flatnonzero(waiting == 0), 0
    while frontier.size:
        levels[frontier] = level
        edges = np.concatenate([order[ptr[k] : ptr[k + 1]] for k in frontier])
        reached = child[edges]
        np.subtract.at(waiting, reached, 1)
        frontier = np.unique(reached[waiting[reached] == 0])
        level += 1
    return levels


def _above(network: Network, observed: BoolArray) -> LongArray:
    """Return the hidden nodes above some visible nodes, a mask (n_visible,)."""
    reached = np.r_[observed, np.zeros(network.n_hidden, dtype=np.bool_)]
    while True:  # one level upwards a round
        above = np.unique(network.parent[reached[network.edge_child]]) + network.n_visible
        if reached[above].all():
            return np.flatnonzero(reached[network.n_visible :])
        reached[above] = True


# ---- parameters and the probabilities they stand for


class FittedModel(Protocol):
    """Anything with a learned network, such as a fitted estimator."""

    network_: Network


def network_of(model: Network | FittedModel) -> Network:
    """Return the network of a fitted estimator; return a network unchanged."""
    if isinstance(model, Network):
        return model
    network = getattr(model, "network_", None)
    if isinstance(network, Network):
        return network
    name = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
    if hasattr(model, "fit") and not isinstance(model, type):
        raise InvalidNetworkError(f"this {name} is not fitted yet; call fit first")
    raise InvalidNetworkError(f"expected a network or a fitted estimator, got {name}")


def theta_from_failure(probability: npt.ArrayLike) -> FloatArray:
    """Return the parameter of an edge with this failure probability."""
    failure = _probability(probability, "failure probability")
    with np.errstate(divide="ignore"):
        return np.clip(-np.log(failure), THETA_MIN, _MAX_THETA_OF_PROBABILITY)


def failure_from_theta(theta: npt.ArrayLike) -> FloatArray:
    """Return the failure probability ``exp(-theta)`` of an edge."""
    return np.exp(-np.asarray(theta, dtype=np.float64))


def theta_from_probability(probability: npt.ArrayLike) -> FloatArray:
    """Return the leak parameter of a node with this probability when its parents are off."""
    on = _probability(probability, "probability")
    with np.errstate(divide="ignore"):
        return np.clip(-np.log1p(-on), THETA_MIN, _MAX_THETA_OF_PROBABILITY)


def probability_from_theta(theta: npt.ArrayLike) -> FloatArray:
    """Return ``1 - exp(-theta)``: that a leak, or an active parent, switches its node on."""
    return -np.expm1(-np.asarray(theta, dtype=np.float64))


def _probability(value: npt.ArrayLike, what: str) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    bad = ~((array >= 0) & (array <= 1))
    if bad.any():
        raise InvalidNetworkError(
            f"a {what} must lie between 0 and 1, got {float(array[bad].flat[0])} "
            f"({int(bad.sum())} such values)"
        )
    return array


# ---- barren nodes removed: the part of a network that matters for a row
#
# A node that is not observed and has nothing observed below it says nothing about other nodes, so
# it can be left out. A handful of findings in a network of thousands leaves little to work on.


class Subnetwork(NamedTuple):
    """A part of a network and of a row, and the indices of its nodes in the whole.

    ``network`` and ``row`` are the part; its visible nodes are ``visible`` and its hidden nodes
    ``hidden`` of the whole, both as rising indices.
    """

    network: Network
    row: Observations
    visible: LongArray
    hidden: LongArray


def relevant_subnetwork(network: Network, row: Observations) -> Subnetwork:
    """Return the part of a network that a row depends on: observed nodes and their ancestors."""
    observed = np.ones(row.n_visible, dtype=np.bool_)
    observed[row.missing_columns[row.missing_ptr[0] : row.missing_ptr[1]]] = False
    visible, hidden = np.flatnonzero(observed), _above(network, observed)
    if not len(hidden):
        raise InvalidDataError("nothing was observed that any cause could explain")
    if len(visible) == network.n_visible and len(hidden) == network.n_hidden:
        return Subnetwork(network, row, visible, hidden)
    present = np.searchsorted(visible, row.columns[row.ptr[0] : row.ptr[1]])
    part = Observations.from_indices([present], len(visible), row_ids=row.row_ids)
    return Subnetwork(_part(network, visible, hidden), part, visible, hidden)


def _part(network: Network, visible: LongArray, hidden: LongArray) -> Network:
    """Return the network of some visible nodes and all hidden nodes above them."""
    nodes = np.concatenate([visible, network.n_visible + hidden])
    new_number = np.full(network.n_hidden, -1, dtype=np.int64)
    new_number[hidden] = np.arange(len(hidden))
    edges = np.concatenate(
        [np.arange(network.child_ptr[i], network.child_ptr[i + 1]) for i in nodes]
    )
    counts = np.diff(network.child_ptr)[nodes]
    # Only the parameters that are used: a few findings of a large network have few.
    entries = np.r_[network.param[edges], network.leak_param[nodes]]
    used, number = np.unique(entries, return_inverse=True)
    return Network(
        n_visible=len(visible),
        n_hidden=len(hidden),
        child_ptr=np.concatenate([[0], np.cumsum(counts)]),
        parent=new_number[network.parent[edges]].astype(np.int32),
        param=number[: len(edges)].astype(np.int32),
        leak_param=number[len(edges) :].astype(np.int32),
        theta=network.theta[used],
        free=network.free[used],
    )
