"""The formats of users' files: the one table in which a new reader is entered.

``docs/developer/add_a_reader.md`` shows a complete reader. This module is imported by the command
line at once and therefore imports no array library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from noisyor._util.compression import open_binary, uncompressed_name
from noisyor.errors import DatasetNotFoundError, InvalidDataError, InvalidSettingError

__all__ = ["FORMATS", "Format", "ending_of", "format_of"]


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes
    ----------
    description : what a file holds, in a few words.
    reader : ``"module:function"``, imported on first use, with a module of this package or a full
        name; the function is ``read(path, options, columns=None) -> Table``.
    endings : endings of file names, in lower case; compressed files have one more.
    magic : first bytes of a file; a format without any is a text format.
    texts : ``"module:function"`` of ``read_texts(path, options)``, an iterator of (name or None,
        text), if the format can hold documents.
    members : ending of the files in a folder of this format; "" if the format is that of a file.
    """

    description: str
    reader: str
    endings: tuple[str, ...] = ()
    magic: tuple[bytes, ...] = ()
    texts: str = ""
    members: str = ""

    def load(self, what: str = "reader") -> Callable[..., Any]:
        """Import the function that reads a table (``"reader"``) or documents (``"texts"``)."""
        module, _, function = getattr(self, what).partition(":")
        module = module if "." in module else f"noisyor.tables.{module}"
        found: Callable[..., Any] = getattr(import_module(module), function)
        return found


FORMATS: dict[str, Format] = {
    "csv": Format(
        "0/1 columns separated by commas, semicolons or bars",
        "delimited:read",
        (".csv",),
        texts="delimited:read_texts",
    ),
    "tsv": Format(
        "0/1 columns separated by tabs",
        "delimited:read",
        (".tsv", ".tab"),
        texts="delimited:read_texts",
    ),
    "baskets": Format(
        "a line per row that lists its items", "delimited:read_baskets", (".basket", ".baskets")
    ),
    "pairs": Format(
        "a line per row and item, such as user,item", "delimited:read_pairs", (".pairs",)
    ),
    "jsonl": Format(
        "a JSON object or list per line",
        "documents:read_json",
        (".jsonl", ".ndjson", ".json"),
        texts="documents:read_json_texts",
    ),
    "parquet": Format(
        "0/1 columns in a Parquet file", "arrays:read_parquet", (".parquet", ".pq"), (b"PAR1",)
    ),
    "npy": Format(
        "a NumPy matrix or stack of images", "arrays:read_npy", (".npy",), (b"\x93NUMPY",)
    ),
    "npz": Format(
        "NumPy arrays, or a SciPy sparse matrix", "arrays:read_npz", (".npz",), (b"PK\x03\x04",)
    ),
    "mat": Format(
        "a MATLAB file, version 5 to 7", "arrays:read_matlab", (".mat",), (b"MATLAB ", b"\x89HDF")
    ),
    "text": Format(
        "a document per line", "documents:read", (".txt", ".text"), texts="documents:read_texts"
    ),
    "images": Format("a folder of .png files of one size", "arrays:read_images", members=".png"),
    "folder": Format(
        "a folder of .txt files, a document each",
        "documents:read",
        texts="documents:read_texts",
        members=".txt",
    ),
}
"""Every format by its name."""


def format_of(path: Path, asked: str | None = None) -> str:
    """Return the format that is asked for, or find it by the first bytes, then by the name."""
    if not path.exists():
        raise DatasetNotFoundError(f"{path} does not exist")
    is_folder = path.is_dir()
    if not is_folder and not path.is_file():
        raise InvalidDataError(f"{path} is not a regular file")
    if asked is not None and bool(FORMATS[asked].members) != is_folder:
        here, there = ("folder", "file") if is_folder else ("file", "folder")
        raise InvalidSettingError(f"{path} is a {here}, the format {asked} is that of a {there}")
    if is_folder:
        return asked or _folder_format(path)
    with open_binary(path) as stream:
        start = stream.read(16)
    if not start:
        raise InvalidDataError(f"{path} is empty")
    if start.startswith(b"\x89PNG"):
        raise InvalidDataError(f"{path} is a single image; give the folder that holds the images")
    found = next((name for name, it in FORMATS.items() if start.startswith(it.magic)), None)
    if asked is None and found is not None:
        return found
    ending = ending_of(path)
    name = asked or next((name for name, it in FORMATS.items() if ending in it.endings), None)
    if name is None:
        raise InvalidSettingError(
            f"the name of {path} does not show its format; give the format, such as "
            f"ReadOptions(format='csv') for columns between commas, or "
            f"{', '.join(list(FORMATS)[1:])}"
        )
    if (FORMATS[name].magic or found is not None) and name != found:
        actual = "a text or damaged file" if found is None else f"of the format {found}"
        raise InvalidDataError(f"{path} is not of the format {name}: it is {actual}")
    return name


def _folder_format(path: Path) -> str:
    of_ending = {it.members: name for name, it in FORMATS.items() if it.members}
    endings = {ending_of(file) for file in path.rglob("*")}
    for ending, name in of_ending.items():
        if ending in endings:
            return name
    raise InvalidDataError(f"{path} is a folder without {' or '.join(of_ending)} files")


def ending_of(path: Path) -> str:
    """Return the ending of a file's name, without that of a compression."""
    return Path(uncompressed_name(path)).suffix
