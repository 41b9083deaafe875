"""What the builders of networks share: from entries counted within a group to a `Network`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import FloatArray, LongArray
from noisyor._util.validation import check_choice
from noisyor.errors import InvalidNetworkError
from noisyor.network.graph import Network, theta_from_failure, theta_from_probability


def assemble(
    n_visible: int,
    n_hidden: int,
    *,
    child_ptr: LongArray,
    parent: npt.NDArray[np.integer],
    failure: LongArray,
    edge_failure: LongArray,
    hidden_prior: LongArray,
    visible_noise: LongArray,
    failure_probability: npt.ArrayLike,
    prior_probability: npt.ArrayLike,
    noise_probability: npt.ArrayLike,
    fixed: str | Sequence[str],
    visible_names: Sequence[str] | None = None,
    hidden_names: Sequence[str] | None = None,
    visible_shape: tuple[int, ...] = (),
    per_node_groups: bool = False,
) -> Network:
    """Common last step of the builders: lay out theta as failures, then priors, then noise.

    `failure` is the group's index array, `edge_failure`, `hidden_prior` and `visible_noise` give
    the entry of each edge and node, all counted from 0 within their own group. The groups
    ``"prior"`` and ``"noise"`` have one member per distinct entry, or per node with
    `per_node_groups`.
    """
    prior = hidden_prior if per_node_groups else np.arange(int(hidden_prior.max()) + 1)
    noise = visible_noise if per_node_groups else np.arange(int(visible_noise.max()) + 1)
    values = [
        theta_from_failure(_spread("failure_probability", failure_probability, failure)),
        theta_from_probability(_spread("prior_probability", prior_probability, prior)),
        theta_from_probability(_spread("noise_probability", noise_probability, noise)),
    ]
    first_prior, first_noise = len(values[0]), len(values[0]) + len(values[1])
    groups = {"failure": failure, "prior": prior + first_prior, "noise": noise + first_noise}
    theta = np.concatenate(values)
    free = np.ones(len(theta), dtype=np.bool_)
    for name in (fixed,) if isinstance(fixed, str) else tuple(fixed):
        check_choice("fixed", name, tuple(groups))
        free[groups[name]] = False
    return Network(
        n_visible=n_visible,
        n_hidden=n_hidden,
        child_ptr=child_ptr,
        parent=parent.astype(np.int32),
        param=edge_failure.astype(np.int32),
        leak_param=np.r_[visible_noise + first_noise, hidden_prior + first_prior].astype(np.int32),
        theta=theta,
        free=free,
        groups={name: index.astype(np.int32) for name, index in groups.items()},
        visible_names=None if visible_names is None else tuple(visible_names),
        hidden_names=None if hidden_names is None else tuple(hidden_names),
        visible_shape=visible_shape,
    )


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
