"""`noisyor fit` and `noisyor resume`: from a data file to a model file, with stops in between."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisyor.cli.options import (
    check_output,
    data_argument,
    engine_with,
    json_option,
    print_json,
    printable,
    quiet_option,
    reading_options,
    seed_option,
    threads_option,
)
from noisyor.errors import InvalidSettingError

if TYPE_CHECKING:
    from noisyor.cli.fit_job import Fitted
    from noisyor.tables import Table

__all__ = ["fit", "resume"]

NOTHING_FOUND = 1

_SHOWN = 8


def _count(context: Any, option: Any, value: str | None) -> int | str | None:
    """A whole number, or "auto"."""
    if value is None or value == "auto":
        return value
    if not value.isdecimal() or not int(value):
        raise click.BadParameter(f"{value!r} is neither a positive whole number nor 'auto'")
    return int(value)


def _shape(context: Any, option: Any, value: str | None) -> tuple[int, int] | None:
    """Height and width, such as 6,6 or 6x6."""
    if value is None:
        return None
    parts = [part.strip() for part in value.replace("x", ",").split(",")]
    if len(parts) != 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise click.BadParameter(f"{value!r} is not HEIGHT,WIDTH such as 6,6")
    return int(parts[0]), int(parts[1])


@click.command()
@data_argument
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="MODEL",
    help="Model file to write.  [default: name of DATA with .safetensors]",
)
@click.option(
    "--kind",
    type=click.Choice(["factors", "topics", "features"]),
    help="What to learn: causes of columns (any table), a hierarchy of topics (documents), or "
    "features of images.  [default: what DATA is]",
)
@click.option(
    "--components",
    callback=_count,
    metavar="K",
    help="Factors: number of causes, or auto.  [default: auto]",
)
@click.option(
    "--layers",
    type=click.IntRange(min=2),
    metavar="N",
    help="Topics: layers, words included.  [default: 3]",
)
@click.option(
    "--features", type=click.IntRange(min=1), metavar="F", help="Features: number of features."
)
@click.option("--feature-shape", callback=_shape, metavar="H,W", help="Features: their size.")
@click.option(
    "--held-out",
    type=click.FloatRange(min=0.0, max=1.0, max_open=True),
    metavar="SHARE",
    help="Share of the rows to judge the model by.  [default: 0.1 if there are 20 rows]",
)
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Updates.")
@click.option("--batch-size", type=click.IntRange(min=1), metavar="N", help="Rows per update.")
@click.option(
    "--learning-rate", type=click.FloatRange(min=0, min_open=True), metavar="X", help="Of Adam."
)
@click.option("--init", metavar="NAME", help="Where training starts, such as data or paper-3.")
@seed_option
@threads_option
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="State of the run while it lasts.  [default: MODEL.checkpoint]",
)
@click.option("--force", is_flag=True, help="Replace MODEL if it exists.")
@reading_options
@json_option
@quiet_option
def fit(
    data: Path,
    out: Path | None,
    kind: str | None,
    components: int | str | None,
    layers: int | None,
    features: int | None,
    feature_shape: tuple[int, int] | None,
    held_out: float | None,
    steps: int | None,
    batch_size: int | None,
    learning_rate: float | None,
    init: str | None,
    seed: int,
    threads: int | None,
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

    Ctrl-C keeps the state of the run; `noisyor resume MODEL` goes on. Exit code 1: the model was
    written, but finds no cause in any row it was judged by.

    \b
    Examples:
      noisyor fit zoo.csv --id-column animal --components 8
      noisyor fit mails.jsonl --out mails.safetensors --layers 3 --vocabulary 1000
      noisyor fit scans/ --features 5 --feature-shape 6,6
      noisyor fit shop.csv --format baskets --out shop.safetensors
    """
    out = out or Path(data.name.split(".")[0] + ".safetensors")
    checkpoint = checkpoint or Path(f"{out}.checkpoint")
    chosen = _structure(kind, components, layers, features, feature_shape)
    _check_places(data, out, checkpoint, force)

    from noisyor.cli.fit_job import Plan
    from noisyor.tables import ReadOptions

    options = {
        "steps": steps,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "init": init,
    }
    plan = Plan(
        data=str(data),
        out=str(out),
        checkpoint=str(checkpoint),
        kind=chosen[0],
        reading=ReadOptions(**reading).to_json(),
        structure=chosen[1],
        training={name: value for name, value in options.items() if value is not None},
        held_out=held_out,
        seed=seed,
    )
    if force:
        plan.forget()
    return _run(plan, False, threads, as_json, quiet)


