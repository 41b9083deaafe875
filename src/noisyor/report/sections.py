"""Parts of the page that depend on the kind of model: headline, map, causes or features, labels."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor._util.arrays import FloatArray, LongArray, csr_of
from noisyor.errors import InvalidDataError
from noisyor.explanation.attribution import Chains
from noisyor.io.model_file import recurrence_of
from noisyor.model.forward import prior_marginals
from noisyor.model.layout import ConvolutionalLayout
from noisyor.model.network import Network
from noisyor.report.charts import N_COLORS, shaded_image
from noisyor.report.explorer import cause_names, explorer_data, reach_of
from noisyor.report.fit_quality import ExplainedRows
from noisyor.report.health import find_dead, find_duplicates, similar_features, success_matrix
from noisyor.report.inputs import WORDS, Model, Words, count, is_drawn, percent
from noisyor.report.map import Region, cause_map, similarity_of
from noisyor.report.residuals import (
    Residuals,
    feature_entries,
    feature_rate,
    feature_uses,
    image_entries,
    matrix_data,
    worst_columns,
)
from noisyor.tables.table import Table

MAX_LABELS = 40
_MIN_ROWS = 5
"""Smallest number of rows with a cause on for which the page shows its labels."""

_MIN_LIFT = 1.05
"""Smallest lift of a label that is shown; smaller ones round to ×1.0."""

_ABSENT: dict[str, Any] = {
    "labels": None,
    "has_explorer": False,
    "has_names": False,
    "matrix_shape": None,
    "is_layered": False,
    "features": None,
    "images": None,
    "worst": None,
    "n_cut": 0,
}
"""Parts of the page that only some kinds of models have."""


class Share(NamedTuple):
    """Share of the ones in the headline, and the verb that says how it is counted.

    ``verb`` is "reconstruct" for ones that their row's causes make more likely on than off, and
    "explain" for ones that are attributed to a cause rather than to noise.
    """

    verb: str
    value: float


def headline(
    words: Words,
    n_working: int,
    n_causes: int,
    n_layers: int,
    n_rows: int | None,
    share: Share | None,
) -> str:
    """Return one sentence about the causes that were found."""
    if n_working == 0:
        return f"None of {count(n_causes, words.cause, words.causes)} does anything here."
    causes = count(n_working, words.cause, words.causes)
    if n_layers > 1:
        causes += f" in {n_layers} layers"
    ones = words.visibles if words.visible in ("word", "pixel") else "ones"
    if share is None or share.value != share.value or n_rows is None:
        return f"{causes} behind the {ones} of {'an' if words.row == 'image' else 'a'} {words.row}."
    verb = share.verb + ("s" if n_working == 1 else "")
    rows = count(n_rows, words.row, words.rows)
    return f"{causes} {verb} {percent(share.value)} of the {ones} in {rows}."


def _most_common(regions: list[Region], note: Callable[[Region], str]) -> str:
    """Return a sentence about the most common cause or feature, "" if none is on."""
    most = max(regions, key=lambda region: region.weight)
    if most.weight <= 0:
        return ""
    return f"The most common, “{', '.join(most.words)}”, {note(most)}."


def cause_section(
    model: Model,
    words: Words,
    rows: Table | None,
    explained: ExplainedRows | None,
    left: Residuals | None,
    links: Chains | None,
    share: Share | None,
    labels: Labels | None,
) -> dict[str, Any]:
    """Return the parts of the page for tables and documents."""
    network = model.network
    names = rows.row_names if rows is not None else None
    reach, rate = reach_of(network), prior_marginals(network)
    called = cause_names(network, model.kind, model.metadata.get("named") is True)
    if is_drawn(network):  # a picture says more than the names of three pixels
        called = called[0], [""] * network.n_hidden
    n_rows = uses = None
    if explained is not None:
        n_rows = len(explained.number)
        uses = np.asarray(explained.states.sum(axis=0)).ravel()
    recurrence = recurrence_of(model.metadata, network)
    explorer = explorer_data(
        network, words, called, reach, rate, explained, links, names, recurrence
    )
    if rows is not None and rows.excerpts is not None:
        for document in explorer.get("documents", []):
            text = rows.excerpts[document["row"]]
            document["text"] = text.removeprefix(document["name"] or "").strip()
    data: dict[str, Any] = {"explorer": explorer}
    # No topic makes a word more likely on than off: a matrix would show nothing but misses.
    if explained is not None and network.n_layers == 1 and model.kind != "topics":
        data["matrix"] = matrix_data(network, explained, names)
    titles = [f"{name} ({said})" if said else name for name, said in zip(*called, strict=True)]
    short = [label or name for name, label in zip(*called, strict=True)]
    success = success_matrix(network)
    strength = success.max(axis=1).toarray().ravel()  # 0 for a cause without edges
    dead = find_dead(strength, rate, uses, n_rows, words.rows)
    duplicates = find_duplicates(success, dead)
    found = None if uses is None or not n_rows else uses / n_rows
    often = np.asarray(rate if found is None else found, dtype=np.float64)
    verb = "on" if n_rows else "expected"
    regions = _cause_regions(model, words, called, often, verb, labels, recurrence)
    n_working = network.n_hidden - len(dead)
    states = None if explained is None else explained.states
    matrix = data.get("matrix")
    return _ABSENT | {
        "data": data,
        "headline": headline(words, n_working, network.n_hidden, network.n_layers, n_rows, share),
        "lede": _most_common(
            regions, lambda most: f"is {verb} in {percent(most.weight)} of {words.rows}"
        ),
        "map": cause_map(
            regions,
            partial(similarity_of, reach, states),
            f"Map of the {words.causes}: area by how often each is on",
        ),
        "labels": None if labels is None else label_section(labels, short),
        "has_explorer": True,
        "has_names": any(called[1]),
        "matrix_shape": None if matrix is None else (len(matrix["rows"]), len(matrix["columns"])),
        "is_layered": network.n_layers > 1,
        "worst": worst_columns(network, left) if left is not None and matrix is not None else None,
        "n_cut": explorer["cut"],
        "health": _health(titles, dead, duplicates, recurrence),
    }


def feature_section(
    model: Model, layout: ConvolutionalLayout, explained: ExplainedRows | None, share: Share | None
) -> dict[str, Any]:
    """Return the parts of the page for features of images."""
    network, words = model.network, WORDS["features"]
    rate, success = feature_rate(network, layout), 1.0 - network.failure_probability
    n_images = uses = None
    if explained is not None:
        n_images, uses = len(explained.number), feature_uses(explained, layout)
    titles = [f"feature {number}" for number in range(layout.n_components)]
    dead = find_dead(success.max(axis=(1, 2)), rate, uses, n_images, "images")
    duplicates = similar_features(success, dead)
    entries = feature_entries(network, layout, uses)
    found = None if uses is None or not n_images else uses / n_images
    often = rate if found is None else found
    regions = [
        Region(
            f"feature-{entry['number']}",
            (title,),
            f"{title}, {float(times):.2g} times in an image",
            float(times),
            color=entry["color"],
            picture=entry["picture"],
        )
        for entry, title, times in zip(entries, titles, often, strict=False)
    ]
    alike = partial(similarity_of, sp.csr_array(success.reshape(len(success), -1)), None)
    n_working = layout.n_components - len(dead)
    return _ABSENT | {
        "data": {},
        "headline": headline(words, n_working, layout.n_components, 1, n_images, share),
        "lede": _most_common(regions, lambda most: f"occurs {most.weight:.2g} times per image"),
        "map": cause_map(regions, alike, "Map of the features: area by how often each occurs"),
        "features": entries,
        "images": None if explained is None else image_entries(network, layout, explained),
        "health": _health(titles, dead, duplicates),
    }


def _cause_regions(
    model: Model,
    words: Words,
    called: tuple[list[str], list[str]],
    often: FloatArray,
    verb: str,
    labels: Labels | None,
    recurrence: list[float] | None,
) -> list[Region]:
    """Return the causes as circles of the map."""
    regions = []
    for k, (name, label) in enumerate(zip(*called, strict=True)):
        note, color = f"{label or name}: {verb} in {percent(often[k])} of {words.rows}", None
        if labels is not None:
            leader = int(labels.leader[k])
            color = _label_color(leader)
            if leader >= 0:
                most = percent(float(labels.share[k, leader]))
                note += f", {most} of them {labels.names[leader]}"
        lines = tuple(label.split(", ")) if label else _lines(name)
        picture = _picture(model.network, k)
        doubtful = recurrence is not None and recurrence[k] <= 0.5
        note += ", does not recur" * doubtful
        weight = float(often[k])
        regions.append(Region(f"cause-{k}", lines, note, weight, color, picture, doubtful))
    return regions


def _lines(name: str) -> tuple[str, ...]:
    """Break a name into at most three lines of about twelve letters."""
    lines = textwrap.wrap(name, 12, break_long_words=False)
    return tuple([*lines[:2], lines[2] + " …"] if len(lines) > 3 else lines)


def _picture(network: Network, cause: int) -> str:
    """Draw the pixels that a cause switches on, if columns are the pixels of an image."""
    if not is_drawn(network):
        return ""
    success = success_matrix(network)[[cause], : network.n_visible].toarray()
    return shaded_image(success.reshape(network.visible_shape), f"cause {cause} as gray levels")


def _health(
    titles: list[str],
    dead: dict[int, str],
    duplicates: list[list[int]],
    recurrence: list[float] | None = None,
) -> dict[str, Any]:
    known = list(zip(titles, recurrence or [], strict=False))
    return {
        "recurrence": None if recurrence is None else sum(share > 0.5 for share in recurrence),
        "unsure": [(title, percent(share)) for title, share in known if share <= 0.5],
        "n_causes": len(titles),
        "dead": [(titles[cause], reason) for cause, reason in dead.items()],
        "duplicates": [[titles[cause] for cause in group] for group in duplicates],
    }


class Labels(NamedTuple):
    """Labels of the rows, which the model has not seen, and how often causes are on with each.

    ``names`` (n_labels,) the most frequent first; ``rows`` (n_labels,) numbers of rows; ``on``
    (n_causes, n_labels) numbers of rows with each label in which each cause is on; ``column`` name
    of the data column.
    """

    names: tuple[str, ...]
    rows: LongArray
    on: npt.NDArray[np.int64]
    column: str

    @property
    def share(self) -> FloatArray:
        """Share (n_causes, n_labels) of each label among the rows in which a cause is on."""
        return np.asarray(self.on / np.maximum(self.on.sum(axis=1, keepdims=True), 1))

    @property
    def lift(self) -> FloatArray:
        """Over-representation (n_causes, n_labels): that share over the share in all rows."""
        return np.asarray(self.share / (self.rows / self.rows.sum()))

    @property
    def leader(self) -> LongArray:
        """Most over-represented label of each cause (n_causes,), -1 if there is none."""
        enough = (self.on.sum(axis=1) >= _MIN_ROWS) & (self.lift.max(axis=1) >= _MIN_LIFT)
        return np.where(enough, self.lift.argmax(axis=1), -1)


def _label_color(label: int) -> int:
    """Return the color of a label; rarer ones and no label (-1) share the last, gray one."""
    return label if 0 <= label < N_COLORS else N_COLORS


def count_labels(labels: Sequence[str], states: Any, column: str) -> Labels:
    """Count in how many rows with each label each cause is on.

    Parameters
    ----------
    labels : (n_rows,) label of every row; rows with an empty label are left out.
    states : sparse (n_rows, n_causes), where causes are on.
    column : name of the data column.
    """
    values = np.asarray(labels, dtype=np.str_)
    known = np.flatnonzero(values != "")
    found, index, rows = np.unique(values[known], return_inverse=True, return_counts=True)
    if len(found) > MAX_LABELS:
        raise InvalidDataError(
            f"labels: column {column!r} has {len(found):,} different values, at most {MAX_LABELS} "
            "are allowed; is it an id?"
        )
    if len(found) < 2:
        raise InvalidDataError(f"labels: column {column!r} has fewer than two different values")
    order = np.argsort(-rows, kind="stable")
    member = index[:, None] == order  # (n_known, n_labels)
    on = csr_of(states)[known].astype(np.int64).T @ member.astype(np.int64)
    return Labels(tuple(found[order].tolist()), rows[order], np.asarray(on), column)


def label_section(labels: Labels, titles: list[str]) -> dict[str, Any]:
    """Return for each label its causes, the most frequent first, with a bar of labels per cause."""
    share, lift, leader = labels.share, labels.lift, labels.leader
    groups = []
    for label, name in enumerate(labels.names):
        mine = np.flatnonzero(leader == label)
        mine = mine[np.argsort(-labels.on[mine, label], kind="stable")]
        causes = [
            {
                "number": k,
                "title": titles[k],
                "share": float(share[k, label]),
                "lift": float(lift[k, label]),
                "parts": [
                    {"color": _label_color(c), "name": other, "share": float(share[k, c])}
                    for c, other in enumerate(labels.names)
                    if share[k, c] >= 0.005
                ],
            }
            for k in mine.tolist()
        ]
        rows = int(labels.rows[label])
        color = _label_color(label)
        groups.append({"name": name, "color": color, "rows": rows, "causes": causes})
    return {
        "column": labels.column,
        "groups": groups,
        "legend": groups[:N_COLORS],
        "has_others": len(groups) > N_COLORS or bool((leader < 0).any()),
    }
