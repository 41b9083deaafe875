"""Networks in a file: one ``.safetensors`` of arrays and a checked description, nothing to execute.

A sealed file (see `noisyor.io.sealed_file`) with the fields ``network`` (sizes, names, names of the
parameter groups, layout) and ``user`` (metadata of the caller).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from noisyor.errors import (
    InvalidDataError,
    InvalidNetworkError,
    InvalidSettingError,
    ModelFileError,
)
from noisyor.io.sealed_file import (
    Arrays,
    DamagedError,
    PathLike,
    on_one_line,
    parsing,
    read_sealed,
    write_sealed,
)
from noisyor.model.layout import layout_from_json, layout_to_json
from noisyor.model.network import FittedModel, Network, network_of

FORMAT = "noisyor-model-3"

_FORMAT_2 = "noisyor-model-2"
"""The format of version 0.1.0, read by versions 0.2 and 0.3. It has other names of settings and may
contain sets of alternatives, which later versions do not have."""

_RENAMED_SETTINGS = {"polish": "icm", "step_on": "parameterization"}
_RENAMED_OBJECTIVES = {"description": "mdl", "errors": "hamming", "probability": "likelihood"}

_MAX_NAMES = 6 * 2**20  # bytes; the header of a file may have 8 MB

_GROUP = "group."
_DTYPES = {
    "child_ptr": np.dtype(np.int64),
    "parent": np.dtype(np.int32),
    "param": np.dtype(np.int32),
    "leak_param": np.dtype(np.int32),
    "theta": np.dtype(np.float64),
    "free": np.dtype(np.bool_),
}


def save_network(
    path: PathLike, network: Network | FittedModel, *, metadata: Mapping[str, Any] | None = None
) -> None:
    """Write a network to a file, in one step: the old file stays until the new one is complete.

    The same network and metadata give the same bytes.

    Parameters
    ----------
    path : file to write, by custom ending in ``.safetensors``; its folder must exist.
    network : a `Network` or a fitted estimator.
    metadata : further content, anything that JSON can hold; `load_model` returns it.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import noisyor as nor
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> nor.save_network(path, nor.bipartite(3, 2))
    >>> path.exists()
    True
    """
    network, user = network_of(network), _json_object(metadata)
    arrays: Arrays = {name: getattr(network, name) for name in _DTYPES}
    arrays |= {_GROUP + name: index for name, index in network.groups.items()}
    fields = {
        "network": {
            "n_visible": int(network.n_visible),
            "n_hidden": int(network.n_hidden),
            "visible_shape": [int(size) for size in network.visible_shape],
            "visible_names": network.visible_names,
            "hidden_names": network.hidden_names,
            "groups": list(network.groups),
            "layout": layout_to_json(network.layout),
        },
        "user": user,
    }
    write_sealed(path, FORMAT, fields, arrays)


class SavedModel(NamedTuple):
    """The content of a model file: the network, and the metadata that it was saved with."""

    network: Network
    metadata: dict[str, Any]


def load_model(path: PathLike) -> SavedModel:
    """Read a network that `save_network` wrote, and its metadata.

    Sizes, types, checksums, parameters, graph and layout are checked; a file with any fault raises
    `ModelFileError`, and nothing in a file is ever executed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import noisyor as nor
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> nor.save_network(path, nor.bipartite(3, 2), metadata={"author": "me"})
    >>> network, metadata = nor.io.load_model(path)
    >>> network.n_visible, metadata
    (3, {'author': 'me'})
    """
    description, arrays = read_sealed(path, FORMAT, _FORMAT_2)
    with parsing(path):
        metadata = description["user"]
        if not isinstance(metadata, dict):
            raise DamagedError("metadata must be a mapping")
        if description["format"] == _FORMAT_2:
            if "alternatives" in arrays:
                raise ModelFileError(
                    f"the model file {Path(path)} holds sets of alternatives, which only version "
                    "0.1.0 of noisyor has; learn the model again with this version"
                )
            metadata = _renamed(metadata)
        try:
            return SavedModel(_network(description["network"], arrays), metadata)
        except InvalidNetworkError as error:
            raise ModelFileError(
                f"the model file {Path(path)} does not hold a valid network: {error}"
            ) from error


def check_names(names: Sequence[str] | None) -> None:
    """Reject names of columns that a model file cannot hold, before a model is learned."""
    size = len(json.dumps(json.dumps(names)))
    if size > _MAX_NAMES:
        raise InvalidDataError(
            f"the names of the columns take {size / 2**20:.1f} MB, a model file holds "
            f"{_MAX_NAMES // 2**20} MB: shorten the names"
        )


def load_network(path: PathLike) -> Network:
    """Read the network of a model file; see `load_model`, which also returns the metadata.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import noisyor as nor
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> nor.save_network(path, nor.bipartite(3, 2))
    >>> nor.load_network(path).n_hidden
    2
    """
    return load_model(path).network


def read_metadata(path: PathLike) -> dict[str, Any]:
    """Read the ``metadata`` that a model file was saved with; see `load_model`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import noisyor as nor
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> nor.save_network(path, nor.bipartite(3, 2), metadata={"seed": 7})
    >>> nor.io.read_metadata(path)
    {'seed': 7}
    """
    return load_model(path).metadata


def _renamed(value: Any) -> Any:
    """Return metadata of format 2 with the names of settings that this version uses."""
    if isinstance(value, list):
        return [_renamed(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {_RENAMED_SETTINGS.get(key, key): _renamed(item) for key, item in value.items()}
    if isinstance(objective := found.get("objective"), str):
        found["objective"] = _RENAMED_OBJECTIVES.get(objective, objective)
    return found


def _network(fields: dict[str, Any], arrays: Arrays) -> Network:
    groups = [str(name) for name in fields["groups"]]
    expected = _DTYPES | {_GROUP + name: np.dtype(np.int32) for name in groups}
    if set(arrays) != set(expected):
        raise DamagedError(f"its arrays are {sorted(arrays)}, expected {sorted(expected)}")
    for name, dtype in expected.items():
        array = arrays[name]
        if array.dtype != dtype or (name in _DTYPES and array.ndim != 1):
            raise DamagedError(
                f"{name} is {array.dtype} of shape {array.shape}, expected {dtype}"
                + (" with one axis" if name in _DTYPES else "")
            )
    ptr = arrays["child_ptr"]
    if ptr.size and (ptr.min() < 0 or ptr.max() > len(arrays["parent"])):
        raise InvalidNetworkError("child_ptr must rise from 0 to the number of edges")
    network = Network(
        n_visible=_size(fields["n_visible"]),
        n_hidden=_size(fields["n_hidden"]),
        groups={name: arrays[_GROUP + name] for name in groups},
        visible_names=_names(fields["visible_names"]),
        hidden_names=_names(fields["hidden_names"]),
        visible_shape=tuple(_size(size) for size in fields["visible_shape"]),
        layout=layout_from_json(fields["layout"]),
        **{name: arrays[name] for name in _DTYPES},
    )
    if network.layout is not None and not network.layout.describes(
        network.child_ptr, network.parent
    ):
        raise InvalidNetworkError("its edges are not those of its layout")
    return network


def _size(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**31:
        raise DamagedError(f"a size must be a positive number, got {str(value)[:40]!r}")
    return value


def _names(values: object) -> tuple[str, ...] | None:
    if values is None:
        return None
    if not isinstance(values, list) or not all(isinstance(name, str) for name in values):
        raise DamagedError("names must be a list of strings")
    return tuple(values)


def _json_object(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in metadata):
        raise InvalidSettingError("metadata must be a mapping from strings to JSON values")
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(metadata), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSettingError(
            f"metadata holds what JSON cannot: {on_one_line(error)}"
        ) from error
    return plain
