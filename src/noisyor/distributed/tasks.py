"""What workers run: functions of a job and of rows, whose result is all that they leave behind.

A job is sent once and stays with a worker. A task names rows; it may run twice, or on another
worker, and gives the same bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor.data.observations import Observations
from noisyor.distributed.bits import bits_of, describe_machine
from noisyor.distributed.chunks import Item, Reader
from noisyor.engines.contract import EngineLike
from noisyor.engines.reduction import ROWS_OF_BLOCK, TreeSum, tree_sum
from noisyor.errors import ClusterError
from noisyor.inference.method import Method, Posterior
from noisyor.inference.sampling import marginals
from noisyor.learning.checkpoint import rows_identity
from noisyor.model.network import Network

__all__ = ["Job", "RowBounds", "add_up", "add_up_gradient", "bound_rows", "explain_rows"]

ROWS_AT_ONCE = 16 * ROWS_OF_BLOCK
"""Rows that a task has in memory; a power of two of blocks, so that they are a node of the tree."""

_networks: dict[str, Network] = {}


@dataclass(frozen=True, eq=False)
class Job:
    """All that the tasks of a run share. ``bits`` is what workers must compute; None for anything.

    ``network`` is None where rows are only fetched.
    ``settings`` are further arguments of the function that the tasks call.
    """

    network: Network | None
    reader: Reader
    engine: EngineLike
    method: Method | None = None
    seed: int = 0
    clamp: BinaryArray | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    sampling: bool = False
    bits: str | None = None

    def current(self, theta: FloatArray | None = None) -> Network:
        """The network, with other parameters if given; its layout is made once in a process."""
        self.check_bits()
        assert self.network is not None
        key = fingerprint(self.network)
        if key not in _networks:
            while len(_networks) > 1:
                _networks.pop(next(iter(_networks)), None)
            _networks[key] = self.network
        known = _networks.get(key, self.network)
        return known.with_theta(self.network.theta if theta is None else theta)

    def check_bits(self) -> None:
        """Refuse to work in a process that computes other bits than the client."""
        if self.bits is not None and self.bits != bits_of(self.method, self.engine, self.sampling):
            raise ClusterError(f"{where_this_is()} computes other bits than the client")

    def numbers_of(self, item: Item) -> int:
        """The one chunk of an item."""
        return self.reader.chunks_of(item.pieces)[0]


def fingerprint(network: Network) -> str:
    """Hash of the graph; parameters do not enter."""
    kept = network.engine_cache.get("fingerprint")
    if kept is None:
        digest = hashlib.sha256()
        for array in (network.child_ptr, network.parent, network.param, network.leak_param):
            digest.update(np.ascontiguousarray(array).tobytes())
        digest.update(np.ascontiguousarray(network.free).tobytes())
        kept = network.engine_cache["fingerprint"] = digest.hexdigest()
    return str(kept)


def where_this_is() -> str:
    """The worker that runs a task, in words."""
    from distributed import get_worker

    return f"worker {get_worker().address} ({describe_machine()})"


def look_at_bits(method: Method | None, engine: EngineLike, sampling: bool) -> tuple[str, str]:
    """What this worker computes, and what it is."""
    return bits_of(method, engine, sampling), where_this_is()


# ---- sums


def add_up_gradient(item: Item, job: Job, theta: FloatArray, step: int) -> list[FloatArray]:
    """Value, gradient and weight, summed over rows in the order of the tree."""
    assert job.method is not None
    network, total = job.current(theta), TreeSum()
    for rows in job.reader.batches(item, ROWS_AT_ONCE):
        found = job.method.gradient(network, rows, seed=job.seed, step=step, engine=job.engine)
        total.add(
            [np.array([found.total.value]), found.total.gradient, np.array([rows.total_weight])]
        )
    return total.result()


def add_up(parts: Sequence[Sequence[FloatArray]]) -> list[FloatArray]:
    """The sum of consecutive nodes of the tree, a power of two of them (or the last)."""
    return tree_sum(parts)


def weigh(item: Item, job: Job) -> list[FloatArray]:
    """How many rows the rows stand for."""
    total = TreeSum()
    for rows in job.reader.batches(item, ROWS_AT_ONCE):
        total.add([np.array([rows.total_weight])])
    return total.result()


def identify(item: Item, job: Job) -> bytes:
    """What identifies the chunk of an item."""
    return rows_identity(_chunk(job, item))


def count_rows(item: Item, job: Job) -> tuple[int, int, int, str]:
    """Numbers of rows, ones and missing entries of a chunk, and its fingerprint."""
    rows = _chunk(job, item)
    return rows.n_rows, rows.n_active, rows.n_missing, rows.fingerprint()


def take_rows(item: Item, job: Job) -> Observations:
    """The rows themselves; for a sample, that the client puts together."""
    parts = list(job.reader.batches(item, ROWS_AT_ONCE))
    return parts[0] if len(parts) == 1 else Observations.concatenate(parts)


# ---- results by row


class RowBounds(NamedTuple):
    """Of one method: mode and, if it has another bound, that; (n_rows,) each."""

    mode: FloatArray
    elbo: FloatArray | None


def bound_rows(
    item: Item, job: Job, methods: Sequence[Method], theta: FloatArray | None = None
) -> tuple[list[RowBounds], FloatArray | None]:
    """Bounds of the rows of a chunk by each method, and their weights if they have any."""
    network, rows = job.current(theta), _chunk(job, item)
    found = []
    for method in methods:
        bounds = method.bounds(network, rows, engine=job.engine)
        found.append(RowBounds(bounds.mode, None if bounds.elbo is bounds.mode else bounds.elbo))
    return found, rows.weights


def explain_rows(item: Item, job: Job) -> Posterior:
    """Causes of the rows of a chunk."""
    assert job.method is not None
    network, rows = job.current(), _chunk(job, item)
    return job.method.posterior(network, rows, seed=job.seed, clamp=job.clamp, engine=job.engine)


def marginals_of_rows(item: Item, job: Job) -> tuple[FloatArray, FloatArray]:
    """Probabilities of the causes of the rows of a chunk, and their errors."""
    network, rows = job.current(), _chunk(job, item)
    found = marginals(network, rows, **job.settings, seed=job.seed, engine=job.engine)
    return found.probability, found.error


def _chunk(job: Job, item: Item) -> Observations:
    given = dict(zip(item.numbers, item.given, strict=True))
    return job.reader.chunk(job.numbers_of(item), given)
