"""Estimators in model files: the network, where it came from, and the parameters as JSON."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from noisyor._util.json import plain
from noisyor.errors import InvalidSettingError, ModelFileError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.mean_field import MeanField
from noisyor.inference.method import Method
from noisyor.io.model_file import load_model, save_network
from noisyor.io.provenance import mapping_in, training_curve
from noisyor.learning.state import Evaluation, History
from noisyor.model.network import Network

__all__ = ["history_of", "method_of", "read_model", "write_model"]

PathLike = str | os.PathLike[str]

# These say nothing about the model. They are not read either: no file decides where to write.
_OF_THE_RUN = (
    *("checkpoint", "checkpoint_every", "resume"),
    *("n_jobs", "engine", "progress", "callbacks"),
)
_METHODS: dict[str, type[MaxProduct] | type[MeanField]] = {
    "max-product": MaxProduct,
    "mean-field": MeanField,
}


def write_model(
    path: PathLike, network: Network, origin: Mapping[str, Any], params: Mapping[str, Any]
) -> None:
    """Write a model file; parameters that JSON cannot hold are left out."""
    kept = {name: _plain(value) for name, value in params.items() if name not in _OF_THE_RUN}
    kept = {name: value for name, value in kept.items() if value is not None}
    save_network(path, network, metadata={**origin, "estimator": {"params": kept}})


def read_model(
    path: PathLike, kind: str, names: list[str]
) -> tuple[Network, dict[str, Any], dict[str, Any]]:
    """Network, metadata and those parameters of a model file that have one of the names.

    Files that the command line wrote have no parameters of an estimator; the defaults then apply.
    """
    network, metadata = load_model(path)
    found = metadata.get("kind")
    if found != kind and kind != "network":
        raise ModelFileError(
            f"the model file {os.fspath(path)} holds a model of kind {found!r}, expected {kind!r}; "
            "NoisyOrNetwork.load reads any"
        )
    given = mapping_in(mapping_in(metadata, "estimator"), "params")
    kept = {
        name: _revived(value)
        for name, value in given.items()
        if name in names and name not in _OF_THE_RUN
    }
    return network, metadata, kept


def method_of(settings: Any) -> Method:
    """The method with these settings (see `Method.settings`)."""
    name = settings.get("method") if isinstance(settings, Mapping) else None
    if isinstance(name, str) and name in _METHODS:
        options = {key: value for key, value in settings.items() if key != "method"}
        try:
            return _METHODS[name](**options)
        except TypeError:
            pass
    raise InvalidSettingError(
        f"no method has the settings {reprlib.repr(settings)}; give one as method="
    )


def history_of(metadata: Mapping[str, Any]) -> History:
    """The training curve that a model file keeps, thinned to a few hundred points."""
    curve = training_curve(metadata)
    if curve is None:
        return History()
    pairs = zip(curve.held_out_step.tolist(), curve.held_out_elbo.tolist(), strict=True)
    evaluations = tuple(Evaluation(int(step), elbo) for step, elbo in pairs)
    return History(curve.elbo, np.empty(0), evaluations)


def _plain(value: Any) -> Any:
    """The value as JSON holds it, None if it cannot."""
    if isinstance(value, (MaxProduct, MeanField)):
        return value.settings()
    try:
        return plain(value)
    except TypeError:
        return None


def _revived(value: Any) -> Any:
    if isinstance(value, dict):
        name = value.get("method")
        if isinstance(name, str) and name in _METHODS:
            return method_of(value)
        return {key: item for key, item in value.items() if key not in _OF_THE_RUN}
    return tuple(value) if isinstance(value, list) else value
