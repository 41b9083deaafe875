"""`noisyor fit` and `noisyor resume`: from a data file to a model file, with stops in between."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from noisyor.cli.fitting.summary import tell
from noisyor.cli.options import (
    PATH,
    check_output,
    data_argument,
    engine_with,
    force_option,
    json_option,
    out_option,
    quiet_option,
    reading_options,
    seed_option,
    steps_option,
    threads_option,
    time_limit_option,
)
from noisyor.errors import InvalidSettingError

__all__ = ["fit", "resume"]

_STRUCTURE = {
    "factors": {"n_components", "objective"},
    "topics": {"n_layers"},
    "features": {"n_components", "feature_shape"},
}


def _is_count(text: str) -> bool:
    """Whether a text is a positive whole number of sane length."""
    return text.isdecimal() and len(text) < 10 and int(text) > 0


def _count(context: Any, option: Any, value: str | None) -> int | str | None:
    """A whole number, or "auto"."""
    if value is None or value == "auto":
        return value
    if not _is_count(value):
        raise click.BadParameter(f"{value!r} is neither a positive whole number nor 'auto'")
    return int(value)


def _shape(context: Any, option: Any, value: str | None) -> tuple[int, int] | None:
    """Height and width, such as 6,6 or 6x6."""
    if value is None:
        return None
    parts = [part.strip() for part in value.replace("x", ",").split(",")]
    if len(parts) != 2 or not all(map(_is_count, parts)):
        raise click.BadParameter(f"{value!r} is not HEIGHT,WIDTH such as 6,6")
    return int(parts[0]), int(parts[1])


@click.command()
@data_argument
@out_option("Model file to write.  [default: name of DATA with .safetensors]", metavar="MODEL")
@click.option(
    "--kind",
    type=click.Choice(["factors", "topics", "features"]),
    help="What to learn: causes of columns (any table), a hierarchy of topics (documents), or "
    "features of images.  [default: depends on DATA]",
)
@click.option(
    "--components",
    callback=_count,
    metavar="K",
    help="Number of causes (factors, features), or auto (factors).  [default: auto]",
)
@click.option(
    "--objective",
    type=click.Choice(["auto", "description", "probability", "errors"]),
    help="Factors: what they are for. Few causes that describe the table, a high probability of "
    "unseen rows, or fewest wrong entries; auto describes, unless a plain mixture is clearly "
    "better.  [default: auto]",
)
@click.option(
    "--topics",
    type=click.IntRange(min=1),
    metavar="N",
    help="Topics of documents: so many of them.  [default: a hierarchy, as many as fit]",
)
@click.option(
    "--layers",
    type=click.IntRange(min=2),
    metavar="N",
    help="Topics: layers, words included.  [default: 3]",
)
@click.option("--feature-shape", callback=_shape, metavar="H,W", help="Features: their size.")
@click.option(
    "--held-out",
    type=click.FloatRange(min=0.0, max=1.0, max_open=True),
    metavar="SHARE",
    help="Share of the rows to evaluate on.  [default: 0.1, or 0 below 20 rows]",
)
@steps_option("Number of updates.")
@click.option("--batch-size", type=click.IntRange(min=1), metavar="N", help="Rows per update.")
@click.option(
    "--learning-rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="X",
    help="Learning rate of Adam.",
)
@click.option("--init", metavar="NAME", help="Where training starts, such as data or paper-3.")
@seed_option
@threads_option()
@time_limit_option
@click.option(
    "--cluster",
    metavar="WHERE",
    help="Dask workers to learn on: tcp://HOST:PORT of a scheduler, or local:N for N workers here. "
    "DATA lies on storage that they see; Parquet and folders of write_rows are not copied.",
)
@click.option(
    "--checkpoint",
    type=PATH,
    metavar="FILE",
    help="State of the run while it lasts.  [default: MODEL.checkpoint]",
)
@force_option("Replace MODEL if it exists.")
@reading_options
@json_option
@quiet_option
def fit(
    data: Path,
    out: Path | None,
    kind: str | None,
    components: int | str | None,
    objective: str | None,
    topics: int | None,
    layers: int | None,
    feature_shape: tuple[int, int] | None,
    held_out: float | None,
    steps: int | None,
    batch_size: int | None,
    learning_rate: float | None,
    init: str | None,
    seed: int,
    threads: int | None,
    time_limit: float | None,
    cluster: str | None,
    checkpoint: Path | None,
    force: bool,
    reading: dict[str, Any],
    as_json: bool,
    quiet: bool,
) -> int:
    """Learn a model from DATA and write it to a file.

    DATA is a CSV, TSV, JSON lines, Parquet, .npy, .npz or .mat file, a folder of .txt files, a
    folder of .png images, or a list of baskets (--format baskets). Entries are 0, 1 or missing
    (empty, NA, ?).

    Ctrl-C keeps the best so far, of the search as well; `noisyor resume MODEL` goes on from it, and
    with --time-limit 1 writes it as it is. Exit code 1: the model was written, but no row it was
    evaluated on has an active cause.

    \b
    Examples:
      noisyor fit zoo.csv --id-column animal --components 8
      noisyor fit mails.jsonl --out mails.safetensors --layers 3 --vocabulary 1000
      noisyor fit mails.jsonl --topics 20
      noisyor fit scans/ --components 5 --feature-shape 6,6 --time-limit 60
      noisyor fit shop.csv --format baskets --out shop.safetensors
    """
    out = out or Path(data.name.split(".")[0] + ".safetensors")
    checkpoint = checkpoint or Path(f"{out}.checkpoint")
    chosen, structure = _structure(kind, components, objective, topics, layers, feature_shape)
    options = {
        "steps": steps,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "init": init,
    }
    training = {name: value for name, value in options.items() if value is not None}
    if cluster is not None:
        if not (held_out is threads is time_limit is None):
            raise InvalidSettingError(
                "--held-out, --threads and --time-limit do not go together with --cluster"
            )
        if not data.exists():
            raise InvalidSettingError(f"{data} does not exist")
        from noisyor.cli.fitting.cluster import fit_on_cluster

        return fit_on_cluster(
            cluster,
            data,
            out,
            checkpoint,
            kind=chosen,
            structure=structure,
            training=training,
            reading=reading,
            seed=seed,
            force=force,
            as_json=as_json,
            quiet=quiet,
        )
    _check_places(data, out, checkpoint, force)  # first: a lock is a file beside them

    from noisyor._util.locks import locked
    from noisyor.cli.fitting.job import Plan
    from noisyor.tables import ReadOptions

    plan = Plan(
        data=str(data),
        out=str(out),
        checkpoint=str(checkpoint),
        kind=chosen,
        reading=ReadOptions(**reading).to_json(),
        structure=structure,
        training=training,
        held_out=held_out,
        seed=seed,
    )
    with locked(out, "noisyor fit"), locked(checkpoint, "noisyor fit"):
        _check_places(data, out, checkpoint, force)  # again: nobody can change them from now on
        _check_kept(out, checkpoint, force)
        if force:
            plan.forget()
        return _run(plan, False, threads, time_limit, as_json, quiet)


@click.command()
@click.argument("model", type=PATH, metavar="MODEL_OR_CHECKPOINT")
@steps_option("Finished model: further updates. Stopped run: updates in total.")
@click.option(
    "--data", type=PATH, metavar="DATA", help="The data, if they are no longer where they were."
)
@out_option("Where to write the model.  [default: in its place]", metavar="MODEL")
@force_option("Replace the file of --out if it exists.")
@threads_option()
@time_limit_option
@json_option
@quiet_option
def resume(
    model: Path,
    steps: int | None,
    data: Path | None,
    out: Path | None,
    force: bool,
    threads: int | None,
    time_limit: float | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Continue a run that was stopped, or train a finished model further.

    A stopped run ends as if it had never been stopped, to the last bit.

    \b
    Examples:
      noisyor resume zoo.safetensors
      noisyor resume zoo.safetensors --steps 5000 --out better.safetensors
    """
    from dataclasses import replace

    from noisyor._util.locks import locked
    from noisyor.cli.fitting.job import check_foreign, more_steps, read_plan

    kept = _plan_file(model)
    if kept is not None:
        plan = read_plan(kept)
        plan = replace(plan, out=str(_model_of(plan, kept, model, out, force)))
        check_foreign(plan)
        if data is not None:
            plan = replace(plan, data=str(data))
        if steps is not None:
            plan = replace(plan, training={**plan.training, "steps": steps})
        with (
            locked(Path(plan.out), "noisyor resume"),
            locked(Path(plan.checkpoint), "noisyor resume"),
        ):
            if not kept.exists():
                raise InvalidSettingError(f"{kept}: the run has ended in the meantime")
            return _run(plan, True, threads, time_limit, as_json, quiet)
    if not model.exists():
        raise InvalidSettingError(f"{model}: neither a model nor the checkpoint of a stopped run")
    if out is not None:
        check_output(out, force=force, inputs=[model] + ([data] if data else []))
    with locked(out or model, "noisyor resume"):
        fitted = more_steps(
            model,
            out or model,
            data,
            steps,
            engine=engine_with(threads),
            progress=not (quiet or as_json),
            time_limit=_for_learning(time_limit, 0.0),
        )
    return tell(fitted, data, out or model, as_json, quiet)


