"""Rows on a cluster: chunks that workers read, with row numbers that run through all chunks.

The client knows the sizes of the chunks and never reads one. A worker gets a `Reader` once, and
with each task the ranges of row numbers to work on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from noisyor._util.arrays import LongArray, pointers
from noisyor.data.chunks import RowSource, open_rows
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, UnsupportedDataError

Ranges = Sequence[tuple[int, int]]
"""Ranges of row numbers: first, and one past the last."""


@dataclass(frozen=True, eq=False)
class Reader:
    """A reader of the chunks of a source, by row number."""

    source: RowSource

    @cached_property
    def starts(self) -> LongArray:
        """First row of every chunk, and the number of rows, (n_chunks + 1,)."""
        return pointers(self.source.sizes)

    @cached_property
    def filled(self) -> LongArray:
        """Indices of the chunks that have rows."""
        return np.flatnonzero(self.source.sizes)

    @property
    def n_rows(self) -> int:
        """Number of rows of all chunks."""
        return int(self.starts[-1])

    def chunk_range(self, index: int) -> tuple[int, int]:
        """Return the row numbers of a chunk: first, and one past the last."""
        return int(self.starts[index]), int(self.starts[index + 1])

    def chunks_of(self, ranges: Ranges) -> list[int]:
        """Return the indices of the chunks that hold the rows, each once, in the rows' order."""
        return list(dict.fromkeys(index for index, _, _ in self._split(ranges)))

    def describe(self, ranges: Ranges) -> str:
        """Return the chunks and row numbers of a task in words, for error messages."""
        shown = [f"{begin:,} to {end:,}" for begin, end in ranges]
        indices = [str(index) for index in self.chunks_of(ranges)]
        return f"chunk{'s' * (len(indices) > 1)} {_first_few(indices)} (rows {_first_few(shown)})"

    def chunk(self, index: int) -> Observations:
        """Read one chunk; its row ids are the row numbers, which key the noise."""
        begin, end = self.chunk_range(index)
        try:
            block = self.source.read(index)
            rows = Observations.of(block, self.source.n_visible, row_ids=np.arange(begin, end))
        except MemoryError as error:
            name = self.describe([(begin, end)])
            raise InvalidDataError(f"{name} does not fit into the memory of a worker") from error
        except Exception as error:  # sources may raise anything
            raise InvalidDataError(
                f"cannot read {self.describe([(begin, end)])}: {error}"
            ) from error
        if self.source.column_names is not None and rows.column_names is None:
            return Observations.of(rows, column_names=self.source.column_names)
        return rows

    def batches(self, ranges: Ranges, size: int) -> Iterator[Observations]:
        """Read the rows of a task in batches of ``size``; one chunk is in memory at a time."""
        waiting: list[Observations] = []
        count, last, chunk = 0, -1, None
        for index, begin, end in self._split(ranges):
            if chunk is None or last != index:
                last, chunk = index, self.chunk(index)
            while begin < end:
                taken = min(end - begin, size - count)
                first = begin - int(self.starts[index])
                waiting.append(chunk.take(slice(first, first + taken)))
                begin, count = begin + taken, count + taken
                if count == size:
                    yield joined(waiting)
                    waiting, count = [], 0
        if waiting:
            yield joined(waiting)

    def _split(self, ranges: Ranges) -> Iterator[tuple[int, int, int]]:
        """Cut ranges at the ends of chunks: index of the chunk, first row, one past the last."""
        for begin, end in ranges:
            first = int(np.searchsorted(self.starts, begin, side="right")) - 1
            last = int(np.searchsorted(self.starts, end, side="left"))
            for index in range(first, last):
                start, stop = self.chunk_range(index)
                if start < stop:
                    yield index, max(begin, start), min(end, stop)


def reader_of(rows: Any, n_visible: int | None = None) -> Reader:
    """Return a reader of a `RowSource` or of its path (see `open_rows`).

    ``n_visible`` is the expected number of columns; None accepts any.
    """
    source = open_rows(rows) if isinstance(rows, str | os.PathLike) else rows
    if not isinstance(source, RowSource):
        raise UnsupportedDataError(
            f"rows on a cluster must be a RowSource or its path, got {type(rows).__name__}; "
            "write_rows and open_rows turn rows in memory into a RowSource, and open_rows reads "
            "what to_parquet of a Dask DataFrame wrote"
        )
    reader = Reader(source)
    if not reader.n_rows:
        raise InvalidDataError("there are no rows")
    if n_visible not in (None, source.n_visible):
        raise InvalidDataError(f"the rows have {source.n_visible} columns, expected {n_visible}")
    return reader


def joined(parts: Sequence[Observations]) -> Observations:
    """Concatenate rows, without a copy if there is one part."""
    return parts[0] if len(parts) == 1 else Observations.concatenate(parts)


def _first_few(items: Sequence[str]) -> str:
    return ", ".join(items[:3]) + ", …" * (len(items) > 3)
