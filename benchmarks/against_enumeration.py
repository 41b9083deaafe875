"""Compare every engine with plain enumeration on random networks.

    python benchmarks/against_enumeration.py --networks 1000
    python benchmarks/against_enumeration.py --seconds 600
    python benchmarks/against_enumeration.py --seed 7 --first 31 --networks 1   # one again

Each network is built by a random builder. It has random parameters between 0 and 9e5, some tied or
fixed, and rows with missing values and weights. It has at most 12 hidden nodes, so that all hidden
states can be enumerated. The enumeration below uses long doubles and shares no code with the
library. The seed is new in every run unless it is given, and it is printed. A failure prints the
command that repeats it, and the exit code is 1. Ctrl-C ends the run with the count so far. A second
of CPU time is enough for about 20 networks with ``--engines numba`` and for 10 with all engines.
Chains of the NumPy engine are slow, so they run in one network of six.

Tolerances and their reasons:

* ``EXACT`` (1e-9, relative to 1 + the size of the terms): sums of a few hundred doubles. Rounding
  alone gives about 1e-13; a wrong formula gives more than 1e-6. Sums of parameters of 1e6 leave
  1e-9 where they cancel, so 1e-14 of the sum of all parameters is added.
* ``BELIEF`` (2e-3, relative to 1 + the largest parameter of the network): compiled engines keep
  messages in single precision (1e-7) and stop when no message changes by more than 1e-5.
* Finite differences: truncation (1e-6 of the slope, from a relative width of 1e-4 squared with
  curvature) plus the rounding of the two values, divided by the width.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import noisyor as nor
from noisyor.engines.contract import Evidence, MeanFieldOptions, NoiseKey
from noisyor.engines.numpy.mean_field import RowAscent
from noisyor.engines.numpy.rows import rows_of
from noisyor.engines.registry import get_engine
from noisyor.errors import MissingExtraError
from noisyor.explanation.attribution import attribute_findings
from noisyor.model.network import THETA_MIN

EXACT = 1e-9
BELIEF = 2e-3
MAX_HIDDEN = 12
ENGINES = ("numpy", "numba", "warp")

LongDouble = npt.NDArray[np.longdouble]
Dense = npt.NDArray[np.float64]
States = npt.NDArray[np.uint8]


# ---- random problems


@dataclass(frozen=True, eq=False)
class Problem:
    """A network, rows (n_rows, n_visible) with NaN for missing values, and weights or None."""

    kind: str
    network: nor.Network
    rows: Dense
    weights: Dense | None
    is_tree: bool

    @property
    def observations(self) -> nor.Observations:
        """The rows with their weights."""
        found = nor.Observations.of(self.rows)
        return found if self.weights is None else found.with_weights(self.weights)


def draw_problem(random: np.random.Generator) -> Problem:
    """Draw a network and rows for it."""
    kinds = ("bipartite", "convolutional", "deep", "tied", "tree", "layered")
    kind = str(random.choice(kinds))
    network = {
        "bipartite": _bipartite,
        "convolutional": _convolutional,
        "deep": _deep,
        "tied": _tied,
        "tree": _tree,
        "layered": _layered,
    }[kind](random)
    theta = _theta(random, network.n_params)
    # Engines replace leaks of 0 by 1e-300, so that no row is impossible; edges may be 0.
    theta[network.leak_param] = np.maximum(theta[network.leak_param], 1e-12)
    network = network.with_theta(theta)
    rows = _rows(random, network)
    weights = None
    if random.random() < 0.5:
        weights = np.exp(random.uniform(-4, 4, len(rows)))
        if random.random() < 0.5:
            weights = np.ceil(weights)
    return Problem(kind, network, rows, weights, kind == "tree")


def _fixed(random: np.random.Generator) -> list[str]:
    return [name for name in ("failure", "prior", "noise") if random.random() < 0.2]


def _bipartite(random: np.random.Generator) -> nor.Network:
    return nor.bipartite(
        int(random.integers(1, 11)),
        int(random.integers(1, 9)),
        prior=random.choice(["per_component", "shared"]),
        noise=random.choice(["per_visible", "shared"]),
        fixed=_fixed(random),
    )


def _convolutional(random: np.random.Generator) -> nor.Network:
    while True:
        height, width = (int(size) for size in random.integers(1, 5, 2))
        feature = int(random.integers(1, height + 1)), int(random.integers(1, width + 1))
        network = nor.convolutional(
            (height, width),
            int(random.integers(1, 4)),
            feature,
            border=bool(random.random() < 0.3),
            prior=random.choice(["per_component", "shared"]),
            noise=random.choice(["per_visible", "shared"]),
            fixed=_fixed(random),
        )
        if network.n_hidden <= MAX_HIDDEN:
            return network


def _deep_edges(
    random: np.random.Generator,
) -> tuple[int, int, list[tuple[int, int]], list[tuple[int, int]]]:
    """Draw sizes and edges of a graph of several layers in which all hidden nodes matter."""
    n_visible, n_hidden = int(random.integers(1, 9)), int(random.integers(1, 10))
    density = random.uniform(0.1, 0.9)
    order = random.permutation(n_hidden)  # parents come later in this order
    upper = [
        (int(order[late]), int(order[early]))
        for late in range(n_hidden)
        for early in range(late)
        if random.random() < density / 2
    ]
    lower = [(k, i) for k in range(n_hidden) for i in range(n_visible) if random.random() < density]
    below = {k: {child for parent, child in upper if parent == k} for k in range(n_hidden)}
    reaching = {k for k, _ in lower}
    for k in order.tolist():  # children first
        if k not in reaching and not below[k] & reaching:
            lower.append((k, int(random.integers(n_visible))))
        reaching.add(k)
    return n_visible, n_hidden, lower, upper


def _deep(random: np.random.Generator) -> nor.Network:
    return nor.from_edges(*_deep_edges(random), fixed=_fixed(random))


def _tied(random: np.random.Generator) -> nor.Network:
    n_visible, n_hidden, lower, upper = _deep_edges(random)
    n_edges = len(lower) + len(upper)
    noise = random.integers(0, max(1, n_visible // 2), n_visible)
    prior = 1000 + random.integers(0, max(1, n_hidden // 2), n_hidden)
    return nor.from_edges(
        n_visible,
        n_hidden,
        lower,
        upper,
        param=random.integers(0, max(1, n_edges // 2), n_edges),
        leak_param=np.concatenate([noise, prior]),
        fixed=_fixed(random),
    )


def _tree(random: np.random.Generator) -> nor.Network:
    """Draw a graph without undirected cycles."""
    n_hidden = int(random.integers(1, 8))
    n_visible = int(random.integers(n_hidden, n_hidden + 6))
    lower = [(k, k) for k in range(n_hidden)]  # so that every hidden node has a visible child
    upper = []
    part = np.arange(n_hidden)  # hidden nodes with the same number are connected
    for k in range(1, n_hidden):
        other = int(random.integers(k))
        if random.random() < 0.7 and part[k] != part[other]:
            upper.append((k, other) if random.random() < 0.5 else (other, k))
            part[part == part[k]] = part[other]
    for i in range(n_hidden, n_visible):  # one parent at most from each connected part
        chosen = [
            int(random.choice(np.flatnonzero(part == one)))
            for one in np.unique(part)
            if random.random() < 0.6
        ]
        lower += [(k, i) for k in chosen]
        part[np.isin(part, part[chosen])] = part[chosen[0]] if chosen else 0
    return nor.from_edges(n_visible, n_hidden, lower, upper, fixed=_fixed(random))


def _layered(random: np.random.Generator) -> nor.Network:
    n_layers = int(random.integers(2, 4))
    n_visible = int(random.integers(6 if n_layers == 2 else 9, 19))
    data = (random.random((20, n_visible)) < 0.4).astype(int)
    return nor.layered(data, n_layers=n_layers, n_parents=int(random.integers(1, 4)))


def _theta(random: np.random.Generator, size: int) -> Dense:
    """Draw parameters between 0 and 9e5: spread out, moderate, extreme, large, huge or equal."""
    how = random.choice(["wide", "moderate", "extreme", "equal", "large", "zeros", "huge"])
    if how == "zeros":
        return np.where(random.random(size) < 0.3, 0.0, random.exponential(1.0, size))
    if how == "huge":
        return random.choice([1e-5, 1.0, 300.0, 800.0, 1e4, 9e5], size)
    if how == "wide":
        return np.exp(random.uniform(np.log(1e-5), np.log(50), size))
    if how == "moderate":
        return np.clip(random.exponential(1.0, size), 1e-5, 50)
    if how == "extreme":
        return random.choice([1e-5, 1e-3, 0.5, 18.5, 50.0], size)
    if how == "large":
        return random.uniform(10, 50, size)
    return np.full(size, np.exp(random.uniform(np.log(1e-5), np.log(50))))


def _rows(random: np.random.Generator, network: nor.Network) -> Dense:
    n_rows = int(random.integers(1, 6))
    rows = (random.random((n_rows, network.n_visible)) < random.random()).astype(np.float64)
    drawn = nor.sample(network, n_rows, seed=int(random.integers(2**31))).visible.toarray()
    rows = np.where(random.random((n_rows, 1)) < 0.5, rows, drawn.astype(np.float64))
    if random.random() < 0.5:
        rows[random.random(rows.shape) < random.random()] = np.nan
    if n_rows > 2 and random.random() < 0.3:
        rows[0], rows[1] = random.choice([0.0, 1.0, np.nan]), rows[2]  # a plain row, a repeated one
    return rows


# ---- enumeration in long double


class Enumeration:
    """All hidden states of a network, and log p of every row with each of them.

    ``states`` (n_states, n_hidden); ``total``, ``log_on``, ``log_off`` (n_nodes, n_states): total
    parameter of a node and log-probabilities that it is on and off; ``table`` (n_rows, n_states).
    """

    def __init__(self, network: nor.Network, rows: Dense) -> None:
        self.network, self.rows = network, rows
        n_hidden = network.n_hidden
        numbers = np.arange(2**n_hidden)
        self.states = np.stack([(numbers >> k) & 1 for k in range(n_hidden)], 1).astype(np.uint8)
        theta = network.theta.astype(np.longdouble)
        self.total = np.empty((network.n_nodes, len(self.states)), dtype=np.longdouble)
        for node in range(network.n_nodes):
            self.total[node] = theta[network.leak_param[node]]
            for edge in _edges(network, node):
                self.total[node] += (
                    theta[network.param[edge]] * self.states[:, network.parent[edge]]
                )
        self.log_off, self.log_on = -self.total, _log_one_minus_exp(self.total)
        self.table = self._combined(self.log_on, self.log_off)
        self.log_p = _log_sum(self.table)
        self.mass = np.exp(self.table - self.log_p[:, None])
        self.marginals = self.mass @ self.states

    def _combined(self, on: LongDouble, off: LongDouble) -> LongDouble:
        """Add the terms of all nodes, (n_nodes, n_states) each, for every row."""
        network = self.network
        hidden = np.zeros(len(self.states), dtype=np.longdouble)
        for k in range(network.n_hidden):
            node = network.n_visible + k
            hidden += np.where(self.states[:, k] == 1, on[node], off[node])
        table = np.tile(hidden, (len(self.rows), 1))
        for row, values in enumerate(self.rows):
            for i, value in enumerate(values):
                if not np.isnan(value):
                    table[row] += on[i] if value == 1 else off[i]
        return table

    def index(self, states: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the position of states (n, n_hidden) in the enumeration."""
        return np.asarray(states).astype(np.int64) @ (1 << np.arange(self.network.n_hidden))

    def augmented(self) -> LongDouble:
        """Compute the objective of max-product for every row and state.

        Each active parent and the leak of a node have a variable: whether it switched the node on.
        A node that is on has the best values of these variables among those with at least one on.
        """
        network, theta = self.network, self.network.theta.astype(np.longdouble)
        on = np.empty_like(self.total)
        for node in range(network.n_nodes):
            parts = [(theta[network.leak_param[node]], np.ones(len(self.states), dtype=bool))]
            for edge in _edges(network, node):
                parts.append(
                    (theta[network.param[edge]], self.states[:, network.parent[edge]] == 1)
                )
            value = np.zeros(len(self.states), dtype=np.longdouble)
            least = np.full(len(self.states), np.inf, dtype=np.longdouble)
            for strength, active in parts:
                acts, fails = _log_one_minus_exp(np.array([strength]))[0], -strength
                value += np.where(active, max(acts, fails), 0)
                least = np.minimum(least, np.where(active, max(fails - acts, 0), np.inf))
            on[node] = value - least
        return self._combined(on, self.log_off)

    def predictions(self) -> Dense:
        """Compute the probability of each visible given all other observed ones of its row."""
        result = np.empty(self.rows.shape)
        for row, values in enumerate(self.rows):
            for i, value in enumerate(values):
                without = self.table[row]
                if not np.isnan(value):
                    without = without - (self.log_on[i] if value == 1 else self.log_off[i])
                with_it = _log_sum((without + self.log_on[i])[None])
                result[row, i] = np.exp(with_it - _log_sum(without[None]))[0]
        return result

    def gradient(self, states: States, weights: Dense) -> Dense:
        """Differentiate the weighted sum of log p(h, x) of one state per row, (n_params,)."""
        network, result = self.network, np.zeros(self.network.n_params, dtype=np.longdouble)
        for row, index in enumerate(self.index(states)):
            for node in range(network.n_nodes):
                hidden = node - network.n_visible
                value = self.rows[row, node] if hidden < 0 else self.states[index, hidden]
                if np.isnan(value):
                    continue
                slope = 1 / np.expm1(self.total[node, index]) if value else np.longdouble(-1)
                result[network.leak_param[node]] += weights[row] * slope
                for edge in _edges(network, node):
                    if self.states[index, network.parent[edge]]:
                        result[network.param[edge]] += weights[row] * slope
        return result.astype(np.float64)


