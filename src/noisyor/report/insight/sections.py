"""Parts of the page that depend on what the model is of: causes and topics, or images."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from noisyor.explanation.attribution import Chains
from noisyor.model.forward import prior_marginals
from noisyor.model.graph import Network
from noisyor.model.labels import one_of
from noisyor.model.layout import ConvolutionalLayout
from noisyor.report.explorer import (
    Caps,
    cause_names,
    explorer_data,
    label_of,
    reach_of,
    visible_names,
)
from noisyor.report.health import (
    find_dead,
    find_duplicates,
    groups_of,
    similar_features,
    success_matrix,
)
from noisyor.report.images import (
    MAX_FEATURES,
    feature_entries,
    feature_rate,
    feature_uses,
    image_entries,
)
from noisyor.report.inputs import Model, Rows
from noisyor.report.insight.classes import Classes, class_section
from noisyor.report.insight.map import cause_map, similarity_of
from noisyor.report.insight.screen import feature_regions, regions_of, said_of
from noisyor.report.quality import ExplainedRows
from noisyor.report.residuals import EXTRA, MISSED, Residuals, matrix_data
from noisyor.report.words import WORDS, Words, is_drawn

__all__ = ["Texts", "cause_section", "feature_section"]

Texts = Callable[[set[int]], dict[int, str]]

_LISTED = 15


def cause_section(
    model: Model,
    words: Words,
    rows: Rows | None,
    explained: ExplainedRows | None,
    left: Residuals | None,
    links: Chains | None,
    share: float | None,
    classes: Classes | None,
    texts: Texts | None,
    caps: Caps,
) -> dict[str, Any]:
    """Parts of the page for everything but images."""
    network = model.network
    names = rows.names if rows is not None else None
    reach, rate = reach_of(network), prior_marginals(network)
    called = cause_names(network, model.kind, model.metadata.get("named") is True, reach)
    if is_drawn(network):  # a picture says more than the names of three pixels
        called = called[0], [""] * network.n_hidden
    uses = None
    if explained is not None:
        uses = np.asarray(explained.states.sum(axis=0)).ravel()
    data: dict[str, Any] = {
        "explorer": explorer_data(
            network, words, called, reach, rate, explained, links, names, caps
        )
    }
    documents = data["explorer"].get("documents")
    if documents and texts is not None:
        found = texts({document["row"] for document in documents})
        for document in documents:
            text = found.get(document["row"])
            document["text"] = text and text.removeprefix(document["name"] or "").strip()
    flat = network.n_layers == 1
    # No topic makes a word likelier on than off, so that a matrix would show nothing but misses.
    is_table = flat and model.kind != "topics"
    if explained is not None and is_table:
        data["matrix"] = matrix_data(network, explained, names)
    titles = [label_of(name, label) for name, label in zip(*called, strict=True)]
    short = [label or name for name, label in zip(*called, strict=True)]
    n_rows = None if explained is None else len(explained.number)
    success = success_matrix(network)
    strength = success.max(axis=1).toarray().ravel()  # 0 for a cause without edges
    dead = find_dead(strength, rate, uses, n_rows, words.rows)
    pairs = find_duplicates(success, {fault.cause for fault in dead})
    often = rate if uses is None else uses
    order = np.argsort(-np.asarray(often, dtype=np.float64), kind="stable")[:_LISTED]
    order = order[np.asarray(often)[order] > 0]
    working = network.n_hidden - len(dead)
    regions = regions_of(model, words, called, data["explorer"], classes)
    return {
        "data": data,
        "said": said_of(words, network.n_hidden, working, share, n_rows, regions, network.n_layers),
        "map": cause_map(
            regions,
            partial(similarity_of, reach, None if explained is None else explained.states),
            f"Map of the {words.causes}: area by how often each is on",
        ),
        "classes": None if classes is None else class_section(classes, short),
        "has_explorer": True,
        "has_labels": any(called[1]),
        "has_matrix": "matrix" in data,
        "matrix_shape": _matrix_shape(data.get("matrix")),
        "is_layered": not flat,
        "features": None,
        "images": None,
        "worst": _worst(network, left) if left is not None and is_table else None,
        "rates": [
            {
                "name": titles[k] + one_of(network, k),
                "prior": float(rate[k]),
                "share": None if uses is None or not n_rows else float(uses[k]) / n_rows,
            }
            for k in order.tolist()
        ],
        "n_rates": network.n_hidden,
        "per_image": False,
        "n_cut": data["explorer"]["cut"],
        "health": _health(titles, dead, pairs),
    }


def feature_section(
    model: Model, explained: ExplainedRows | None, share: float | None
) -> dict[str, Any] | None:
    """Parts of the page for features of images."""
    network = model.network
    layout = network.layout
    if not isinstance(layout, ConvolutionalLayout):
        return None
    uses = None if explained is None else feature_uses(explained, layout)
    rate = feature_rate(network, layout)
    success = 1.0 - network.failure_probability
    n_images = None if explained is None else len(explained.number)
    titles = [f"feature {number}" for number in range(layout.n_components)]
    dead = find_dead(success.max(axis=(1, 2)), rate, uses, n_images, "images")
    pairs = similar_features(success, {fault.cause for fault in dead})
    entries = feature_entries(network, layout, uses)
    often = rate if uses is None or not n_images else uses / n_images
    regions = feature_regions(entries, often)
    alike = partial(similarity_of, sp.csr_array(success.reshape(len(success), -1)), None)
    working = layout.n_components - len(dead)
    return {
        "data": {},
        "said": said_of(
            WORDS["features"],
            layout.n_components,
            working,
            share,
            n_images,
            regions,
            per_row=False,
        ),
        "map": cause_map(regions, alike, "Map of the features: area by how often each is laid"),
        "classes": None,
        "has_explorer": False,
        "has_labels": False,
        "has_matrix": False,
        "matrix_shape": None,
        "is_layered": False,
        "features": entries,
        "images": None if explained is None else image_entries(network, layout, explained),
        "worst": None,
        "rates": [
            {
                "name": titles[f],
                "prior": float(rate[f]),
                "share": None if uses is None or not n_images else float(uses[f]) / n_images,
            }
            for f in range(min(layout.n_components, MAX_FEATURES))
        ],
        "n_rates": layout.n_components,
        "per_image": True,
        "n_cut": 0,
        "health": _health(titles, dead, pairs),
    }


def _matrix_shape(matrix: dict[str, Any] | None) -> tuple[int, int] | None:
    return None if matrix is None else (len(matrix["rows"]), len(matrix["columns"]))


def _health(
    titles: list[str], dead: list[Any], pairs: list[tuple[int, int, float]]
) -> dict[str, Any]:
    return {
        "n_causes": len(titles),
        "dead": [(titles[fault.cause], fault.reason) for fault in dead],
        "duplicates": [
            [titles[cause] for cause in group] for group in groups_of(pairs, len(titles))
        ],
    }


def _worst(network: Network, left: Residuals) -> list[dict[str, Any]]:
    """Columns with the most wrong cells."""
    names = visible_names(network)
    wrong = left.columns[MISSED] + left.columns[EXTRA]
    order = np.argsort(-wrong, kind="stable")[:10]
    return [
        {
            "name": names[i],
            "ones": int(left.columns[1][i] + left.columns[MISSED][i]),
            "missed": int(left.columns[MISSED][i]),
            "extra": int(left.columns[EXTRA][i]),
        }
        for i in order.tolist()
        if wrong[i]
    ]
