"""Steps that all experiments share: methods by name, training in phases, bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from noisyor.data.observations import Observations
from noisyor.errors import CheckpointError
from noisyor.inference.max_product import MaxProduct
from noisyor.inference.mean_field import MeanField
from noisyor.learning.phases import Phase, PhasedRun, train_phases
from noisyor.learning.state import StepInfo
from noisyor.model.network import Network
from reproduction.protocol import Context, Outcome, RunSpec

__all__ = [
    "VALIDATION_SHARE",
    "elbos",
    "given",
    "learn",
    "outcome_of",
    "phases_of",
    "split_for",
]

VALIDATION_SHARE = 0.1
"""Share of the training rows that a validation run is scored on and not trained with."""


def outcome_of(
    run: PhasedRun,
    metrics: dict[str, float],
    protocol: dict[str, Any],
    arrays: dict[str, Any] | None = None,
) -> Outcome:
    """Build the outcome of a run, with the constants of its ``protocol``.

    With several phases, the time of an update of each.
    """
    times = [result.history.seconds for result in run.results]
    medians = {
        f"update_median_{phase.name}": float(np.median(seconds))
        for phase, seconds in zip(run.phases, times, strict=True)
        if len(run.phases) > 1 and len(seconds)
    }
    earlier = [each.history.seconds[: each.resumed_at].sum() for each in run.results]
    return Outcome(
        metrics,
        np.concatenate(times),
        float(sum(earlier)),
        {
            "protocol": protocol,
            **{phase.name: phase.method.settings() for phase in run.phases},
        },
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
    """Return the phases of a run; a hybrid spends ``mp_share`` of its steps on max-product."""
    max_product = MaxProduct(
        temperature=temperature,
        ancestors_only=ancestors_only,
        schedule=spec.schedule,
        **given(damping=spec.damping),
    )
    stop = given(tolerance=spec.tolerance)
    if spec.kind == "mp":
        return [Phase("mp", replace(max_product, **stop), spec.steps)]
    if spec.kind in ("vi", "local-vi"):
        return [Phase("vi", MeanField(local=spec.kind == "local-vi", **stop), spec.steps)]
    first = round(mp_share * spec.steps)
    return [
        Phase("mp", max_product, first),
        Phase("vi", MeanField(local=hybrid_local, **stop), spec.steps - first),
    ]


def given(**settings: float | None) -> dict[str, Any]:
    """Return the settings that are not None, so that a method keeps its defaults for the others."""
    return {name: value for name, value in settings.items() if value is not None}


def split_for(
    spec: RunSpec, train_rows: Observations, test_rows: Observations
) -> tuple[Observations, Observations]:
    """Return rows to train on and rows to score on, for a test or a validation run."""
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
    """Train phase by phase, see `train_phases`.

    Every phase has a checkpoint in the context's folder and resumes from it. A checkpoint that
    is damaged or of another version is discarded, and the run starts over.
    """
    total = sum(phase.steps for phase in phases)

    def count(info: StepInfo) -> None:
        context.on_step(info.earlier_steps + info.state.step, total)

    path = context.checkpoints / spec.name
    run = partial(
        train_phases,
        network,
        X,
        phases,
        batch_size=batch_size,
        learning_rate=learning_rate,
        seed=spec.seed,
        callbacks=(count,),
        checkpoint=path,
        resume=True,
        engine=context.engine,
        progress=False,
    )
    try:
        return run()
    except CheckpointError:
        for phase in phases:
            Path(f"{path}.{phase.name}").unlink(missing_ok=True)
        return run()


def elbos(
    network: Network,
    X: Observations,
    context: Context,
    *,
    kinds: Sequence[str],
    last: Phase,
    local: bool = False,
) -> dict[str, float]:
    """Return the mean bounds of rows, by the paper's rules.

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
