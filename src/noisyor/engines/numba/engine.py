"""The engine's contract: arrays in, arrays out, threads inside. No options are invented here."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import BinaryArray
from noisyor.data.observations import Observations
from noisyor.engines.numba.cache import forget_stale_kernels
from noisyor.engines.numba.graph import Graph, Parameters, graph_of, parameters_of
from noisyor.engines.numba.log_joint import add_gradient, log_joint_rows
from noisyor.engines.numba.max_product.active_set import Rows, allocate
from noisyor.engines.numba.max_product.rows import Options, Output, infer_rows
from noisyor.engines.numba.max_product.two_stage import allocate_stages
from noisyor.engines.numba.sampling.gibbs import sweep_rows
from noisyor.engines.threads import run_blocks
from noisyor.network.graph import Network

forget_stale_kernels(add_gradient)
forget_stale_kernels(infer_rows)

_GRADIENT_BLOCK = 512
_GRADIENT_BLOCKS = 16
"""Smallest number of rows and largest number of partial sums of a gradient."""


class PreparedNetwork:
    """A network in the layout of the kernels: the graph, and parameters spread over its edges."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.graph: Graph = graph_of(network)
        self.parameters: Parameters = parameters_of(self.graph, network.theta)


def rows_of(observations: Observations, clamp: BinaryArray | None, n_hidden: int) -> Rows:
    """Evidence in the layout of the kernels; ``clamp`` (n_rows or 1, n_hidden) of 0, 1 and 2."""
    if clamp is None:
        clamp = np.empty((0, n_hidden), dtype=np.uint8)
    return Rows(
        observations.ptr,
        observations.columns,
        observations.missing_ptr,
        observations.missing_columns,
        observations.row_ids,
        clamp,
    )


def infer(
    prepared: PreparedNetwork,
    observations: Observations,
    options: Options,
    *,
    clamp: BinaryArray | None = None,
    with_beliefs: bool = False,
    n_threads: int = 1,
) -> Output:
    """Max-product on every row; see `Output` for the shapes."""
    n_hidden = prepared.graph.n_hidden
    lines = observations.n_rows * options.n_samples
    output = Output(
        np.empty((lines, n_hidden), dtype=np.uint8),
        np.empty((lines if with_beliefs else 0, n_hidden), dtype=np.float32),
        np.empty(lines, dtype=np.int32),
        np.empty(lines, dtype=np.float32),
        np.empty(lines),
    )
    rows = rows_of(observations, clamp, n_hidden)

    def block(begin: int, end: int) -> None:
        work = allocate(prepared.graph, rows, options.maximise_missing, begin, end)
        stages = allocate_stages(
            prepared.graph, prepared.parameters, options.step, options.two_stage
        )
        infer_rows(
            prepared.graph, prepared.parameters, rows, options, output, work, stages, begin, end
        )

    run_blocks(block, observations.n_rows, n_threads)
    return output


def log_joint(
    prepared: PreparedNetwork, observations: Observations, states: BinaryArray, n_threads: int = 1
) -> npt.NDArray[np.float64]:
    """``log p(h, x)`` per row for states (n_rows, n_hidden), shape (n_rows,)."""
    result = np.empty(observations.n_rows)
    rows = rows_of(observations, None, prepared.graph.n_hidden)

    def block(begin: int, end: int) -> None:
        log_joint_rows(prepared.graph, prepared.parameters, rows, states, result, begin, end)

    run_blocks(block, observations.n_rows, n_threads)
    return result


def gradient(
    prepared: PreparedNetwork, observations: Observations, states: BinaryArray, n_threads: int = 1
) -> tuple[float, npt.NDArray[np.float64]]:
    """Sum over rows of ``log p(h, x)`` and its gradient, shape (n_params,).

    ``states`` (n_rows * n_samples, n_hidden); samples of a row are averaged. Rows are summed in
    blocks that depend on nothing but their number, so the bits are the same for any thread count.
    """
    n_rows = observations.n_rows
    samples = len(states) // n_rows
    size, n_blocks = _summing_blocks(n_rows)
    partial = np.zeros((n_blocks, prepared.network.n_params + 1))
    values = np.zeros(n_blocks)
    rows = rows_of(observations, None, prepared.graph.n_hidden)

    def block(begin: int, end: int) -> None:
        for number in range(begin, end):
            first = number * size
            values[number] = add_gradient(
                prepared.graph,
                prepared.parameters,
                rows,
                states,
                samples,
                partial[number],
                first,
                min(first + size, n_rows),
            )

    run_blocks(block, n_blocks, n_threads)
    return float(values.sum()), partial.sum(axis=0)[:-1]


def sweep(
    prepared: PreparedNetwork,
    observations: Observations,
    states: BinaryArray,
    seed: int,
    number: int,
    n_threads: int = 1,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Draw every hidden node of every row given all others; ``states`` (n_rows, n_hidden) change.

    Returns credits and chances of the parameters, (n_params,) each, see `sweep_rows`.
    """
    n_rows = observations.n_rows
    size, n_blocks = _summing_blocks(n_rows)
    sums = np.zeros((2, n_blocks, prepared.network.n_params + 1))
    rows = rows_of(observations, None, prepared.graph.n_hidden)

    def block(begin: int, end: int) -> None:
        for part in range(begin, end):
            sweep_rows(
                prepared.graph,
                prepared.parameters,
                rows,
                states,
                seed,
                number,
                sums[0, part],
                sums[1, part],
                part * size,
                min(part * size + size, n_rows),
            )

    run_blocks(block, n_blocks, n_threads)
    credit, chance = sums.sum(axis=1)[:, :-1]
    return credit, chance


def _summing_blocks(n_rows: int) -> tuple[int, int]:
    """Rows of a block and number of blocks: fixed, so that sums do not depend on the threads."""
    size = max(_GRADIENT_BLOCK, -(-n_rows // _GRADIENT_BLOCKS))
    return size, -(-n_rows // size)
