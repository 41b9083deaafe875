"""One call for every file: find its format, read it, bring it into a model's columns."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from noisyor.data.columns import align, suggest
from noisyor.errors import InvalidDataError, InvalidSettingError
from noisyor.model.network import Network
from noisyor.tables.formats import FORMATS, format_of
from noisyor.tables.options import ReadOptions
from noisyor.tables.table import Table

__all__ = ["read_table"]


def read_table(
    path: str | os.PathLike[str],
    options: ReadOptions | None = None,
    network: Network | None = None,
    **settings: Any,
) -> Table:
    """Read binary data from a user's file or folder.

    Parameters
    ----------
    path : a file or folder of one of ``FORMATS``; text files may be compressed (gzip, xz, bzip2).
    options : what the name and content of the file do not show.
    network : a model whose columns are wanted. Columns with names are found by name; words and
        items that the model does not know are ignored.
    settings : single options by name, such as ``above=0``; they replace those in ``options``.

    Examples
    --------
    >>> import noisyor as nor
    >>> with open("rows.csv", "w") as file:
    ...     _ = file.write("fever,cough\\n3,1\\n0,1\\n")
    >>> table = nor.read_table("rows.csv", above=0)
    >>> table.observations.column_names, table.observations.n_rows
    (('fever', 'cough'), 2)
    """
    known = [field.name for field in fields(ReadOptions)]
    for setting in settings:
        if setting not in known:
            hint = suggest(setting, known)
            raise InvalidSettingError(f"read_table has no option {setting!r}{hint}")
    if isinstance(settings.get("drop"), str):
        settings["drop"] = (settings["drop"],)
    options = replace(options or ReadOptions(), **settings)
    path = Path(path)
    name = format_of(path, options.format)
    columns = None if network is None else network.visible_names
    found: Table = FORMATS[name].load()(path, replace(options, format=name), columns)
    table = replace(found, format=name)
    data = table.observations
    n_observed = data.n_rows * data.n_visible - data.n_missing
    if options.weights is not None and options.weights_required and data.weights is None:
        raise InvalidSettingError(
            f"{path}: there are no weights in a file of this kind ({name}); 0/1 columns of CSV, "
            "TSV, Parquet and JSON lines can have a column of weights"
        )
    if not n_observed:
        raise InvalidDataError(f"{path}: every entry is missing")
    if network is not None:
        if table.documents and columns is None:
            raise InvalidDataError(f"{path} holds documents, but the model does not know any words")
        aligned, extra = align(data, columns, network.n_visible, network.visible_shape, path)
        return replace(table, observations=aligned, ignored=table.ignored + extra)
    # A model of a table without any 0 could only learn that all entries are 1.
    is_unclear = options.truth is None and options.above is None
    if data.n_missing and data.n_active == n_observed and is_unclear:
        raise InvalidDataError(
            f"{path}: every entry is 1 or missing, none is 0; ReadOptions(truth='1/') says that a "
            "blank is 0, ReadOptions(truth='1/0') that it is missing"
        )
    return table