def _edges(network: nor.Network, node: int) -> range:
    return range(int(network.child_ptr[node]), int(network.child_ptr[node + 1]))


def _log_one_minus_exp(value: LongDouble) -> LongDouble:
    """Compute ``log(1 - exp(-value))`` without losing digits at either end."""
    small = value < 0.7
    found: LongDouble = np.where(
        small,
        np.log(-np.expm1(-np.where(small, value, 1))),
        np.log1p(-np.exp(-np.where(small, 1, value))),
    )
    return found


def _log_sum(table: LongDouble) -> LongDouble:
    top = table.max(axis=1)
    found: LongDouble = top + np.log(np.exp(table - top[:, None]).sum(axis=1))
    return found


# ---- comparisons


class MismatchError(Exception):
    """A result of the library differs from the enumeration."""


@dataclass
class Checks:
    """Compare values, count the comparisons, and raise `MismatchError` at the first difference."""

    where: str = ""
    rounding: float = EXACT
    count: int = 0
    largest: dict[str, float] = field(default_factory=dict)

    def near(
        self, what: str, found: Any, expected: Any, atol: Any = None, rtol: float = EXACT
    ) -> None:
        """Require ``|found - expected| <= atol + rtol |expected|`` everywhere."""
        atol = self.rounding if atol is None else atol
        one, other = np.asarray(found, np.float64), np.asarray(expected, np.float64)
        if one.shape != other.shape:
            raise MismatchError(f"{self.where}, {what}: shape {one.shape}, expected {other.shape}")
        excess = np.abs(one - other) / (atol + rtol * np.abs(other))
        self._judge(what, *np.atleast_1d(one, other, excess))

    def at_most(self, what: str, found: Any, limit: Any) -> None:
        """Require ``found <= limit`` up to rounding."""
        one, other = np.asarray(found, np.float64), np.asarray(limit, np.float64)
        excess = (one - other) / (self.rounding + EXACT * np.abs(other))
        self._judge(what, *np.atleast_1d(one, other, excess))

    def same(self, what: str, found: Any, expected: Any) -> None:
        """Require the same bits."""
        one, other = np.ascontiguousarray(found), np.ascontiguousarray(expected)
        self.count += one.size
        if one.dtype != other.dtype or one.shape != other.shape or one.tobytes() != other.tobytes():
            raise MismatchError(f"{self.where}, {what}: other bits, {one} instead of {other}")

    def _judge(self, what: str, one: Any, other: Any, excess: Any) -> None:
        self.count += one.size
        bad = ~(excess <= 1)  # NaN is bad too
        if bad.any():
            at = tuple(int(axis[0]) for axis in np.nonzero(bad))
            raise MismatchError(
                f"{self.where}, {what}: {one[at]!r} instead of {other[at]!r} at {list(at)}, "
                f"{excess[at]:.3g} times the tolerance"
            )
        if excess.size:
            largest = float(excess.max())
            self.largest[what] = max(self.largest.get(what, 0.0), largest)


