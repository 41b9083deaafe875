"""Write networks in the formats of other programs: GraphML, JSON and CSV."""

from __future__ import annotations

import io
import json
import re
from typing import Literal

from noisyor._util.files import csv_content
from noisyor.errors import InvalidNetworkError, InvalidSettingError
from noisyor.io.networkx import to_networkx
from noisyor.model.names import hidden_label, visible_label
from noisyor.model.network import Network, failure_from_theta, probability_from_theta

Target = Literal["graphml", "json", "csv"]
TARGETS: tuple[Target, ...] = ("graphml", "json", "csv")

# What XML 1.0 cannot hold in any form.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def export_network(network: Network, to: Target) -> bytes:
    """Return the network as the content of a file of another program.

    Parameters
    ----------
    network : the network.
    to : ``"graphml"``: NetworkX and Gephi read it. ``"json"``: NetworkX's node-link form, that D3
        also reads. ``"csv"``: a line for each edge and each leak, for spreadsheets; a name that a
        spreadsheet would read as a formula gets an apostrophe. GraphML and JSON keep everything:
        `from_networkx` restores the same network.

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


def _graphml(network: Network) -> bytes:
    graph = to_networkx(network)
    import networkx

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
    graph = to_networkx(network)
    import networkx

    plain = networkx.node_link_data(graph, edges="edges")
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
