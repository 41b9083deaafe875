"""The posterior of the causes of a row as states with masses: all of them, or those that matter.

Small networks are enumerated. For others, Gibbs chains collect states in a first phase. Among these
the exact ``p(h, x)`` says how the posterior is divided, so that it does not matter how long a chain
stayed where. Chains of a second phase start from them and estimate how much lies outside, and what.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from noisyor._util.arrays import BinaryArray, FloatArray, LongArray
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike, Evidence, NoiseKey
from noisyor.engines.noise import combine, mix, uniform
from noisyor.engines.registry import Runner
from noisyor.inference.evidence import find_starts
from noisyor.inference.exact import configurations_of, log_joint_table
from noisyor.inference.posterior import row_blocks
from noisyor.model.graph import Network

__all__ = ["WeightedStates", "content_ids", "few_configurations", "possible", "weighted_states"]

_COLLECT, _SETTLE = 8, 2
"""Sweeps of the first phase, and sweeps of the second before its draws count."""

_MAX_CONFIGURATIONS = 2**14
_MAX_CELLS = 2**21
"""Configurations, and configurations times visible nodes, up to which a network is enumerated."""

_LEAST = 1e-9
"""Least noise and least failure: whatever is on or off has a probability then, and dividing by it
takes it out again."""

_NEGLIGIBLE = 1e-13
"""Least mass of a state that is looked at."""

_BLOCK_ROWS = 256
_BLOCK_BYTES = 64 * 2**20


class WeightedStates(NamedTuple):
    """States of the causes, and how much of the posterior of some rows each stands for.

    ``rows`` the rows; ``states`` (n_states, n_hidden); ``mass`` (n_rows, n_states), dense or
    sparse, sums to one in every row.
    """

    rows: Observations
    states: BinaryArray
    mass: Any

    def average(self, values: FloatArray) -> FloatArray:
        """Posterior means (n_rows, m) of values (n_states, m)."""
        return np.asarray(self.mass @ values)


def few_configurations(network: Network) -> bool:
    """Whether the hidden states of a network are few enough to enumerate them for many rows."""
    sets = network.sets
    n_states = math.prod((np.diff(sets.ptr) + 1).tolist()) if sets else 1
    log2 = math.log2(n_states) + int((sets.number < 0).sum())
    return log2 <= math.log2(_MAX_CONFIGURATIONS) and log2 <= math.log2(
        _MAX_CELLS / network.n_visible
    )


def possible(network: Network) -> Network:
    """The network with so little noise and failure at least that every row has a probability."""
    theta = np.array(network.theta)
    theta[network.param] = np.minimum(theta[network.param], -np.log(_LEAST))
    noise = network.leak_param[: network.n_visible]
    theta[noise] = np.maximum(theta[noise], _LEAST)
    return network.with_theta(theta)


def content_ids(rows: Observations) -> LongArray:
    """A number of each row (n_rows,) that its ones and its unobserved entries determine.

    As row ids they make draws the same for rows that are the same, wherever they stand.
    """
    ids = np.zeros(rows.n_rows, dtype=np.uint64)
    for ptr, columns, first in (
        (rows.ptr, rows.columns, 1),
        (rows.missing_ptr, rows.missing_columns, 1 + rows.n_visible),
    ):
        line = np.repeat(np.arange(rows.n_rows), np.diff(ptr))
        entries = columns[ptr[0] : ptr[-1]].astype(np.int64) + first
        np.add.at(ids, line, mix(entries))  # the sum does not depend on the order, and may overflow
    return ids.view(np.int64)


def weighted_states(
    network: Network,
    observations: Observations,
    clamp: npt.NDArray[np.uint8] | None,
    *,
    n_chains: int,
    n_sweeps: int,
    enumerate_all: bool,
    seed: int,
    engine: EngineLike,
    progress: bool | None,
) -> Iterator[WeightedStates]:
    """The posterior of every row, in blocks of rows.

    Parameters
    ----------
    clamp : evidence on hidden nodes, (n_rows or 1, n_hidden) or None.
    n_chains, n_sweeps : chains of a row, and draws of each that count.
    enumerate_all : take all configurations, with their exact masses.
    """
    if enumerate_all:
        yield from _enumerated(network, observations, clamp, progress)
        return
    sampler = _Sampler(network, n_chains, n_sweeps, seed, engine)
    lines = n_chains * (_COLLECT + n_sweeps)
    row_bytes = lines * (network.n_hidden + 8 * network.n_visible)
    most = max(1, min(_BLOCK_ROWS, _BLOCK_BYTES // row_bytes))
    for rows, fixed in row_blocks(observations, clamp, 1, progress, task="sample", max_rows=most):
        yield sampler.sample(rows, fixed)


def _enumerated(
    network: Network,
    observations: Observations,
    clamp: npt.NDArray[np.uint8] | None,
    progress: bool | None,
) -> Iterator[WeightedStates]:
    states = configurations_of(network)
    row_bytes = 8 * len(states)
    for rows, fixed in row_blocks(observations, clamp, row_bytes, progress, task="enumerate"):
        table = log_joint_table(network, states, rows.to_dense().astype(np.float64))
        if fixed is not None:
            known = network.sets.complete(fixed)
            against = (known == 0).astype(float) @ states.T + (known == 1) @ (1.0 - states.T)
            table = np.where(against > 0, -np.inf, table)
        table -= table.max(axis=1, keepdims=True)
        mass = np.exp(table)
        yield WeightedStates(rows, states, mass / mass.sum(axis=1, keepdims=True))


class _Sampler:
    """Chains of Gibbs sweeps on one network."""

    def __init__(
        self, network: Network, n_chains: int, n_sweeps: int, seed: int, engine: EngineLike
    ) -> None:
        self.network, self.n_chains, self.n_sweeps = network, n_chains, n_sweeps
        self.seed, self.engine, self.runner = seed, engine, Runner(engine, network)

    def sample(self, rows: Observations, clamp: npt.NDArray[np.uint8] | None) -> WeightedStates:
        """States that chains of these rows went through, with their masses."""
        n_rows, n_chains = rows.n_rows, self.n_chains
        chain = np.tile(np.arange(n_chains), n_rows)
        row_of = np.repeat(np.arange(n_rows), n_chains)
        ids = combine(rows.row_ids[row_of], chain).astype(np.int64)
        chains = Observations.of(rows.take(row_of), row_ids=ids)
        fixed = clamp if clamp is None or len(clamp) == 1 else clamp[row_of]
        evidence = Evidence.of(self.network, chains, fixed)

        states = self._starts(rows, clamp)
        seen = [states] if not self.network.sets else []
        for step in range(_COLLECT):
            states = self._sweep(evidence, states, step)
            seen.append(states)
        found = np.concatenate(seen)
        found_row = np.tile(row_of, len(seen))
        found, found_row, _ = _distinct(found, found_row)
        # Without a cause: what a row would be left with if one of its entries were not there.
        n_active = found.sum(axis=1, dtype=np.int64)
        found = np.concatenate([found, _with_one_off(found)])
        found_row = np.concatenate([found_row, np.repeat(found_row, n_active)])
        found, found_row, _ = _distinct(found, found_row)
        mass = self._masses(rows, clamp, found, found_row)

        first = uniform(combine(combine(self.seed, rows.row_ids), n_chains))
        place = row_of + (first[row_of] + chain) / n_chains  # systematic, n_chains of each row
        chosen = np.searchsorted(np.cumsum(mass), place)
        states = found[np.minimum(chosen, len(found) - 1)]
        drawn = []
        for step in range(_SETTLE + self.n_sweeps):
            states = self._sweep(evidence, states, _COLLECT + step)
            if step >= _SETTLE:
                drawn.append(states)
        return self._combined(rows, found, found_row, mass, np.concatenate(drawn), row_of)

    def _starts(self, rows: Observations, clamp: npt.NDArray[np.uint8] | None) -> BinaryArray:
        """Modes and samples; nothing at all where a sweep draws whole sets of alternatives."""
        if self.network.sets:
            return np.zeros((rows.n_rows * self.n_chains, self.network.n_hidden), dtype=np.uint8)
        return find_starts(
            self.network, rows, self.n_chains - 1, clamp=clamp, seed=self.seed, engine=self.engine
        ).states()

    def _sweep(self, evidence: Evidence, states: BinaryArray, step: int) -> BinaryArray:
        engine, prepared = self.runner.on("gibbs_sweep")
        return engine.gibbs_sweep(prepared, evidence, states, NoiseKey(self.seed, step)).states

    def _masses(
        self,
        rows: Observations,
        clamp: npt.NDArray[np.uint8] | None,
        states: BinaryArray,
        row_of: LongArray,
    ) -> FloatArray:
        """How a posterior that has only these states is divided among them, by row."""
        engine, prepared = self.runner.on("log_joint")
        value = engine.log_joint(prepared, Evidence.of(self.network, rows.take(row_of)), states)
        if clamp is not None:
            known = self.network.sets.complete(clamp)
            known = known[row_of] if len(known) > 1 else known
            value = np.where(((known < 2) & (known != states)).any(axis=1), -np.inf, value)
        begin = np.searchsorted(row_of, np.arange(rows.n_rows))
        mass = np.exp(value - np.maximum.reduceat(value, begin)[row_of])
        return np.asarray(mass / np.add.reduceat(mass, begin)[row_of])

    def _combined(
        self,
        rows: Observations,
        found: BinaryArray,
        found_row: LongArray,
        mass: FloatArray,
        drawn: BinaryArray,
        row_of: LongArray,
    ) -> WeightedStates:
        """The share of the draws that is outside of what was found goes to these draws."""
        n_rows, n_found = rows.n_rows, len(found)
        drawn_row = np.tile(row_of, self.n_sweeps)
        states, _, number = _distinct(
            np.concatenate([found, drawn]), np.concatenate([found_row, drawn_row])
        )
        known = np.zeros(len(states), dtype=np.bool_)
        known[number[:n_found]] = True
        outside = ~known[number[n_found:]]
        n_drawn = self.n_chains * self.n_sweeps
        inside_share = 1.0 - np.bincount(drawn_row[outside], minlength=n_rows) / n_drawn
        kept = np.flatnonzero(mass > _NEGLIGIBLE)
        value = np.concatenate(
            [
                mass[kept] * inside_share[found_row[kept]],
                np.full(int(outside.sum()), 1.0 / n_drawn),
            ]
        )
        column = np.concatenate([number[kept], number[n_found:][outside]])
        at = np.concatenate([found_row[kept], drawn_row[outside]])
        used, column = np.unique(column, return_inverse=True)
        masses = sp.csr_array((value, (at, column)), shape=(n_rows, len(used)))
        return WeightedStates(rows, states[used], masses)


def _with_one_off(states: BinaryArray) -> BinaryArray:
    """Every state (n, n_hidden) once for each of its active causes, without that cause."""
    line, cause = np.nonzero(states)
    result = states[line]
    result[np.arange(len(line)), cause] = 0
    return result


def _distinct(states: BinaryArray, row_of: LongArray) -> tuple[BinaryArray, LongArray, LongArray]:
    """Distinct pairs of row and state, sorted by row, and the number of each given one."""
    key = np.concatenate(
        [row_of.astype(">u4").view(np.uint8).reshape(-1, 4), np.packbits(states, axis=1)], axis=1
    )
    packed = np.ascontiguousarray(key).view(np.dtype((np.void, key.shape[1]))).ravel()
    _, first, number = np.unique(packed, return_index=True, return_inverse=True)
    return states[first], row_of[first], number
