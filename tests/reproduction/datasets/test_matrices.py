from __future__ import annotations

import numpy as np
import pytest

from noisyor.errors import InvalidDataError
from reproduction.datasets import load_plants, load_zoo
from reproduction.datasets.registry import FILES, DataFile


def assert_same(one, other):
    assert one.observations.fingerprint() == other.observations.fingerprint()
    assert one.observations.column_names == other.observations.column_names
    assert one.row_names == other.row_names
    if one.labels is None:
        assert other.labels is None
    else:
        np.testing.assert_array_equal(one.labels, other.labels)


class TestPlants:
    def test_original(self, tmp_path):
        file = tmp_path / "plants.data"
        file.write_bytes("abelia,fl,nc\n×achnella,ak\nabies,nc,fl,ak\n".encode("latin-1"))
        data = load_plants(file)
        assert data.observations.column_names == ("ak", "fl", "nc")
        assert data.observations.to_dense().tolist() == [[0, 1, 1], [1, 0, 0], [1, 1, 1]]
        assert data.row_names == ("abelia", "×achnella", "abies")
        assert data.labels is None

    def test_real_and_the_original_written_from_it(self, real_data, tmp_path):
        data = load_plants()
        observations = data.observations
        assert (observations.n_rows, observations.n_visible) == (34_781, 70)
        assert observations.n_active == 302_114
        names = np.array(observations.column_names)
        lines = [
            ",".join([name, *names[row]]) + "\n"
            for name, row in zip(
                data.row_names,
                np.split(observations.columns, observations.ptr[1:-1]),
                strict=True,
            )
        ]
        (tmp_path / "plants.data").write_bytes("".join(lines).encode("latin-1"))
        assert_same(data, load_plants(tmp_path / "plants.data"))

    def test_downloaded(self, server, monkeypatch):
        served, address = server
        (served / "plants.data").write_text("abelia,fl\n")
        file = DataFile("plants.data", None, address + "plants.data", "https://example.org")
        monkeypatch.setitem(FILES, file.name, file)
        assert load_plants().row_names == ("abelia",)

    def test_empty(self, tmp_path):
        (tmp_path / "plants.data").write_bytes(b"\n")
        with pytest.raises(InvalidDataError, match="is empty"):
            load_plants(tmp_path / "plants.data")


ROW = "aardvark,1,0,0,1,0,0,1,1,1,1,0,0,4,0,0,1,1"


class TestZoo:
    def test_real_and_the_original_written_from_it(self, real_data, tmp_path, monkeypatch):
        """The file written from the arrays has the checksum of the published one."""
        data = load_zoo()
        assert (data.observations.n_rows, data.observations.n_visible) == (101, 21)
        lines = []
        columns = data.observations.column_names
        for row, name, label in zip(
            data.observations.to_dense(), data.row_names, data.labels, strict=True
        ):
            values = [
                str(int(value)) if "=" not in column else column.partition("=")[2]
                for column, value in zip(columns, row, strict=True)
                if value or "=" not in column
            ]
            lines.append(",".join([name, *values, str(label)]) + "\n")
        (tmp_path / "zoo.data").write_text("".join(lines))
        assert lines[0] == ROW + "\n"
        monkeypatch.setenv("NOISYOR_DATA", str(tmp_path))
        assert_same(data, load_zoo())

    @pytest.mark.parametrize(
        "row",
        [
            ROW.replace("aardvark,1", "aardvark,2"),
            ROW.replace(",4,", ",3,"),
            ROW.replace(",4,", ",four,"),
            ROW[:-2],
        ],
    )
    def test_a_bad_row(self, tmp_path, row):
        (tmp_path / "zoo.data").write_text(f"{ROW}\n{row}\n")
        with pytest.raises(InvalidDataError, match=r"zoo\.data, line 2"):
            load_zoo(tmp_path / "zoo.data")

    def test_arrays_that_do_not_fit(self, tmp_path):
        np.savez(tmp_path / "z.npz", X=np.eye(2), columns=["a", "b"], names=["x"])
        with pytest.raises(InvalidDataError, match="names has 1 entries"):
            load_zoo(tmp_path / "z.npz")
