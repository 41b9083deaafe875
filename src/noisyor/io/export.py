"""Learned networks in the formats of other programs: GraphML, JSON, BIF, CSV."""

from __future__ import annotations

import io
import itertools
import json
import re
from typing import Literal

import numpy as np

from noisyor._util.files import csv_content
from noisyor.errors import InvalidNetworkError, InvalidSettingError
from noisyor.io.networkx import to_networkx
from noisyor.model.names import hidden_label, visible_label
from noisyor.model.network import Network, failure_from_theta, probability_from_theta

Target = Literal["graphml", "json", "bif", "csv"]
TARGETS: tuple[Target, ...] = ("graphml", "json", "bif", "csv")

_MAX_PARENTS = 12
_MAX_LINES = 500_000
# What XML 1.0 cannot hold in any form.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def export_network(network: Network, to: Target) -> bytes:
    """Return the network as the content of a file of another program.

    Parameters
    ----------
    network : the network.
    to : ``"graphml"``: NetworkX and Gephi read it. ``"json"``: NetworkX's node-link form, that D3
        also reads. ``"bif"``: tables of conditional probabilities, for general programs for
        Bayesian networks; only where no node has more than 12 parents. ``"csv"``: a line for each
        edge and each leak, for spreadsheets; a name that a spreadsheet would read as a formula
        gets an apostrophe. GraphML and JSON keep everything: `from_networkx` restores the same
        network.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.from_edges(1, 1, [(0, 0)], failure_probability=0.5)
    >>> print(nor.io.export_network(network, "csv").decode().splitlines()[0])
    role,cause,effect,theta,probability,parameter,free
    """
    writers = {"graphml": _graphml, "json": _json, "bif": _bif, "csv": _csv}
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
    names = _names(network)

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


def _bif(network: Network) -> bytes:
    parents = np.diff(network.child_ptr)
    widest = int(parents.argmax())
    names = _names(network)
    if parents[widest] > _MAX_PARENTS or int((2.0**parents).sum()) > _MAX_LINES:
        raise InvalidNetworkError(
            f"BIF lists every combination of parents, and {names[widest]!r} has "
            f"{int(parents[widest])} parents; at most {_MAX_PARENTS} can be written, and "
            f"{_MAX_LINES:,} lines in all. GraphML, JSON and CSV have no such limit"
        )
    keys = _identifiers(names)
    lines = ["network noisyor {", "}"]
    for key, name in zip(keys, names, strict=True):
        label = " ".join(name.replace('"', "'").split()).encode("utf-8", "replace").decode()
        lines += [
            f"variable {key} {{",
            "  type discrete [ 2 ] { off, on };",
            f'  property label = "{label}" ;',
            "}",
        ]
    for node, key in enumerate(keys):
        edges = slice(network.child_ptr[node], network.child_ptr[node + 1])
        leak = float(network.theta[network.leak_param[node]])
        theta = network.theta[network.param[edges]]
        if not len(theta):
            off = float(np.exp(-leak))
            lines += [f"probability ( {key} ) {{", f"  table {off!r}, {1 - off!r};", "}"]
            continue
        causes = ", ".join(keys[network.n_visible + k] for k in network.parent[edges].tolist())
        lines.append(f"probability ( {key} | {causes} ) {{")
        for states in itertools.product((0, 1), repeat=len(theta)):
            off = float(np.exp(-(leak + theta @ np.array(states))))
            listed = ", ".join("on" if state else "off" for state in states)
            lines.append(f"  ({listed}) {off!r}, {1 - off!r};")
        lines.append("}")
    return ("\n".join(lines) + "\n").encode()


def _names(network: Network) -> list[str]:
    return [
        *(visible_label(network, i) for i in range(network.n_visible)),
        *(hidden_label(network, k) for k in range(network.n_hidden)),
    ]


def _identifiers(names: list[str]) -> list[str]:
    """Return distinct names of letters, digits and underscores, for strict parsers."""
    taken: set[str] = set()
    result = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")[:60] or "node"
        plain = plain if plain[0].isalpha() else f"n_{plain}"
        unique, copy = plain, 2
        while unique.casefold() in taken:
            unique, copy = f"{plain}_{copy}", copy + 1
        taken.add(unique.casefold())
        result.append(unique)
    return result
