"""Rows on a cluster: chunks that workers read, with row numbers that run through all chunks.

The client knows the sizes of the chunks and never reads one. A worker gets a `Reader` once, and
with each task the ranges of row numbers to work on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from noisyor._util.arrays import LongArray, pointers
from noisyor.data.chunks import RowSource, open_rows
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, UnsupportedDataError

Ranges = Sequence[tuple[int, int]]
"""Ranges of row numbers: first, and one past the last."""


class TaskRows(NamedTuple):
    """The rows of a task: ranges of row numbers, and the chunks of a Dask collection they lie in.

    ``blocks`` holds the values of the chunks with the indices ``chunks``; on the client, their
    futures. Both are empty for a `RowSource`, which workers read themselves.
    """

    ranges: Ranges
    chunks: Sequence[int] = ()
    blocks: Sequence[Any] = ()

    def given(self) -> dict[int, Any]:
        """Return the blocks that came with the task, by the index of their chunk."""
        return dict(zip(self.chunks, self.blocks, strict=True))


@dataclass(frozen=True, eq=False)
class Reader:
    """A reader of chunks on a worker: from a source, or from blocks that came with a task."""

    source: RowSource | None
    n_visible: int
    sizes: tuple[int, ...]
    column_names: tuple[str, ...] | None

    @cached_property
    def starts(self) -> LongArray:
        """First row of every chunk, and the number of rows, (n_chunks + 1,)."""
        return pointers(self.sizes)

    @cached_property
    def filled(self) -> LongArray:
        """Indices of the chunks that have rows."""
        return np.flatnonzero(self.sizes)

    def chunk_range(self, index: int) -> tuple[int, int]:
        """Return the row numbers of a chunk: first, and one past the last."""
        return int(self.starts[index]), int(self.starts[index + 1])

    def chunks_of(self, ranges: Ranges) -> list[int]:
        """Return the indices of the chunks that hold the rows, each once, in the rows' order."""
        return list(dict.fromkeys(index for index, _, _ in self._split(ranges)))

    def describe(self, rows: TaskRows) -> str:
        """Return the chunks and row numbers of a task in words, for error messages."""
        shown = [f"{begin:,} to {end:,}" for begin, end in rows.ranges]
        indices = [str(index) for index in self.chunks_of(rows.ranges)]
        return f"chunk{'s' * (len(indices) > 1)} {_first_few(indices)} (rows {_first_few(shown)})"

    def chunk(self, index: int, given: Mapping[int, Any] | None = None) -> Observations:
        """Read one chunk; its row ids are the row numbers, which key the noise."""
        begin, end = self.chunk_range(index)
        try:
            if given and index in given:
                block = given[index]
            else:
                assert self.source is not None
                block = self.source.read(index)
            rows = Observations.of(block, self.n_visible, row_ids=np.arange(begin, end))
        except MemoryError as error:
            name = self.describe(TaskRows([(begin, end)]))
            raise InvalidDataError(f"{name} does not fit into the memory of a worker") from error
        except Exception as error:  # sources may raise anything
            name = self.describe(TaskRows([(begin, end)]))
            raise InvalidDataError(f"cannot read {name}: {error}") from error
        if self.column_names is not None and rows.column_names is None:
            return Observations.of(rows, column_names=self.column_names)
        return rows

    def batches(self, rows: TaskRows, size: int) -> Iterator[Observations]:
        """Read the rows of a task in batches of ``size``; one chunk is in memory at a time."""
        given = rows.given()
        waiting: list[Observations] = []
        count, last, chunk = 0, -1, None
        for index, begin, end in self._split(rows.ranges):
            if chunk is None or last != index:
                last, chunk = index, self.chunk(index, given)
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
                if self.sizes[index]:
                    start, stop = self.chunk_range(index)
                    yield index, max(begin, start), min(end, stop)


def joined(parts: Sequence[Observations]) -> Observations:
    """Concatenate rows, without a copy if there is one part."""
    return parts[0] if len(parts) == 1 else Observations.concatenate(parts)


def _first_few(items: Sequence[str]) -> str:
    return ", ".join(items[:3]) + ", …" * (len(items) > 3)


class ClusterRows:
    """Rows on a cluster, from the view of the client.

    Parameters
    ----------
    client : of the cluster; a Dask collection is computed on it.
    rows : a `RowSource` on storage that all workers can read, its path (see `open_rows`), a Dask
        array (n_rows, n_columns), or a Dask DataFrame.
    n_visible : expected number of columns; None accepts any.
    """

    def __init__(self, client: Any, rows: Any, n_visible: int | None = None) -> None:
        self._client = client
        self._parts: tuple[Any, ...] = ()
        self._kept: dict[int, Any] = {}
        if isinstance(rows, str | os.PathLike):
            rows = open_rows(rows)
        if isinstance(rows, RowSource):
            self.reader = Reader(rows, rows.n_visible, tuple(rows.sizes), rows.column_names)
        elif hasattr(rows, "__dask_graph__") and hasattr(rows, "to_delayed"):
            self.reader = self._collection_reader(rows)
        else:
            raise UnsupportedDataError(
                "rows on a cluster must be a RowSource or its path, a Dask array or a Dask "
                f"DataFrame, got {type(rows).__name__}; write_rows and open_rows turn rows in "
                "memory into a RowSource"
            )
        if not self.n_rows:
            raise InvalidDataError("there are no rows")
        if n_visible not in (None, self.reader.n_visible):
            raise InvalidDataError(
                f"the rows have {self.reader.n_visible} columns, expected {n_visible}"
            )

    @property
    def n_rows(self) -> int:
        """Number of rows of all chunks."""
        return sum(self.reader.sizes)

    def select(self, ranges: Ranges, keep: bool = False) -> TaskRows:
        """Return the rows of a task.

        The chunks of a Dask collection are computed for it; ``keep`` keeps them on the cluster
        until `forget`, for later tasks.
        """
        if not self._parts:
            return TaskRows(list(ranges))
        indices = self.reader.chunks_of(ranges)
        return TaskRows(list(ranges), indices, [self._future(index, keep) for index in indices])

    def forget(self) -> None:
        """Let the cluster drop the computed chunks of a Dask collection."""
        self._kept.clear()

    def _future(self, index: int, keep: bool) -> Any:
        if index in self._kept:
            return self._kept[index]
        future = self._client.compute(self._parts[index])
        if keep:
            self._kept[index] = future
        return future

    def _collection_reader(self, rows: Any) -> Reader:
        names = None
        if rows.ndim != 2:
            raise InvalidDataError(f"a Dask array of rows must have 2 axes, got {rows.ndim}")
        if hasattr(rows, "columns"):
            names = tuple(str(name) for name in rows.columns)
            self._parts = tuple(rows.to_delayed())
            sizes: Iterable[Any] = self._client.compute(rows.map_partitions(len)).result()
        else:
            rows = rows.rechunk({1: -1})
            self._parts = tuple(rows.to_delayed()[:, 0])
            sizes = rows.chunks[0]
            if np.isnan(np.array(sizes, dtype=np.float64)).any():
                raise InvalidDataError(
                    "the chunks of the Dask array have unknown sizes; call its "
                    "compute_chunk_sizes() first"
                )
        return Reader(None, int(rows.shape[1]), tuple(int(size) for size in sizes), names)