@click.command()
@click.argument("model", type=click.Path(path_type=Path), metavar="MODEL_OR_CHECKPOINT")
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of a finished model: further updates. Of a stopped run: updates in total.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="DATA",
    help="The data, if they are no longer where they were.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="MODEL",
    help="Of a finished model: where the new one goes.  [default: in its place]",
)
@click.option("--force", is_flag=True, help="Replace the file of --out if it exists.")
@threads_option
@json_option
@quiet_option
def resume(
    model: Path,
    steps: int | None,
    data: Path | None,
    out: Path | None,
    force: bool,
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Go on with a run that was stopped, or train a finished model further.

    A stopped run ends as if it had never been stopped, to the last bit.

    \b
    Examples:
      noisyor resume zoo.safetensors
      noisyor resume zoo.safetensors --steps 5000 --out better.safetensors
    """
    from dataclasses import replace

    from noisyor.cli.fit_job import more_steps, read_plan

    kept = _plan_file(model)
    if kept is not None:
        if out is not None:
            raise InvalidSettingError(
                "a stopped run writes the model it began with: leave out --out"
            )
        plan = read_plan(kept)
        if data is not None:
            plan = replace(plan, data=str(data))
        if steps is not None:
            plan = replace(plan, training={**plan.training, "steps": steps})
        return _run(plan, True, threads, as_json, quiet)
    if not model.exists():
        raise InvalidSettingError(f"{model}: neither a model nor the checkpoint of a stopped run")
    if out is not None:
        check_output(out, force=force, inputs=[model] + ([data] if data else []))
    fitted = more_steps(
        model,
        out or model,
        data,
        {},
        steps,
        engine=engine_with(threads),
        progress=False if quiet or as_json else None,
    )
    return _tell(fitted, out or model, as_json, quiet)


def _structure(
    kind: str | None,
    components: int | str | None,
    layers: int | None,
    features: int | None,
    feature_shape: tuple[int, int] | None,
) -> tuple[Any, dict[str, Any]]:
    """Kind and arguments of the learning function; options must belong to one kind."""
    own: dict[str, dict[str, Any]] = {
        "factors": {"n_components": components},
        "topics": {"n_layers": layers},
        "features": {"n_components": features, "feature_shape": feature_shape},
    }
    given = {
        name: {key: value for key, value in options.items() if value is not None}
        for name, options in own.items()
    }
    used = [name for name, options in given.items() if options]
    if len(used) > 1 or (kind is not None and used and used != [kind]):
        raise InvalidSettingError(
            "--components belongs to factors, --layers to topics, --features and --feature-shape "
            f"to features; they cannot be mixed{f' with --kind {kind}' if kind else ''}"
        )
    chosen = kind or (used[0] if used else None)
    return chosen, given[chosen] if chosen else {}


def _check_places(data: Path, out: Path, checkpoint: Path, force: bool) -> None:
    if not data.exists():
        raise InvalidSettingError(f"{data} does not exist")
    check_output(out, force=force, inputs=[data])
    kept = Path(f"{checkpoint}.json")
    if kept.exists() and not force:
        raise InvalidSettingError(
            f"{checkpoint} holds a run that was stopped; `noisyor resume {out}` goes on with it, "
            "--force begins anew"
        )
    if out.resolve() == checkpoint.resolve():
        raise InvalidSettingError(f"{out} cannot be both the model and the checkpoint")
    if kept.exists():
        from noisyor.cli.fit_job import read_plan

        read_plan(kept)  # what is no run of ours is not thrown away
    elif checkpoint.exists():
        raise InvalidSettingError(
            f"{checkpoint} exists and belongs to no run; choose another --checkpoint"
        )
    check_output(checkpoint, force=force, inputs=[data])


def _plan_file(given: Path) -> Path | None:
    for place in (Path(f"{given}.checkpoint.json"), Path(f"{given}.json"), given):
        if place.suffix == ".json" and place.is_file():
            return place
    return None


def _run(plan: Any, resuming: bool, threads: int | None, as_json: bool, quiet: bool) -> int:
    from noisyor.cli.fit_job import run

    def announce(table: Table) -> None:
        if not quiet and not as_json and sys.stderr.isatty():
            size = f"{table.observations.n_rows:,} rows of {table.observations.n_visible:,} columns"
            click.echo(f"learning from {size} in {plan.data} ...", err=True)

    try:
        fitted = run(
            plan,
            resume=resuming,
            engine=engine_with(threads),
            progress=False if quiet or as_json else None,
            announce=announce,
        )
    except KeyboardInterrupt:
        if Path(plan.checkpoint).exists():
            click.echo(
                f"noisyor: the run is kept in {plan.checkpoint}; "
                f"to go on: noisyor resume {plan.out}",
                err=True,
            )
        else:
            plan.forget()
        raise
    return _tell(fitted, Path(plan.out), as_json, quiet)


def _tell(fitted: Fitted, out: Path, as_json: bool, quiet: bool) -> int:
    """Print what was learned; the exit code says whether any cause was found."""
    network, data = fitted.learned.network, fitted.table.observations
    if as_json:
        print_json(
            {
                "model": str(out),
                "kind": fitted.kind,
                "rows": data.n_rows,
                "columns": data.n_visible,
                "hidden": network.n_hidden,
                "layers": network.n_layers,
                "edges": network.n_edges,
                "held_out_rows": fitted.n_held_out,
                "elbo": fitted.score.mean,
                "elbo_standard_error": fitted.score.standard_error,
                "independent": fitted.reference.mean,
                "active_causes": fitted.n_active,
                "settings": fitted.learned.settings,
            }
        )
    elif not quiet:
        click.echo(printable("\n".join(_lines(fitted, out))))
    if fitted.n_active:
        return 0
    click.echo(
        "noisyor: nothing found: the model puts every row down to noise; "
        "try another --init, more --steps or fewer causes",
        err=True,
    )
    return NOTHING_FOUND


def _lines(fitted: Fitted, out: Path) -> list[str]:
    from noisyor.network.labels import hidden_label

    network, data = fitted.learned.network, fitted.table.observations
    share = data.n_active / max(1, data.n_rows * data.n_visible - data.n_missing)
    where = f"{fitted.n_held_out} held-out rows" if fitted.n_held_out else "the training rows"
    lines = [
        f"data    {data.n_rows:,} rows, {data.n_visible:,} columns, {100 * share:.1f} % ones"
        + (f", {data.n_missing:,} missing" if data.n_missing else ""),
        f"model   {fitted.kind}, {network.n_hidden:,} hidden nodes in {network.n_layers} "
        f"layer{'s' * (network.n_layers > 1)}: {out}",
        f"bound   {fitted.score.mean:.3f} nats a row on {where}",
        f"        {fitted.reference.mean:.3f} if all columns were independent",
    ]
    prior = network.prior_probability
    if fitted.kind != "features":
        lines.append("likely causes, each with its probability:")
        order = sorted(range(network.n_hidden), key=lambda k: -prior[k])[:_SHOWN]
        lines += [f"  {prior[k]:.3f}  {hidden_label(network, k)}" for k in order]
        if network.n_hidden > _SHOWN:
            lines.append(f"  ... and {network.n_hidden - _SHOWN:,} more: noisyor info {out}")
    return lines
