"""Data for the explorer of causes: the columns and the rows of each cause.

The data become JSON in the page, which the page's script displays. Names are inserted as text only.
Parts that would make the page too large are cut, and the page says how many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor._util.arrays import FloatArray, LongArray
from noisyor.explanation.attribution import Chains
from noisyor.explanation.interview import Interview
from noisyor.model.names import Kind, hidden_names
from noisyor.model.network import Network
from noisyor.report.fit_quality import ExplainedRows
from noisyor.report.health import rank_within, success_matrix
from noisyor.report.inputs import Words, is_drawn, shorten, visible_names

_FAR_WORDS = 30
_NEGLIGIBLE = 0.01  # success probability below which a link is the first to be left out


_MAX_EDGES, _PARENTS_KEPT = 250_000, 3
"""Largest number of edges on the page, and number of parents that every visible keeps."""

_MAX_DOCUMENTS, _PER_CAUSE, _ROW_LENGTH = 3_000, 5, 60
"""Largest number of documents on the page, in all and per cause, and of columns listed for each."""


def cause_names(network: Network, kind: Kind, generated: bool) -> tuple[list[str], list[str]]:
    """Return a short name of each cause, and the visibles that characterize it ("" if named).

    ``generated``: the names in the network were made by `noisyor.model.names.hidden_names`; a
    network without names gets the same ones.
    """
    names = network.hidden_names
    if names is not None and not generated:
        return [shorten(name) for name in names], [""] * network.n_hidden
    parts = [name.partition(": ") for name in names or hidden_names(network, kind)]
    return [shorten(short) for short, _, _ in parts], [shorten(label) for _, _, label in parts]


def reach_of(network: Network, keep: int = 200) -> Any:
    """Return the probability that a cause alone, through those below it, switches a visible on.

    Sparse (n_hidden, n_visible), noise left out. It is exact for a cause with visible children
    only; otherwise paths are taken as independent. The ``keep`` most likely visibles of a cause are
    kept.
    """
    success = success_matrix(network)
    below = success[:, network.n_visible :].tocsr()
    # theta of reaching each visible; paths that do not meet add up
    direct = success[:, : network.n_visible].tocsr()
    direct.data = -np.log1p(-np.minimum(direct.data, 1 - 1e-12))
    rows: list[Any] = [None] * network.n_hidden
    for level in range(network.n_layers - 1, -1, -1):
        for k in np.flatnonzero(network.hidden_levels == level):
            children = slice(below.indptr[k], below.indptr[k + 1])
            index = [direct.indices[direct.indptr[k] : direct.indptr[k + 1]]]
            theta = [direct.data[direct.indptr[k] : direct.indptr[k + 1]]]
            for child, p in zip(below.indices[children], below.data[children], strict=True):
                i, value = rows[child]
                index.append(i)
                theta.append(-np.log1p(-p * value))
            i, where = np.unique(np.concatenate(index), return_inverse=True)
            value = -np.expm1(-np.bincount(where, np.concatenate(theta), minlength=len(i)))
            best = np.sort(np.argsort(-value, kind="stable")[:keep])
            rows[k] = i[best], value[best]
    counts = [len(i) for i, _ in rows]
    return sp.csr_array(
        (
            np.concatenate([value for _, value in rows]),
            np.concatenate([i for i, _ in rows]),
            np.r_[0, np.cumsum(counts)],
        ),
        shape=(network.n_hidden, network.n_visible),
    )


def explorer_data(
    network: Network,
    words: Words,
    names: tuple[list[str], list[str]],
    reach: Any,
    rate: FloatArray,
    explained: ExplainedRows | None,
    chains: Chains | None,
    row_names: tuple[str, ...] | None,
    recurrence: list[float] | None = None,
) -> dict[str, Any]:
    """Return everything that the explorer shows as plain JSON; ``names`` see `cause_names`.

    ``recurrence`` is the share of resamples in which each cause was found again, if known.

    Causes are numbered as in the network; a child below ``n_visible`` is a visible. Success
    probabilities are in thousandths.
    """
    success = success_matrix(network)
    child_ptr, child, thousandths, n_cut = _kept_edges(network, success)
    uses = None
    if explained is not None:
        uses = np.asarray(explained.states.sum(axis=0)).ravel().astype(int).tolist()
    data = {
        "words": words._asdict(),
        "visible": visible_names(network),
        "noise": _rounded(network.noise_probability),
        "name": names[0],
        "label": names[1],
        "level": network.hidden_levels.tolist(),
        "rate": _rounded(rate),
        "uses": uses,
        "recurs": recurrence,
        "rows": None if explained is None else len(explained.number),
        "home": _strongest_parent(network, success).tolist(),
        "counts": np.diff(child_ptr).tolist(),
        "child": child.tolist(),
        "p": thousandths.tolist(),
        "cut": n_cut,
        "far": _far_words(network, reach),
        "usual": _usual(network, explained),
        "shape": list(network.visible_shape) if is_drawn(network) else None,
    }
    if explained is not None and chains is not None:
        data["documents"], data["best"] = _documents(network, explained, chains, row_names)
    return data


def _usual(network: Network, explained: ExplainedRows | None) -> list[float]:
    """Return the frequency of each visible in the data, or else approximately under the model."""
    if explained is not None:
        seen = explained.observations
        known = seen.n_rows - np.bincount(seen.missing_columns, minlength=seen.n_visible)
        return _rounded(seen.column_counts() / np.maximum(known, 1))
    return _rounded(Interview(network).base)


def _kept_edges(
    network: Network, success: Any
) -> tuple[LongArray, npt.NDArray[Any], npt.NDArray[Any], int]:
    """Return the strongest edges of each cause, and the strongest of each visible."""
    parent = np.repeat(np.arange(network.n_hidden), np.diff(success.indptr))
    child, p = success.indices, success.data
    visible = child < network.n_visible
    keep = np.ones(len(p), dtype=np.bool_)
    if len(p) > _MAX_EDGES:
        each = max(1, _MAX_EDGES // network.n_hidden)
        keep = p >= _NEGLIGIBLE
        candidate = np.flatnonzero(keep & visible)
        ranked = (rank_within(parent[candidate], p[candidate]) < each) | (
            rank_within(child[candidate], p[candidate]) < _PARENTS_KEPT
        )
        keep[candidate] = ranked
    parent, child, p = parent[keep], child[keep], p[keep]
    order = np.lexsort((child, -p, parent))
    ptr = np.r_[0, np.cumsum(np.bincount(parent, minlength=network.n_hidden))]
    return ptr, child[order], np.rint(1000 * p[order]).astype(int), int((~keep).sum())


def _strongest_parent(network: Network, success: Any) -> LongArray:
    """Return the parent that each cause is listed under, -1 at the top."""
    home = np.full(network.n_hidden, -1, dtype=np.int64)
    parent = np.repeat(np.arange(network.n_hidden), np.diff(success.indptr))
    hidden = success.indices >= network.n_visible
    child, p, parent = success.indices[hidden], success.data[hidden], parent[hidden]
    order = np.argsort(p, kind="stable")
    home[child[order] - network.n_visible] = parent[order]  # the last, strongest, stays
    return home


def _far_words(network: Network, reach: Any) -> dict[str, list[int]]:
    """Return the visibles that causes without visibles of their own reach, in thousandths."""
    if network.n_layers == 1:
        return {}
    has_visible = np.zeros(network.n_hidden, dtype=np.bool_)
    has_visible[network.parent[network.edge_child < network.n_visible]] = True
    result = {}
    for k in np.flatnonzero(~has_visible):
        part = slice(reach.indptr[k], reach.indptr[k + 1])
        index, value = reach.indices[part], np.rint(1000 * reach.data[part]).astype(int)
        best = np.argsort(-value, kind="stable")[:_FAR_WORDS]
        best = best[value[best] > 0]
        result[str(k)] = np.stack([index[best], value[best]], axis=1).ravel().tolist()
    return result


def _documents(
    network: Network, explained: ExplainedRows, chains: Chains, row_names: tuple[str, ...] | None
) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """Return the rows shown, and for each cause the rows where it explains most."""
    key = chains.hidden * np.int64(len(explained.number)) + chains.row
    order = np.argsort(key, kind="stable")
    pair, start, count = np.unique(key[order], return_index=True, return_counts=True)
    cause, row = np.divmod(pair, len(explained.number))
    length = np.maximum(np.diff(explained.observations.ptr), 1)
    # Most of all explained; of equals the row of which that is the larger part.
    best = np.lexsort((-count / length[row], -count, cause))
    rank = np.arange(len(best)) - np.searchsorted(cause[best], cause[best])
    each = max(1, min(_PER_CAUSE, _MAX_DOCUMENTS // max(1, network.n_hidden)))
    chosen = best[rank < each]
    ones = explained.observations.to_csr()
    row_length = network.n_visible if is_drawn(network) else _ROW_LENGTH  # images are drawn whole
    number_of: dict[int, int] = {}
    documents: list[dict[str, Any]] = []
    result: list[list[Any]] = [[] for _ in range(network.n_hidden)]
    for k in chosen.tolist():
        r = int(row[k])
        if r not in number_of:
            if len(documents) >= _MAX_DOCUMENTS:
                continue
            number_of[r] = len(documents)
            active = ones.indices[ones.indptr[r] : ones.indptr[r + 1]]
            number = int(explained.number[r])
            documents.append(
                {
                    "row": number,
                    "name": None if row_names is None else shorten(row_names[number]),
                    "on": active[:row_length].tolist(),
                    "more": max(0, len(active) - row_length),
                }
            )
        words = chains.visible[order[start[k] : start[k] + count[k]]]
        result[int(cause[k])].append([number_of[r], *words[:row_length].tolist()])
    return documents, result


def _rounded(values: FloatArray) -> list[float]:
    return [float(f"{value:.3g}") for value in values]
