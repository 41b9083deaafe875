"""What the builders of networks share: from entries counted within a group to a `Network`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray, LongArray
from noisyor._util.validation import check_choice
from noisyor.errors import InvalidNetworkError
from noisyor.model.alternatives import Sets, as_numbers
from noisyor.model.graph import Network
from noisyor.model.layout import Layout
from noisyor.model.parameters import theta_from_failure, theta_from_probability

__all__ = ["Given", "Wiring", "assemble", "renumbered"]


@dataclass(frozen=True)
class Wiring:
    """The graph of a builder, and which nodes and edges share a parameter.

    ``failure`` is the index array of that group; ``edge_failure``, ``hidden_prior`` and
    ``visible_noise`` give the entry of each edge and node, all counted from 0 within their own
    group. The groups ``"prior"`` and ``"noise"`` have one member per distinct entry, or per node
    with ``per_node_groups``. ``alternatives`` as in `Network`.
    """

    n_visible: int
    n_hidden: int
    child_ptr: LongArray
    parent: npt.NDArray[np.integer]
    failure: LongArray
    edge_failure: npt.NDArray[np.integer]
    hidden_prior: LongArray
    visible_noise: LongArray
    visible_shape: tuple[int, ...] = ()
    layout: Layout | None = None
    per_node_groups: bool = False
    alternatives: npt.ArrayLike | None = None


@dataclass(frozen=True)
class Given:
    """What the caller of a builder says beside the graph: values, what is fixed, and names."""

    failure_probability: npt.ArrayLike
    prior_probability: npt.ArrayLike
    noise_probability: npt.ArrayLike
    fixed: str | Sequence[str] = ()
    visible_names: Sequence[str] | None = None
    hidden_names: Sequence[str] | None = None


def assemble(wiring: Wiring, given: Given) -> Network:
    """Common last step of the builders: lay out theta as failures, then priors, then noise."""
    hidden_prior, visible_noise = wiring.hidden_prior, wiring.visible_noise
    sets = Sets.of(as_numbers(wiring.alternatives, wiring.n_hidden))
    prior, noise = hidden_prior, visible_noise
    if not wiring.per_node_groups:
        prior = np.arange(int(hidden_prior.max()) + 1)
        noise = np.arange(int(visible_noise.max()) + 1)
    values = [
        theta_from_failure(
            _spread("failure_probability", given.failure_probability, wiring.failure)
        ),
        _priors(sets, hidden_prior, _spread("prior_probability", given.prior_probability, prior)),
        theta_from_probability(_spread("noise_probability", given.noise_probability, noise)),
    ]
    first_prior, first_noise = len(values[0]), len(values[0]) + len(values[1])
    groups = {"failure": wiring.failure, "prior": prior + first_prior, "noise": noise + first_noise}
    theta = np.concatenate(values)
    free = np.ones(len(theta), dtype=np.bool_)
    for name in (given.fixed,) if isinstance(given.fixed, str) else tuple(given.fixed):
        check_choice("fixed", name, tuple(groups))
        free[groups[name]] = False
    return Network(
        n_visible=wiring.n_visible,
        n_hidden=wiring.n_hidden,
        child_ptr=wiring.child_ptr,
        parent=wiring.parent.astype(np.int32),
        param=wiring.edge_failure.astype(np.int32),
        leak_param=np.r_[visible_noise + first_noise, hidden_prior + first_prior].astype(np.int32),
        theta=theta,
        free=free,
        groups={name: index.astype(np.int32) for name, index in groups.items()},
        visible_names=None if given.visible_names is None else tuple(given.visible_names),
        hidden_names=None if given.hidden_names is None else tuple(given.hidden_names),
        visible_shape=wiring.visible_shape,
        layout=wiring.layout,
        alternatives=sets.number,
    )


def _priors(sets: Sets, entry: LongArray, probability: FloatArray) -> FloatArray:
    """Parameters of the priors (n_entries,) from probabilities; ``entry`` (n_hidden,) of a node."""
    if not sets:
        return theta_from_probability(probability)
    theta, values = sets.theta_from_prior(probability[entry]), np.empty(len(probability))
    values[entry] = theta
    differs = np.flatnonzero(~np.isclose(values[entry], theta, rtol=1e-9))
    if differs.size:
        raise InvalidNetworkError(
            f"hidden node {differs[0]} shares its prior with nodes for which the same probability "
            "means another parameter, because their sets of alternatives differ; give each its own"
        )
    return values


def renumbered(labels: npt.NDArray[np.integer]) -> LongArray:
    """Labels replaced by 0, 1, ... in order of first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _spread(what: str, probability: npt.ArrayLike, index: LongArray) -> FloatArray:
    """Value of each entry of a group, given one value per member: scalar or broadcastable."""
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
