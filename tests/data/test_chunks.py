"""Files of chunks that are damaged or do not fit; `tests/learning` reads those that do."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyor.data.chunks import BlockOrder, open_rows, write_rows
from noisyor.errors import InvalidDataError

X = np.array([[1, 0, 1], [0, 1, 0]], dtype=np.uint8)


class TestMapped:
    def test_only_what_is_used_is_read(self, tmp_path):
        write_rows(tmp_path / "rows", [X, X])
        source = open_rows(tmp_path / "rows", chunk_rows=3)
        assert [chunk.n_rows for chunk in source] == [3, 1]

    def test_damage_names_the_file(self, tmp_path):
        write_rows(tmp_path / "rows", [X])
        file = tmp_path / "rows" / "indices.npy"
        file.write_bytes(file.read_bytes()[:-1])
        with pytest.raises(InvalidDataError, match=r"indices\.npy: "):
            open_rows(tmp_path / "rows")

    def test_a_shape_of_three_sizes(self, tmp_path):
        write_rows(tmp_path / "rows", [X])
        np.save(tmp_path / "rows" / "shape.npy", [2, 3, 1])
        with pytest.raises(InvalidDataError, match=r"shape\.npy"):
            open_rows(tmp_path / "rows")

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("indices", np.array([0, 10**9, 1])),
            ("indices", np.array([0, -5, 1])),
            ("indices", np.array([0.0, np.nan, 1.0])),
            ("indptr", np.array([0, 10**9, 3])),
            ("indptr", np.array([-2, 2, 3])),
            ("indptr", np.array([[0, 2, 3]])),
            ("missing_indptr", np.array([0, -(10**9), 0])),
            ("missing_indptr", np.array([0, 1, 1])),
            ("shape", np.array([2.0, np.nan])),
            ("shape", np.array([2, -3])),
        ],
    )
    def test_arrays_that_are_wrong(self, tmp_path, name, values):
        write_rows(tmp_path / "rows", [X])
        np.save(tmp_path / "rows" / f"{name}.npy", values)
        with pytest.raises(InvalidDataError):
            open_rows(tmp_path / "rows").read(0)

    def test_half_of_what_is_missing(self, tmp_path):
        write_rows(tmp_path / "rows", [X])
        (tmp_path / "rows" / "missing_indices.npy").unlink()
        with pytest.raises(InvalidDataError, match=r"missing_indices\.npy"):
            open_rows(tmp_path / "rows")

    @pytest.mark.parametrize("text", ["{", "null", "[1, 2, 3]", '["a", "b"]', "[" * 10**5])
    def test_names_that_are_none(self, tmp_path, text):
        write_rows(tmp_path / "rows", [X])
        (tmp_path / "rows" / "columns.json").write_text(text)
        with pytest.raises(InvalidDataError):
            open_rows(tmp_path / "rows")


def test_what_has_been_read_does_not_stay_in_memory(tmp_path):
    """Pages of a mapped file would count as memory of the process."""
    memory = Path("/proc/self/statm")
    if not memory.exists():
        pytest.skip("the system does not tell how much memory is mapped")
    n_rows, ones = 20_000, 200
    np.save(tmp_path / "indptr.npy", np.arange(n_rows + 1) * ones)
    np.save(tmp_path / "indices.npy", np.tile(np.arange(ones, dtype=np.int32), n_rows))
    np.save(tmp_path / "shape.npy", np.array([n_rows, ones]))
    source = open_rows(tmp_path, chunk_rows=500)

    def mapped():
        return int(memory.read_text().split()[2]) * os.sysconf("SC_PAGE_SIZE")

    source.read(0)
    before = mapped()
    assert all(block.n_active == 500 * ones for block in source)
    assert mapped() - before < 4e6  # of 16 MB


class TestParquet:
    def test_values_are_compared_exactly(self, tmp_path):
        arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        from pyarrow import parquet

        nearly = arrow.table({"a": [0.0, 1 + 1e-12]})  # 1 in single precision
        parquet.write_table(nearly, tmp_path / "a.parquet")
        with pytest.raises(InvalidDataError, match=r"a\.parquet, row group 0: row 1, column 'a'"):
            open_rows(tmp_path / "a.parquet").read(0)

    def test_not_parquet(self, tmp_path):
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        (tmp_path / "a.parquet").write_bytes(b"PAR1 and nothing else")
        with pytest.raises(InvalidDataError, match=r"a\.parquet: "):
            open_rows(tmp_path / "a.parquet")


# ---- orders of blocks


@given(st.integers(1, 200), st.integers(1, 50), st.none() | st.integers(0, 5), st.data())
def test_places_are_rows_once_and_blocks_stay_together(n_rows, block, seed, data):
    order = BlockOrder(n_rows, block, seed)
    numbers = order.indices()
    assert sorted(numbers) == list(range(n_rows))
    whole = n_rows // block * block
    assert all(n % block == place % block for place, n in enumerate(numbers[:whole]))
    assert (numbers[whole:] == range(whole, n_rows)).all()
    begin = data.draw(st.integers(0, n_rows - 1))
    end = data.draw(st.integers(begin + 1, n_rows))
    found = [row for piece in order.pieces(begin, end) for row in range(*piece)]
    assert found == numbers[begin:end].tolist()
