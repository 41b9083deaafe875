"""Networks in a file: one ``.safetensors`` of arrays and a checked description, nothing to execute.

The header of a sealed file has one metadata entry, ``"noisyor"``. It is a JSON object: ``format``,
``tensors`` (sha256 of each array, with its type and shape), ``sha256`` (of the rest of the object),
and the fields of the format. Those of a network are ``network`` (sizes, names, names of the
parameter groups, layout) and ``user`` (metadata of the caller). Checkpoints are sealed files, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from noisyor._util.arrays import FloatArray
from noisyor._util.files import write_atomically
from noisyor._util.validation import is_finite, is_whole
from noisyor._version import __version__
from noisyor.data.observations import Observations
from noisyor.errors import (
    InvalidDataError,
    InvalidNetworkError,
    InvalidSettingError,
    ModelFileError,
)
from noisyor.model.layout import layout_from_json, layout_to_json
from noisyor.model.names import Kind
from noisyor.model.network import FittedModel, Network, network_of

# ---- a sealed file: arrays and a description, with checksums

_ENTRY = "noisyor"

_MAX_HEADER = 8 * 2**20
"""Largest size of a header in bytes; it is parsed before anything else is checked. Names of 100,000
columns take one or two million bytes."""

_LARGE_FILE_BYTES = 64 * 2**20
"""Size in bytes above which a file is checked for holes."""

PathLike = str | os.PathLike[str]
Arrays = dict[str, npt.NDArray[Any]]


def write_sealed(path: PathLike, form: str, fields: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a file in one step: the old file stays until the new one is complete.

    Parameters
    ----------
    path : file to write; its folder must exist.
    form : name of the format.
    fields : fields of the description, as JSON can hold them.
    arrays : arrays by name.
    """
    description: dict[str, Any] = {
        **fields,
        "format": form,
        "tensors": {name: _digest(array) for name, array in arrays.items()},
    }
    description["sha256"] = _seal(description)
    try:
        content = save(
            {name: np.ascontiguousarray(array) for name, array in arrays.items()},
            metadata={_ENTRY: _canonical(description)},
        )
        if int.from_bytes(content[:8], "little") > _MAX_HEADER:
            raise ValueError(
                f"its names and metadata take more than {_MAX_HEADER // 2**20} MB; shorten them"
            )
        write_atomically(path, content)
    except OSError as error:
        reason = error.strerror or error
        raise ModelFileError(f"cannot write the model file {Path(path)}: {reason}") from error
    except (SafetensorError, ValueError) as error:
        raise ModelFileError(f"cannot write the model file {Path(path)}: {error}") from error


def is_sealed(path: PathLike) -> bool:
    """Return whether a file is marked as a noisyor file, of any version, perhaps damaged."""
    try:
        with open(path, "rb") as stream:
            return _ENTRY in _header(_start(path, stream))["__metadata__"]
    except (*_MALFORMED, OSError, ModelFileError):
        return False


# What crafted or damaged content can provoke in parsers and conversions.
_MALFORMED = (
    AttributeError,
    LookupError,
    TypeError,
    ValueError,  # also of JSON and Unicode
    OverflowError,
    RecursionError,
    SafetensorError,
)


class DamagedError(Exception):
    """The content is inconsistent; the message says where."""


@contextmanager
def parsing(path: PathLike) -> Iterator[None]:
    """Convert any exception from an unreadable or damaged file to a `ModelFileError`."""
    try:
        yield
    except ModelFileError:
        raise
    except OSError as error:
        reason = error.strerror or error
        raise ModelFileError(f"cannot read the model file {Path(path)}: {reason}") from error
    except DamagedError as error:
        raise ModelFileError(f"the model file {Path(path)} is damaged: {error}") from error
    except _MALFORMED as error:
        raise ModelFileError(
            f"{Path(path)} is damaged or not a model file of noisyor: malformed content "
            f"({on_one_line(error)})"
        ) from error


