"""What the runs of all experiments share: methods by name, training in phases, bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor.data.observations import Observations
from noisyor.errors import CheckpointError
from noisyor.experiments.protocol import Context, Outcome, RunSpec
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.mean_field import MeanField
from noisyor.inference.method import Method
from noisyor.learning.train import StepInfo, TrainingResult, train
from noisyor.network.graph import Network

__all__ = [
    "VALIDATION_SHARE",
    "Phase",
    "PhasedRun",
    "elbos",
    "learn",
    "phases_of",
    "split_for",
]

VALIDATION_SHARE = 0.1
"""Share of the training rows that a validation run is scored on and not trained with."""


class Phase(NamedTuple):
    """Updates of one method."""

    name: str
    method: Method
    steps: int


class PhasedRun(NamedTuple):
    """Result of all ``phases``.

    ``networks`` after each phase; ``update_seconds`` of each phase, (steps,); ``earlier_seconds``
    of those updates that an interrupted attempt had already done.
    """

    phases: tuple[Phase, ...]
    networks: tuple[Network, ...]
    update_seconds: tuple[FloatArray, ...]
    earlier_seconds: float

    @property
    def network(self) -> Network:
        """The network after the last phase."""
        return self.networks[-1]

    def outcome(self, metrics: dict[str, float], arrays: dict[str, Any] | None = None) -> Outcome:
        """What the run hands back; with several phases, the time of an update of each."""
        medians = {
            f"update_median_{phase.name}": float(np.median(seconds))
            for phase, seconds in zip(self.phases, self.update_seconds, strict=True)
            if len(self.phases) > 1 and len(seconds)
        }
        return Outcome(
            metrics,
            np.concatenate(self.update_seconds),
            self.earlier_seconds,
            {phase.name: phase.method.settings() for phase in self.phases},
            arrays or {},
            medians,
        )


def phases_of(
    spec: RunSpec,
    *,
    temperature: float,
    ancestors_only: bool = False,
    mp_share: float = 1.0,
    hybrid_local: bool = False,
) -> list[Phase]:
    """Phases of a run. A hybrid spends ``mp_share`` of its steps on max-product."""
    max_product = MaxProduct(
        temperature=temperature, ancestors_only=ancestors_only, schedule=spec.schedule
    )
    if spec.kind == "mp":
        return [Phase("mp", max_product, spec.steps)]
    if spec.kind in ("vi", "local-vi"):
        return [Phase("vi", MeanField(local=spec.kind == "local-vi"), spec.steps)]
    first = round(mp_share * spec.steps)
    return [
        Phase("mp", max_product, first),
        Phase("vi", MeanField(local=hybrid_local), spec.steps - first),
    ]


def split_for(
    spec: RunSpec, train_rows: Observations, test_rows: Observations
) -> tuple[Observations, Observations]:
    """Rows to train on and rows to score on, for the part that the run is for."""
    if spec.part == "test":
        return train_rows, test_rows
    return train_rows.split(1.0 - VALIDATION_SHARE, spec.seed)


def learn(
    network: Network,
    X: Observations,
    phases: Sequence[Phase],
    *,
    spec: RunSpec,
    context: Context,
    batch_size: int | None,
    learning_rate: float,
) -> PhasedRun:
    """Train phase by phase; only the parameters are handed on, Adam starts afresh.

    Every phase has a checkpoint in the context's folder and goes on from it.
    """
    total = sum(phase.steps for phase in phases)
    networks, seconds = [], []
    done, earlier = 0, 0.0
    for number, phase in enumerate(phases):
        fresh = 0
        offset = done

        def count(info: StepInfo, offset: int = offset) -> None:
            nonlocal fresh
            fresh += 1
            context.on_step(offset + info.state.step, total)

        path = context.checkpoints / f"{spec.name}.{number}.safetensors"

        def attempt(network: Network = network, phase: Phase = phase) -> TrainingResult:
            return train(
                network,
                X,
                phase.method,
                steps=phase.steps,
                batch_size=batch_size,
                learning_rate=learning_rate,
                seed=spec.seed,
                callbacks=(count,),
                checkpoint=path,  # noqa: B023
                resume=True,
                engine=context.engine,
                progress=False,
            )

        try:
            result = attempt()
        except CheckpointError:  # of another version or damaged: the run can always start over
            path.unlink(missing_ok=True)
            fresh = 0
            result = attempt()
        earlier += float(result.history.seconds[: len(result.history.seconds) - fresh].sum())
        network = result.network
        networks.append(network)
        seconds.append(result.history.seconds)
        done += phase.steps
    return PhasedRun(tuple(phases), tuple(networks), tuple(seconds), earlier)


def elbos(
    network: Network,
    X: Observations,
    context: Context,
    *,
    kinds: Sequence[str],
    last: Phase,
    local: bool = False,
) -> dict[str, float]:
    """Mean bounds of rows, by the paper's rules.

    Parameters
    ----------
    kinds : which bounds: ``"mp"``, or ``"mp"`` and ``"vi"``.
    last : the phase that trained last. The mode at which Elbo^MP is taken is its own: that of
        max-product, or ``q >= 0.5``.
    local : whether Elbo^VI is that of local models.

    Returns
    -------
    ``elbo`` the larger of the means, and ``elbo_mp``, ``elbo_vi`` as far as asked for.
    """
    result: dict[str, float] = {}
    engine = context.engine
    if last.name == "mp":
        result["elbo_mp"] = float(last.method.bounds(network, X, engine=engine).elbo.mean())
    if "vi" in kinds:
        posterior = MeanField(local=local, keep_q=False).posterior(network, X, engine=engine)
        assert posterior.elbo_vi is not None
        result["elbo_vi"] = float(posterior.elbo_vi.mean())
        if last.name == "vi":
            result["elbo_mp"] = float(posterior.log_joint.mean())
    return {"elbo": max(result.values()), **result}
