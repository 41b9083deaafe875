"""Data are brought into the columns of a model."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma

import numpy as np
import pytest
import scipy.io
from table_examples import X, table, written

import noisyor as nor
from noisyor.errors import InvalidDataError
from noisyor.tables import ReadOptions
from noisyor.tables.read import read_table

NETWORK = nor.bipartite(2, 1, visible_names=["milk", "hair"])


def test_by_name():
    found = read_table(written("d.csv", table()), ReadOptions(id_column="animal"), NETWORK)
    np.testing.assert_array_equal(found.observations.to_dense(), X[:, [2, 0]])
    # A column that the model does not have may hold anything.
    found = read_table(written("d.csv", table()), ReadOptions(), NETWORK)
    np.testing.assert_array_equal(found.observations.to_dense(), X[:, [2, 0]])


def test_items_and_words_that_are_not_known():
    found = read_table(written("d.baskets", "hair,horns\nmilk\n"), None, NETWORK)
    np.testing.assert_array_equal(found.observations.to_dense(), [[0, 1], [1, 0]])
    assert found.ignored == 1
    found = read_table(written("d.txt", "Hair everywhere\n"), None, NETWORK)
    np.testing.assert_array_equal(found.observations.to_dense(), [[0, 1]])


def test_by_position():
    np.save("d.npy", X[:, :2])
    assert read_table("d.npy", None, NETWORK).observations.n_visible == 2
    np.save("d.npy", X)
    with pytest.raises(InvalidDataError, match=r"d\.npy has 4 columns.*learned from 2"):
        read_table("d.npy", None, NETWORK)


def test_images_of_another_shape():
    network = nor.convolutional((2, 3), 1, (1, 1))
    np.save("d.npy", np.zeros((2, 3, 2)))
    with pytest.raises(InvalidDataError, match=r"images of 3 x 2.*2 x 3"):
        read_table("d.npy", None, network)


class TestSizes:
    """Small files that announce or unpack to much: refused before memory is taken."""

    @pytest.mark.parametrize("ending", ["gz", "xz", "bz2"])
    def test_a_compressed_table(self, tmp_path, monkeypatch, ending):
        monkeypatch.setattr("noisyor._util.compression.MOST_UNPACKED", 2**20)
        opener = {"gz": gzip.open, "xz": lzma.open, "bz2": bz2.open}[ending]
        path = tmp_path / f"rows.csv.{ending}"
        with opener(path, "wb") as stream:
            stream.write(b"a,b\n" + b"0,1\n" * 2**18)
        with pytest.raises(InvalidDataError, match=r"unpacks to \d+ MB or more, over 100 times"):
            read_table(path)

    def test_what_unpacks_to_little_is_read(self, tmp_path):
        with gzip.open(tmp_path / "rows.csv.gz", "wb") as stream:
            stream.write(b"a,b\n" + b"0,1\n" * 100_000)
        assert read_table(tmp_path / "rows.csv.gz").observations.n_rows == 100_000

    def test_a_compressed_array(self, tmp_path, monkeypatch):
        monkeypatch.setattr("noisyor._util.array_file.MOST_OF_AN_ARRAY", 10_000)
        np.savez_compressed(tmp_path / "a.npz", X=np.zeros((1000, 1000), np.uint8))
        with pytest.raises(InvalidDataError, match=r"a\.npz, array 'X': unpacks to 1 MB or more"):
            read_table(tmp_path / "a.npz")

    def test_a_compressed_matrix_of_matlab(self, tmp_path, monkeypatch):
        monkeypatch.setattr("noisyor.tables.readers.matlab.MOST_OF_AN_ARRAY", 10_000)
        scipy.io.savemat(
            tmp_path / "a.mat", {"X": np.zeros((1000, 1000), np.uint8)}, do_compression=True
        )
        with pytest.raises(InvalidDataError, match=r"a\.mat: unpacks to 1 MB or more"):
            read_table(tmp_path / "a.mat")

    def test_parquet(self, tmp_path, monkeypatch):
        monkeypatch.setattr("noisyor._util.parquet_file._MOST_CELLS", 1000)
        parquet = pytest.importorskip("pyarrow.parquet")
        import pyarrow

        zeros = pyarrow.array(np.zeros(2_000_000, np.int8))
        parquet.write_table(pyarrow.table({"a": zeros}), tmp_path / "a.parquet")
        for read in (read_table, nor.data.open_rows):
            with pytest.raises(InvalidDataError, match="announces 2,000,000 rows of 1 columns"):
                read(tmp_path / "a.parquet")

    def test_names_of_rows_in_parquet(self, tmp_path):
        parquet = pytest.importorskip("pyarrow.parquet")
        import pyarrow

        table = pyarrow.table({"id": ["x" * 20_000] * 5, "a": [0, 1, 0, 1, 0]})
        parquet.write_table(table, tmp_path / "a.parquet")
        with pytest.raises(InvalidDataError, match="name of a row has 20,000 bytes"):
            read_table(tmp_path / "a.parquet", ReadOptions(id_column="id"))

    def test_names_that_occur_twice_in_parquet(self, tmp_path):
        parquet = pytest.importorskip("pyarrow.parquet")
        import pyarrow

        table = pyarrow.Table.from_arrays([pyarrow.array([0, 1])] * 2, names=["a", "a"])
        parquet.write_table(table, tmp_path / "a.parquet")
        for read in (read_table, nor.data.open_rows):
            with pytest.raises(InvalidDataError, match="column name 'a' occurs twice"):
                read(tmp_path / "a.parquet")

    def test_a_quote_that_is_never_closed(self, tmp_path, monkeypatch):
        monkeypatch.setattr("noisyor.tables.lines.LONGEST_RECORD", 10_000)
        path = tmp_path / "a.csv"
        path.write_bytes(b'a,b\n1,"' + b"0,1\n" * 2500)
        with pytest.raises(InvalidDataError, match=r"a\.csv, line 2: a quoted field goes on"):
            read_table(path)

    def test_a_document_without_end(self, tmp_path, monkeypatch):
        monkeypatch.setattr("noisyor.tables.readers.documents.LONGEST_DOCUMENT", 10_000)
        path = tmp_path / "a.txt"
        path.write_text("few words\n" + "word " * 2001)
        with pytest.raises(InvalidDataError, match="document 2 has more than 10,000 char"):
            read_table(path)

    def test_gaps_of_json(self, tmp_path):
        path = tmp_path / "a.jsonl"
        lines = [json.dumps({"zero": 0, f"k{k}": 1}) for k in range(5000)]
        path.write_text("\n".join(lines))
        with pytest.raises(InvalidDataError, match="of 25,005,000 entries only 10,000 are stated"):
            read_table(path)
