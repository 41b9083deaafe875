"""What is believed of the causes of one row: probabilities, and likely configurations with weights.

By enumeration, by chains, by samples of max-product, or by Gibbs sweeps.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor._util.validation import check_choice, check_count, check_seed
from noisyor.data.observations import Observations
from noisyor.engines.contract import EngineLike, Evidence, NoiseKey
from noisyor.engines.registry import Runner
from noisyor.errors import InvalidSettingError
from noisyor.inference.exact import (
    MAX_HIDDEN,
    check_possible,
    hidden_configurations,
    log_joint_table,
)
from noisyor.inference.sampling import find_starts, marginals
from noisyor.model.subnetwork import Subnetwork

__all__ = ["Belief", "RankingMethod", "believe", "enumerable"]

RankingMethod = Literal["auto", "exact", "chains", "samples", "sweeps"]
_METHODS: tuple[RankingMethod, ...] = ("auto", "exact", "chains", "samples", "sweeps")

_WORDS = {
    "chains": "sampling chains, with standard errors",
    "samples": "perturb-and-max-product samples",
}
_MAX_ENUMERATED = 14
_MAX_CELLS = 4_000_000
_WEIGHTED_STATES = 200
_START_SAMPLES = 16  # explanations from which chains start, and by which findings are attributed
_FORGOTTEN = 4  # first sweeps, in which chains forget where they started
_KEPT, _APART = 4, 2  # sweeps that count, every other: neighbours are much alike


class Belief(NamedTuple):
    """What is known of the hidden nodes of a part of a network.

    ``probability`` and ``error`` (n_hidden,), NaN where there is none; ``best`` (n_hidden,) is the
    most likely configuration, ``log_joint`` its log p(h, x); ``states`` (n, n_hidden) are likely
    ones, with ``weights`` (n,) that add up to one.
    """

    probability: FloatArray
    error: FloatArray
    best: BinaryArray
    log_joint: float
    states: BinaryArray
    weights: FloatArray
    words: str
    exact: bool


def believe(
    part: Subnetwork, method: RankingMethod, n_samples: int, seed: int, engine: EngineLike
) -> Belief:
    """What the row of a part says of its hidden nodes; see `differential` for the methods."""
    check_choice("method", method, _METHODS)
    if enumerable(part) if method == "auto" else method == "exact":
        return _enumerated(part)
    if method == "sweeps":
        return _swept(part, n_samples, seed, engine)
    return _sampled(part, method, n_samples, seed, engine)


def enumerable(part: Subnetwork, max_cells: int = _MAX_CELLS) -> bool:
    """Whether it is cheap to enumerate: few causes, and a table of at most so many cells."""
    n_states = 1 << part.network.n_hidden
    return n_states <= 2**_MAX_ENUMERATED and part.network.n_nodes * n_states <= max_cells


def _enumerated(part: Subnetwork) -> Belief:
    """Exact probabilities, and the most likely configurations."""
    n_hidden, n_states = len(part.hidden), 1 << part.network.n_hidden
    if n_states > 2**MAX_HIDDEN:
        raise InvalidSettingError(
            f"{n_hidden} causes bear on what was observed, at most {MAX_HIDDEN} can be enumerated; "
            "take another method"
        )
    states = hidden_configurations(part.network.n_hidden)
    values = part.row.to_dense().astype(np.float64)
    log_p = log_joint_table(part.network, states, values)[0]
    check_possible(log_p.max(keepdims=True))
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    likely = np.argsort(-weight, kind="stable")[:_WEIGHTED_STATES]
    return Belief(
        probability=weight @ states,
        error=np.zeros(n_hidden),
        best=states[likely[0]].astype(np.uint8),
        log_joint=float(log_p[likely[0]]),
        states=states[likely].astype(np.uint8),
        weights=weight[likely] / weight[likely].sum(),
        words=f"exact: all {n_states:,} combinations of {n_hidden} cause{'s' * (n_hidden > 1)}",
        exact=True,
    )


def _sampled(
    part: Subnetwork, method: RankingMethod, n_samples: int, seed: int, engine: EngineLike
) -> Belief:
    """Estimated probabilities, and perturb-and-max-product samples of equal weight.

    Max-product runs twice, for the mode and for the samples. Chains start from both.
    """
    by_samples = method == "samples"
    n_drawn = n_samples if by_samples else _START_SAMPLES
    starts = find_starts(part.network, part.row, n_drawn, seed=seed, engine=engine)
    found = marginals(
        part.network,
        part.row,
        "samples" if by_samples else "chains",
        n_samples=n_samples,
        starts=starts,
        seed=seed,
        engine=engine,
    )
    states = starts.states()
    return Belief(
        probability=found.probability[0],
        error=found.error[0],
        best=states[0],
        log_joint=float(starts.mode.log_joint[0]),
        states=states[1:],
        weights=np.full(n_drawn, 1.0 / n_drawn),
        words=f"estimated: {n_samples} {_WORDS[found.method]}",
        exact=False,
    )


def _swept(part: Subnetwork, n_chains: int, seed: int, engine: EngineLike) -> Belief:
    """Gibbs sweeps of chains that start from perturb-and-max-product samples.

    Errors come from the spread of the chains, which are independent; what all of them missed they
    do not tell.
    """
    check_count("n_samples", n_chains, 2)
    network, key = part.network, check_seed(seed)
    n_starts = min(n_chains, _START_SAMPLES)
    starts = find_starts(network, part.row, n_starts, seed=seed, engine=engine)
    first = starts.states()
    states = np.ascontiguousarray(first[1 + np.arange(n_chains) % n_starts])
    rows = Observations.of(part.row.take([0] * n_chains), row_ids=np.arange(n_chains))
    evidence = Evidence.of(network, rows)
    sweeper, prepared = Runner(engine, network).on("gibbs_sweep")
    kept = []
    for number in range(_FORGOTTEN + _APART * _KEPT):
        states = sweeper.gibbs_sweep(prepared, evidence, states, NoiseKey(key, number)).states
        if number >= _FORGOTTEN and (number - _FORGOTTEN + 1) % _APART == 0:
            kept.append(states)
    drawn = np.stack(kept)
    of_chain = drawn.mean(axis=0)  # (n_chains, n_hidden)
    distinct, count = np.unique(drawn.reshape(-1, drawn.shape[2]), axis=0, return_counts=True)
    return Belief(
        probability=of_chain.mean(axis=0),
        error=of_chain.std(axis=0, ddof=1) / np.sqrt(n_chains),
        best=first[0],
        log_joint=float(starts.mode.log_joint[0]),
        states=distinct,
        weights=count / count.sum(),
        words=f"estimated: {_KEPT} sweeps of {n_chains} chains, with standard errors",
        exact=False,
    )
