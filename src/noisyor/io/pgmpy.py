"""Networks as Bayesian networks of pgmpy, whose noisy-OR is ``NoisyORCPD``, and back.

pgmpy's noisy-OR has no leak. A leak is written as one more parent that is always on, shared by all
nodes: a cause that is certain and works with the probability of the leak.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from noisyor.errors import InvalidNetworkError, MissingExtraError
from noisyor.io.networkx import node_keys
from noisyor.model.builders import from_edges
from noisyor.model.network import Network

__all__ = ["from_pgmpy", "to_pgmpy"]

LEAK = "always on"
"""Name of the parent that stands for the leaks."""

MOST_PARENTS = 16
"""pgmpy keeps a table of all combinations of the parents, leak included."""

_STATES = ["True", "False"]  # as in NoisyORCPD, in its order


def to_pgmpy(network: Network) -> Any:
    """Convert a network to a ``pgmpy.models.DiscreteBayesianNetwork`` of "True" and "False".

    Nodes are keyed as in `to_networkx`. Hidden nodes without parents get a table of their prior;
    all other nodes a ``NoisyORCPD`` on their parents and the node ``"always on"``, which stands for
    the leaks.

    Parameters
    ----------
    network : at most 15 parents for a node.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.from_edges(2, 1, [(0, 0), (0, 1)])
    >>> nor.io.to_pgmpy(network).get_cpds("v0").variables
    ['v0', 'h0', 'always on']
    """
    pgmpy = _pgmpy()
    keys = node_keys(network)
    if LEAK in keys:
        raise InvalidNetworkError(f"a node is called {LEAK!r}, which stands for the leaks here")
    failure = np.exp(-network.theta[network.param])
    leak = -np.expm1(-network.theta[network.leak_param])
    roots, children = [], []
    for node, key in enumerate(keys):
        edges = range(network.child_ptr[node], network.child_ptr[node + 1])
        if len(edges) >= MOST_PARENTS:
            raise InvalidNetworkError(
                f"node {key!r} has {len(edges)} parents; pgmpy keeps a table of all their "
                f"combinations, so at most {MOST_PARENTS - 1} are possible"
            )
        if not len(edges) and node >= network.n_visible:
            roots.append(_table(pgmpy, key, leak[node]))
            continue
        parents = [keys[network.n_visible + network.parent[edge]] for edge in edges]
        works = [*(1.0 - failure[edge] for edge in edges), leak[node]]
        children.append(pgmpy.factors.discrete.NoisyORCPD(key, works, [*parents, LEAK]))
    model = pgmpy.models.DiscreteBayesianNetwork()
    model.add_nodes_from(keys)
    if children:
        roots.append(_table(pgmpy, LEAK, 1.0))
    for cpd in children:
        model.add_edges_from((parent, cpd.variable) for parent in cpd.get_evidence())
    model.add_cpds(*roots, *children)
    return model


def from_pgmpy(model: Any, visible: Sequence[str] | None = None) -> Network:
    """Build a network from a pgmpy network whose nodes with parents are ``NoisyORCPD``.

    A root that is on with probability 1 is taken for the leak of its children. A node that has no
    such parent has no leak, which a `Network` does not know: it gets one of 1e-5.

    Parameters
    ----------
    model : ``pgmpy.models.DiscreteBayesianNetwork``.
    visible : names of the visible nodes; default those without children. They have no children.

    Returns
    -------
    Network with one parameter for each edge and each leak; nodes in the order of `model`.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.from_edges(2, 1, [(0, 0), (0, 1)])
    >>> nor.io.from_pgmpy(nor.io.to_pgmpy(network)).n_edges
    2
    """
    pgmpy = _pgmpy()
    cpds = {name: model.get_cpds(name) for name in model.nodes()}
    lacking = [name for name, cpd in cpds.items() if cpd is None]
    if lacking:
        raise InvalidNetworkError(f"node {lacking[0]!r} has no CPD")
    prior = {name: _prior(name, cpd) for name, cpd in cpds.items() if not _parents(cpd)}
    certain = {name for name, value in prior.items() if value == 1.0}
    names = [name for name in cpds if name not in certain]
    leaves = {name for name in names if not list(model.successors(name))}
    if visible is not None:
        unknown = [name for name in visible if name not in leaves]
        if unknown:
            raise InvalidNetworkError(
                f"visible node {unknown[0]!r} is not a node without children of the model"
            )
        leaves = set(visible)
    seen = [name for name in names if name in leaves]
    hidden = [name for name in names if name not in leaves]
    edges: list[tuple[str, str]] = []
    failure: list[float] = []
    leak: dict[str, float] = {}
    for name in [*seen, *hidden]:
        if name in prior:
            leak[name] = prior[name]
            continue
        if not isinstance(cpds[name], pgmpy.factors.discrete.NoisyORCPD):
            raise InvalidNetworkError(
                f"node {name!r} has parents and a {type(cpds[name]).__name__}, expected NoisyORCPD"
            )
        fails = 1.0
        for parent, works in zip(_parents(cpds[name]), cpds[name].prob_values, strict=True):
            if parent in certain:
                fails *= 1.0 - works
            else:
                edges.append((parent, name))
                failure.append(1.0 - works)
        leak[name] = 1.0 - fails
    return from_edges(
        len(seen),
        len(hidden),
        [edge for edge in edges if edge[1] in leaves],
        [edge for edge in edges if edge[1] not in leaves],
        failure_probability=failure,
        prior_probability=_possible(leak[name] for name in hidden),
        noise_probability=_possible(leak[name] for name in seen),
        visible_names=seen,
        hidden_names=hidden,
    )


def _table(pgmpy: Any, name: str, on: float) -> Any:
    return pgmpy.factors.discrete.TabularCPD(
        name, 2, [[on], [1.0 - on]], state_names={name: _STATES}
    )


def _parents(cpd: Any) -> list[str]:
    return list(cpd.variables[1:])


def _prior(name: str, cpd: Any) -> float:
    states = [str(state) for state in cpd.state_names[name]]
    if sorted(states) not in (["False", "True"], ["0", "1"]):
        raise InvalidNetworkError(
            f"node {name!r} has states {states}, expected True and False, or 0 and 1"
        )
    on = states.index("True" if "True" in states else "1")
    return float(np.ravel(cpd.values)[on])


def _possible(values: Iterable[float]) -> list[float]:
    """Limit probabilities to those that a leak can have, below 1."""
    return [min(value, 1.0 - 1e-9) for value in values]


def _pgmpy() -> Any:
    try:
        import pgmpy.factors.discrete
        import pgmpy.models
    except ImportError:
        raise MissingExtraError.of("this needs pgmpy", "compare") from None
    return pgmpy
