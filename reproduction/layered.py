"""One run on a network whose layers are learned from the data: what tiny20 and text share."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from noisyor.data.observations import Observations
from noisyor.learning.initialize import initialize
from noisyor.metrics import independent_score
from noisyor.model.layered import layered
from noisyor.model.network import Network
from reproduction.protocol import MP_PHASE, Context, Outcome, RunSpec
from reproduction.training import elbos, learn, outcome_of, phases_of, split_for

__all__ = ["LayeredProtocol", "run_layered"]


@dataclass(frozen=True)
class LayeredProtocol:
    """Constants of an experiment.

    ``train_share`` of the rows, None where the test rows are given; ``mp_share`` of a hybrid's
    updates are max-product; ``hybrid_local`` whether the others are local; ``keep_network`` stores
    graph and parameters with the run, for small ones.
    """

    n_layers: int
    batch_size: int | None
    learning_rate: float
    ancestors_only: bool
    mp_share: float
    hybrid_local: bool
    keep_network: bool
    train_share: float | None = None

    def settings(self) -> dict[str, Any]:
        """The constants, for the record."""
        return asdict(self)


def run_layered(
    spec: RunSpec,
    context: Context,
    train_rows: Observations,
    test_rows: Observations,
    protocol: LayeredProtocol,
    names: tuple[str, ...] | None = None,
) -> Outcome:
    """Build the graph from the rows trained on, train, and take the bounds of the others."""
    train_rows, score_rows = split_for(spec, train_rows, test_rows)
    start = initialize(layered(train_rows, protocol.n_layers, visible_names=names), spec.init)
    phases = phases_of(
        spec,
        temperature=0.0,
        ancestors_only=protocol.ancestors_only,
        mp_share=protocol.mp_share,
        hybrid_local=protocol.hybrid_local,
    )
    learned = learn(
        start,
        train_rows,
        phases,
        spec=spec,
        context=context,
        batch_size=protocol.batch_size,
        learning_rate=protocol.learning_rate,
    )
    local = spec.method == "local-vi" or protocol.hybrid_local

    def bounds_after(number: int) -> dict[str, float]:
        return elbos(
            learned.results[number].network,
            score_rows,
            context,
            kinds=("mp", "vi"),
            last=phases[number],
            local=local,
        )

    bounds = bounds_after(-1)
    halfway = bounds_after(0) if len(phases) > 1 else {}
    if spec.part == "validation":
        metrics = {"validation_elbo": bounds["elbo"]}
        if halfway:
            metrics[MP_PHASE + "validation_elbo"] = halfway["elbo"]
        return outcome_of(learned, metrics, protocol.settings())
    metrics = {f"test_{name}": value for name, value in bounds.items()}
    metrics |= {f"{MP_PHASE}test_{name}": value for name, value in halfway.items()}
    if halfway:
        metrics[MP_PHASE + "steps"] = float(phases[0].steps)
    metrics["trivial_elbo"] = independent_score(train_rows, score_rows).mean
    metrics["n_edges"] = float(start.n_edges + start.n_nodes)  # with leaks, as the paper counts
    arrays = _stored(learned.network) if protocol.keep_network else None
    return outcome_of(learned, metrics, protocol.settings(), arrays)


def _stored(network: Network) -> dict[str, Any]:
    """Graph and parameters, for the picture of the network."""
    return {
        "child_ptr": network.child_ptr,
        "parent": network.parent,
        "theta": network.theta[network.param],
        "leak": network.theta[network.leak_param],
        "levels": network.hidden_levels,
        "names": np.array(network.visible_names or (), dtype=np.str_),
    }
