"""The CPU engine: the contract on top of the compiled kernels; threads share the rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from noisyor._util.arrays import BinaryArray, FloatArray, IntArray, SingleArray
from noisyor.engines import contract
from noisyor.engines.contract import Evidence, NoiseKey
from noisyor.engines.numba import (
    annealing,
    dense,
    gibbs,
    joint_max_product,
    log_joint,
    mean_field,
)
from noisyor.engines.numba.active_set import Work, workspace
from noisyor.engines.numba.arguments import Packed, launch, pack
from noisyor.engines.numba.collapsed import Call, Output, infer_collapsed
from noisyor.engines.numba.cover import Memberships, flip_memberships, improve_cover
from noisyor.engines.numba.graph import (
    TINY,
    Graph,
    Parameters,
    Rows,
    graph_of,
    parameters_of,
    rows_of,
)
from noisyor.engines.numba.two_stage import Stages, infer_two_stage, stages_of
from noisyor.engines.reduction import ROWS_OF_BLOCK, tree_sum_of_blocks
from noisyor.engines.threads import resolve_threads, run_blocks
from noisyor.model.network import Network


class Prepared:
    """The padded graph, and the parameters spread over its edges when they are first needed."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.graph: Packed[Graph] = graph_of(network)
        cache = network.engine_cache
        self.idle: deque[Packed[Work]] = cache.setdefault("max-product work", deque())
        self.idle_stages: deque[Packed[Stages]] = cache.setdefault("two-stage work", deque())

    @cached_property
    def parameters(self) -> Packed[Parameters]:
        """Parameters of max-product, log p(h, x) and sampling, by edge."""
        return parameters_of(self.graph, self.network.theta)

    @property
    def packed(self) -> tuple[Packed[Graph], Packed[Parameters]]:
        """Graph and parameters: the first two arguments of most kernels."""
        return self.graph, self.parameters

    def memory(self, rows: Rows, begin: int, end: int) -> AbstractContextManager[Packed[Work]]:
        """Return the memory of a thread for max-product and ICM; it is kept for the next call."""
        return workspace(self.graph, self.idle, rows, begin, end)

    def scratch(self, n_gradient: int = 0) -> Packed[log_joint.Scratch]:
        """Allocate the memory of a thread for log p(h, x); ``n_gradient`` entries of a gradient."""
        n_hidden = self.graph.values.n_hidden
        return pack(
            log_joint.Scratch(
                np.empty(n_hidden),
                np.empty(n_hidden, dtype=np.int32),
                np.zeros(n_hidden + 1),
                np.zeros(n_gradient),
                len(self.graph.values.parent),
            )
        )

    @cached_property
    def works(self) -> FloatArray:
        """Probability 1 - exp(-theta) that an edge works (padded edges,), for sampling."""
        success = np.append(-np.expm1(-np.maximum(self.network.theta, TINY)), 0.0)
        return np.asarray(success[self.graph.values.param])

    @cached_property
    def matrices(self) -> dense.Matrices | None:
        """The parameters as a matrix, if the network is dense, for sampling."""
        if not dense.is_dense(self.network):
            return None
        return dense.matrices_of(self.network)

    @cached_property
    def mean_field(self) -> mean_field.Prepared:
        """Graph and parameters in the layout of mean field."""
        return mean_field.Prepared(self.network, self.graph)


