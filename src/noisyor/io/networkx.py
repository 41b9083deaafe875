"""Networks as networkx graphs, and back.

A converted graph holds plain numbers and strings only, so networkx can write it, say as GraphML or
JSON, and what it reads back is the same network.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import IntArray, LongArray
from noisyor.errors import InvalidNetworkError, MissingExtraError
from noisyor.model.layout import Layout, layout_from_json, layout_to_json
from noisyor.model.network import (
    Network,
    failure_from_theta,
    probability_from_theta,
    theta_from_failure,
    theta_from_probability,
)

_META = "noisyor"  # graph attribute with what belongs to no node and no edge


def to_networkx(network: Network) -> Any:
    """Convert a network to a directed graph, parents pointing to children.

    Nodes are keyed by their names, or ``"v0"``, ``"v1"``, ... and ``"h0"``, ``"h1"``, ... where
    the network has none. If a key would stand for two nodes, all are keyed ``"visible:NAME"`` and
    ``"hidden:NAME"``.

    Returns
    -------
    networkx.DiGraph. Node attributes: ``kind`` (``"visible"`` or ``"hidden"``), ``index`` among its
    kind, ``name`` if it has one, and of its leak ``theta``, ``probability``, ``leak_param``,
    ``free``. Edge attributes: ``index``, ``theta``, ``failure_probability``, ``param``, ``free``.

    Examples
    --------
    >>> import noisyor as nor
    >>> graph = nor.io.to_networkx(nor.from_edges(2, 1, [(0, 0), (0, 1)]))
    >>> sorted(graph.edges)
    [('h0', 'v0'), ('h0', 'v1')]
    """
    graph = _networkx().DiGraph()
    keys = _node_keys(network)
    for node, key in enumerate(keys):
        visible = node < network.n_visible
        names = network.visible_names if visible else network.hidden_names
        index = node if visible else node - network.n_visible
        entry = int(network.leak_param[node])
        graph.add_node(
            key,
            kind="visible" if visible else "hidden",
            index=index,
            theta=float(network.theta[entry]),
            probability=float(probability_from_theta(network.theta[entry])),
            leak_param=entry,
            free=bool(network.free[entry]),
            **({} if names is None else {"name": names[index]}),
        )
    for edge in range(network.n_edges):
        entry = int(network.param[edge])
        graph.add_edge(
            keys[network.n_visible + network.parent[edge]],
            keys[network.edge_child[edge]],
            index=edge,
            theta=float(network.theta[entry]),
            failure_probability=float(failure_from_theta(network.theta[entry])),
            param=entry,
            free=bool(network.free[entry]),
        )
    graph.graph[_META] = json.dumps(
        {
            "n_nodes": network.n_nodes,
            "n_edges": network.n_edges,
            "visible_shape": list(network.visible_shape),
            "theta": network.theta.tolist(),
            "free": network.free.tolist(),
            "groups": {name: index.tolist() for name, index in network.groups.items()},
            "layout": layout_to_json(network.layout),
        }
    )
    return graph


def from_networkx(
    graph: Any,
    *,
    failure_probability: float | None = None,
    prior_probability: float | None = None,
    noise_probability: float | None = None,
) -> Network:
    """Build a network from a directed graph whose edges point from cause to effect.

    Takes what `to_networkx` returns, edited or not, and also a plain ``networkx.DiGraph`` with
    ``failure_probability`` (or ``theta``) on the edges and ``probability`` (or ``theta``) on the
    nodes. Nodes without ``kind`` are visible if they have no outgoing edge, otherwise hidden.
    Edges with equal ``param`` share a parameter, so do nodes with equal ``leak_param``;
    ``free=False`` fixes it. If nodes or edges were added or removed since `to_networkx`, theta is
    numbered again and the groups are those of a plain graph.

    Parameters
    ----------
    graph : networkx.DiGraph.
    failure_probability : for edges without one; an error by default.
    prior_probability, noise_probability : for hidden and visible nodes without one.

    Returns
    -------
    Network. Nodes are numbered by their attribute ``index`` if present, otherwise in the order of
    the graph; their names are the attribute ``name``, or the node's key. A plain graph gets groups
    ``"failure"`` (n_edges,), ``"prior"`` (n_hidden,) and ``"noise"`` (n_visible,).

    Examples
    --------
    >>> import networkx as nx
    >>> import noisyor as nor
    >>> graph = nx.DiGraph()
    >>> graph.add_edge("flu", "fever", failure_probability=0.2)
    >>> nor.io.from_networkx(graph, prior_probability=0.1, noise_probability=0.01).hidden_names
    ('flu',)
    """
    _networkx()
    if not graph.is_directed() or graph.is_multigraph():
        raise InvalidNetworkError(
            "expected a networkx.DiGraph: directed, one edge between two nodes"
        )
    meta = json.loads(graph.graph.get(_META, "null"))
    visible, hidden = _split(graph)
    index_of = {key: k for k, key in enumerate(hidden)}
    intact = meta is not None and _is_intact(graph, meta)
    entries = _Entries(meta, intact)
    child_ptr, parent, param = [0], [], []
    for child in [*visible, *hidden]:
        for cause in _by_index(graph.pred[child], lambda key, c=child: graph.edges[key, c]):
            attributes = graph.edges[cause, child]
            where = f"edge {cause!r} -> {child!r}"
            theta = _theta(where, attributes, "failure_probability", failure_probability)
            parent.append(index_of[cause])
            param.append(entries.index(where, attributes, "param", theta))
        child_ptr.append(len(parent))
    leak_param = []
    for node in [*visible, *hidden]:
        where = f"node {node!r}"
        default = prior_probability if node in index_of else noise_probability
        theta = _theta(where, graph.nodes[node], "probability", default)
        leak_param.append(entries.index(where, graph.nodes[node], "leak_param", theta))

    layout: Layout | None = None
    groups: dict[str, npt.NDArray[np.int32]]
    shape = () if meta is None else tuple(meta["visible_shape"])
    if intact:
        groups = {name: np.array(i, dtype=np.int32) for name, i in meta["groups"].items()}
        layout = _layout(meta.get("layout"), np.array(child_ptr), np.array(parent, np.int32))
    else:
        groups = {
            "failure": np.array(param, dtype=np.int32),
            "prior": np.array(leak_param[len(visible) :], dtype=np.int32),
            "noise": np.array(leak_param[: len(visible)], dtype=np.int32),
        }
    return Network(
        n_visible=len(visible),
        n_hidden=len(hidden),
        child_ptr=np.array(child_ptr, dtype=np.int64),
        parent=np.array(parent, dtype=np.int32),
        param=np.array(param, dtype=np.int32),
        leak_param=np.array(leak_param, dtype=np.int32),
        theta=np.array(entries.theta, dtype=np.float64),
        free=np.array(entries.free, dtype=np.bool_),
        groups=groups,
        visible_names=_names(graph, visible, meta),
        hidden_names=_names(graph, hidden, meta),
        visible_shape=shape if int(np.prod(shape)) == len(visible) else (),
        layout=layout,
    )


def _layout(plain: object, child_ptr: LongArray, parent: IntArray) -> Layout | None:
    """Return the layout of a converted network, None if its edges were moved since."""
    layout = layout_from_json(plain)
    if layout is None or layout.n_visible + layout.n_hidden != len(child_ptr) - 1:
        return None
    return layout if layout.describes(child_ptr, parent) else None


def _is_intact(graph: Any, meta: dict[str, Any]) -> bool:
    """Tell whether a converted graph still has its nodes, edges and labels."""
    labels = [d.get("leak_param") for _, d in graph.nodes(data=True)]
    labels += [d.get("param") for _, _, d in graph.edges(data=True)]
    return (
        graph.number_of_nodes() == meta["n_nodes"]
        and graph.number_of_edges() == meta["n_edges"]
        and all(isinstance(i, int) and 0 <= i < len(meta["theta"]) for i in labels)
    )


class _Entries:
    """Entries of theta collected from nodes and edges, one per label."""

    def __init__(self, meta: dict[str, Any] | None, intact: bool) -> None:
        self.theta: list[float] = list(meta["theta"]) if meta and intact else []
        self.free: list[bool] = list(meta["free"]) if meta and intact else []
        self._one_space = meta is not None  # edges and leaks are labelled by entries of one theta
        self._of_label: dict[Hashable, int] = {k: k for k in range(len(self.theta))}
        self._first_use: dict[int, str] = {}

    def index(self, where: str, attributes: dict[str, Any], label_name: str, theta: float) -> int:
        """Return the entry of an edge or leak with this parameter; a new one for a new label."""
        label, free = attributes.get(label_name), attributes.get("free")
        entry = len(self.theta)
        if label is not None:
            key = label if self._one_space else (label_name, label)
            entry = self._of_label.setdefault(key, entry)
        if entry == len(self.theta):
            self.theta.append(theta)
            self.free.append(True)
        if entry not in self._first_use:
            self._first_use[entry] = where
            self.theta[entry] = theta
            self.free[entry] = self.free[entry] if free is None else bool(free)
        elif self.theta[entry] != theta or free not in (None, self.free[entry]):
            raise InvalidNetworkError(
                f"{where} shares a parameter ({label_name}={label!r}) with "
                f"{self._first_use[entry]}, but their theta or free differ"
            )
        return entry


def _theta(where: str, attributes: dict[str, Any], name: str, default: float | None) -> float:
    """Return the parameter from ``theta`` or the probability `name`, which must agree."""
    convert = theta_from_failure if name == "failure_probability" else theta_from_probability
    back = failure_from_theta if name == "failure_probability" else probability_from_theta
    theta, probability = attributes.get("theta"), attributes.get(name)
    if theta is not None:
        if probability is not None and not np.isclose(
            back(theta), probability, rtol=1e-6, atol=1e-9
        ):
            raise InvalidNetworkError(
                f"{where} has theta={theta:g}, that is {name}={float(back(theta)):g}, but it "
                f"also has {name}={probability:g}; set one of them and delete the other"
            )
        return float(theta)
    if probability is None:
        probability = default
    if probability is None:
        raise InvalidNetworkError(f"{where} has neither the attribute {name!r} nor 'theta'")
    try:
        return float(convert(probability))
    except InvalidNetworkError as error:
        raise InvalidNetworkError(f"{where}: {error}") from None


def _split(graph: Any) -> tuple[list[Hashable], list[Hashable]]:
    """Return the visible and the hidden nodes, each in the order of their numbers."""
    kinds: dict[Hashable, str] = {}
    for node, attributes in graph.nodes(data=True):
        kind = attributes.get("kind", "hidden" if graph.out_degree(node) else "visible")
        if kind not in ("visible", "hidden"):
            raise InvalidNetworkError(
                f"kind of node {node!r} must be visible or hidden, got {kind!r}"
            )
        if kind == "visible" and graph.out_degree(node):
            child = next(iter(graph.successors(node)))
            raise InvalidNetworkError(
                f"visible node {node!r} has the child {child!r}; a visible node cannot be a parent"
            )
        kinds[node] = kind
    ordered = _by_index(kinds, lambda node: graph.nodes[node])
    return (
        [node for node in ordered if kinds[node] == "visible"],
        [node for node in ordered if kinds[node] == "hidden"],
    )


def _by_index(keys: Iterable[Hashable], attributes: Any) -> list[Hashable]:
    """Sort by the attribute ``index``; those without it come last, in the given order."""
    return sorted(keys, key=lambda key: attributes(key).get("index", np.inf))


def _names(graph: Any, nodes: list[Hashable], meta: object) -> tuple[str, ...] | None:
    """Return names or else keys of nodes; None if a converted network had no names."""
    if meta is not None and not any("name" in graph.nodes[node] for node in nodes):
        return None
    return tuple(str(graph.nodes[node].get("name", node)) for node in nodes)


def _node_keys(network: Network) -> list[str]:
    """Return a unique name for every node, visible nodes first."""
    visible = network.visible_names or [f"v{i}" for i in range(network.n_visible)]
    hidden = network.hidden_names or [f"h{k}" for k in range(network.n_hidden)]
    keys = [*visible, *hidden]
    if len(set(keys)) == len(keys):
        return keys
    return [f"visible:{name}" for name in visible] + [f"hidden:{name}" for name in hidden]


def _networkx() -> Any:
    try:
        import networkx
    except ImportError:
        raise MissingExtraError.of("this needs networkx", "export") from None
    return networkx
