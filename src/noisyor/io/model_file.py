"""Networks in a file: one ``.safetensors`` of arrays and a checked description, nothing to execute.

The header's only metadata entry, ``"noisyor"``, is a JSON object: ``format``, ``network`` (sizes,
names, names of the parameter groups, layout), ``user`` (whatever the caller wants to keep),
``tensors`` (sha256 of each array, with its type and shape) and ``sha256`` (of all of the above). A
file is believed only if everything in it agrees.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from noisyor._util.atomic import write_atomically
from noisyor.errors import InvalidNetworkError, InvalidSettingError, ModelFileError
from noisyor.network.graph import Network
from noisyor.network.layout import layout_from_json, layout_to_json

__all__ = [
    "FORMAT",
    "SavedModel",
    "is_model",
    "load_model",
    "load_network",
    "read_metadata",
    "save_network",
]

FORMAT = "noisyor-model-2"

_ENTRY = "noisyor"
_GROUP = "group."
_LARGEST_HEADER = 64 * 2**20
_MUCH = 64 * 2**20
_DTYPES = {
    "child_ptr": np.dtype(np.int64),
    "parent": np.dtype(np.int32),
    "param": np.dtype(np.int32),
    "leak_param": np.dtype(np.int32),
    "theta": np.dtype(np.float64),
    "free": np.dtype(np.bool_),
}

PathLike = str | os.PathLike[str]
Arrays = dict[str, npt.NDArray[Any]]


def save_network(
    path: PathLike, network: Network, *, metadata: Mapping[str, Any] | None = None
) -> None:
    """Write a network to a file, in one step: the old file stays until the new one is complete.

    The same network and metadata give the same bytes.

    Parameters
    ----------
    path : file to write, by custom ending in ``.safetensors``; its folder must exist.
    network : the network.
    metadata : what else to keep, anything that JSON can hold; `load_model` returns it.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import noisyor as nor
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> nor.save_network(path, nor.bipartite(3, 2))
    >>> path.exists()
    True
    """
    user = _json_object(metadata)
    arrays: Arrays = {name: getattr(network, name) for name in _DTYPES}
    arrays |= {_GROUP + name: index for name, index in network.groups.items()}
    description: dict[str, Any] = {
        "format": FORMAT,
        "network": {
            "n_visible": int(network.n_visible),
            "n_hidden": int(network.n_hidden),
            "visible_shape": [int(size) for size in network.visible_shape],
            "visible_names": network.visible_names,
            "hidden_names": network.hidden_names,
            "groups": list(network.groups),
            "layout": layout_to_json(network.layout),
        },
        "tensors": {name: _digest(array) for name, array in arrays.items()},
        "user": user,
    }
    description["sha256"] = _seal(description)
    try:
        content = save(
            {name: np.ascontiguousarray(array) for name, array in arrays.items()},
            metadata={_ENTRY: _canonical(description)},
        )
        write_atomically(path, content)
    except OSError as error:
        reason = error.strerror or error
        raise ModelFileError(f"cannot write the model file {_name(path)}: {reason}") from error
    except (SafetensorError, ValueError) as error:
        raise ModelFileError(f"cannot write the model file {_name(path)}: {error}") from error


class SavedModel(NamedTuple):
    """What a model file holds: the network, and the metadata that it was saved with.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.io.SavedModel(nor.bipartite(3, 2), {"author": "me"}).metadata
    {'author': 'me'}
    """

    network: Network
    metadata: dict[str, Any]


def load_model(path: PathLike) -> SavedModel:
    """Read a network that `save_network` wrote, and its metadata, in one go.

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
    description, arrays = _read(path)
    metadata = description["user"]
    try:
        if not isinstance(metadata, dict):
            raise _DamagedError("metadata is no mapping")
        return SavedModel(_network(description["network"], arrays), metadata)
    except _DamagedError as error:
        raise ModelFileError(f"the model file {_name(path)} is damaged: {error}") from error
    except InvalidNetworkError as error:
        raise ModelFileError(
            f"the model file {_name(path)} does not hold a valid network: {error}"
        ) from error
    except _MALFORMED as error:
        raise ModelFileError(
            f"the model file {_name(path)} is damaged: its description is malformed"
        ) from error


def load_network(path: PathLike) -> Network:
    """The network of a model file; see `load_model`, which also returns the metadata.

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
    """What was given as ``metadata`` when the file was written; see `load_model`.

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


def is_model(path: PathLike) -> bool:
    """Whether a file says that it is a model of noisyor; of any version, and perhaps damaged."""
    from safetensors import safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return _ENTRY in (file.metadata() or {})
    except (SafetensorError, OSError, ValueError):
        return False


# What crafted or damaged content can provoke in the parsers and conversions below.
_MALFORMED = (
    AttributeError,
    LookupError,
    TypeError,
    ValueError,  # also of JSON and Unicode
    OverflowError,
    RecursionError,
    SafetensorError,
)


