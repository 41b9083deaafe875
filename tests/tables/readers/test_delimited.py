"""Matrices in CSV and TSV files."""

from __future__ import annotations

import gzip
import lzma

import numpy as np
import pytest
from table_examples import COLUMNS, EXPECTED, NAMES, X, rows_of, table, written

from noisyor.errors import InvalidDataError


@pytest.mark.parametrize(("name", "delimiter"), [("d.csv", ","), ("d.csv", ";"), ("d.csv", "|")])
def test_csv_with_names(name, delimiter):
    found = rows_of(written(name, table(delimiter)), id_column="animal")
    assert found.observations.fingerprint() == EXPECTED.fingerprint()
    assert found.observations.column_names == COLUMNS
    assert found.row_names == NAMES
    assert found.format == "csv"


def test_tsv():
    found = rows_of(written("d.tsv", table("\t", quote="")), id_column="0")
    assert found.observations.column_names == COLUMNS
    assert found.row_names == NAMES


def test_without_a_header():
    text = "\n".join(",".join(map(str, row)) for row in X)
    found = rows_of(written("d.csv", text))
    assert found.observations.fingerprint() == EXPECTED.fingerprint()
    assert found.observations.column_names is None
    text = "0,1\n1,1\n0,1\n"  # names that look like values
    assert rows_of(written("d.csv", text)).observations.n_rows == 3
    assert rows_of(written("d.csv", text), header=True).observations.column_names == ("0", "1")


def test_a_frame_written_with_its_labels():
    import pandas

    pandas.DataFrame(X, columns=list(COLUMNS), index=list(NAMES)).to_csv("d.csv")
    found = rows_of("d.csv")
    assert (found.observations.column_names, found.row_names) == (COLUMNS, NAMES)
    pandas.DataFrame(X).to_csv("d.csv", index=False)  # names 0, 1, 2, 3
    assert rows_of("d.csv").observations.fingerprint() == EXPECTED.fingerprint()


def test_missing_entries_and_other_spellings():
    found = rows_of(written("d.csv", "a,b,c\n1, NA,?\n,0.0,True\nno,YES,nan\n"))
    dense = found.observations.to_dense()
    expected = [[1, np.nan, np.nan], [np.nan, 0, 1], [0, 1, np.nan]]
    np.testing.assert_array_equal(dense, expected)


def test_columns_can_be_dropped():
    found = rows_of(written("d.csv", table()), drop=("animal", "eggs"))
    assert found.observations.column_names == ("hair", "milk", "legs, four")


def test_a_threshold():
    found = rows_of(written("d.csv", "a,b\n0.2,3\n,-1\n"), above=0.5)
    np.testing.assert_array_equal(found.observations.to_dense(), [[0, 1], [np.nan, 0]])


@pytest.mark.parametrize("packer", [gzip.compress, lzma.compress])
def test_compressed(packer):
    found = rows_of(written("d.csv.packed", packer(table().encode())), format="csv", drop=("0",))
    assert found.observations.fingerprint() == EXPECTED.fingerprint()


def test_large_files_come_in_blocks(monkeypatch):
    monkeypatch.setattr("noisyor.tables.readers.delimited._BLOCK_CELLS", 5)
    found = rows_of(written("d.csv", table()), id_column="animal")
    assert found.observations.fingerprint() == EXPECTED.fingerprint()
    assert found.observations.row_ids.tolist() == [0, 1, 2]


def test_rows_of_a_repository_without_a_header_are_no_header():
    text = "party,y,n,y,n,y\nother,n,n,y,?,y\nparty,y,y,n,n,n\n"
    path = written("votes.csv", text)
    with pytest.raises(InvalidDataError, match=r"column '0'.*ReadOptions\(id_column='0'\)"):
        rows_of(path)
    found = rows_of(path, id_column="0", truth="y/n").observations
    assert (found.n_rows, found.n_visible, found.n_missing) == (3, 5, 1)
