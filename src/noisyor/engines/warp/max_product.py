"""Max-product of a batch: rows in the order of their size, in launches that fit into memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from noisyor._util.arrays import LongArray, pointers
from noisyor.engines.contract import Evidence, MaxProductOptions, MaxProductResult, NoiseKey
from noisyor.engines.noise import combine
from noisyor.engines.warp.collapsed import infer
from noisyor.engines.warp.device import by_line, launch, structure
from noisyor.engines.warp.layout import Prepared, rows_on_device
from noisyor.engines.warp.structures import Options, Output, Work

_BY_HIDDEN = ("belief", "incoming", "unary", "to_child", "known", "hidden", "total")
"""Arrays of `Work` with an entry for each hidden node of a line."""


def _sizes(prepared: Prepared, evidence: Evidence) -> tuple[LongArray, LongArray, LongArray]:
    """Order rows by size, largest first: neighboring threads of a GPU wait for each other.

    Returns the indices of rows in this order, and how many children and edges of each may send
    messages, (n_rows,) each.
    """
    of_hidden = prepared.n_parents[prepared.network.n_visible :]
    children = np.diff(evidence.ptr) + np.count_nonzero(of_hidden)
    before = pointers(prepared.n_parents[evidence.columns])
    edges = before[evidence.ptr[1:]] - before[evidence.ptr[:-1]] + of_hidden.sum()
    order = np.lexsort((-edges, -children))
    return order, children[order], edges[order]


class Batch:
    """A call of max-product: `run` does some of its lines, in the order of `_sizes`.

    Line ``l`` of that order is sample ``l % n_samples`` of its row ``l // n_samples``.
    """

    def __init__(
        self,
        prepared: Prepared,
        evidence: Evidence,
        options: MaxProductOptions,
        key: NoiseKey,
        with_beliefs: bool,
    ) -> None:
        n_hidden, lines = prepared.network.n_hidden, evidence.n_rows * options.n_samples
        self.prepared, self.evidence, self.options = prepared, evidence, options
        self.with_beliefs = with_beliefs
        self.result = MaxProductResult(
            np.empty((lines, n_hidden), dtype=np.uint8),
            np.empty((lines if with_beliefs else 0, n_hidden), dtype=np.float32),
            np.empty(lines, dtype=np.int32),
            np.empty(lines, dtype=np.float32),
        )
        sizes = _sizes(prepared, evidence)
        self.order, self.n_children, self.n_edges = sizes
        self.settings = _settings(options, key)

    @property
    def bytes_of_line(self) -> int:
        """Memory on the device that the largest line needs."""
        edges, children = (int(n.max(initial=1)) for n in (self.n_edges, self.n_children))
        # as in `_work` and `_output`
        return 8 * edges + 4 * children + 56 * self.prepared.network.n_hidden

    def run(self, begin: int, end: int) -> None:
        """Infer lines ``begin`` to ``end`` in one launch."""
        samples, order, lines = self.options.n_samples, self.order, end - begin
        first, last = begin // samples, (end - 1) // samples + 1
        rows = rows_on_device(self.prepared, self.evidence, order[first:last])
        work, output = self._work(first, last, lines), self._output(lines)
        arguments = [
            self.prepared.graph,
            rows,
            self.settings,
            work,
            output,
            begin - first * samples,
        ]
        launch(infer, lines, arguments, self.prepared.device)
        number = np.arange(begin, end)
        line = order[number // samples] * samples + number % samples
        self.result.states[line] = by_line(output.states, lines)
        if self.with_beliefs:
            self.result.beliefs[line] = by_line(output.beliefs, lines)
        self.result.iterations[line] = output.iterations.numpy()
        self.result.residual[line] = output.residual.numpy()

    def _work(self, first: int, last: int, lines: int) -> Any:
        by_hidden = lines * self.prepared.network.n_hidden
        children = int(self.n_children[first:last].max())
        edges = int(self.n_edges[first:last].max())
        return structure(
            Work,
            self.prepared.device,
            lines=lines,
            most_children=children,
            most_edges=edges,
            **dict.fromkeys(_BY_HIDDEN, by_hidden),
            children=children * lines,
            **dict.fromkeys(("excess", "down"), edges * lines),
        )

    def _output(self, lines: int) -> Any:
        by_hidden = lines * self.prepared.network.n_hidden
        return structure(
            Output,
            self.prepared.device,
            with_beliefs=int(self.with_beliefs),
            states=by_hidden,
            beliefs=by_hidden if self.with_beliefs else 0,
            iterations=lines,
            residual=lines,
        )


def _settings(options: MaxProductOptions, key: NoiseKey) -> Any:
    return structure(
        Options,
        "cpu",
        temperature=options.temperature,
        max_iterations=options.max_iterations,
        step=options.step,
        tolerance=options.tolerance,
        n_samples=options.n_samples,
        ancestors_only=int(options.ancestors_only),
        key=int(combine(key.seed, key.step)),
    )
