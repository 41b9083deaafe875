"""The CPU engine: the contract on top of the compiled kernels, rows shared out over threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from noisyor._util.arrays import BinaryArray, BoolArray, FloatArray, IntArray, SingleArray
from noisyor.engines.contract import (
    FUNCTIONS,
    AnnealingOptions,
    AnnealingResult,
    CoverResult,
    Evidence,
    Factors,
    GibbsResult,
    GradientSum,
    ImprovedCover,
    ImproveOptions,
    JointOptions,
    JointResult,
    JointUnaries,
    MaxProductOptions,
    MaxProductResult,
    MeanFieldOptions,
    MeanFieldResult,
    NoiseKey,
    PolishOptions,
    WarmState,
)
from noisyor.engines.numba import mean_field
from noisyor.engines.numba.cache import forget_stale_kernels
from noisyor.engines.numba.factorization import entry as factorization
from noisyor.engines.numba.factorization.boolean_cover import improve_rows
from noisyor.engines.numba.factorization.cover_search import improve_packed
from noisyor.engines.numba.graph import TINY, Graph, Parameters, graph_of, parameters_of
from noisyor.engines.numba.log_joint import add_gradient, log_joint_rows
from noisyor.engines.numba.max_product.rows import infer_rows, polish_rows
from noisyor.engines.numba.max_product.workspace import Workspace, workspace
from noisyor.engines.numba.sampling.annealing import explore_rows
from noisyor.engines.numba.sampling.dense_gibbs import dense_sweep
from noisyor.engines.numba.sampling.dense_layout import Dense, Matrices, dense_of, matrices_of
from noisyor.engines.numba.sampling.gibbs import sweep_rows
from noisyor.engines.reduction import ROWS_OF_BLOCK, tree_sum_of_blocks
from noisyor.engines.threads import resolve_threads, run_blocks
from noisyor.model.network import Network

__all__ = ["NumbaEngine"]

for _kernel in (add_gradient, infer_rows, explore_rows, improve_rows, mean_field.infer_blocks):
    forget_stale_kernels(_kernel)  # one of each folder


class Prepared:
    """The padded graph, and the parameters spread over its edges when they are first needed."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.graph: Graph = graph_of(network)
        self.idle: deque[Workspace] = network.engine_cache.setdefault("max-product work", deque())

    @cached_property
    def parameters(self) -> Parameters:
        """For max-product, log p(h, x) and sampling."""
        return parameters_of(self.graph, self.network.theta)

    def memory(
        self,
        evidence: Evidence,
        rows: tuple[int, int],
        maximize_missing: bool,
        two_stage: bool = False,
    ) -> AbstractContextManager[Workspace]:
        """What a thread works in during max-product and polishing, kept for the next time."""
        return workspace(
            self.graph,
            self.idle,
            evidence,
            rows,
            maximize_missing=maximize_missing,
            two_stage=two_stage,
        )

    @cached_property
    def works(self) -> FloatArray:
        """Probability 1 - exp(-theta) that an edge works (padded edges,), for sampling."""
        success = np.append(-np.expm1(-np.maximum(self.network.theta, TINY)), 0.0)
        return np.asarray(success[self.graph.param])

    @cached_property
    def dense(self) -> Dense | None:
        """The layout as a matrix, if the network has one, for sampling."""
        return dense_of(self.network)

    @cached_property
    def matrices(self) -> Matrices:
        """The parameters in that layout."""
        assert self.dense is not None
        return matrices_of(self.network, self.dense)

    @cached_property
    def mean_field(self) -> mean_field.Prepared:
        """For mean-field."""
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
    supports: ClassVar[frozenset[str]] = FUNCTIONS

    def __post_init__(self) -> None:
        resolve_threads(self.n_threads)

    @property
    def workers(self) -> int:
        """Number of threads in use."""
        return resolve_threads(self.n_threads)

    def prepare(self, network: Network) -> Prepared:
        """The padded graph, kept with the network, and its parameters spread over the edges."""
        return Prepared(network)

    # ---- max-product

    def max_product(
        self,
        prepared: Prepared,
        evidence: Evidence,
        options: MaxProductOptions,
        key: NoiseKey,
        *,
        with_beliefs: bool = False,
    ) -> MaxProductResult:
        """See `noisyor.engines.contract.Engine.max_product`."""
        graph, parameters = prepared.graph, prepared.parameters
        lines = evidence.n_rows * options.n_samples
        result = MaxProductResult(
            np.empty((lines, graph.n_hidden), dtype=np.uint8),
            np.empty((lines if with_beliefs else 0, graph.n_hidden), dtype=np.float32),
            np.empty(lines, dtype=np.int32),
            np.empty(lines, dtype=np.float32),
        )

        def block(begin: int, end: int) -> None:
            missing, two_stage = options.maximize_missing, options.two_stage
            with prepared.memory(evidence, (begin, end), missing, two_stage) as space:
                infer_rows(graph, parameters, evidence, options, key, result, *space, begin, end)

        self._share(block, evidence.n_rows)
        return result

    def polish(
        self, prepared: Prepared, evidence: Evidence, states: BinaryArray, options: PolishOptions
    ) -> BinaryArray:
        """See `noisyor.engines.contract.Engine.polish`."""
        graph, parameters, states = prepared.graph, prepared.parameters, states.copy()

        def block(begin: int, end: int) -> None:
            with prepared.memory(evidence, (begin, end), options.maximize_missing) as space:
                polish_rows(graph, parameters, evidence, states, options, space.work, begin, end)

        self._share(block, evidence.n_rows)
        return states

    # ---- log p(h, x)

    def log_joint(self, prepared: Prepared, evidence: Evidence, states: BinaryArray) -> FloatArray:
        """See `noisyor.engines.contract.Engine.log_joint`."""
        result = np.empty(len(states))

        def block(begin: int, end: int) -> None:
            log_joint_rows(
                prepared.graph, prepared.parameters, evidence, states, result, begin, end
            )

        self._share(block, evidence.n_rows)
        return result

    def log_joint_gradient(
        self, prepared: Prepared, evidence: Evidence, states: BinaryArray
    ) -> GradientSum:
        """See `noisyor.engines.contract.Engine.log_joint_gradient`."""
        n_rows, samples = evidence.n_rows, len(states) // evidence.n_rows

        def block(number: int) -> list[FloatArray]:
            first = number * ROWS_OF_BLOCK
            last = min(first + ROWS_OF_BLOCK, n_rows)
            gradient = np.zeros(prepared.network.n_params + 1)  # the last entry is for padding
            value = add_gradient(
                prepared.graph,
                prepared.parameters,
                evidence,
                states,
                samples,
                gradient,
                first,
                last,
            )
            return [np.array([value]), gradient]

        value, gradient = self._sum(block, n_rows)
        return GradientSum(float(value[0]), gradient[:-1], evidence.total_weight)

    # ---- mean-field

    def mean_field(
        self,
        prepared: Prepared,
        evidence: Evidence,
        options: MeanFieldOptions,
        *,
        with_q: bool = False,
    ) -> MeanFieldResult:
        """See `noisyor.engines.contract.Engine.mean_field`."""
        return mean_field.infer(prepared.mean_field, evidence, options, with_q, self.workers)

    def mean_field_gradient(
        self,
        prepared: Prepared,
        evidence: Evidence,
        options: MeanFieldOptions,
        warm: WarmState | None = None,
        *,
        keep_warm: bool = False,
    ) -> tuple[GradientSum, WarmState | None]:
        """See `noisyor.engines.contract.Engine.mean_field_gradient`."""
        return mean_field.gradient(
            prepared.mean_field, evidence, options, warm, keep_warm, self.workers
        )

    # ---- sampling

    def gibbs_sweep(
        self, prepared: Prepared, evidence: Evidence, states: BinaryArray, key: NoiseKey
    ) -> GibbsResult:
        """See `noisyor.engines.contract.Engine.gibbs_sweep`."""
        if prepared.dense is not None:
            return dense_sweep(
                prepared.network,
                prepared.dense,
                prepared.matrices,
                evidence,
                states,
                key,
                self._sum,
            )
        n_rows, states = evidence.n_rows, states.copy()

        def block(number: int) -> list[FloatArray]:
            first = number * ROWS_OF_BLOCK
            credit, chance = np.zeros((2, prepared.network.n_params + 1))
            sweep_rows(
                prepared.graph,
                prepared.parameters,
                prepared.works,
                evidence,
                states,
                key.seed,
                key.step,
                credit,
                chance,
                first,
                min(first + ROWS_OF_BLOCK, n_rows),
            )
            return [credit, chance]

        credit, chance = self._sum(block, n_rows)
        return GibbsResult(states, credit[:-1], chance[:-1])

    def anneal(
        self,
        prepared: Prepared,
        evidence: Evidence,
        starts: BinaryArray,
        options: AnnealingOptions,
        key: NoiseKey,
        *,
        with_probability: bool = False,
    ) -> AnnealingResult:
        """See `noisyor.engines.contract.Engine.anneal`."""
        n_rows, n_hidden = evidence.n_rows, prepared.graph.n_hidden
        result = AnnealingResult.empty(n_rows, n_hidden, with_probability)

        def block(begin: int, end: int) -> None:
            explore_rows(
                prepared.graph,
                prepared.parameters,
                prepared.works,
                evidence,
                starts,
                options,
                key,
                result,
                begin,
                end,
            )

        self._share(block, n_rows)
        return result

    # ---- factorization

    def joint_max_product(
        self,
        unaries: JointUnaries,
        options: JointOptions,
        progress: Callable[[int], object] | None = None,
    ) -> JointResult:
        """See `noisyor.engines.contract.Engine.joint_max_product`."""
        given = bool(np.isinf(unaries.features).all())
        run = factorization.infer if given else factorization.learn
        return run(unaries, options, progress or (lambda done: None), self.workers)

    def cover_memberships(
        self,
        weights: SingleArray,
        factors: Factors,
        states: BinaryArray,
        counts: IntArray,
        price: FloatArray,
    ) -> CoverResult:
        """See `noisyor.engines.contract.Engine.cover_memberships`."""
        states, counts = np.array(states, order="C"), np.array(counts, order="C")
        flips: list[int] = []

        def block(begin: int, end: int) -> None:
            flips.append(
                improve_rows(
                    weights, counts, states, factors.ptr, factors.columns, price, begin, end
                )
            )

        self._share(block, len(states))
        return CoverResult(states, counts, sum(flips))

    def improve_cover(
        self,
        ones: BoolArray,
        observed: BoolArray,
        weights: FloatArray,
        states: BinaryArray,
        factors: BinaryArray,
        options: ImproveOptions,
        key: NoiseKey,
    ) -> ImprovedCover:
        """See `noisyor.engines.contract.Engine.improve_cover`; one step follows another."""
        return improve_packed(ones, observed, weights, states, factors, options, key)

    # ---- rows over threads

    def _share(self, function: Callable[[int, int], None], n_rows: int) -> None:
        """Call ``function(begin, end)`` for rows that the threads share."""
        run_blocks(function, n_rows, self.workers)

    def _sum(self, block: Callable[[int], list[FloatArray]], n_rows: int) -> list[FloatArray]:
        """Sum of ``block(number)`` over blocks of rows; a minibatch is a single one."""
        n_blocks = -(-n_rows // ROWS_OF_BLOCK)
        return block(0) if n_blocks == 1 else tree_sum_of_blocks(block, n_blocks, self.workers)