class _DamagedError(Exception):
    """The content contradicts itself; the text says where."""


def _read(path: PathLike) -> tuple[dict[str, Any], Arrays]:
    """Description and arrays of a file whose checksums hold."""
    try:
        content = _content(path)
        header = _header(content)
        entries = header.get("__metadata__")
        if not isinstance(entries, dict) or not isinstance(entries.get(_ENTRY), str):
            raise ModelFileError(f"{_name(path)} is not a model file of noisyor")
        description = json.loads(entries[_ENTRY])
        found = description.get("format")
        if found != FORMAT:
            raise ModelFileError(
                f"the model file {_name(path)} has format {str(found)[:40]!r}, "
                f"this version of noisyor reads {FORMAT!r}"
            )
        if description["sha256"] != _seal(description):
            raise _DamagedError("the checksum of its description does not match")
        arrays: Arrays = load(content)
        _verify(arrays, description["tensors"])
    except OSError as error:
        reason = error.strerror or error
        raise ModelFileError(f"cannot read the model file {_name(path)}: {reason}") from error
    except _DamagedError as error:
        raise ModelFileError(f"the model file {_name(path)} is damaged: {error}") from error
    except ModelFileError:
        raise
    except _MALFORMED as error:
        raise ModelFileError(
            f"{_name(path)} is not a model file of noisyor, or damaged: {_line(error)}"
        ) from error
    return description, arrays


def _content(path: PathLike) -> bytes:
    """All bytes of a regular file whose announced header fits into it."""
    with open(path, "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{_name(path)} is not a regular file")
        start = stream.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > min(_LARGEST_HEADER, status.st_size - 8):
            raise ModelFileError(f"{_name(path)} is not a model file of noisyor, or cut short")
        start += stream.read(length)
        # Nothing is read of a file that is larger than its header says.
        _complete(_header(start), start, status.st_size)
        on_disk = getattr(status, "st_blocks", status.st_size) * 512
        if status.st_size > _MUCH and on_disk < status.st_size // 100:
            raise _DamagedError(f"of its {status.st_size:,} bytes most were never written")
        return start + stream.read()


def _header(content: bytes) -> dict[str, Any]:
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    if not isinstance(header, dict):
        raise TypeError("the header is no mapping")
    return header


def _complete(header: dict[str, Any], start: bytes, size: int) -> None:
    """Compare the size of the file with what its header announces."""
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    wanted = 8 + int.from_bytes(start[:8], "little") + max(ends, default=0)
    if size != wanted:
        raise _DamagedError(f"it has {size} bytes and announces {wanted}")


def _verify(arrays: Arrays, digests: dict[str, str]) -> None:
    """Compare every array with its checksum."""
    if set(arrays) != set(digests):
        raise _DamagedError("its arrays are not those of its description")
    for name, array in arrays.items():
        if _digest(array) != digests[name]:
            raise _DamagedError(f"the checksum of {name} does not match")


def _network(fields: dict[str, Any], arrays: Arrays) -> Network:
    groups = [str(name) for name in fields["groups"]]
    expected = _DTYPES | {_GROUP + name: np.dtype(np.int32) for name in groups}
    if set(arrays) != set(expected):
        raise _DamagedError(f"its arrays are {sorted(arrays)}, expected {sorted(expected)}")
    for name, dtype in expected.items():
        array = arrays[name]
        if array.dtype != dtype or (name in _DTYPES and array.ndim != 1):
            raise _DamagedError(
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
        raise InvalidNetworkError(f"its edges are not those of a {network.layout.kind} layout")
    return network


def _size(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**31:
        raise _DamagedError(f"a size is a positive number, got {str(value)[:40]!r}")
    return value


def _names(values: object) -> tuple[str, ...] | None:
    if values is None:
        return None
    if not isinstance(values, list) or not all(isinstance(name, str) for name in values):
        raise _DamagedError("names are a list of strings")
    return tuple(values)


def _json_object(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in metadata):
        raise InvalidSettingError("metadata is a mapping from strings to what JSON can hold")
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(metadata), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSettingError(f"metadata holds what JSON cannot: {_line(error)}") from error
    return plain


def _digest(array: npt.NDArray[Any]) -> str:
    plain = np.ascontiguousarray(array)
    kind = f"{plain.dtype.newbyteorder('<').str} {array.shape} "
    little = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(kind.encode() + little.tobytes()).hexdigest()


def _seal(description: dict[str, Any]) -> str:
    """Checksum of a description without its own checksum."""
    rest = {key: value for key, value in description.items() if key != "sha256"}
    return hashlib.sha256(_canonical(rest).encode()).hexdigest()


def _canonical(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _name(path: PathLike) -> str:
    return str(Path(path))


def _line(error: BaseException) -> str:
    """The text of an error on one line."""
    return " ".join(str(error).split()) or type(error).__name__
