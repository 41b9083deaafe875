"""Convert networks to NetworkX graphs, which write GraphML, JSON and tables of edges."""

from __future__ import annotations

from typing import Any

from noisyor.errors import MissingExtraError
from noisyor.model.network import Network, failure_from_theta, probability_from_theta


def to_networkx(network: Network) -> Any:
    """Convert a network to a directed graph, parents pointing to children.

    Nodes are keyed by their names, or ``"v0"``, ``"v1"``, ... and ``"h0"``, ``"h1"``, ... where the
    network has none. If a key would belong to two nodes, all are keyed ``"visible:NAME"`` and
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
    try:
        import networkx
    except ImportError:
        raise MissingExtraError.of("this needs networkx", "export") from None
    graph = networkx.DiGraph()
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
    return graph


def _node_keys(network: Network) -> list[str]:
    """Return a unique name for every node, visible nodes first."""
    visible = network.visible_names or [f"v{i}" for i in range(network.n_visible)]
    hidden = network.hidden_names or [f"h{k}" for k in range(network.n_hidden)]
    keys = [*visible, *hidden]
    if len(set(keys)) == len(keys):
        return keys
    return [f"visible:{name}" for name in visible] + [f"hidden:{name}" for name in hidden]
