"""Read the input of a report: a model file, its metadata, and data in the model's columns."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

from noisyor.data.columns import align
from noisyor.data.observations import Observations
from noisyor.errors import InvalidSettingError
from noisyor.io.model_file import load_model, mapping_in
from noisyor.model.layout import ConvolutionalLayout
from noisyor.model.names import Kind, visible_label
from noisyor.model.network import Network, network_of
from noisyor.tables.options import options_like
from noisyor.tables.table import Table, read_like, read_table

_LONGEST_NAME = 80
"""Letters shown of a name."""

_LONGEST_VALUE = 300
"""Letters shown of a value in the metadata."""


class Model(NamedTuple):
    """A network with the metadata of its file, its kind, and the name of the file."""

    network: Network
    metadata: dict[str, Any]
    kind: Kind
    name: str


class Words(NamedTuple):
    """Words for the parts of a model on a page: singular and plural of cause, visible and row."""

    cause: str
    causes: str
    visible: str
    visibles: str
    row: str
    rows: str


WORDS: dict[Kind, Words] = {
    "topics": Words("topic", "topics", "word", "words", "document", "documents"),
    "factors": Words("cause", "causes", "column", "columns", "row", "rows"),
    "features": Words("feature", "features", "pixel", "pixels", "image", "images"),
    "network": Words("cause", "causes", "finding", "findings", "row", "rows"),
}


def read_model(path: Path) -> Model:
    """Read a model file; the kind comes from its metadata, else from the network."""
    network, metadata = load_model(path)
    return Model(network, metadata, kind_of(network, metadata.get("kind")), Path(path).name)


def model_of(model: Any) -> Model:
    """Return the `Model` of a network or of a fitted estimator."""
    network = network_of(model)
    metadata = dict(getattr(model, "provenance_", {}))
    kind = kind_of(network, getattr(model, "_kind", None))
    return Model(network, metadata, kind, type(model).__name__)


def kind_of(network: Network, claimed: object = None) -> Kind:
    """Return the kind of a model: the one that is claimed, or else that of its structure."""
    # A file may claim anything; only a convolutional network can be drawn as features.
    kinds: tuple[Kind, ...] = get_args(Kind)
    if claimed in kinds and claimed != "features":
        return kinds[kinds.index(claimed)]
    if isinstance(network.layout, ConvolutionalLayout):
        return "features"
    return "topics" if network.n_layers > 1 else "factors"


def rows_for(model: Model, data: Any, reading: Mapping[str, Any] | None = None) -> Table:
    """Return rows in the model's columns, from a file or anything that `Observations.of` takes.

    ``reading`` are options of `ReadOptions`, on top of those that the training data were read with.
    """
    network = model.network
    if isinstance(data, (str, os.PathLike)):
        return read_like(model.metadata, data, reading, network)
    aligned, _ = align(
        Observations.of(data),
        network.visible_names,
        network.n_visible,
        network.visible_shape,
        "the data",
    )
    return Table(aligned)


def read_labels(
    model: Model, data: Any, reading: Mapping[str, Any] | None, column: str
) -> tuple[str, ...]:
    """Return the values of a data column that the model does not use, one for each row."""
    if not isinstance(data, (str, os.PathLike)):
        raise InvalidSettingError("labels need a data file with a column of labels")
    if column in (model.network.visible_names or ()):
        raise InvalidSettingError(
            f"labels: {column!r} is a column of the model; choose one that the model has not seen"
        )
    options = options_like(model.metadata, data, reading)
    drop = tuple(name for name in options.drop if name != column)
    # Read as names of the rows are: from a column, a field, or an array of the file.
    options = replace(options, id_column=column, id_required=True, drop=drop)
    names = read_table(data, options, model.network).row_names
    if names is None:
        raise InvalidSettingError(f"{data} has no column {column!r} to take labels from")
    return names


def words_of(model: Model) -> Words:
    """Return the words for the parts of a model; columns that form an image are pixels."""
    words = WORDS[model.kind]
    if not is_drawn(model.network):
        return words
    return words._replace(visible="pixel", visibles="pixels", row="image", rows="images")


def is_drawn(network: Network) -> bool:
    """Return whether the visible nodes are unnamed pixels of an image."""
    return len(network.visible_shape) == 2 and network.visible_names is None


def describe(model: Model) -> str:
    """Return the size of a model in a few words, such as "8 causes behind 29 columns"."""
    network, words = model.network, words_of(model)
    visibles = f"{network.n_visible:,} {words.visibles}"
    if isinstance(network.layout, ConvolutionalLayout):
        small, large = (
            "\u00a0×\u00a0".join(map(str, shape))
            for shape in (network.layout.feature_shape, network.layout.image_shape)
        )
        return f"{network.layout.n_components:,} features of {small} pixels, in images of {large}"
    causes = count(network.n_hidden, words.cause, words.causes)
    if network.n_layers > 1:
        return f"{causes} in {network.n_layers} layers above {visibles}"
    return f"{causes} behind {visibles}"


def visible_names(network: Network) -> list[str]:
    """Return names of the visibles; indices or pixel positions if the model has no names."""
    return [shorten(visible_label(network, index)) for index in range(network.n_visible)]


def shorten(name: str) -> str:
    """Cut a name that is too long to be shown."""
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def count(number: int, singular: str, plural: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {singular if number == 1 else plural}"


def percent(share: float) -> str:
    """Format a share in percent without meaningless digits."""
    value = 100 * share
    if 0 < value < 0.1:
        return "under 0.1\u00a0%"
    if 99.5 <= value < 100:
        return "over 99\u00a0%"
    return f"{value:.1f}\u00a0%" if value < 9.95 else f"{value:.0f}\u00a0%"


def same_data(metadata: Mapping[str, Any], fingerprint: str) -> bool:
    """Return whether the data with this fingerprint are the training data of the model."""
    return mapping_in(metadata, "data").get("sha256") == fingerprint


_TITLES = {
    "data: rows": "training rows",
    "data: columns": "training columns",
    "data: ones": "ones in the training data",
    "data: missing": "missing values",
    "data: sha256": "fingerprint of the training data (SHA-256)",
    "data: source": "training data from",
}


def provenance_rows(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the metadata as a flat list of titles and values, without curve and metrics."""
    first = [name for name in ("created", "kind", "data", "settings") if name in metadata]
    rest = [name for name in metadata if name not in (*first, "curve", "metrics")]
    rows = []
    for name in [*first, *rest]:
        parts = metadata[name] if isinstance(metadata[name], Mapping) else {"": metadata[name]}
        for key, value in parts.items():
            title = ": ".join(part for part in (name, str(key)) if part not in ("", "settings"))
            if value not in (None, {}):
                title = _TITLES.get(title, title.replace("_", " "))
                rows.append((title, _shown(value)))
    return rows


def _shown(value: Any) -> str:
    """Return a value of the metadata as a short text."""
    if isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:,}"
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
