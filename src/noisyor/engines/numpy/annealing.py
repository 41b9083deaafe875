"""Sets of likely configurations, and annealed importance sampling outside them.

A set of distinct configurations of a row grows by single flips of its likeliest members.

A chain starts from independent nodes with nearly their probabilities under the set of
configurations, and passes to p(h, x) by Gibbs sweeps of rising inverse temperature, here *heat*.
Set and chains together estimate log p(x) and the probability of every node.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from noisyor._util.arrays import BinaryArray, FloatArray, logistic_function
from noisyor.engines.contract import (
    FREE,
    AnnealingOptions,
    AnnealingResult,
    Evidence,
    NoiseKey,
    TemperingResult,
)
from noisyor.engines.noise import KeyArray, combine, uniform
from noisyor.engines.numpy.gibbs import ChainState, RowModel
from noisyor.engines.numpy.log_joint import value_of
from noisyor.engines.numpy.rows import Prepared, rows_of

_SMOOTHING = 0.5
"""Chains start with every node on and off with at least this probability over the number of nodes.

On average, half a node is in an unlikely state at the start. With more, weights would vary too
much; with fewer, chains would explore too little.
"""

_SWAPS, _MOST_SWAPS = 4, 32
"""Attempted swaps of causes in each sweep: per cause that is on, and in all."""

_AFTER_NODES = 2**32
"""Keys of sweeps begin where those of nodes end."""

_MAX_LOG = 700.0


def anneal(
    prepared: Prepared,
    evidence: Evidence,
    starts: BinaryArray,
    options: AnnealingOptions,
    key: NoiseKey,
    *,
    with_probability: bool = False,
) -> AnnealingResult:
    """Grow the set and run the chains of every row; noise is keyed by seed and row id alone."""
    n_rows, n_hidden = evidence.n_rows, prepared.network.n_hidden
    result = AnnealingResult.empty(n_rows, n_hidden, with_probability)
    n_starts = len(starts) // max(n_rows, 1)
    for row in rows_of(prepared, evidence):
        model = RowModel.of(prepared, row)
        of_row = starts[row.index * n_starts : (row.index + 1) * n_starts, model.hidden]
        found = ConfigurationSet.grown(model, of_row, options.n_expansions)
        log_sum, mean, error = found.log_sum(), found.mean(), np.zeros(len(model.hidden))
        log_total, log_error = 0.0, 0.0
        if options.n_chains > 0:
            row_key = combine(key.seed, row.id)
            chains = [
                _chain(model, found, mean, log_sum, combine(row_key, chain), options)
                for chain in range(options.n_chains)
            ]
            log_total, log_error, mean, error = _together(model, found, chains, mean, options)
        result.log_sum[row.index], result.size[row.index] = log_sum, len(found)
        result.log_evidence[row.index] = log_sum + log_total
        result.log_error[row.index] = log_error
        if with_probability:
            result.probability[row.index] = logistic_function(model.isolated)
            result.probability[row.index, model.hidden] = mean
            result.error[row.index, model.hidden] = error
    return result


class ConfigurationSet:
    """Distinct configurations of the nodes of a row model, and their log p(h, x)."""

    def __init__(self) -> None:
        self.value: dict[bytes, float] = {}

    @staticmethod
    def grown(model: RowModel, starts: BinaryArray, n_expansions: int) -> ConfigurationSet:
        """Grow a set from ``starts`` (n_starts, n) by all flips of its likeliest members.

        Members are expanded one after another: each time the likeliest member that is not yet
        expanded, the first one of equals. The configuration in which nothing is on is expanded
        before all others and not counted: its flips are all explanations by a single cause.
        """
        found, done = ConfigurationSet(), set[bytes]()
        nothing = np.where(model.is_free, np.uint8(0), model.clamp)
        states = [*starts, nothing] if n_expansions > 0 else list(starts)
        for state in states:
            known = np.where(model.is_free, state, model.clamp).astype(np.uint8)
            if known not in found:
                found.add(known, ChainState(model, known).log_joint())
        best: bytes | None = nothing.tobytes() if n_expansions > 0 else None
        for _ in range(n_expansions + 1):
            if best is None:
                break
            done.add(best)
            found._expand(model, np.frombuffer(best, dtype=np.uint8))
            left = [member for member in found.value if member not in done]
            best = max(left, key=found.value.__getitem__, default=None)
        return found

    def __contains__(self, state: BinaryArray) -> bool:
        return state.tobytes() in self.value

    def __len__(self) -> int:
        return len(self.value)

    def add(self, state: BinaryArray, value: float) -> None:
        """Add a configuration (n,) that is not in the set yet."""
        self.value[state.tobytes()] = value

    def log_sum(self) -> float:
        """Return the log of the sum of p(h, x) over the set."""
        values = np.array(list(self.value.values()))
        return float(values.max() + np.log(np.exp(values - values.max()).sum()))

    def mean(self) -> FloatArray:
        """Return the probability under the set that each node is on, (n,)."""
        weight = np.exp(np.array(list(self.value.values())) - self.log_sum())
        states = np.array([np.frombuffer(member, dtype=np.uint8) for member in self.value])
        return np.asarray(np.clip(weight / weight.sum() @ states, 0.0, 1.0))

    def _expand(self, model: RowModel, state: BinaryArray) -> None:
        """Add all single flips of free nodes."""
        for j in np.flatnonzero(model.is_free).tolist():
            flipped = state.copy()
            flipped[j] ^= 1
            if flipped not in self:
                self.add(flipped, ChainState(model, flipped).log_joint())


# ---- chains


class _Chain(NamedTuple):
    """Result of a chain.

    ``weight`` relative to the sum of the set; ``outside`` share of its visits that lie outside the
    set; ``on`` (n,) share that lies there with each node on.
    """

    weight: float
    outside: float
    on: FloatArray


class _Start:
    """Start of the chains: independent nodes with probabilities near ``mean`` (n,).

    ``free``: the nodes that are not known. ``probability`` (n,); ``odds`` (n,) its log-odds, 0 if
    the node is known; ``log_off`` the log-probability that all free nodes are off; ``up_to``
    (n + 1,): cumulative probabilities of the free nodes.
    """

    def __init__(self, model: RowModel, mean: FloatArray) -> None:
        self.model, self.free = model, np.flatnonzero(model.is_free)
        least = _SMOOTHING / max(len(mean), 1)
        self.probability = np.minimum(np.maximum(mean, least), 1.0 - least)
        self.odds, self.log_off = np.zeros(len(mean)), 0.0
        for j in self.free.tolist():
            off = 1.0 - float(self.probability[j])
            self.odds[j] = np.log(self.probability[j] / off)
            self.log_off += math.log(off)
        self.up_to = np.concatenate(
            [[0.0], np.cumsum(np.where(model.is_free, self.probability, 0.0))]
        )

    def draw(self, key: KeyArray) -> BinaryArray:
        """Draw states (n,); known nodes keep their state."""
        state = np.where(self.model.is_free, 0, self.model.clamp).astype(np.uint8)
        draws = uniform(combine(key, self.model.hidden[self.free]))
        state[self.free] = draws < self.probability[self.free]
        return state

    def log_probability(self, state: BinaryArray) -> float:
        """Return the log-probability of states (n,)."""
        return float(self.log_off + self.odds[state == 1].sum())


def _chain(
    model: RowModel,
    found: ConfigurationSet,
    mean: FloatArray,
    log_sum: float,
    key: KeyArray,
    options: AnnealingOptions,
) -> _Chain:
    """Run a chain to the posterior, then sweeps that count visits outside the set."""
    start, n_steps = _Start(model, mean), options.n_steps
    chain, log_weight = ChainState(model, start.draw(key)), 0.0
    for step in range(n_steps):
        chain.refresh()
        log_weight += (chain.log_joint() - start.log_probability(chain.state)) / n_steps
        if step < n_steps - 1:
            step_key, heat = combine(key, step + _AFTER_NODES), (step + 1) / n_steps
            _swap(chain, start, heat, step_key)
            _sweep(chain, start, heat, step_key)
    outside, on = 0.0, np.zeros(len(model.hidden))
    for step in range(n_steps, n_steps + options.n_stay):
        chain.refresh()
        step_key = combine(key, step + _AFTER_NODES)
        _swap(chain, start, 1.0, step_key)
        share, share_on = _visit(chain, found, step_key)
        outside += share / options.n_stay
        on += share_on / options.n_stay
    return _Chain(math.exp(min(log_weight - log_sum, _MAX_LOG)), outside, on)


def _swap(chain: ChainState, start: _Start, heat: float, key: KeyArray) -> None:
    """Make Metropolis steps that replace a free node that is on by another one.

    If one of two competing causes is on, single flips can exchange them only through a state with
    both or none on. The new node is drawn by its probability at the start.
    """
    free, up_to = chain.model.is_free, start.up_to
    on = np.flatnonzero((chain.state == 1) & free)
    for attempt in range(min(_SWAPS * len(on), _MOST_SWAPS)):
        attempt_key = combine(key, attempt + _AFTER_NODES)
        index = min(int(uniform(attempt_key) * len(on)), len(on) - 1)
        wanted = uniform(combine(attempt_key, 0)) * up_to[-1]
        new = min(int(np.searchsorted(up_to, wanted, "right")) - 1, len(free) - 1)
        old = int(on[index])
        if chain.state[new] or not free[new]:
            continue
        change = -heat * chain.gain(old)
        chain.flip(old)
        change += heat * chain.gain(new)
        change += (1.0 - heat) * (start.odds[new] - start.odds[old])
        back = math.log((up_to[old + 1] - up_to[old]) / (up_to[new + 1] - up_to[new]))
        if math.log(uniform(combine(attempt_key, 1))) < change + back:
            chain.flip(new)
            on[index] = new
        else:
            chain.flip(old)


def _sweep(chain: ChainState, start: _Start, heat: float, key: KeyArray) -> None:
    """Draw every free node from its conditional at a heat between start (0) and target (1)."""
    for j in start.free.tolist():
        draw = float(uniform(combine(key, chain.model.hidden[j])))
        odds = heat * chain.gain(j) + (1.0 - heat) * start.odds[j]
        if (draw < logistic_function(odds)) != chain.state[j]:
            chain.flip(j)


def _visit(chain: ChainState, found: ConfigurationSet, key: KeyArray) -> tuple[float, FloatArray]:
    """Make a sweep at the target and count visits outside the set.

    Returns the mean over nodes of the probability of being outside, and for each node (n,) the
    probability of being outside with the node on.
    """
    model, on, outside = chain.model, np.zeros(len(chain.state)), 0.0
    free = np.flatnonzero(model.is_free).tolist()
    for j in free:
        draw = float(uniform(combine(key, model.hidden[j])))
        probability = float(logistic_function(chain.gain(j)))
        state = chain.state.copy()
        state[j] = 0
        if state not in found:
            outside += 1.0 - probability
        state[j] = 1
        if state not in found:
            on[j] += probability
            outside += probability
        if (draw < probability) != chain.state[j]:
            chain.flip(j)
    outside /= max(len(free), 1)
    on[model.clamp == 1] += outside
    return outside, on


def _together(
    model: RowModel,
    found: ConfigurationSet,
    chains: list[_Chain],
    mean: FloatArray,
    options: AnnealingOptions,
) -> tuple[float, float, FloatArray, FloatArray]:
    """Combine set and chains: log of their sum over the set, probabilities (n,), and errors.

    Errors are those of the mean over chains to first order. Unless the set is complete, the weight
    of one more visit outside is added to them.
    """
    complete = len(found) == 2 ** int(model.is_free.sum())
    visit = 0.0 if complete else 1.0 / (options.n_chains * options.n_stay)
    weight = np.array([chain.weight for chain in chains])
    outside = np.array([chain.outside for chain in chains])
    on = np.array([chain.on for chain in chains])
    total = 1.0 + float((weight * outside).mean())
    spread = float(_error(weight * outside))
    mean = np.minimum((mean + (weight[:, None] * on).mean(axis=0)) / total, 1.0)
    deviation = weight[:, None] * (on - mean * outside[:, None])
    rare = np.sqrt(mean * (1.0 - mean)) * visit
    error = np.hypot(_error(deviation) / total, rare)
    return math.log(total), float(np.hypot(spread / total, visit)), mean, error


def _error(values: FloatArray) -> FloatArray:
    """Return the standard error of the mean over the first axis."""
    n = len(values)
    squares = ((values - values.mean(axis=0)) ** 2).sum(axis=0)
    return np.asarray(np.sqrt(squares / (n * (n - 1))))


# ---- chains alone


def temper(
    prepared: Prepared,
    evidence: Evidence,
    first: FloatArray,
    n_chains: int,
    n_steps: int,
    key: NoiseKey,
) -> TemperingResult:
    """Run chains from independent nodes to the posterior of every row.

    Every free node is drawn in every sweep, also if it is isolated in the sense of `RowModel`.
    """
    network = prepared.network
    log_weight = np.empty((evidence.n_rows, n_chains))
    probability = np.empty((evidence.n_rows, n_chains, network.n_hidden))
    for row in rows_of(prepared, evidence):
        start = first[row.index]
        odds = np.log(start / (1.0 - start))
        for chain in range(n_chains):
            chain_key = combine(combine(key.seed, row.id), chain)
            draws = uniform(combine(chain_key, np.arange(network.n_hidden)))
            state = np.where(row.hidden == FREE, draws < start, row.hidden).astype(np.uint8)
            total, on = 0.0, row.hidden.astype(np.float64)
            for step in range(n_steps):
                log_q = np.where(state == 1, np.log(start), np.log1p(-start))
                log_q = log_q[row.hidden == FREE].sum()
                total += (value_of(prepared, row, state) - log_q) / n_steps
                step_key, heat = combine(chain_key, step + _AFTER_NODES), (step + 1) / n_steps
                for k in np.flatnonzero(row.hidden == FREE).tolist():
                    values = []
                    for state[k] in (1, 0):
                        values.append(value_of(prepared, row, state))
                    mixed = heat * (values[0] - values[1]) + (1.0 - heat) * odds[k]
                    on[k] = logistic_function(mixed)
                    state[k] = uniform(combine(step_key, k)) < on[k]
            log_weight[row.index, chain], probability[row.index, chain] = total, on
    return TemperingResult(log_weight, probability)
