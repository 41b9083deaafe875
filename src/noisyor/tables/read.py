"""One call for every file: find out what it is, read it, bring it into a model's columns."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from noisyor._util.compression import open_binary
from noisyor.data.columns import align
from noisyor.data.observations import Observations
from noisyor.errors import DatasetNotFoundError, InvalidDataError
from noisyor.network.graph import Network
from noisyor.tables import arrays as npy
from noisyor.tables import baskets as items
from noisyor.tables import delimited, images, jsonl, matlab, parquet
from noisyor.tables import documents as texts
from noisyor.tables.options import FORMATS, ReadOptions

__all__ = ["Table", "format_of", "read_table"]

_ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".basket": "baskets",
    ".baskets": "baskets",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npy": "npy",
    ".npz": "npz",
    ".mat": "mat",
    ".txt": "text",
    ".text": "text",
}
_MAGIC = (
    (b"PAR1", "parquet"),
    (b"\x93NUMPY", "npy"),
    (b"PK\x03\x04", "npz"),
    (b"MATLAB ", "mat"),
    (b"\x89HDF", "mat"),
)
_BINARY = {kind for _, kind in _MAGIC}


@dataclass(frozen=True, eq=False)
class Table:
    """What a file holds.

    Attributes
    ----------
    observations : the rows, with names of the columns if the file has any.
    row_names : (n_rows,) or None.
    format : a key of ``FORMATS``.
    documents : whether the columns are words of texts.
    ignored : columns, or occurrences of items, that the model does not have.
    """

    observations: Observations
    row_names: tuple[str, ...] | None
    format: str
    documents: bool = False
    ignored: int = 0


def read_table(
    path: str | os.PathLike[str],
    options: ReadOptions | None = None,
    network: Network | None = None,
) -> Table:
    """Read binary data from a file or folder of a user.

    Parameters
    ----------
    path : see ``FORMATS``; text files may be compressed (gzip, xz, bzip2).
    options : what the name and content of the file do not tell.
    network : a model whose columns are wanted. Columns with names are found by name; words and
        items that the model does not know are ignored.
    """
    options = ReadOptions() if options is None else options
    path = Path(path)
    kind = format_of(path, options)
    columns = None if network is None else network.visible_names
    documents, unknown = False, 0
    if kind in ("text", "folder") or (kind in ("csv", "tsv") and options.text_field is not None):
        if network is not None and columns is None:
            raise InvalidDataError(f"{path} holds documents, but the model does not know any words")
        if kind == "text":
            source = texts.line_texts(path, options)
        elif kind == "folder":
            source = texts.folder_texts(path, options)
        else:
            source = texts.column_texts(path, options, tabs=kind == "tsv")
        data, names = texts.rows_of_texts(source, path, options, columns)
        documents = True
    elif kind == "baskets":
        rows = delimited.basket_rows(path, options)
        data, names, unknown = items.rows_of_items(rows, path, options, columns)
    elif kind == "jsonl":
        content, field, records = jsonl.json_kind(path, options)
        documents = content == "documents"
        if documents:
            source_texts = jsonl.text_records(records, field, path, options)
            data, names = texts.rows_of_texts(source_texts, path, options, columns)
        elif content == "tags":
            rows = jsonl.tag_rows(records, field, path, options)
            data, names, unknown = items.rows_of_items(rows, path, options, columns)
        else:
            data, names = jsonl.read_objects(records, path, options, columns)
    else:
        data, names = {
            "csv": lambda: delimited.read_delimited(path, options, False, columns),
            "tsv": lambda: delimited.read_delimited(path, options, True, columns),
            "parquet": lambda: parquet.read_parquet(path, options, columns),
            "npy": lambda: npy.read_npy(path, options),
            "npz": lambda: npy.read_npz(path, options),
            "mat": lambda: matlab.read_matlab(path, options),
            "images": lambda: images.read_images(path, options),
        }[kind]()
    if data.n_missing == data.n_rows * data.n_visible:
        raise InvalidDataError(f"{path}: every entry is missing")
    table = Table(data, names, kind, documents, unknown)
    if network is None:
        return table
    aligned, extra = align(
        data, network.visible_names, network.n_visible, network.visible_shape, path
    )
    return replace(table, observations=aligned, ignored=unknown + extra)


def format_of(path: Path, options: ReadOptions) -> str:
    """The format that is asked for, that of the first bytes, or that of the name."""
    if not path.exists():
        raise DatasetNotFoundError(f"{path} does not exist")
    asked = options.format
    if path.is_dir():
        found = _folder_format(path) if asked is None else asked
        if found not in ("folder", "images"):
            raise InvalidDataError(f"{path} is a folder, expected a file of the format {found}")
        return found
    if not path.is_file():
        raise InvalidDataError(f"{path} is not a regular file")
    if asked in ("folder", "images"):
        raise InvalidDataError(f"{path} is a file, the format {asked} is that of a folder")
    with open_binary(path) as stream:
        start = stream.read(16)
    if not start:
        raise InvalidDataError(f"{path} is empty")
    if start.startswith(b"\x89PNG"):
        raise InvalidDataError(f"{path} is a single image; give the folder that holds the images")
    magic = next((kind for prefix, kind in _MAGIC if start.startswith(prefix)), None)
    if asked is None and magic is not None:
        return magic
    kind = asked or _ENDINGS.get(_suffix(path))
    if kind is None:
        raise InvalidDataError(
            f"cannot tell from its name how {path} is written; "
            f"give the format: {', '.join(FORMATS)}"
        )
    if (kind in _BINARY or magic is not None) and magic != kind:
        came = "a text or damaged file" if magic is None else f"of the format {magic}"
        raise InvalidDataError(f"{path} is not of the format {kind}: it is {came}")
    return kind


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in (".gz", ".xz", ".bz2"):
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _folder_format(path: Path) -> str:
    if any(file.suffix.lower() == ".png" for file in path.iterdir()):
        return "images"
    if next((file for file in path.rglob("*") if ".txt" in file.suffixes[-2:]), None) is None:
        raise InvalidDataError(f"{path} is a folder without .txt or .png files")
    return "folder"
