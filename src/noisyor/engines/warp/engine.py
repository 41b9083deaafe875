"""The engine for accelerators: the contract on top of the kernels; launches share the draws."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
import warp as wp

from noisyor._util.arrays import AnyArray, LongArray, log_expm1, pointers
from noisyor._util.arrays import Rows as Ragged
from noisyor.engines.contract import Engine, Evidence, MaxProductOptions, MaxProductResult, NoiseKey
from noisyor.engines.noise import combine
from noisyor.engines.registry import get_engine
from noisyor.engines.threads import resolve_threads, run_blocks
from noisyor.engines.warp.kernels import Graph, Options, Output, Rows, Work, infer
from noisyor.errors import InvalidSettingError
from noisyor.model.network import Network

_MEMORY = {True: 1 << 26, False: 1 << 30}
"""Largest memory of one launch in bytes, on the CPU and on a GPU."""

_DRAWS_AT_ONCE = 1 << 16
"""Draws of the first launch on a GPU; with fewer, most of the GPU would be idle."""

_TINY = 1e-300
"""Stands for a parameter of zero, so that no logarithm is infinite."""

_BY_HIDDEN = ("belief", "incoming", "unary", "to_child", "known", "hidden", "total")
"""Arrays of `Work` with an entry for each hidden node of a draw."""

_loading = threading.Lock()


@dataclass(frozen=True)
class WarpEngine(Engine):
    """Kernels of NVIDIA Warp, on a GPU or on the threads of the CPU.

    It has max-product by the collapsed schedule. The two-stage schedule and all other functions
    run in numba on the CPU.

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
    supports: ClassVar[frozenset[str]] = frozenset({"max_product"})

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
        """See `noisyor.engines.contract.Engine.max_product`."""
        if options.two_stage:  # exists for comparisons with the authors' software: no kernel here
            other = get_engine("numba", n_threads=self.n_threads)
            return other.max_product(
                other.prepare(prepared.network), evidence, options, key, with_beliefs=with_beliefs
            )
        batch = Batch(prepared, evidence, options, key, with_beliefs)
        most = max(_MEMORY[self._on_cpu] // batch.bytes_of_draw, 1)

        def piece(begin: int, end: int) -> None:
            for first in range(begin, end, most):  # launches that fit into memory
                batch.run(first, min(first + most, end))

        n_draws = len(batch.result.states)
        if self._on_cpu:
            run_blocks(piece, n_draws, self.workers)
        else:
            run_blocks(piece, n_draws, 1, first_piece=_DRAWS_AT_ONCE)
        return batch.result


class Prepared:
    """A network on a device; arrays are created when first needed."""

    def __init__(self, network: Network, device: str) -> None:
        self.network, self.device = network, device

    @cached_property
    def n_parents(self) -> LongArray:
        """Number of parents of each node, shape (n_nodes,)."""
        return np.diff(self.network.child_ptr)

    @cached_property
    def graph(self) -> Any:
        """The structure and its parameters, for kernels."""
        network, value = self.network, np.maximum(self.network.theta, _TINY)
        theta, leak = value[network.param], value[network.leak_param]
        return structure(
            Graph,
            self.device,
            n_visible=network.n_visible,
            n_hidden=network.n_hidden,
            **self._structure(),
            theta=theta,
            log_odds=log_expm1(value)[network.param],
            leak=log_expm1(leak),
            total=np.bincount(network.parent, theta, network.n_hidden),
        )

    def _structure(self) -> dict[str, Any]:
        """Return the arrays that do not depend on parameters, shared by `Network.with_theta`."""
        network, name = self.network, f"warp on {self.device}"
        if name not in network.engine_cache:
            arrays: dict[str, AnyArray] = {"ptr": network.child_ptr, "parent": network.parent}
            network.engine_cache[name] = {
                key: to_device(array, wp.int32, self.device) for key, array in arrays.items()
            }
        found: dict[str, Any] = network.engine_cache[name]
        return found


class Batch:
    """A call of max-product: `run` infers some of its draws, the largest rows first.

    Neighboring threads of a GPU wait for each other, so rows are sorted by size. Draw ``d`` of that
    order is sample ``d % n_samples`` of row ``order[d // n_samples]``.
    """

    def __init__(
        self,
        prepared: Prepared,
        evidence: Evidence,
        options: MaxProductOptions,
        key: NoiseKey,
        with_beliefs: bool,
    ) -> None:
        n_hidden, draws = prepared.network.n_hidden, evidence.n_rows * options.n_samples
        self.prepared, self.evidence, self.options = prepared, evidence, options
        self.with_beliefs = with_beliefs
        self.result = MaxProductResult.empty(draws, n_hidden, with_beliefs)
        # Children and edges that may send messages in each row.
        of_hidden = prepared.n_parents[prepared.network.n_visible :]
        before = pointers(prepared.n_parents[evidence.columns])
        children = np.diff(evidence.ptr) + np.count_nonzero(of_hidden)
        edges = before[evidence.ptr[1:]] - before[evidence.ptr[:-1]] + of_hidden.sum()
        self.order = np.lexsort((-edges, -children))
        self.n_children, self.n_edges = children[self.order], edges[self.order]
        self.settings = structure(
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

    @property
    def bytes_of_draw(self) -> int:
        """Memory on the device that the largest draw needs."""
        edges, children = (int(n.max(initial=1)) for n in (self.n_edges, self.n_children))
        # as in `_work` and `_output`
        return 8 * edges + 4 * children + 56 * self.prepared.network.n_hidden

    def run(self, begin: int, end: int) -> None:
        """Infer draws ``begin`` to ``end`` in one launch."""
        samples, order, draws = self.options.n_samples, self.order, end - begin
        first, last = begin // samples, (end - 1) // samples + 1
        rows, work = self._rows(order[first:last]), self._work(first, last, draws)
        output, skipped = self._output(draws), begin - first * samples
        arguments = [self.prepared.graph, rows, self.settings, work, output, skipped]
        launch(infer, draws, arguments, self.prepared.device)
        index = np.arange(begin, end)
        draw = order[index // samples] * samples + index % samples
        self.result.states[draw] = by_draw(output.states, draws)
        if self.with_beliefs:
            self.result.beliefs[draw] = by_draw(output.beliefs, draws)
        self.result.iterations[draw] = output.iterations.numpy()
        self.result.residual[draw] = output.residual.numpy()

    def _rows(self, indices: LongArray) -> Any:
        """Copy rows, in this order, to the device."""
        evidence = self.evidence
        ones = Ragged(evidence.ptr, evidence.columns).take(indices)
        missing = Ragged(evidence.missing_ptr, evidence.missing_columns).take(indices)
        clamp = evidence.clamp[indices] if len(evidence.clamp) > 1 else evidence.clamp
        return structure(
            Rows,
            self.prepared.device,
            clamps=len(clamp),
            ptr=ones.ptr,
            columns=ones.columns,
            missing_ptr=missing.ptr,
            missing_columns=missing.columns,
            ids=evidence.row_ids[indices],
            clamp=clamp.ravel(),
        )

    def _work(self, first: int, last: int, draws: int) -> Any:
        by_hidden = draws * self.prepared.network.n_hidden
        children = int(self.n_children[first:last].max())
        edges = int(self.n_edges[first:last].max())
        return structure(
            Work,
            self.prepared.device,
            draws=draws,
            most_children=children,
            most_edges=edges,
            **dict.fromkeys(_BY_HIDDEN, by_hidden),
            children=children * draws,
            **dict.fromkeys(("excess", "down"), edges * draws),
        )

    def _output(self, draws: int) -> Any:
        by_hidden = draws * self.prepared.network.n_hidden
        return structure(
            Output,
            self.prepared.device,
            with_beliefs=int(self.with_beliefs),
            states=by_hidden,
            beliefs=by_hidden if self.with_beliefs else 0,
            iterations=draws,
            residual=draws,
        )


# ---- the device


def find_device(name: str | None) -> str:
    """Return ``"cpu"`` or the name of a GPU; None selects the GPU, if there is one."""
    _start()
    if name is None:
        return "cuda" if wp.is_cuda_available() else "cpu"
    known = [str(device) for device in wp.get_devices()]
    if name not in known and not (name == "cuda" and wp.is_cuda_available()):
        raise InvalidSettingError(
            f"device must be one that Warp finds on this machine ({', '.join(known)}), got {name!r}"
        )
    return name


@lru_cache(maxsize=1)
def _start() -> None:
    """Start Warp once, without its messages, and check that it can store compiled kernels."""
    wp.config.log_level = wp.LOG_ERROR
    try:
        with _no_stderr():
            wp.init()
        with tempfile.TemporaryFile(dir=wp.config.kernel_cache_dir):
            pass
    except OSError as error:
        raise InvalidSettingError(
            f"the cache folder of Warp cannot be written ({error}); name another one in the "
            "environment variable WARP_CACHE_PATH"
        ) from error


@contextmanager
def _no_stderr() -> Iterator[None]:
    """Suppress the messages that the library prints if there is no driver of a GPU."""
    try:
        saved = os.dup(2)
    except OSError:  # a process that has none
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


# ---- arrays and kernels


def to_device(array: AnyArray, dtype: Any, device: str) -> wp.array:
    """Copy an array to the device. On the CPU it may share the memory of the argument."""
    numbers = np.ascontiguousarray(array, dtype=wp.dtype_to_numpy(dtype))
    return wp.array(numbers, dtype=dtype, device=device, copy=False)


def structure(kind: Any, device: str, **fields: Any) -> Any:
    """Fill a structure for kernels; types are those of its declaration.

    An array field takes an array of NumPy or of the device, or a number of entries, for which
    uncleared memory is allocated.
    """
    made = kind()
    for name, value in fields.items():
        declared = kind.vars[name].type
        if isinstance(declared, wp.array):
            if isinstance(value, int):
                value = wp.empty(value, dtype=declared.dtype, device=device)
            elif not isinstance(value, wp.array):
                value = to_device(value, declared.dtype, device)
        setattr(made, name, value)
    return made


def launch(kernel: Any, draws: int, arguments: list[Any], device: str) -> None:
    """Run a kernel for every draw; only one thread compiles it."""
    with _loading:
        kernel.module.load(device)
    wp.launch(kernel, dim=draws, inputs=arguments, device=device)


def by_draw(array: wp.array, draws: int) -> AnyArray:
    """Return entries by draw (draws, slots) of memory laid out by `kernels.offset`."""
    numbers: AnyArray = array.numpy()
    return numbers.reshape(draws, -1) if array.device.is_cpu else numbers.reshape(-1, draws).T
