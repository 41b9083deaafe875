"""The formats of users' files: the one table in which a new reader is entered.

A format is read by a module of this package, named here and imported on first use. The module
exports

    read(path, options, columns=None) -> Table

and, if the format can hold documents,

    read_texts(path, options) -> iterator of (name of the document or None, text)

``docs/developer/add_a_reader.md`` shows a complete one.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from noisyor._util.compression import open_binary, uncompressed_name
from noisyor.errors import DatasetNotFoundError, InvalidDataError, InvalidSettingError

__all__ = ["FORMATS", "Format", "format_of", "reader_module"]


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes
    ----------
    description : what a file of it holds, in a few words.
    module : of `noisyor.tables.readers`, with the function ``read``.
    endings : of the names of its files, in small letters; compressed files have one more.
    magic : first bytes of its files; a format without any is one of text files.
    texts : whether it can hold documents; then the module has the function ``read_texts``.
    members : ending of the files in a folder of this format; "" if the format is that of a file.
    """

    description: str
    module: str
    endings: tuple[str, ...] = ()
    magic: tuple[bytes, ...] = ()
    texts: bool = False
    members: str = ""


FORMATS: dict[str, Format] = {
    "csv": Format(
        "0/1 columns separated by commas, semicolons or bars",
        "delimited",
        (".csv",),
        texts=True,
    ),
    "tsv": Format("0/1 columns separated by tabs", "delimited", (".tsv", ".tab"), texts=True),
    "baskets": Format("a line per row that lists its items", "baskets", (".basket", ".baskets")),
    "pairs": Format("a line per row and item, such as user,item", "pairs", (".pairs",)),
    "jsonl": Format(
        "a JSON object or list per line", "jsonl", (".jsonl", ".ndjson", ".json"), texts=True
    ),
    "parquet": Format("0/1 columns in a Parquet file", "parquet", (".parquet", ".pq"), (b"PAR1",)),
    "npy": Format("a NumPy matrix or stack of images", "arrays", (".npy",), (b"\x93NUMPY",)),
    "npz": Format("NumPy arrays, or a SciPy sparse matrix", "arrays", (".npz",), (b"PK\x03\x04",)),
    "mat": Format("a MATLAB file, version 5 to 7", "matlab", (".mat",), (b"MATLAB ", b"\x89HDF")),
    "text": Format("a document per line", "documents", (".txt", ".text"), texts=True),
    "images": Format("a folder of .png files of one size", "images", members=".png"),
    "folder": Format(
        "a folder of .txt files, a document each", "documents", texts=True, members=".txt"
    ),
}
"""Every format by its name."""


def reader_module(name: str) -> Any:
    """The module that reads a format."""
    return import_module(f"noisyor.tables.readers.{FORMATS[name].module}")


def format_of(path: Path, asked: str | None = None) -> str:
    """The format that is asked for, that of the first bytes, or that of the name."""
    if not path.exists():
        raise DatasetNotFoundError(f"{path} does not exist")
    if path.is_dir():
        if asked is not None and not FORMATS[asked].members:
            raise InvalidSettingError(f"{path} is a folder, the format {asked} is that of a file")
        return asked or _folder_format(path)
    if not path.is_file():
        raise InvalidDataError(f"{path} is not a regular file")
    if asked is not None and FORMATS[asked].members:
        raise InvalidSettingError(f"{path} is a file, the format {asked} is that of a folder")
    with open_binary(path) as stream:
        start = stream.read(16)
    if not start:
        raise InvalidDataError(f"{path} is empty")
    if start.startswith(b"\x89PNG"):
        raise InvalidDataError(f"{path} is a single image; give the folder that holds the images")
    found = next((name for name, it in FORMATS.items() if start.startswith(it.magic)), None)
    if asked is None and found is not None:
        return found
    name = asked or _format_of_name(path)
    if (FORMATS[name].magic or found is not None) and name != found:
        came = "a text or damaged file" if found is None else f"of the format {found}"
        raise InvalidDataError(f"{path} is not of the format {name}: it is {came}")
    return name


def _format_of_name(path: Path) -> str:
    ending = Path(uncompressed_name(path)).suffix
    for name, it in FORMATS.items():
        if ending in it.endings:
            return name
    raise InvalidSettingError(
        f"cannot tell from its name how {path} is written; give the format, such as "
        f"ReadOptions(format='csv') for columns between commas, or {', '.join(list(FORMATS)[1:])}"
    )


def _folder_format(path: Path) -> str:
    of_ending = {it.members: name for name, it in FORMATS.items() if it.members}
    endings = {Path(uncompressed_name(file)).suffix for file in path.rglob("*")}
    for ending, name in of_ending.items():
        if ending in endings:
            return name
    raise InvalidDataError(f"{path} is a folder without {' or '.join(of_ending)} files")
