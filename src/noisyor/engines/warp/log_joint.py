"""log p(h, x) of a batch, and the sum of its gradient over blocks of rows in the fixed tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from noisyor._util.arrays import BinaryArray, FloatArray, pointers
from noisyor.engines.contract import Evidence, GradientSum
from noisyor.engines.reduction import ROWS_OF_BLOCK, TreeSum, tree_sum_of_blocks
from noisyor.engines.warp.device import Cleared, by_offset, launch, structure, to_device
from noisyor.engines.warp.layout import Prepared, rows_on_device
from noisyor.engines.warp.log_joint_kernels import Lines, Sums, add_edges, add_visibles, evaluate


class StatesOfRows:
    """States (n_rows * n_samples, n_hidden) of rows that have one or several lines each."""

    def __init__(self, prepared: Prepared, evidence: Evidence, states: BinaryArray) -> None:
        self.prepared, self.evidence, self.states = prepared, evidence, states
        self.samples = len(states) // max(evidence.n_rows, 1)
        weight = evidence.weight if len(evidence.weight) else np.ones(evidence.n_rows)
        self.weight, self.value = weight, np.empty(len(states))

    @property
    def bytes_of_line(self) -> int:
        """Memory on the device that a line needs."""
        return 8 * self.prepared.network.n_nodes + self.prepared.network.n_hidden + 8

    @property
    def bytes_of_block(self) -> int:
        """Memory on the device that the gradient of a block of rows needs."""
        network = self.prepared.network
        of_sums = 8 * (network.n_edges + network.n_nodes + network.n_hidden)
        return of_sums + ROWS_OF_BLOCK * self.samples * self.bytes_of_line

    def log_joint(self, begin: int, end: int) -> None:
        """Fill ``value`` (lines,) of some lines."""
        self._evaluate(begin, end, with_slope=False)
        self.value[begin:end] -= self.prepared.total_leak

    def gradient(self, blocks_at_once: int, lines_at_once: int, n_threads: int) -> GradientSum:
        """Sum over rows. Neither the blocks nor the lines of a launch change the bits."""
        n_blocks = max(1, -(-self.evidence.n_rows // ROWS_OF_BLOCK))
        if blocks_at_once == 1:
            parts = tree_sum_of_blocks(
                lambda number: self._blocks(number, number + 1, lines_at_once)[0],
                n_blocks,
                n_threads,
            )
        else:
            total = TreeSum()
            for number in range(0, n_blocks, blocks_at_once):
                last = min(number + blocks_at_once, n_blocks)
                for block in self._blocks(number, last, lines_at_once):
                    total.add(block)
            parts = total.result()
        value, gradient = parts
        return GradientSum(float(value[0]), gradient, self.evidence.total_weight)

    def _evaluate(self, begin: int, end: int, with_slope: bool) -> Any:
        """Compute the values of some lines in one launch; their slopes stay on the device."""
        prepared, n_lines, first = self.prepared, end - begin, begin // self.samples
        rows = np.arange(first, (end - 1) // self.samples + 1)
        lines = structure(
            Lines,
            prepared.device,
            lines=n_lines,
            n_samples=self.samples,
            first=begin - first * self.samples,
            with_slope=int(with_slope),
            leak=prepared.leak_on_device,
            share=self.weight[rows] / self.samples,
            states=by_offset(self.states[begin:end], prepared.device),
            value=n_lines,
            slope=Cleared(n_lines * prepared.network.n_nodes if with_slope else 0),
        )
        known = rows_on_device(prepared, self.evidence, rows)
        launch(evaluate, n_lines, [prepared.graph, known, lines], prepared.device)
        self.value[begin:end] = lines.value.numpy()
        return lines

    def _blocks(self, first: int, last: int, lines_at_once: int) -> list[list[FloatArray]]:
        """Compute value and gradient of each of some blocks of rows.

        All of them in one launch, or a single one in several.
        """
        prepared, samples, count = self.prepared, self.samples, last - first
        network, device = prepared.network, prepared.device
        of_block, (out_ptr, out_child) = ROWS_OF_BLOCK * samples, prepared.outgoing
        sums = structure(
            Sums,
            device,
            of_block=of_block,
            n_edges=network.n_edges,
            out_ptr=out_ptr,
            out_child=out_child,
            by_edge=Cleared(count * network.n_edges),
            times_on=Cleared(count * network.n_hidden),
            by_node=Cleared(count * network.n_nodes),
        )
        end = min(last * of_block, len(self.states))
        step = lines_at_once if count == 1 else end - first * of_block
        for begin in range(first * of_block, end, step):
            lines = self._evaluate(begin, min(begin + step, end), with_slope=True)
            sums.visit_ptr, sums.visit_row = self._visits(begin, min(begin + step, end), count)
            arguments = [prepared.graph, lines, sums]
            launch(add_edges, count * network.n_hidden, arguments, device)
            launch(add_visibles, count * network.n_visible, arguments, device)
        by_edge, times_on, by_node = (
            array.numpy().reshape(count, -1)
            for array in (sums.by_edge, sums.times_on, sums.by_node)
        )
        return [
            self._block(first + number, by_edge[number], times_on[number], by_node[number])
            for number in range(count)
        ]

    def _visits(self, begin: int, end: int, n_blocks: int) -> tuple[Any, Any]:
        """List the rows of a launch by block and visible that is not off, see `Sums`."""
        evidence, n_visible = self.evidence, self.prepared.network.n_visible
        first, last = begin // self.samples, (end - 1) // self.samples + 1
        lists = (
            (evidence.ptr, evidence.columns),
            (evidence.missing_ptr, evidence.missing_columns),
        )
        columns = np.concatenate([entries[ptr[first] : ptr[last]] for ptr, entries in lists])
        rows = np.concatenate(
            [np.repeat(np.arange(last - first), np.diff(ptr[first : last + 1])) for ptr, _ in lists]
        )
        block = rows // ROWS_OF_BLOCK if n_blocks > 1 else np.zeros_like(rows)
        key = block * n_visible + columns
        order = np.lexsort((rows, key))
        ptr = pointers(np.bincount(key, minlength=n_blocks * n_visible))
        device = self.prepared.device
        return to_device(ptr, wp.int32, device), to_device(rows[order], wp.int32, device)

    def _block(
        self, number: int, by_edge: FloatArray, times_on: FloatArray, by_node: FloatArray
    ) -> list[FloatArray]:
        """Complete value (1,) and gradient (n_params,) of a block by what all lines share."""
        prepared, network = self.prepared, self.prepared.network
        rows = slice(number * ROWS_OF_BLOCK, (number + 1) * ROWS_OF_BLOCK)
        weight, (_, out) = self.weight[rows], network.outgoing
        share = np.repeat(weight / self.samples, self.samples)
        begin = rows.start * self.samples
        total, of_lines = weight.sum(), self.value[begin : begin + len(share)]
        value = (share * of_lines).sum(keepdims=True) - total * prepared.total_leak
        of_edges = by_edge - times_on[network.parent[out]]
        gradient = np.bincount(network.param[out], of_edges, network.n_params)
        gradient += np.bincount(network.leak_param, by_node - total, network.n_params)
        return [value, gradient]
