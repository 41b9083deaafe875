"""The engine for accelerators: the contract on top of the kernels, lines shared out in launches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor.engines.contract import (
    Engine,
    Evidence,
    GradientSum,
    MaxProductOptions,
    MaxProductResult,
    NoiseKey,
)
from noisyor.engines.registry import get_engine
from noisyor.engines.threads import resolve_threads, run_blocks
from noisyor.engines.warp.device import find_device
from noisyor.engines.warp.layout import Prepared
from noisyor.engines.warp.log_joint import StatesOfRows
from noisyor.engines.warp.max_product import Batch
from noisyor.model.network import Network

_MEMORY = {True: 1 << 26, False: 1 << 30}
"""Bytes that one launch may work in: on a core, where they are taken in turn, and on a GPU."""

_LINES_AT_ONCE = 1 << 16
"""Lines of the first launch on a GPU, which is idle with few."""


@dataclass(frozen=True)
class WarpEngine(Engine):
    """Kernels of NVIDIA Warp, on a GPU or on the threads of the CPU.

    It has the functions in ``supports``; everything else, and the two-stage schedule of
    max-product, is done by numba.

    Parameters
    ----------
    n_threads : on the CPU; None for ``NOISYOR_NUM_THREADS``, or all cores.
    device : ``"cuda"``, ``"cuda:1"``, ``"cpu"``; None for the GPU, if there is one. No result
        depends on the number of threads; those of two devices agree up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> network = nor.bipartite(n_visible=3, n_hidden=1)
    >>> engine = nor.engines.WarpEngine(device="cpu")
    >>> posterior = nor.explain(network, np.array([[1, 0, 1]]), engine=engine)
    >>> posterior.n_rows
    1
    """

    n_threads: int | None = None
    device: str | None = None
    name: ClassVar[str] = "warp"
    supports: ClassVar[frozenset[str]] = frozenset(
        {"max_product", "log_joint", "log_joint_gradient"}
    )

    def __post_init__(self) -> None:
        resolve_threads(self.n_threads)
        find_device(self.device)

    @property
    def workers(self) -> int:
        """Number of threads in use, or one GPU."""
        return resolve_threads(self.n_threads) if self._on_cpu else 1

    @property
    def _on_cpu(self) -> bool:
        return find_device(self.device) == "cpu"

    def prepare(self, network: Network) -> Prepared:
        """Lay the network out on the device; its graph is kept there with the network."""
        return Prepared(network, find_device(self.device))

    def max_product(
        self,
        prepared: Prepared,
        evidence: Evidence,
        options: MaxProductOptions,
        key: NoiseKey,
        *,
        with_beliefs: bool = False,
    ) -> MaxProductResult:
        """Pass messages and decode the states of every row."""
        if options.two_stage:  # exists for comparisons with the authors' software: no kernel here
            other = get_engine("numba", n_threads=self.n_threads)
            return other.max_product(
                other.prepare(prepared.network), evidence, options, key, with_beliefs=with_beliefs
            )
        batch = Batch(prepared, evidence, options, key, with_beliefs)
        self._share(batch.run, len(batch.result.states), batch.bytes_of_line)
        return batch.result

    def log_joint(self, prepared: Prepared, evidence: Evidence, states: BinaryArray) -> FloatArray:
        """Compute ``log p(h, x)`` (lines,) of states (lines, n_hidden)."""
        lines = StatesOfRows(prepared, evidence, states)
        self._share(lines.log_joint, len(states), lines.bytes_of_line)
        return lines.value

    def log_joint_gradient(
        self, prepared: Prepared, evidence: Evidence, states: BinaryArray
    ) -> GradientSum:
        """Sum ``log p(h, x)`` and its gradient over rows."""
        lines = StatesOfRows(prepared, evidence, states)
        blocks = 1 if self._on_cpu else self._fitting(lines.bytes_of_block)
        return lines.gradient(blocks, self._fitting(lines.bytes_of_line), self.workers)

    def _fitting(self, size: int) -> int:
        """Return how many items of a size in bytes fit into the memory of a launch, at least 1."""
        return max(_MEMORY[self._on_cpu] // size, 1)

    def _share(self, run: Callable[[int, int], None], n_lines: int, bytes_of_line: int) -> None:
        """Call ``run(begin, end)`` for all lines, in launches that fit into memory."""
        most = self._fitting(bytes_of_line)

        def piece(begin: int, end: int) -> None:
            for first in range(begin, end, most):
                run(first, min(first + most, end))

        if self._on_cpu:
            run_blocks(piece, n_lines, self.workers)
        else:
            run_blocks(piece, n_lines, 1, first_piece=_LINES_AT_ONCE)
