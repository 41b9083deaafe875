"""One call for every file: find its format, read it, bring it into a model's columns."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from noisyor._util.compression import check_compressed
from noisyor.data.columns import align
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.model.graph import Network
from noisyor.tables.formats import format_of, reader_module
from noisyor.tables.options import ReadOptions
from noisyor.tables.table import Table

__all__ = ["read_table"]


def read_table(
    path: str | os.PathLike[str],
    options: ReadOptions | None = None,
    network: Network | None = None,
) -> Table:
    """Read binary data from a user's file or folder.

    Parameters
    ----------
    path : see ``FORMATS``; text files may be compressed (gzip, xz, bzip2).
    options : what the name and content of the file do not tell.
    network : a model whose columns are wanted. Columns with names are found by name; words and
        items that the model does not know are ignored.

    Examples
    --------
    >>> import noisyor as nor
    >>> with open("rows.csv", "w") as file:
    ...     _ = file.write("fever,cough\\n1,1\\n0,1\\n")
    >>> table = nor.read_table("rows.csv")
    >>> table.observations.column_names, table.observations.n_rows
    (('fever', 'cough'), 2)
    """
    options = ReadOptions() if options is None else options
    path = Path(path)
    name = format_of(path, options.format)
    if path.is_file():
        check_compressed(path)
    columns = None if network is None else network.visible_names
    found: Table = reader_module(name).read(path, replace(options, format=name), columns)
    table = replace(found, format=name)
    data = table.observations
    if options.weights is not None and options.weights_required and data.weights is None:
        raise InvalidSettingError(
            f"{path}: there are no weights in a file of this kind ({name}); 0/1 columns of CSV, "
            "TSV, Parquet and JSON lines can have a column of weights"
        )
    if data.n_missing == data.n_rows * data.n_visible:
        raise InvalidDataError(f"{path}: every entry is missing")
    if network is None:
        _check_zeros(table, options, path)
        return table
    if table.documents and columns is None:
        raise InvalidDataError(f"{path} holds documents, but the model does not know any words")
    aligned, extra = align(data, columns, network.n_visible, network.visible_shape, path)
    return replace(table, observations=aligned, ignored=table.ignored + extra)


def _check_zeros(table: Table, options: ReadOptions, path: Path) -> None:
    """Ask what a blank means where nothing is 0: all that could be learned is that all is 1."""
    data = table.observations
    if not data.n_missing or options.truth is not None or options.above is not None:
        return
    if data.n_active + data.n_missing == data.n_rows * data.n_visible:
        raise InvalidDataError(
            f"{path}: every entry is 1 or missing, none is 0; ReadOptions(truth='1/') says that a "
            "blank is 0, ReadOptions(truth='1/0') that it is missing"
        )
