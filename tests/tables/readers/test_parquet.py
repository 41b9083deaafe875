"""Columns of Parquet files."""

from __future__ import annotations

import numpy as np
import pytest
from table_examples import COLUMNS, NAMES, X, rows_of, written

from noisyor.errors import InvalidDataError, MissingExtraError


def test_parquet():
    import pandas

    frame = pandas.DataFrame(X, columns=list(COLUMNS))
    frame["milk"] = pandas.array([True, None, False], dtype="boolean")
    frame.insert(0, "animal", NAMES)
    frame.to_parquet("d.parquet")
    found = rows_of("d.parquet", id_column="animal")
    assert (found.observations.column_names, found.row_names) == (COLUMNS, NAMES)
    assert np.isnan(found.observations.to_dense()[1, 2])
    with pytest.raises(InvalidDataError, match=r"'animal'.*ReadOptions\(id_column='animal'\)"):
        rows_of("d.parquet")


def test_parquet_without_its_library(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"noisyor\[parquet\]"):
        rows_of(written("d.parquet", "PAR1"))