def compare(problem: Problem, engines: dict[str, Any], seed: int, checks: Checks) -> None:
    """Run all checks of one network with every engine."""
    network = problem.network
    total = network.theta[network.param].sum() + network.theta[network.leak_param].sum()
    checks.rounding = EXACT + 1e-14 * total
    truth = Enumeration(network, problem.rows)
    random = np.random.default_rng(seed)
    n_rows, n_hidden = len(problem.rows), problem.network.n_hidden
    states = random.integers(0, 2, (n_rows, n_hidden)).astype(np.uint8)
    for name, engine in engines.items():
        checks.where = f"{problem.kind}, {name}"
        check_log_joint(problem, truth, engine, states, checks)
        check_modes(problem, truth, engine, checks)
        if problem.is_tree:
            check_tree(problem, truth, engine, random, checks)
        if name == "warp":  # everything else falls back to numba
            continue
        check_mean_field(problem, truth, engine, random, checks)
        check_probabilities(problem, truth, engine, random, checks)
    checks.where = problem.kind
    check_explanations(problem, truth, random, checks)
    check_bits(problem, engines, random, checks)
    check_agreement(problem, engines, states, checks)


def check_log_joint(
    problem: Problem, truth: Enumeration, engine: Any, states: States, checks: Checks
) -> None:
    """Check log p(h, x) at random states, and its gradient."""
    network, rows = problem.network, problem.observations
    expected = truth.table[np.arange(len(states)), truth.index(states)]
    found = nor.inference.log_joint(network, states, rows, engine=engine)
    checks.near("log_joint", found, expected)
    weights = np.ones(len(states)) if problem.weights is None else problem.weights
    chosen, evidence = get_engine(engine, "log_joint_gradient"), Evidence.of(network, rows)
    total = chosen.log_joint_gradient(chosen.prepare(network), evidence, states)
    checks.near("mean log_joint", total.value / total.weight, weights @ expected / weights.sum())
    slope = truth.gradient(states, weights / weights.sum())
    checks.near("gradient of log_joint", total.gradient / total.weight, slope)
    chance = -np.expm1(-truth.total[: network.n_visible, truth.index(states)]).T
    checks.near("visible_probability", nor.model.visible_probability(network, states), chance)