def _structure(
    kind: str | None,
    components: int | str | None,
    objective: str | None,
    topics: int | None,
    layers: int | None,
    feature_shape: tuple[int, int] | None,
) -> tuple[Any, dict[str, Any]]:
    """Kind, None if the data decide, and arguments of the learning function; none may be idle."""
    structure = {"n_components": components, "n_layers": layers, "feature_shape": feature_shape}
    given = {"objective": objective, **structure}
    given = {name: value for name, value in given.items() if value is not None}
    if topics is not None:
        if given or kind not in (None, "topics"):
            raise InvalidSettingError(
                "--topics says how many topics to learn; --components, --objective, --layers, "
                "--feature-shape and other kinds do not go with it"
            )
        return "topics", {"n_components": topics}
    fitting = [name for name, own in _STRUCTURE.items() if set(given) <= own]
    if not fitting or (kind is not None and kind not in fitting):
        raise InvalidSettingError(
            "--components belongs to factors and features, --objective to factors, --layers to "
            "topics, --feature-shape to features; they cannot be mixed"
            + (f" with --kind {kind}" if kind else "")
        )
    if kind is None and len(fitting) == 1:
        kind = fitting[0]
    if kind == "features" and components == "auto":
        raise InvalidSettingError("--components auto is for factors; features need a number")
    return kind, given


