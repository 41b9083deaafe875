"""Where `noisyor fit` and `noisyor resume` read and write, checked before anything is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from noisyor.cli.options import check_output
from noisyor.errors import InvalidSettingError

__all__ = ["check_kept", "check_places", "model_of", "plan_file"]


def check_places(data: Path, out: Path, checkpoint: Path, force: bool) -> None:
    """Refuse data that are not there, and places where something of others lies."""
    if not data.exists():
        raise InvalidSettingError(f"{data} does not exist")
    check_output(out, force=force, inputs=[data])
    if out.resolve() == checkpoint.resolve():
        raise InvalidSettingError(f"{out} cannot be both the model and the checkpoint")
    from noisyor.learning.recipes import SEARCH_ENDING

    # What a run of ours keeps there may be replaced: `check_kept` looks at it.
    kept = Path(f"{checkpoint}.json").exists()
    for place in (checkpoint, Path(f"{checkpoint}{SEARCH_ENDING}")):
        if place.exists() and not kept:
            raise InvalidSettingError(
                f"{place} exists and belongs to no run; choose another --checkpoint"
            )
        check_output(place, force=force or kept, inputs=[data])


def check_kept(out: Path, checkpoint: Path, force: bool) -> None:
    """Refuse to begin where a stopped run waits: only who has the locks knows that it stopped."""
    kept = Path(f"{checkpoint}.json")
    if not kept.exists():
        return
    if not force:
        raise InvalidSettingError(
            f"{checkpoint} holds a run that was stopped; `noisyor resume {out}` goes on with it, "
            "--force begins anew"
        )
    from noisyor.cli.fitting.job import check_foreign, read_plan

    check_foreign(read_plan(kept))  # what is no run of ours is not thrown away


def plan_file(given: Path) -> Path | None:
    """The plan of a stopped run, given its model, its checkpoint or itself; or None."""
    for place in (Path(f"{given}.checkpoint.json"), Path(f"{given}.json"), given):
        if place.suffix == ".json" and place.is_file():
            return place
    return None


def model_of(plan: Any, kept: Path, given: Path, out: Path | None, force: bool) -> Path:
    """The file that a stopped run writes: one that the user names, never one that only a plan does.

    MODEL itself, if that is what was given; the one whose checkpoint was given; or that of --out.
    """
    from noisyor._util.paths import check_target
    from noisyor.io.sealed_file import is_sealed

    if out is not None:
        check_output(out, force=force, inputs=[kept, Path(plan.data)])
        return out
    if kept == Path(f"{given}.checkpoint.json"):
        model = given
    else:
        model = Path(plan.checkpoint.removesuffix(".checkpoint"))
        if model.absolute() != Path(plan.out).absolute():
            raise InvalidSettingError(
                f"{kept} says that the model goes to {plan.out}; --out says where you want it"
            )
    check_target(model, (lambda _: True) if force else is_sealed, "noisyor as a model")
    return model