def check_modes(problem: Problem, truth: Enumeration, engine: Any, checks: Checks) -> None:
    """Check the values that max-product reports for its explanations, in every variant."""
    network, rows = problem.network, problem.observations
    best = truth.table.max(axis=1)
    variants = {
        "mode": nor.MaxProduct(),
        "mode after ICM": nor.MaxProduct(icm=1000),
        "two-stage mode": nor.MaxProduct(schedule="two-stage"),
        "mode of ancestors": nor.MaxProduct(ancestors_only=True, icm=3),
        "samples": nor.MaxProduct(temperature=1.0, n_samples=3),
    }
    found = {}
    for what, method in variants.items():
        found[what] = nor.explain(network, rows, method, seed=5, engine=engine)
        reached = found[what].log_joint.reshape(len(problem.rows), -1)
        index = truth.index(found[what].states.toarray()).reshape(reached.shape)
        checks.near(what, reached, np.take_along_axis(truth.table, index, axis=1))
        checks.at_most(what, reached, np.broadcast_to(best[:, None], reached.shape))
    mode, refined = found["mode"].log_joint, found["mode after ICM"].log_joint
    checks.at_most("ICM never lowers log p", mode, refined)
    for k in range(network.n_hidden):
        flipped = truth.index(found["mode after ICM"].states.toarray()) ^ (1 << k)
        checks.at_most("single flips", truth.table[np.arange(len(flipped)), flipped], refined)


