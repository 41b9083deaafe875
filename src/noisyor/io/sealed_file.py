"""Arrays and a description in one ``.safetensors`` file, checked against its checksums.

The header's only metadata entry, ``"noisyor"``, is a JSON object: ``format``, ``tensors`` (sha256
of each array, with its type and shape), ``sha256`` (of the rest of the object), and the fields of
the format. Nothing in a file is ever executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from noisyor._util.files import write_atomically
from noisyor.errors import ModelFileError

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
                f"noisyor reads {' and '.join(map(repr, forms))}; write it again with this version"
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
        raise ModelFileError(f"{Path(path)} is not a model file of noisyor, or cut short")
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
