"""The contract of mean-field inference: arrays in, arrays out, threads inside."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from noisyor._util.arrays import BinaryArray, FloatArray, IntArray
from noisyor.data.observations import Observations
from noisyor.engines.numba.cache import forget_stale_kernels
from noisyor.engines.numba.engine import rows_of
from noisyor.engines.numba.graph import Graph, graph_of
from noisyor.engines.numba.mean_field.rows import (
    Options,
    Output,
    Sums,
    finish_gradient,
    infer_blocks,
    memory_sizes,
    starting_weights,
)
from noisyor.engines.numba.mean_field.workspace import Memory, Tables, Work, allocate
from noisyor.engines.threads import run_blocks
from noisyor.network.graph import Network

forget_stale_kernels(infer_blocks)

_FEW_BLOCKS, _MANY_BLOCKS, _MANY_ROWS = 8, 16, 64
"""Rows are worked on in so many blocks, each with a partial sum of the gradient."""

_LEAST_LEAK, _LEAST_SLOPE = 1e-300, 1e-100
"""Keep the logarithm of a leak finite, and products with a tiny slope out of the denormals."""


class PreparedNetwork:
    """A network in the layout of the mean-field kernels."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.graph: Graph = graph_of(network)
        self.idle: deque[Work] = network.engine_cache.setdefault("mean field work", deque())
        graph, theta = self.graph, np.append(network.theta, 0.0)
        leak, edge_theta = theta[graph.leak_param], theta[graph.param]
        lifted = np.maximum(leak, _LEAST_LEAK)
        total = np.bincount(graph.parent, edge_theta, network.n_hidden + 1)
        first = np.empty(len(edge_theta))
        with self.memory(0, 1) as work:
            starting_weights(graph.ptr, graph.n_parents, edge_theta, work, first)
        order = _sweep_order(network)
        self.tables = Tables(
            theta=edge_theta,
            start=first,
            leak=leak,
            slope=np.maximum(np.exp(-lifted) / -np.expm1(-lifted), _LEAST_SLOPE),
            log_odds=lifted + np.log(-np.expm1(-lifted)),
            total=np.asarray(total[:-1], dtype=np.float64),
            total_leak=float(leak.sum()),
            order=order,
            level=network.hidden_levels[order],
        )

    @contextmanager
    def memory(self, n_edges: int, n_ones: int) -> Iterator[Work]:
        """Memory for a row with so many ones and edges into them, kept for the next time.

        It is shared by all networks of the graph, and never by two threads at once.
        """
        try:
            work = self.idle.popleft()
        except IndexError:
            work = None
        if work is None or work.n_edges < n_edges or work.n_ones < n_ones:
            work = allocate(self.graph, n_edges, n_ones)
        try:
            yield work
        finally:
            self.idle.append(work)

    def needed(self, observations: Observations) -> tuple[int, int]:
        """Most edges into active visibles, and most active visibles, of any row."""
        ptr = observations.ptr
        per_one = self.graph.n_parents[observations.columns[ptr[0] : ptr[-1]]]
        before = np.concatenate([[0], np.cumsum(per_one)])
        return int(np.diff(before[ptr - ptr[0]]).max()), int(np.diff(ptr).max())


def _sweep_order(network: Network) -> IntArray:
    """Hidden nodes from the visibles upwards, by number within a level; built once for a graph."""
    order: IntArray | None = network.engine_cache.get("mean field order")
    if order is None:
        levels = network.hidden_levels
        order = np.lexsort((np.arange(network.n_hidden), -levels)).astype(np.int32)
        network.engine_cache["mean field order"] = order
    return order


def no_memory() -> Memory:
    """Start afresh and keep nothing."""
    return Memory(np.zeros(1, dtype=np.int64), np.empty(0), filled=False, kept=False)


def empty_memory(prepared: PreparedNetwork, observations: Observations, local: bool) -> Memory:
    """Room for the (q, r) of every row, no evidence on hidden nodes."""
    sizes = np.zeros(observations.n_rows, dtype=np.int64)
    rows = rows_of(observations, None, prepared.graph.n_hidden)
    with prepared.memory(*prepared.needed(observations)) as work:
        memory_sizes(prepared.graph, prepared.tables, rows, work, local, sizes)
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    return Memory(ptr, np.empty(ptr[-1]), filled=False, kept=True)


def infer(
    prepared: PreparedNetwork,
    observations: Observations,
    options: Options,
    *,
    clamp: BinaryArray | None = None,
    memory: Memory | None = None,
    with_q: bool = False,
    n_threads: int = 1,
) -> Output:
    """Mean-field inference of every row; see `Output` for the shapes.

    ``memory`` holds (q, r) to start from, if filled, and receives those at the end.
    """
    n_rows = observations.n_rows
    output = _output(n_rows, prepared.graph.n_hidden if with_q else 0)
    nothing = np.empty((_n_blocks(n_rows), 0))
    sums = Sums(nothing, nothing)
    _run(prepared, observations, options, clamp, memory, output, sums, n_threads)
    return output


def gradient(
    prepared: PreparedNetwork,
    observations: Observations,
    options: Options,
    *,
    memory: Memory | None = None,
    n_threads: int = 1,
) -> tuple[float, FloatArray]:
    """Sum over rows of the bound and its gradient with (q, r) held fixed, shape (n_params,).

    Rows are summed in blocks that depend on nothing but their number, so the bits are the same
    for any thread count.
    """
    graph, n_rows = prepared.graph, observations.n_rows
    n_blocks = _n_blocks(n_rows)
    sums = Sums(
        np.zeros((n_blocks, prepared.network.n_params + 1)),
        np.zeros((n_blocks, graph.n_hidden + 1)),
    )
    output = _output(n_rows, 0)
    _run(prepared, observations, options, None, memory, output, sums, n_threads)
    total, mass = sums.gradient.sum(axis=0), sums.mass.sum(axis=0)
    finish_gradient(graph.leak_param, graph.param, graph.parent, total, mass, float(n_rows))
    return float(output.elbo.sum()), total[:-1]


def _run(
    prepared: PreparedNetwork,
    observations: Observations,
    options: Options,
    clamp: BinaryArray | None,
    memory: Memory | None,
    output: Output,
    sums: Sums,
    n_threads: int,
) -> None:
    """Infer rows in as many blocks as there are sums."""
    rows = rows_of(observations, clamp, prepared.graph.n_hidden)
    memory = no_memory() if memory is None else memory
    n_blocks, needed = len(sums.gradient), prepared.needed(observations)

    def blocks(begin: int, end: int) -> None:
        with prepared.memory(*needed) as work:
            infer_blocks(
                prepared.graph,
                prepared.tables,
                rows,
                work,
                memory,
                options,
                output,
                sums,
                (begin, end, n_blocks),
            )

    run_blocks(blocks, n_blocks, n_threads, blocks_per_thread=4 if n_blocks > _FEW_BLOCKS else 2)


def _n_blocks(n_rows: int) -> int:
    """A function of the number of rows alone, so that sums do not depend on the threads."""
    return min(n_rows, _MANY_BLOCKS if n_rows >= _MANY_ROWS else _FEW_BLOCKS)


def _output(n_rows: int, n_hidden: int) -> Output:
    return Output(
        elbo=np.empty(n_rows),
        gain=np.empty(n_rows),
        rounds=np.empty(n_rows, dtype=np.int32),
        q=np.empty((n_rows if n_hidden else 0, n_hidden)),
    )


__all__ = [
    "Memory",
    "Options",
    "Output",
    "PreparedNetwork",
    "empty_memory",
    "gradient",
    "infer",
    "no_memory",
]
