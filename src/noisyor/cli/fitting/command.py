"""`noisyor fit` and `noisyor resume`: from a data file to a model file, with stops in between."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from noisyor.cli.fitting.places import check_kept, check_places, model_of, plan_file
from noisyor.cli.fitting.structure import count, shape, structure_of
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
    callback=count,
    metavar="K",
    help="Number of causes (factors, features), or auto (factors).  [default: auto]",
)
@click.option(
    "--objective",
    type=click.Choice(["auto", "mdl", "likelihood", "hamming"]),
    help="Factors: few causes that describe the table, or fewest wrong entries.  [default: auto]",
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
@click.option("--feature-shape", callback=shape, metavar="H,W", help="Features: their size.")
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
    chosen, structure = structure_of(kind, components, objective, topics, layers, feature_shape)
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
    check_places(data, out, checkpoint, force)  # first: a lock is a file beside them

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
        check_places(data, out, checkpoint, force)  # again: nobody can change them from now on
        check_kept(out, checkpoint, force)
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

    kept = plan_file(model)
    if kept is not None:
        plan = read_plan(kept)
        plan = replace(plan, out=str(model_of(plan, kept, model, out, force)))
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


def _run(
    plan: Any,
    resuming: bool,
    threads: int | None,
    time_limit: float | None,
    as_json: bool,
    quiet: bool,
) -> int:
    looked_at = not quiet and not as_json and sys.stderr.isatty()
    if looked_at:  # first of all: what follows imports a compiler
        click.echo(f"reading {plan.data} ...", err=True)
    from noisyor.cli.fitting.job import read_rows, run

    try:
        began = time.monotonic()
        table = read_rows(plan)
        for note in () if quiet else table.notes:
            click.echo(f"note: {note}", err=True)
        if looked_at:
            size = f"{table.observations.n_rows:,} rows of {table.observations.n_visible:,} columns"
            click.echo(f"learning from {size} ...", err=True)
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