@dataclass(frozen=True)
class NumbaEngine:
    """Kernels compiled by numba, on threads.

    Parameters
    ----------
    n_threads : None for ``NOISYOR_NUM_THREADS``, or all cores. No result depends on it.

    Examples
    --------
    >>> import numpy as np
    >>> import noisyor as nor
    >>> network = nor.bipartite(n_visible=3, n_hidden=1)
    >>> engine = nor.engines.NumbaEngine(n_threads=1)
    >>> posterior = nor.explain(network, np.array([[1, 0, 1]]), engine=engine)
    >>> posterior.n_rows
    1
    """

    n_threads: int | None = None
    name: ClassVar[str] = "numba"
    supports: ClassVar[frozenset[str]] = contract.FUNCTIONS

    def __post_init__(self) -> None:
        resolve_threads(self.n_threads)

    @property
    def workers(self) -> int:
        """Number of threads in use."""
        return resolve_threads(self.n_threads)

    def prepare(self, network: Network) -> Prepared:
        """See `noisyor.engines.contract.Engine.prepare`."""
        return Prepared(network)

    # ---- max-product

    def max_product(
        self,
        prepared: Prepared,
        evidence: Evidence,
        options: contract.MaxProductOptions,
        key: NoiseKey,
        *,
        with_beliefs: bool = False,
    ) -> contract.MaxProductResult:
        """See `noisyor.engines.contract.Engine.max_product`."""
        graph, rows = prepared.graph, rows_of(evidence)
        n_draws, n_hidden = evidence.n_rows * options.n_samples, graph.values.n_hidden
        result = contract.MaxProductResult.empty(n_draws, n_hidden, with_beliefs)
        call = pack(Call(rows, options, key, Output(*result, with_beliefs)))
        shared = *prepared.packed, call

        def block(begin: int, end: int) -> None:
            with prepared.memory(rows, begin, end) as work:
                if options.two_stage:
                    with stages_of(graph, prepared.idle_stages, work.values) as stages:
                        launch(infer_two_stage, (*shared, work, stages), begin, end)
                else:
                    launch(infer_collapsed, (*shared, work), begin, end)

        self._share(block, evidence.n_rows)
        return result

    def icm(
        self,
        prepared: Prepared,
        evidence: Evidence,
        states: BinaryArray,
        options: contract.IcmOptions,
    ) -> BinaryArray:
        """See `noisyor.engines.contract.Engine.icm`."""
        rows, states = rows_of(evidence), np.array(states, dtype=np.uint8, order="C")
        n_samples = len(states) // max(rows.n_rows, 1)
        shared = *prepared.packed, pack(log_joint.Ascent(rows, options, n_samples, states))

        def block(begin: int, end: int) -> None:
            with prepared.memory(rows, begin, end) as work:
                launch(log_joint.icm_rows, (*shared, work), begin, end)

        self._share(block, evidence.n_rows)
        return states

    # ---- log p(h, x)

    def log_joint(self, prepared: Prepared, evidence: Evidence, states: BinaryArray) -> FloatArray:
        """See `noisyor.engines.contract.Engine.log_joint`."""
        result = np.empty(len(states))
        shared = *prepared.packed, pack(_states(rows_of(evidence), states, result))

        def block(begin: int, end: int) -> None:
            launch(log_joint.log_joint_rows, (*shared, prepared.scratch()), begin, end)

        self._share(block, evidence.n_rows)
        return result

    def log_joint_gradient(
        self, prepared: Prepared, evidence: Evidence, states: BinaryArray
    ) -> contract.GradientSum:
        """See `noisyor.engines.contract.Engine.log_joint_gradient`."""
        shared = *prepared.packed, pack(_states(rows_of(evidence), states, np.empty(0)))

        def block(begin: int, end: int) -> list[FloatArray]:
            scratch = prepared.scratch(prepared.network.n_params + 1)  # the last is for padding
            value = launch(log_joint.add_gradient, (*shared, scratch), begin, end)
            return [np.array([value]), scratch.values.gradient]

        value, gradient = self._sum(block, evidence.n_rows)
        return contract.GradientSum(float(value[0]), gradient[:-1], evidence.total_weight)

    # ---- mean-field

    def mean_field(
        self,
        prepared: Prepared,
        evidence: Evidence,
        options: contract.MeanFieldOptions,
        *,
        with_q: bool = False,
    ) -> contract.MeanFieldResult:
        """See `noisyor.engines.contract.Engine.mean_field`."""
        return mean_field.infer(prepared.mean_field, evidence, options, with_q, self.workers)

    def mean_field_gradient(
        self, prepared: Prepared, evidence: Evidence, options: contract.MeanFieldOptions
    ) -> contract.GradientSum:
        """See `noisyor.engines.contract.Engine.mean_field_gradient`."""
        return mean_field.gradient(prepared.mean_field, evidence, options, self.workers)

    # ---- sampling

    def gibbs_sweep(
        self, prepared: Prepared, evidence: Evidence, states: BinaryArray, key: NoiseKey
    ) -> contract.GibbsResult:
        """See `noisyor.engines.contract.Engine.gibbs_sweep`."""
        if prepared.matrices is not None:
            return dense.dense_sweep(
                prepared.network, prepared.matrices, evidence, states, key, self._sum
            )
        graph, rows = prepared.graph.values, rows_of(evidence)
        states = np.array(states, dtype=np.uint8, order="C")
        shared = *prepared.packed, pack(gibbs.Sweep(rows, key, prepared.works, states))

        def block(begin: int, end: int) -> list[FloatArray]:
            model = pack(gibbs.allocate(graph, rows, begin, end))
            sums = pack(
                gibbs.Sums(
                    per_parameter=prepared.network.n_params + 1, padded_hidden=graph.n_hidden + 1
                )
            )
            launch(gibbs.sweep_rows, (*shared, model, sums), begin, end)
            return [sums.values.successes, sums.values.trials]

        successes, trials = self._sum(block, rows.n_rows)
        return contract.GibbsResult(states, successes[:-1], trials[:-1])

    def anneal(
        self,
        prepared: Prepared,
        evidence: Evidence,
        starts: BinaryArray,
        options: contract.AnnealingOptions,
        key: NoiseKey,
        *,
        with_probability: bool = False,
    ) -> contract.AnnealingResult:
        """See `noisyor.engines.contract.Engine.anneal`."""
        rows, n_rows = rows_of(evidence), evidence.n_rows
        graph, n_hidden = prepared.graph.values, prepared.network.n_hidden
        starts = np.ascontiguousarray(starts, dtype=np.uint8)
        n_starts = len(starts) // max(n_rows, 1)
        result = contract.AnnealingResult.empty(n_rows, n_hidden, with_probability)
        call = pack(
            annealing.Annealing(
                rows, key, options, prepared.works, starts, n_starts, result, with_probability
            )
        )
        shared = *prepared.packed, call

        def block(begin: int, end: int) -> None:
            model = gibbs.allocate(graph, rows, begin, end)
            memory = pack(annealing.allocate(model, n_hidden, n_starts, options))
            launch(annealing.annealed_importance_sampling, (*shared, memory), begin, end)

        self._share(block, n_rows)
        return result

    def temper(
        self,
        prepared: Prepared,
        evidence: Evidence,
        first: FloatArray,
        n_chains: int,
        n_steps: int,
        key: NoiseKey,
    ) -> contract.TemperingResult:
        """See `noisyor.engines.contract.Engine.temper`."""
        tables = prepared.matrices or dense.matrices_of(prepared.network)
        return dense.dense_temper(tables, evidence, first, n_chains, n_steps, key, self._share)

    # ---- factorization

    def joint_max_product(
        self,
        unaries: contract.JointUnaries,
        options: contract.JointOptions,
        progress: Callable[[int], object] | None = None,
    ) -> contract.JointResult:
        """See `noisyor.engines.contract.Engine.joint_max_product`."""
        given = not options.two_stage and bool(np.isinf(unaries.features).all())
        run = joint_max_product.infer if given else joint_max_product.learn
        return run(unaries, options, progress or (lambda done: None), self.workers)

    def cover_memberships(
        self,
        weights: SingleArray,
        factors: contract.Factors,
        states: BinaryArray,
        counts: IntArray,
        price: FloatArray,
    ) -> contract.CoverResult:
        """See `noisyor.engines.contract.Engine.cover_memberships`."""
        flips: list[int] = []
        states = np.array(states, dtype=np.uint8, order="C")
        counts = np.array(counts, dtype=np.int32, order="C")
        cover = pack(
            Memberships(
                weights.shape[1],
                len(price),
                np.ascontiguousarray(weights, dtype=np.float32),
                counts,
                states,
                np.ascontiguousarray(factors.ptr, dtype=np.int64),
                np.ascontiguousarray(factors.columns, dtype=np.int32),
                np.ascontiguousarray(price, dtype=np.float64),
            )
        )

        def block(begin: int, end: int) -> None:
            flips.append(launch(flip_memberships, (cover,), begin, end))

        self._share(block, len(states))
        return contract.CoverResult(states, counts, sum(flips))

    improve_cover = staticmethod(improve_cover)

    # ---- rows over threads

    def _share(self, function: Callable[[int, int], None], n_rows: int) -> None:
        """Call ``function(begin, end)`` for rows that the threads share."""
        run_blocks(function, n_rows, self.workers)

    def _sum(
        self, function: Callable[[int, int], list[FloatArray]], n_rows: int
    ) -> list[FloatArray]:
        """Sum ``function(begin, end)`` over blocks of rows; a minibatch is one block."""

        def block(index: int) -> list[FloatArray]:
            begin = index * ROWS_OF_BLOCK
            return function(begin, min(begin + ROWS_OF_BLOCK, n_rows))

        n_blocks = -(-n_rows // ROWS_OF_BLOCK)
        return block(0) if n_blocks == 1 else tree_sum_of_blocks(block, n_blocks, self.workers)


def _states(rows: Rows, states: BinaryArray, value: FloatArray) -> log_joint.States:
    states = np.ascontiguousarray(states, dtype=np.uint8)
    return log_joint.States(rows, len(states) // max(rows.n_rows, 1), states, value)
