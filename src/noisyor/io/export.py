"""Write networks for other programs: as NetworkX graphs, GraphML, JSON and CSV."""

from __future__ import annotations

import io
import json
import re
from typing import Any, Literal

from noisyor._util.files import csv_content
from noisyor.errors import InvalidNetworkError, InvalidSettingError, MissingExtraError
from noisyor.model.names import hidden_label, visible_label
from noisyor.model.network import Network, failure_from_theta, probability_from_theta

Target = Literal["graphml", "json", "csv"]
TARGETS: tuple[Target, ...] = ("graphml", "json", "csv")

# What XML 1.0 cannot hold in any form.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def export_network(network: Network, to: Target) -> bytes:
    """Return the network as the content of a file for another program.

    Parameters
    ----------
    network : the network.
    to : ``"graphml"``: NetworkX and Gephi read it. ``"json"``: NetworkX's node-link form, that D3
        also reads. ``"csv"``: a line for each edge and each leak, for spreadsheets; a name that a
        spreadsheet would read as a formula gets an apostrophe.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.from_edges(1, 1, [(0, 0)], failure_probability=0.5)
    >>> print(nor.io.export_network(network, "csv").decode().splitlines()[0])
    role,cause,effect,theta,probability,parameter,free
    """
    writers = {"graphml": _graphml, "json": _json, "csv": _csv}
    if to not in writers:
        raise InvalidSettingError(f"the target must be one of {', '.join(TARGETS)}, got {to!r}")
    return writers[to](network)


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
    return graph


def _graphml(network: Network) -> bytes:
    networkx, graph = _networkx(), to_networkx(network)
    for name in (*(network.visible_names or ()), *(network.hidden_names or ())):
        found = _NOT_XML.search(name)
        if found is not None:
            raise InvalidNetworkError(
                f"GraphML cannot hold the character {found[0]!r} in the name {name!r}"
            )
    stream = io.BytesIO()
    networkx.write_graphml(graph, stream)
    return stream.getvalue()


def _json(network: Network) -> bytes:
    plain = _networkx().node_link_data(to_networkx(network), edges="edges")
    return (json.dumps(plain, indent=1) + "\n").encode()


def _csv(network: Network) -> bytes:
    """Write one line per parameter use: role, cause, effect, theta and its probability."""
    rows: list[list[object]] = [
        ["role", "cause", "effect", "theta", "probability", "parameter", "free"]
    ]
    names = [
        *(visible_label(network, i) for i in range(network.n_visible)),
        *(hidden_label(network, k) for k in range(network.n_hidden)),
    ]

    def line(role: str, cause: str, effect: str, entry: int) -> None:
        theta = float(network.theta[entry])
        probability = (
            failure_from_theta(theta) if role == "failure" else probability_from_theta(theta)
        )
        numbers = [repr(theta), repr(float(probability)), entry, int(network.free[entry])]
        rows.append([role, cause, effect, *numbers])

    for edge in range(network.n_edges):
        cause = names[network.n_visible + int(network.parent[edge])]
        line("failure", cause, names[int(network.edge_child[edge])], int(network.param[edge]))
    for node, name in enumerate(names):
        role = "noise" if node < network.n_visible else "prior"
        line(role, "", name, int(network.leak_param[node]))
    return csv_content(rows)


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
