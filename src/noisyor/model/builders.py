"""Builders of networks: all edges, features at all positions of an image, a list of edges.

Every builder returns a `Network` with three parameter groups, ``"failure"`` (the edges),
``"prior"`` (the leaks of the hidden nodes) and ``"noise"`` (the leaks of the visible nodes).
Structure learned from data is in `noisyor.model.layered`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray, LongArray, pointers
from noisyor._util.validation import check_choice
from noisyor.errors import InvalidNetworkError
from noisyor.model.layout import ConvolutionalLayout, check_positive
from noisyor.model.network import Network, theta_from_failure, theta_from_probability

NodeLabel = int | str
Edges = Iterable[tuple[NodeLabel, NodeLabel]] | npt.NDArray[np.integer]


def bipartite(
    n_visible: int,
    n_hidden: int,
    *,
    prior: Literal["per_component", "shared"] = "per_component",
    noise: Literal["shared", "per_visible"] = "shared",
    failure_probability: npt.ArrayLike = 0.9,
    prior_probability: npt.ArrayLike = 0.1,
    noise_probability: npt.ArrayLike = 0.01,
    fixed: str | Sequence[str] = (),
    visible_names: Sequence[str] | None = None,
    hidden_names: Sequence[str] | None = None,
) -> Network:
    """Build one layer of hidden nodes, each a parent of every visible node.

    The paper's Boolean matrix factorization is ``bipartite(p, r, prior="shared",
    fixed=("noise",))``.

    Parameters
    ----------
    n_visible, n_hidden : numbers of nodes.
    prior : ``"per_component"``: one prior for each hidden node; ``"shared"``: one for all.
    noise : ``"shared"``: one noise probability for all visible nodes; ``"per_visible"``: one for
        each.
    failure_probability : probability that an active hidden node fails to switch a visible one on,
        scalar or broadcastable to (n_hidden, n_visible).
    prior_probability : scalar or (n_hidden,); scalar or (1,) if shared.
    noise_probability : scalar or (n_visible,); scalar or (1,) if shared.
    fixed : parameter groups that training must not change: any of ``"failure"``, ``"prior"``,
        ``"noise"``. By default everything is learned.
    visible_names, hidden_names : optional names of the nodes.

    Returns
    -------
    Network with groups ``"failure"`` (n_hidden, n_visible), ``"prior"`` (n_hidden,) or (1,) and
    ``"noise"`` (n_visible,) or (1,). The parents of every visible node are 0 .. n_hidden - 1, in
    that order.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(3, 2, failure_probability=[[0.1, 0.1, 0.9], [0.9, 0.1, 0.1]])
    >>> network.failure_probability.round(1).tolist()
    [[0.1, 0.1, 0.9], [0.9, 0.1, 0.1]]
    """
    check_positive(n_visible=n_visible, n_hidden=n_hidden)
    _check_sharing(prior, noise)
    failure = np.arange(n_hidden * n_visible).reshape(n_hidden, n_visible)
    return assemble(
        (failure_probability, prior_probability, noise_probability),
        child_ptr=pointers(np.r_[np.full(n_visible, n_hidden), np.zeros(n_hidden, np.int64)]),
        parent=np.tile(np.arange(n_hidden), n_visible),
        failure=failure,
        edge_failure=failure.T.ravel(),
        hidden_prior=np.arange(n_hidden) * (prior != "shared"),
        visible_noise=np.arange(n_visible) * (noise != "shared"),
        fixed=fixed,
        visible_names=visible_names,
        hidden_names=hidden_names,
    )


def with_causes(
    network: Network, failure: FloatArray, prior: FloatArray, noise: FloatArray | None = None
) -> Network:
    """Return a bipartite network with other causes, whose parameters are shared as before.

    ``failure`` (n_hidden, n_visible) and ``prior`` (n_hidden,) are the probabilities of the causes,
    ``noise`` (n_visible,) that of the columns, by default as before. Names are not kept.
    """
    noise = network.noise_probability if noise is None else noise
    one_prior = len(network.group("prior")) == 1 and network.n_hidden > 1
    one_noise = len(network.group("noise")) == 1 and network.n_visible > 1
    return bipartite(
        network.n_visible,
        len(failure),
        prior="shared" if one_prior else "per_component",
        noise="shared" if one_noise else "per_visible",
        failure_probability=failure,
        prior_probability=prior[0] if one_prior else prior,
        noise_probability=noise[0] if one_noise else noise,
    )


def convolutional(
    image_shape: tuple[int, int],
    n_components: int,
    feature_shape: tuple[int, int],
    *,
    border: bool = False,
    prior: Literal["per_component", "shared"] = "per_component",
    noise: Literal["shared", "per_visible"] = "shared",
    failure_probability: npt.ArrayLike = 0.9,
    prior_probability: npt.ArrayLike = 0.1,
    noise_probability: npt.ArrayLike = 0.01,
    fixed: str | Sequence[str] = (),
    visible_names: Sequence[str] | None = None,
    hidden_names: Sequence[str] | None = None,
) -> Network:
    """Build a network of features stamped into a binary image: blind deconvolution.

    Every component has a feature, a small image. Hidden node ``(k, i, j)``, numbered row-major,
    says that the feature of component ``k`` lies at position ``(i, j)``; it is a parent of the
    pixels ``(i + a, j + b)`` for ``(a, b)`` inside the feature, shifted by ``(1 - height,
    1 - width)`` of the feature if `border`. All positions of a component share its failure
    probabilities. The paper's blind deconvolution is
    ``convolutional((14, 14), 5, (6, 6), fixed=("noise",))``.

    Parameters
    ----------
    image_shape, feature_shape : (height, width).
    n_components : number of components.
    border : let features hang over the border of the image (see `state_shape`).
    prior : ``"per_component"``: one prior for each component, shared over its positions;
        ``"shared"``: one for all.
    failure_probability : scalar or broadcastable to (n_components, height, width) of the features.
    prior_probability : scalar or (n_components,); scalar or (1,) if shared.
    noise, noise_probability, fixed, visible_names, hidden_names : as in `bipartite`.

    Returns
    -------
    Network with groups ``"failure"`` (n_components, height, width), ``"prior"`` (n_components,) or
    (1,) and ``"noise"`` (n_visible,) or (1,), and ``visible_shape == image_shape``.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.convolutional(image_shape=(4, 4), n_components=2, feature_shape=(3, 3))
    >>> network.n_hidden, network.layout.state_shape
    (8, (2, 2))
    """
    layout = ConvolutionalLayout(image_shape, feature_shape, n_components, border)
    _check_sharing(prior, noise)
    edges = layout.edges()
    features = (n_components, *layout.feature_shape)
    component = np.repeat(np.arange(n_components), layout.n_positions)
    return assemble(
        (failure_probability, prior_probability, noise_probability),
        child_ptr=np.r_[edges.ptr, np.full(layout.n_hidden, edges.ptr[-1])],
        parent=edges.parent,
        failure=np.arange(np.prod(features)).reshape(features),
        edge_failure=edges.entry,
        hidden_prior=component * (prior != "shared"),
        visible_noise=np.arange(layout.n_visible) * (noise != "shared"),
        fixed=fixed,
        visible_names=visible_names,
        hidden_names=hidden_names,
        visible_shape=layout.image_shape,
        layout=layout,
    )


def from_edges(
    n_visible: int,
    n_hidden: int,
    visible_edges: Edges,
    hidden_edges: Edges = (),
    *,
    failure_probability: npt.ArrayLike = 0.9,
    prior_probability: npt.ArrayLike = 0.1,
    noise_probability: npt.ArrayLike = 0.01,
    param: Sequence[int] | npt.NDArray[np.integer] | None = None,
    leak_param: Sequence[int] | npt.NDArray[np.integer] | None = None,
    fixed: str | Sequence[str] = (),
    visible_names: Sequence[str] | None = None,
    hidden_names: Sequence[str] | None = None,
) -> Network:
    """Build any noisy-OR network from its edges.

    Parameters
    ----------
    n_visible, n_hidden : numbers of nodes.
    visible_edges : pairs ``(hidden parent, visible child)``, each by number or by name.
    hidden_edges : pairs ``(hidden parent, hidden child)``, each by number or by name.
    failure_probability : scalar or (n_edges,), visible edges first, in the order given.
    prior_probability : scalar or (n_hidden,).
    noise_probability : scalar or (n_visible,).
    param : (n_edges,) integer labels; edges with one label share one parameter. By default
        every edge has its own.
    leak_param : (n_visible + n_hidden,) integer labels, the same for the leaks, visible nodes
        first. A visible and a hidden node cannot share a leak.
    fixed, visible_names, hidden_names : as in `bipartite`.

    Returns
    -------
    Network with groups ``"failure"`` (n_edges,), in the order in which the edges were given,
    ``"prior"`` (n_hidden,) and ``"noise"`` (n_visible,); tied members repeat an entry. Inside the
    network edges are sorted by child, then parent.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.from_edges(
    ...     2, 1, [("flu", "fever"), ("flu", "cough")], failure_probability=[0.2, 0.4],
    ...     visible_names=["fever", "cough"], hidden_names=["flu"])
    >>> network.failure_probability.round(1).tolist()
    [0.2, 0.4]
    """
    check_positive(n_visible=n_visible, n_hidden=n_hidden)
    sizes = {"visible": n_visible, "hidden": n_hidden}
    names = {
        "visible": {str(name): i for i, name in enumerate(visible_names or ())},
        "hidden": {str(name): k for k, name in enumerate(hidden_names or ())},
    }
    to_visible = _pairs("visible_edges", visible_edges, "visible", sizes, names)
    to_hidden = _pairs("hidden_edges", hidden_edges, "hidden", sizes, names)
    parent = np.concatenate([to_visible[:, 0], to_hidden[:, 0]])
    child = np.concatenate([to_visible[:, 1], to_hidden[:, 1] + n_visible])
    order = np.lexsort((parent, child))

    failure = _tie("param", param, len(parent))
    leak = _tie("leak_param", leak_param, n_visible + n_hidden)
    across = np.intersect1d(leak[:n_visible], leak[n_visible:])
    if across.size:
        i, k = int(np.argmax(leak == across[0])), int(np.argmax(leak[n_visible:] == across[0]))
        raise InvalidNetworkError(
            f"leak_param gives visible {i} and hidden {k} one label, but noise and prior are "
            "different groups; use different labels"
        )
    return assemble(
        (failure_probability, prior_probability, noise_probability),
        child_ptr=pointers(np.bincount(child, minlength=n_visible + n_hidden)),
        parent=parent[order],
        failure=failure,
        edge_failure=failure[order],
        hidden_prior=renumbered(leak[n_visible:]),
        visible_noise=renumbered(leak[:n_visible]),
        fixed=fixed,
        visible_names=visible_names,
        hidden_names=hidden_names,
        per_node_groups=True,
    )


def _check_sharing(prior: str, noise: str) -> None:
    check_choice("prior", prior, ("per_component", "shared"))
    check_choice("noise", noise, ("shared", "per_visible"))


def _tie(what: str, labels: npt.ArrayLike | None, size: int) -> LongArray:
    """Number the labels 0, 1, ... in order of first appearance; without labels, all differ."""
    if labels is None:
        return np.arange(size)
    given = np.asarray(labels)
    if given.shape != (size,) or (size and not np.issubdtype(given.dtype, np.integer)):
        raise InvalidNetworkError(
            f"{what} holds one integer label for each of {size}, "
            f"got shape {given.shape} of {given.dtype}"
        )
    return renumbered(given)


def _pairs(
    what: str,
    edges: Edges,
    child_kind: str,
    sizes: dict[str, int],
    names: dict[str, dict[str, int]],
) -> LongArray:
    """Return edges between names or numbers as pairs (hidden parent, child), (n_edges, 2)."""
    given = edges if isinstance(edges, np.ndarray) else list(edges)
    if isinstance(given, np.ndarray) and np.issubdtype(given.dtype, np.integer):
        if given.ndim != 2 or given.shape[1] != 2:
            raise InvalidNetworkError(f"{what} has shape {given.shape}, expected (n_edges, 2)")
        result = given.astype(np.int64)
    else:
        result = np.empty((len(given), 2), dtype=np.int64)
        for position, pair in enumerate(given):
            if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
                raise InvalidNetworkError(
                    f"{what}[{position}] is {pair!r}, expected a pair (parent, child)"
                )
            where = f"{what}[{position}]"
            result[position, 0] = _number(where, pair[0], "hidden", names)
            result[position, 1] = _number(where, pair[1], child_kind, names)
    for column, kind in enumerate(("hidden", child_kind)):
        bad = np.flatnonzero((result[:, column] < 0) | (result[:, column] >= sizes[kind]))
        if bad.size:
            raise InvalidNetworkError(
                f"{what}[{bad[0]}]: {kind} node {result[bad[0], column]} does not exist, "
                f"there are {sizes[kind]} (numbered from 0)"
            )
    return result


def _number(where: str, label: object, kind: str, names: dict[str, dict[str, int]]) -> int:
    """Return the index of the node with this name or number, without checking its range."""
    if isinstance(label, (int, np.integer)) and not isinstance(label, bool):
        return int(label)
    if not isinstance(label, str):
        raise InvalidNetworkError(f"{where}: a node is a number or a name, got {label!r}")
    if label not in names[kind]:
        raise InvalidNetworkError(
            f"{where}: {label!r} is not among the {kind}_names; edges lead from a hidden node to "
            "a visible one in visible_edges, to a hidden one in hidden_edges"
        )
    return names[kind][label]


# ---- what builders share: from entries counted within a group to a network


def assemble(
    probabilities: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike],
    *,
    child_ptr: LongArray,
    parent: npt.NDArray[np.integer],
    failure: LongArray,
    edge_failure: npt.NDArray[np.integer],
    hidden_prior: LongArray,
    visible_noise: LongArray,
    fixed: str | Sequence[str] = (),
    per_node_groups: bool = False,
    **description: Any,
) -> Network:
    """Build a network from its graph, with theta laid out as failures, then priors, then noise.

    ``probabilities`` are those of failure, prior and noise. ``failure`` is the index array of the
    failure group; ``edge_failure``, ``hidden_prior`` and ``visible_noise`` are the entries of each
    edge and node, counted from 0 within their group. The groups ``"prior"`` and ``"noise"`` have
    one member per distinct entry, or per node with ``per_node_groups``. ``description`` are the
    names, the shape and the layout of the network.
    """
    prior, noise = hidden_prior, visible_noise
    if not per_node_groups:
        prior = np.arange(int(hidden_prior.max()) + 1)
        noise = np.arange(int(visible_noise.max()) + 1)
    values = [
        theta_from_failure(_spread("failure_probability", probabilities[0], failure)),
        theta_from_probability(_spread("prior_probability", probabilities[1], prior)),
        theta_from_probability(_spread("noise_probability", probabilities[2], noise)),
    ]
    first_prior, first_noise = len(values[0]), len(values[0]) + len(values[1])
    groups = {"failure": failure, "prior": prior + first_prior, "noise": noise + first_noise}
    theta = np.concatenate(values)
    free = np.ones(len(theta), dtype=np.bool_)
    for name in (fixed,) if isinstance(fixed, str) else tuple(fixed):
        check_choice("fixed", name, tuple(groups))
        free[groups[name]] = False
    return Network(
        n_visible=len(visible_noise),
        n_hidden=len(hidden_prior),
        child_ptr=child_ptr,
        parent=parent.astype(np.int32),
        param=edge_failure.astype(np.int32),
        leak_param=np.r_[visible_noise + first_noise, hidden_prior + first_prior].astype(np.int32),
        theta=theta,
        free=free,
        groups={name: index.astype(np.int32) for name, index in groups.items()},
        **description,
    )


def renumbered(labels: npt.NDArray[np.integer]) -> LongArray:
    """Replace labels by 0, 1, ... in order of first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _spread(what: str, probability: npt.ArrayLike, index: LongArray) -> FloatArray:
    """Return the value of each entry of a group from one value per member or a scalar."""
    given = np.asarray(probability, dtype=np.float64)
    try:
        members = np.broadcast_to(given, index.shape).ravel()
    except ValueError:
        raise InvalidNetworkError(
            f"{what} has shape {given.shape}, expected a number or shape {index.shape}"
        ) from None
    flat = index.ravel()
    values = np.zeros(int(flat.max()) + 1 if flat.size else 0)
    values[flat] = members
    differs = np.flatnonzero(values[flat] != members)
    if differs.size and not np.isnan(members).any():
        raise InvalidNetworkError(
            f"tied parameters have one value, but {what} {int(differs[0])} is "
            f"{members[differs[0]]:g} and another of the same label is "
            f"{values[flat[differs[0]]]:g}"
        )
    return values