def _check_places(data: Path, out: Path, checkpoint: Path, force: bool) -> None:
    if not data.exists():
        raise InvalidSettingError(f"{data} does not exist")
    check_output(out, force=force, inputs=[data])
    if out.resolve() == checkpoint.resolve():
        raise InvalidSettingError(f"{out} cannot be both the model and the checkpoint")
    from noisyor.learning.recipes.job import SEARCH_ENDING

    # What a run of ours keeps there may be replaced: `_check_kept` looks at it.
    kept = Path(f"{checkpoint}.json").exists()
    for place in (checkpoint, Path(f"{checkpoint}{SEARCH_ENDING}")):
        if place.exists() and not kept:
            raise InvalidSettingError(
                f"{place} exists and belongs to no run; choose another --checkpoint"
            )
        check_output(place, force=force or kept, inputs=[data])


def _check_kept(out: Path, checkpoint: Path, force: bool) -> None:
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


def _plan_file(given: Path) -> Path | None:
    for place in (Path(f"{given}.checkpoint.json"), Path(f"{given}.json"), given):
        if place.suffix == ".json" and place.is_file():
            return place
    return None


def _model_of(plan: Any, kept: Path, given: Path, out: Path | None, force: bool) -> Path:
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


def _run(
    plan: Any,
    resuming: bool,
    threads: int | None,
    time_limit: float | None,
    as_json: bool,
    quiet: bool,
) -> int:
    from noisyor.cli.fitting.job import read_rows, run

    try:
        began = time.monotonic()
        table = read_rows(plan)
        if not quiet and not as_json and sys.stderr.isatty():
            size = f"{table.observations.n_rows:,} rows of {table.observations.n_visible:,} columns"
            click.echo(f"learning from {size} in {plan.data} ...", err=True)
        fitted = run(
            plan,
            table,
            resume=resuming,
            engine=engine_with(threads),
            progress=not (quiet or as_json),
            time_limit=_for_learning(time_limit, time.monotonic() - began),
        )
    except KeyboardInterrupt:
        if plan.is_kept():
            click.echo(
                f"noisyor: the best so far is kept in {plan.checkpoint}*; "
                f"to continue: noisyor resume {plan.out}",
                err=True,
            )
        else:
            plan.forget()
        raise
    return tell(fitted, Path(plan.data), Path(plan.out), as_json, quiet)


def _for_learning(time_limit: float | None, spent: float) -> float | None:
    """Seconds for learning: what is learned has to be evaluated and written, too."""
    return None if time_limit is None else max(0.9 * time_limit - spent, 1e-3)