def check_tree(
    problem: Problem,
    truth: Enumeration,
    engine: Any,
    random: np.random.Generator,
    checks: Checks,
) -> None:
    """Check that max-product is exact on a tree, with missing values and evidence on causes."""
    network, rows = problem.network, problem.observations
    n_rows, n_hidden = len(problem.rows), network.n_hidden
    margin = BELIEF * (1 + network.theta.max())
    evidence = random.integers(0, 2, (n_rows, n_hidden)).astype(np.float64)
    evidence[random.random(evidence.shape) < 0.7] = np.nan
    for hidden in (None, evidence):
        table = truth.augmented()
        if hidden is not None:
            against = (hidden[:, None, :] != truth.states) & ~np.isnan(hidden)[:, None, :]
            table = np.where(against.any(axis=2), -np.inf, table)
        method = nor.MaxProduct(max_iterations=2000, tolerance=1e-5, keep_beliefs=True)
        found = nor.explain(network, rows, method, hidden=hidden, engine=engine)
        free = np.ones((n_rows, n_hidden), bool) if hidden is None else np.isnan(hidden)
        lead = np.zeros((n_rows, n_hidden))
        for k in range(n_hidden):
            on = truth.states[:, k] == 1
            with np.errstate(invalid="ignore"):
                lead[:, k] = table[:, on].max(axis=1) - table[:, ~on].max(axis=1)
        assert found.beliefs is not None
        what = f"max-marginals of a tree, evidence={hidden is not None}"
        checks.near(what, found.beliefs[free], lead[free], atol=margin, rtol=1e-4)
        # A node whose two values are about equally good may be decoded either way, and with it
        # its neighbors; all other rows have one best state, and it must be found.
        clear = np.where(free, np.abs(lead) > 2 * margin, True).all(axis=1)
        chosen = truth.index(found.states.toarray())
        if not (chosen[clear] == table.argmax(axis=1)[clear]).all():
            raise MismatchError(f"{checks.where}, {what}: not the best state")
        checks.count += int(clear.sum())


