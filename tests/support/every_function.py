"""One call of every function of the engine contract on one problem, for tests that hold for all."""

from typing import NamedTuple

import numpy as np
from random_networks import random_network, random_rows

import noisyor as nor
from noisyor._util.arrays import pointers
from noisyor.engines.contract import (
    FUNCTIONS,
    AnnealingOptions,
    Evidence,
    Factors,
    IcmOptions,
    ImproveOptions,
    JointOptions,
    JointUnaries,
    MaxProductOptions,
    MeanFieldOptions,
    NoiseKey,
)
from noisyor.model.network import Network

MAX_PRODUCT = MaxProductOptions(1.0, 40, 0.5, 1e-3, 2, False, False)
MEAN_FIELD = MeanFieldOptions(False, 3, 4, 5, -1.0, -1.0)
KEY = NoiseKey(7, 3)


class Problem(NamedTuple):
    """Rows of a network, and states with two lines for each of them.

    ``weights`` (n_rows,) or (0,); ``clamp`` (n_rows or 0, n_hidden).
    """

    network: Network
    observations: nor.Observations
    clamp: np.ndarray
    weights: np.ndarray
    states: np.ndarray

    @property
    def evidence(self):
        """What an engine gets to see. Weights may be written to, as an engine's compiler cares."""
        evidence = Evidence.of(self.network, self.observations, self.clamp)
        return evidence._replace(weight=self.weights)

    @property
    def arguments(self):
        """The network, its evidence and the states."""
        return self.network, self.evidence, self.states

    def taken(self, rows):
        """Some of the rows."""
        index = np.arange(self.observations.n_rows)[rows]
        lines = (2 * index[:, None] + np.arange(2)).ravel()
        return Problem(
            self.network,
            self.observations.take(index),
            self.clamp[index] if len(self.clamp) else self.clamp,
            self.weights[index] if len(self.weights) else self.weights,
            self.states[lines],
        )


def problem(network, seed, n_rows=6, weights=(), clamped=False):
    """Random rows with gaps, one of them empty, and random states; some nodes clamped if wanted."""
    generator = np.random.default_rng(seed)
    rows = random_rows(network, seed, n_rows, missing=0.15)
    rows[0] = 0.0
    clamp = np.empty((0, network.n_hidden), dtype=np.uint8)
    if clamped:
        shape = (n_rows, network.n_hidden)
        clamp = generator.choice([0, 1, 2], shape, p=[0.1, 0.1, 0.8]).astype(np.uint8)
    states = generator.integers(0, 2, (2 * n_rows, network.n_hidden)).astype(np.uint8)
    observations = nor.Observations.of(rows)
    return Problem(network, observations, clamp, np.array(weights, dtype=float), states)


def networks():
    """Loopy, deep, tied, bipartite, convolutional and layered ones."""
    generator = np.random.default_rng(0)
    yield random_network(3, max_hidden=9, max_visible=10)
    yield random_network(8, max_hidden=12, max_visible=6, density=0.8)
    yield random_network(6, max_hidden=8, max_visible=9, tied=True)
    yield nor.initialize(nor.bipartite(11, 5), noise="uniform", seed=1)
    yield nor.initialize(nor.convolutional((4, 5), 2, (2, 3)), noise="uniform", seed=1)
    data = generator.random((60, 18)) < 0.25
    yield nor.initialize(nor.layered(data, 3), "paper-1", noise="uniform", seed=1)


def cover_problem(seed=0, n_rows=20):
    """Arguments of ``cover_memberships``."""
    generator = np.random.default_rng(seed)
    patterns = generator.random((5, 12)) < 0.3
    states = (generator.random((n_rows, 5)) < 0.4).astype(np.uint8)
    return (
        generator.normal(0.0, 1.0, (n_rows, 12)).astype(np.float32),
        Factors(pointers(patterns.sum(1)), np.nonzero(patterns)[1].astype(np.int32)),
        states,
        (states.astype(np.int32) @ patterns.astype(np.int32)).astype(np.int32),
        generator.exponential(0.5, 5),
    )


def improvement_problem(seed=0, n_rows=20):
    """Arguments of ``improve_cover``."""
    generator = np.random.default_rng(seed)
    ones, observed = (generator.random((n_rows, 12)) < share for share in (0.4, 0.9))
    return (
        ones,
        observed,
        generator.integers(1, 4, n_rows).astype(float),
        (generator.random((n_rows, 3)) < 0.4).astype(np.uint8),
        (generator.random((3, 12)) < 0.4).astype(np.uint8),
        ImproveOptions(5, 5),
        KEY,
    )


def joint_problem(seed=0, given=False):
    """Unaries of ``joint_max_product``."""
    generator = np.random.default_rng(seed)
    shapes = [(5, 5, 6), (5, 2, 3, 3), (2, 3, 4)]
    found = [generator.normal(0.0, 2.0, shape).astype(np.float32) for shape in shapes]
    if given:
        found[2] = np.where(found[2] > 0, np.inf, -np.inf).astype(np.float32)
    return JointUnaries(*found)


def per_row(engine, network, evidence, states, only=FUNCTIONS):
    """Results by row of the engine's functions: name -> arrays, lines of a row together."""
    prepared = engine.prepare(network)
    free = evidence._replace(clamp=evidence.clamp[:0])
    icm, chains = IcmOptions(3, False), AnnealingOptions(3, 2, 3, 2)
    calls = {
        "max_product": lambda do: do(prepared, evidence, MAX_PRODUCT, KEY, with_beliefs=True),
        "icm": lambda do: (do(prepared, evidence, states, icm),),
        "log_joint": lambda do: (do(prepared, evidence, states),),
        "mean_field": lambda do: do(prepared, evidence, MEAN_FIELD, with_q=True),
        "gibbs_sweep": lambda do: (do(prepared, free, states[::2], KEY).states,),
        "anneal": lambda do: do(prepared, evidence, states, chains, KEY, with_probability=True),
    }
    return _of_its_own(engine, calls, only)


def sums(engine, network, evidence, states, only=FUNCTIONS):
    """Results of the engine's functions summed over rows: name -> list of arrays."""
    prepared = engine.prepare(network)
    free = evidence._replace(clamp=evidence.clamp[:0])
    calls = {
        "log_joint_gradient": lambda do: do(prepared, evidence, states),
        "mean_field_gradient": lambda do: do(prepared, evidence, MEAN_FIELD),
        "gibbs_sweep": lambda do: do(prepared, free, states[::2], KEY)[1:],
    }
    found = _of_its_own(engine, calls, only)
    return {name: [np.asarray(part) for part in parts] for name, parts in found.items()}


def others(engine):
    """Results of the engine's functions that know no network."""
    options = JointOptions(12, 0.5, 1e-4)
    calls = {
        "joint_max_product": lambda do: (
            *do(joint_problem(), options),
            *do(joint_problem(given=True), options),
        ),
        "cover_memberships": lambda do: do(*cover_problem()),
        "improve_cover": lambda do: do(*improvement_problem()),
    }
    return _of_its_own(engine, calls)


def _of_its_own(engine, calls, only=FUNCTIONS):
    """Results of the calls of functions that the engine has itself, all or ``only`` some."""
    names = engine.supports & set(only)
    return {name: call(getattr(engine, name)) for name, call in calls.items() if name in names}
