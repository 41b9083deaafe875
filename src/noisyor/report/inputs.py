"""What a report is made from: a model file, and data that fit it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

from noisyor._util.kinds import Kind
from noisyor.data.columns import align
from noisyor.data.observations import Observations
from noisyor.io.model_file import load_model
from noisyor.model.graph import Network
from noisyor.model.layout import ConvolutionalLayout
from noisyor.tables.options import options_like
from noisyor.tables.read import read_table

__all__ = ["Model", "Rows", "kind_of", "read_model", "rows_for"]


class Model(NamedTuple):
    """A network, what its file says about it, what kind it is, and the name of the file."""

    network: Network
    metadata: dict[str, Any]
    kind: Kind
    name: str


class Rows(NamedTuple):
    """Observations in the columns of the model and, if the file has them, names of the rows."""

    observations: Observations
    names: tuple[str, ...] | None = None


def read_model(path: Path) -> Model:
    """Read a model file; the kind comes from its metadata, else from the network."""
    network, metadata = load_model(path)
    kind = kind_of(network)
    for known in get_args(Kind):
        # A file may claim anything; images can only be drawn of what has them.
        if metadata.get("kind") == known != "features":
            kind = known
    return Model(network, metadata, kind, Path(path).name)


def kind_of(network: Network) -> Kind:
    """What a network is, from its structure alone."""
    if isinstance(network.layout, ConvolutionalLayout):
        return "features"
    return "topics" if network.n_layers > 1 else "factors"


def rows_for(model: Model, data: Any, reading: Mapping[str, Any] | None = None) -> Rows:
    """Rows in the model's columns, from a file or from anything that `Observations.of` takes.

    ``reading`` are options of `ReadOptions`, on top of those that the model's own data were read
    with.
    """
    network = model.network
    if isinstance(data, (str, os.PathLike)):
        table = read_table(data, options_like(model.metadata, data, reading), network)
        return Rows(table.observations, table.row_names)
    aligned, _ = align(
        Observations.of(data),
        network.visible_names,
        network.n_visible,
        network.visible_shape,
        "the data",
    )
    return Rows(aligned)