def check_mean_field(
    problem: Problem,
    truth: Enumeration,
    engine: Any,
    random: np.random.Generator,
    checks: Checks,
) -> None:
    """Check that mean-field bounds are bounds, and their gradient by finite differences."""
    network, rows = problem.network, problem.observations
    for what, method in {
        "mean field": nor.MeanField(),
        "local mean field": nor.MeanField(local=True),
        "mean field to a tolerance": nor.MeanField(tolerance=1e-6, outer=30),
    }.items():
        found = nor.explain(network, rows, method, engine=engine)
        assert found.q is not None
        assert found.elbo_vi is not None
        checks.at_most(f"{what}, bound", found.elbo_vi, truth.log_p)
        checks.near(f"{what}, q", np.clip(found.q, 0, 1), found.q, atol=1e-15, rtol=0.0)
        expected = truth.table[np.arange(found.n_rows), truth.index(found.states.toarray())]
        checks.near(f"{what}, mode", found.log_joint, expected)
    short = nor.explain(network, rows, nor.MeanField(outer=1, inner=1), engine=engine).elbo_vi
    long = nor.explain(network, rows, nor.MeanField(outer=5, inner=1), engine=engine).elbo_vi
    checks.at_most("more rounds never lower the bound", short, long)

    if engine.name != "numpy":  # `check_agreement` compares the others with it
        return
    # With (q, r) held fixed the bound is smooth in theta.
    evidence = Evidence.of(network, rows)
    options = MeanFieldOptions(bool(random.random() < 0.5), 3, 5, 5, -1.0, -1.0)

    def at(theta: Dense, held: list[Any] | None = None) -> list[Any]:
        prepared = engine.prepare(network.with_theta(theta))
        found = [RowAscent(prepared, row, options.local) for row in rows_of(prepared, evidence)]
        for index, row in enumerate(found):
            if held is None:
                row.ascend(options)
            else:
                row.q, row.r = held[index].q, held[index].r
        return found

    def value(found: list[Any]) -> float:
        return float(sum(row.row.weight * row.bound() for row in found))

    here = at(network.theta)
    gradient = sum(row.row.weight * row.gradient() for row in here)
    weight = evidence.total_weight
    for entry in random.permutation(np.flatnonzero(network.theta))[:4]:
        width = 1e-4 * network.theta[entry]
        above, below = np.array(network.theta), np.array(network.theta)
        above[entry] += width
        below[entry] -= width
        slope = (value(at(above, here)) - value(at(below, here))) / (2 * width)
        uses = np.sum(network.param == entry) + np.sum(network.leak_param == entry)
        # Third derivatives of log(1 - exp(-u)) are at most 2 / u ** 3: relative to the slope 1 / u
        # the truncation is (width / u) ** 2, and u >= theta.
        rounding = 1e-14 * (weight * network.theta.sum() + abs(value(here))) / width
        atol = rounding + 1e-6 * weight * uses * (1 + 1 / network.theta[entry])
        checks.near("gradient of mean field", gradient[entry], slope, atol=atol, rtol=1e-6)


def check_probabilities(
    problem: Problem,
    truth: Enumeration,
    engine: Any,
    random: np.random.Generator,
    checks: Checks,
) -> None:
    """Check log p of rows, marginals of causes and predictions of visibles."""
    network, rows = problem.network, problem.observations
    found = nor.inference.log_probability(network, rows, engine=engine)
    if not found.exact:
        raise MismatchError(f"{checks.where}, log_probability: not exact")
    checks.near("log_probability", found.per_row, truth.log_p)
    weights = np.ones(len(problem.rows)) if problem.weights is None else problem.weights
    checks.near("mean log_probability", found.mean, weights @ truth.log_p / weights.sum())

    # Chains of the NumPy engine are slow.
    if not has_tiny_leaks(network) and (engine.name != "numpy" or random.random() < 1 / 6):
        check_evidence(problem, truth, engine, random, checks)
    for observed in ("left-out", "kept"):
        guess = nor.inference.predict_visible(
            network, rows, "exact", observed=observed, engine=engine
        )
        expected = truth.predictions()
        if observed == "kept":
            expected = np.where(np.isnan(problem.rows), expected, problem.rows)
        checks.near(f"predict_visible, {observed}", guess.probability, expected)
        checks.near("predict_visible, causes", guess.hidden, truth.marginals)


def has_tiny_leaks(network: nor.Network) -> bool:
    """Tell whether a leak is below those that training allows.

    Compiled chains change totals by differences, which lose the digits of such a leak.
    """
    return bool(network.theta[network.leak_param].min() < THETA_MIN)


def check_evidence(
    problem: Problem,
    truth: Enumeration,
    engine: Any,
    random: np.random.Generator,
    checks: Checks,
) -> None:
    """Check bounds and estimates of log p from a set of configurations and chains."""
    network, rows, n_hidden = problem.network, problem.observations, problem.network.n_hidden
    few = nor.evidence_bound(network, rows, n_samples=2, n_expansions=2, engine=engine)
    checks.at_most("evidence_bound", few.per_row, truth.log_p)
    if n_hidden <= (4 if engine.name == "numpy" else 6):  # the set can hold everything: exact
        size = 2**n_hidden
        bound = nor.evidence_bound(network, rows, n_samples=2, n_expansions=size, engine=engine)
        checks.near("complete evidence_bound", bound.per_row, truth.log_p)
        estimate = nor.estimate_evidence(
            network, rows, n_chains=2, n_steps=2, n_expansions=size, engine=engine
        )
        checks.near("complete estimate_evidence", estimate.per_row, truth.log_p)
        of_set = nor.marginals(network, rows, "set", n_samples=max(2, size), engine=engine)
        checks.near("complete marginals", of_set.probability, truth.marginals)
        exact = nor.marginals(network, rows, "exact", engine=engine)
        checks.near("exact marginals", exact.probability, truth.marginals)
        known = random.integers(0, 2, (len(problem.rows), n_hidden)).astype(np.float64)
        known[random.random(known.shape) < 0.6] = np.nan
        against = (known[:, None, :] != truth.states) & ~np.isnan(known)[:, None, :]
        table = np.where(against.any(axis=2), -np.inf, truth.table)
        given = nor.evidence_bound(network, rows, n_expansions=size, hidden=known, engine=engine)
        checks.near("evidence_bound given causes", given.per_row, _log_sum(table))


