"""Rows of a cluster: which chunks they are in, and batches across them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noisyor as nor
from noisyor.distributed.chunks import Reader, reader_of
from noisyor.errors import InvalidDataError, UnsupportedDataError


class Counting(nor.data.RowSource):
    """Chunks whose rows spell their numbers in binary."""

    n_visible = 8

    def __init__(self, sizes):
        self.sizes = tuple(sizes)

    def read(self, number):
        first = sum(self.sizes[:number])
        rows = np.arange(first, first + self.sizes[number])
        return rows[:, None] >> np.arange(8) & 1


def numbers(rows):
    return rows.to_dense().astype(int) @ (1 << np.arange(8))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(sum), st.data())
def test_batches_are_the_rows_asked_for_whatever_the_chunks(sizes, data):
    source = Counting(sizes)
    reader = Reader(source)
    ends = st.integers(0, sum(sizes))
    ranges = [
        tuple(sorted(pair)) for pair in data.draw(st.lists(st.tuples(ends, ends), max_size=4))
    ]
    ranges = [(begin, end) for begin, end in ranges if begin < end]
    expected = [row for span in ranges for row in range(*span)]
    size = data.draw(st.integers(1, 12))
    batches = list(reader.batches(ranges, size))
    assert [row for batch in batches for row in numbers(batch)] == expected
    assert [row for batch in batches for row in batch.row_ids] == expected
    assert all(batch.n_rows == size for batch in batches[:-1])
    chunk_of = np.repeat(np.arange(len(sizes)), sizes)
    assert set(reader.chunks_of(ranges)) == {chunk_of[row] for row in expected}


def test_a_chunk_of_another_size_is_named():
    source = Counting([3, 4])
    read = source.read
    source.read = lambda number: read(number)[:3]
    reader = Reader(source)
    with pytest.raises(InvalidDataError, match=r"chunk 1 \(rows 3 to 7\)"):
        reader.chunk(1)


@pytest.mark.parametrize("rows", [np.eye(3), [[1, 0]], 7])
def test_rows_in_memory_are_refused_with_advice(rows):
    with pytest.raises(UnsupportedDataError, match="open_rows"):
        reader_of(rows)


def test_sources_open_their_files_again_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nor.data.write_rows("rows", [np.eye(6)])
    source = nor.data.open_rows("rows", chunk_rows=4)
    content = pickle.dumps(source)
    assert len(content) < 500
    monkeypatch.chdir("/")
    again = pickle.loads(content)
    assert again.sizes == source.sizes
    assert again.read(1).fingerprint() == source.read(1).fingerprint()
