"""Rows as a cluster has them: chunks that workers read, numbered through, cut where sums need it.

Here is what both sides know. The client knows sizes and never reads a chunk; a worker gets a
`Reader` and the numbers of the rows that it is to look at.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from noisyor._util.arrays import LongArray
from noisyor._util.csr import pointers
from noisyor.data.chunks import RowSource, open_rows
from noisyor.data.observations import Observations
from noisyor.errors import InvalidDataError, UnsupportedDataError

__all__ = ["ClusterRows", "Item", "Pieces", "Reader", "is_for_cluster"]

Pieces = Sequence[tuple[int, int]]
"""Runs of row numbers, first and one past the last."""


class Item(NamedTuple):
    """What a task is told of its rows: their numbers, and chunks that do not read themselves.

    ``given`` are the values (for the client: futures) of the chunks ``numbers``.
    """

    pieces: Pieces
    numbers: Sequence[int] = ()
    given: Sequence[Any] = ()


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads chunks on a worker: from a source, or those that came with a task."""

    source: RowSource | None
    n_visible: int
    sizes: tuple[int, ...]
    column_names: tuple[str, ...] | None

    @cached_property
    def starts(self) -> LongArray:
        """First row of every chunk, and the number of rows."""
        return pointers(self.sizes)

    def where(self, pieces: Pieces) -> str:
        """Rows and chunks in words, for errors."""
        rows = ", ".join(f"{a:,} to {b:,}" for a, b in pieces[:3]) + ", …" * (len(pieces) > 3)
        numbers = self.chunks_of(pieces)
        chunks = ", ".join(map(str, numbers[:3])) + ", …" * (len(numbers) > 3)
        return f"chunk{'s' * (len(numbers) > 1)} {chunks} (rows {rows})"

    def chunks_of(self, pieces: Pieces) -> list[int]:
        """Numbers of the chunks that the rows are in, each once, in the order of the rows."""
        found: dict[int, None] = {}
        for begin, end in pieces:
            first = int(np.searchsorted(self.starts, begin, side="right")) - 1
            last = int(np.searchsorted(self.starts, end, side="left"))
            found |= dict.fromkeys(n for n in range(first, last) if self.sizes[n])
        return list(found)

    def chunk(self, number: int, given: Mapping[int, Any] | None = None) -> Observations:
        """One chunk; its rows are numbered through the whole, for that keys their noise."""
        first, n_rows = int(self.starts[number]), self.sizes[number]
        place = f"chunk {number} (rows {first:,} to {first + n_rows:,})"
        try:
            if given and number in given:
                block = given[number]
            else:
                assert self.source is not None
                block = self.source.read(number)
            rows = Observations.of(block, self.n_visible, row_ids=np.arange(first, first + n_rows))
        except MemoryError as error:
            raise InvalidDataError(f"{place} does not fit into the memory of a worker") from error
        except Exception as error:  # files on other machines fail in any way
            raise InvalidDataError(f"cannot read {place}: {error}") from error
        if self.column_names is not None and rows.column_names is None:
            return Observations.of(rows, column_names=self.column_names)
        return rows

    def batches(self, item: Item, size: int) -> Iterator[Observations]:
        """The rows of a task in their order, so many at a time; one chunk is in memory at once."""
        given = dict(zip(item.numbers, item.given, strict=True))
        waiting: list[Observations] = []
        count, last, chunk = 0, -1, None
        for number, begin, end in self._segments(item.pieces):
            if chunk is None or last != number:
                last, chunk = number, self.chunk(number, given)
            while begin < end:
                taken = min(end - begin, size - count)
                first = begin - int(self.starts[number])
                waiting.append(chunk.take(slice(first, first + taken)))
                begin, count = begin + taken, count + taken
                if count == size:
                    yield _joined(waiting)
                    waiting, count = [], 0
        if waiting:
            yield _joined(waiting)

    def _segments(self, pieces: Pieces) -> Iterator[tuple[int, int, int]]:
        """Chunk, first and last row, of every run of rows in one chunk."""
        for begin, end in pieces:
            for number in self.chunks_of([(begin, end)]):
                first, last = int(self.starts[number]), int(self.starts[number + 1])
                yield number, max(begin, first), min(end, last)


def _joined(parts: list[Observations]) -> Observations:
    return parts[0] if len(parts) == 1 else Observations.concatenate(parts)


def is_for_cluster(rows: Any) -> bool:
    """Whether these are rows that workers read, and not rows of this process."""
    return isinstance(rows, RowSource | str | os.PathLike) or hasattr(rows, "__dask_graph__")


class ClusterRows:
    """Rows of a cluster, as the client sees them.

    Parameters
    ----------
    client : of the cluster; a Dask collection is computed on it.
    rows : a `RowSource` on storage that all workers see, the path of one (see `open_rows`), a Dask
        array (n_rows, n_columns), or a Dask DataFrame.
    n_visible : expected number of columns.
    """

    def __init__(self, client: Any, rows: Any, n_visible: int | None = None) -> None:
        self._parts: tuple[Any, ...] = ()
        self._kept: dict[int, Any] = {}
        self._client = client
        if isinstance(rows, str | os.PathLike):
            rows = open_rows(rows)
        if isinstance(rows, RowSource):
            self.reader = Reader(rows, rows.n_visible, tuple(rows.sizes), rows.column_names)
        elif hasattr(rows, "__dask_graph__") and hasattr(rows, "to_delayed"):
            self.reader = self._collection(rows)
        else:
            raise UnsupportedDataError(
                "rows of a cluster are a RowSource or its path, a Dask array or a Dask DataFrame, "
                f"got {type(rows).__name__}; write_rows and open_rows make a RowSource of rows "
                "in memory"
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

    def item(self, pieces: Pieces, keep: bool = False) -> Item:
        """What a task on these rows is told; with ``keep``, a collection stays computed."""
        if not self._parts:
            return Item(list(pieces))
        numbers = self.reader.chunks_of(pieces)
        return Item(list(pieces), numbers, [self._future(number, keep) for number in numbers])

    def chunk_items(self) -> Iterator[Item]:
        """One for each chunk that has rows."""
        starts = self.reader.starts
        for number, size in enumerate(self.reader.sizes):
            if size:
                yield self.item([(int(starts[number]), int(starts[number + 1]))])

    def forget(self) -> None:
        """Chunks of a collection need not stay computed."""
        self._kept.clear()

    def _future(self, number: int, keep: bool) -> Any:
        if number in self._kept:
            return self._kept[number]
        future = self._client.compute(self._parts[number])
        if keep:
            self._kept[number] = future
        return future

    def _collection(self, rows: Any) -> Reader:
        names = None
        if rows.ndim != 2:
            raise InvalidDataError(f"a Dask array of rows has two axes, got {rows.ndim}")
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
                    "the chunks of the Dask array have unknown sizes; compute_chunk_sizes() finds "
                    "them"
                )
        return Reader(None, int(rows.shape[1]), tuple(int(size) for size in sizes), names)