def check_explanations(
    problem: Problem, truth: Enumeration, random: np.random.Generator, checks: Checks
) -> None:
    """Check explanations of one row: causes, counterfactuals, questions, shares."""
    network, rows = problem.network, problem.observations
    posterior = nor.inference.enumerate_posterior(network, rows)
    checks.near("enumerate_posterior", posterior.log_likelihood, truth.log_p)
    checks.near("enumerate_posterior, causes", posterior.marginals, truth.marginals)
    checks.near("enumerate_posterior, best", posterior.map_log_joint, truth.table.max(axis=1))

    row = int(random.integers(len(problem.rows)))
    one = rows.take(np.array([row]))
    above: list[int] = []  # causes above something observed: their probabilities are exact
    n_parents = np.diff(network.child_ptr[: network.n_visible + 1])
    if (n_parents[~np.isnan(problem.rows[row])] > 0).any():
        ranking = nor.explanation.rank_causes(network, one, method="exact", top=network.n_hidden)
        above = [cause.index for cause in ranking.causes]
        checks.near("rank_causes", ranking.probability[above], truth.marginals[row, above])
    finding = int(random.integers(network.n_visible))
    for other in nor.explanation.what_if(network, one, finding, method="exact"):
        changed = problem.rows[[row]].copy()
        changed[0, finding] = {"present": 1.0, "absent": 0.0}.get(other.after, np.nan)
        after = Enumeration(network, changed).marginals[0]
        for shift in other.shifts:
            if shift.index in above and other.after != "unknown":
                checks.near("what_if", shift.after, after[shift.index])
    asked = nor.explanation.next_question(network, one, method="exact", top=network.n_visible)
    # Causes above nothing observed are taken as independent; 200 configurations are kept.
    if len(above) == network.n_hidden <= 7:
        expected = truth.predictions()[row]
        expected = np.where(np.isnan(problem.rows[row]), expected, problem.rows[row])
        checks.near("next_question", asked.visible, expected, atol=1e-6)
        for question in asked.questions:
            gain = _information(truth, row, question.index)
            checks.near("information of a question", question.gain, gain, atol=1e-6)

    states = random.integers(0, 2, (len(problem.rows), network.n_hidden)).astype(np.uint8)
    found = attribute_findings(network, rows, states)
    total = truth.total[found.visible, truth.index(states)[found.row]]
    leak = network.theta[network.leak_param[found.visible]] / total
    checks.near("attribute_findings, leak", found.leak, leak)
    checks.near("attribute_findings, shares", found.own.sum(axis=1), 1 - leak)


def _information(truth: Enumeration, row: int, finding: int) -> float:
    """Compute the mutual information of a finding and the causes of a row, in bits."""
    on = np.exp(truth.log_on[finding])
    chance = truth.mass[row] @ on

    def entropy(p: Any) -> Any:
        p = np.clip(p, 1e-300, 1)
        return -(p * np.log2(p))

    return float(
        entropy(chance)
        + entropy(1 - chance)
        - truth.mass[row] @ (entropy(on) + entropy(np.exp(truth.log_off[finding])))
    )


def check_bits(
    problem: Problem, engines: dict[str, Any], random: np.random.Generator, checks: Checks
) -> None:
    """Check that files, threads, the order of rows and weights change no bit."""
    network, rows = problem.network, problem.observations
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.safetensors"
        nor.save_network(path, network)
        loaded = nor.load_network(path)
    for name in ("child_ptr", "parent", "param", "leak_param", "theta", "free"):
        checks.same(f"{name} of a loaded network", getattr(loaded, name), getattr(network, name))
    order = random.permutation(rows.n_rows)
    skips_chains = bool(random.random() > 1 / 6)
    one_of_each: dict[str, Any] = {
        "numba": nor.engines.NumbaEngine(n_threads=1),
        "numpy": engines.get("numpy"),
    }
    for name, engine in one_of_each.items():
        if name not in engines:
            continue
        for what, call in _questions():
            if name == "numpy" and what == "chains" and (network.n_hidden > 4 or skips_chains):
                continue
            reference = call(network, rows, engines[name])
            variants = {
                "threads": (network, rows),
                "a loaded network": (loaded, rows),
                "rows without weights": (network, rows.with_weights(None)),
            }
            for variant, arguments in variants.items() if name == "numba" else ():
                for index, part in enumerate(call(*arguments, engine)):
                    checks.same(f"{name}, {what}, {variant}", part, reference[index])
            moved = call(network, rows.take(order), engine)
            for index, part in enumerate(moved):
                checks.same(f"{name}, {what}, order of rows", part, reference[index][order])
        gradients = [
            nor.MeanField(outer=2).gradient(network, rows, seed=0, step=0, engine=some)
            for some in (engine, engines[name])
        ]
        checks.same(f"{name}, sums by threads", gradients[0].gradient, gradients[1].gradient)


