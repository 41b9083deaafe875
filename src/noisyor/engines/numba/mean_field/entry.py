"""Mean-field inference of a batch: prepare, share rows out over threads, add up."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager

import numpy as np

from noisyor._util.arrays import FloatArray, IntArray, LongArray
from noisyor.engines.contract import (
    Evidence,
    GradientSum,
    MeanFieldOptions,
    MeanFieldResult,
)
from noisyor.engines.numba.arguments import Packed, borrowed, launch, pack
from noisyor.engines.numba.graph import Graph, rows_of
from noisyor.engines.numba.mean_field.ascent import (
    Call,
    Start,
    Sums,
    iterate_blocks,
    solve_blocks,
    starting_weights,
)
from noisyor.engines.numba.mean_field.layout import Tables, Work, allocate
from noisyor.engines.reduction import MEAN_FIELD_PARTS, TreeSum, mean_field_parts, tree_sum
from noisyor.engines.threads import ROWS_OF_PIECE, run_blocks
from noisyor.model.network import Network

_FEW_PARTS = 8
"""Up to so many parts of a block two are made for each thread, else four."""

_LEAST_LEAK, _LEAST_SLOPE = 1e-300, 1e-100
"""Keep the logarithm of a leak finite, and products with a tiny slope out of the denormals."""


class Prepared:
    """A network in the layout of the mean-field kernels."""

    def __init__(self, network: Network, graph: Packed[Graph]) -> None:
        self.network = network
        self.graph = graph
        self.idle: deque[Packed[Work]] = network.engine_cache.setdefault("mean field work", deque())
        theta = np.append(network.theta, 0.0)
        leak, edge_theta = theta[graph.values.leak_param], theta[graph.values.param]
        lifted = np.maximum(leak, _LEAST_LEAK)
        total = np.bincount(graph.values.parent, edge_theta, network.n_hidden + 1)
        first = pack(Start(edge_theta, np.empty(len(edge_theta))))
        with self.memory(0, 1) as work:
            starting_weights(graph.address, first.address, work.address)
        order = _sweep_order(network)
        self.tables = pack(
            Tables(
                theta=edge_theta,
                start=first.values.weight,
                leak=leak,
                slope=np.maximum(np.exp(-lifted) / -np.expm1(-lifted), _LEAST_SLOPE),
                log_odds=lifted + np.log(-np.expm1(-lifted)),
                total=np.array(total[:-1], dtype=np.float64),
                total_leak=float(leak.sum()),
                order=order,
                level=np.ascontiguousarray(network.hidden_levels[order], dtype=np.int32),
            )
        )

    def memory(self, n_edges: int, n_ones: int) -> AbstractContextManager[Packed[Work]]:
        """Memory for a row with so many ones and edges into them, kept for the next time.

        It is shared by all networks of the graph, and never by two threads at once.
        """

        def fits(work: Packed[Work]) -> bool:
            return work.values.n_edges >= n_edges and work.values.n_ones >= n_ones

        return borrowed(self.idle, fits, lambda: pack(allocate(self.graph.values, n_edges, n_ones)))

    def needed(self, evidence: Evidence) -> tuple[int, int]:
        """Most edges into active visibles, and most active visibles, of any row."""
        ptr = evidence.ptr
        per_one = self.graph.values.n_parents[evidence.columns[ptr[0] : ptr[-1]]]
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


def infer(
    prepared: Prepared, evidence: Evidence, options: MeanFieldOptions, with_q: bool, n_threads: int
) -> MeanFieldResult:
    """Mean-field inference of every row."""
    n_rows = evidence.n_rows
    result = _result(n_rows, prepared.network.n_hidden if with_q else 0)
    bounds = mean_field_parts(n_rows)
    nothing = Sums(np.empty(0), np.empty(0), False, 0, 0)
    _run(prepared, evidence, options, result, nothing, bounds, n_threads)
    return result


def gradient(
    prepared: Prepared,
    evidence: Evidence,
    options: MeanFieldOptions,
    n_threads: int,
) -> GradientSum:
    """Sum over rows of the bound and its gradient with (q, r) held fixed, shape (n_params,)."""
    graph, n_rows = prepared.graph.values, evidence.n_rows
    result, total = _result(n_rows, 0), TreeSum()
    bounds = mean_field_parts(n_rows)
    for first, last in _blocks(bounds):
        parts = bounds[first : last + 1]
        n_params, n_hidden = prepared.network.n_params, graph.n_hidden
        sums = Sums(
            np.zeros((last - first, n_params + 1)),
            np.zeros((last - first, n_hidden + 1)),
            True,
            n_params + 1,
            n_hidden + 1,
        )
        _run(prepared, evidence, options, result, sums, parts, n_threads)
        rows = slice(parts[0], parts[-1])  # those behind them have no bound yet
        weighted = result.elbo[rows]
        if len(evidence.weight):
            weighted = weighted * evidence.weight[rows]
        values = np.add.reduceat(weighted, parts[:-1] - parts[0])
        of_parts = zip(values, sums.gradient, sums.mass, strict=True)
        value, gradient, mass = tree_sum(
            [[np.array([value]), part, mass] for value, part, mass in of_parts]
        )
        weight = evidence.weight[rows].sum() if len(evidence.weight) else parts[-1] - parts[0]
        _finish_gradient(graph, gradient, mass, float(weight))
        total.add([value, gradient])
    value, gradient = total.result()
    return GradientSum(float(value[0]), gradient[:-1], evidence.total_weight)


def _finish_gradient(
    graph: Graph, gradient: FloatArray, mass: FloatArray, total_weight: float
) -> None:
    """Add what every node, on or off, contributes: -1 per row and leak, -q_k per edge."""
    np.subtract.at(gradient, graph.leak_param, total_weight)
    np.subtract.at(gradient, graph.param, mass[graph.parent])  # padding goes to the spare entry


def _blocks(bounds: LongArray) -> Iterator[tuple[int, int]]:
    """Runs of parts that make up a block of rows, so that few partial sums are held at once."""
    for first in range(0, len(bounds) - 1, MEAN_FIELD_PARTS):
        yield first, min(first + MEAN_FIELD_PARTS, len(bounds) - 1)


def _run(
    prepared: Prepared,
    evidence: Evidence,
    options: MeanFieldOptions,
    result: MeanFieldResult,
    sums: Sums,
    bounds: LongArray,
    n_threads: int,
) -> None:
    """Infer the rows of all parts between ``bounds``."""
    n_parts, needed = len(bounds) - 1, prepared.needed(evidence)
    kernel = iterate_blocks if options.r_tolerance < 0.0 else solve_blocks
    with_q = len(result.q) > 0
    call = pack(Call(rows_of(evidence), options, result, with_q, sums, bounds))

    def parts(begin: int, end: int) -> None:
        with prepared.memory(*needed) as work:
            launch(kernel, (prepared.graph, prepared.tables, call, work), begin, end)

    rows_of_part = -(-int(bounds[-1] - bounds[0]) // n_parts)
    run_blocks(
        parts,
        n_parts,
        n_threads,
        blocks_per_thread=4 if n_parts > _FEW_PARTS else 2,
        first_piece=max(1, ROWS_OF_PIECE // rows_of_part),
    )


def _result(n_rows: int, n_hidden: int) -> MeanFieldResult:
    return MeanFieldResult(
        elbo=np.empty(n_rows),
        gain=np.empty(n_rows),
        rounds=np.empty(n_rows, dtype=np.int32),
        q=np.empty((n_rows if n_hidden else 0, n_hidden)),
    )