def read_sealed(path: PathLike, *forms: str) -> tuple[dict[str, Any], Arrays]:
    """Read description and arrays of a file of one of these formats, and check its checksums."""
    with parsing(path):
        content = _content(path)
        entries = _header(content).get("__metadata__")
        if not isinstance(entries, dict) or not isinstance(entries.get(_ENTRY), str):
            raise ModelFileError(f"{Path(path)} is not a model file of noisyor")
        description = json.loads(entries[_ENTRY])
        found = description.get("format")
        if found not in forms:
            raise ModelFileError(
                f"the model file {Path(path)} has format {str(found)[:40]!r}, this version of "
                f"noisyor reads {' and '.join(map(repr, forms))}; install the version that wrote "
                "it, or write it again with this one"
            )
        if description["sha256"] != _seal(description):
            raise DamagedError("the checksum of its description does not match")
        arrays: Arrays = load(content)
        if set(arrays) != set(description["tensors"]):
            raise DamagedError("its arrays are not those of its description")
        for name, array in arrays.items():
            if _digest(array) != description["tensors"][name]:
                raise DamagedError(f"the checksum of {name} does not match")
    return description, arrays


def _start(path: PathLike, stream: IO[bytes]) -> bytes:
    """Read the header of a regular file, with its length, if it is not too long and fits."""
    status = os.fstat(stream.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise ModelFileError(f"{Path(path)} is not a regular file")
    start = stream.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > status.st_size - 8:
        raise ModelFileError(
            f"{Path(path)} is not a model file of noisyor, or cut short; "
            "`noisyor fit` and `save` write model files"
        )
    if length > _MAX_HEADER:
        raise ModelFileError(
            f"{Path(path)} has a header of {length:,} bytes; model files of noisyor have at most "
            f"{_MAX_HEADER:,}"
        )
    return start + stream.read(length)


def _content(path: PathLike) -> bytes:
    """Read all bytes of a regular file whose size agrees with its header."""
    with open(path, "rb") as stream:
        start = _start(path, stream)
        status = os.fstat(stream.fileno())
        # Nothing is read of a file that is larger than its header says.
        tensors = (entry for name, entry in _header(start).items() if name != "__metadata__")
        wanted = len(start) + max((entry["data_offsets"][1] for entry in tensors), default=0)
        if status.st_size != wanted:
            raise DamagedError(f"it has {status.st_size} bytes and announces {wanted}")
        on_disk = getattr(status, "st_blocks", status.st_size) * 512
        if status.st_size > _LARGE_FILE_BYTES and on_disk < status.st_size // 100:
            raise DamagedError(f"of its {status.st_size:,} bytes most were never written")
        return start + stream.read()


def _header(content: bytes) -> dict[str, Any]:
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    if not isinstance(header, dict):
        raise TypeError("the header is no mapping")
    return header


def _digest(array: npt.NDArray[Any]) -> str:
    plain = np.ascontiguousarray(array)
    kind = f"{plain.dtype.newbyteorder('<').str} {array.shape} "
    little = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(kind.encode() + little.tobytes()).hexdigest()


def _seal(description: dict[str, Any]) -> str:
    """Return the checksum of a description without its own checksum."""
    rest = {key: value for key, value in description.items() if key != "sha256"}
    return hashlib.sha256(_canonical(rest).encode()).hexdigest()


def _canonical(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def on_one_line(error: BaseException) -> str:
    """Return the text of an error on one line."""
    return " ".join(str(error).split()) or type(error).__name__


# ---- a network in a sealed file

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
    >>> import noisyor as nor
    >>> nor.save_network("model.safetensors", nor.bipartite(3, 2))
    >>> nor.load_network("model.safetensors")
    Network(n_visible=3, n_hidden=2, layers=1, edges=6, parameters=9, free=9)
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
    >>> import noisyor as nor
    >>> nor.save_network("model.safetensors", nor.bipartite(3, 2), metadata={"author": "me"})
    >>> network, metadata = nor.io.load_model("model.safetensors")
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
    >>> import noisyor as nor
    >>> nor.save_network("model.safetensors", nor.bipartite(3, 2))
    >>> nor.load_network("model.safetensors").n_hidden
    2
    """
    return load_model(path).network


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


# ---- metadata: the data, settings and quality of a model
#
# The metadata of a file may be anything that JSON holds. The functions below return values of the
# expected type and leave out everything else.

TOPIC_WORDS = "topic_words"
"""Entry of the metadata with the columns that describe each topic of one layer."""

_MAX_SIZE = 1e15
"""Largest plausible metric, bound or step; larger values could overflow."""


def provenance(
    kind: Kind,
    observations: Observations,
    *,
    settings: Mapping[str, Any],
    metrics: Mapping[str, float],
    curve: Mapping[str, list[float]] | None = None,
    source: str | None = None,
) -> dict[str, Any]:
    """Describe data, settings and quality of a model as metadata for `save_network`.

    Parameters
    ----------
    kind : what the model is.
    observations : the training data; only their size and a fingerprint are kept.
    settings : how the model was learned.
    metrics : such as ``held_out_elbo``.
    curve : of the training, the dictionary that ``History.curve()`` returns.
    source : name of the file that the data came from.

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> from noisyor.io.model_file import provenance
    >>> rows = nor.Observations.of(np.eye(3))
    >>> provenance("factors", rows, settings={}, metrics={})["data"]["rows"]
    3
    """
    return {
        "kind": kind,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": {
            "rows": observations.n_rows,
            "columns": observations.n_visible,
            "ones": int(observations.n_active),
            "missing": int(observations.n_missing),
            "sha256": observations.fingerprint(),
            "source": source,
        },
        "settings": dict(settings),
        "metrics": {name: float(value) for name, value in metrics.items()},
        "curve": dict(curve or {}),
        "versions": {
            "noisyor": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def mapping_in(metadata: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an entry of the metadata that is a mapping, or an empty mapping."""
    value = metadata.get(name)
    return value if isinstance(value, Mapping) else {}


def kind_of(metadata: Mapping[str, Any]) -> Kind:
    """Return the kind of model in the metadata; "network" if there is none."""
    kinds: tuple[Kind, ...] = get_args(Kind)
    return next((kind for kind in kinds if metadata.get("kind") == kind), "network")


def metrics_of(metadata: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a plausible size among the metrics."""
    return {
        name: float(value)
        for name, value in mapping_in(metadata, "metrics").items()
        if is_finite(value) and abs(value) <= _MAX_SIZE
    }


def topic_words_of(metadata: Mapping[str, Any], network: Network) -> list[list[int]] | None:
    """Return the columns that describe each topic, or None if the metadata lack them."""
    lists = metadata.get(TOPIC_WORDS)
    if not isinstance(lists, list) or len(lists) != network.n_hidden:
        return None
    for words in lists:
        if not isinstance(words, list):
            return None
        if not all(is_whole(word) and 0 <= word < network.n_visible for word in words):
            return None
    return [[int(word) for word in words] for words in lists]


def recurrence_of(metadata: Mapping[str, Any], network: Network) -> list[float] | None:
    """Return the share of resamples in which each cause was found again, or None if unknown."""
    shares = mapping_in(metadata, "stability").get("recurrence")
    if not isinstance(shares, list) or len(shares) != network.n_hidden:
        return None
    if not all(is_finite(share) and 0 <= share <= 1 for share in shares):
        return None
    return [float(share) for share in shares]


class NumberCurve(NamedTuple):
    """Validation log p by number of causes, with its standard error, and the number chosen."""

    n_components: FloatArray
    log_p: FloatArray
    standard_error: FloatArray
    chosen: int


def number_curve(metadata: Mapping[str, Any]) -> NumberCurve | None:
    """Return how the number of causes was chosen, or None if it was given."""
    record = mapping_in(mapping_in(metadata, "settings"), "n_components_curve")
    sizes, log_p = _pairs(record.get("n_components"), record.get("log_p"))
    other, error = _pairs(record.get("n_components"), record.get("standard_error"))
    chosen: Any = record.get("chosen")
    if not len(sizes) or not np.array_equal(sizes, other) or not is_whole(chosen):
        return None
    return NumberCurve(sizes, log_p, error, int(chosen))


class TrainingCurve(NamedTuple):
    """Bound of the training batches and of held-out rows over the steps, each perhaps empty."""

    step: FloatArray
    elbo: FloatArray
    held_out_step: FloatArray
    held_out_elbo: FloatArray


def training_curve(metadata: Mapping[str, Any]) -> TrainingCurve | None:
    """Return the record of the training, or None if there is none to draw."""
    record = mapping_in(metadata, "curve")
    train = _pairs(record.get("step"), record.get("elbo"))
    held_out = _pairs(record.get("held_out_step"), record.get("held_out_elbo"))
    if not len(train[0]) and not len(held_out[0]):
        return None
    return TrainingCurve(*train, *held_out)


def _pairs(x: Any, y: Any) -> tuple[FloatArray, FloatArray]:
    empty = np.empty(0), np.empty(0)
    try:
        xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return empty
    if xs.ndim != 1 or xs.shape != ys.shape:
        return empty
    plausible = (xs >= 0) & (xs <= _MAX_SIZE) & (np.abs(ys) <= _MAX_SIZE)  # and no NaN
    return xs[plausible], ys[plausible]