def _questions() -> Iterator[tuple[str, Any]]:
    """Yield questions with one answer per row; randomness is keyed by the ids of rows."""
    sampler = nor.MaxProduct(temperature=1.0, n_samples=2)

    def mode(network: Any, rows: Any, engine: Any) -> list[Any]:
        found = nor.explain(network, rows, engine=engine)
        return [found.states.toarray(), found.log_joint, found.residual]

    def samples(network: Any, rows: Any, engine: Any) -> list[Any]:
        found = nor.explain(network, rows, sampler, seed=3, engine=engine)
        n_rows = found.n_rows
        return [found.states.toarray().reshape(n_rows, -1), found.log_joint.reshape(n_rows, -1)]

    def mean_field(network: Any, rows: Any, engine: Any) -> list[Any]:
        found = nor.explain(network, rows, nor.MeanField(outer=2), engine=engine)
        return [found.q, found.elbo_vi]

    def chains(network: Any, rows: Any, engine: Any) -> list[Any]:
        found = nor.marginals(network, rows, "chains", n_samples=2, seed=4, engine=engine)
        return [found.probability, found.error]

    yield from (("mode", mode), ("samples", samples), ("mean field", mean_field))
    yield "chains", chains


def check_agreement(
    problem: Problem, engines: dict[str, Any], states: States, checks: Checks
) -> None:
    """Check that compiled engines agree with NumPy where enumeration gives no answer."""
    if not {"numpy", "numba"} <= set(engines):
        return
    network, evidence = problem.network, Evidence.of(problem.network, problem.observations)
    weight = evidence.total_weight
    options = MeanFieldOptions(False, 3, 4, 4, -1.0, -1.0)
    prepared = {name: engines[name].prepare(network) for name in ("numpy", "numba")}
    means = [
        engines[name].mean_field_gradient(own, evidence, options) for name, own in prepared.items()
    ]
    checks.near(
        "mean-field bound by engine", means[1].value, means[0].value, atol=checks.rounding * weight
    )
    if has_tiny_leaks(network):
        return
    plain, compiled = (
        engines[name].gibbs_sweep(own, evidence, states, NoiseKey(1, 2))
        for name, own in prepared.items()
    )
    # What is left of a total when causes are switched off has the rounding error of the total.
    theta = network.theta
    total = theta[network.param].sum() + theta[network.leak_param].sum()
    atol = weight * (checks.rounding + 1e-15 * total / theta[network.leak_param].min())
    checks.near("states of a Gibbs sweep", compiled.states, plain.states)
    checks.near("expected successes", compiled.successes, plain.successes, atol=atol)
    checks.near("expected trials", compiled.trials, plain.trials, atol=atol)


# ---- the program


def installed(names: list[str]) -> dict[str, Any]:
    """Return the engines of these names that can run here, on two threads."""
    found = {}
    for name in names:
        try:
            found[name] = nor.engines.get_engine(name, n_threads=2)
        except MissingExtraError as error:
            print(f"without {name}: {error}")
    return found


def main() -> int:
    """Run the comparison; return 1 if a network failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--networks", type=int, default=None, help="number of networks (default 100)"
    )
    parser.add_argument(
        "--seed", type=int, default=None, help="seed (default: a new one, which is printed)"
    )
    parser.add_argument("--first", type=int, default=0, help="index of the first network")
    parser.add_argument("--seconds", type=float, default=None, help="stop after this many seconds")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    options = parser.parse_args()
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    seed = fresh if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    engines = installed(options.engines)
    most = options.networks
    if most is None:
        most = 100 if options.seconds is None else sys.maxsize
    ends = None if options.seconds is None else time.monotonic() + options.seconds
    checks, done, failures = Checks(), 0, 0
    for index in range(options.first, options.first + most):
        if ends is not None and time.monotonic() > ends:
            break
        random = np.random.default_rng([seed, index])
        if done and done % 500 == 0:
            print(f"{done} networks", flush=True)
        try:
            checks.where = "drawing the problem"
            problem = draw_problem(random)
            with np.errstate(all="ignore"):  # of the enumeration: infinities of terms that are 0
                compare(problem, engines, index, checks)
        except KeyboardInterrupt:
            break
        except Exception as error:  # a crash is a failure like any other
            failures += 1
            known = isinstance(error, MismatchError)
            print(f"FAILED: {'' if known else checks.where + ', '}{error!r}")
            print(
                f"  again: python benchmarks/against_enumeration.py --seed {seed} --first {index} "
                f"--networks 1 --engines {' '.join(engines)}",
                flush=True,
            )
        done += 1
    print(f"{done} networks, {checks.count:,} comparisons, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
