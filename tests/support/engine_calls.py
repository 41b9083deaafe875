"""Short ways to call an engine in tests: evidence from dense rows, and options with defaults."""

from typing import NamedTuple

import numpy as np

from noisyor._util.arrays import dense_of
from noisyor.data.observations import Observations
from noisyor.engines.contract import (
    FREE,
    Evidence,
    GradientSum,
    IcmOptions,
    MaxProductOptions,
    MeanFieldOptions,
    NoiseKey,
)
from noisyor.engines.registry import get_engine

MAX_PRODUCT = MaxProductOptions(
    temperature=0.0,
    max_iterations=100,
    step=0.5,
    tolerance=1e-3,
    n_samples=1,
    ancestors_only=False,
    two_stage=False,
)
"""The settings of `noisyor.MaxProduct` when nothing is said."""

PUBLISHED = MeanFieldOptions(
    local=False,
    outer=10,
    inner=10,
    r_iterations=10,
    tolerance=-1.0,
    r_tolerance=-1.0,
)
"""The published schedule of mean-field inference."""


class Explained(NamedTuple):
    """One line per row and sample."""

    states: np.ndarray
    beliefs: np.ndarray
    iterations: np.ndarray
    residual: np.ndarray
    log_joint: np.ndarray


def evidence_of(network, rows, hidden=None, weights=None):
    """Evidence from rows of 0, 1 and NaN and, if given, hidden nodes of the same."""
    observations = Observations.of(rows).with_weights(weights)
    clamp = None
    if hidden is not None:
        clamp = np.where(np.isnan(hidden), FREE, hidden).astype(np.uint8)
    return Evidence.of(network, observations, clamp)


def explained(engine, network, rows, *, hidden=None, seed=0, train_step=0, icm=0, **options):
    """Max-product, then flips if wanted, and the log-probability of what was found."""
    evidence = evidence_of(network, rows, hidden)
    prepared, options = engine.prepare(network), MAX_PRODUCT._replace(**options)
    found = engine.max_product(
        prepared, evidence, options, NoiseKey(seed, train_step), with_beliefs=True
    )
    states = found.states
    if icm:
        how = IcmOptions(icm, options.ancestors_only)
        states = engine.icm(prepared, evidence, states, how)
    value = engine.log_joint(prepared, evidence, states)
    return Explained(states, found.beliefs, found.iterations, found.residual, value)


def mean_field(engine, network, rows, *, hidden=None, **options):
    """Mean-field inference with q."""
    evidence, options = evidence_of(network, rows, hidden), PUBLISHED._replace(**options)
    return engine.mean_field(engine.prepare(network), evidence, options, with_q=True)


def mean_gradient(network, rows, states, engine="numba"):
    """Weighted mean over rows of log p(h, x), and its gradient; 0 where a parameter is fixed."""
    engine = get_engine(engine) if isinstance(engine, str) else engine
    observations, dense = Observations.of(rows), np.asarray(dense_of(states), dtype=np.uint8)
    evidence = Evidence.of(network, observations)
    total = engine.log_joint_gradient(engine.prepare(network), evidence, dense)
    mean = np.where(network.free, total.gradient / total.weight, 0.0)
    return GradientSum(total.value / total.weight, mean, 1.0)
